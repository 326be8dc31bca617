"""The pairwise logistic loss Σ w·log(1 + e^−σ(s_better − s_worse)) and its derivatives, for LambdaRank and RankNet.

What makes it fast: documents are ranked once and gathered in that order; e^σs is taken once per document, not per pair;
a pair costs one division and no call, so the loop over the lower documents of a pair vectorises. As the upper document
has the higher score, d = σ(s_upper − s_lower) ≥ 0 and x = e^−d lies in (0, 1], where log(1 + x) is a short polynomial.
"""

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from rankwise.metrics.base import fill_worths, ideal, longest_of
from rankwise.metrics.order import order
from rankwise.objectives.fastmath import atanh_ratio, exp

NDCG, MAP, MRR, COUNT = 0, 1, 2, 3

_PAD = 8  # places of no weight behind the last document, so that the inner loop runs in whole vectors
_WIDEST = 600.0  # up to this spread of σs no e^σs underflows
_NORM_BIAS = 0.01
_SUMS_IN_ANY_ORDER = {"reassoc", "contract", "nsz"}  # lets sums be vectorised; the order is the same in every run


class Settings(NamedTuple):
    """What tells one pairwise loss from another."""

    sigma: float
    truncation: int
    """Pairs count whose upper document is among this many first."""
    norm: bool
    metric: int
    """Whose change weighs a pair: NDCG, MAP, MRR, or COUNT, where every pair weighs 1."""
    swap_share: float
    """How much of a pair's weight is the metric's change when the two are swapped …"""
    distance_share: float
    """… and how much is the drop of the discount at the rank that equals their distance (LambdaLoss)."""


class Room(NamedTuple):
    """Scratch space for one query, by rank."""

    rows: NDArray[np.int64]
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


