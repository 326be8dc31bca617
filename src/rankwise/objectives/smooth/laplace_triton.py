"""Smooth metrics by Laplace's distribution on a device: lists are put in order, and four scans go along them.

A scan adds up exponentials of differences of scores over the documents that are higher, or lower, than each one, and
apart from them those that score the same. Going one document further is a map of the two sums, *far* and *same*,

    far ← fall · (far + same),  same ← own    where the score changes, or    same ← same + own    where it does not,

and such maps in a row make one of the same form, so that a block of documents is scanned at once. All of it is in
double precision. The formulas are in ``laplace.py``.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from rankwise.device.launching import list_bounds, triton_kernel
from rankwise.device.order import ordered
from rankwise.objectives.smooth.cpu import AP, LN2, NDCG

_NDCG, _AP = tl.constexpr(NDCG), tl.constexpr(AP)
_LN2 = tl.constexpr(LN2)


@triton.jit
def _then(breaks, fall, far_0, same_0, far_1, same_1, later, later_fall, next_far_0, next_0, next_far_1, next_1):
    """One map after another: whether the score changes, the factor of what came before, and two sums of either kind."""
    return (
        breaks | later,
        tl.where(later != 0, fall * later_fall, fall),
        tl.where(later != 0, later_fall * (far_0 + same_0) + next_far_0, far_0),
        tl.where(later != 0, next_0, same_0 + next_0),
        tl.where(later != 0, later_fall * (far_1 + same_1) + next_far_1, far_1),
        tl.where(later != 0, next_1, same_1 + next_1),
    )


@triton.jit
def _scan(breaks, fall, own_0, own_1, far_0, same_0, far_1, same_1):
    """The sums of a block, two of them at once, after those with which the block before it ended."""
    nothing = tl.zeros_like(own_0)
    changed, factor, far_a, same_a, far_b, same_b = tl.associative_scan(
        (breaks, fall, nothing, own_0, nothing, own_1), 0, _then
    )
    far_a = tl.where(changed != 0, factor * (far_0 + same_0) + far_a, far_0)
    far_b = tl.where(changed != 0, factor * (far_1 + same_1) + far_b, far_1)
    same_a = tl.where(changed != 0, same_a, same_0 + same_a)
    same_b = tl.where(changed != 0, same_b, same_1 + same_b)
    return far_a, same_a, far_b, same_b


@triton.jit
def _last(values, lanes, block: tl.constexpr):
    return tl.sum(tl.where(lanes == block - 1, values, 0.0))


@triton.jit
def _step(first, size, start, scores, gains, ranked, eta, downwards: tl.constexpr, block: tl.constexpr):
    """A block of places: which documents stand there, where the score changes, by which factor, and who is relevant.

    Lanes behind the end change nothing: they go on with equal scores.
    """
    walked = start + tl.arange(0, block)
    inside = walked < size
    place = walked if downwards else size - 1 - walked
    before = place - 1 if downwards else place + 1
    led = inside & (walked > 0)
    row = tl.load(ranked + first + place, mask=inside, other=0)
    score = tl.load(scores + first + row, mask=inside, other=0.0).to(tl.float64)
    row_before = tl.load(ranked + first + before, mask=led, other=0)
    previous = tl.load(scores + first + row_before, mask=led, other=0.0).to(tl.float64)
    breaks = (led & (score != previous)).to(tl.int32)
    fall = tl.exp(tl.where(led, -eta * tl.abs(score - previous), 0.0))
    gain = tl.load(gains + first + row, mask=inside, other=0.0)
    return place, inside, row, breaks, fall, tl.where(gain > 0.0, 1.0, 0.0).to(tl.float64)


@triton_kernel
def _look(
    offsets, scores, gains, ranked, eta: tl.float64, above_0, near_0, tilt_0, above_1, near_1, tilt_1,
    downwards: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Fill Σ F, Σ w and Σ t of every place over those that are higher and equal, or add those that are lower.

    The sums ending in 0 are over others that are not relevant, those in 1 over those that are. Of documents that score
    the same, those that come first are counted downwards, the others upwards.
    """
    query = tl.program_id(0)
    first, size = list_bounds(offsets, query)
    lanes = tl.arange(0, block)
    far_a = tl.full([], 0.0, tl.float64)
    same_a, far_b, same_b, count_0, count_1 = far_a, far_a, far_a, far_a, far_a
    for start in range(0, size, block):
        place, inside, _, breaks, fall, relevant = _step(
            first, size, start, scores, gains, ranked, eta, downwards, block
        )
        own_0, own_1 = tl.where(inside, 1.0 - relevant, 0.0), relevant
        far_0, same_0, far_1, same_1 = _scan(breaks, fall, own_0, own_1, far_a, same_a, far_b, same_b)
        far_a, same_a = _last(far_0, lanes, block), _last(same_0, lanes, block)
        far_b, same_b = _last(far_1, lanes, block), _last(same_1, lanes, block)
        at = first + place
        half_0, half_1 = 0.5 * (far_0 + same_0 - own_0), 0.5 * (far_1 + same_1 - own_1)
        if downwards:  # higher: F = 1 − w, and t = −w
            higher_0 = count_0 + tl.cumsum(own_0, 0) - same_0
            higher_1 = count_1 + tl.cumsum(own_1, 0) - same_1
            count_0 += tl.sum(own_0)
            count_1 += tl.sum(own_1)
            tl.store(above_0 + at, higher_0 - far_0 + half_0, mask=inside)
            tl.store(above_1 + at, higher_1 - far_1 + half_1, mask=inside)
            tl.store(near_0 + at, half_0, mask=inside)
            tl.store(near_1 + at, half_1, mask=inside)
            tl.store(tilt_0 + at, -0.5 * far_0, mask=inside)
            tl.store(tilt_1 + at, -0.5 * far_1, mask=inside)
        else:
            tl.store(above_0 + at, tl.load(above_0 + at, mask=inside, other=0.0) + half_0, mask=inside)
            tl.store(above_1 + at, tl.load(above_1 + at, mask=inside, other=0.0) + half_1, mask=inside)
            tl.store(near_0 + at, tl.load(near_0 + at, mask=inside, other=0.0) + half_0, mask=inside)
            tl.store(near_1 + at, tl.load(near_1 + at, mask=inside, other=0.0) + half_1, mask=inside)
            tl.store(tilt_0 + at, tl.load(tilt_0 + at, mask=inside, other=0.0) + 0.5 * far_0, mask=inside)
            tl.store(tilt_1 + at, tl.load(tilt_1 + at, mask=inside, other=0.0) + 0.5 * far_1, mask=inside)


