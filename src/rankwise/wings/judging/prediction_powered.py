"""Prediction-powered means: human labels on some queries, a judge's labels on all of them.

The judge's mean over all queries is corrected by the mean of its errors where humans have labelled: PPI++ of
Angelopoulos, Duchi and Zrnic (2023). The interval holds whatever the judge is worth, provided that the queries with
human labels were drawn at random; a good judge makes it narrow, and a useless one is not used.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwise.base.arrays import Array
from rankwise.statistics import TTest


class JudgedMean(NamedTuple):
    """The mean of a metric, or of its difference between two systems, by human labels with the help of a judge."""

    value: float
    error: float
    """Standard error for the queries that these are a sample of; so are ``low`` and ``high``."""
    fixed_error: float
    """Standard error for exactly these queries, not left to chance; so are ``fixed_low`` and ``fixed_high``."""
    freedom: int
    judge: float
    """What the judge alone says."""
    labels: int
    """Labelled queries, of a difference those whose lists differ; or judged documents that are ranked differently."""
    worth: float | None
    """Labels of queries drawn at random that would say as much without the judge; None where it cannot be told."""
    metric: str = ""
    system: str = ""
    against: str | None = None
    p: float | None = None
    """The p-value of a difference, by Student's t, after the correction for many comparisons."""
    low: float = math.nan
    high: float = math.nan
    fixed_low: float = math.nan
    fixed_high: float = math.nan

    def test(self, *, fixed: bool = False) -> TTest:
        """Return mean and error as a t-test, which has the interval and the p-value."""
        return TTest(self.value, self.fixed_error if fixed else self.error, self.freedom)

    def with_fixed(self, variance: float) -> "JudgedMean":
        """Return the mean with another variance for exactly these queries; that between queries stays."""
        between = self.error**2 - self.fixed_error**2
        return self._replace(error=math.sqrt(between + variance), fixed_error=math.sqrt(variance))

    def over(self, share: float, n_queries: int) -> "JudgedMean":
        """Return the mean over all queries of one that holds for a ``share`` of them and is exactly 0 for the others.

        The share is known of these queries. Of those that they are a sample of it is an estimate.
        """
        between = self.value**2 * share * (1.0 - share) / n_queries
        return self._replace(
            value=share * self.value,
            error=math.sqrt(share**2 * self.error**2 + between),
            fixed_error=share * self.fixed_error,
            judge=share * self.judge,
        )


NO_DIFFERENCE = JudgedMean(value=0.0, error=0.0, fixed_error=0.0, freedom=1, judge=0.0, labels=0, worth=None)
"""The difference of two systems whose lists are equal for every query: 0, whatever the labels are."""


def prediction_powered(
    human: Array, judge: Array, unlabelled: Array, copies: NDArray[np.int64] | None = None, *, more: int = 0
) -> JudgedMean:
    """Estimate a mean by PPI++: λ·mean of the judge without labels + mean of (human − λ·judge) with labels.

    ``human`` and ``judge`` are values of the labelled queries, ``unlabelled`` the judge's values of the others. λ, in
    [0, 1], has the least variance; the estimate is that of ``ppi_py``. Intervals are Student's: normal ones are too
    narrow for the few labels that the judge is there for. Queries with the same number in ``copies`` (of labelled ones
    first) are copies of one: errors are those of their sums.

    Labels that find no error of the judge, or no spread, do not prove that there is none: errors are at least as large
    as if one of the labelled queries had been off by the spread of all. With ``more``, errors are a forecast:
    those with so many of the unlabelled queries labelled, if they tell the same as these.

    >>> human, judge = np.array([0.2, 0.4, 0.3, 0.7, 0.9, 0.5]), np.array([0.3, 0.4, 0.5, 0.8, 0.9, 0.7])
    >>> corrected = prediction_powered(human, judge, np.array([0.3, 0.5, 0.6, 0.8, 0.7, 0.4, 0.6, 0.9]))
    >>> round(corrected.value, 3), round(corrected.judge, 3), round(corrected.worth, 1)
    (0.5, 0.6, 12.0)
    """
    more = min(more, unlabelled.size)
    n, rest = human.size + more, unlabelled.size - more
    everywhere = np.concatenate([judge, unlabelled])
    spread, largest = float(everywhere.var(ddof=1)), float(np.abs(np.concatenate([human, everywhere])).max())
    covariance = float(((human - human.mean()) * (judge - judge.mean())).mean())
    weight = min(max(covariance / ((1.0 + n / rest) * spread), 0.0), 1.0) if spread and rest else 0.0
    # Without a spread the size of an error is that of the values, and where these are 0 that of most metrics.
    floor = (max(spread, float(human.var(ddof=1))) or largest**2 or 1.0) / n
    # The same estimate as a regression on the mean of all n + N queries, which is not left to chance.
    fixed_weight = weight * (n + rest) / rest if rest else 0.0
    variances = [max(_variance(human, judge, one), floor) / n for one in (weight, fixed_weight)]
    variance, fixed = variances[0] + (weight**2 * spread / rest if rest else 0.0), variances[1] * rest / (n + rest)
    freedom = n - 1
    if copies is not None:
        others = weight * (unlabelled - unlabelled.mean()) / unlabelled.size if rest else 0.0 * unlabelled
        clustered = _clustered(human - weight * judge, others, copies) * human.size / n
        among = _clustered(human - fixed_weight * judge, 0.0 * others, copies) * human.size / n * rest / (n + rest)
        variance, fixed = max(variance, clustered), max(fixed, among)
        freedom = int(np.unique(copies[: human.size]).size) - 1 + more
    return JudgedMean(
        value=float(weight * ((unlabelled.mean() if rest else 0.0) - judge.mean()) + human.mean()),
        error=math.sqrt(variance),
        fixed_error=math.sqrt(fixed),
        freedom=freedom,
        judge=float(everywhere.mean()),
        labels=n,
        worth=float(human.var(ddof=1)) / variance or None,
    )


def _variance(human: Array, judge: Array, weight: float) -> float:
    """Return the variance of the judge's errors; λ, where it is tuned, costs a degree of freedom."""
    return float((human - weight * judge).var()) * human.size / (human.size - 1 - (weight > 0.0))


def _clustered(errors: Array, others: Array, copies: NDArray[np.int64]) -> float:
    """Return the variance of the mean of errors plus the sum of others, where copies go together."""
    parts = np.concatenate([(errors - errors.mean()) / errors.size, others])
    labelled = np.unique(copies[: errors.size]).size
    return math.fsum(np.bincount(copies, parts) ** 2) * labelled / max(labelled - 1, 1)
