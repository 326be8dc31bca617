"""Pairwise losses on a device: documents are ranked, pairs are summed in the order of ranks, and lists are scaled.

Where there are many lists, and none is long, one program does all of it for a list. Otherwise the tiles of lists are
shared among programs, in three kernels; what a program does with a tile is the same.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from rankwise.device.arithmetic import log1p
from rankwise.device.launching import list_bounds, tile_bounds, triton_kernel
from rankwise.device.order import COUNTED, count_before, ordered
from rankwise.device.ragged import TILE
from rankwise.objectives.pairwise.triton_pairs import tile_sums
from rankwise.objectives.pairwise.triton_swaps import BY_SWAPS, swaps

_LN2 = tl.constexpr(0.6931471805599453)
_COUNT_STEP = 32
MANY, SMALL = 16384, 2**16
"""So many lists, of so few pairs each, are one program's each: fewer would not fill a device, or one make all wait."""


@triton.jit
def _factor(pull, sigma, norm: tl.constexpr):
    """What the derivatives of a list are multiplied by, from the sum of its pairs' pulls."""
    if norm:
        total = pull * 2.0 * sigma
        return tl.where(total > 0.0, log1p(total) / (tl.where(total > 0.0, total, 1.0) * _LN2), 1.0)
    else:  # noqa: RET505 (a constant decides: without else both are compiled)
        return pull * 0.0 + 1.0


