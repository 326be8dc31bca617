"""Smooth metrics by Laplace's distribution on a device: lists are sorted, and four scans go along them.

A scan adds up exponentials of differences of scores over the documents that are higher, or lower, than each one, and
separately those with the same score. Each step is a map of the two sums, *far* and *same*,

    far ← decay · (far + same),  same ← own    where the score changes, or    same ← same + own    where it does not,

and the composition of such maps has the same form, so that a block of documents is scanned at once. All of it is in
double precision. The formulas are in ``cpu.py``.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from rankwise.base.device.launching import program_list, triton_kernel
from rankwise.base.device.order import ordered
from rankwise.objectives.device import DeviceLists
from rankwise.objectives.ragged import Derivatives
from rankwise.objectives.smooth.cpu import AP, LN2, NDCG

_NDCG, _AP = tl.constexpr(NDCG), tl.constexpr(AP)
_LN2 = tl.constexpr(LN2)


@triton.jit
def _then(breaks, decay, far_0, same_0, far_1, same_1, later, later_decay, next_far_0, next_0, next_far_1, next_1):
    """Return the composition of two maps: whether the score changes, the decay of earlier sums, two pairs of sums."""
    return (
        breaks | later,
        tl.where(later != 0, decay * later_decay, decay),
        tl.where(later != 0, later_decay * (far_0 + same_0) + next_far_0, far_0),
        tl.where(later != 0, next_0, same_0 + next_0),
        tl.where(later != 0, later_decay * (far_1 + same_1) + next_far_1, far_1),
        tl.where(later != 0, next_1, same_1 + next_1),
    )


@triton.jit
def _scan(breaks, decay, own_0, own_1, far_0, same_0, far_1, same_1):
    """Return two pairs of sums for each place of a block, which continue those at the end of the block before."""
    nothing = tl.zeros_like(own_0)
    changed, factor, far_a, same_a, far_b, same_b = tl.associative_scan(
        (breaks, decay, nothing, own_0, nothing, own_1), 0, _then
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
    """Return places, mask and documents of a block, where the score changes, by which decay, and the relevance.

    Lanes behind the end change no sum: they count as equal scores.
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
    decay = tl.exp(tl.where(led, -eta * tl.abs(score - previous), 0.0))
    gain = tl.load(gains + first + row, mask=inside, other=0.0)
    return place, inside, row, breaks, decay, tl.where(gain > 0.0, 1.0, 0.0).to(tl.float64)


@triton.jit
def _add(column, values, inside, fresh: tl.constexpr):
    """Add values to a part of a column; a fresh one holds none yet."""
    tl.store(column, values if fresh else tl.load(column, mask=inside, other=0.0) + values, mask=inside)


