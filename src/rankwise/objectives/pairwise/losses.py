"""Losses of pairs: one document against a stretch of others, all of which are worth less, or all of which more.

Documents lie in tiles, twice: as the worse ones of their pairs, and, with scores and worths negated, as the better
ones. A pair then has the margin m = score − tile.score and the weight (worth − tile.worth)·|discount − tile.discount|,
or none where that difference is negative. So stretches may begin and end where vectors do, whoever lies there.

A tile is a record because the distances of its columns are known when a loop over them is compiled. That loop needs no
look at what overlaps before it starts, which would take as long as the loop itself for a few dozen documents; and
records are passed on without being counted.
"""

import numpy as np

from rankwise.kernels import REORDERED, kernel
from rankwise.objectives.fastmath import atanh_ratio, exp

LOGISTIC, HINGE, SQUARED_HINGE, EXPONENTIAL = range(4)

LANES = 8
"""Stretches of documents begin and end at multiples of this: whole vectors."""
SHIFT = 9
SPAN = 1 << SHIFT
"""Documents of a tile."""
_ROOM = SPAN + 128  # so that the columns of a short list do not compete for the same lines of a cache
_PAIRED = ("score", "worth", "power", "discount", "gradient", "hessian")
_ALONE = ("value", "upper", "lower", "heavy", "own_gradient", "own_hessian")
TILE = np.dtype(
    [(name, np.float64, _ROOM) for name in _PAIRED + _ALONE] + [("row", np.int64, _ROOM), ("rank", np.int64, _ROOM)]
)
"""``power`` is e^score; ``gradient`` and ``hessian`` add up over the pairs of the tile's documents.

What a document has once lies with the worse ones: its row, rank and ``value``, its worth as it is; what its weights are
made of (``pair_weights.py``); and the derivatives of pairs in which it was the one against a stretch.
"""

WIDEST = 300.0
"""Up to this spread of scores no e^score, nor the product of two, leaves the range of floats."""
_STEEPEST = 20.0  # from this margin on the exponential loss goes on as a straight line


@kernel(fastmath=REORDERED)
def logistic(start, stop, score, worth, power, discount, bias, slope, tile):  # type: ignore[no-untyped-def]
    """Pair one document with a stretch of a tile: their loss, the sum of their pulls, and of their curvatures.

    ``power`` is e^−score. The weight of a pair is divided by (bias + slope·|m|)/2.
    """
    loss, pull, bend = 0.0, 0.0, 0.0
    for j in range(np.uint64(start), np.uint64(stop)):
        m = score - tile.score[j]
        x = power * tile.power[j]  # e^−m
        small, t, a = min(1.0, x), bias + slope * abs(m), 1.0 + x
        b = a + (a - small)  # 1 + x + max(1, x)
        inverse = 1.0 / (a * t * b)  # the only division; what others would divide by is multiplied back
        z = small * (a * t * inverse)  # log(1 + e^−|m|) = 2·atanh(z)
        each = b * inverse  # 1/(t·a)
        more = worth - tile.worth[j]
        w = (more + abs(more)) * abs(discount - tile.discount[j]) * each  # twice the larger of more and 0
        wrong = w * x
        curve = wrong * (each * t)
        loss += (w + wrong) * ((abs(m) - m) + 4.0 * z * atanh_ratio(z * z))
        pull += wrong
        bend += curve
        tile.gradient[j] += wrong
        tile.hessian[j] += curve
    return 0.5 * loss, pull, bend


@kernel
def by_margin(kind, start, stop, score, worth, discount, bias, slope, tile):  # type: ignore[no-untyped-def]
    """Do the same for the other losses, one pair after the other."""
    loss, pull, bend = 0.0, 0.0, 0.0
    for j in range(np.uint64(start), np.uint64(stop)):
        m = score - tile.score[j]
        w = max(0.0, worth - tile.worth[j]) * abs(discount - tile.discount[j]) / (bias + slope * abs(m))
        if w == 0.0:
            continue
        each, fall, curve = pair_loss(kind, m)
        loss += w * each
        pull += w * fall
        bend += w * curve
        tile.gradient[j] += w * fall
        tile.hessian[j] += w * curve
    return loss, pull, bend


@kernel
def pair_loss(kind, margin):  # type: ignore[no-untyped-def]
    """The loss of a pair by its margin, how fast it falls, and its second derivative, or what stands for it."""
    gap = 1.0 - margin
    if kind == HINGE:
        return (gap, 1.0, 1.0) if gap > 0.0 else (0.0, 0.0, 0.0)
    if kind == SQUARED_HINGE:
        return (gap * gap, 2.0 * gap, 2.0) if gap > 0.0 else (0.0, 0.0, 0.0)
    size = np.exp(min(-margin, _STEEPEST))
    if margin < -_STEEPEST:
        return size * (1.0 - margin - _STEEPEST), size, 0.0
    return size, size, size


@kernel
def fill_powers(first, last, score, tile):  # type: ignore[no-untyped-def]
    """Fill e^−m itself, for a document whose ``power`` is then 1: lists in which single powers would overflow."""
    for j in range(np.uint64(first), np.uint64(last)):
        tile.power[j] = exp(min(tile.score[j] - score, WIDEST))
