"""Metrics that distinguish unjudged documents from those that are not relevant (bpref, judged@k), and counts.

``judged`` is 1 for a judged document, 0 for one that was not judged, and −1 for one that was pooled but not judged (a
negative grade in qrels). The definitions are trec_eval's. With averaged ties each value is the exact mean over all
orders of the tied documents: the number of documents above one of a tie group is hypergeometric.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rankwise.base.arrays import Column, Offsets
from rankwise.base.compiling import kernel
from rankwise.metrics.base import BinaryMetric, KernelCall, RankMetric
from rankwise.metrics.dcg import PLAIN, column_sum, weighted_sum
from rankwise.metrics.gains import relevance_rule
from rankwise.metrics.kernel_query import buffers_for, open_query, rank
from rankwise.metrics.sorting import group_end

_NOTHING = 1e-18
# Kinds of documents, in the order of ties=worst.
OTHER, UNJUDGED, POOLED, RELEVANT = 0, 1, 2, 3


@dataclass(frozen=True, kw_only=True, repr=False)
class JudgedMetric(RankMetric):
    """A metric for which unjudged documents differ from those that are not relevant; by default all were judged."""

    accepts: ClassVar[tuple[str, ...]] = ("judged",)

    def _columns(self, offsets: Offsets, **columns: Any) -> tuple[Column, ...]:
        return (columns["judged"] if "judged" in columns else np.ones(offsets[-1], np.int8),)


@dataclass(frozen=True, kw_only=True, repr=False)
class Bpref(JudgedMetric, BinaryMetric):
    """Binary preference: how rarely judged documents that are not relevant stand above relevant ones.

    The mean over the R relevant documents of 1 − min(n, R)/min(N, R), of n judged documents above that are not relevant
    and N in all; 0 for those that were not retrieved (Buckley and Voorhees 2004, as in trec_eval).

    >>> Bpref()([4.0, 3.0, 2.0, 1.0], [1, 0, 0, 1], [0, 4], judged=[1, 0, 1, 1])  # (1 + 0) / 2
    array([0.5])
    """

    name: ClassVar[str] = "bpref"

    def _kernel(self, longest: int) -> KernelCall:
        return _preference, relevance_rule(self.relevant)


@dataclass(frozen=True, kw_only=True, repr=False)
class Judged(JudgedMetric):
    """The share of the first ``cutoff`` ranks whose documents are in the qrels; of all ranks without a cutoff.

    Fewer documents than the cutoff are divided by their number, and nothing retrieved is 0 (ir_measures' Judged).

    >>> Judged(cutoff=2)([3.0, 2.0, 1.0], [1, 0, 0], [0, 3], judged=[1, 0, 0])
    array([0.5])
    """

    name: ClassVar[str] = "judged"
    of_every_query: ClassVar[bool] = True

    def _kernel(self, longest: int) -> KernelCall:
        return column_sum, relevance_rule(1.0), np.ones(longest), True

    def _columns(self, offsets: Offsets, **columns: Any) -> tuple[Column, ...]:
        return (super()._columns(offsets, **columns)[0] != 0,)


@dataclass(frozen=True, kw_only=True, repr=False)
class _Count(RankMetric):
    """A count in each query, with relevant documents or without."""

    bounds: ClassVar[tuple[float, float]] = (0.0, np.inf)
    of_every_query: ClassVar[bool] = True
    counts: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True, repr=False)
class NumQ(_Count):
    """1 for every query: its total is the number of queries.

    >>> NumQ()([3.0, 2.0, 1.0], [1, 0, 0], [0, 2, 3])
    array([1., 1.])
    """

    name: ClassVar[str] = "num_q"
    bounds: ClassVar[tuple[float, float]] = (1.0, 1.0)

    def _kernel(self, longest: int) -> KernelCall:
        return _count, relevance_rule(1.0), False


@dataclass(frozen=True, kw_only=True, repr=False)
class NumRet(_Count):
    """Number of retrieved documents up to the cutoff: those with a score other than −inf.

    >>> NumRet()([3.0, -np.inf, 1.0], [1, 1, 0], [0, 3])
    array([2.])
    """

    name: ClassVar[str] = "num_ret"

    def _kernel(self, longest: int) -> KernelCall:
        return weighted_sum, relevance_rule(0.0), np.ones(longest), PLAIN


@dataclass(frozen=True, kw_only=True, repr=False)
class NumRel(_Count, BinaryMetric):
    """Number of relevant documents, retrieved or not, whatever the cutoff.

    >>> NumRel()([3.0, -np.inf, 1.0], [1, 1, 0], [0, 3])
    array([2.])
    """

    name: ClassVar[str] = "num_rel"

    def _kernel(self, longest: int) -> KernelCall:
        return _count, relevance_rule(self.relevant), True


@dataclass(frozen=True, kw_only=True, repr=False)
class NumRelRet(_Count, BinaryMetric):
    """Number of relevant documents retrieved up to the cutoff.

    >>> NumRelRet()([3.0, -np.inf, 1.0], [1, 1, 0], [0, 3])
    array([1.])
    """

    name: ClassVar[str] = "num_rel_ret"

    def _kernel(self, longest: int) -> KernelCall:
        return weighted_sum, relevance_rule(self.relevant), np.ones(longest), PLAIN


@kernel
def set_kinds(kinds, judged):  # type: ignore[no-untyped-def]
    """Replace the gain of each document by its kind."""
    for i in range(kinds.size):
        if judged[i] == 1:
            kinds[i] = RELEVANT if kinds[i] > 0.0 else OTHER
        else:
            kinds[i] = POOLED if judged[i] == -1 else UNJUDGED


@kernel
def sample_document(chances, low, high, drawn, marked, size):  # type: ignore[no-untyped-def]
    """Draw one more of ``size`` documents without replacement, of which ``marked`` are marked.

    ``chances[i]`` is the chance of i marked ones among those drawn, 0 outside ``low`` to ``high``; its end is spare.
    """
    left = size - drawn
    for i in range(high, low - 1, -1):
        more = (marked - i) / left * chances[i]
        chances[i + 1] += more
        chances[i] -= more
    high = min(high + 1, marked)
    while low < high and chances[low] < _NOTHING:
        chances[low] = 0.0
        low += 1
    while low < high and chances[high] < _NOTHING:
        chances[high] = 0.0
        high -= 1
    return low, high


@kernel
def _preference(first, last, offsets, scores, labels, cutoff, ties, rule, judged, empty, out):  # type: ignore[no-untyped-def]
    buffers = buffers_for(first, last, offsets, rule)
    for q in range(first, last):
        query = open_query(q, offsets, scores, labels, rule, buffers)
        kind, ranked = query.gains, query.ranked
        set_kinds(kind, judged[offsets[q] : offsets[q + 1]])
        relevant, irrelevant = (kind == RELEVANT).sum(), (kind == OTHER).sum()
        if not query.valid or relevant == 0:
            out[q] = empty if query.valid else np.inf
            continue
        count = rank(query, cutoff, ties)
        unit = 1.0 / max(min(irrelevant, relevant), 1)
        total, above, start = 0.0, 0, 0
        while start < min(count, cutoff):
            stop = group_end(query.scores, ranked, start, count, ties)
            hits, bad = 0, 0
            for place in range(start, stop):
                hits += kind[ranked[place]] == RELEVANT
                bad += kind[ranked[place]] == OTHER
            if hits > 0 and stop <= cutoff:
                # As many of the group's others stand before a relevant document as not: 0 to all of them alike.
                lost = 0.0
                for more in range(bad + 1):
                    lost += min(above + more, relevant)
                total += hits * (1.0 - lost / (bad + 1) * unit)
            elif hits > 0:
                places = cutoff - start
                chances = np.zeros(min(bad, places) + 2)
                chances[0], low, high = 1.0, 0, 0
                for place in range(places):
                    lost = 0.0
                    for more in range(low, high + 1):
                        lost += chances[more] * min(above + more, relevant)
                    total += hits / (stop - start) * (1.0 - lost * unit)
                    if place + 1 < places:
                        low, high = sample_document(chances, low, high, place, bad, stop - start - 1)
            above += bad
            start = stop
        out[q] = total / relevant


@kernel
def _count(first, last, offsets, scores, labels, cutoff, ties, rule, relevant, empty, out):  # type: ignore[no-untyped-def]  # noqa: ARG001
    buffers = buffers_for(first, last, offsets, rule)
    for q in range(first, last):
        query = open_query(q, offsets, scores, labels, rule, buffers)
        out[q] = (query.gains.sum() if relevant else 1.0) if query.valid else np.inf
