"""YetiLoss on a device: rankings are drawn with the noise of the CPU, and each document is paired with its neighbours.

Every pair is computed twice, once for each of the two, so that nothing is added to by two programs at once. Rankings
are sorted in double precision, as on the CPU, so that neighbours are the same. The formulas are in ``cpu/yeti.py``.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from rankwise.base.device.arithmetic import log1p_unit
from rankwise.base.device.launching import program_list, tile_bounds, triton_kernel
from rankwise.base.device.order import ordered
from rankwise.objectives.device import DeviceLists, fill_noisy
from rankwise.objectives.pairwise.cpu.yeti import MAP, MRR
from rankwise.objectives.ragged import Derivatives, Random

_MAP, _MRR = tl.constexpr(MAP), tl.constexpr(MRR)
_TILE, _BLOCK = 128, 256


@triton.jit
def _pair(first, row, upper, real, scores, gains, ranked, above, discount_gaps, pairs, sigma, metric: tl.constexpr):
    """Return the loss of the pair at ``upper`` and the place after it, and minus its first, and its second derivative.

    Both are derivatives by the score of the upper document.
    """
    counts = real & (upper >= 0) & (upper < pairs)
    upper_row = tl.load(ranked + row + first + upper, mask=counts, other=0)
    lower_row = tl.load(ranked + row + first + upper + 1, mask=counts, other=0)
    gain = tl.load(gains + first + upper_row, mask=counts, other=0.0)
    weight = gain - tl.load(gains + first + lower_row, mask=counts, other=0.0)
    weight = weight * tl.load(discount_gaps + upper, mask=counts, other=0.0)
    if (metric == _MAP) | (metric == _MRR):
        relevant = tl.load(above + row + first + upper, mask=counts, other=0)
        share = (1 + relevant).to(weight.dtype) if metric == _MAP else (relevant == 0).to(weight.dtype)
        weight = weight * share
    score = tl.load(scores + first + upper_row, mask=counts, other=0.0)
    gap = sigma * (score - tl.load(scores + first + lower_row, mask=counts, other=0.0))
    margin = tl.where(weight > 0.0, gap, -gap)
    small = tl.exp(-tl.abs(margin))
    inverse = 1.0 / (1.0 + small)
    wrong = inverse * tl.where(margin > 0.0, small, 1.0)
    size = tl.abs(weight)
    return size * (tl.maximum(-margin, 0.0) + log1p_unit(small)), weight * wrong, size * (small * inverse * inverse)


@triton_kernel
def _neighbours(
    offsets, tile_queries, tile_starts, scores, gains, places, ranked, above, discount_gaps,
    sigma: tl.float64, n_gaps, permutations, n_docs, losses, gradient, hessian,
    metric: tl.constexpr, has_hessian: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    """Add up the pairs of a tile of documents over all rankings; the loss of a pair is added to its upper one."""
    _query, start, first, size = tile_bounds(offsets, tile_queries, tile_starts)
    if start >= size:
        return
    pairs = tl.minimum(size - 1, n_gaps)
    mine = start + tl.arange(0, tile)
    real = mine < size
    gradient_sum = tl.zeros([tile], scores.dtype.element_ty)
    sigma = (gradient_sum + sigma).to(gradient_sum.dtype)
    hessian_sum, cost = gradient_sum, gradient_sum
    for number in range(permutations):
        row = tl.full([tile], number, tl.int64) * n_docs
        place = tl.load(places + row + first + mine, mask=real, other=0)
        loss, upper_gradient, upper_hessian = _pair(
            first, row, place, real, scores, gains, ranked, above, discount_gaps, pairs, sigma, metric
        )
        _, lower_gradient, lower_hessian = _pair(
            first, row, place - 1, real, scores, gains, ranked, above, discount_gaps, pairs, sigma, metric
        )
        cost += loss
        gradient_sum += lower_gradient - upper_gradient
        hessian_sum += upper_hessian + lower_hessian
    tl.store(gradient + first + mine, gradient_sum * sigma / permutations, mask=real)
    if has_hessian:
        tl.store(hessian + first + mine, hessian_sum * sigma * sigma / permutations, mask=real)
    tl.store(losses + first + start, tl.sum(cost / permutations))


@triton_kernel
def _add_up(offsets, losses, value, tile: tl.constexpr, block: tl.constexpr):
    """Add up the losses of the tiles of a list, each of which stands at the tile's first document."""
    query, first, size = program_list(offsets)
    total = tl.zeros([block], losses.dtype.element_ty)
    for begin in range(0, size, block * tile):
        starts = begin + tl.arange(0, block) * tile
        total += tl.load(losses + first + starts, mask=starts < size, other=0.0)
    tl.store(value + query, tl.sum(total))


def yeti(lists: DeviceLists, scores: Tensor, arguments: Any, random: Random, out: Derivatives) -> None:
    """Compute the loss and its derivatives: draw rankings, find neighbours, and add up."""
    gains, discount_gaps, metric, noise, scale, sigma = arguments
    permutations = len(random.keys)
    noisy = torch.empty((permutations, lists.n_docs), dtype=torch.float64, device=lists.device)
    fill_noisy(lists, scores, random, noisy, noise=noise, scale=scale)
    places, ranked = ordered(lists, noisy)
    above = places
    if metric in (MAP, MRR):
        begins = lists.to_documents(lists.offsets[:-1])
        relevant = (gains > 0.0)[ranked + begins].to(torch.int32)
        before = relevant.cumsum(1, dtype=torch.int32) - relevant
        above = before - before[:, begins]
    tiles, losses = lists.tiles(_TILE), torch.empty_like(scores)
    has_hessian = out.hessian.numel() > 0
    outputs = (losses, out.gradient, out.hessian if has_hessian else out.gradient)
    _neighbours[(tiles[0].numel(),)](
        lists.offsets, *tiles, scores, gains, places, ranked, above, discount_gaps, sigma, discount_gaps.numel(),
        permutations, lists.n_docs, *outputs, metric, has_hessian, _TILE,
    )  # fmt: skip
    _add_up[(lists.n_queries,)](lists.offsets, losses, out.value, _TILE, _BLOCK, num_warps=2)
