"""Random damage to files from others, random settings, random updates: a GlocalfairError or success, no other end."""

from __future__ import annotations

import importlib.util
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glocalfair import registry
from glocalfair.config import Config, build, dump, load, parse_value, to_mapping
from glocalfair.engines.checks import Expected, accept, unusable
from glocalfair.errors import GlocalfairError
from glocalfair.types import ClientInfo, ClientUpdate
from tests.federations import context, drawn, simulator

from .conftest import Faults
from .fuzz_targets import TARGETS, outcome, seeds

ROOT = Path(__file__).parents[2]
WORDS = [
    b'"',
    b"{",
    b"}",
    b"[",
    b"]",
    b"null",
    b"NaN",
    b"1e999",
    b"-1",
    b"9" * 40,
    b"\\u0000",
    b"\xff",
    b"",
    b":",
    b",",
]


def mutated(content: bytes, rng: random.Random) -> bytes:
    """Change, insert, remove or repeat a few pieces."""
    data = bytearray(content)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(4)
        if kind == 0 and at < len(data):
            data[at] = rng.randrange(256)
        elif kind == 1:
            data[at:at] = rng.choice(WORDS)
        elif kind == 2:
            del data[at : at + rng.choice([1, 2, 8, 200])]
        else:
            data[at : at + rng.randint(0, 6)] = rng.choice(WORDS)
    return bytes(data)


@pytest.mark.parametrize("name", TARGETS)
def test_good_files_are_read(name: str) -> None:
    assert [outcome(name, good) for good in seeds(name)] == ["read"] * len(seeds(name))


@pytest.mark.parametrize("name", TARGETS)
def test_random_damage(name: str, faults: Faults) -> None:
    rng = random.Random(name)
    tried = faults.number(700, 5_000)
    found = [outcome(name, mutated(rng.choice(seeds(name)), rng)) for _ in range(tried)]
    assert "refused" in found
    for result in ("refused", "read"):
        faults.record(f"random damage: {name}", f"{result}, no other end", found.count(result))


@pytest.mark.parametrize(
    "path", sorted((ROOT / "tests" / "reliability" / "corpus").rglob("*.bin")), ids=lambda p: p.name
)
def test_what_the_fuzzer_found_interesting(path: Path) -> None:
    outcome(path.parent.name, path.read_bytes())


def test_the_fuzzer_itself(faults: Faults) -> None:
    """A few seconds of coverage-guided search, where atheris is installed and the table is made."""
    if not faults.thorough or importlib.util.find_spec("atheris") is None:
        return
    spec = importlib.util.spec_from_file_location("fuzz", ROOT / "tools" / "fuzz.py")
    assert spec is not None and spec.loader is not None
    fuzz = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fuzz)
    for name, counts in fuzz.all_targets(list(TARGETS), 60, 1).items():
        for result, count in counts.items():
            faults.record(f"atheris, 60 s: {name}", f"{result}, no other end", count)


# ------------------------------------------------------------------------------------------- settings

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
KNOWN = to_mapping(Config())
keys = st.sampled_from([f"{section}.{key}" for section, content in KNOWN.items() for key in content])


@given(st.lists(st.tuples(keys | st.text(max_size=12), plain), max_size=4))
def test_settings(pairs: list[tuple[str, Any]]) -> None:
    try:
        config = load(None, pairs)
    except GlocalfairError as error:
        assert "\n" not in str(error)
        return
    values = to_mapping(config)
    assert to_mapping(build(values)) == values or "nan" in repr(values)


@given(st.dictionaries(st.sampled_from([*KNOWN, "other"]), plain, max_size=4))
def test_sections(values: dict[str, Any]) -> None:
    try:
        config = build(values)
    except GlocalfairError as error:
        assert "\n" not in str(error)
    else:
        assert isinstance(config, Config)


@given(st.text(max_size=30))
def test_any_text_after_set(text: str) -> None:
    parse_value(text)


@given(st.lists(st.tuples(keys, st.integers(1, 9) | st.floats(0.01, 0.4) | st.text(max_size=6)), max_size=3))
def test_what_is_written_is_read_again(pairs: list[tuple[str, Any]]) -> None:
    import tomllib

    try:
        values = to_mapping(load(None, pairs))
    except GlocalfairError:
        return
    assert tomllib.loads(dump(values)) == json.loads(json.dumps(values))


