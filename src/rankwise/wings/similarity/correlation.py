"""Rank correlation of a ranking with graded labels: Kendall's τ_b and Spearman's ρ, in O(n log n).

The documents of a query are walked in the order of their scores. A Fenwick tree over the levels of the other ranking
counts, for each document, those before it that the other ranking puts above and below it: Kendall's τ and τ_AP
(``rank_similarity.py``) need nothing else.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankwise.base.compiling import kernel
from rankwise.metrics import RankMetric
from rankwise.metrics.base import KernelCall
from rankwise.metrics.sorting import AVERAGE, group_end, longest_of, order_in, scratch_for


@dataclass(frozen=True, kw_only=True, repr=False)
class _Correlation(RankMetric):
    """A correlation of scores and labels, with ties as its definition has them; no cutoff.

    It is 0 where all scores are equal, and ``empty`` where all labels are. Documents that were not retrieved share the
    last rank.
    """

    bounds: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    fixed: ClassVar[tuple[str, ...]] = ("cutoff", "ties")

    def _kernel(self, longest: int) -> KernelCall:
        return _correlation, self.name == "kendall"


@dataclass(frozen=True, kw_only=True, repr=False)
class Kendall(_Correlation):
    """Kendall's τ_b of scores and labels: (C − D)/√((C + D + S)·(C + D + L)).

    C pairs of documents are in the order of their labels and D in the other; S have equal scores alone, L equal labels
    alone. A perfect ranking has less than 1 unless documents of equal labels have equal scores (Kendall 1945).

    >>> Kendall()([3.0, 2.0, 1.0], [2, 0, 1], [0, 3]).round(4)
    array([0.3333])
    """

    name: ClassVar[str] = "kendall"


@dataclass(frozen=True, kw_only=True, repr=False)
class Spearman(_Correlation):
    """Spearman's ρ of scores and labels: Pearson's correlation of ranks, of which tied documents share the mean.

    >>> Spearman()([3.0, 2.0, 1.0], [2, 0, 1], [0, 3])
    array([0.5])
    """

    name: ClassVar[str] = "spearman"


@kernel
def levels_in(scores, ranked, levels, means):  # type: ignore[no-untyped-def]
    """Number the tie groups of ranked documents from 1, the best; fill the mean rank of each document, from 1.

    Returns how many groups there are.
    """
    group, start = 0, 0
    while start < ranked.size:
        stop = group_end(scores, ranked, start, ranked.size, AVERAGE)
        group += 1
        for place in range(start, stop):
            levels[ranked[place]], means[ranked[place]] = group, 0.5 * (start + 1 + stop)
        start = stop
    return group


@kernel
def agreements(scores, ranked, levels, tree, out):  # type: ignore[no-untyped-def]
    """Fill, at the place where each tie group of ``ranked`` begins, Σ over its documents of (above − below).

    ``above`` counts the documents of earlier groups that the other ranking puts above it by its ``levels``, ``below``
    those that it puts below. ``tree`` has room for all levels and one more; 0 stands at all other places.
    """
    tree[:] = 0
    out[: ranked.size] = 0.0
    start = 0
    while start < ranked.size:
        stop = group_end(scores, ranked, start, ranked.size, AVERAGE)
        for place in range(start, stop):
            level = levels[ranked[place]]
            out[start] += _upto(tree, level - 1) - (start - _upto(tree, level))
        for place in range(start, stop):
            at = levels[ranked[place]]
            while at < tree.size:
                tree[at] += 1
                at += at & -at
        start = stop


@kernel
def _upto(tree, level):  # type: ignore[no-untyped-def]
    """Return how many documents in the tree have this level or a better one."""
    count = 0
    while level > 0:
        count += tree[level]
        level -= level & -level
    return count


@kernel
def pairs_apart(scores, ranked):  # type: ignore[no-untyped-def]
    """Return how many pairs of documents are in different tie groups."""
    tied, start, n = 0.0, 0, float(ranked.size)
    while start < ranked.size:
        stop = group_end(scores, ranked, start, ranked.size, AVERAGE)
        tied += 0.5 * (stop - start) * (stop - start - 1.0)
        start = stop
    return 0.5 * n * (n - 1.0) - tied


@kernel
def _correlation(first, last, offsets, scores, labels, cutoff, ties, kendall, empty, out):  # type: ignore[no-untyped-def]  # noqa: ARG001
    longest = longest_of(first, last, offsets)
    scratch, orders = scratch_for(longest), np.empty((2, longest), np.int64)
    levels, tree = np.empty((2, longest), np.int64), np.empty(longest + 1, np.int64)
    ranks, sums = np.empty((2, longest)), np.empty(longest)
    for q in range(first, last):
        mine, theirs = scores[offsets[q] : offsets[q + 1]], labels[offsets[q] : offsets[q + 1]]
        n = mine.size
        ranked, graded = orders[0, :n], orders[1, :n]
        order_in(mine, ranked, scratch)
        order_in(theirs, graded, scratch)
        groups = levels_in(mine, ranked, levels[0], ranks[0])
        grades = levels_in(theirs, graded, levels[1], ranks[1])
        if groups < 2 or grades < 2:
            out[q] = empty if grades < 2 else 0.0
        elif kendall:
            agreements(mine, ranked, levels[1], tree[: grades + 1], sums)
            out[q] = sums[:n].sum() / np.sqrt(pairs_apart(mine, ranked)) / np.sqrt(pairs_apart(theirs, graded))
        else:
            top, left, right, middle = 0.0, 0.0, 0.0, 0.5 * (n + 1.0)
            for i in range(n):
                one, other = ranks[0, i] - middle, ranks[1, i] - middle
                top += one * other
                left += one * one
                right += other * other
            out[q] = top / np.sqrt(left) / np.sqrt(right)
        out[q] = min(max(out[q], -1.0), 1.0) if out[q] == out[q] else out[q]
