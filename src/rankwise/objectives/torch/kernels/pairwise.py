"""Pairwise losses on a device: documents are ranked, pairs are summed in the order of ranks, and lists are scaled.

In the order of ranks the documents of a list lie side by side, and those among the first, which are paired with all
others, come first. Each document gathers from all its pairs, so that every pair is computed twice, and nothing has to
be added to by several programs at once: results repeat bit for bit.
"""

import dataclasses

import numpy as np
import triton
import triton.language as tl

from rankwise.objectives.pairwise.losses import HINGE, LOGISTIC, SQUARED_HINGE
from rankwise.objectives.pairwise.weights import AVERAGE_PRECISION, COUNT, DISCOUNTED, RECIPROCAL_RANK
from rankwise.objectives.prepared import PreparedKernel
from rankwise.objectives.torch.kernels.arithmetic import log1p, log1p_unit
from rankwise.objectives.torch.kernels.order import ordered
from rankwise.objectives.torch.kernels.placed import Call
from rankwise.objectives.torch.kernels.swaps import BY_SWAPS, swaps

_LOGISTIC, _HINGE, _SQUARED_HINGE = tl.constexpr(LOGISTIC), tl.constexpr(HINGE), tl.constexpr(SQUARED_HINGE)
_COUNT, _DISCOUNTED = tl.constexpr(COUNT), tl.constexpr(DISCOUNTED)
_PRECISION, _RECIPROCAL = tl.constexpr(AVERAGE_PRECISION), tl.constexpr(RECIPROCAL_RANK)
_STEEPEST = tl.constexpr(20.0)
_NORM_BIAS = tl.constexpr(0.01)
_LN2 = tl.constexpr(0.6931471805599453)
_TILE, _STEP = 32, 64


