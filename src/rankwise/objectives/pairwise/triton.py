"""Pairwise losses on a device: documents are ranked, pairs are summed in the order of ranks, and lists are scaled.

Where there are many lists, and none is long, one program does all of it for a list. Otherwise the tiles of lists are
shared among programs, in three kernels; what a program does with a tile is the same.
"""

import dataclasses

import numpy as np
import torch
import triton
import triton.language as tl

from rankwise.objectives.prepared import PreparedKernel
from rankwise.objectives.torch.kernels.arithmetic import log1p
from rankwise.objectives.torch.kernels.launched import launched
from rankwise.objectives.torch.kernels.lists import TILE
from rankwise.objectives.torch.kernels.order import COUNTED, count_before, ordered
from rankwise.objectives.torch.kernels.pairs import tile_sums
from rankwise.objectives.torch.kernels.placed import Call
from rankwise.objectives.torch.kernels.swaps import BY_SWAPS, swaps

_LN2 = tl.constexpr(0.6931471805599453)
_COUNT_STEP = 32
MANY, SMALL = 16384, 2**16
"""So many lists, of so few pairs each, are one program's each: fewer would not fill a device, or one make all wait."""


@triton.jit
def _factor(pull, sigma, norm: tl.constexpr):  # type: ignore[no-untyped-def]
    """What the derivatives of a list are multiplied by, from the sum of its pairs' pulls."""
    if norm:
        total = pull * 2.0 * sigma
        return tl.where(total > 0.0, log1p(total) / (tl.where(total > 0.0, total, 1.0) * _LN2), 1.0)
    else:  # noqa: RET505 (a constant decides: without else both are compiled)
        return pull * 0.0 + 1.0


@launched
def _whole(  # type: ignore[no-untyped-def]
    offsets, longest_first, scores, worths, heavy, ranked, ranked_worths, ranked_heavy, places, discounts, distances,
    sigma: tl.float64, truncation, swap_share: tl.float64, distance_share: tl.float64, slopes, curves,
    value, gradient, hessian, weight: tl.constexpr, loss: tl.constexpr, norm: tl.constexpr, weighted: tl.constexpr,
    by_distance: tl.constexpr, wanted: tl.constexpr, tile: tl.constexpr, step: tl.constexpr, count_step: tl.constexpr,
):  # fmt: skip
    """Everything about one list."""
    query = tl.load(longest_first + tl.program_id(0))
    first = tl.load(offsets + query)
    size = tl.load(offsets + query + 1) - first
    for start in range(0, size, tile):
        mine = start + tl.arange(0, tile)
        real = mine < size
        score = tl.load(scores + first + mine, mask=real, other=0.0)
        place = count_before(scores + first, size, mine, score, count_step)
        tl.store(places + first + mine, place, mask=real)
        tl.store(ranked + first + place, score, mask=real)
        tl.store(ranked_worths + first + place, tl.load(worths + first + mine, mask=real, other=0.0), mask=real)
        if weighted:
            tl.store(ranked_heavy + first + place, tl.load(heavy + first + mine, mask=real, other=0.0), mask=real)
    tl.debug_barrier()
    cost = tl.zeros([tile], scores.dtype.element_ty)
    pull = cost
    for start in range(0, size, tile):
        slope, curve, costs, pulls = tile_sums(
            start, size, tl.minimum(truncation, size), ranked + first, ranked_worths + first, ranked_heavy + first,
            ranked, ranked, discounts, distances, sigma, swap_share, distance_share,
            weight, loss, norm, weighted, by_distance, tile, step,
        )  # fmt: skip
        mine = start + tl.arange(0, tile)
        tl.store(slopes + first + mine, slope, mask=mine < size)
        if wanted:
            tl.store(curves + first + mine, curve, mask=mine < size)
        cost += costs
        pull += pulls
    tl.debug_barrier()
    sigma = tl.cast(sigma, cost.dtype)
    factor = _factor(tl.sum(pull), sigma, norm)
    tl.store(value + query, factor * tl.sum(cost))
    for start in range(0, size, tile):
        mine = start + tl.arange(0, tile)
        real = mine < size
        place = tl.load(places + first + mine, mask=real, other=0)
        tl.store(gradient + first + mine, sigma * factor * tl.load(slopes + first + place, mask=real), mask=real)
        if wanted:
            curve = tl.load(curves + first + place, mask=real)
            tl.store(hessian + first + mine, sigma * sigma * factor * curve, mask=real)


