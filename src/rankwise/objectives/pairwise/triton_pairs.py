"""Sums over the pairs of a tile of documents, in the order of ranks: what all kernels of pairwise losses share.

In the order of ranks the documents of a list lie side by side, and those among the first, which are paired with all
others, come first. Each document gathers from all its pairs, so that every pair is computed twice, and nothing has to
be added to by several programs at once: results repeat bit for bit.
"""

import triton
import triton.language as tl

from rankwise.device.arithmetic import log1p_unit
from rankwise.objectives.pairwise.tiles import HINGE, LOGISTIC, NORM_BIAS, SQUARED_HINGE, STEEPEST
from rankwise.objectives.pairwise.weights import AVERAGE_PRECISION, COUNT, DISCOUNTED, RECIPROCAL_RANK

_LOGISTIC, _HINGE, _SQUARED_HINGE = tl.constexpr(LOGISTIC), tl.constexpr(HINGE), tl.constexpr(SQUARED_HINGE)
_COUNT, _DISCOUNTED = tl.constexpr(COUNT), tl.constexpr(DISCOUNTED)
_PRECISION, _RECIPROCAL = tl.constexpr(AVERAGE_PRECISION), tl.constexpr(RECIPROCAL_RANK)
_STEEPEST, _NORM_BIAS = tl.constexpr(STEEPEST), tl.constexpr(NORM_BIAS)


@triton.jit
def _slopes(margin, loss: tl.constexpr):
    """Return minus the first derivative of a pair's loss, the second or what replaces it, and what the value needs."""
    if loss == _LOGISTIC:
        small = tl.exp(-tl.abs(margin))
        whole = 1.0 / (1.0 + small)
        return tl.where(margin > 0.0, small, 1.0) * whole, small * whole * whole, small
    elif loss == _HINGE:  # noqa: RET505 (a constant decides: without elif both are compiled)
        on = tl.where(margin < 1.0, 1.0, 0.0).to(margin.dtype)
        return on, on, on
    elif loss == _SQUARED_HINGE:
        fall = 2.0 * tl.maximum(1.0 - margin, 0.0)
        return fall, tl.where(fall > 0.0, 2.0, 0.0).to(margin.dtype), fall
    else:
        size = tl.exp(tl.minimum(-margin, _STEEPEST))
        return size, tl.where(margin < -_STEEPEST, 0.0, size), size


@triton.jit
def _value(margin, fall, small, loss: tl.constexpr):
    """Return the loss of a pair, from its margin and what its derivatives were made of."""
    if loss == _LOGISTIC:
        return tl.maximum(-margin, 0.0) + log1p_unit(small)
    elif loss == _HINGE:  # noqa: RET505
        return tl.maximum(1.0 - margin, 0.0)
    elif loss == _SQUARED_HINGE:
        return 0.25 * fall * fall
    else:
        return tl.where(margin < -_STEEPEST, fall * (1.0 - margin - _STEEPEST), fall)


