"""DCG, of rewards too, NDCG, rank-biased precision, and the kernels of metrics that are a weighted sum over ranks.

Σ_r w_r·g(document at rank r) is linear in the order, so its mean over all orders of a tie group is exact and cheap:
each tied document gets the mean weight of the group's ranks, ranks beyond the cutoff weighing 0.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from rankwise.base.compiling import kernel
from rankwise.check.parameters import OneOf, Within
from rankwise.metrics.base import BinaryMetric, KernelCall, RankMetric
from rankwise.metrics.gains import (
    DISCOUNTS,
    Gain,
    checked_gain,
    discounts,
    discounts_of,
    gain_rule,
    ideal_sum,
    relevance_rule,
)
from rankwise.metrics.kernel_query import buffers_for, open_query, rank, sum_over_ranks
from rankwise.metrics.sorting import group_end, sort_down

PLAIN, BY_IDEAL, BY_RELEVANT, BY_RETRIEVED, TO_RELEVANT = 0, 1, 2, 3, 4


@dataclass(frozen=True, kw_only=True, repr=False)
class DCG(RankMetric):
    """Discounted cumulative gain: Σ_r g(y_r)/log2(1 + r) (Järvelin and Kekäläinen 2002).

    >>> DCG()([3.0, 2.0, 1.0], [2, 0, 1], [0, 3])
    array([3.5])
    """

    name: ClassVar[str] = "dcg"
    bounds: ClassVar[tuple[float, float]] = (0.0, np.inf)
    divide: ClassVar[int] = PLAIN
    gain: Gain = "exponential"
    """2^y − 1 ("exponential"), y ("linear"), or a table of gains by label."""
    discount: Annotated[str, OneOf(DISCOUNTS, "discount")] = "log2"
    """1/log2(1 + r) ("log2"), or 1 at ranks 1 and 2 and then 1/log2(r) ("jarvelin", as first defined)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "gain", checked_gain(self.gain))

    def _kernel(self, longest: int) -> KernelCall:
        return weighted_sum, gain_rule(self.gain), discounts_of(self.discount, longest), self.divide


@dataclass(frozen=True, kw_only=True, repr=False)
class NDCG(DCG):
    """Normalised DCG: DCG over that of the ideal order of all documents of the query, both up to the cutoff.

    >>> NDCG()([3.0, 2.0, 1.0, 4.0], [2, 0, 1, 0], [0, 3, 4]).round(4)  # the second query has nothing relevant
    array([0.9639,    nan])
    >>> NDCG(gain="linear", empty=0)([0.0] * 4, [0, 2, 1, 0], [0, 4]).round(3)  # all tied: the mean over 24 orders
    array([0.73])
    """

    name: ClassVar[str] = "ndcg"
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
    divide: ClassVar[int] = BY_IDEAL
    short: Annotated[str, OneOf(("whole", "zero"), "value of lists shorter than the cutoff (short)")] = "whole"
    """A list shorter than the cutoff: NDCG of the "whole" list, or "zero", as in LETOR's evaluation tool."""

    def _kernel(self, longest: int) -> KernelCall:
        plain, *arguments = super()._kernel(longest)
        return _of_long_lists if self.short == "zero" and self.cutoff is not None else plain, *arguments


@dataclass(frozen=True, kw_only=True, repr=False)
class MeanNDCG(DCG):
    """The mean of NDCG@k over every k up to the length of the list, or up to the cutoff (LETOR's MeanNDCG).

    >>> MeanNDCG()([3.0, 2.0, 1.0], [1, 0, 1], [0, 3]).round(4)  # (1 + 1/1.6309 + 1.5/1.6309) / 3
    array([0.8443])
    """

    name: ClassVar[str] = "mean_ndcg"
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def _kernel(self, longest: int) -> KernelCall:
        return _mean_over_cutoffs, gain_rule(self.gain), discounts_of(self.discount, longest)


@dataclass(frozen=True, kw_only=True, repr=False)
class RBP(BinaryMetric):
    """Rank-biased precision: (1 − p)·Σ p^(r−1) over the ranks r of relevant documents (Moffat and Zobel 2008).

    >>> RBP(p=0.5)([3.0, 2.0, 1.0], [1, 0, 1], [0, 3])  # (1 + 1/4) / 2
    array([0.625])
    """

    name: ClassVar[str] = "rbp"
    divide: ClassVar[int] = PLAIN
    p: Annotated[float, Within(0.0, 1.0, open=True)] = 0.8
    """Probability that a reader continues to the next rank: 0.8 for the first page, 0.95 for patient readers."""

    def _kernel(self, longest: int) -> KernelCall:
        weights = (1.0 - self.p) * self.p ** np.arange(float(longest))
        return weighted_sum, relevance_rule(self.relevant), weights, self.divide


@dataclass(frozen=True, kw_only=True, repr=False)
class NRBP(RBP):
    """Rank-biased precision over the highest value that the query allows, 1 − p^P for P relevant documents.

    With a cutoff, P counts at most ``cutoff`` documents.

    >>> NRBP(p=0.5)([3.0, 2.0, 1.0], [1, 0, 1], [0, 3]).round(4)  # 0.625 / 0.75
    array([0.8333])
    """

    name: ClassVar[str] = "nrbp"
    divide: ClassVar[int] = BY_IDEAL


