"""A metric over all orderings of a list: its least, mean and largest value in closed form, and its distribution.

Three kinds of metric are known. *Linear* ones add up rank weights times document worths (NDCG, DCG, precision, RBP, any
cutoff, any grades): sorted both ways they are extreme, and on average every rank holds the mean worth (thesis, eq. 3.5
and 3.8 with its missing 1/N). *Average precision* of P relevant among N documents has the mean
(H_N + (P − 1)/(N − 1)·(N − H_N))/N, eq. 3.10 summed up. The *discordance* of thesis eq. 2.12 counts pairs in the wrong
order; over random orderings it has the Mann-Whitney distribution.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.arrays import Array
from rankwise.compiling import kernel
from rankwise.metrics.base import discounts
from rankwise.metrics.drawn import drawn, favoured, worth_of
from rankwise.metrics.ideal import gains_and_ideal
from rankwise.metrics.mann_whitney import discordant_pairs
from rankwise.threads import over_queries

LINEAR, AP, DISCORDANCE = "linear", "ap", "discordance"
EXACT_UP_TO = 300_000  # orderings that are listed rather than drawn


@dataclass(frozen=True, eq=False)
class Orderings:
    """The lists of a data set as a metric sees them, whatever their order."""

    kind: str
    """LINEAR, AP or DISCORDANCE."""
    offsets: NDArray[np.int64]
    worths: Array
    """(n_docs,) what each document is worth: gains over the list's ideal, or 1 for relevant and 0 for others."""
    thetas: Array
    """The weight of each rank, none negative, for linear metrics; ranks beyond its end weigh nothing."""

    def extremes(self) -> "Extremes":
        """Give the least, mean and largest value of every list."""
        sizes = np.diff(self.offsets)
        n, p = sizes.astype(np.float64), np.add.reduceat(self.worths, self.offsets[:-1])
        if self.kind == LINEAR:
            least, most = np.empty(sizes.size), np.empty(sizes.size)
            over_queries(_linear_extremes, self.offsets, self.worths, self.thetas, least, most)
            reach = np.concatenate(([0.0], np.cumsum(self.thetas)))[np.minimum(sizes, self.thetas.size)]
            return Extremes(least, p / n * reach, most)
        if self.kind == AP:
            least = np.empty(sizes.size)
            over_queries(_least_ap, self.offsets, self.worths, least)
            harmonic = np.cumsum(1.0 / np.arange(1, sizes.max(initial=0) + 1))[sizes - 1]
            mean = (harmonic + (p - 1.0) / np.maximum(n - 1.0, 1.0) * (n - harmonic)) / n
            some = (p > 0.0).astype(np.float64)
            return Extremes(least, mean * some, some)
        return Extremes(np.zeros(sizes.size), p * (n - p) / 2.0, p * (n - p))


class Extremes(NamedTuple):
    """What the orderings of each list can reach."""

    least: Array
    mean: Array
    most: Array


class Distribution(NamedTuple):
    """The values that a metric takes over the orderings of one list, ascending, with their probabilities."""

    values: Array
    chances: Array
    different: int
    """How many different values there were before they were reduced to quantiles."""
    exact: bool
    """Whether every ordering was counted, rather than a sample drawn."""


def ndcg_orderings(
    labels: Array, offsets: NDArray[np.int64], gain: str | tuple[float, ...] = "exponential", cutoff: int | None = None
) -> Orderings:
    """The orderings as NDCG sees them; ``labels`` and ``offsets`` are checked already.

    >>> ndcg_orderings(np.array([1.0, 0.0]), np.array([0, 2])).extremes().least.round(4)  # relevant one last: 1/log2(3)
    array([0.6309])
    """
    worths, ideal = gains_and_ideal(labels, offsets, gain, cutoff)
    sizes = np.diff(offsets)
    with np.errstate(divide="ignore"):
        worths = worths * np.repeat(np.where(ideal > 0.0, 1.0 / ideal, 0.0), sizes)
    longest = int(sizes.max(initial=0))
    return Orderings(LINEAR, offsets, worths, discounts(longest if cutoff is None else min(cutoff, longest)))


