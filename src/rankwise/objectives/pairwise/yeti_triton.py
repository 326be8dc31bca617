"""YetiLoss on a device: rankings are drawn by the noise of the CPU, and each document looks at its two neighbours.

Every pair is computed twice, once for each of the two, so that nothing is added to by two programs at once. Rankings
are made in double precision, as on the CPU: the same neighbours are found. The formulas are in
``rankwise.objectives.pairwise.yeti``.
"""

import dataclasses

import torch
import triton
import triton.language as tl

from rankwise.objectives.pairwise.yeti import MAP, MRR, Yeti
from rankwise.objectives.prepared import PreparedKernel
from rankwise.objectives.torch.kernels.arithmetic import log1p_unit
from rankwise.objectives.torch.kernels.launched import launched
from rankwise.objectives.torch.kernels.order import ordered
from rankwise.objectives.torch.kernels.placed import Call, drawn
from rankwise.objectives.torch.kernels.stochastic import fill_noisy

_MAP, _MRR = tl.constexpr(MAP), tl.constexpr(MRR)
_TILE, _BLOCK = 128, 256


@triton.jit
def _pair(  # type: ignore[no-untyped-def]
    first, row, upper, real, scores, worths, ranked, above, drops, pairs, sigma, metric: tl.constexpr
):
    """The pair of places ``upper`` and ``upper`` + 1: its loss, how it pulls the upper one up, and its curvature."""
    counts = real & (upper >= 0) & (upper < pairs)
    here = tl.load(ranked + row + first + upper, mask=counts, other=0)
    below = tl.load(ranked + row + first + upper + 1, mask=counts, other=0)
    worth = tl.load(worths + first + here, mask=counts, other=0.0)
    weight = worth - tl.load(worths + first + below, mask=counts, other=0.0)
    weight = weight * tl.load(drops + upper, mask=counts, other=0.0)
    if (metric == _MAP) | (metric == _MRR):
        relevant = tl.load(above + row + first + upper, mask=counts, other=0)
        share = (1 + relevant).to(weight.dtype) if metric == _MAP else (relevant == 0).to(weight.dtype)
        weight = weight * share
    score = tl.load(scores + first + here, mask=counts, other=0.0)
    gap = sigma * (score - tl.load(scores + first + below, mask=counts, other=0.0))
    margin = tl.where(weight > 0.0, gap, -gap)
    small = tl.exp(-tl.abs(margin))
    whole = 1.0 / (1.0 + small)
    wrong = whole * tl.where(margin > 0.0, small, 1.0)
    size = tl.abs(weight)
    return size * (tl.maximum(-margin, 0.0) + log1p_unit(small)), weight * wrong, size * (small * whole * whole)


@launched
def _neighbours(  # type: ignore[no-untyped-def]
    offsets, tile_queries, tile_starts, scores, worths, places, ranked, above, drops,
    sigma: tl.float64, n_drops, permutations, n_docs, losses, gradient, hessian,
    metric: tl.constexpr, wanted: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    """Add up the pairs of a tile of documents over all rankings; the loss of a pair is added to its upper one."""
    query = tl.load(tile_queries + tl.program_id(0))
    start = tl.load(tile_starts + tl.program_id(0))
    first = tl.load(offsets + query)
    size = tl.load(offsets + query + 1) - first
    pairs = tl.minimum(size - 1, n_drops)
    mine = start + tl.arange(0, tile)
    real = mine < size
    slope = tl.zeros([tile], scores.dtype.element_ty)
    sigma = (slope + sigma).to(slope.dtype)
    curve, cost = slope, slope
    for number in range(permutations):
        row = tl.full([tile], number, tl.int64) * n_docs
        place = tl.load(places + row + first + mine, mask=real, other=0)
        loss, pull, bend = _pair(first, row, place, real, scores, worths, ranked, above, drops, pairs, sigma, metric)
        _, push, bent = _pair(first, row, place - 1, real, scores, worths, ranked, above, drops, pairs, sigma, metric)
        cost += loss
        slope += push - pull
        curve += bend + bent
    tl.store(gradient + first + mine, slope * sigma / permutations, mask=real)
    if wanted:
        tl.store(hessian + first + mine, curve * sigma * sigma / permutations, mask=real)
    tl.store(losses + first + start, tl.sum(cost / permutations))


@launched
def _add_up(offsets, losses, value, tile: tl.constexpr, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """Add up the losses of the tiles of a list, each of which stands at the tile's first document."""
    query = tl.program_id(0)
    first = tl.load(offsets + query)
    size = tl.load(offsets + query + 1) - first
    total = tl.zeros([block], losses.dtype.element_ty)
    for begin in range(0, size, block * tile):
        starts = begin + tl.arange(0, block) * tile
        total += tl.load(losses + first + starts, mask=starts < size, other=0.0)
    tl.store(value + query, tl.sum(total))


def arrange(prepared: PreparedKernel) -> PreparedKernel | None:
    """Tell how many rankings there are, which the CPU sees by the number of their keys."""
    if not isinstance(prepared.objective, Yeti):
        return None
    return dataclasses.replace(prepared, settings=(*prepared.settings, prepared.objective.permutations))


def launch(call: Call) -> None:
    """Draw rankings, find neighbours, and add up."""
    (worths,), (drops, metric, noise, scale, sigma, permutations) = call.per_document, call.settings
    lists, random = call.lists, drawn(call)
    keys = random.keys("noise", permutations)
    noisy = torch.empty((len(keys), lists.n_docs), dtype=torch.float64, device=lists.device)
    fill_noisy(lists, call.scores, keys, random.queries, noisy, noise=noise, scale=scale)
    places, ranked = ordered(lists, noisy)
    above = places
    if metric in (MAP, MRR):
        begins = lists.spread(lists.offsets[:-1])
        relevant = (worths > 0.0)[ranked + begins].to(torch.int32)
        before = relevant.cumsum(1, dtype=torch.int32) - relevant
        above = before - before[:, begins]
    tiles = lists.tiles(_TILE)
    losses = torch.empty_like(call.scores)
    wanted = call.hessian is not None
    outputs = (losses, call.gradient, call.hessian if wanted else call.gradient)
    _neighbours[(tiles[0].numel(),)](
        lists.offsets, *tiles, call.scores, worths, places, ranked, above, drops, sigma,
        drops.numel(), len(keys), lists.n_docs, *outputs, metric=metric, wanted=wanted, tile=_TILE, num_warps=4,
    )  # fmt: skip
    _add_up[(lists.n_queries,)](lists.offsets, losses, call.value, tile=_TILE, block=_BLOCK, num_warps=2)
