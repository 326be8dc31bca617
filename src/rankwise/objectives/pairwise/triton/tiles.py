"""Sums over the pairs of a tile of documents, in the order of ranks: what all kernels of pairwise losses share.

In the order of ranks the documents of a list lie side by side, and those among the first, which are paired with all
others, come first. Each document gathers from all its pairs, so that every pair is computed twice, and nothing has to
be added to by several programs at once: results repeat bit for bit.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from rankwise.base.device.arithmetic import log1p_unit
from rankwise.base.device.launching import program_list, triton_kernel
from rankwise.base.device.ragged import Ragged
from rankwise.objectives.pairwise.cpu.tiles import HINGE, LOGISTIC, NORM_BIAS, SQUARED_HINGE, STEEPEST
from rankwise.objectives.pairwise.cpu.weights import AVERAGE_PRECISION, COUNT, DISCOUNTED, RECIPROCAL_RANK

_LOGISTIC, _HINGE, _SQUARED_HINGE = tl.constexpr(LOGISTIC), tl.constexpr(HINGE), tl.constexpr(SQUARED_HINGE)
_COUNT, _DISCOUNTED = tl.constexpr(COUNT), tl.constexpr(DISCOUNTED)
_PRECISION, _RECIPROCAL = tl.constexpr(AVERAGE_PRECISION), tl.constexpr(RECIPROCAL_RANK)
BY_SWAPS = (AVERAGE_PRECISION, RECIPROCAL_RANK)
"""The weights of pairs that depend on which documents stand between the two."""
_STEEPEST, _NORM_BIAS = tl.constexpr(STEEPEST), tl.constexpr(NORM_BIAS)


@triton.jit
def _pair_derivatives(margin, loss: tl.constexpr):
    """Return minus the first derivative of a pair's loss, the second or what replaces it, and what the value needs."""
    if loss == _LOGISTIC:
        small = tl.exp(-tl.abs(margin))
        inverse = 1.0 / (1.0 + small)
        return tl.where(margin > 0.0, small, 1.0) * inverse, small * inverse * inverse, small
    elif loss == _HINGE:  # noqa: RET505 (a constant decides: without elif both are compiled)
        on = tl.where(margin < 1.0, 1.0, 0.0).to(margin.dtype)
        return on, on, on
    elif loss == _SQUARED_HINGE:
        first = 2.0 * tl.maximum(1.0 - margin, 0.0)
        return first, tl.where(first > 0.0, 2.0, 0.0).to(margin.dtype), first
    else:
        size = tl.exp(tl.minimum(-margin, _STEEPEST))
        return size, tl.where(margin < -_STEEPEST, 0.0, size), size


@triton.jit
def _value(margin, first, small, loss: tl.constexpr):
    """Return the loss of a pair, from its margin and what its derivatives were made of."""
    if loss == _LOGISTIC:
        return tl.maximum(-margin, 0.0) + log1p_unit(small)
    elif loss == _HINGE:  # noqa: RET505
        return tl.maximum(1.0 - margin, 0.0)
    elif loss == _SQUARED_HINGE:
        return 0.25 * first * first
    else:
        return tl.where(margin < -_STEEPEST, first * (1.0 - margin - _STEEPEST), first)


