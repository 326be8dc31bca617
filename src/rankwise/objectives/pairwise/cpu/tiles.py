"""Losses of pairs: one document against a range of others, all of smaller gain or all of larger gain.

Documents lie in tiles, twice: as the worse ones of their pairs, and, with scores and gains negated, as the better
ones. A pair then has the margin m = score − tile.score and the weight (gain − tile.gain)·|discount − tile.discount|,
or 0 where the difference of gains is negative. Ranges may thus be widened to vector boundaries: documents added there
have no weight.

A tile is a record because the distances of its columns are known when a loop over them is compiled. That loop needs no
check for overlap before it starts, which would take as long as the loop itself for a few dozen documents; and records
are passed on without reference counting.
"""

import numpy as np

from rankwise.base.compiling import REORDERED, kernel
from rankwise.objectives.fastmath import atanh_ratio, exp

LOGISTIC, HINGE, SQUARED_HINGE, EXPONENTIAL = range(4)

LANES = 8
"""Ranges of documents begin and end at multiples of this: whole vectors."""
SHIFT = 9
SPAN = 1 << SHIFT
"""Documents of a tile."""
_ROOM = SPAN + 128  # so that the columns of a short list do not compete for the same lines of a cache
_PAIRED = ("score", "gain", "power", "discount", "gradient", "hessian")
_ALONE = ("value", "upper", "lower", "weight", "own_gradient", "own_hessian")
TILE = np.dtype(
    [(name, np.float64, _ROOM) for name in _PAIRED + _ALONE] + [("row", np.int64, _ROOM), ("rank", np.int64, _ROOM)]
)
"""``power`` is e^score; ``gradient`` and ``hessian`` add up over the pairs of the tile's documents.

Columns of a document, not of its pairs, are in the tile of the worse ones: its row, rank and gain (``value``); the
parts of its weights (``weights.py``); and the derivatives of pairs in which it was the one against a range.
"""

WIDEST = 300.0
"""Up to this spread of scores no e^score, nor the product of two, leaves the range of floats."""
STEEPEST = 20.0
"""From this margin on the exponential loss is a straight line."""
NORM_BIAS = 0.01
"""Added to |s_i − s_j| where LightGBM's norm divides by it."""


@kernel(fastmath=REORDERED)
def logistic(start, stop, score, gain, power, discount, bias, slope, tile):
    """Pair one document with a range of a tile; return the sums of their losses, gradients and Hessians.

    ``power`` is e^−score. The weight of a pair is divided by (bias + slope·|m|)/2.
    """
    loss, gradient, hessian = 0.0, 0.0, 0.0
    for j in range(np.uint64(start), np.uint64(stop)):
        m = score - tile.score[j]
        x = power * tile.power[j]  # e^−m
        small, t, a = min(1.0, x), bias + slope * abs(m), 1.0 + x
        b = a + (a - small)  # 1 + x + max(1, x)
        inverse = 1.0 / (a * t * b)  # the only division; what others would divide by is multiplied back
        z = small * (a * t * inverse)  # log(1 + e^−|m|) = 2·atanh(z)
        each = b * inverse  # 1/(t·a)
        difference = gain - tile.gain[j]
        w = (difference + abs(difference)) * abs(discount - tile.discount[j]) * each  # twice the larger of more and 0
        first = w * x
        second = first * (each * t)
        loss += (w + first) * ((abs(m) - m) + 4.0 * z * atanh_ratio(z * z))
        gradient += first
        hessian += second
        tile.gradient[j] += first
        tile.hessian[j] += second
    return 0.5 * loss, gradient, hessian


@kernel
def by_margin(kind, start, stop, score, gain, discount, bias, slope, tile):
    """Return the same sums for the other losses, one pair after the other."""
    loss, gradient, hessian = 0.0, 0.0, 0.0
    for j in range(np.uint64(start), np.uint64(stop)):
        m = score - tile.score[j]
        w = max(0.0, gain - tile.gain[j]) * abs(discount - tile.discount[j]) / (bias + slope * abs(m))
        if w == 0.0:
            continue
        each, first, second = pair_loss(kind, m)
        loss += w * each
        gradient += w * first
        hessian += w * second
        tile.gradient[j] += w * first
        tile.hessian[j] += w * second
    return loss, gradient, hessian


@kernel
def pair_loss(kind, margin):
    """Return the loss of a pair by its margin, minus its first derivative, and its second or what replaces it."""
    gap = 1.0 - margin
    if kind == HINGE:
        return (gap, 1.0, 1.0) if gap > 0.0 else (0.0, 0.0, 0.0)
    if kind == SQUARED_HINGE:
        return (gap * gap, 2.0 * gap, 2.0) if gap > 0.0 else (0.0, 0.0, 0.0)
    size = np.exp(min(-margin, STEEPEST))
    if margin < -STEEPEST:
        return size * (1.0 - margin - STEEPEST), size, 0.0
    return size, size, size


@kernel
def fill_powers(first, last, score, tile):
    """Fill e^−m itself, for a document whose ``power`` is then 1, where single powers would overflow."""
    for j in range(np.uint64(first), np.uint64(last)):
        tile.power[j] = exp(min(tile.score[j] - score, WIDEST))
