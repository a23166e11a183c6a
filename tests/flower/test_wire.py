"""Messages: what is sent arrives bit for bit, and what is no message of ours is an error in words."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

pytest.importorskip("flwr", reason="needs the flower extra")

from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from glocalfair.errors import GlocalfairError
from glocalfair.flower.transport import through_bytes
from glocalfair.flower.wire import ARRAYS, VALUES, Content, from_records, to_records

anything = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=20),
    arrays.arrays(
        st.sampled_from([np.float32, np.float64, np.int64, np.int32, np.bool_]), arrays.array_shapes(min_side=0)
    ),
)


@given(st.dictionaries(st.text(max_size=10), anything, max_size=4))
def test_whatever_is_sent_arrives(payload: dict[str, Any]) -> None:
    sent = Content.of(payload, kind="update", weights=np.arange(3.0))
    read = from_records(through_bytes(to_records(sent)))
    assert read.digest() == sent.digest()
    assert set(read.payload) == set(payload)
    for key, value in payload.items():
        np.testing.assert_array_equal(read.payload[key], value)
        assert type(read.payload[key]) is type(value)


def test_digests_tell_messages_apart() -> None:
    one = Content({"a": 1}, {"w": np.zeros(4)})
    others = [
        Content({"a": 1.0}, {"w": np.zeros(4)}),
        Content({"a": "1"}, {"w": np.zeros(4)}),
        Content({"a": 1}, {"w": np.zeros((2, 2))}),
        Content({"a": 1}, {"w": np.zeros(4, dtype=np.float32)}),
        Content({"a": 1}, {"v": np.zeros(4)}),
    ]
    assert len({each.digest() for each in [one, *others]}) == 6
    assert Content({"a": 1}, {"w": np.zeros(4)}).digest() == one.digest()


class Evil:
    def __reduce__(self) -> Any:
        return (pytest.fail, ("a message ran code",))


def npy(text: str, body: bytes = b"") -> bytes:
    header = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + body


HOSTILE = {
    "pickle": pickle.dumps(Evil()),
    "object array": npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", pickle.dumps(Evil())),
    "too large": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }", bytes(8)),
    "negative": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -1), }", bytes(8)),
    "text": npy("{'descr': '<U4', 'fortran_order': False, 'shape': (1,), }", bytes(16)),
    "code": npy("__import__('os').abort()"),
    "nothing": b"",
    "cut": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (4,), }", bytes(31)),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_array_is_an_error(kind: str) -> None:
    array = Array(dtype="float64", shape=(1,), stype="numpy.ndarray", data=HOSTILE[kind])
    records = RecordDict({VALUES: ConfigRecord({}), ARRAYS: ArrayRecord({"weights": array})})
    with pytest.raises(GlocalfairError, match="'weights'"):
        from_records(records)


@pytest.mark.parametrize(
    "records",
    [
        RecordDict(),
        RecordDict({"arrays": ArrayRecord()}),
        RecordDict({VALUES: ConfigRecord({}), ARRAYS: MetricRecord({})}),
        RecordDict({VALUES: ConfigRecord({"a": b"bytes"}), ARRAYS: ArrayRecord()}),
        RecordDict({VALUES: ConfigRecord({"a": [1, 2]}), ARRAYS: ArrayRecord()}),
        RecordDict({VALUES: ConfigRecord({"a": True}), ARRAYS: ArrayRecord()}),
    ],
    ids=["empty", "other", "metrics", "bytes", "list", "bool"],
)
def test_other_records_are_an_error(records: Any) -> None:
    with pytest.raises(GlocalfairError, match="expected"):
        from_records(records)


@given(st.binary(max_size=300))
def test_random_bytes_never_crash(data: bytes) -> None:
    array = Array(dtype="float64", shape=(1,), stype="numpy.ndarray", data=data)
    with pytest.raises(GlocalfairError):
        from_records(RecordDict({VALUES: ConfigRecord({}), ARRAYS: ArrayRecord({"weights": array})}))
