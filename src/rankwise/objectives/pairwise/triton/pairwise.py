"""Pairwise losses on a device: documents are ranked, pairs are summed in the order of ranks, and lists are scaled.

Where there are many lists, and none is long, one program does all of it for a list. Otherwise the tiles of lists are
shared among programs, in three kernels; what a program does with a tile is the same.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from rankwise.base.device.arithmetic import log1p
from rankwise.base.device.launching import list_bounds, tile_bounds, triton_kernel
from rankwise.base.device.order import COUNTED, count_before, ordered
from rankwise.base.device.ragged import TILE
from rankwise.objectives.device import DeviceLists
from rankwise.objectives.pairwise.triton.tiles import BY_SWAPS, swaps, tile_sums
from rankwise.objectives.ragged import Derivatives

_LN2 = tl.constexpr(0.6931471805599453)
_COUNT_STEP = 32
MANY, SMALL = 16384, 2**16
"""From this many lists on, of at most so many pairs, a program computes a list: the device is full, and none lags."""


@triton.jit
def _factor(magnitude, sigma, norm: tl.constexpr):
    """Return the factor of a list's derivatives, from the sum of the magnitudes of its pairs' gradients."""
    if norm:
        total = magnitude * 2.0 * sigma
        return tl.where(total > 0.0, log1p(total) / (tl.where(total > 0.0, total, 1.0) * _LN2), 1.0)
    else:  # noqa: RET505 (a constant decides: without else both are compiled)
        return magnitude * 0.0 + 1.0


@triton_kernel
def _short_lists(
    offsets, longest_first, scores, gains, weights, ranked, ranked_gains, ranked_weights, places, discounts, distances,
    sigma: tl.float64, truncation, swap_share: tl.float64, distance_share: tl.float64, ranked_gradient, ranked_hessian,
    value, gradient, hessian, weight: tl.constexpr, loss: tl.constexpr, norm: tl.constexpr, weighted: tl.constexpr,
    by_distance: tl.constexpr, has_hessian: tl.constexpr, tile: tl.constexpr, step: tl.constexpr,
    count_step: tl.constexpr,
):  # fmt: skip
    """Fill the value and the derivatives of a short list: rank its documents, pair them up, and scale."""
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
    magnitude = cost
    for start in range(0, size, tile):
        gradient_sums, hessian_sums, costs, magnitudes = tile_sums(
            start, size, tl.minimum(truncation, size), ranked + first, ranked_gains + first, ranked_weights + first,
            ranked, ranked, discounts, distances, sigma, swap_share, distance_share,
            weight, loss, norm, weighted, by_distance, tile, step,
        )  # fmt: skip
        mine = start + tl.arange(0, tile)
        tl.store(ranked_gradient + first + mine, gradient_sums, mask=mine < size)
        if has_hessian:
            tl.store(ranked_hessian + first + mine, hessian_sums, mask=mine < size)
        cost += costs
        magnitude += magnitudes
    tl.debug_barrier()
    sigma = tl.cast(sigma, cost.dtype)
    factor = _factor(tl.sum(magnitude), sigma, norm)
    tl.store(value + query, factor * tl.sum(cost))
    for start in range(0, size, tile):
        mine = start + tl.arange(0, tile)
        real = mine < size
        place = tl.load(places + first + mine, mask=real, other=0)
        gradient_sum = tl.load(ranked_gradient + first + place, mask=real)
        tl.store(gradient + first + mine, sigma * factor * gradient_sum, mask=real)
        if has_hessian:
            diagonal = tl.load(ranked_hessian + first + place, mask=real)
            tl.store(hessian + first + mine, sigma * sigma * factor * diagonal, mask=real)


@triton_kernel
def _arrange(
    offsets, tile_queries, tile_starts, ranked, scores, gains, weights, ranked_scores, ranked_gains, ranked_weights,
    weighted: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    """Fill scores, gains and weights of a tile in the order of ranks."""
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
    sigma: tl.float64, truncation, swap_share: tl.float64, distance_share: tl.float64, ranked_gradient, ranked_hessian,
    losses, magnitudes, swapped: tl.constexpr, weight: tl.constexpr, loss: tl.constexpr, norm: tl.constexpr,
    weighted: tl.constexpr, by_distance: tl.constexpr, tile: tl.constexpr, step: tl.constexpr,
):  # fmt: skip
    """Add up the pairs of a tile of ranks; all arrays are in the order of ranks."""
    query, start, first, size = tile_bounds(offsets, tile_queries, tile_starts)
    if start >= size:
        return
    reach = tl.load(reaches + query) if swapped else tl.minimum(truncation, size)
    gradient_sums, hessian_sums, cost, magnitude = tile_sums(
        start, size, reach, scores + first, gains + first, weights + first, upper + first, lower + first, discounts,
        distances, sigma, swap_share, distance_share, weight, loss, norm, weighted, by_distance, tile, step,
    )  # fmt: skip
    mine = start + tl.arange(0, tile)
    tl.store(ranked_gradient + first + mine, gradient_sums, mask=mine < size)
    tl.store(ranked_hessian + first + mine, hessian_sums, mask=mine < size)
    tl.store(losses + tl.program_id(0), tl.sum(cost))
    tl.store(magnitudes + tl.program_id(0), tl.sum(magnitude))


@triton_kernel
def _scale(
    offsets, tile_queries, tile_starts, ranks, sigma: tl.float64, ranked_gradient, ranked_hessian, losses, magnitudes,
    value, gradient, hessian, norm: tl.constexpr, has_hessian: tl.constexpr, tile: tl.constexpr, step: tl.constexpr,
):  # fmt: skip
    """Fill the derivatives of a tile, scaled by the factor of its list; the list's first tile fills the value too."""
    query, start, first, size = tile_bounds(offsets, tile_queries, tile_starts)
    if start >= size:
        return
    tiles = (size + tile - 1) // tile
    number = tl.program_id(0) - start // tile  # the list's first
    cost = tl.zeros([step], ranked_gradient.dtype.element_ty)
    magnitude = cost
    for begin in range(0, tiles, step):
        inside = begin + tl.arange(0, step) < tiles
        cost += tl.load(losses + number + begin + tl.arange(0, step), mask=inside, other=0.0)
        if norm:
            magnitude += tl.load(magnitudes + number + begin + tl.arange(0, step), mask=inside, other=0.0)
    sigma = tl.cast(sigma, cost.dtype)
    factor = _factor(tl.sum(magnitude), sigma, norm)
    mine = start + tl.arange(0, tile)
    real = mine < size
    place = tl.load(ranks + first + mine, mask=real, other=0)
    tl.store(gradient + first + mine, sigma * factor * tl.load(ranked_gradient + first + place, mask=real), mask=real)
    if has_hessian:
        diagonal = tl.load(ranked_hessian + first + place, mask=real)
        tl.store(hessian + first + mine, sigma * sigma * factor * diagonal, mask=real)
    if start == 0:
        tl.store(value + query, factor * tl.sum(cost))


