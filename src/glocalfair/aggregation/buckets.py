"""The Gini coefficient of many float32 weights without sorting them.

The bits of a non-negative float32 ascend with its value, so their upper part is the number of a bucket. One pass
counts the values of each bucket and adds up their bits. The order *between* buckets is then exact, and what is left is
W = Σ_{i<j} (x_j − x_i) *within* a bucket of c values, width h and mean at the share p of the width. It lies between 0
(all equal) and c² p (1 − p) h (all at the two edges), and is 2/3 of that for values that lie evenly. Buckets narrower
than 2⁻¹¹ of the value make W a part in 10⁸ of the whole, and evenly lying values follow the 2/3 to a part in 10⁴.

Values that do not lie evenly (ties above all) show in the mean p or in a count that towers above its neighbours. Such
buckets are sorted after all, as many as it takes to know the whole to `TOLERANCE`. Ties can also hide: weights rounded
to a grid may lie in the middle of every bucket. So a sample is sorted, and shows how evenly the others lie.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from glocalfair.types import Floats, Ints

TOLERANCE = 1e-9
"""Relative error of the Gini coefficient."""

_SHIFT = 12
_CHUNK = 1 << 16
_SAMPLE = 1 << 16
_MANTISSA = 23
_NORMAL = 1 << (_MANTISSA - _SHIFT)
_INFINITE = 0xFF * _NORMAL


@dataclass(frozen=True, eq=False)
class Buckets:
    """Occupied buckets in ascending order: number, count, and the sum of the bits below the bucket's number.

    Bucket 0 holds zeros and all subnormal values.
    """

    code: Ints
    count: Ints
    low: Ints

    @property
    def lower(self) -> Floats:
        """The lowest value that belongs to each bucket."""
        return (self.code << _SHIFT).astype(np.uint32).view(np.float32).astype(np.float64)

    @property
    def unit(self) -> Floats:
        """The step between two neighbouring float32 values of each bucket; subnormal ones share the least step."""
        exponent = np.maximum(self.code // _NORMAL, 1)
        return np.ldexp(1.0, (exponent - 150).astype(np.int32))

    @property
    def steps(self) -> Floats:
        """The width of each bucket in units."""
        return np.where(self.code == 0, float(1 << _MANTISSA), float(1 << _SHIFT))

    @property
    def total(self) -> Floats:
        """The sum of the values of each bucket."""
        result: Floats = self.count * self.lower + self.low * self.unit
        return result


class _Piece:
    """Room for a piece of a model, with the views that numpy and torch need."""

    def __init__(self, length: int) -> None:
        self.values = np.empty(length, np.float32)
        self.raw = self.values.view(np.uint32)
        # Numbers without a sign are shifted in three quarters of the time.
        self.bits, self.code = np.empty(length, np.uint64), np.empty(length, np.uint64)
        self.added, self.to = (torch.from_numpy(each.view(np.int64)) for each in (self.bits, self.code))


def _chunks(weights: Floats, origin: Floats | None) -> Iterator[_Piece]:
    """Give magnitudes, their bits and their buckets, piece by piece, in memory that is used again."""
    # Views are made once, not for every piece: meanwhile no other thread could go on with its own.
    piece = _Piece(min(_CHUNK, len(weights)))
    for start in range(0, len(weights), _CHUNK):
        part = weights[start : start + _CHUNK]
        if len(part) < len(piece.values):
            piece = _Piece(len(part))
        if origin is not None:
            part = np.subtract(part, origin[start : start + _CHUNK], out=piece.values)
        np.abs(part, out=piece.values)
        np.copyto(piece.bits, piece.raw)
        np.right_shift(piece.bits, _SHIFT, out=piece.code)
        yield piece


def tally(weights: Floats, origin: Floats | None = None) -> Buckets | None:
    """Fill the buckets with |weights − origin|; None with too many values in one bucket, or infinite ones."""
    table = torch.zeros(1 << (31 - _SHIFT), dtype=torch.int64)
    for piece in _chunks(weights, origin):
        # Faster than bincount and np.add.at, which need another pass or a loop with checks.
        table.scatter_add_(0, piece.to, piece.added)
    sums = table.numpy()
    # Compared first: to look for integers takes five times as long.
    code = np.flatnonzero(sums[_NORMAL:] != 0) + _NORMAL
    edge = code << _SHIFT
    # Σ bits = count · edge + Σ low with low < 2^shift: the quotient is the count as long as count < code.
    count, low = np.divmod(sums[code], edge)
    if (count >= code).any() or (len(code) and code[-1] >= _INFINITE):
        return None
    # Zeros add nothing to the sums: bucket 0 holds whoever is left, and the bits of its values are the values.
    rest = len(weights) - int(count.sum())
    if rest:
        tiny = sums[:_NORMAL].sum()
        code, count, low = (np.insert(array, 0, first) for array, first in ((code, 0), (count, rest), (low, tiny)))
    return Buckets(code, count, low)


def _uneven(b: Buckets, share: Floats) -> npt.NDArray[np.bool_]:
    """Mark buckets whose values need not lie evenly: few, off the middle, or more than the neighbours suggest."""
    # (p − ½)² of c even values is 1/(12 c) on average; with every value t times it is t times as much.
    off = 12 * b.count * (share - 0.5) ** 2
    left, right = (np.where(np.diff(b.code) == 1, counts, 0) for counts in (b.count[:-1], b.count[1:]))
    around = (np.concatenate([[0], left]) + np.concatenate([right, [0]])) / 2
    suspect: npt.NDArray[np.bool_] = (b.count < 16) | (off > 36) | (b.count > 1.25 * around + 6 * np.sqrt(b.count))
    suspect |= b.code == 0
    trusted = off[~suspect]
    if len(trusted) and trusted.mean() > 4:
        suspect[:] = True
    return suspect


def _marked(codes: Ints) -> npt.NDArray[np.bool_]:
    """Return a table that tells for every bucket whether it is one of these."""
    table = np.zeros(1 << (31 - _SHIFT), dtype=np.bool_)
    table[codes] = True
    table[:_NORMAL] = table[0]
    return table


def _differences(values: Floats, lower: Floats, count: Ints) -> Floats:
    """Return W of each bucket from its sorted values, one bucket after the other."""
    start = np.cumsum(count) - count
    # 2 i + 1 − c for value i of c.
    rank = 2 * np.arange(len(values)) - np.repeat(2 * start + count - 1, count)
    above = values.astype(np.float64) - np.repeat(lower, count)
    return np.add.reduceat(rank * above, start)


def _spread(b: Buckets, chosen: Ints, weights: Floats, origin: Floats | None) -> Floats:
    """Return W of the chosen buckets, by sorting their values."""
    wanted = _marked(b.code[chosen])
    values = np.sort(np.concatenate([piece.values[wanted[piece.code]] for piece in _chunks(weights, origin)]))
    return _differences(values, b.lower[chosen], b.count[chosen])


def _unevenness(codes: Ints, weights: Floats, origin: Floats | None) -> float:
    """Return how much W of a sample of the values in these buckets differs from what it is for evenly lying ones."""
    step = max(1, len(weights) // _SAMPLE)
    # One of each stretch, at no fixed distance: weights have patterns.
    at = np.arange(0, len(weights) - step + 1, step)
    at += np.random.default_rng(0).integers(step, size=len(at))
    values = np.abs(weights[at] if origin is None else weights[at] - origin[at])
    values = np.sort(values[_marked(codes)[values.view(np.uint32) >> _SHIFT]])
    code = (values.view(np.uint32) >> _SHIFT).astype(np.int64)
    start = np.flatnonzero(np.diff(code, prepend=-1))
    count = np.diff(start, append=len(code))
    seen = Buckets(code[start], count, np.zeros_like(count))
    even = (count * (count - 1.0) * seen.unit * seen.steps).sum() / 6
    return float(_differences(values, seen.lower, count).sum() / even - 1) if even > 0 else 0.0


def inequality(weights: Floats, points: int, origin: Floats | None = None) -> tuple[float, Floats] | None:
    """Return the Gini coefficient and `points` points of the Lorenz curve of |weights − origin|.

    None where only a sort can tell: very many equal values, or values that are not finite.

    >>> found = inequality(np.random.default_rng(0).random(100_000, dtype=np.float32), 3)
    >>> found and (round(found[0], 2), found[1].round(2).tolist())
    (0.33, [0.0, 0.25, 1.0])
    """
    b = tally(weights, origin)
    if b is None:
        return None
    size, sums = len(weights), b.total
    total = float(sums.sum())
    if total == 0:
        return 0.0, np.linspace(0, 1, points)
    share = b.low / (b.count * b.steps)
    room = (b.count > 1) * b.count.astype(np.float64) ** 2 * share * (1 - share) * b.unit * b.steps
    # The factor behind 2/3 is what evenly drawn values have on average when there are few of them.
    within = 2 / 3 * room * (b.count - 1) / (b.count - 1 / 3)
    before = np.cumsum(b.count) - b.count
    # No product of vectors: for it a BLAS wakes its threads, which then wait busily while the next model is read.
    between = float(((2 * before + b.count - size) * sums).sum())
    # Whether one bucket's values lie evenly is a guess; it must not matter. Thousands of guesses cancel.
    doubtful = _uneven(b, share) | (room > TOLERANCE / 20 * between)
    suspect = np.flatnonzero(doubtful)
    order = suspect[np.argsort(room[suspect], kind="stable")]
    safe = np.searchsorted(np.cumsum(room[order]), TOLERANCE / 2 * between, side="right")
    chosen = np.sort(order[safe:])
    if 4 * b.count[chosen].sum() > size:
        return None
    trusted = ~doubtful
    if abs(_unevenness(b.code[trusted], weights, origin)) * within[trusted].sum() > TOLERANCE / 2 * between:
        return None
    if len(chosen):
        within[chosen] = _spread(b, chosen, weights, origin)
    held = np.concatenate([[0.0], np.cumsum(sums)])
    curve = np.interp(np.linspace(0, size, points), np.concatenate([[0], before + b.count]), held) / held[-1]
    return (between + float(within.sum())) / (size * total), curve
