"""Metrics with smooth ranks on a device: two passes over pairs of a relevant document and any other, O(n) memory.

The formulas are in ``cpu.py``. The first pass computes the rank of each relevant document, and from it α, β and b; the
second adds up, for each document, the terms of all relevant ones.
"""

from typing import Any

import triton.language as tl
from torch import Tensor

from rankwise.base.device.arithmetic import sigmoid
from rankwise.base.device.launching import program_list, tile_bounds, triton_kernel
from rankwise.base.device.ragged import TILE
from rankwise.objectives.device import DeviceLists
from rankwise.objectives.ragged import Derivatives
from rankwise.objectives.smooth.cpu import AP, LN2, NDCG, SETTLED

_NDCG, _AP = tl.constexpr(NDCG), tl.constexpr(AP)
_SETTLED, _LN2 = tl.constexpr(SETTLED), tl.constexpr(LN2)


@triton_kernel
def _fill_relevant(offsets, gains, relevant, counts, metric: tl.constexpr, block: tl.constexpr):
    """Fill the documents of a list, relevant ones first, and the count of relevant ones to learn from."""
    query, first, size = program_list(offsets)
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


def fill_relevant(lists: DeviceLists, gains: Tensor, arguments: Any, _: None, out: tuple[Tensor, Tensor]) -> None:
    """Fill the relevant documents of each query."""
    _fill_relevant[(lists.n_queries,)](lists.offsets, gains, *out, *arguments, lists.block(), num_warps=1)


@triton_kernel
def _rank(
    offsets, tile_queries, tile_starts, scores, gains, relevant, counts, best, eta: tl.float64,
    alpha, beta, b_column, parts, own_gradient, own_hessian,
    metric: tl.constexpr, has_hessian: tl.constexpr, tile: tl.constexpr, step: tl.constexpr,
):  # fmt: skip
    """Fill α, β and b of a tile of relevant documents, their parts of the value, and their own derivatives.

    The first pass. Results are at the places of the documents in ``relevant``.
    """
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
    rank, relevant_rank, w_sum, w_relevant, t_sum, t_relevant = none, none, none, none, none, none
    for begin in range(0, size, step):
        partners = begin + tl.arange(0, step)
        inside = partners < size
        partner_score = tl.load(scores + first + partners, mask=inside, other=0.0)
        p = sigmoid(eta * (partner_score[:, None] - score[None, :]))
        p = tl.where(inside[:, None] & (partners[:, None] != mine[None, :]), p, 0.0)
        w = p * (1.0 - p)
        rank += p
        w_sum += w
        if has_hessian:
            t = w * (1.0 - 2.0 * p)
            t_sum += t
        if metric != _NDCG:
            hit = tl.load(gains + first + partners, mask=inside, other=0.0)[:, None]
            relevant_rank += p * hit
            w_relevant += w * hit
            if has_hessian:
                t_relevant += t * hit
    rank, relevant_rank = tl.sum(rank, 0), tl.sum(relevant_rank, 0)
    w_sum, w_relevant = tl.sum(w_sum, 0), tl.sum(w_relevant, 0)
    if metric == _NDCG:
        gain = tl.load(gains + first + mine, mask=real, other=0.0)
        share = -gain * _LN2 / tl.load(best + query)
        log = tl.log(2.0 + rank)
        part = share / log
        a = -share * eta / ((2.0 + rank) * log * log)
        b = -eta * (log + 2.0) / ((2.0 + rank) * log)
        c = zeros
    elif metric == _AP:
        precision = (1.0 + relevant_rank) / (1.0 + rank)
        part = -precision / count
        c = -eta / (count * (1.0 + rank))
        a = -c * precision
        b = -2.0 * eta / (1.0 + rank)
    else:
        part = rank - relevant_rank
        a = zeros + eta
        c = zeros - eta
        b = zeros
    gradient_sum = a * w_sum + c * w_relevant
    tl.store(alpha + first + places, a, mask=real)
    tl.store(beta + first + places, c, mask=real)
    tl.store(b_column + first + places, b, mask=real)
    tl.store(parts + first + places, part, mask=real)
    tl.store(own_gradient + first + mine, -gradient_sum, mask=real)
    if has_hessian:
        hessian_sum = eta * (a * tl.sum(t_sum, 0) + c * tl.sum(t_relevant, 0))
        tl.store(own_hessian + first + mine, hessian_sum + b * w_sum * gradient_sum, mask=real)


@triton_kernel
def _gather(
    offsets, tile_queries, tile_starts, scores, gains, relevant, counts, eta: tl.float64,
    alpha, beta, b_column, parts, own_gradient, own_hessian, value, gradient, hessian,
    metric: tl.constexpr, has_hessian: tl.constexpr, tile: tl.constexpr, step: tl.constexpr,
):  # fmt: skip
    """Fill the derivatives of a tile of documents; the first tile of a list fills its value too. The second pass."""
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
    gradient_sum = tl.zeros([step, tile], score.dtype)
    hessian_sum = gradient_sum
    total = tl.zeros([step], score.dtype)
    for begin in range(0, count, step):
        places = begin + tl.arange(0, step)
        inside = places < count
        partners = tl.load(relevant + first + places, mask=inside, other=0)
        partner_score = tl.load(scores + first + partners, mask=inside, other=0.0)
        p = sigmoid(eta * (score[None, :] - partner_score[:, None]))
        w = tl.where(inside[:, None] & (partners[:, None] != mine[None, :]), p * (1.0 - p), 0.0)
        c = tl.load(alpha + first + places, mask=inside, other=0.0)[:, None]
        if metric != _NDCG:
            c = c + tl.load(beta + first + places, mask=inside, other=0.0)[:, None] * hit[None, :]
        gradient_sum += c * w
        if has_hessian:
            b = tl.load(b_column + first + places, mask=inside, other=0.0)[:, None]
            hessian_sum += c * w * (b * w + eta * (1.0 - 2.0 * p))
        total += tl.load(parts + first + places, mask=inside, other=0.0)
    own_term = tl.load(own_gradient + first + mine, mask=counted, other=0.0)
    tl.store(gradient + first + mine, own_term + tl.sum(gradient_sum, 0), mask=real)
    if has_hessian:
        own_term = tl.load(own_hessian + first + mine, mask=counted, other=0.0)
        tl.store(hessian + first + mine, own_term + tl.sum(hessian_sum, 0), mask=real)
    if start == 0:
        tl.store(value + query, tl.where(settled, -1.0, tl.sum(total)))


def smooth(lists: DeviceLists, scores: Tensor, arguments: Any, _: None, out: Derivatives) -> None:
    """Compute the loss and its derivatives, by both passes."""
    gains, relevant, counts, best, eta, metric = arguments
    scratch = scores.new_empty((6, lists.n_docs))
    tiles, (step, warps) = lists.tiles(TILE), lists.pair_shape()
    inputs = (lists.offsets, *tiles, scores, gains, relevant, counts)
    has_hessian = out.hessian.numel() > 0
    constants, grid = (metric, has_hessian, TILE, step), (tiles[0].numel(),)
    columns = scratch.unbind()
    _rank[grid](*inputs, best, eta, *columns, *constants, num_warps=warps)
    outputs = (out.value, out.gradient, out.hessian if has_hessian else out.gradient)
    _gather[grid](*inputs, eta, *columns, *outputs, *constants, num_warps=warps)