@triton_kernel
def _whole(
    offsets, longest_first, scores, gains, weights, ranked, ranked_gains, ranked_weights, places, discounts, distances,
    sigma: tl.float64, truncation, swap_share: tl.float64, distance_share: tl.float64, slopes, curves,
    value, gradient, hessian, weight: tl.constexpr, loss: tl.constexpr, norm: tl.constexpr, weighted: tl.constexpr,
    by_distance: tl.constexpr, wanted: tl.constexpr, tile: tl.constexpr, step: tl.constexpr, count_step: tl.constexpr,
):  # fmt: skip
    """Everything about one list."""
    query = tl.load(longest_first + tl.program_id(0))
    first, size = list_bounds(offsets, query)
    for start in range(0, size, tile):
        mine = start + tl.arange(0, tile)
        real = mine < size
        score = tl.load(scores + first + mine, mask=real, other=0.0)
        place = count_before(scores + first, size, mine, score, count_step)
        tl.store(places + first + mine, place, mask=real)
        tl.store(ranked + first + place, score, mask=real)
        tl.store(ranked_gains + first + place, tl.load(gains + first + mine, mask=real, other=0.0), mask=real)
        if weighted:
            tl.store(ranked_weights + first + place, tl.load(weights + first + mine, mask=real, other=0.0), mask=real)
    tl.debug_barrier()
    cost = tl.zeros([tile], scores.dtype.element_ty)
    pull = cost
    for start in range(0, size, tile):
        slope, curve, costs, pulls = tile_sums(
            start, size, tl.minimum(truncation, size), ranked + first, ranked_gains + first, ranked_weights + first,
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


@triton_kernel
def _arrange(
    offsets, tile_queries, tile_starts, ranked, scores, gains, weights, ranked_scores, ranked_gains, ranked_weights,
    weighted: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    """Put scores, gains and weights of a tile into the order of ranks."""
    _, start, first, size = tile_bounds(offsets, tile_queries, tile_starts)
    mine = start + tl.arange(0, tile)
    real = mine < size
    rows = first + tl.load(ranked + first + mine, mask=real, other=0)
    tl.store(ranked_scores + first + mine, tl.load(scores + rows, mask=real, other=0.0), mask=real)
    tl.store(ranked_gains + first + mine, tl.load(gains + rows, mask=real, other=0.0), mask=real)
    if weighted:
        tl.store(ranked_weights + first + mine, tl.load(weights + rows, mask=real, other=0.0), mask=real)


@triton_kernel
def _pairs(
    offsets, tile_queries, tile_starts, scores, gains, weights, upper, lower, reaches, discounts, distances,
    sigma: tl.float64, truncation, swap_share: tl.float64, distance_share: tl.float64, slopes, curves, losses, pulls,
    swapped: tl.constexpr, weight: tl.constexpr, loss: tl.constexpr, norm: tl.constexpr, weighted: tl.constexpr,
    by_distance: tl.constexpr, tile: tl.constexpr, step: tl.constexpr,
):  # fmt: skip
    """Add up the pairs of a tile of ranks; all arrays are in the order of ranks."""
    query, start, first, size = tile_bounds(offsets, tile_queries, tile_starts)
    if start >= size:
        return
    reach = tl.load(reaches + query) if swapped else tl.minimum(truncation, size)
    slope, curve, cost, pull = tile_sums(
        start, size, reach, scores + first, gains + first, weights + first, upper + first, lower + first, discounts,
        distances, sigma, swap_share, distance_share, weight, loss, norm, weighted, by_distance, tile, step,
    )  # fmt: skip
    mine = start + tl.arange(0, tile)
    tl.store(slopes + first + mine, slope, mask=mine < size)
    tl.store(curves + first + mine, curve, mask=mine < size)
    tl.store(losses + tl.program_id(0), tl.sum(cost))
    tl.store(pulls + tl.program_id(0), tl.sum(pull))


@triton_kernel
def _scale(
    offsets, tile_queries, tile_starts, ranks, sigma: tl.float64, slopes, curves, losses, pulls,
    value, gradient, hessian, norm: tl.constexpr, wanted: tl.constexpr, tile: tl.constexpr, step: tl.constexpr,
):  # fmt: skip
    """Put the derivatives of a tile into their rows, scaled by their list; its first tile adds up the loss."""
    query, start, first, size = tile_bounds(offsets, tile_queries, tile_starts)
    if start >= size:
        return
    tiles = (size + tile - 1) // tile
    number = tl.program_id(0) - start // tile  # the list's first
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


def pairwise(lists: Any, scores: Tensor, arguments: Any, _: None, out: Any) -> None:
    """Compute the loss and its derivatives: list by list, or in three steps that rank, pair up, and scale."""
    _, gains, weights, discounts, distances, sigma, truncation, norm, loss, weight, swap_share, distance_share = (
        arguments
    )
    weighted, wanted, swapped = weights.numel() > 0, out.hessian.numel() > 0, weight in BY_SWAPS
    weights = weights if weighted else gains
    ranked, ranked_gains, ranked_weights, slopes, curves = scores.new_empty((5, lists.n_docs)).unbind()
    truncation = min(truncation, lists.longest)
    outputs = (out.value, out.gradient, out.hessian if wanted else out.gradient)
    numbers = (sigma, truncation, swap_share, distance_share)
    kind = (weight, loss, norm, weighted, distance_share > 0.0)
    tiles, (step, warps) = lists.tiles(TILE), lists.pair_shape(None if swapped else truncation)
    small = lists.typical * min(truncation, lists.typical) <= SMALL and lists.typical <= COUNTED
    if lists.n_queries >= MANY and small and not swapped:
        places = ranked.new_empty(lists.n_docs, dtype=torch.int32)
        _whole[(lists.n_queries,)](
            lists.offsets, lists.longest_first, scores, gains, weights, ranked, ranked_gains, ranked_weights, places,
            discounts, distances, *numbers, slopes, curves, *outputs, *kind, wanted, TILE, step, _COUNT_STEP,
            num_warps=warps,
        )  # fmt: skip
        return
    grid = (tiles[0].numel(),)
    (places,), (by_rank,) = ordered(lists, scores[None])
    _arrange[grid](
        lists.offsets, *tiles, by_rank, scores, gains, weights, ranked, ranked_gains, ranked_weights,
        weighted, TILE, num_warps=1,
    )  # fmt: skip
    upper, lower, reaches = ranked, ranked, places
    if swapped:
        upper, lower, reaches = swaps(lists, ranked_gains, weight, truncation)
    losses, pulls = scores.new_empty((2, grid[0])).unbind()
    _pairs[grid](
        lists.offsets, *tiles, ranked, ranked_gains, ranked_weights, upper, lower, reaches, discounts, distances,
        *numbers, slopes, curves, losses, pulls, swapped, *kind, TILE, step, num_warps=warps,
    )  # fmt: skip
    _scale[grid](
        lists.offsets, *tiles, places, sigma, slopes, curves, losses, pulls, *outputs, norm, wanted, TILE, step,
        num_warps=warps,
    )  # fmt: skip
