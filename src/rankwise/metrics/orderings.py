"""A metric over all orderings of a list: its least, mean and largest value in closed form, and its distribution.

There are three kinds of metric. *Linear* ones are sums of discounts of ranks times gains of documents (NDCG, DCG,
precision, RBP, any cutoff, any grades): sorted orders are their extremes, and on average every rank holds the mean gain
(thesis, eq. 3.5 and 3.8 with its missing 1/N). *Average precision* of P relevant among N documents has the mean
(H_N + (P − 1)/(N − 1)·(N − H_N))/N, eq. 3.10 summed up. The *discordance* of thesis eq. 2.12 counts pairs in the wrong
order; over random orderings it has the Mann-Whitney distribution.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rankwise import check
from rankwise.arrays import Array, Offsets
from rankwise.compiling import kernel
from rankwise.metrics.gains import Gain, discounts, gain_shares, longest
from rankwise.metrics.random_orderings import discordant_pairs, draw_favouring, metric_of, sample_orderings
from rankwise.threads import over_queries

LINEAR, AP, DISCORDANCE = "linear", "ap", "discordance"
EXACT_UP_TO = 300_000  # orderings that are enumerated rather than drawn


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


class Distribution(NamedTuple):
    """The values of a metric over the orderings of one query, ascending, with their probabilities."""

    values: Array
    chances: Array
    different: int
    """Number of different values before they were reduced to quantiles."""
    exact: bool
    """Whether every ordering was counted, rather than a sample drawn."""


def ndcg_orderings(labels: Array, offsets: Offsets, gain: Gain = "exponential", cutoff: int | None = None) -> Orderings:
    """Return the orderings of checked labels as NDCG sees them.

    >>> ndcg_orderings(np.array([1.0, 0.0]), np.array([0, 2])).extremes().least.round(4)  # relevant one last: 1/log2(3)
    array([0.6309])
    """
    depth = longest(offsets) if cutoff is None else min(cutoff, longest(offsets))
    return Orderings(LINEAR, offsets, gain_shares(labels, offsets, gain, cutoff), discounts(depth))


def distribution(
    kind: str, gains: Array, discounts: Array, *, orderings: int = EXACT_UP_TO, favour: float = 1.0, seed: int = 0
) -> Distribution:
    """Compute the distribution of a metric over all orderings of one query.

    Exact where the number of different orderings is at most ``orderings``, and for the discordance always, to twelve
    digits; drawn from ``orderings`` random ones otherwise. With ``favour`` orderings are not equally likely: at every
    rank the document with the highest gain is ``favour`` times as likely to come next as one with a gain of 0 (Plackett
    and Luce's model), and the discordance is drawn, too.

    >>> exact = distribution("discordance", np.array([1.0, 0.0, 0.0]), np.empty(0))
    >>> exact.values, exact.chances.round(4)
    (array([0., 1., 2.]), array([0.3333, 0.3333, 0.3333]))
    >>> distribution("discordance", np.array([1.0, 0.0, 0.0]), np.empty(0), favour=2.0).chances  # 2/4, then 2/3 of it
    array([0.5       , 0.33333333, 0.16666667])
    """
    check.choice("kind of metric", kind, (LINEAR, AP, DISCORDANCE))
    check.integer("orderings", orderings, least=1)
    uniform = check.number("favour", favour, least=0.0, open_ends=True) == 1.0
    if kind == DISCORDANCE:
        relevant = int(gains.sum())
        if uniform:
            values, chances = discordant_pairs(relevant, gains.size - relevant)
            return Distribution(values, chances, round(values[-1] - values[0]) + 1, True)
        # The others before each relevant document are its rank from 0 on, less the relevant ones before it.
        ranks = distribution(LINEAR, gains, np.arange(float(gains.size)), orderings=orderings, favour=favour)
        return ranks._replace(values=ranks.values - relevant * (relevant - 1) / 2)
    levels, counts = np.unique(gains, return_counts=True)
    weights = favour ** (levels / levels[-1]) if levels[-1] > 0.0 else np.ones(levels.size)
    n_orderings, shares, is_ap = _distinct_orderings(counts, orderings), None, kind == AP
    exact = n_orderings <= orderings
    if exact:
        results, shares = np.empty(n_orderings), np.empty(n_orderings)
        _enumerate(np.repeat(np.arange(levels.size), counts), levels, weights, discounts, is_ap, results, shares)
    elif uniform:
        results = sample_orderings(gains, discounts, is_ap=is_ap, orderings=orderings, seed=seed)
    else:
        results = draw_favouring(levels, counts, weights, discounts, is_ap=is_ap, orderings=orderings, seed=seed)
    # Orderings with equal values differ in the last digits by the order of their sums.
    values, which, times = np.unique(np.round(results, 13), return_inverse=True, return_counts=True)
    weighed = times if uniform or shares is None else np.bincount(which, shares)
    return Distribution(values, weighed / weighed.sum(), values.size, exact)


def quantiles(distribution: Distribution, most: int = 4096) -> Distribution:
    """Reduce a distribution to at most ``most`` values of equal chance, each the mean of those it replaces."""
    if distribution.values.size <= most:
        return distribution
    upper = np.cumsum(distribution.chances)
    group = np.minimum((upper - 0.5 * distribution.chances) / upper[-1] * most, most - 1).astype(np.int64)
    chances: Array = np.bincount(group, distribution.chances, most).astype(np.float64)
    means = np.bincount(group, distribution.chances * distribution.values, most)
    some = chances > 0.0
    return Distribution(means[some] / chances[some], chances[some], distribution.different, distribution.exact)


def _distinct_orderings(counts: Offsets, enough: int) -> int:
    """Return the multinomial coefficient, or a number above ``enough``."""
    total, placed = 1, 0
    for count in np.sort(counts)[::-1].tolist():
        for k in range(1, count + 1):
            placed += 1
            total = total * placed // k
        if total > enough:
            return total
    return total


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


@kernel
def _enumerate(levels_by_rank, levels, weights, discounts, is_ap, out, shares):  # type: ignore[no-untyped-def]
    """Fill values and chances of all distinct orderings of a multiset, in lexicographic order."""
    now = levels_by_rank.copy()
    ranked, left = np.empty(now.size), np.empty(levels.size)
    for k in range(out.size):
        left[:] = 0.0
        share, total = 1.0, 0.0
        for r in range(now.size - 1, -1, -1):
            left[now[r]] += weights[now[r]]
            total += weights[now[r]]
            share *= left[now[r]] / total
            ranked[r] = levels[now[r]]
        out[k], shares[k] = metric_of(ranked, discounts, is_ap), share
        i = now.size - 2
        while i >= 0 and now[i] >= now[i + 1]:
            i -= 1
        if i < 0:
            return
        j = now.size - 1
        while now[j] <= now[i]:
            j -= 1
        now[i], now[j] = now[j], now[i]
        now[i + 1 :] = now[i + 1 :][::-1].copy()