@triton_kernel
def _pull(
    offsets, gains, ranked, best, eta: tl.float64, above_0, near_0, tilt_0, above_1, near_1, tilt_1, slopes, curves,
    value, metric: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Add up the value, and put what relevant documents pull others by, and bend them by, into the places of sums.

    The first four columns become c and b·c for others that are not relevant, and that are; ``slopes`` and ``curves``
    what documents add to themselves.
    """
    query = tl.program_id(0)
    first, size = list_bounds(offsets, query)
    whole = tl.load(best + query).to(tl.float64)
    learns = tl.where(whole == size, 0.0, whole) if metric == _AP else tl.where(size == 1, 0.0, whole)
    divisor = tl.where(learns > 0.0, learns, 1.0)
    total = tl.zeros([block], tl.float64)
    for start in range(0, size, block):
        place = start + tl.arange(0, block)
        inside = place < size
        at = first + place
        row = tl.load(ranked + at, mask=inside, other=0)
        gain = tl.load(gains + first + row, mask=inside, other=0.0).to(tl.float64)
        counts = inside & (gain * learns > 0.0)  # else every order is the best one
        others = tl.load(above_0 + at, mask=counts, other=0.0)
        relevant = tl.load(above_1 + at, mask=counts, other=0.0)
        around_0 = tl.load(near_0 + at, mask=counts, other=0.0)
        around_1 = tl.load(near_1 + at, mask=counts, other=0.0)
        rank = 1.0 + others + relevant
        if metric == _NDCG:
            log = tl.log(1.0 + rank)
            share = gain * _LN2 / divisor
            part = -share / log
            pull_0 = share * eta / ((1.0 + rank) * log * log)
            pull_1 = pull_0
            bend = -eta * (log + 2.0) / ((1.0 + rank) * log)
        elif metric == _AP:
            share = 1.0 / (divisor * rank)
            part = -share * (1.0 + relevant)
            pull_0 = eta * share * (1.0 + relevant) / rank
            pull_1 = -eta * share * others / rank
            bend = -2.0 * eta / rank
        else:
            part = others
            pull_0 = tl.zeros_like(rank) + eta
            pull_1 = tl.zeros_like(rank)
            bend = pull_1
        pull_0, pull_1 = tl.where(counts, pull_0, 0.0), tl.where(counts, pull_1, 0.0)
        pulled = pull_0 * around_0 + pull_1 * around_1
        tilted = pull_0 * tl.load(tilt_0 + at, mask=counts, other=0.0)
        tilted += pull_1 * tl.load(tilt_1 + at, mask=counts, other=0.0)
        total += tl.where(counts, part, 0.0)
        tl.store(slopes + at, -pulled, mask=inside)
        tl.store(curves + at, eta * tilted + bend * (around_0 + around_1) * pulled, mask=inside)
        tl.store(above_0 + at, pull_0, mask=inside)
        tl.store(above_1 + at, pull_1, mask=inside)
        tl.store(near_0 + at, bend * pull_0, mask=inside)
        tl.store(near_1 + at, bend * pull_1, mask=inside)
    whole_value = tl.sum(total)
    if metric == _AP:
        whole_value = tl.where(whole == size, -1.0, whole_value)
    tl.store(value + query, whole_value)


@triton_kernel
def _spread(
    offsets, scores, gains, ranked, eta: tl.float64, pull_0, bend_0, pull_1, bend_1, slopes, curves, gradient, hessian,
    downwards: tl.constexpr, wanted: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Add to every place what relevant documents that are higher, or lower, add to it; upwards fills the results."""
    query = tl.program_id(0)
    first, size = list_bounds(offsets, query)
    lanes = tl.arange(0, block)
    far_a = tl.full([], 0.0, tl.float64)
    same_a, far_b, same_b, bent_a, bound_a, bent_b, bound_b = far_a, far_a, far_a, far_a, far_a, far_a, far_a
    for start in range(0, size, block):
        place, inside, row, breaks, fall, relevant = _step(
            first, size, start, scores, gains, ranked, eta, downwards, block
        )
        at = first + place
        own_0 = tl.load(pull_0 + at, mask=inside, other=0.0)
        own_1 = tl.load(pull_1 + at, mask=inside, other=0.0)
        far_0, same_0, far_1, same_1 = _scan(breaks, fall, own_0, own_1, far_a, same_a, far_b, same_b)
        far_a, same_a = _last(far_0, lanes, block), _last(same_0, lanes, block)
        far_b, same_b = _last(far_1, lanes, block), _last(same_1, lanes, block)
        hit = relevant > 0.0
        far, same = tl.where(hit, far_1, far_0), tl.where(hit, same_1 - own_1, same_0 - own_0)
        slope = tl.load(slopes + at, mask=inside, other=0.0) + 0.5 * (far + same)
        if wanted:
            own_0 = tl.load(bend_0 + at, mask=inside, other=0.0)
            own_1 = tl.load(bend_1 + at, mask=inside, other=0.0)
            far_0, same_0, far_1, same_1 = _scan(breaks, fall * fall, own_0, own_1, bent_a, bound_a, bent_b, bound_b)
            bent_a, bound_a = _last(far_0, lanes, block), _last(same_0, lanes, block)
            bent_b, bound_b = _last(far_1, lanes, block), _last(same_1, lanes, block)
            bent = tl.where(hit, far_1 + same_1 - own_1, far_0 + same_0 - own_0)
            curve = tl.load(curves + at, mask=inside, other=0.0) + 0.25 * bent
            curve = curve + 0.5 * eta * far if downwards else curve - 0.5 * eta * far
            if downwards:
                tl.store(curves + at, curve, mask=inside)
            else:
                tl.store(hessian + first + row, curve, mask=inside)
        if downwards:
            tl.store(slopes + at, slope, mask=inside)
        else:
            tl.store(gradient + first + row, slope, mask=inside)


def smooth(lists: Any, scores: Tensor, arguments: Any, _: None, out: Any) -> None:
    """Compute the loss and its derivatives: lists in order, ranks by two scans, what follows from them by two more."""
    gains, best, eta, metric = arguments.gains, arguments.best, arguments.eta, arguments.metric
    grid, block = (lists.n_queries,), lists.block()
    ranked = ordered(lists, scores[None])[1][0]
    columns = torch.empty((8, lists.n_docs), dtype=torch.float64, device=lists.device).unbind()
    above_0, near_0, _tilt_0, above_1, near_1, _tilt_1, slopes, curves = columns
    inputs = (lists.offsets, scores, gains, ranked, eta)
    for downwards in (True, False):
        _look[grid](*inputs, *columns[:6], downwards, block)
    _pull[grid](lists.offsets, gains, ranked, best, eta, *columns, out.value, metric, block)
    wanted = out.hessian.numel() > 0
    outputs = (out.gradient, out.hessian if wanted else out.gradient)
    for downwards in (True, False):
        _spread[grid](*inputs, above_0, near_0, above_1, near_1, slopes, curves, *outputs, downwards, wanted, block)
