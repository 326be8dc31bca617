"""Metrics that tell documents that nobody judged from those that are not relevant: bpref, infAP and judged@k.

``judged`` is 1 for a document that was judged, 0 for one that was not, and −1 for one that was pooled, that is chosen
for judging, but not judged (a negative grade in qrels). The definitions are trec_eval's. With averaged ties each value
is the exact mean over all orders of the tied documents: what stands above a document of a tie group is hypergeometric.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankwise.compiling import kernel
from rankwise.metrics.base import (
    Call,
    RankMetric,
    clean,
    fill_worths,
    group_end,
    longest_of,
    ranking,
    relevance_rule,
    scratch_for,
)
from rankwise.metrics.dcg import over_groups
from rankwise.metrics.precision import Binary

_NOTHING = 1e-18
_EPSILON = 1e-5  # of infAP, in trec_eval
# What a document is, in the order in which ties=worst puts them.
_OTHER, _UNJUDGED, _POOLED, _RELEVANT = 0, 1, 2, 3


@dataclass(frozen=True, kw_only=True, repr=False)
class Bpref(Binary):
    """Binary preference: how rarely judged documents that are not relevant stand above relevant ones.

    The mean over the R relevant documents of 1 − min(n, R)/min(N, R), of n judged documents above that are not relevant
    and N in all; 0 for those that were not retrieved (Buckley and Voorhees 2004, as in trec_eval).

    >>> Bpref()([4.0, 3.0, 2.0, 1.0], [1, 0, 0, 1], [0, 4], judged=[1, 0, 1, 1])  # (1 + 0) / 2
    array([0.5])
    """

    name: ClassVar[str] = "bpref"
    sees_judged: ClassVar[bool] = True

    def _kernel(self, longest: int) -> Call:
        return _preference, relevance_rule(self.relevant)


@dataclass(frozen=True, kw_only=True, repr=False)
class InfAP(Binary):
    """Inferred average precision, from judgments of a sample of the pool (Yilmaz and Aslam 2006, as in trec_eval).

    The precision above a relevant document is estimated by that of the judged documents there, for as many documents
    as were pooled. Where every document was judged it is AP, but for a small constant. ``ties="worst"`` and ``"best"``
    put relevant documents last and first, which is not always the lowest and the highest value.

    >>> InfAP()([4.0, 3.0, 2.0, 1.0], [1, 0, 0, 1], [0, 4], judged=[1, -1, 1, 1]).round(3)  # (1 + (1 + 3/2)/4) / 2
    array([0.812])
    """

    name: ClassVar[str] = "infap"
    sees_judged: ClassVar[bool] = True

    def _kernel(self, longest: int) -> Call:
        return _inferred, relevance_rule(self.relevant)


@dataclass(frozen=True, kw_only=True, repr=False)
class Judged(RankMetric):
    """The share of the first ``cutoff`` ranks whose documents are in the qrels; of all ranks without a cutoff.

    Fewer documents than the cutoff are divided by their number, and nothing retrieved is 0 (ir_measures' Judged).

    >>> Judged(cutoff=2)([3.0, 2.0, 1.0], [1, 0, 0], [0, 3], judged=[1, 0, 0])
    array([0.5])
    """

    name: ClassVar[str] = "judged"
    of_every_query: ClassVar[bool] = True
    sees_judged: ClassVar[bool] = True

    def _kernel(self, longest: int) -> Call:
        return _share_judged, relevance_rule(1.0)


@kernel
def _fill_kinds(labels, judged, rule, kinds, counts):  # type: ignore[no-untyped-def]
    """Write what each document is, and tell whether every label has a worth."""
    fine = fill_worths(labels, rule, kinds, counts)
    for i in range(kinds.size):
        if judged[i] == 1:
            kinds[i] = _RELEVANT if kinds[i] > 0.0 else _OTHER
        else:
            kinds[i] = _POOLED if judged[i] == -1 else _UNJUDGED
    return fine


@kernel
def _draw(chances, low, high, drawn, marked, size):  # type: ignore[no-untyped-def]
    """Draw one more of ``size`` documents without putting back, of which ``marked`` are marked.

    ``chances[i]`` is the chance of i marked ones among those drawn; beyond ``low`` to ``high`` it is nothing. There
    must be place for ``marked`` + 2 of them.
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
    longest = longest_of(first, last, offsets)
    kinds, ranked = np.empty(longest), np.empty(longest, np.int64)
    counts = np.empty(rule.table.size + 1, np.int64)
    scratch = scratch_for(longest)
    for q in range(first, last):
        start, stop = offsets[q], offsets[q + 1]
        mine, kind = scores[start:stop], kinds[: stop - start]
        if not _fill_kinds(labels[start:stop], judged[start:stop], rule, kind, counts) or not clean(mine):
            out[q] = np.inf
            continue
        relevant, others = (kind == _RELEVANT).sum(), (kind == _OTHER).sum()
        if relevant == 0:
            out[q] = empty
            continue
        count = ranking(mine, kind, cutoff, ties, ranked, scratch)
        unit = 1.0 / max(min(others, relevant), 1)
        total, above, start = 0.0, 0, 0
        while start < min(count, cutoff):
            stop = group_end(mine, ranked, start, count, ties)
            hits, bad = 0, 0
            for rank in range(start, stop):
                hits += kind[ranked[rank]] == _RELEVANT
                bad += kind[ranked[rank]] == _OTHER
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
                        low, high = _draw(chances, low, high, place, bad, stop - start - 1)
            above += bad
            start = stop
        out[q] = total / relevant


@kernel
def _inferred(first, last, offsets, scores, labels, cutoff, ties, rule, judged, empty, out):  # type: ignore[no-untyped-def]
    longest = longest_of(first, last, offsets)
    kinds, ranked = np.empty(longest), np.empty(longest, np.int64)
    counts = np.empty(rule.table.size + 1, np.int64)
    scratch = scratch_for(longest)
    for q in range(first, last):
        start, stop = offsets[q], offsets[q + 1]
        mine, kind = scores[start:stop], kinds[: stop - start]
        if not _fill_kinds(labels[start:stop], judged[start:stop], rule, kind, counts) or not clean(mine):
            out[q] = np.inf
            continue
        relevant = (kind == _RELEVANT).sum()
        if relevant == 0:
            out[q] = empty
            continue
        count = ranking(mine, kind, cutoff, ties, ranked, scratch)
        total, start = 0.0, 0
        seen = np.zeros(4)  # of each kind, above the group
        while start < min(count, cutoff):
            stop = group_end(mine, ranked, start, count, ties)
            group = np.zeros(4)
            for rank in range(start, stop):
                group[np.int64(kind[ranked[rank]])] += 1.0
            if group[_RELEVANT] > 0.0:
                places = min(stop, cutoff) - start
                total += group[_RELEVANT] / (stop - start) * _inferred_in_group(seen, group, start, places)
            seen += group
            start = stop
        out[q] = total / relevant


@kernel
def _inferred_in_group(seen, group, start, places):  # type: ignore[no-untyped-def]
    """Σ, over the places of a tie group, of the estimated precision at a relevant document that stands there.

    Of the others of the group, some that were judged stand above it. Given how many, the number of relevant ones among
    them and of pooled ones among the rest enter linearly, so their means will do.
    """
    others = np.int64(group.sum()) - 1
    known = np.int64(group[_RELEVANT] + group[_OTHER]) - 1
    relevant_share = (group[_RELEVANT] - 1.0) / max(known, 1)
    pooled_share = group[_POOLED] / max(others - known, 1)
    chances = np.zeros(min(known, places) + 2)
    chances[0], low, high = 1.0, 0, 0
    total = 0.0
    for place in range(places):
        for more in range(low, high + 1):
            above = seen[_RELEVANT] + seen[_OTHER] + more
            pooled = above + seen[_POOLED] + (place - more) * pooled_share
            precision = (seen[_RELEVANT] + more * relevant_share + _EPSILON) / (above + 2.0 * _EPSILON)
            total += chances[more] * (1.0 + pooled * precision) / (start + place + 1.0)
        if place + 1 < places:
            low, high = _draw(chances, low, high, place, known, others)
    return total


@kernel
def _share_judged(first, last, offsets, scores, labels, cutoff, ties, rule, judged, empty, out):  # type: ignore[no-untyped-def]
    longest = longest_of(first, last, offsets)
    worths, ranked = np.empty(longest), np.empty(longest, np.int64)
    counts = np.empty(rule.table.size + 1, np.int64)
    scratch = scratch_for(longest)
    for q in range(first, last):
        start, stop = offsets[q], offsets[q + 1]
        mine, worth = scores[start:stop], worths[: stop - start]
        if not fill_worths(labels[start:stop], rule, worth, counts) or not clean(mine):
            out[q] = np.inf
            continue
        for i in range(worth.size):
            worth[i] = judged[start + i] != 0
        count = ranking(mine, worth, cutoff, ties, ranked, scratch)
        places = min(count, cutoff)
        total = over_groups(mine, worth, ranked, count, places, ties, np.ones(places))
        out[q] = total / places if places > 0 else empty
