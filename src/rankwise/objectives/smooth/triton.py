"""Metrics with smooth ranks on a device: two passes over pairs of a relevant document and any other, O(n) memory.

The formulas are in ``cpu.py``. The first pass finds the rank of each relevant document, and from that its α, β and b;
the second gathers, for each document, what all relevant ones add to it.
"""

from typing import Any

import triton.language as tl
from torch import Tensor

from rankwise.device.arithmetic import sigmoid
from rankwise.device.launching import list_bounds, tile_bounds, triton_kernel
from rankwise.device.ragged import TILE
from rankwise.objectives.smooth.cpu import AP, LN2, NDCG, SETTLED

_NDCG, _AP = tl.constexpr(NDCG), tl.constexpr(AP)
_SETTLED, _LN2 = tl.constexpr(SETTLED), tl.constexpr(LN2)


@triton_kernel
def _fill_relevant(offsets, gains, relevant, counts, metric: tl.constexpr, block: tl.constexpr):
    """Fill the relevant documents of a list, then the others, and how many to learn from."""
    query = tl.program_id(0)
    first, size = list_bounds(offsets, query)
    hits, misses = size * 0, size * 0
    for start in range(0, size, block):
        documents = start + tl.arange(0, block)
        inside = documents < size
        gain = tl.load(gains + first + documents, mask=inside, other=0.0)
        hit = (inside & (gain > 0.0)).to(tl.int32)
        miss = inside.to(tl.int32) - hit
        place = tl.where(hit > 0, hits + tl.cumsum(hit) - 1, size - 1 - misses - tl.cumsum(miss) + 1)
        tl.store(relevant + first + place, documents, mask=inside)
        hits += tl.sum(hit)
        misses += tl.sum(miss)
    if metric == _NDCG:
        count = tl.where(size > 1, hits, 0)
    else:
        count = tl.where(hits < size, hits, _SETTLED if metric == _AP else 0)
    tl.store(counts + query, count)


def fill_relevant(lists: Any, gains: Tensor, arguments: Any, _: None, out: tuple[Tensor, Tensor]) -> None:
    """Find the relevant documents of each query."""
    _fill_relevant[(lists.n_queries,)](lists.offsets, gains, *out, *arguments, lists.block(), num_warps=1)


@triton_kernel
def _rank(
    offsets, tile_queries, tile_starts, scores, gains, relevant, counts, best, eta: tl.float64,
    alpha, beta, bend, parts, own_gradient, own_hessian,
    metric: tl.constexpr, wanted: tl.constexpr, tile: tl.constexpr, step: tl.constexpr,
):  # fmt: skip
    """The first pass, for a tile of relevant documents; results stand at their places in ``relevant``."""
    query, start, first, size = tile_bounds(offsets, tile_queries, tile_starts)
    count = tl.load(counts + query)
    if start >= count:
        return
    places = start + tl.arange(0, tile)
    real = places < count
    mine = tl.load(relevant + first + places, mask=real, other=0)
    score = tl.load(scores + first + mine, mask=real, other=0.0)
    eta = tl.cast(eta, score.dtype)
    zeros = tl.zeros([tile], score.dtype)
    none = tl.zeros([step, tile], score.dtype)
    rank, among, w_sum, w_among, t_sum, t_among = none, none, none, none, none, none
    for begin in range(0, size, step):
        others = begin + tl.arange(0, step)
        inside = others < size
        other = tl.load(scores + first + others, mask=inside, other=0.0)
        p = sigmoid(eta * (other[:, None] - score[None, :]))
        p = tl.where(inside[:, None] & (others[:, None] != mine[None, :]), p, 0.0)
        w = p * (1.0 - p)
        rank += p
        w_sum += w
        if wanted:
            t = w * (1.0 - 2.0 * p)
            t_sum += t
        if metric != _NDCG:
            hit = tl.load(gains + first + others, mask=inside, other=0.0)[:, None]
            among += p * hit
            w_among += w * hit
            if wanted:
                t_among += t * hit
    rank, among, w_sum, w_among = tl.sum(rank, 0), tl.sum(among, 0), tl.sum(w_sum, 0), tl.sum(w_among, 0)
    if metric == _NDCG:
        gain = tl.load(gains + first + mine, mask=real, other=0.0)
        share = -gain * _LN2 / tl.load(best + query)
        log = tl.log(2.0 + rank)
        part = share / log
        a = -share * eta / ((2.0 + rank) * log * log)
        b = -eta * (log + 2.0) / ((2.0 + rank) * log)
        c = zeros
    elif metric == _AP:
        precision = (1.0 + among) / (1.0 + rank)
        part = -precision / count
        c = -eta / (count * (1.0 + rank))
        a = -c * precision
        b = -2.0 * eta / (1.0 + rank)
    else:
        part = rank - among
        a = zeros + eta
        c = zeros - eta
        b = zeros
    slope = a * w_sum + c * w_among
    tl.store(alpha + first + places, a, mask=real)
    tl.store(beta + first + places, c, mask=real)
    tl.store(bend + first + places, b, mask=real)
    tl.store(parts + first + places, part, mask=real)
    tl.store(own_gradient + first + mine, -slope, mask=real)
    if wanted:
        bent = eta * (a * tl.sum(t_sum, 0) + c * tl.sum(t_among, 0))
        tl.store(own_hessian + first + mine, bent + b * w_sum * slope, mask=real)


