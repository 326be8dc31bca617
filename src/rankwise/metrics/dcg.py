"""DCG and NDCG, and the kernel of all metrics that are a weighted sum over ranks (also RBP, precision and recall).

Σ_r w_r·g(document at rank r) is linear in the order, so its mean over all orders of a tie group is exact and cheap:
each tied document gets the mean weight of the group's ranks, ranks beyond the cutoff weighing 0.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankwise.compiling import kernel
from rankwise.metrics.base import (
    Call,
    Gain,
    RankMetric,
    checked_gain,
    clean,
    discounts,
    fill_worths,
    gain_rule,
    group_end,
    ideal,
    longest_of,
    ranking,
    scratch_for,
)

PLAIN, BY_IDEAL, BY_RELEVANT, BY_RETRIEVED, TO_RELEVANT = 0, 1, 2, 3, 4


@dataclass(frozen=True, kw_only=True, repr=False)
class DCG(RankMetric):
    """Discounted cumulative gain: Σ_r g(y_r)/log2(1 + r) (Järvelin and Kekäläinen 2002).

    >>> DCG()([3.0, 2.0, 1.0], [2, 0, 1], [0, 3])
    array([3.5])
    """

    name: ClassVar[str] = "dcg"
    bounds: ClassVar[tuple[float, float]] = (0.0, np.inf)
    gain: Gain = "exponential"
    """2^y − 1 ("exponential"), y ("linear"), or a table of gains by label."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "gain", checked_gain(self.gain))

    def _kernel(self, longest: int) -> Call:
        return weighted_sum, gain_rule(self.gain), discounts(longest), PLAIN


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

    def _kernel(self, longest: int) -> Call:
        return weighted_sum, gain_rule(self.gain), discounts(longest), BY_IDEAL


@kernel
def weighted_sum(first, last, offsets, scores, labels, cutoff, ties, rule, weights, divide, empty, out):  # type: ignore[no-untyped-def]
    """Σ_r weights[r]·worth over the ranking of each query, divided as ``divide`` says.

    TO_RELEVANT divides as BY_RELEVANT does, and looks only at as many ranks as there are relevant documents.
    """
    longest = longest_of(first, last, offsets)
    worths, ranked = np.empty(longest), np.empty(longest, np.int64)
    counts = np.empty(rule.table.size + 1, np.int64)
    scratch = scratch_for(longest)
    for q in range(first, last):
        start, stop = offsets[q], offsets[q + 1]
        mine = scores[start:stop]
        worth = worths[: stop - start]
        if not fill_worths(labels[start:stop], rule, worth, counts) or not clean(mine):
            out[q] = np.inf
            continue
        best = 0.0
        if divide == BY_IDEAL:
            best = ideal(worth, rule, counts, weights, cutoff)
        else:
            for value in worth:
                best += value
        if best <= 0.0:
            out[q] = empty
            continue
        depth = min(cutoff, np.int64(best)) if divide == TO_RELEVANT else cutoff
        count = ranking(mine, worth, depth, ties, ranked, scratch)
        total = over_groups(mine, worth, ranked, count, min(depth, count), ties, weights)
        if divide in (BY_IDEAL, BY_RELEVANT, TO_RELEVANT):
            total = min(total / best, 1.0)
        elif divide == BY_RETRIEVED:
            total /= max(min(count, cutoff), 1)
        out[q] = total


@kernel
def over_groups(scores, worths, ranked, count, depth, ties, weights):  # type: ignore[no-untyped-def]
    """Σ_r weights[r]·worth up to rank ``depth``; tied documents share the weights of their ranks."""
    total = 0.0
    start = 0
    while start < depth:
        stop = group_end(scores, ranked, start, count, ties)
        if stop - start == 1:
            total += weights[start] * worths[ranked[start]]
        else:
            worth, weight = 0.0, 0.0
            for rank in range(start, stop):
                worth += worths[ranked[rank]]
            for rank in range(start, min(stop, depth)):
                weight += weights[rank]
            total += weight * worth / (stop - start)
        start = stop
    return total
