"""Weights of pairs that are not simply (difference of worths)·|difference of discounts|.

Swapping two documents changes a metric by (difference of worths)·(upper − lower), where ``upper`` depends on the rank
of the upper document and ``lower`` on that of the lower one. For a sum of worth · discount both are the discount.
"""

import numpy as np

from rankwise.kernels import FUSED, kernel
from rankwise.objectives.pairwise.losses import SHIFT, SPAN

DISCOUNTED, AVERAGE_PRECISION, RECIPROCAL_RANK, COUNT = range(4)
"""What weighs a pair: the change of a metric if the two are swapped, or 1. Discounted ones are Σ worth · discount."""


@kernel
def fill_swaps(weight, first, last, heavy, discounts, tiles, upper, lower):  # type: ignore[no-untyped-def]
    """Fill what the weights of pairs are made of, for documents at the places ``first`` to ``last``.

    ``heavy`` are weights of documents by row, or nothing; ``upper`` and ``lower`` are scratch for one number per rank.
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
        tile.heavy[j] = heavy[tile.row[j]] if heavy.size else 1.0


@kernel
def _swaps_of_precision(n, upper, lower):  # type: ignore[no-untyped-def]
    """Turn relevance by rank, 0 or 1, into the parts of average precision.

    Let c be the number of relevant documents down to rank r. One that leaves r takes c/r away, one that comes to r
    brings (c + 1)/r, and relevant ones at the ranks r between the two gain or lose 1/r each.
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
def _swaps_of_reciprocal_rank(n, upper, lower):  # type: ignore[no-untyped-def]
    """Turn relevance by rank, 0 or 1, into the parts of the reciprocal rank.

    A document above the first relevant one changes places with any relevant one; or the first relevant one with one
    below it, and then what counts is where it comes to or the second relevant one.
    """
    found, first, second = 0, 0.0, 0.0
    for k in range(n):
        if upper[k] > 0.0 and found < 2:
            found += 1
            first, second = (1.0 / (k + 1.0), 0.0) if found == 1 else (first, 1.0 / (k + 1.0))
    for k in range(n):
        here = 1.0 / (k + 1.0)
        lower[k] = 0.0 if upper[k] > 0.0 else max(here, second)
        upper[k] = here - first if here > first else (first if here == first else 0.0)


@kernel
def first_relevant(rows, worths, ranks):  # type: ignore[no-untyped-def]
    """The rank of the first relevant document: from the next on, no document's swap changes the reciprocal rank."""
    first = ranks[rows[0]]
    for k in range(rows.size):
        if worths[k] > 0.0:
            first = min(first, ranks[rows[k]])
    return first


@kernel(fastmath=FUSED)
def weigh(side, settings, heavy, distances, own, i, others, first, last, weights):  # type: ignore[no-untyped-def]
    """Fill the weights of the pairs of one document with a stretch of others; the others are better on side 1.

    ``distances`` has what a pair weighs by how many ranks the two are apart, where that counts.
    """
    first, last = np.uint64(first), np.uint64(last)  # no index is negative: loops need not ask
    value, rank, upper, lower = own.value[i], own.rank[i], own.upper[i], own.lower[i]
    if settings.weight == COUNT:
        for j in range(first, last):
            weights[j] = 1.0
    elif settings.distance_share > 0.0:
        for j in range(first, last):
            apart = distances[np.uint64(abs(rank - others.rank[j]))]
            swap = settings.swap_share * abs(upper - others.upper[j]) + settings.distance_share * apart
            weights[j] = abs(value - others.value[j]) * swap
    else:
        for j in range(first, last):
            above = rank < others.rank[j]
            leaves = upper if above else others.upper[j]
            swap = leaves - (others.lower[j] if above else lower)
            if settings.weight == RECIPROCAL_RANK and leaves == 0.0:
                swap = 0.0
            weights[j] = abs(value - others.value[j]) * swap
    if heavy:
        for j in range(first, last):
            weights[j] *= own.heavy[i] if side == 0 else others.heavy[j]