@launched
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


@launched
def _pairs(  # type: ignore[no-untyped-def]
    offsets, tile_queries, tile_starts, scores, worths, heavy, upper, lower, reaches, discounts, distances,
    sigma: tl.float64, truncation, swap_share: tl.float64, distance_share: tl.float64, slopes, curves, losses, pulls,
    swapped: tl.constexpr, weight: tl.constexpr, loss: tl.constexpr, norm: tl.constexpr, weighted: tl.constexpr,
    by_distance: tl.constexpr, tile: tl.constexpr, step: tl.constexpr,
):  # fmt: skip
    """Add up the pairs of a tile of ranks; all arrays are in the order of ranks."""
    query = tl.load(tile_queries + tl.program_id(0))
    start = tl.load(tile_starts + tl.program_id(0))
    first = tl.load(offsets + query)
    size = tl.load(offsets + query + 1) - first
    reach = tl.load(reaches + query) if swapped else tl.minimum(truncation, size)
    slope, curve, cost, pull = tile_sums(
        start, size, reach, scores + first, worths + first, heavy + first, upper + first, lower + first, discounts,
        distances, sigma, swap_share, distance_share, weight, loss, norm, weighted, by_distance, tile, step,
    )  # fmt: skip
    mine = start + tl.arange(0, tile)
    tl.store(slopes + first + mine, slope, mask=mine < size)
    tl.store(curves + first + mine, curve, mask=mine < size)
    tl.store(losses + tl.program_id(0), tl.sum(cost))
    tl.store(pulls + tl.program_id(0), tl.sum(pull))


@launched
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
    factor = _factor(tl.sum(pull), sigma, norm)
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
    """Do it list by list, or in three steps: rank, pair up, and scale."""
    worths, heavy = call.per_document
    discounts, distances, settings = call.settings
    lists, scores = call.lists, call.scores
    weighted, wanted = heavy.numel() > 0, call.hessian is not None
    heavy = heavy if weighted else worths
    ranked, ranked_worths, ranked_heavy, slopes, curves = scores.new_empty((5, lists.n_docs))
    truncation = min(settings.truncation, lists.longest)
    outputs = (call.value, call.gradient, call.hessian if wanted else call.gradient)
    numbers = (settings.sigma, truncation, settings.swap_share, settings.distance_share)
    kind = {
        "weight": settings.weight, "loss": settings.loss, "norm": settings.norm, "weighted": weighted,
        "by_distance": settings.distance_share > 0.0,
    }  # fmt: skip
    tiles, shape = lists.tiles(TILE), lists.pair_shape
    if (
        lists.n_queries >= MANY
        and lists.longest * truncation <= SMALL
        and lists.longest <= COUNTED
        and settings.weight not in BY_SWAPS
    ):
        places = ranked.new_empty(lists.n_docs, dtype=torch.int32)
        _whole[(lists.n_queries,)](
            lists.offsets, lists.longest_first, scores, worths, heavy, ranked, ranked_worths, ranked_heavy, places,
            discounts, distances, *numbers, slopes, curves, *outputs, **kind, wanted=wanted, count_step=_COUNT_STEP,
            **shape,
        )  # fmt: skip
        return
    grid = (tiles[0].numel(),)
    (places,), (by_rank,) = ordered(lists, scores[None])
    _arrange[grid](
        lists.offsets, *tiles, by_rank, scores, worths, heavy, ranked, ranked_worths, ranked_heavy,
        weighted=weighted, tile=TILE, num_warps=1,
    )  # fmt: skip
    upper, lower, reaches = ranked, ranked, places
    if settings.weight in BY_SWAPS:
        upper, lower, reaches = swaps(lists, ranked_worths, settings.weight, truncation)
    sums = scores.new_empty((2, grid[0]))
    _pairs[grid](
        lists.offsets, *tiles, ranked, ranked_worths, ranked_heavy, upper, lower, reaches, discounts, distances,
        *numbers, slopes, curves, *sums, swapped=settings.weight in BY_SWAPS, **kind, **shape,
    )  # fmt: skip
    _scale[grid](lists.offsets, *tiles, places, settings.sigma, slopes, curves, *sums, *outputs,
                 norm=settings.norm, wanted=wanted, **shape)  # fmt: skip