@dataclass(frozen=True, kw_only=True, repr=False)
class Reward(RankMetric):
    """The estimated DCG: Σ_r reward/log2(1 + r), of ``document_rewards`` instead of labels, negative ones included.

    Where rewards are unbiased estimates of relevance, so is the metric of DCG with these as gains, for scores that do
    not depend on the same clicks.

    >>> Reward(cutoff=2)([3.0, 2.0, 1.0], [0, 0, 0], [0, 3], document_rewards=[0.5, -0.25, 1.0]).round(4)
    array([0.3423])
    """

    name: ClassVar[str] = "reward"
    bounds: ClassVar[tuple[float, float]] = (-np.inf, np.inf)
    of_every_query: ClassVar[bool] = True
    reads: ClassVar[tuple[str, ...]] = ("document_rewards",)
    source: ClassVar[str] = "measure data that have them, as rw.clicks.targets makes"

    def _kernel(self, longest: int) -> KernelCall:
        return column_sum, relevance_rule(1.0), discounts(longest), False


@kernel
def weighted_sum(first, last, offsets, scores, labels, cutoff, ties, rule, weights, divide, empty, out):  # type: ignore[no-untyped-def]
    """Σ_r weights[r]·gain over the ranking of each query, divided by what ``divide`` names.

    TO_RELEVANT divides as BY_RELEVANT does, and stops at the rank that is the number of relevant documents.
    """
    buffers = buffers_for(first, last, offsets, rule)
    for q in range(first, last):
        query = open_query(q, offsets, scores, labels, rule, buffers)
        if not query.valid:
            out[q] = np.inf
            continue
        best = 0.0
        if divide == BY_IDEAL:
            best = ideal_sum(query.gains, rule, query.counts, weights, cutoff)
        else:
            for gain in query.gains:
                best += gain
        if best <= 0.0:
            out[q] = empty
            continue
        depth = min(cutoff, np.int64(best)) if divide == TO_RELEVANT else cutoff
        count = rank(query, depth, ties)
        total = sum_over_ranks(query, count, min(depth, count), ties, weights)
        if divide in (BY_IDEAL, BY_RELEVANT, TO_RELEVANT):
            total = min(total / best, 1.0)
        elif divide == BY_RETRIEVED:
            total /= max(min(count, cutoff), 1)
        out[q] = total


@kernel
def _of_long_lists(first, last, offsets, scores, labels, cutoff, ties, rule, weights, divide, empty, out):  # type: ignore[no-untyped-def]
    """Do as :func:`weighted_sum`, but lists shorter than the cutoff have the value 0."""
    weighted_sum(first, last, offsets, scores, labels, cutoff, ties, rule, weights, divide, empty, out)
    for q in range(first, last):
        if offsets[q + 1] - offsets[q] < cutoff and out[q] < np.inf:  # neither skipped nor invalid
            out[q] = 0.0


@kernel
def _mean_over_cutoffs(first, last, offsets, scores, labels, cutoff, ties, rule, weights, empty, out):  # type: ignore[no-untyped-def]
    """Average DCG over ideal DCG, both up to rank k, for k from 1 to the cutoff or the length of the list."""
    buffers = buffers_for(first, last, offsets, rule)
    for q in range(first, last):
        query = open_query(q, offsets, scores, labels, rule, buffers)
        ideal = query.gains.copy()
        sort_down(ideal, np.empty(ideal.size, np.int64), 0, ideal.size)
        if not query.valid or ideal[0] <= 0.0:
            out[q] = empty if query.valid else np.inf
            continue
        count, depth = rank(query, cutoff, ties), min(cutoff, ideal.size)
        total, dcg, best, gain, stop = 0.0, 0.0, 0.0, 0.0, 0
        for place in range(depth):
            if place == stop and place < count:  # a document of a tie group has the mean gain of the group
                stop = group_end(query.scores, query.ranked, place, count, ties)
                gain = 0.0
                for other in range(place, stop):
                    gain += query.gains[query.ranked[other]] / (stop - place)
            dcg += weights[place] * gain if place < count else 0.0
            best += weights[place] * ideal[place]
            total += min(dcg / best, 1.0)
        out[q] = total / depth


@kernel
def column_sum(first, last, offsets, scores, labels, cutoff, ties, rule, weights, mean, column, empty, out):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Σ_r weights[r]·column over the ranking of each query, over the number of ranks that count for a ``mean``."""
    buffers = buffers_for(first, last, offsets, rule)
    for q in range(first, last):
        query = open_query(q, offsets, scores, labels, rule, buffers)
        if not query.valid:
            out[q] = np.inf
            continue
        query.gains[:] = column[offsets[q] : offsets[q + 1]]
        count = rank(query, cutoff, ties)
        depth = min(count, cutoff)
        total = sum_over_ranks(query, count, depth, ties, weights)
        out[q] = total / max(depth, 1) if mean else total