@triton_kernel
def _gather(
    offsets, tile_queries, tile_starts, scores, gains, relevant, counts, eta: tl.float64,
    alpha, beta, bend, parts, own_gradient, own_hessian, value, gradient, hessian,
    metric: tl.constexpr, wanted: tl.constexpr, tile: tl.constexpr, step: tl.constexpr,
):  # fmt: skip
    """The second pass, for a tile of any documents; the first tile of a list adds up its value too."""
    query, start, first, size = tile_bounds(offsets, tile_queries, tile_starts)
    if start >= size:
        return
    count = tl.load(counts + query)
    settled = count < 0
    count = tl.maximum(count, 0)
    mine = start + tl.arange(0, tile)
    real = mine < size
    score = tl.load(scores + first + mine, mask=real, other=0.0)
    hit = tl.load(gains + first + mine, mask=real, other=0.0)
    counted = real & (hit * count > 0.0)
    eta = tl.cast(eta, score.dtype)
    slope = tl.zeros([step, tile], score.dtype)
    curve = slope
    total = tl.zeros([step], score.dtype)
    for begin in range(0, count, step):
        places = begin + tl.arange(0, step)
        inside = places < count
        others = tl.load(relevant + first + places, mask=inside, other=0)
        other = tl.load(scores + first + others, mask=inside, other=0.0)
        p = sigmoid(eta * (score[None, :] - other[:, None]))
        w = tl.where(inside[:, None] & (others[:, None] != mine[None, :]), p * (1.0 - p), 0.0)
        c = tl.load(alpha + first + places, mask=inside, other=0.0)[:, None]
        if metric != _NDCG:
            c = c + tl.load(beta + first + places, mask=inside, other=0.0)[:, None] * hit[None, :]
        slope += c * w
        if wanted:
            b = tl.load(bend + first + places, mask=inside, other=0.0)[:, None]
            curve += c * w * (b * w + eta * (1.0 - 2.0 * p))
        total += tl.load(parts + first + places, mask=inside, other=0.0)
    own = tl.load(own_gradient + first + mine, mask=counted, other=0.0)
    tl.store(gradient + first + mine, own + tl.sum(slope, 0), mask=real)
    if wanted:
        own = tl.load(own_hessian + first + mine, mask=counted, other=0.0)
        tl.store(hessian + first + mine, own + tl.sum(curve, 0), mask=real)
    if start == 0:
        tl.store(value + query, tl.where(settled, -1.0, tl.sum(total)))


def smooth(lists: Any, scores: Tensor, arguments: Any, _: None, out: Any) -> None:
    """Compute the loss and its derivatives, by both passes."""
    gains, relevant, counts, best, eta, metric = arguments
    scratch = scores.new_empty((6, lists.n_docs))
    tiles, (step, warps) = lists.tiles(TILE), lists.pair_shape()
    inputs = (lists.offsets, *tiles, scores, gains, relevant, counts)
    wanted = out.hessian.numel() > 0
    constants, grid = (metric, wanted, TILE, step), (tiles[0].numel(),)
    columns = scratch.unbind()
    _rank[grid](*inputs, best, eta, *columns, *constants, num_warps=warps)
    outputs = (out.value, out.gradient, out.hessian if wanted else out.gradient)
    _gather[grid](*inputs, eta, *columns, *outputs, *constants, num_warps=warps)
