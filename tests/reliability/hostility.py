"""What a hostile or broken client may send instead of its update."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from glocalfair.types import ClientUpdate

Change = Callable[[ClientUpdate], ClientUpdate]


def weights(change: Callable[[Any], Any]) -> Change:
    return lambda update: replace(update, weights=change(update.weights))


def examples(change: Callable[[int], Any]) -> Change:
    return lambda update: replace(update, examples=change(update.examples))


def payload(change: Callable[[dict[str, Any]], Any]) -> Change:
    return lambda update: replace(update, payload=change(dict(update.payload)))


def each(change: Callable[[Any], Any]) -> Callable[[dict[str, Any]], Mapping[str, Any]]:
    return lambda values: {key: change(value) for key, value in values.items()}


def poked(value: float) -> Callable[[Any], Any]:
    def change(vector: Any) -> Any:
        vector = vector.copy()
        vector[len(vector) // 2] = value
        return vector

    return change


ANY_METHOD: dict[str, Change] = {
    "one weight is NaN": weights(poked(np.nan)),
    "one weight is infinite": weights(poked(-np.inf)),
    "all weights are NaN": weights(lambda w: w * np.nan),
    "one weight too many": weights(lambda w: np.append(w, 0.0)),
    "one weight too few": weights(lambda w: w[:-1]),
    "no weights": weights(lambda w: w[:0]),
    "weights as a matrix": weights(lambda w: w[None]),
    "one number for weights": weights(lambda w: w[0]),
    "whole weights": weights(lambda w: w.astype(int)),
    "complex weights": weights(lambda w: w.astype(complex)),
    "weights of objects": weights(lambda w: w.astype(object)),
    "weights of words": weights(lambda w: w.astype(str)),
    "weights as a list": weights(lambda w: w.tolist()),
    "weights are None": weights(lambda w: None),
    "step of 1e6": weights(lambda w: w + 1e6),
    "step of 1e30": weights(lambda w: w * 1e30),
    "step of 1e308": weights(lambda w: np.full(len(w), 1e308)),
    "no examples": examples(lambda n: 0),
    "negative examples": examples(lambda n: -n),
    "enormous examples": examples(lambda n: 10**18),
    "endless examples": examples(lambda n: 10**5000),
    "examples not whole": examples(float),
    "examples NaN": examples(lambda n: float("nan")),
    "examples true": examples(lambda n: True),
    "examples as a word": examples(str),
    "examples as an array": examples(lambda n: np.array([n, n])),
    "examples are None": examples(lambda n: None),
    "one payload too many": payload(lambda p: {**p, "surprise": 1.0}),
    "payload under a number": payload(lambda p: {**p, 3: 1.0}),
    "payload is None": payload(lambda p: None),
    "payload as a list": payload(lambda p: list(p)),
    "ten thousand payloads": payload(lambda p: {**p, **{f"key-{i}": 0.0 for i in range(10_000)}}),
    "client with an endless name": lambda update: replace(update, client="x" * 10**6),
    "unknown client": lambda update: replace(update, client="nobody"),
    "client without a name": lambda update: replace(update, client=None),  # type: ignore[arg-type]
    "client named by a list": lambda update: replace(update, client=["a"]),  # type: ignore[arg-type]
}
"""Must be rejected whatever the method."""

WITH_PAYLOAD: dict[str, Change] = {
    "no payload": payload(lambda p: {}),
    "payload under another name": payload(lambda p: {f"{key}s": value for key, value in p.items()}),
    "payload NaN": payload(each(lambda v: np.asarray(v, dtype=float) * np.nan)),
    "payload infinite": payload(each(lambda v: np.full(np.shape(v), np.inf))),
    "payload infinite in half precision": payload(each(lambda v: np.full(np.shape(v), np.inf, np.float16))),
    "payload negative": payload(each(lambda v: -1.0 - np.asarray(v, dtype=float))),
    "payload enormous": payload(each(lambda v: np.full(np.shape(v), 1e300))),
    "payload with an axis more": payload(each(lambda v: np.stack([v, v]))),
    "payload empty": payload(each(lambda v: np.empty(0))),
    "payload of words": payload(each(lambda v: "0.5")),
    "payload of objects": payload(each(lambda v: np.array([{}] * np.size(v)).reshape(np.shape(v)))),
    "payload complex": payload(each(lambda v: np.asarray(v) * 1j)),
    "payload is None, item by item": payload(each(lambda v: None)),
    "payload of a list": payload(each(lambda v: [1.0])),
}
"""Must be rejected where a method declares a payload."""
