"""A metric over all orderings of a list: its least, mean and largest value in closed form.

There are three kinds of metric. *Linear* ones are sums of discounts of ranks times gains of documents (NDCG, DCG,
precision, RBP, any cutoff, any grades): sorted orders are their extremes, and on average every rank holds the mean gain
(thesis, eq. 3.5 and 3.8 with its missing 1/N). *Average precision* of P relevant among N documents has the mean
(H_N + (P − 1)/(N − 1)·(N − H_N))/N, eq. 3.10 summed up. The *discordance* of thesis eq. 2.12 counts pairs in the wrong
order; over random orderings it has the Mann-Whitney distribution.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rankwise.base.arrays import Array, Offsets
from rankwise.base.compiling import kernel
from rankwise.base.threads import over_queries
from rankwise.objectives.wrappers import Gain, discounts, gain_shares, longest

LINEAR, AP, DISCORDANCE = "linear", "ap", "discordance"


@dataclass(frozen=True, eq=False)
class Orderings:
    """The queries of a data set as a metric sees them, whatever the order of their documents."""

    kind: str
    """LINEAR, AP or DISCORDANCE."""
    offsets: Offsets
    gains: Array
    """(n_docs,) gain of each document over the query's ideal DCG, or 1 for relevant documents and 0 for others."""
    discounts: Array
    """The weight of each rank, none negative, for linear metrics; 0 for ranks beyond its end."""

    def extremes(self) -> "Extremes":
        """Return the least, mean and largest value of every query."""
        sizes = np.diff(self.offsets)
        n, p = sizes.astype(np.float64), np.add.reduceat(self.gains, self.offsets[:-1])
        if self.kind == LINEAR:
            least, most = np.empty(sizes.size), np.empty(sizes.size)
            over_queries(_linear_extremes, self.offsets, self.gains, self.discounts, least, most)
            reach = np.concatenate(([0.0], np.cumsum(self.discounts)))[np.minimum(sizes, self.discounts.size)]
            return Extremes(least, p / n * reach, most)
        if self.kind == AP:
            least = np.empty(sizes.size)
            over_queries(_least_ap, self.offsets, self.gains, least)
            harmonic = np.cumsum(1.0 / np.arange(1, sizes.max(initial=0) + 1))[sizes - 1]
            mean = (harmonic + (p - 1.0) / np.maximum(n - 1.0, 1.0) * (n - harmonic)) / n
            some = (p > 0.0).astype(np.float64)
            return Extremes(least, mean * some, some)
        return Extremes(np.zeros(sizes.size), p * (n - p) / 2.0, p * (n - p))


class Extremes(NamedTuple):
    """The least, mean and largest value of a metric over all orderings of each query."""

    least: Array
    mean: Array
    most: Array


def ndcg_orderings(labels: Array, offsets: Offsets, gain: Gain = "exponential", cutoff: int | None = None) -> Orderings:
    """Return the orderings of checked labels as NDCG sees them.

    >>> ndcg_orderings(np.array([1.0, 0.0]), np.array([0, 2])).extremes().least.round(4)  # relevant one last: 1/log2(3)
    array([0.6309])
    """
    depth = longest(offsets) if cutoff is None else min(cutoff, longest(offsets))
    return Orderings(LINEAR, offsets, gain_shares(labels, offsets, gain, cutoff), discounts(depth))


@kernel
def _linear_extremes(first, last, offsets, gains, discounts, least, most):  # type: ignore[no-untyped-def]
    for q in range(first, last):
        ascending = np.sort(gains[offsets[q] : offsets[q + 1]])
        n = ascending.size
        weights = np.sort(discounts[:n])
        low, high = 0.0, 0.0
        for r in range(weights.size):
            weight = weights[weights.size - 1 - r]
            low += weight * ascending[r]
            high += weight * ascending[n - 1 - r]
        least[q], most[q] = low, high


@kernel
def _least_ap(first, last, offsets, relevant, least):  # type: ignore[no-untyped-def]
    for q in range(first, last):
        n, p = offsets[q + 1] - offsets[q], 0
        for i in range(offsets[q], offsets[q + 1]):
            p += relevant[i] > 0.0
        total = 0.0
        for i in range(1, p + 1):
            total += i / (n - p + i)
        least[q] = total / max(p, 1)