@triton_kernel
def _fill_sums(
    offsets, scores, gains, ranked, eta: tl.float64, above_0, near_0, tilt_0, above_1, near_1, tilt_1,
    downwards: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Fill Σ F, Σ w and Σ t of every place over documents that are higher; upwards, add those that are lower.

    Sums ending in 0 are over irrelevant documents, those ending in 1 over relevant ones. Of documents with the same
    score, the earlier ones are counted downwards, the later ones upwards.
    """
    _, first, size = program_list(offsets)
    lanes = tl.arange(0, block)
    far_a = tl.full([], 0.0, tl.float64)
    same_a, far_b, same_b, count_0, count_1 = far_a, far_a, far_a, far_a, far_a
    for start in range(0, size, block):
        place, inside, _row, breaks, decay, relevant = _step(
            first, size, start, scores, gains, ranked, eta, downwards, block
        )
        own_0, own_1 = tl.where(inside, 1.0 - relevant, 0.0), relevant
        far_0, same_0, far_1, same_1 = _scan(breaks, decay, own_0, own_1, far_a, same_a, far_b, same_b)
        far_a, same_a = _last(far_0, lanes, block), _last(same_0, lanes, block)
        far_b, same_b = _last(far_1, lanes, block), _last(same_1, lanes, block)
        at = first + place
        half_0, half_1 = 0.5 * (far_0 + same_0 - own_0), 0.5 * (far_1 + same_1 - own_1)
        sum_0, sum_1, sign = half_0, half_1, 0.5
        if downwards:  # higher: F = 1 − w, and t = −w
            higher_0 = count_0 + tl.cumsum(own_0, 0) - same_0
            higher_1 = count_1 + tl.cumsum(own_1, 0) - same_1
            count_0 += tl.sum(own_0)
            count_1 += tl.sum(own_1)
            sum_0, sum_1, sign = higher_0 - far_0 + half_0, higher_1 - far_1 + half_1, -0.5
        _add(above_0 + at, sum_0, inside, downwards)
        _add(above_1 + at, sum_1, inside, downwards)
        _add(near_0 + at, half_0, inside, downwards)
        _add(near_1 + at, half_1, inside, downwards)
        _add(tilt_0 + at, sign * far_0, inside, downwards)
        _add(tilt_1 + at, sign * far_1, inside, downwards)


@triton_kernel
def _fill_factors(
    offsets, gains, ranked, best, eta: tl.float64, above_0, near_0, tilt_0, above_1, near_1, tilt_1, own_gradient,
    own_hessian, value, metric: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Fill the value, the factors of relevant documents' terms, and their derivatives by their own scores.

    The factors replace sums: ``above_0`` and ``near_0`` become c and b·c for irrelevant documents, ``above_1`` and
    ``near_1`` for relevant ones.
    """
    query, first, size = program_list(offsets)
    list_best = tl.load(best + query).to(tl.float64)
    learns = tl.where(list_best == size, 0.0, list_best) if metric == _AP else tl.where(size == 1, 0.0, list_best)
    divisor = tl.where(learns > 0.0, learns, 1.0)
    total = tl.zeros([block], tl.float64)
    for start in range(0, size, block):
        place = start + tl.arange(0, block)
        inside = place < size
        at = first + place
        row = tl.load(ranked + at, mask=inside, other=0)
        gain = tl.load(gains + first + row, mask=inside, other=0.0).to(tl.float64)
        counts = inside & (gain * learns > 0.0)  # otherwise every order is the best one
        irrelevant = tl.load(above_0 + at, mask=counts, other=0.0)
        relevant = tl.load(above_1 + at, mask=counts, other=0.0)
        w_0 = tl.load(near_0 + at, mask=counts, other=0.0)
        w_1 = tl.load(near_1 + at, mask=counts, other=0.0)
        rank = 1.0 + irrelevant + relevant
        if metric == _NDCG:
            log = tl.log(1.0 + rank)
            share = gain * _LN2 / divisor
            part = -share / log
            c_0 = share * eta / ((1.0 + rank) * log * log)
            c_1 = c_0
            b = -eta * (log + 2.0) / ((1.0 + rank) * log)
        elif metric == _AP:
            share = 1.0 / (divisor * rank)
            part = -share * (1.0 + relevant)
            c_0 = eta * share * (1.0 + relevant) / rank
            c_1 = -eta * share * irrelevant / rank
            b = -2.0 * eta / rank
        else:
            part = irrelevant
            c_0 = tl.zeros_like(rank) + eta
            c_1 = tl.zeros_like(rank)
            b = c_1
        c_0, c_1 = tl.where(counts, c_0, 0.0), tl.where(counts, c_1, 0.0)
        c_w_sum = c_0 * w_0 + c_1 * w_1
        c_t_sum = c_0 * tl.load(tilt_0 + at, mask=counts, other=0.0)
        c_t_sum += c_1 * tl.load(tilt_1 + at, mask=counts, other=0.0)
        total += tl.where(counts, part, 0.0)
        tl.store(own_gradient + at, -c_w_sum, mask=inside)
        tl.store(own_hessian + at, eta * c_t_sum + b * (w_0 + w_1) * c_w_sum, mask=inside)
        tl.store(above_0 + at, c_0, mask=inside)
        tl.store(above_1 + at, c_1, mask=inside)
        tl.store(near_0 + at, b * c_0, mask=inside)
        tl.store(near_1 + at, b * c_1, mask=inside)
    list_value = tl.sum(total)
    if metric == _AP:
        list_value = tl.where(list_best == size, -1.0, list_value)
    tl.store(value + query, list_value)


@triton_kernel
def _spread(
    offsets, scores, gains, ranked, eta: tl.float64, c_0, bc_0, c_1, bc_1, own_gradient, own_hessian, gradient, hessian,
    downwards: tl.constexpr, has_hessian: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Add the terms of relevant documents that are higher, or lower, to every place; upwards fills the results."""
    _, first, size = program_list(offsets)
    lanes = tl.arange(0, block)
    far_a = tl.full([], 0.0, tl.float64)
    same_a, far_b, same_b, far_bc_a, same_bc_a, far_bc_b, same_bc_b = far_a, far_a, far_a, far_a, far_a, far_a, far_a
    for start in range(0, size, block):
        place, inside, row, breaks, decay, relevant = _step(
            first, size, start, scores, gains, ranked, eta, downwards, block
        )
        at = first + place
        own_0 = tl.load(c_0 + at, mask=inside, other=0.0)
        own_1 = tl.load(c_1 + at, mask=inside, other=0.0)
        far_0, same_0, far_1, same_1 = _scan(breaks, decay, own_0, own_1, far_a, same_a, far_b, same_b)
        far_a, same_a = _last(far_0, lanes, block), _last(same_0, lanes, block)
        far_b, same_b = _last(far_1, lanes, block), _last(same_1, lanes, block)
        hit = relevant > 0.0
        far, same = tl.where(hit, far_1, far_0), tl.where(hit, same_1 - own_1, same_0 - own_0)
        gradient_sum = tl.load(own_gradient + at, mask=inside, other=0.0) + 0.5 * (far + same)
        if has_hessian:
            own_0 = tl.load(bc_0 + at, mask=inside, other=0.0)
            own_1 = tl.load(bc_1 + at, mask=inside, other=0.0)
            far_0, same_0, far_1, same_1 = _scan(
                breaks, decay * decay, own_0, own_1, far_bc_a, same_bc_a, far_bc_b, same_bc_b
            )
            far_bc_a, same_bc_a = _last(far_0, lanes, block), _last(same_0, lanes, block)
            far_bc_b, same_bc_b = _last(far_1, lanes, block), _last(same_1, lanes, block)
            bc_sum = tl.where(hit, far_1 + same_1 - own_1, far_0 + same_0 - own_0)
            hessian_sum = tl.load(own_hessian + at, mask=inside, other=0.0) + 0.25 * bc_sum
            hessian_sum = hessian_sum + 0.5 * eta * far if downwards else hessian_sum - 0.5 * eta * far
            if downwards:
                tl.store(own_hessian + at, hessian_sum, mask=inside)
            else:
                tl.store(hessian + first + row, hessian_sum, mask=inside)
        if downwards:
            tl.store(own_gradient + at, gradient_sum, mask=inside)
        else:
            tl.store(gradient + first + row, gradient_sum, mask=inside)


def smooth(lists: DeviceLists, scores: Tensor, arguments: Any, _: None, out: Derivatives) -> None:
    """Compute the loss and its derivatives: sort lists, compute ranks by two scans, and derivatives by two more."""
    gains, best, eta, metric = arguments.gains, arguments.best, arguments.eta, arguments.metric
    grid, block = (lists.n_queries,), lists.block()
    ranked = ordered(lists, scores[None])[1][0]
    columns = torch.empty((8, lists.n_docs), dtype=torch.float64, device=lists.device).unbind()
    inputs = (lists.offsets, scores, gains, ranked, eta)
    for downwards in (True, False):
        _fill_sums[grid](*inputs, *columns[:6], downwards, block)
    _fill_factors[grid](lists.offsets, gains, ranked, best, eta, *columns, out.value, metric, block)
    has_hessian = out.hessian.numel() > 0
    outputs = (out.gradient, out.hessian if has_hessian else out.gradient)
    for downwards in (True, False):
        _spread[grid](*inputs, *columns[0:2], *columns[3:5], *columns[6:], *outputs, downwards, has_hessian, block)