@triton.jit
def _pair_sums(
    slope, curve, cost, pull, begin, stop, mine, score, gain, leave, come, load, reach, near, scores, gains, weights,
    upper, lower, discounts, distances, sigma, swap_share, distance_share, weight: tl.constexpr, loss: tl.constexpr,
    norm: tl.constexpr, weighted: tl.constexpr, by_distance: tl.constexpr, valued: tl.constexpr, step: tl.constexpr,
):  # fmt: skip
    """Add to slopes, curves, losses and pulls the pairs with the ranks ``begin`` to ``stop``; they are summed later.

    ``valued``: losses and pulls too, of the pairs with those before, so that no pair counts twice.
    """
    swaps: tl.constexpr = (weight == _PRECISION) | (weight == _RECIPROCAL)
    for start in range(begin, stop, step):
        others = start + tl.arange(0, step)
        inside = others < stop
        other = tl.load(scores + others, mask=inside, other=0.0)[:, None]
        value = tl.load(gains + others, mask=inside, other=0.0)[:, None]
        others = others[:, None]
        counts = inside[:, None] & (gain != value) & (tl.minimum(mine, others) < reach)
        better = gain > value
        gap = score - other
        margin = gap * tl.where(better, sigma, -sigma)
        fall, bend, small = _slopes(margin, loss)
        if weight == _COUNT:
            each = tl.where(counts, 1.0, 0.0).to(score.dtype)
        else:
            if swaps:
                leaves = tl.load(upper + others, mask=inside[:, None], other=0.0)
                comes = tl.load(lower + others, mask=inside[:, None], other=0.0)
            else:
                leaves = tl.load(discounts + others, mask=inside[:, None], other=0.0)
                comes = leaves
            if by_distance:
                distance = tl.load(distances + tl.abs(mine - others), mask=counts, other=0.0)
                each = swap_share * tl.abs(leave - leaves) + distance_share * distance
            elif swaps:
                above = mine < others
                gone = tl.where(above, leave, leaves)
                each = gone - tl.where(above, comes, come)
                if weight == _RECIPROCAL:
                    each = tl.where(gone == 0.0, 0.0, each)
            else:
                each = tl.abs(leave - leaves)
            each = tl.where(counts, tl.abs(gain - value) * each, 0.0)
        if weighted:
            each = each * tl.where(better, load, tl.load(weights + others, mask=inside[:, None], other=0.0))
        if norm:
            each = each / (near + tl.abs(gap))
        push = each * fall
        slope += tl.where(better, -push, push)
        curve += each * bend
        if valued:
            before = others < mine
            cost += tl.where(before, each * _value(margin, fall, small, loss), 0.0)
            if norm:
                pull += tl.where(before, push, 0.0)
    return slope, curve, cost, pull


@triton.jit
def tile_sums(
    start, size, reach, scores, gains, weights, upper, lower, discounts, distances, sigma: tl.float64,
    swap_share: tl.float64, distance_share: tl.float64, weight: tl.constexpr, loss: tl.constexpr, norm: tl.constexpr,
    weighted: tl.constexpr, by_distance: tl.constexpr, tile: tl.constexpr, step: tl.constexpr,
):  # fmt: skip
    """Slope, curve, loss and pull of each document of a tile; all arrays are of its list, in the order of ranks."""
    swaps: tl.constexpr = (weight == _PRECISION) | (weight == _RECIPROCAL)
    mine = start + tl.arange(0, tile)
    real = mine < size
    highest, lowest = tl.load(scores), tl.load(scores + size - 1)
    score = tl.load(scores + mine, mask=real, other=0.0)[None, :]
    gain = tl.load(gains + mine, mask=real, other=0.0)[None, :]
    leave, come, load = score, score, score
    if swaps:
        leave = tl.load(upper + mine, mask=real, other=0.0)[None, :]
        come = tl.load(lower + mine, mask=real, other=0.0)[None, :]
    elif weight == _DISCOUNTED:
        leave = tl.load(discounts + mine, mask=real, other=0.0)[None, :]
    if weighted:
        load = tl.load(weights + mine, mask=real, other=0.0)[None, :]
    near = tl.where(highest > lowest, highest * 0.0 + _NORM_BIAS, 1.0)  # by 1 where all scores are equal
    sigma, swap_share = tl.cast(sigma, score.dtype), tl.cast(swap_share, score.dtype)
    distance_share = tl.cast(distance_share, score.dtype)
    zeros = tl.zeros([step, tile], score.dtype)
    slope, curve, cost, pull = _pair_sums(
        zeros, zeros, zeros, zeros, 0, reach, mine[None, :], score, gain, leave, come, load, reach, near,
        scores, gains, weights, upper, lower, discounts, distances, sigma, swap_share, distance_share,
        weight, loss, norm, weighted, by_distance, True, step,
    )  # fmt: skip
    # Whoever is not among the first has pairs with those only.
    slope, curve, cost, pull = _pair_sums(
        slope, curve, cost, pull, reach, tl.where(start < reach, size, reach), mine[None, :], score, gain, leave, come,
        load, reach, near, scores, gains, weights, upper, lower, discounts, distances, sigma, swap_share,
        distance_share, weight, loss, norm, weighted, by_distance, False, step,
    )  # fmt: skip
    cost, pull = tl.where(real[None, :], cost, 0.0), tl.where(real[None, :], pull, 0.0)
    return tl.sum(slope, 0), tl.sum(curve, 0), tl.sum(cost, 0), tl.sum(pull, 0)