def distribution(
    kind: str, worths: Array, thetas: Array, *, orderings: int = EXACT_UP_TO, favour: float = 1.0, seed: int = 0
) -> Distribution:
    """Give the distribution of a metric over all orderings of one list.

    Exact where the number of different orderings is at most ``orderings``, and for the discordance always, to twelve
    digits; drawn from ``orderings`` random ones otherwise. With ``favour`` orderings are not alike: from the first rank
    on, the document that is worth most is so many times likelier to come next than one that is worth nothing (Plackett
    and Luce's model), and the discordance is drawn, too.

    >>> found = distribution("discordance", np.array([1.0, 0.0, 0.0]), np.empty(0))
    >>> found.values, found.chances.round(4)
    (array([0., 1., 2.]), array([0.3333, 0.3333, 0.3333]))
    >>> distribution("discordance", np.array([1.0, 0.0, 0.0]), np.empty(0), favour=2.0).chances  # 2/4, then 2/3 of it
    array([0.5       , 0.33333333, 0.16666667])
    """
    check.choice("kind of metric", kind, (LINEAR, AP, DISCORDANCE))
    check.integer("orderings", orderings, least=1)
    alike = check.number("favour", favour, least=0.0, open_ends=True) == 1.0
    if kind == DISCORDANCE:
        relevant = int(worths.sum())
        if alike:
            values, chances = discordant_pairs(relevant, worths.size - relevant)
            return Distribution(values, chances, round(values[-1] - values[0]) + 1, True)
        # The others before each relevant document are its rank from 0 on, less the relevant ones before it.
        ranks = distribution(LINEAR, worths, np.arange(float(worths.size)), orderings=orderings, favour=favour)
        return ranks._replace(values=ranks.values - relevant * (relevant - 1) / 2)
    levels, counts = np.unique(worths, return_counts=True)
    weights = favour ** (levels / levels[-1]) if levels[-1] > 0.0 else np.ones(levels.size)
    exact = _distinct_orderings(counts, orderings) <= orderings
    shares = None
    if exact:
        found = np.empty(_distinct_orderings(counts, orderings))
        shares = np.empty(found.size)
        _list_all(np.repeat(np.arange(levels.size), counts), levels, weights, thetas, kind == AP, found, shares)
    elif alike:
        found = drawn(worths, thetas, is_ap=kind == AP, orderings=orderings, seed=seed)
    else:
        ranked = (levels, counts, weights, thetas)
        found = favoured(*ranked, is_ap=kind == AP, orderings=orderings, seed=seed)
    values, which, times = np.unique(_rounded(found), return_inverse=True, return_counts=True)
    weighed = times if alike or shares is None else np.bincount(which, shares)
    return Distribution(values, weighed / weighed.sum(), values.size, exact)


def quantiles(distribution: Distribution, most: int = 4096) -> Distribution:
    """Reduce a distribution to at most ``most`` values of equal chance, each the mean of those it stands for."""
    if distribution.values.size <= most:
        return distribution
    upper = np.cumsum(distribution.chances)
    group = np.minimum((upper - 0.5 * distribution.chances) / upper[-1] * most, most - 1).astype(np.int64)
    chances: Array = np.bincount(group, distribution.chances, most).astype(np.float64)
    means = np.bincount(group, distribution.chances * distribution.values, most)
    some = chances > 0.0
    return Distribution(means[some] / chances[some], chances[some], distribution.different, distribution.exact)


def _distinct_orderings(counts: NDArray[np.int64], enough: int) -> int:
    """The multinomial coefficient, or something beyond ``enough``."""
    total, placed = 1, 0
    for count in np.sort(counts)[::-1].tolist():
        for k in range(1, count + 1):
            placed += 1
            total = total * placed // k
        if total > enough:
            return total
    return total


def _rounded(values: Array) -> Array:
    # Orderings that are worth the same differ in the last digits by the order of their sums.
    return np.round(values, 13)


@kernel
def _linear_extremes(first, last, offsets, worths, thetas, least, most):  # type: ignore[no-untyped-def]
    for q in range(first, last):
        ascending = np.sort(worths[offsets[q] : offsets[q + 1]])
        n = ascending.size
        weights = np.sort(thetas[:n])
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
def _list_all(levels_by_rank, levels, weights, thetas, is_ap, out, shares):  # type: ignore[no-untyped-def]
    """Go through all distinct orderings of a multiset in lexicographic order: their worths, and their chances."""
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
        out[k], shares[k] = worth_of(ranked, thetas, is_ap), share
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