def pairwise(lists: DeviceLists, scores: Tensor, arguments: Any, _: None, out: Derivatives) -> None:
    """Compute the loss and its derivatives: list by list, or in three steps that rank, pair up, and scale."""
    _, gains, weights, discounts, distances, settings = arguments
    sigma, truncation, norm, loss, weight, swap_share, distance_share = settings
    weighted, has_hessian, swapped = weights.numel() > 0, out.hessian.numel() > 0, weight in BY_SWAPS
    weights = weights if weighted else gains
    ranked, ranked_gains, ranked_weights, ranked_gradient, ranked_hessian = scores.new_empty((5, lists.n_docs)).unbind()
    truncation = min(truncation, lists.longest)
    outputs = (out.value, out.gradient, out.hessian if has_hessian else out.gradient)
    numbers = (sigma, truncation, swap_share, distance_share)
    kind = (weight, loss, norm, weighted, distance_share > 0.0)
    tiles, (step, warps) = lists.tiles(TILE), lists.pair_shape(None if swapped else truncation)
    small = lists.typical * min(truncation, lists.typical) <= SMALL and lists.typical <= COUNTED
    if lists.n_queries >= MANY and small and not swapped:
        places = ranked.new_empty(lists.n_docs, dtype=torch.int32)
        _short_lists[(lists.n_queries,)](
            lists.offsets, lists.longest_first, scores, gains, weights, ranked, ranked_gains, ranked_weights, places,
            discounts, distances, *numbers, ranked_gradient, ranked_hessian, *outputs, *kind, has_hessian, TILE, step,
            _COUNT_STEP, num_warps=warps,
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
    losses, magnitudes = scores.new_empty((2, grid[0])).unbind()
    _pairs[grid](
        lists.offsets, *tiles, ranked, ranked_gains, ranked_weights, upper, lower, reaches, discounts, distances,
        *numbers, ranked_gradient, ranked_hessian, losses, magnitudes, swapped, *kind, TILE, step, num_warps=warps,
    )  # fmt: skip
    _scale[grid](
        lists.offsets, *tiles, places, sigma, ranked_gradient, ranked_hessian, losses, magnitudes, *outputs, norm,
        has_hessian, TILE, step, num_warps=warps,
    )  # fmt: skip
