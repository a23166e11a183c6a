"""Updates are checked before they are used: one broken or hostile client must not break everybody's model."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from glocalfair.aggregation.robust import squared, step_norms
from glocalfair.engines.state import SimulationState
from glocalfair.methods.base import Disclosure, Method
from glocalfair.types import ClientInfo, ClientUpdate, Floats, ServerState, Value

MOST_EXAMPLES = 10**9
"""More rows than this nobody enrols with: a count is also a weight."""
MOST_LOSS = 1e12
"""No row has a higher loss: sums over a federation stay finite."""
MOST_WEIGHT = 1e18
"""No weight is larger: its square stays finite in float32."""
_LONGEST = 120
_FEW = 32
COUNTS = ("totals", "group_counts", "group_rates")


@dataclass(frozen=True)
class Expected:
    """What an honest client sends: what the method declares, and for how many groups."""

    method: Method
    groups: int = 0

    @cached_property
    def _declared(self) -> dict[bool, dict[str, tuple[Disclosure, tuple[int, ...]]]]:
        """What a payload holds and its shape, in order: once on enrolment (True) and in every round (False)."""
        told = sorted(self.method.discloses(), key=lambda d: d.key)
        sent = [d for d in told if d.key not in ("weights", "examples")]
        return {once: {d.key: (d, self._shape(d)) for d in sent if d.once == once} for once in (True, False)}

    def _shape(self, declared: Disclosure) -> tuple[int, ...]:
        return tuple(self.groups if size == "groups" else size for size in declared.shape)

    def enrolment(self, info: ClientInfo) -> str | None:
        """Return why a client must not take part, or None if it may."""
        if not _whole(info.examples) or not 1 <= info.examples <= MOST_EXAMPLES:
            return f"{_shown(info.examples)} examples, a whole number from 1 to {MOST_EXAMPLES:,} is expected"
        return self.payload(info.payload, int(info.examples), once=True)

    def payload(self, payload: Mapping[str, Value], examples: int, once: bool = False) -> str | None:
        """Return why a payload is not what the method declares, or None."""
        declared = self._declared[once]
        if type(payload) is dict and not payload and not declared:
            return None
        if not isinstance(payload, Mapping) or payload.keys() != declared.keys():
            sent = sorted(map(_shown, payload)) if isinstance(payload, Mapping) else type(payload).__name__
            return f"a payload of {_shown(sent)}, expected {list(declared)}"
        for key, told in declared.items():
            reason = _wrong(*told, payload[key], examples)
            if reason is not None:
                return reason
        return None


def _wrong(declared: Disclosure, shape: tuple[int, ...], value: Any, examples: int) -> str | None:
    """Return why a value of a payload is not what was declared, or None."""
    key, kind = declared.key, declared.kind
    if type(value) is not np.ndarray and (
        isinstance(value, bool | str) or not isinstance(value, int | float | np.ndarray | np.number)
    ):
        return f"'{key}' of type {type(value).__name__}, expected numbers"
    found = np.asarray(value)
    if found.shape != shape or found.dtype.kind not in "iuf":
        return f"'{key}' of shape {found.shape} and type {found.dtype}, expected numbers of shape {shape}"
    most = examples if kind in COUNTS else 1.0 if kind == "gini" else MOST_LOSS
    if kind == "group_losses":
        most *= examples
    # NaN is neither. As Python's numbers: the limit would become infinite in float16, and few take less time so.
    if found.size < _FEW and all(0 <= each <= most for each in found.ravel().tolist()):
        return None
    if found.size and float(found.min()) >= 0 and float(found.max()) <= most:
        return None
    if not np.isfinite(found).all():
        return f"'{key}' is not finite"
    return f"'{key}' reaches from {found.min():g} to {found.max():g}, expected 0 to {most:g}"


def problem(update: ClientUpdate, size: int, enrolled: int, expected: Expected) -> str | None:
    """Return why an update must not be used, whatever the others sent, or None if it may.

    Parameters
    ----------
    update
        What the client sent.
    size
        Length of the global weight vector.
    enrolled
        Number of examples that the client enrolled with.
    expected
        What the method lets clients send.
    """
    weights = update.weights
    if not isinstance(weights, np.ndarray) or weights.dtype.kind != "f":
        kind = weights.dtype if isinstance(weights, np.ndarray) else type(weights).__name__
        return f"weights of type {kind}, expected an array of floats"
    if weights.shape != (size,):
        return f"weights of shape {weights.shape}, expected ({size},)"
    # One product shows that an honest update has nothing of the kind.
    if not squared(weights) <= MOST_WEIGHT:
        if not np.isfinite(weights).all():
            return f"{int((~np.isfinite(weights)).sum())} weights are not finite"
        if np.abs(weights).max() > MOST_WEIGHT:
            return f"weights up to {np.abs(weights).max():.3g}, expected at most {MOST_WEIGHT:g}"
    if not _whole(update.examples) or update.examples != enrolled:
        return f"{_shown(update.examples)} examples, enrolled with {enrolled}"
    return expected.payload(update.payload, enrolled) or expected.method.contradiction(update)


def accept(
    updates: Sequence[ClientUpdate], old: Floats, asked: Mapping[str, int], expected: Expected, max_norm: float = 0.0
) -> tuple[list[ClientUpdate], dict[str, str]]:
    """Split updates into the usable ones, sorted by client, and the rejected ones with their reasons.

    Parameters
    ----------
    updates
        What arrived, in any order.
    old
        The global weights that the clients started from.
    asked
        The clients that were asked to train in this round, with the number of examples they enrolled with.
    expected
        What the method lets clients send.
    max_norm
        See `glocalfair.config.ServerConfig`.
    """
    rejected: dict[str, str] = {}
    accepted = []
    named = sorted(((_name(update), update) for update in updates), key=lambda pair: pair[0])
    copies = Counter([name for name, _ in named])
    with np.errstate(over="ignore", invalid="ignore"):
        for name, update in named:
            if not isinstance(update.client, str) or name not in asked:
                reason: str | None = "it was not asked to train in this round"
            elif copies[name] > 1:
                # Which of them is the client's cannot be told.
                reason = f"{copies[name]} updates under this name"
            else:
                reason = problem(update, len(old), asked[name], expected)
            if reason is None:
                accepted.append(update)
            else:
                rejected[_shown(name)] = reason
    for name, reason in _too_far(accepted, old, max_norm).items():
        rejected[name] = reason
    return [update for update in accepted if update.client not in rejected], dict(sorted(rejected.items()))


def _too_far(updates: Sequence[ClientUpdate], old: Floats, max_norm: float) -> dict[str, str]:
    """Name the clients whose step is out of all proportion to the others' and to the model."""
    if not updates or max_norm == 0:
        return {}
    norms = step_norms(updates, old)
    with np.errstate(over="ignore"):
        limit = max_norm * (1 + squared(old) ** 0.5)
    # Of two steps nobody can say which is the usual one.
    median = statistics.median(norms.tolist()) if len(norms) > 2 else 0.0
    if median > 0:
        limit = min(limit, max_norm * median)
    return {
        updates[k].client: f"a step of length {norms[k]:.3g}, the limit is {limit:.3g}"
        for k in np.flatnonzero(~(norms <= limit)).tolist()
    }


