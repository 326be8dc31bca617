"""Metrics with smooth ranks on a device: two passes over pairs of a relevant document and any other, O(n) memory.

With p = σ(η(s_k − s_i)), w = p(1 − p) and t = w(1 − 2p), the derivatives of all three metrics have one form. A relevant
document i adds to any other k, whose relevance is r_k,

    gradient_k += c·w,   hessian_k += c·(b·w² + η·t),   c = α_i + β_i·r_k,

and to itself minus the sum of the first, and Σ c·η·t + b·(Σ w)(Σ c·w). The first pass finds the rank of each relevant
document, and from that its α, β and b; the second gathers, for each document, what all relevant ones add to it.
"""

import dataclasses

import numpy as np
import triton.language as tl

from rankwise.objectives.prepared import PreparedKernel
from rankwise.objectives.torch.kernels.arithmetic import sigmoid
from rankwise.objectives.torch.kernels.launched import launched
from rankwise.objectives.torch.kernels.lists import TILE
from rankwise.objectives.torch.kernels.placed import Call

NDCG, AP, RBP = range(3)
SETTLED = -1
"""The count of relevant documents of a list in which all are: every order is the best one."""
_NDCG, _AP, _RBP = tl.constexpr(NDCG), tl.constexpr(AP), tl.constexpr(RBP)
_LN2 = tl.constexpr(0.6931471805599453)


@launched
def _rank(  # type: ignore[no-untyped-def]
    offsets, tile_queries, tile_starts, scores, worths, order, counts, ideal, eta: tl.float64,
    alpha, beta, bend, parts, own_gradient, own_hessian,
    metric: tl.constexpr, wanted: tl.constexpr, tile: tl.constexpr, step: tl.constexpr,
):  # fmt: skip
    """The first pass, for a tile of relevant documents; results stand at their places in ``order``."""
    query = tl.load(tile_queries + tl.program_id(0))
    start = tl.load(tile_starts + tl.program_id(0))
    count = tl.load(counts + query)
    if start >= count:
        return
    first = tl.load(offsets + query)
    size = tl.load(offsets + query + 1) - first
    places = start + tl.arange(0, tile)
    real = places < count
    mine = tl.load(order + first + places, mask=real, other=0)
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
            relevant = tl.load(worths + first + others, mask=inside, other=0.0)[:, None]
            among += p * relevant
            w_among += w * relevant
            if wanted:
                t_among += t * relevant
    rank, among, w_sum, w_among = tl.sum(rank, 0), tl.sum(among, 0), tl.sum(w_sum, 0), tl.sum(w_among, 0)
    if metric == _NDCG:
        worth = tl.load(worths + first + mine, mask=real, other=0.0)
        share = -worth * _LN2 / tl.load(ideal + query)
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


@launched
def _gather(  # type: ignore[no-untyped-def]
    offsets, tile_queries, tile_starts, scores, worths, order, counts, eta: tl.float64,
    alpha, beta, bend, parts, own_gradient, own_hessian, value, gradient, hessian,
    metric: tl.constexpr, wanted: tl.constexpr, tile: tl.constexpr, step: tl.constexpr,
):  # fmt: skip
    """The second pass, for a tile of any documents; the first tile of a list adds up its value too."""
    query = tl.load(tile_queries + tl.program_id(0))
    start = tl.load(tile_starts + tl.program_id(0))
    count = tl.load(counts + query)
    first = tl.load(offsets + query)
    size = tl.load(offsets + query + 1) - first
    settled = count < 0
    count = tl.maximum(count, 0)
    mine = start + tl.arange(0, tile)
    real = mine < size
    score = tl.load(scores + first + mine, mask=real, other=0.0)
    relevant = tl.load(worths + first + mine, mask=real, other=0.0)
    counted = real & (relevant * count > 0.0)
    eta = tl.cast(eta, score.dtype)
    slope = tl.zeros([step, tile], score.dtype)
    curve = slope
    total = tl.zeros([step], score.dtype)
    for begin in range(0, count, step):
        places = begin + tl.arange(0, step)
        inside = places < count
        others = tl.load(order + first + places, mask=inside, other=0)
        other = tl.load(scores + first + others, mask=inside, other=0.0)
        p = sigmoid(eta * (score[None, :] - other[:, None]))
        w = tl.where(inside[:, None] & (others[:, None] != mine[None, :]), p * (1.0 - p), 0.0)
        c = tl.load(alpha + first + places, mask=inside, other=0.0)[:, None]
        if metric != _NDCG:
            c = c + tl.load(beta + first + places, mask=inside, other=0.0)[:, None] * relevant[None, :]
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


def arrange(metric: int, prepared: PreparedKernel) -> PreparedKernel:
    """Put the relevant documents of each list first, and count them; 0 where a list has nothing to learn from."""
    (worths,), sizes = prepared.per_document, np.diff(prepared.offsets)
    relevant = worths > 0.0
    queries = np.repeat(np.arange(sizes.size), sizes)
    order = np.lexsort((~relevant, queries)) - np.repeat(prepared.offsets[:-1], sizes)
    counts = np.bincount(queries[relevant], minlength=sizes.size).astype(np.int32)
    if metric == AP:
        counts[counts == sizes] = SETTLED
    elif metric == RBP:
        counts[counts == sizes] = 0
    else:
        counts[sizes == 1] = 0
    return dataclasses.replace(
        prepared, per_document=(worths, order.astype(np.int32)), per_query=(counts, *prepared.per_query)
    )


def launch(metric: int, call: Call) -> None:
    """Run both passes."""
    worths, order = call.per_document
    counts, ideal = call.per_query[0], call.per_query[-1]
    (eta,) = call.settings
    scratch = call.scores.new_empty((6, call.lists.n_docs))
    tiles, shape = call.lists.tiles(TILE), call.lists.pair_shape
    lists = (call.lists.offsets, *tiles, call.scores, worths, order, counts)
    grid = (tiles[0].numel(),)
    wanted = call.hessian is not None
    _rank[grid](*lists, ideal, eta, *scratch, metric=metric, wanted=wanted, **shape)
    outputs = (call.value, call.gradient, call.hessian if wanted else call.gradient)
    _gather[grid](*lists, eta, *scratch, *outputs, metric=metric, wanted=wanted, **shape)
