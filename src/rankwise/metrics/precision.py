"""Metrics of relevant or not: AP, reciprocal rank, precision, R-precision, recall and hit.

A document is relevant if its label is at least ``relevant``. With averaged ties each value is the exact mean over all
orders of the tied documents. Precision and recall are weighted sums over ranks (see ``dcg.py``); reciprocal rank and
hit need only the tie group of the best relevant document, and no sorting at all.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankwise import check
from rankwise.compiling import kernel
from rankwise.metrics.base import (
    AVERAGE,
    BEST,
    ROW,
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
from rankwise.metrics.dcg import BY_RELEVANT, BY_RETRIEVED, PLAIN, TO_RELEVANT, weighted_sum


@dataclass(frozen=True, kw_only=True, repr=False)
class Binary(RankMetric):
    """A metric of relevant or not."""

    relevant: float = 1
    """The lowest label that counts as relevant."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check.number("relevant", self.relevant, least=0.0, most=1e300, open_ends=True)


@dataclass(frozen=True, kw_only=True, repr=False)
class Precision(Binary):
    """The share of relevant documents in the first ``cutoff`` ranks, or, without a cutoff, in all that was retrieved.

    A list shorter than the cutoff is divided by the cutoff all the same, as trec_eval does.

    >>> Precision(cutoff=2)([3.0, 2.0, 1.0], [1, 0, 1], [0, 3])
    array([0.5])
    >>> Precision(cutoff=5, divide="retrieved")([3.0, 2.0], [1, 0], [0, 2])
    array([0.5])
    """

    name: ClassVar[str] = "precision"
    divide: str = "cutoff"
    """By the cutoff even where fewer documents were "retrieved", or by their number then."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check.choice("divisor (divide)", self.divide, ("cutoff", "retrieved"))

    def _kernel(self, longest: int) -> Call:
        rule = relevance_rule(self.relevant)
        if self.cutoff is None or self.divide == "retrieved":
            return weighted_sum, rule, np.ones(longest), BY_RETRIEVED
        return weighted_sum, rule, np.full(longest, 1.0 / self.cutoff), PLAIN


@dataclass(frozen=True, kw_only=True, repr=False)
class RPrecision(Binary):
    """R-precision: the share of relevant documents in the first R ranks, of R relevant documents of the query.

    >>> RPrecision()([3.0, 2.0, 1.0], [1, 0, 1], [0, 3])
    array([0.5])
    """

    name: ClassVar[str] = "rprec"

    def _kernel(self, longest: int) -> Call:
        return weighted_sum, relevance_rule(self.relevant), np.ones(longest), TO_RELEVANT


@dataclass(frozen=True, kw_only=True, repr=False)
class Recall(Binary):
    """The share of the query's relevant documents that stand in the first ``cutoff`` ranks.

    >>> Recall(cutoff=2)([3.0, 2.0, 1.0], [1, 0, 1], [0, 3])
    array([0.5])
    """

    name: ClassVar[str] = "recall"

    def _kernel(self, longest: int) -> Call:
        return weighted_sum, relevance_rule(self.relevant), np.ones(longest), BY_RELEVANT


@dataclass(frozen=True, kw_only=True, repr=False)
class AP(Binary):
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
    divide: str = "relevant"
    """By the number of "relevant" documents, or by the "cutoff" where that is smaller."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check.choice("divisor (divide)", self.divide, ("relevant", "cutoff"))

    def _kernel(self, longest: int) -> Call:
        return _average_precision, relevance_rule(self.relevant), self.divide == "cutoff"


@dataclass(frozen=True, kw_only=True, repr=False)
class RR(Binary):
    """Reciprocal rank: one over the rank of the first relevant document, 0 if there is none up to the cutoff.

    >>> RR()([3.0, 2.0, 1.0], [0, 1, 1], [0, 3])
    array([0.5])
    """

    name: ClassVar[str] = "rr"

    def _kernel(self, longest: int) -> Call:
        return _first_relevant, relevance_rule(self.relevant), 1.0 / np.arange(1.0, longest + 1.0)


@dataclass(frozen=True, kw_only=True, repr=False)
class Hit(Binary):
    """1 if a relevant document stands in the first ``cutoff`` ranks, else 0 (trec_eval's success).

    With averaged ties it is the probability of a hit.

    >>> Hit(cutoff=1)([3.0, 3.0, 1.0], [0, 1, 1], [0, 3])
    array([0.5])
    """

    name: ClassVar[str] = "hit"

    def _kernel(self, longest: int) -> Call:
        return _first_relevant, relevance_rule(self.relevant), np.ones(longest)


@kernel
def _average_precision(first, last, offsets, scores, labels, cutoff, ties, rule, by_cutoff, empty, out):  # type: ignore[no-untyped-def]
    longest = longest_of(first, last, offsets)
    worths, ranked = np.empty(longest), np.empty(longest, np.int64)
    counts = np.empty(rule.table.size + 1, np.int64)
    scratch = scratch_for(longest)
    for q in range(first, last):
        mine = scores[offsets[q] : offsets[q + 1]]
        worth = worths[: mine.size]
        if not fill_worths(labels[offsets[q] : offsets[q + 1]], rule, worth, counts) or not clean(mine):
            out[q] = np.inf
            continue
        relevant = worth.sum()
        if relevant == 0.0:
            out[q] = empty
            continue
        count = ranking(mine, worth, cutoff, ties, ranked, scratch)
        total, seen, start = 0.0, 0.0, 0
        while start < min(count, cutoff):
            stop = group_end(mine, ranked, start, count, ties)
            size, hits = stop - start, 0.0
            for rank in range(start, stop):
                hits += worth[ranked[rank]]
            if hits > 0.0:
                # A place of the group holds a relevant document with probability hits/size; the others of the group
                # are then spread evenly over its other places.
                others = (hits - 1.0) / max(size - 1, 1)
                for rank in range(start, min(stop, cutoff)):
                    total += hits / size * (seen + 1.0 + (rank - start) * others) / (rank + 1.0)
            seen += hits
            start = stop
        out[q] = min(total / (min(relevant, cutoff) if by_cutoff else relevant), 1.0)


@kernel
def _first_relevant(first, last, offsets, scores, labels, cutoff, ties, rule, weights, empty, out):  # type: ignore[no-untyped-def]
    worths = np.empty(longest_of(first, last, offsets))
    counts = np.empty(rule.table.size + 1, np.int64)
    for q in range(first, last):
        mine = scores[offsets[q] : offsets[q + 1]]
        worth = worths[: mine.size]
        if not fill_worths(labels[offsets[q] : offsets[q + 1]], rule, worth, counts) or not clean(mine):
            out[q] = np.inf
            continue
        if worth.sum() == 0.0:
            out[q] = empty
            continue
        best = -np.inf
        for i in range(mine.size):
            if worth[i] > 0.0 and mine[i] > best:
                best = mine[i]
        out[q] = 0.0 if best == -np.inf else _weight_of_first(mine, worth, best, cutoff, ties, weights)


@kernel
def _weight_of_first(scores, worths, best, cutoff, ties, weights):  # type: ignore[no-untyped-def]
    """Find the (mean) weight of the rank of the first relevant document; ``best`` is its score."""
    ahead, size, hits, before = 0, 0, 0, 0
    for i in range(scores.size):
        ahead += scores[i] > best
        if scores[i] == best:
            before += hits == 0 and worths[i] == 0.0
            size += 1
            hits += worths[i] > 0.0
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
