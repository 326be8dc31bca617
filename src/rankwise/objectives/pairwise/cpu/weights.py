"""Weights of pairs: their table, and how they are computed.

Swapping two documents changes a metric by (difference of gains)·(upper − lower), where ``upper`` depends on the rank
of the upper document and ``lower`` on that of the lower one. For a sum of gain · discount both are the discount.
"""

import numpy as np

from rankwise.base.arrays import Array
from rankwise.base.compiling import FUSED, kernel
from rankwise.metrics.gains import discounts as dcg_discounts
from rankwise.objectives.pairwise.cpu.tiles import SHIFT, SPAN

DISCOUNTED, AVERAGE_PRECISION, RECIPROCAL_RANK, COUNT = range(4)
"""The weight of a pair in a kernel: a change of Σ gain · discount, of another metric, or 1."""
WEIGHTS = {
    "none": (COUNT, 1.0, 0.0),
    "ndcg": (DISCOUNTED, 1.0, 0.0),
    "ndcg2": (DISCOUNTED, 0.0, 1.0),
    "ndcg2++": (DISCOUNTED, 1.0, 10.0),
    "map": (AVERAGE_PRECISION, 1.0, 0.0),
    "mrr": (RECIPROCAL_RANK, 1.0, 0.0),
    "precision": (DISCOUNTED, 1.0, 0.0),
    "recall": (DISCOUNTED, 1.0, 0.0),
    "arp": (DISCOUNTED, 1.0, 0.0),
    "lambdagap_s": (DISCOUNTED, 0.0, 1.0),
    "lambdagap_x": (DISCOUNTED, 0.0, 1.0),
}
"""By name: the kernel's weight, the factor of the metric's change, the factor of the rank distance's weight."""


def rank_weights(weight: str, cutoff: int, longest: int) -> Array:
    """Return the discount of each rank in a metric: DCG's, 1 up to the cutoff, or minus the ranks behind it.

    >>> rank_weights("recall", 2, 4), rank_weights("arp", 2, 4)
    (array([1., 1., 0., 0.]), array([ 0.,  0., -1., -2.]))
    """
    ranks = np.arange(1, longest + 1)
    if weight in ("precision", "recall"):
        return (ranks <= cutoff).astype(np.float64)
    return np.minimum(cutoff - ranks, 0).astype(np.float64) if weight == "arp" else dcg_discounts(longest)


def distance_weights(weight: str, cutoff: int, longest: int) -> Array:
    """Return the weight of documents 0, 1, 2, … ranks apart: LambdaGap's mask, or LambdaLoss's drop of the discount.

    >>> distance_weights("lambdagap_s", 2, 4), distance_weights("lambdagap_x", 2, 4)
    (array([0., 0., 1., 0.]), array([0., 0., 1., 1.]))
    """
    apart, discounts = np.arange(longest), dcg_discounts(longest)
    if weight.startswith("lambdagap"):
        return (apart == cutoff if weight == "lambdagap_s" else apart >= cutoff).astype(np.float64)
    return np.concatenate(([0.0], discounts[:-1] - discounts[1:]))


@kernel
def fill_swaps(weight, first, last, weights, discounts, tiles, upper, lower):
    """Fill the parts of the weights of pairs, for documents at the places ``first`` to ``last``.

    ``weights`` are those of documents by row, or empty; ``upper`` and ``lower`` are scratch for one number per rank.
    """
    n = last - first
    for place in range(first, last):
        tile, j = tiles[0, place >> SHIFT], place & (SPAN - 1)
        upper[tile.rank[j]] = tile.value[j]
    if weight == AVERAGE_PRECISION:
        _swaps_of_precision(n, upper, lower)
    elif weight == RECIPROCAL_RANK:
        _swaps_of_reciprocal_rank(n, upper, lower)
    else:
        for k in range(n):
            upper[k] = lower[k] = discounts[k]
    for place in range(first, last):
        tile, j = tiles[0, place >> SHIFT], place & (SPAN - 1)
        tile.upper[j], tile.lower[j] = upper[tile.rank[j]], lower[tile.rank[j]]
        tile.weight[j] = weights[tile.row[j]] if weights.size else 1.0


@kernel
def _swaps_of_precision(n, upper, lower):
    """Turn relevance by rank, 0 or 1, into the parts of average precision.

    Let c be the number of relevant documents down to rank r. One that leaves r takes c/r away, one that comes to r
    adds (c + 1)/r, and relevant ones at the ranks r between the two gain or lose 1/r each.
    """
    c, between = 0.0, 0.0
    for k in range(n):
        r, hit = k + 1.0, upper[k]
        c += hit
        between += hit / r
        upper[k] = (c + 1.0 - hit) / r - between
        lower[k] = (c + hit) / r - between
    for k in range(n):
        upper[k] /= c
        lower[k] /= c


@kernel
def _swaps_of_reciprocal_rank(n, upper, lower):
    """Turn relevance by rank, 0 or 1, into the parts of the reciprocal rank.

    A document above the first relevant one changes places with any relevant one; or the first relevant one with one
    below it, and then the earlier of its new rank and the second relevant one counts.
    """
    count, first, second = 0, 0.0, 0.0
    for k in range(n):
        if upper[k] > 0.0 and count < 2:
            count += 1
            first, second = (1.0 / (k + 1.0), 0.0) if count == 1 else (first, 1.0 / (k + 1.0))
    for k in range(n):
        reciprocal = 1.0 / (k + 1.0)
        lower[k] = 0.0 if upper[k] > 0.0 else max(reciprocal, second)
        upper[k] = reciprocal - first if reciprocal > first else (first if reciprocal == first else 0.0)


@kernel
def first_relevant(gains, ranks):
    """Return the rank of the first relevant document: no swap behind it changes the reciprocal rank."""
    first = gains.size - 1
    for i in range(gains.size):
        if gains[i] > 0.0:
            first = min(first, ranks[i])
    return first


@kernel(fastmath=FUSED)
def weigh(side, settings, weighted, distances, document_tile, i, partners, first, last, weights):
    """Fill the weights of the pairs of one document with a range of partners, which are better on side 1.

    ``distances`` are weights by the number of ranks between the two, where that counts.
    """
    first, last = np.uint64(first), np.uint64(last)  # no index is negative, so that loops need no check
    value, rank = document_tile.value[i], document_tile.rank[i]
    upper, lower = document_tile.upper[i], document_tile.lower[i]
    if settings.weight == COUNT:
        for j in range(first, last):
            weights[j] = 1.0
    elif settings.distance_share > 0.0:
        for j in range(first, last):
            apart = distances[np.uint64(abs(rank - partners.rank[j]))]
            swap = settings.swap_share * abs(upper - partners.upper[j]) + settings.distance_share * apart
            weights[j] = abs(value - partners.value[j]) * swap
    else:
        for j in range(first, last):
            above = rank < partners.rank[j]
            leaves = upper if above else partners.upper[j]
            swap = leaves - (partners.lower[j] if above else lower)
            if settings.weight == RECIPROCAL_RANK and leaves == 0.0:
                swap = 0.0
            weights[j] = abs(value - partners.value[j]) * swap
    if weighted:
        for j in range(first, last):
            weights[j] *= document_tile.weight[i] if side == 0 else partners.weight[j]
