"""The kernel of pairwise losses Σ w·ℓ(σ(s_better − s_worse)): any loss of a pair with any weight of a pair.

What makes it fast: documents are ranked once and gathered in that order, beginning with the order of the last call;
e^σs is taken once per document, not per pair; a pair of the logistic loss costs one division and no call, so the loop
over the lower documents of a pair vectorises. As the upper document has the higher score, d = σ(s_upper − s_lower) ≥ 0
and x = e^−d lies in (0, 1], where log(1 + x) is a short polynomial.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwise.kernels import APART, REORDERED, kernel
from rankwise.metrics.base import longest_of
from rankwise.metrics.order import reorder, scratch_for
from rankwise.objectives.fastmath import atanh_ratio, exp

DISCOUNTED, AVERAGE_PRECISION, RECIPROCAL_RANK, COUNT = range(4)
"""What weighs a pair: the change of a metric if the two are swapped, or 1. Discounted ones are Σ worth · discount."""
LOGISTIC, HINGE, SQUARED_HINGE, EXPONENTIAL = range(4)

_PAD = 8  # places of no weight behind the last document, so that the inner loop runs in whole vectors
_WIDEST = 600.0  # up to this spread of σs no e^σs underflows
_NORM_BIAS = 0.01
_STEEPEST = 20.0  # from this margin on the exponential loss goes on as a straight line


class Settings(NamedTuple):
    """What tells one pairwise loss from another."""

    sigma: float
    truncation: int
    """Pairs count whose upper document is among this many first."""
    norm: bool
    loss: int
    weight: int
    swap_share: float
    """How much of a pair's weight is the metric's change when the two are swapped …"""
    distance_share: float
    """… and how much is the drop of the discount at the rank that equals their distance (LambdaLoss)."""


class Scratch(NamedTuple):
    """Working memory for one query, by rank."""

    worth: NDArray[np.float64]
    upper: NDArray[np.float64]
    """A swap changes the metric by (difference of worths)·(upper − lower): the upper document's part …"""
    lower: NDArray[np.float64]
    """… and the lower one's."""
    weight: NDArray[np.float64]
    score: NDArray[np.float64]
    power: NDArray[np.float64]
    ratio: NDArray[np.float64]
    pair: NDArray[np.float64]
    """Weights of the pairs of one upper document, negative where the lower one is the better."""
    gradient: NDArray[np.float64]
    hessian: NDArray[np.float64]


@kernel
def pairwise(  # type: ignore[no-untyped-def]
    first, last, offsets, scores, worths, weights, discounts, settings, orders, value, gradient, hessian
):
    """Fill the derivatives of queries ``first`` to ``last``; ``orders`` are the last call's, or begin with −1."""
    n = longest_of(first, last, offsets)
    lines = np.zeros((10, n + _PAD + APART))
    scratch = Scratch(
        lines[0], lines[1], lines[2], lines[3], lines[4], lines[5], lines[6], lines[7], lines[8], lines[9]
    )
    sorting = scratch_for(n)
    for q in range(first, last):
        mine = slice(offsets[q], offsets[q + 1])
        diagonal = hessian[mine] if hessian.size else hessian
        if worths[mine].min() == worths[mine].max():
            value[q], gradient[mine], diagonal[:] = 0.0, 0.0, 0.0
            continue
        reorder(scores[mine], orders[mine], sorting)
        heavy = weights[mine] if weights.size else weights
        _line_up(scores[mine], worths[mine], heavy, settings.sigma, orders[mine], scratch)
        value[q] = _query(orders[mine], heavy.size > 0, discounts, settings, scratch, gradient[mine], diagonal)


@kernel
def _query(rows, weighted, discounts, settings, scratch, gradient, hessian):  # type: ignore[no-untyped-def]
    n = np.uint64(rows.size)
    _weigh_ranks(rows.size, discounts, settings.weight, scratch)
    lowest = scratch.score[n - 1]
    # The norm's division is left out where all scores are equal, as in LightGBM.
    bias, slope = (_NORM_BIAS, 1.0 / settings.sigma) if settings.norm and lowest < 0.0 else (1.0, 0.0)
    wide = lowest < -_WIDEST
    powers = scratch.ratio if wide else scratch.power
    total, pull = 0.0, 0.0
    for i in range(min(np.uint64(settings.truncation), n - np.uint64(1))):
        below = i + np.uint64(1)
        end = below + (n - below + np.uint64(_PAD - 1)) // np.uint64(_PAD) * np.uint64(_PAD)
        if not _weigh_pairs(i, below, n, end, discounts, settings, weighted, scratch):
            continue
        if settings.loss == LOGISTIC:
            scale = 1.0 if wide else 1.0 / scratch.power[i]
            if wide:
                _fill_ratios(below, end, scratch.score[i], scratch.score, scratch.ratio)
            loss, size, g, h = _logistic(
                below, end, scratch.score[i], scale, bias, slope, scratch.pair, scratch.score, powers,
                scratch.gradient, scratch.hessian,
            )  # fmt: skip
        else:
            loss, size, g, h = _by_margin(
                settings.loss, below, end, scratch.score[i], bias, slope, scratch.pair, scratch.score,
                scratch.gradient, scratch.hessian,
            )  # fmt: skip
        total += loss
        pull += size
        scratch.gradient[i] -= g
        scratch.hessian[i] += h
    factor = 1.0
    if settings.norm and pull > 0.0:
        pull *= 2.0 * settings.sigma
        factor = np.log1p(pull) / (pull * np.log(2.0))
    for k in range(n):
        gradient[rows[k]] = settings.sigma * factor * scratch.gradient[k]
    if hessian.size:
        for k in range(n):
            hessian[rows[k]] = settings.sigma * settings.sigma * factor * scratch.hessian[k]
    return factor * total