@triton.jit
def _pair_sums(
    gradient, hessian, cost, magnitude, begin, stop, mine, score, gain, my_upper, my_lower, my_weight, reach, norm_bias,
    scores, gains, weights, upper, lower, discounts, distances, sigma, swap_share, distance_share, weight: tl.constexpr,
    loss: tl.constexpr, norm: tl.constexpr, weighted: tl.constexpr, by_distance: tl.constexpr, valued: tl.constexpr,
    step: tl.constexpr,
):  # fmt: skip
    """Add the pairs with the ranks ``begin`` to ``stop`` to gradients, Hessians, losses and magnitudes of gradients.

    ``valued``: losses and magnitudes too, of the pairs with earlier ranks alone, so that no pair counts twice.
    """
    swaps: tl.constexpr = (weight == _PRECISION) | (weight == _RECIPROCAL)
    for start in range(begin, stop, step):
        partners = start + tl.arange(0, step)
        inside = partners < stop
        partner_score = tl.load(scores + partners, mask=inside, other=0.0)[:, None]
        partner_gain = tl.load(gains + partners, mask=inside, other=0.0)[:, None]
        partners = partners[:, None]
        counts = inside[:, None] & (gain != partner_gain) & (tl.minimum(mine, partners) < reach)
        better = gain > partner_gain
        gap = score - partner_score
        margin = gap * tl.where(better, sigma, -sigma)
        first, second, small = _pair_derivatives(margin, loss)
        if weight == _COUNT:
            each = tl.where(counts, 1.0, 0.0).to(score.dtype)
        else:
            if swaps:
                partner_upper = tl.load(upper + partners, mask=inside[:, None], other=0.0)
                partner_lower = tl.load(lower + partners, mask=inside[:, None], other=0.0)
            else:
                partner_upper = tl.load(discounts + partners, mask=inside[:, None], other=0.0)
                partner_lower = partner_upper
            if by_distance:
                distance = tl.load(distances + tl.abs(mine - partners), mask=counts, other=0.0)
                each = swap_share * tl.abs(my_upper - partner_upper) + distance_share * distance
            elif swaps:
                above = mine < partners
                leaving = tl.where(above, my_upper, partner_upper)
                each = leaving - tl.where(above, partner_lower, my_lower)
                if weight == _RECIPROCAL:
                    each = tl.where(leaving == 0.0, 0.0, each)
            else:
                each = tl.abs(my_upper - partner_upper)
            each = tl.where(counts, tl.abs(gain - partner_gain) * each, 0.0)
        if weighted:
            each = each * tl.where(better, my_weight, tl.load(weights + partners, mask=inside[:, None], other=0.0))
        if norm:
            each = each / (norm_bias + tl.abs(gap))
        pair_gradient = each * first
        gradient += tl.where(better, -pair_gradient, pair_gradient)
        hessian += each * second
        if valued:
            before = partners < mine
            cost += tl.where(before, each * _value(margin, first, small, loss), 0.0)
            if norm:
                magnitude += tl.where(before, pair_gradient, 0.0)
    return gradient, hessian, cost, magnitude


@triton.jit
def tile_sums(
    start, size, reach, scores, gains, weights, upper, lower, discounts, distances, sigma: tl.float64,
    swap_share: tl.float64, distance_share: tl.float64, weight: tl.constexpr, loss: tl.constexpr, norm: tl.constexpr,
    weighted: tl.constexpr, by_distance: tl.constexpr, tile: tl.constexpr, step: tl.constexpr,
):  # fmt: skip
    """Return gradient, Hessian, loss and magnitude of gradients of each document of a tile.

    All arrays are those of its list, in the order of ranks.
    """
    swaps: tl.constexpr = (weight == _PRECISION) | (weight == _RECIPROCAL)
    mine = start + tl.arange(0, tile)
    real = mine < size
    highest, lowest = tl.load(scores), tl.load(scores + size - 1)
    score = tl.load(scores + mine, mask=real, other=0.0)[None, :]
    gain = tl.load(gains + mine, mask=real, other=0.0)[None, :]
    my_upper, my_lower, my_weight = score, score, score
    if swaps:
        my_upper = tl.load(upper + mine, mask=real, other=0.0)[None, :]
        my_lower = tl.load(lower + mine, mask=real, other=0.0)[None, :]
    elif weight == _DISCOUNTED:
        my_upper = tl.load(discounts + mine, mask=real, other=0.0)[None, :]
    if weighted:
        my_weight = tl.load(weights + mine, mask=real, other=0.0)[None, :]
    norm_bias = tl.where(highest > lowest, highest * 0.0 + _NORM_BIAS, 1.0)  # by 1 where all scores are equal
    sigma, swap_share = tl.cast(sigma, score.dtype), tl.cast(swap_share, score.dtype)
    distance_share = tl.cast(distance_share, score.dtype)
    zeros = tl.zeros([step, tile], score.dtype)
    gradient, hessian, cost, magnitude = _pair_sums(
        zeros, zeros, zeros, zeros, 0, reach, mine[None, :], score, gain, my_upper, my_lower, my_weight, reach,
        norm_bias, scores, gains, weights, upper, lower, discounts, distances, sigma, swap_share, distance_share,
        weight, loss, norm, weighted, by_distance, True, step,
    )  # fmt: skip
    # Documents that are not among the first have pairs with those only.
    gradient, hessian, cost, magnitude = _pair_sums(
        gradient, hessian, cost, magnitude, reach, tl.where(start < reach, size, reach), mine[None, :], score, gain,
        my_upper, my_lower, my_weight, reach, norm_bias, scores, gains, weights, upper, lower, discounts, distances,
        sigma, swap_share, distance_share, weight, loss, norm, weighted, by_distance, False, step,
    )  # fmt: skip
    cost, magnitude = tl.where(real[None, :], cost, 0.0), tl.where(real[None, :], magnitude, 0.0)
    return tl.sum(gradient, 0), tl.sum(hessian, 0), tl.sum(cost, 0), tl.sum(magnitude, 0)