@triton.jit
def _arrange(  # type: ignore[no-untyped-def]
    offsets, tile_queries, tile_starts, ranked, scores, worths, heavy, ranked_scores, ranked_worths, ranked_heavy,
    weighted: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    """Put scores, worths and weights of a tile into the order of ranks."""
    query = tl.load(tile_queries + tl.program_id(0))
    first = tl.load(offsets + query)
    mine = tl.load(tile_starts + tl.program_id(0)) + tl.arange(0, tile)
    real = mine < tl.load(offsets + query + 1) - first
    rows = first + tl.load(ranked + first + mine, mask=real, other=0)
    tl.store(ranked_scores + first + mine, tl.load(scores + rows, mask=real, other=0.0), mask=real)
    tl.store(ranked_worths + first + mine, tl.load(worths + rows, mask=real, other=0.0), mask=real)
    if weighted:
        tl.store(ranked_heavy + first + mine, tl.load(heavy + rows, mask=real, other=0.0), mask=real)


@triton.jit
def _pair_loss(margin, loss: tl.constexpr):  # type: ignore[no-untyped-def]
    """The loss of a pair by its margin, how fast it falls, and its second derivative, or what stands for it."""
    if loss == _LOGISTIC:
        small = tl.exp(-tl.abs(margin))
        whole = 1.0 / (1.0 + small)
        fall = tl.where(margin > 0.0, small, 1.0) * whole
        return tl.maximum(-margin, 0.0) + log1p_unit(small), fall, small * whole * whole
    elif loss == _HINGE:  # noqa: RET505 (a constant decides: without elif both are compiled)
        gap = tl.maximum(1.0 - margin, 0.0)
        on = tl.where(gap > 0.0, 1.0, 0.0).to(margin.dtype)
        return gap, on, on
    elif loss == _SQUARED_HINGE:
        gap = tl.maximum(1.0 - margin, 0.0)
        return gap * gap, 2.0 * gap, tl.where(gap > 0.0, 2.0, 0.0).to(margin.dtype)
    else:
        size = tl.exp(tl.minimum(-margin, _STEEPEST))
        beyond = margin < -_STEEPEST
        return tl.where(beyond, size * (1.0 - margin - _STEEPEST), size), size, tl.where(beyond, 0.0, size)


@triton.jit
def _pairs(  # type: ignore[no-untyped-def]
    offsets, tile_queries, tile_starts, scores, worths, heavy, upper, lower, reaches, discounts, distances,
    sigma: tl.float64, truncation, swap_share: tl.float64, distance_share: tl.float64, slopes, curves, losses, pulls,
    weight: tl.constexpr, loss: tl.constexpr, norm: tl.constexpr, weighted: tl.constexpr, by_distance: tl.constexpr,
    tile: tl.constexpr, step: tl.constexpr,
):  # fmt: skip
    """Add up the pairs of a tile of ranks; all arrays are in the order of ranks."""
    query = tl.load(tile_queries + tl.program_id(0))
    start = tl.load(tile_starts + tl.program_id(0))
    first = tl.load(offsets + query)
    size = tl.load(offsets + query + 1) - first
    reach = tl.minimum(truncation, size)
    swaps: tl.constexpr = (weight == _PRECISION) | (weight == _RECIPROCAL)
    if swaps:
        reach = tl.load(reaches + query)
    spread = tl.load(scores + first) - tl.load(scores + first + size - 1)
    mine = start + tl.arange(0, tile)
    real = mine < size
    score = tl.load(scores + first + mine, mask=real, other=0.0)[:, None]
    worth = tl.load(worths + first + mine, mask=real, other=0.0)[:, None]
    leave, come = score, score
    if swaps:
        leave = tl.load(upper + first + mine, mask=real, other=0.0)[:, None]
        come = tl.load(lower + first + mine, mask=real, other=0.0)[:, None]
    elif weight == _DISCOUNTED:
        leave = tl.load(discounts + mine, mask=real, other=0.0)[:, None]
        come = leave
    load = score
    if weighted:
        load = tl.load(heavy + first + mine, mask=real, other=0.0)[:, None]
    sigma = tl.cast(sigma, score.dtype)
    swap_share, distance_share = tl.cast(swap_share, score.dtype), tl.cast(distance_share, score.dtype)
    slope = tl.zeros([tile], score.dtype)
    curve, cost, pull = slope, slope, slope
    stop = tl.where(start < reach, size, reach)  # whoever is not among the first has pairs with those only
    for begin in range(0, stop, step):
        others = begin + tl.arange(0, step)
        inside = others < stop
        other = tl.load(scores + first + others, mask=inside, other=0.0)[None, :]
        value = tl.load(worths + first + others, mask=inside, other=0.0)[None, :]
        counts = real[:, None] & inside[None, :] & (worth != value)
        counts = counts & (tl.minimum(mine[:, None], others[None, :]) < reach)
        sign = tl.where(worth > value, 1.0, -1.0).to(score.dtype)
        margin = sigma * sign * (score - other)
        if weight == _COUNT:
            each = tl.full([tile, step], 1.0, score.dtype)
        else:
            if swaps:
                leaves = tl.load(upper + first + others, mask=inside, other=0.0)[None, :]
                comes = tl.load(lower + first + others, mask=inside, other=0.0)[None, :]
            else:
                leaves = tl.load(discounts + others, mask=inside, other=0.0)[None, :]
                comes = leaves
            if by_distance:
                apart = tl.abs(mine[:, None] - others[None, :])
                distance = tl.load(distances + apart, mask=counts, other=0.0)
                each = swap_share * tl.abs(leave - leaves) + distance_share * distance
            else:
                above = mine[:, None] < others[None, :]
                gone = tl.where(above, leave, leaves)
                each = gone - tl.where(above, comes, come)
                if weight == _RECIPROCAL:
                    each = tl.where(gone == 0.0, 0.0, each)
            each = tl.abs(worth - value) * each
        if weighted:
            each = each * tl.where(
                worth > value, load, tl.load(heavy + first + others, mask=inside, other=0.0)[None, :]
            )
        if norm:
            each = tl.where(spread > 0.0, each / (_NORM_BIAS + tl.abs(score - other)), each)
        each = tl.where(counts, each, 0.0)
        value_of, fall, bend = _pair_loss(margin, loss)
        slope -= tl.sum(each * fall * sign, 1)
        curve += tl.sum(each * bend, 1)
        cost += tl.sum(each * value_of, 1)
        pull += tl.sum(each * fall, 1)
    tl.store(slopes + first + mine, slope, mask=real)
    tl.store(curves + first + mine, curve, mask=real)
    # every pair is seen from both sides
    tl.store(losses + tl.program_id(0), 0.5 * tl.sum(cost))
    tl.store(pulls + tl.program_id(0), 0.5 * tl.sum(pull))


@triton.jit
def _scale(  # type: ignore[no-untyped-def]
    offsets, tile_queries, tile_starts, ranks, sigma: tl.float64, slopes, curves, losses, pulls,
    value, gradient, hessian, norm: tl.constexpr, wanted: tl.constexpr, tile: tl.constexpr, step: tl.constexpr,
):  # fmt: skip
    """Put the derivatives of a tile into their rows, scaled by their list; its first tile adds up the loss."""
    number = tl.program_id(0)
    query = tl.load(tile_queries + number)
    start = tl.load(tile_starts + number)
    first = tl.load(offsets + query)
    size = tl.load(offsets + query + 1) - first
    tiles = (size + tile - 1) // tile
    number -= start // tile  # the list's first
    cost = tl.zeros([step], slopes.dtype.element_ty)
    pull = cost
    for begin in range(0, tiles, step):
        inside = begin + tl.arange(0, step) < tiles
        cost += tl.load(losses + number + begin + tl.arange(0, step), mask=inside, other=0.0)
        if norm:
            pull += tl.load(pulls + number + begin + tl.arange(0, step), mask=inside, other=0.0)
    sigma = tl.cast(sigma, cost.dtype)
    factor = tl.sum(cost) * 0.0 + 1.0
    if norm:
        total = tl.sum(pull) * 2.0 * sigma
        factor = tl.where(total > 0.0, log1p(total) / (tl.where(total > 0.0, total, 1.0) * _LN2), 1.0)
    mine = start + tl.arange(0, tile)
    real = mine < size
    place = tl.load(ranks + first + mine, mask=real, other=0)
    tl.store(gradient + first + mine, sigma * factor * tl.load(slopes + first + place, mask=real), mask=real)
    if wanted:
        curve = tl.load(curves + first + place, mask=real)
        tl.store(hessian + first + mine, sigma * sigma * factor * curve, mask=real)
    if start == 0:
        tl.store(value + query, factor * tl.sum(cost))


def arrange(prepared: PreparedKernel) -> PreparedKernel:
    """Put worths back into rows: the CPU sorts them, a device has no use for that."""
    rows, ranked, weights = prepared.per_document
    worths = np.empty_like(ranked)
    worths[rows + np.repeat(prepared.offsets[:-1], np.diff(prepared.offsets))] = ranked
    return dataclasses.replace(prepared, per_document=(worths, weights))


def launch(call: Call) -> None:
    """Rank, pair up, and scale."""
    worths, heavy = call.per_document
    discounts, distances, settings = call.settings
    lists, scores = call.lists, call.scores
    tiles = lists.tiles(_TILE)
    grid, shape = (tiles[0].numel(),), {"tile": _TILE, "step": _STEP, "num_warps": 4}
    weighted = heavy.numel() > 0
    (places,), (by_rank,) = ordered(lists, scores[None])
    ranked, ranked_worths, ranked_heavy, slopes, curves = scores.new_empty((5, lists.n_docs))
    _arrange[grid](
        lists.offsets, *tiles, by_rank, scores, worths, heavy if weighted else worths, ranked, ranked_worths,
        ranked_heavy, weighted=weighted, tile=_TILE, num_warps=1,
    )  # fmt: skip
    truncation = min(settings.truncation, lists.longest)
    upper, lower, reaches = ranked, ranked, places
    if settings.weight in BY_SWAPS:
        upper, lower, reaches = swaps(lists, ranked_worths, settings.weight, truncation)
    sums = scores.new_empty((2, grid[0]))
    _pairs[grid](
        lists.offsets, *tiles, ranked, ranked_worths, ranked_heavy, upper, lower, reaches, discounts, distances,
        settings.sigma, truncation, settings.swap_share, settings.distance_share, slopes, curves, *sums,
        weight=settings.weight, loss=settings.loss, norm=settings.norm, weighted=weighted,
        by_distance=settings.distance_share > 0.0, **shape,
    )  # fmt: skip
    wanted = call.hessian is not None
    outputs = (call.value, call.gradient, call.hessian if wanted else call.gradient)
    _scale[grid](lists.offsets, *tiles, places, settings.sigma, slopes, curves, *sums, *outputs,
                 norm=settings.norm, wanted=wanted, **shape)  # fmt: skip
