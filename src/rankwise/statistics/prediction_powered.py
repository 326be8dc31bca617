"""Prediction-powered means: human labels on some queries, a judge's labels on all of them.

The judge's mean over all queries is corrected by the mean of its errors where humans have labelled: PPI++ of
Angelopoulos, Duchi and Zrnic (2023). The interval holds whatever the judge is worth, provided that the queries with
human labels were drawn at random; a good judge makes it narrow, and a useless one is not used.
"""

import math
from typing import NamedTuple

import numpy as np

from rankwise.arrays import Array
from rankwise.statistics.significance import TTest


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
    """Labelled queries, or judged documents that the systems rank differently."""
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


def prediction_powered(human: Array, judge: Array, unlabelled: Array) -> JudgedMean:
    """Estimate a mean by PPI++: λ·mean of the judge without labels + mean of (human − λ·judge) with labels.

    ``human`` and ``judge`` are values of the labelled queries, ``unlabelled`` the judge's values of the others. λ, in
    [0, 1], has the least variance; the estimate is that of ``ppi_py``. Intervals are Student's: normal ones are too
    narrow for the few labels that the judge is there for.

    >>> human, judge = np.array([0.2, 0.4, 0.3, 0.7, 0.9, 0.5]), np.array([0.3, 0.4, 0.5, 0.8, 0.9, 0.7])
    >>> corrected = prediction_powered(human, judge, np.array([0.3, 0.5, 0.6, 0.8, 0.7, 0.4, 0.6, 0.9]))
    >>> round(corrected.value, 3), round(corrected.judge, 3), round(corrected.worth, 1)
    (0.5, 0.6, 12.0)
    """
    n, rest = human.size, unlabelled.size
    everywhere = np.concatenate([judge, unlabelled])
    spread = float(everywhere.var(ddof=1))
    covariance = float(((human - human.mean()) * (judge - judge.mean())).mean())
    weight = min(max(covariance / ((1.0 + n / rest) * spread), 0.0), 1.0) if spread else 0.0
    variance = weight**2 * spread / rest + _variance(human, judge, weight) / n
    # The same estimate as a regression on the mean of all n + N queries, which is not left to chance.
    fixed = _variance(human, judge, weight * (n + rest) / rest) * rest / (n + rest) / n
    return JudgedMean(
        value=float(weight * (unlabelled.mean() - judge.mean()) + human.mean()),
        error=math.sqrt(variance),
        fixed_error=math.sqrt(fixed),
        freedom=n - 1,
        judge=float(everywhere.mean()),
        labels=n,
        worth=float(human.var(ddof=1)) / variance if variance else None,
    )


def _variance(human: Array, judge: Array, weight: float) -> float:
    """Return the variance of the judge's errors; λ, where it is tuned, costs a degree of freedom."""
    return float((human - weight * judge).var()) * human.size / (human.size - 1 - (weight > 0.0))