@triton_kernel
def _swaps(offsets, gains, upper, lower, reaches, truncation, weight: tl.constexpr, block: tl.constexpr):
    """Fill what leaves and what comes, by rank, and up to which rank pairs count: ``weights.py``."""
    query, first, size = program_list(offsets)
    lanes = tl.arange(0, block)
    if weight == _PRECISION:
        nothing = tl.sum(tl.zeros([block], gains.dtype.element_ty))
        count, hits, between = nothing, nothing, nothing
        for start in range(0, size, block):
            places = start + lanes
            count += tl.sum(tl.load(gains + first + places, mask=places < size, other=0.0))
        for start in range(0, size, block):
            places = start + lanes
            inside = places < size
            hit = tl.load(gains + first + places, mask=inside, other=0.0)
            rank = (places + 1).to(hit.dtype)
            c = hits + tl.cumsum(hit)
            passed = between + tl.cumsum(hit / rank)
            tl.store(upper + first + places, ((c + 1.0 - hit) / rank - passed) / count, mask=inside)
            tl.store(lower + first + places, ((c + hit) / rank - passed) / count, mask=inside)
            hits += tl.sum(hit)
            between += tl.sum(hit / rank)
        tl.store(reaches + query, tl.minimum(truncation, size))
    else:
        first_hit, second_hit = size, size
        for start in range(0, size, block):
            places = start + lanes
            hit = tl.load(gains + first + places, mask=places < size, other=0.0) > 0.0
            block_hit = tl.min(tl.where(hit, places, size))
            next_hit = tl.min(tl.where(hit & (places != block_hit), places, size))
            second_hit = tl.minimum(second_hit, tl.where(first_hit < size, block_hit, next_hit))
            first_hit = tl.minimum(first_hit, block_hit)
        # of the reciprocal rank: 0 if there is no such document
        for start in range(0, size, block):
            places = start + lanes
            inside = places < size
            hit = tl.load(gains + first + places, mask=inside, other=0.0)
            reciprocal = 1.0 / (places + 1).to(hit.dtype)
            best = 1.0 / (first_hit + 1).to(hit.dtype)
            second = tl.where(second_hit < size, 1.0 / (second_hit + 1).to(hit.dtype), 0.0)
            comes = tl.where(hit > 0.0, 0.0, tl.maximum(reciprocal, second))
            leaves = tl.where(places < first_hit, reciprocal - best, tl.where(places == first_hit, best, 0.0))
            tl.store(upper + first + places, leaves, mask=inside)
            tl.store(lower + first + places, comes, mask=inside)
        tl.store(reaches + query, tl.minimum(tl.minimum(truncation, size), first_hit + 1))


def swaps(lists: Ragged, gains: Tensor, weight: int, truncation: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return what leaves and what comes at each rank, and how many ranks of each list there are pairs with."""
    upper, lower = torch.empty_like(gains), torch.empty_like(gains)
    reaches = torch.empty(lists.n_queries, dtype=torch.int32, device=lists.device)
    _swaps[(lists.n_queries,)](lists.offsets, gains, upper, lower, reaches, truncation, weight, lists.block())
    return upper, lower, reaches
