"""The distribution of a metric over the orderings of a list: enumerated, counted or drawn (thesis, chapter 3)."""

from typing import NamedTuple

import numpy as np

from rankwise import check
from rankwise.base.arrays import Array, Offsets
from rankwise.base.compiling import kernel
from rankwise.wings.lab.bounding.orderings import AP, DISCORDANCE, LINEAR
from rankwise.wings.lab.bounding.random_orderings import discordant_pairs, draw_favouring, metric_of, sample_orderings

EXACT_UP_TO = 300_000  # orderings that are enumerated rather than drawn


class Distribution(NamedTuple):
    """The values of a metric over the orderings of one query, ascending, with their probabilities."""

    values: Array
    chances: Array
    different: int
    """Number of different values before they were reduced to quantiles."""
    exact: bool
    """Whether every ordering was counted, rather than a sample drawn."""


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
