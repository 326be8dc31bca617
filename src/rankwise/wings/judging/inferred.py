"""Metrics inferred from judgments of a sample: infAP of one pool, xinfAP and infNDCG of a pool in strata.

In stratum s of a query n_s of N_s pooled documents were judged, drawn at random, and each of them stands for N_s/n_s.
The definitions are those of trec_eval (infAP) and of NIST's sample_eval (the others), by Yilmaz, Kanoulas and Aslam
(2008). They are ratios of estimates, so that they are biased where few documents were judged. A stratum of which no
document was judged counts nothing. With averaged ties each value is the exact mean over all orders of tied documents.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rankwise import check
from rankwise.base.arrays import Column, Offsets, codes_in_queries
from rankwise.base.compiling import kernel
from rankwise.metrics.base import BinaryMetric, KernelCall
from rankwise.metrics.dcg import DCG
from rankwise.metrics.gains import discounts, gain_rule, relevance_rule
from rankwise.metrics.judged import OTHER, POOLED, RELEVANT, JudgedMetric, sample_document, set_kinds
from rankwise.metrics.kernel_query import buffers_for, open_query, rank
from rankwise.metrics.sorting import group_end, sort_down

_EPSILON = 1e-5


@dataclass(frozen=True, kw_only=True, repr=False)
class SampledMetric(JudgedMetric):
    """A metric for which a judged document stands for others of its stratum; by default a query has one stratum."""

    accepts: ClassVar[tuple[str, ...]] = ("judged", "strata", "inclusion_probabilities")

    def _columns(self, offsets: Offsets, **columns: Any) -> tuple[Column, ...]:
        strata = columns.pop("strata", None)
        if strata is None and "inclusion_probabilities" in columns:
            what, hint = f"{self} needs the strata of a sample", "set strata=…; documents of one were drawn alike"
            raise check.error(what, got="inclusion probabilities alone", hint=hint)
        codes = np.zeros(offsets[-1], np.int64) if strata is None else codes_in_queries(strata, offsets)
        return *super()._columns(offsets, **columns), codes


@dataclass(frozen=True, kw_only=True, repr=False)
class InfAP(SampledMetric, BinaryMetric):
    """Inferred average precision, from judgments of a sample of the pool (Yilmaz and Aslam 2006, as in trec_eval).

    The precision above a relevant document is estimated by that of the judged documents there, for as many documents
    as were pooled. Where every document was judged it is AP, but for a small constant. ``ties="worst"`` and ``"best"``
    put relevant documents last and first, which is not always the lowest and the highest value.

    >>> InfAP()([4.0, 3.0, 2.0, 1.0], [1, 0, 0, 1], [0, 4], judged=[1, -1, 1, 1]).round(3)  # (1 + (1 + 3/2)/4) / 2
    array([0.812])
    """

    name: ClassVar[str] = "infap"
    accepts: ClassVar[tuple[str, ...]] = ("judged",)
    smoothing: ClassVar[float] = 2.0 * _EPSILON

    def _kernel(self, longest: int) -> KernelCall:
        return _in_strata, relevance_rule(self.relevant), self.smoothing


@dataclass(frozen=True, kw_only=True, repr=False)
class XInfAP(InfAP):
    """Inferred average precision of a sample from strata, as in sample_eval.

    Σ_d N_s/n_s·P(d) over the retrieved relevant documents d of any stratum s, divided by Σ_d N_s/n_s over all relevant
    ones. P(d) = (1 + Σ_t N_t'·(r_t' + ε)/(n_t' + 3ε))/rank(d) estimates the precision at d, from the N_t' pooled, n_t'
    judged and r_t' relevant documents of stratum t above it. With one stratum it is ``infap``, which has 2ε: where
    nothing above was judged, its precision there is 1/2 instead of 1/3.

    >>> metric, judged = XInfAP(), [1, -1, 1, 1]  # (1 + (1 + 1 + 1/3)/4) / 2 with strata, else as infap
    >>> metric([4.0, 3.0, 2.0, 1.0], [1, 0, 0, 1], [0, 4], judged, strata=["a", "b", "a", "a"]).round(3)
    array([0.792])
    """

    name: ClassVar[str] = "xinfap"
    accepts: ClassVar[tuple[str, ...]] = SampledMetric.accepts
    smoothing: ClassVar[float] = 3.0 * _EPSILON


@dataclass(frozen=True, kw_only=True, repr=False)
class InfNDCG(SampledMetric, DCG):
    """Inferred NDCG of a sample from strata, as in sample_eval; it may exceed 1.

    DCG is Σ_s N_s'/n_s'·Σ_d g(y_d)/log2(1 + rank(d)) over the judged documents d of stratum s up to the cutoff, of
    which N_s' documents were pooled and n_s' judged. The ideal order has Σ_s N_s/n_s documents of each grade, rounded.

    >>> metric, judged = InfNDCG(gain="linear"), [1, -1, 1, 1]  # (1 + 3/2·2/log2(5))/(2 + 2/log2(3) + 1/2)
    >>> metric([4.0, 3.0, 2.0, 1.0], [1, 0, 0, 2], [0, 4], judged, strata=["a", "b", "b", "b"]).round(4)
    array([0.6093])
    """

    name: ClassVar[str] = "infndcg"

    def _kernel(self, longest: int) -> KernelCall:
        return _inferred_ndcg, gain_rule(self.gain), discounts(2 * longest)  # rounding at most doubles a number


@kernel
def _in_strata(first, last, offsets, scores, labels, cutoff, ties, rule, smoothing, judged, strata, empty, out):  # type: ignore[no-untyped-def]
    buffers = buffers_for(first, last, offsets, rule)
    for q in range(first, last):
        query = open_query(q, offsets, scores, labels, rule, buffers)
        kind, ranked, stratum = query.gains, query.ranked, strata[offsets[q] : offsets[q + 1]]
        set_kinds(kind, judged[offsets[q] : offsets[q + 1]])
        counts = np.zeros((stratum.max() + 1, 4))  # of each kind, by stratum
        for i in range(kind.size):
            counts[stratum[i], np.int64(kind[i])] += 1.0
        n_judged = counts[:, RELEVANT] + counts[:, OTHER]
        stands_for = (n_judged + counts[:, POOLED]) / np.maximum(n_judged, 1.0)
        relevant = (counts[:, RELEVANT] * stands_for).sum()
        if not query.valid or relevant == 0.0:
            out[q] = empty if query.valid else np.inf
            continue
        count = rank(query, cutoff, ties)
        total, start = 0.0, 0
        above, group = np.zeros_like(counts), np.zeros_like(counts)
        while start < min(count, cutoff):
            stop = group_end(query.scores, ranked, start, count, ties)
            group[:] = 0.0
            for place in range(start, stop):
                group[stratum[ranked[place]], np.int64(kind[ranked[place]])] += 1.0
            places, size = min(stop, cutoff) - start, stop - start - 1  # size: without the document itself
            if group[:, RELEVANT].any():
                share = group[:, RELEVANT] * stands_for / (stop - start)
                for place in range(start, start + places):
                    total += share.sum() / (place + 1.0)
                for s in range(len(counts)):
                    if share.sum() > share[s]:
                        more = _relevant_above(above[s], group[s], size, start, places, smoothing)
                        total += (share.sum() - share[s]) * more
                    if share[s] > 0.0:
                        group[s, RELEVANT] -= 1.0
                        total += share[s] * _relevant_above(above[s], group[s], size, start, places, smoothing)
                        group[s, RELEVANT] += 1.0
            above += group
            start = stop
        out[q] = total / relevant


@kernel
def _relevant_above(seen, group, size, start, places, smoothing):  # type: ignore[no-untyped-def]
    """Σ of 1/rank times the estimated number of relevant documents of a stratum above, over the places of a tie group.

    Of the ``size`` other documents of the group, those above are drawn. Given how many judged ones of the stratum are
    among them, the numbers of relevant ones and of pooled ones enter linearly, so that their means suffice.
    """
    n_judged = np.int64(group[RELEVANT] + group[OTHER])
    relevant_share = group[RELEVANT] / max(n_judged, 1)
    pooled_share = group[POOLED] / max(size - n_judged, 1)
    chances = np.zeros(min(n_judged, places) + 2)
    chances[0], low, high = 1.0, 0, 0
    total = 0.0
    for place in range(places):
        for more in range(low, high + 1):
            above = seen[RELEVANT] + seen[OTHER] + more
            pooled = above + seen[POOLED] + (place - more) * pooled_share
            precision = (seen[RELEVANT] + more * relevant_share + _EPSILON) / (above + smoothing)
            total += chances[more] * pooled * precision / (start + place + 1.0)
        if place + 1 < places:
            low, high = sample_document(chances, low, high, place, n_judged, size)
    return total


@kernel
def _inferred_ndcg(first, last, offsets, scores, labels, cutoff, ties, rule, weights, judged, strata, empty, out):  # type: ignore[no-untyped-def]
    buffers = buffers_for(first, last, offsets, rule)
    for q in range(first, last):
        query = open_query(q, offsets, scores, labels, rule, buffers)
        known, stratum = judged[offsets[q] : offsets[q + 1]], strata[offsets[q] : offsets[q + 1]]
        query.gains[known != 1] = 0.0
        ideal = _ideal(query.gains, known, stratum, weights, cutoff)
        if not query.valid or ideal == 0.0:
            out[q] = empty if query.valid else np.inf
            continue
        count = rank(query, cutoff, ties)
        out[q] = 0.0
        for s in range(stratum.max() + 1):
            out[q] += _dcg_of_stratum(query, (stratum == s) * known, count, cutoff, ties, weights) / ideal


@kernel
def _ideal(gains, judged, stratum, weights, cutoff):  # type: ignore[no-untyped-def]
    """Return the DCG of the ideal order, with as many documents of each gain as the judged ones stand for, rounded."""
    pooled, n_judged = np.zeros(stratum.max() + 1), np.zeros(stratum.max() + 1)
    for i in range(gains.size):
        pooled[stratum[i]] += judged[i] != 0
        n_judged[stratum[i]] += judged[i] == 1
    descending, rows = gains.copy(), np.arange(gains.size)
    sort_down(descending, rows, 0, gains.size)
    total, number, filled = 0.0, 0.0, np.int64(0)
    for at in range(gains.size):
        if descending[at] <= 0.0:
            break
        number += pooled[stratum[rows[at]]] / n_judged[stratum[rows[at]]]
        if at + 1 == gains.size or descending[at + 1] < descending[at]:
            end = filled + np.int64(number + 0.5)
            total += descending[at] * weights[min(filled, cutoff) : min(end, cutoff)].sum()
            filled, number = end, 0.0
    return total


@kernel
def _dcg_of_stratum(query, kind, count, cutoff, ties, weights):  # type: ignore[no-untyped-def]
    """Return the DCG of the documents of a stratum: ``kind`` is 1 for judged ones, −1 for pooled ones, 0 for others."""
    total, pooled, n_judged, start = 0.0, 0.0, 0, 0
    while start < min(count, cutoff):
        stop = group_end(query.scores, query.ranked, start, count, ties)
        places, size = min(stop, cutoff) - start, stop - start
        gain, unjudged, marked = 0.0, 0.0, 0
        for place in range(start, stop):
            i = query.ranked[place]
            gain += query.gains[i] * (kind[i] == 1)
            marked += kind[i] == 1
            unjudged += kind[i] == -1
        discount = weights[start : start + places].sum() / places
        if stop > cutoff:  # how many judged ones are above the cutoff is drawn; all else enters linearly
            chances = np.zeros(min(marked, places) + 2)
            chances[0], low, high = 1.0, 0, 0
            for place in range(places):
                low, high = sample_document(chances, low, high, place, marked, size)
            mean = 0.0
            for more in range(max(low, 1 - n_judged), high + 1):
                number = pooled + more + (places - more) * unjudged / max(size - marked, 1)
                mean += chances[more] * number / (n_judged + more) * (total + more * gain / max(marked, 1) * discount)
            return mean
        total += gain * discount
        n_judged += marked
        pooled += marked + unjudged
        start = stop
    return pooled / max(n_judged, 1) * total