@numba.njit(cache=True, nogil=True, error_model="numpy")
def pairwise(  # type: ignore[no-untyped-def]
    first, last, offsets, scores, labels, weights, rule, discounts, settings, value, gradient, hessian
):
    """Fill the derivatives of queries ``first`` to ``last``; the value NaN marks a label without a worth."""
    n = longest_of(first, last, offsets)
    lines = np.zeros((10, n + _PAD))
    room = Room(
        np.empty(n, np.int64),
        lines[0],
        lines[1],
        lines[2],
        lines[3],
        lines[4],
        lines[5],
        lines[6],
        lines[7],
        lines[8],
        lines[9],
    )
    worths, counts = np.empty(n), np.empty(rule.table.size, np.int64)
    for q in range(first, last):
        start, stop = offsets[q], offsets[q + 1]
        mine = slice(start, stop)
        own = worths[: stop - start]
        if not fill_worths(labels[mine], rule, own, counts):
            value[q] = np.nan
            continue
        if own.min() == own.max():
            value[q], gradient[mine], hessian[mine] = 0.0, 0.0, 0.0
            continue
        if settings.metric == NDCG:
            own /= ideal(own, rule, counts, discounts, settings.truncation)
        heavy = weights[mine] if weights.size else weights
        value[q] = _query(scores[mine], own, heavy, discounts, settings, room, gradient[mine], hessian[mine])


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _query(scores, worths, weights, discounts, settings, room, gradient, hessian):  # type: ignore[no-untyped-def]
    n = np.uint64(scores.size)
    _line_up(scores, worths, weights, settings.sigma, room)
    _weigh_ranks(scores.size, discounts, settings.metric, room)
    lowest = room.score[n - 1]
    # The norm's division is left out where all scores are equal, as in LightGBM.
    bias, slope = (_NORM_BIAS, 1.0 / settings.sigma) if settings.norm and lowest < 0.0 else (1.0, 0.0)
    wide = lowest < -_WIDEST
    powers = room.ratio if wide else room.power
    total, pull = 0.0, 0.0
    for i in range(min(np.uint64(settings.truncation), n - np.uint64(1))):
        below = i + np.uint64(1)
        end = below + (n - below + np.uint64(_PAD - 1)) // np.uint64(_PAD) * np.uint64(_PAD)
        if not _weigh_pairs(i, below, n, end, discounts, settings, weights.size > 0, room):
            continue
        scale = 1.0 if wide else 1.0 / room.power[i]
        if wide:
            _fill_ratios(below, end, room.score[i], room.score, room.ratio)
        loss, size, g, h = _meet(
            below, end, room.score[i], scale, bias, slope, room.pair, room.score, powers, room.gradient, room.hessian
        )
        total += loss
        pull += size
        room.gradient[i] -= g
        room.hessian[i] += h
    factor = 1.0
    if settings.norm and pull > 0.0:
        pull *= 2.0 * settings.sigma
        factor = np.log1p(pull) / (pull * np.log(2.0))
    for k in range(n):
        gradient[room.rows[k]] = settings.sigma * factor * room.gradient[k]
        hessian[room.rows[k]] = settings.sigma * settings.sigma * factor * room.hessian[k]
    return factor * total


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUMS_IN_ANY_ORDER)
def _meet(start, stop, score, scale, bias, slope, pair, scores, powers, gradient, hessian):  # type: ignore[no-untyped-def]
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


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _fill_ratios(start, stop, score, scores, ratios):  # type: ignore[no-untyped-def]
    for j in range(start, stop):
        ratios[j] = exp(scores[j] - score)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _line_up(scores, worths, weights, sigma, room):  # type: ignore[no-untyped-def]
    n = scores.size
    order(scores, room.rows[:n])
    top = scores[room.rows[0]]
    for k in range(n):
        row = room.rows[k]
        room.worth[k] = worths[row]
        room.score[k] = sigma * (scores[row] - top)
    for k in range(weights.size):
        room.weight[k] = weights[room.rows[k]]
    room.score[n : n + _PAD] = room.score[n - 1]
    for k in range(np.uint64(n + _PAD)):
        room.power[k] = exp(room.score[k])
    room.gradient[: n + _PAD] = 0.0
    room.hessian[: n + _PAD] = 0.0


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _weigh_ranks(n, discounts, metric, room):  # type: ignore[no-untyped-def]
    """Split what swapping two documents changes into a part of the upper and a part of the lower one."""
    if metric == NDCG:
        for k in range(n):
            room.upper[k] = room.lower[k] = discounts[k]
    elif metric == MAP:
        # Let c be the number of relevant documents down to rank r. One that leaves r takes c/r away, one that comes
        # to r brings (c + 1)/r, and relevant ones at the ranks r between the two gain or lose 1/r each.
        c, between = 0.0, 0.0
        for k in range(n):
            r, hit = k + 1.0, room.worth[k]
            c += hit
            between += hit / r
            room.upper[k] = (c + 1.0 - hit) / r - between
            room.lower[k] = (c + hit) / r - between
        room.worth[:n] /= c
    elif metric == MRR:
        # A document above the first relevant one changes places with any relevant one; or the first relevant one
        # with one below it, and then what counts is where it comes to or the second relevant one.
        found, first, second = 0, 0.0, 0.0
        for k in range(n):
            if room.worth[k] > 0.0 and found < 2:
                found += 1
                first, second = (1.0 / (k + 1.0), 0.0) if found == 1 else (first, 1.0 / (k + 1.0))
        for k in range(n):
            here = 1.0 / (k + 1.0)
            room.upper[k] = here - first if here > first else (first if here == first else 0.0)
            room.lower[k] = 0.0 if room.worth[k] > 0.0 else max(here, second)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _weigh_pairs(i, start, n, stop, discounts, settings, weighted, room):  # type: ignore[no-untyped-def]
    """Fill the weights of the pairs of rank ``i``; tell whether there can be any of positive weight."""
    worth, u = room.worth[i], room.upper[i]
    if settings.metric == COUNT:
        for j in range(start, n):
            room.pair[j] = np.float64(worth > room.worth[j]) - np.float64(worth < room.worth[j])
    elif settings.distance_share > 0.0:
        for j in range(start, n):
            swap, apart = u - room.lower[j], j - i
            drop = discounts[apart - np.uint64(1)] - discounts[apart]
            room.pair[j] = (worth - room.worth[j]) * (settings.swap_share * swap + settings.distance_share * drop)
    elif settings.metric == MRR and u == 0.0:
        return False
    else:
        for j in range(start, n):
            room.pair[j] = (worth - room.worth[j]) * (u - room.lower[j])
    if weighted:
        for j in range(start, n):
            room.pair[j] *= room.weight[i] if worth > room.worth[j] else room.weight[j]
    for j in range(n, stop):
        room.pair[j] = 0.0
    return True
