"""What goes over the wire: scalars, strings and arrays, and nothing that could run code.

`Content` is plain data; only `to_records` and `from_records` know Flower. Whoever reads a message from elsewhere gets
a `Content` whose every part was checked, or a `GlocalfairError` that says what is wrong with it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from glocalfair.errors import GlocalfairError
from glocalfair.types import Value

if TYPE_CHECKING:
    from flwr.app import Array, RecordDict

VALUES, ARRAYS = "glocalfair.values", "glocalfair.arrays"
PAYLOAD = "payload."
DTYPES = ("float32", "float64", "int32", "int64", "bool")
T = TypeVar("T", str, int, float)


@dataclass(frozen=True, eq=False)
class Content:
    """One message: named scalars and strings, and named arrays."""

    values: Mapping[str, str | int | float] = field(default_factory=dict)
    arrays: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, payload: Mapping[str, Value], **values: Any) -> Content:
        """Put a method's payload and our own values (arrays among them) into one message."""
        mixed = {**values, **{PAYLOAD + key: value for key, value in payload.items()}}
        arrays = {key: value for key, value in mixed.items() if isinstance(value, np.ndarray)}
        plain = {key: value for key, value in mixed.items() if key not in arrays}
        return cls({k: v.item() if isinstance(v, np.generic) else v for k, v in plain.items()}, arrays)

    @property
    def payload(self) -> dict[str, Value]:
        """What the method added."""
        both: dict[str, Value] = {**self.values, **self.arrays}
        return {key.removeprefix(PAYLOAD): value for key, value in both.items() if key.startswith(PAYLOAD)}

    def value(self, key: str, kind: type[T]) -> T:
        """Return a scalar or string of this type."""
        found = self.values.get(key)
        # `type is`, because True is an int to isinstance.
        if type(found) is not kind:
            raise GlocalfairError(f"'{key}' of type {type(found).__name__}, expected {kind.__name__}")
        return found

    def array(self, key: str) -> np.ndarray[Any, Any]:
        """Return an array."""
        if key not in self.arrays:
            raise GlocalfairError(f"no array '{key}'")
        return self.arrays[key]

    @property
    def reason(self) -> str:
        """Why a request was refused; it is written to logs, so it must not be long."""
        return self.value("reason", str)[:500]

    def digest(self) -> str:
        """Return the same text for the same message and for no other."""
        hashed = hashlib.blake2b(digest_size=16)
        for key, value in sorted(self.values.items()):
            hashed.update(f"{key}={type(value).__name__}:{value!r}\x1e".encode())
        for key, array in sorted(self.arrays.items()):
            hashed.update(f"{key}={array.dtype}{array.shape}\x1e".encode())
            hashed.update(np.ascontiguousarray(array).tobytes())
        return hashed.hexdigest()


def to_records(content: Content) -> RecordDict:
    """Write a message as Flower's records."""
    from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

    arrays = {key: Array(np.ascontiguousarray(value)) for key, value in content.arrays.items()}
    return RecordDict({VALUES: ConfigRecord(dict(content.values)), ARRAYS: ArrayRecord(arrays)})


def from_records(records: RecordDict) -> Content:
    """Read Flower's records; whatever is not a message of ours is an error."""
    from flwr.app import ArrayRecord, ConfigRecord

    values, arrays = records.get(VALUES), records.get(ARRAYS)
    if not isinstance(values, ConfigRecord) or not isinstance(arrays, ArrayRecord):
        raise GlocalfairError(f"records {sorted(records)}, expected '{ARRAYS}' and '{VALUES}'")
    for key, value in values.items():
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise GlocalfairError(f"'{key}' of type {type(value).__name__}, expected a number or text")
    return Content(dict(values), {key: _array(key, sent) for key, sent in arrays.items()})  # type: ignore[arg-type]


def _array(key: str, sent: Array) -> np.ndarray[Any, Any]:
    """Read an array by hand: the size that its header claims is checked against the bytes before it is believed."""
    stream = BytesIO(sent.data)
    try:
        if sent.stype != "numpy.ndarray" or np.lib.format.read_magic(stream) != (1, 0):
            raise ValueError("no .npy of version 1.0")
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    except (ValueError, TypeError, SyntaxError, RecursionError) as error:
        raise GlocalfairError(f"array '{key}' is damaged: {error}") from error
    if dtype.name not in DTYPES:
        raise GlocalfairError(f"array '{key}' of type {dtype}, expected one of {', '.join(DTYPES)}")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(sent.data) - stream.tell():
        raise GlocalfairError(f"array '{key}' of shape {shape} does not fit its {len(sent.data)} bytes")
    flat = np.frombuffer(sent.data, dtype, offset=stream.tell()).copy()
    return flat.reshape(shape, order="F" if fortran else "C")