@pytest.mark.parametrize("name", sorted(registry.methods()))
@settings(max_examples=30)
@given(data=st.data())
def test_settings_of_methods(name: str, data: st.DataObject) -> None:
    kind = registry.methods()[name]
    fields = [*kind.__dataclass_fields__, "other"]
    values = data.draw(st.dictionaries(st.sampled_from(fields), plain, max_size=3))
    try:
        registry.method(name, values).discloses()
    except GlocalfairError as error:
        assert "\n" not in str(error)


# -------------------------------------------------------------------------------------------- updates

METHODS = {name: registry.method(name) for name in sorted(registry.methods())}
SIMULATORS = {name: simulator(method, drawn(3)) for name, method in METHODS.items()}
numbers = st.floats() | st.integers(-5, 10**19) | st.just(10**400)
shapes = st.sampled_from([(), (1,), (2,), (3,), (4,), (2, 3), (3, 2), (0,)])


@st.composite
def payloads(draw: st.DrawFn, keys: list[str], honest: dict[str, Any]) -> Any:
    """Draw a payload that is nearly right: some parts honest, some not."""

    def value(key: str) -> Any:
        kind = draw(st.integers(0, 4))
        if kind == 0:
            return draw(numbers | st.text(max_size=2) | st.none() | st.booleans())
        if kind == 1:
            shape = draw(shapes)
            drawn_ = draw(st.lists(st.floats(), min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
            return np.array(drawn_).reshape(shape)
        if kind == 2:
            return np.asarray(honest[key], dtype=float) * draw(st.sampled_from([-1, 0, 0.5, 2, 1e12, 1e300]))
        return honest[key]

    return {key: value(key) for key in keys if draw(st.integers(0, 9))}


@pytest.mark.parametrize("name", METHODS)
@settings(max_examples=30)
@given(data=st.data())
def test_random_updates_leave_a_valid_model(name: str, data: st.DataObject) -> None:
    """Whatever three clients send, the round ends with finite weights, by server_round or without it."""
    sim = SIMULATORS[name]
    clients = list(sim.clients)[:3]
    size = sim.network.layout.size
    state = sim.start(np.linspace(-1, 1, size)).server
    expected = Expected(sim.method, sim.method.groups(sim.federation.attributes))
    honest = _honest(name)
    updates = []
    for client in clients:
        update = honest[client]
        scale = data.draw(st.sampled_from([1.0, 0.0, -1.0, 1e3, 1e10, 1e17, 1e200, np.nan, np.inf]))
        payload = data.draw(payloads(list(update.payload), dict(update.payload)))
        with np.errstate(all="ignore"):
            updates.append(ClientUpdate(client, update.weights * scale, update.examples, payload))
    asked = {client: honest[client].examples for client in clients}
    usable, rejected = accept(updates, state.weights, asked, expected, data.draw(st.sampled_from([0.0, 1000.0])))
    assert len(usable) + len(rejected) == 3 and all(rejected.values())
    if usable:
        after, log = sim.method.server_round(state, usable, context(tuple(clients), size=size))
        assert unusable(after) is None and np.isfinite(after.weights).all()
        assert all(0 <= c <= 1 + 1e-9 for c in log["coefficients"].values())


_HONEST: dict[str, dict[str, ClientUpdate]] = {}


def _honest(name: str) -> dict[str, ClientUpdate]:
    if name not in _HONEST:
        sim = SIMULATORS[name]
        start = sim.start(np.linspace(-1, 1, sim.network.layout.size))
        _HONEST[name] = {u.client: u for u in sim.train_clients(start, sim.context(1))[0]}
    return _HONEST[name]


@given(numbers, st.dictionaries(st.text(max_size=3), numbers, max_size=2))
def test_random_enrolments(examples: Any, payload: dict[str, Any]) -> None:
    for method in METHODS.values():
        reason = Expected(method, 2).enrolment(ClientInfo(examples, payload))
        assert reason is None or reason


def test_no_file_format_that_can_run_code_is_read() -> None:
    """The sources have no unpickler, no eval and no exec; torch.load takes tensors only."""
    done = subprocess.run(
        [
            "grep",
            "-rnE",
            r"pickle\.load|allow_pickle=True|[^._a-z]eval\(|[^._a-z]exec\(|yaml\.load|marshal|shelve|torch\.load",
            str(ROOT / "src"),
            "--include=*.py",
        ],
        capture_output=True,
        text=True,
    )
    assert [line for line in done.stdout.splitlines() if "weights_only=True" not in line] == []
    assert sys.version_info >= (3, 11)
