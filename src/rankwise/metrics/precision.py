"""Metrics of binary relevance: AP, reciprocal rank, precision, R-precision, recall and hit.

With averaged ties each value is the exact mean over all orders of the tied documents. Precision and recall are weighted
sums over ranks (see ``dcg.py``); reciprocal rank and hit need only the tie group of the best relevant document, and no
sorting at all.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from rankwise.base.compiling import kernel
from rankwise.check.parameters import OneOf
from rankwise.metrics.base import BinaryMetric, KernelCall
from rankwise.metrics.dcg import BY_RELEVANT, BY_RETRIEVED, PLAIN, TO_RELEVANT, weighted_sum
from rankwise.metrics.gains import relevance_rule
from rankwise.metrics.kernel_query import buffers_for, open_query, rank
from rankwise.metrics.sorting import AVERAGE, BEST, ROW, group_end


@dataclass(frozen=True, kw_only=True, repr=False)
class Precision(BinaryMetric):
    """The share of relevant documents in the first ``cutoff`` ranks, or, without a cutoff, in all that was retrieved.

    A list shorter than the cutoff is divided by the cutoff all the same, as trec_eval does.

    >>> Precision(cutoff=2)([3.0, 2.0, 1.0], [1, 0, 1], [0, 3])
    array([0.5])
    >>> Precision(cutoff=5, divide="retrieved")([3.0, 2.0], [1, 0], [0, 2])
    array([0.5])
    """

    name: ClassVar[str] = "precision"
    divide: Annotated[str, OneOf(("cutoff", "retrieved"), "divisor (divide)")] = "cutoff"
    """By the cutoff even where fewer documents were "retrieved", or by their number then."""

    def _kernel(self, longest: int) -> KernelCall:
        rule = relevance_rule(self.relevant)
        if self.cutoff is None or self.divide == "retrieved":
            return weighted_sum, rule, np.ones(longest), BY_RETRIEVED
        return weighted_sum, rule, np.full(longest, 1.0 / self.cutoff), PLAIN


@dataclass(frozen=True, kw_only=True, repr=False)
class RPrecision(BinaryMetric):
    """R-precision: the share of relevant documents in the first R ranks, of R relevant documents of the query.

    >>> RPrecision()([3.0, 2.0, 1.0], [1, 0, 1], [0, 3])
    array([0.5])
    """

    name: ClassVar[str] = "rprec"

    def _kernel(self, longest: int) -> KernelCall:
        return weighted_sum, relevance_rule(self.relevant), np.ones(longest), TO_RELEVANT


@dataclass(frozen=True, kw_only=True, repr=False)
class Recall(BinaryMetric):
    """The share of the query's relevant documents that stand in the first ``cutoff`` ranks.

    >>> Recall(cutoff=2)([3.0, 2.0, 1.0], [1, 0, 1], [0, 3])
    array([0.5])
    """

    name: ClassVar[str] = "recall"

    def _kernel(self, longest: int) -> KernelCall:
        return weighted_sum, relevance_rule(self.relevant), np.ones(longest), BY_RELEVANT


@dataclass(frozen=True, kw_only=True, repr=False)
class AP(BinaryMetric):
    """Average precision: the mean over relevant documents of the precision at their ranks.

    With a cutoff, relevant documents below it or not retrieved count 0, and the mean is still over all of the
    query's relevant documents (trec_eval's map_cut). With ``divide="cutoff"`` the mean is over at most ``cutoff`` of
    them, so that 1 can be reached (the map@k of LightGBM, XGBoost and CatBoost).

    >>> AP()([3.0, 2.0, 1.0], [1, 0, 1], [0, 3]).round(4)  # (1/1 + 2/3) / 2
    array([0.8333])
    >>> AP(cutoff=1)([3.0, 2.0], [1, 1], [0, 2]), AP(cutoff=1, divide="cutoff")([3.0, 2.0], [1, 1], [0, 2])
    (array([0.5]), array([1.]))
    """

    name: ClassVar[str] = "ap"
    divide: Annotated[str, OneOf(("relevant", "cutoff"), "divisor (divide)")] = "relevant"
    """By the number of "relevant" documents, or by the "cutoff" where that is smaller."""

    def _kernel(self, longest: int) -> KernelCall:
        return _average_precision, relevance_rule(self.relevant), self.divide == "cutoff"


@dataclass(frozen=True, kw_only=True, repr=False)
class RR(BinaryMetric):
    """Reciprocal rank: one over the rank of the first relevant document, 0 if there is none up to the cutoff.

    >>> RR()([3.0, 2.0, 1.0], [0, 1, 1], [0, 3])
    array([0.5])
    """

    name: ClassVar[str] = "rr"

    def _kernel(self, longest: int) -> KernelCall:
        return _first_relevant, relevance_rule(self.relevant), 1.0 / np.arange(1.0, longest + 1.0)


@dataclass(frozen=True, kw_only=True, repr=False)
class Hit(BinaryMetric):
    """1 if a relevant document stands in the first ``cutoff`` ranks, else 0 (trec_eval's success).

    With averaged ties it is the probability of a hit.

    >>> Hit(cutoff=1)([3.0, 3.0, 1.0], [0, 1, 1], [0, 3])
    array([0.5])
    """

    name: ClassVar[str] = "hit"

    def _kernel(self, longest: int) -> KernelCall:
        return _first_relevant, relevance_rule(self.relevant), np.ones(longest)


@kernel
def _average_precision(first, last, offsets, scores, labels, cutoff, ties, rule, by_cutoff, empty, out):  # type: ignore[no-untyped-def]
    buffers = buffers_for(first, last, offsets, rule)
    for q in range(first, last):
        query = open_query(q, offsets, scores, labels, rule, buffers)
        relevant = query.gains.sum()
        if not query.valid or relevant == 0.0:
            out[q] = empty if query.valid else np.inf
            continue
        count = rank(query, cutoff, ties)
        total, seen, start = 0.0, 0.0, 0
        while start < min(count, cutoff):
            stop = group_end(query.scores, query.ranked, start, count, ties)
            size, hits = stop - start, 0.0
            for place in range(start, stop):
                hits += query.gains[query.ranked[place]]
            if hits > 0.0:
                # A place of the group holds a relevant document with probability hits/size; the others of the group
                # are then spread evenly over its other places.
                density = (hits - 1.0) / max(size - 1, 1)
                for place in range(start, min(stop, cutoff)):
                    total += hits / size * (seen + 1.0 + (place - start) * density) / (place + 1.0)
            seen += hits
            start = stop
        out[q] = min(total / (min(relevant, cutoff) if by_cutoff else relevant), 1.0)


@kernel
def _first_relevant(first, last, offsets, scores, labels, cutoff, ties, rule, weights, empty, out):  # type: ignore[no-untyped-def]
    buffers = buffers_for(first, last, offsets, rule)
    for q in range(first, last):
        query = open_query(q, offsets, scores, labels, rule, buffers)
        if not query.valid or query.gains.sum() == 0.0:
            out[q] = empty if query.valid else np.inf
            continue
        best = -np.inf
        for i in range(query.scores.size):
            if query.gains[i] > 0.0 and query.scores[i] > best:
                best = query.scores[i]
        out[q] = 0.0 if best == -np.inf else _weight_of_first(query.scores, query.gains, best, cutoff, ties, weights)


@kernel
def _weight_of_first(scores, gains, best, cutoff, ties, weights):  # type: ignore[no-untyped-def]
    """Return the (mean) weight of the rank of the first relevant document; ``best`` is its score."""
    ahead, size, hits, before = 0, 0, 0, 0
    for i in range(scores.size):
        ahead += scores[i] > best
        if scores[i] == best:
            before += hits == 0 and gains[i] == 0.0
            size += 1
            hits += gains[i] > 0.0
    if ties != AVERAGE:
        rank = ahead + (0 if ties == BEST else before if ties == ROW else size - hits)
        return weights[rank] if rank < cutoff else 0.0
    # none = probability that no relevant document came before this place of the group
    total, none = 0.0, 1.0
    for place in range(min(size - hits + 1, cutoff - ahead)):
        left = size - place
        total += none * hits / left * weights[ahead + place]
        none *= (left - hits) / left
    return min(total, 1.0)