@kernel(fastmath=REORDERED)
def _logistic(start, stop, score, scale, bias, slope, pair, scores, powers, gradient, hessian):  # type: ignore[no-untyped-def]
    """Pair one upper document with all below it: their loss, the size of their pulls, its own gradient and Hessian."""
    loss, size, g, h = 0.0, 0.0, 0.0, 0.0
    for j in range(start, stop):
        d = score - scores[j]
        x = powers[j] * scale
        t, a, b = bias + slope * d, 1.0 + x, 2.0 + x
        inverse = 1.0 / (a * t * b)  # the only division; what others would divide by is multiplied back
        z = x * (a * t * inverse)  # x/(2 + x), so that log(1 + x) = 2·atanh(z)
        each = b * inverse  # 1/(t(1 + x))
        upper_better = pair[j] > 0.0
        w = pair[j] * each
        loss += abs(w * a) * ((0.0 if upper_better else d) + (z + z) * atanh_ratio(z * z))
        wrong = w * (x if upper_better else 1.0)
        curve = abs(w * x) * (each * t)
        size += abs(wrong)
        g += wrong
        h += curve
        gradient[j] += wrong
        hessian[j] += curve
    return loss, size, g, h


@kernel
def _by_margin(kind, start, stop, score, bias, slope, pair, scores, gradient, hessian):  # type: ignore[no-untyped-def]
    """Do the same for losses of the margin m = ±d, one pair after the other."""
    loss, size, g, h = 0.0, 0.0, 0.0, 0.0
    for j in range(start, stop):
        d = score - scores[j]
        w = pair[j] / (bias + slope * d)
        if w == 0.0:
            continue
        each, fall, bend = pair_loss(kind, d if w > 0.0 else -d)
        loss += abs(w) * each
        wrong, curve = w * fall, abs(w) * bend
        size += abs(wrong)
        g += wrong
        h += curve
        gradient[j] += wrong
        hessian[j] += curve
    return loss, size, g, h


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
def _fill_ratios(start, stop, score, scores, ratios):  # type: ignore[no-untyped-def]
    for j in range(start, stop):
        ratios[j] = exp(scores[j] - score)


@kernel
def _line_up(scores, worths, weights, sigma, rows, scratch):  # type: ignore[no-untyped-def]
    n = scores.size
    top = scores[rows[0]]
    for k in range(n):
        row = rows[k]
        scratch.worth[k] = worths[row]
        scratch.score[k] = sigma * (scores[row] - top)
    for k in range(weights.size):
        scratch.weight[k] = weights[rows[k]]
    scratch.score[n : n + _PAD] = scratch.score[n - 1]
    for k in range(np.uint64(n + _PAD)):
        scratch.power[k] = exp(scratch.score[k])
    scratch.gradient[: n + _PAD] = 0.0
    scratch.hessian[: n + _PAD] = 0.0


@kernel
def _weigh_ranks(n, discounts, weight, scratch):  # type: ignore[no-untyped-def]
    """Split what swapping two documents changes into a part of the upper and a part of the lower one."""
    if weight == DISCOUNTED:
        for k in range(n):
            scratch.upper[k] = scratch.lower[k] = discounts[k]
    elif weight == AVERAGE_PRECISION:
        # Let c be the number of relevant documents down to rank r. One that leaves r takes c/r away, one that comes
        # to r brings (c + 1)/r, and relevant ones at the ranks r between the two gain or lose 1/r each.
        c, between = 0.0, 0.0
        for k in range(n):
            r, hit = k + 1.0, scratch.worth[k]
            c += hit
            between += hit / r
            scratch.upper[k] = (c + 1.0 - hit) / r - between
            scratch.lower[k] = (c + hit) / r - between
        scratch.worth[:n] /= c
    elif weight == RECIPROCAL_RANK:
        # A document above the first relevant one changes places with any relevant one; or the first relevant one
        # with one below it, and then what counts is where it comes to or the second relevant one.
        found, first, second = 0, 0.0, 0.0
        for k in range(n):
            if scratch.worth[k] > 0.0 and found < 2:
                found += 1
                first, second = (1.0 / (k + 1.0), 0.0) if found == 1 else (first, 1.0 / (k + 1.0))
        for k in range(n):
            here = 1.0 / (k + 1.0)
            scratch.upper[k] = here - first if here > first else (first if here == first else 0.0)
            scratch.lower[k] = 0.0 if scratch.worth[k] > 0.0 else max(here, second)


@kernel
def _weigh_pairs(i, start, n, stop, discounts, settings, weighted, scratch):  # type: ignore[no-untyped-def]
    """Fill the weights of the pairs of rank ``i``; tell whether there can be any of positive weight."""
    worth, u = scratch.worth[i], scratch.upper[i]
    if settings.weight == COUNT:
        for j in range(start, n):
            scratch.pair[j] = np.float64(worth > scratch.worth[j]) - np.float64(worth < scratch.worth[j])
    elif settings.distance_share > 0.0:
        for j in range(start, n):
            swap, apart = u - scratch.lower[j], j - i
            drop = discounts[apart - np.uint64(1)] - discounts[apart]
            scratch.pair[j] = (worth - scratch.worth[j]) * (settings.swap_share * swap + settings.distance_share * drop)
    elif settings.weight == RECIPROCAL_RANK and u == 0.0:
        return False
    else:
        for j in range(start, n):
            scratch.pair[j] = (worth - scratch.worth[j]) * (u - scratch.lower[j])
    if weighted:
        for j in range(start, n):
            scratch.pair[j] *= scratch.weight[i] if worth > scratch.worth[j] else scratch.weight[j]
    for j in range(n, stop):
        scratch.pair[j] = 0.0
    return True