def unusable(state: ServerState) -> str | None:
    """Return why the server's new state must not replace the old one, or None if it may."""
    bad = int((~np.isfinite(state.weights)).sum())
    if bad:
        return f"{bad} weights of the new global model are not finite; the old model stays"
    # NaN stands for "not known yet" there.
    wrong = [
        key
        for key, v in state.values.items()
        if isinstance(v, np.ndarray) and v.dtype.kind == "f" and np.isinf(v).any()
    ]
    return f"the server's {wrong} would be infinite; the old model stays" if wrong else None


def _name(update: ClientUpdate) -> str:
    return update.client if isinstance(update.client, str) else _shown(update.client)


def _shown(value: object) -> str:
    """Write what came from outside for a log: no longer than needed, whatever it is."""
    try:
        text = value if isinstance(value, str) else repr(value)
    except Exception:
        text = type(value).__name__
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def _whole(value: object) -> bool:
    return type(value) is int or isinstance(value, np.integer)


def foreign(state: SimulationState, fresh: SimulationState, rounds: int) -> str | None:
    """Return why a state from a file cannot be one of this run, or None if it can.

    Parameters
    ----------
    state
        The state to go on from.
    fresh
        The state that the run began with.
    rounds
        How many rounds it is to have.
    """
    if not 0 <= state.round <= rounds:
        return f"it is of round {state.round} of {rounds}"
    for name, found in {"weights": state.server.weights, "mean": state.tail, "best": state.best}.items():
        if found is not None and (found.shape != fresh.server.weights.shape or found.dtype.kind != "f"):
            return f"its {name} have shape {found.shape}, the model has {fresh.server.weights.shape}"
    if not np.isfinite(state.server.weights).all() or state.server.weights.dtype != fresh.server.weights.dtype:
        return f"its weights are not finite {fresh.server.weights.dtype} numbers"
    if set(state.server.values) != set(fresh.server.values):
        return f"the server's memory is of {sorted(state.server.values)}, not of {sorted(fresh.server.values)}"
    for key, value in state.server.values.items():
        first = fresh.server.values[key]
        shape, begun = np.shape(value), np.shape(first)
        if begun[:1] == (0,) and len(shape) == len(begun):  # what begins empty grows
            shape, begun = shape[1:], begun[1:]
        same = type(value) is type(first) and shape == begun
        if not same or (isinstance(first, np.ndarray) and np.asarray(value).dtype != first.dtype):
            return f"the server's '{key}' is of another kind"
        if isinstance(first, str) and value != first:
            return f"the server's '{key}' has other names"
    return None
