"""Is the difference between two systems more than chance? Tests on paired differences.

A difference belongs to a query (or a trial) that both systems saw. With query weights the tests ask about the weighted
mean: the differences enter multiplied by their weights, and equal weights give the textbook tests.
"""

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.base import threads
from rankwise.base.compiling import kernel
from rankwise.base.stream import Stream, philox

FLIPS = 100_000
FEWEST = 3
"""Queries or trials that an interval of their mean needs: that of two is wider than all that could be seen."""
RESAMPLED = 10
"""Queries that a resampled interval needs: of five its 95% hold in 90 of 100 cases, of three in 76. Student's does."""
_FLIPS_AT_ONCE = 128  # sign flips that one Philox block decides
_ROUNDING = 1e-12  # two sums closer than this share of Σ|d| are the same number


class TTest(NamedTuple):
    """A mean difference and its standard error; the test and the interval follow from them."""

    mean: float
    error: float
    freedom: float

    @property
    def statistic(self) -> float:
        """Student's t."""
        if self.error == 0.0:
            return math.copysign(math.inf, self.mean) if self.mean else 0.0
        return self.mean / self.error

    @property
    def p(self) -> float:
        """Two-sided p-value."""
        from scipy.special import stdtr

        if self.error == 0.0 and self.mean:  # all differences are the same: no spread to judge by, but signs agree
            return float(2.0**-self.freedom)
        return float(2.0 * stdtr(self.freedom, -abs(self.statistic)))

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the confidence interval of the difference: it excludes 0 exactly where p < 1 − level."""
        from scipy.special import stdtrit

        half = self.error * float(stdtrit(self.freedom, 0.5 + level / 2.0)) if self.error else 0.0
        return self.mean - half, self.mean + half

    def p_within(self, margin: float) -> float:
        """Test equivalence: p < 1 − level exactly where the interval lies within ±``margin``.

        A difference that is not significant may only have been measured badly; that it is small needs a test, too. This
        is twice the greater p-value of the two one-sided tests.

        >>> round(TTest(0.001, 0.001, 9).p_within(0.005), 4), TTest(0.006, 0.001, 9).p_within(0.005)
        (0.0031, 1.0)
        """
        return self._replace(mean=margin - abs(self.mean)).p if abs(self.mean) < margin else 1.0


def t_test(differences: ArrayLike, weights: ArrayLike | None = None, *, overlap: float = 0.0) -> TTest:
    """Student's paired t-test, and with ``overlap`` its correction for trials that share data.

    Trials that split the same data again and again have overlapping training sets, and the plain test is far too sure
    of itself. Nadeau and Bengio (2003) multiply the variance by 1/n + test/train instead of 1/n; ``overlap`` is that
    test/train, 1/3 for splits of 60/20/20.

    >>> differences = [0.02, 0.03, -0.01, 0.04, 0.02]
    >>> round(t_test(differences).p, 4), round(t_test(differences, overlap=0.2 / 0.6).p, 4)
    (0.0751, 0.2171)
    """
    values, importance = _pairs(differences, weights)
    check.number("overlap", overlap, least=0.0)
    n = int(np.count_nonzero(importance))
    mean = math.fsum(importance * values)
    # The linearised variance of a weighted mean; for equal weights it is s²/n.
    spread = math.fsum((importance * (values - mean)) ** 2) * n / (n - 1)
    if np.ptp(values[importance > 0.0]) <= _ROUNDING * np.abs(values).max():
        spread = 0.0  # the rounding of equal differences is no spread
    return TTest(mean, math.sqrt(spread * (1.0 + n * overlap)), n - 1)


def interval_of_same(
    values: ArrayLike, weights: ArrayLike | None = None, *, bounds: tuple[float, float], level: float = 0.95
) -> tuple[float, float] | None:
    """Return the interval of a mean of values that are all the same, which have no spread; None where they are not.

    Of values that were not seen in n queries the share is less than 1 − (α/2)^(1/n), about 3.7/n: a rule of three. They
    may be anywhere within ``bounds``; without bounds there is no interval, and its ends are NaN. Weighted queries count
    as the (Σw)² / Σw² equal ones that would be as sure.

    >>> [round(end, 3) for end in interval_of_same([0.5] * 10, bounds=(0.0, 1.0))]
    [0.346, 0.654]
    """
    numbers, importance = _pairs(values, weights)
    numbers = numbers[importance > 0.0]
    if np.ptp(numbers) > _ROUNDING * np.abs(numbers).max():
        return None
    (lowest, highest), value = bounds, float(numbers[0])
    unseen = 1.0 - ((1.0 - level) / 2.0) ** math.fsum(importance**2)
    low, high = value - unseen * (value - lowest), value + unseen * (highest - value)
    return (low, high) if math.isfinite(high - low) else (math.nan, math.nan)


def interval_of_mean(
    values: ArrayLike, weights: ArrayLike | None = None, *, bounds: tuple[float, float], level: float = 0.95
) -> tuple[float, float]:
    """Return Student's interval of a mean, and of values that are all the same that of :func:`interval_of_same`.

    >>> [round(end, 3) for end in interval_of_mean([0.4, 0.5, 0.6], bounds=(0.0, 1.0))]
    [0.252, 0.748]
    """
    same = interval_of_same(values, weights, bounds=bounds, level=level)
    return t_test(values, weights).interval(level) if same is None else same


def interval_of_share(
    values: ArrayLike, weights: ArrayLike | None = None, *, level: float = 0.95
) -> tuple[float, float] | None:
    """Return the interval of Clopper and Pearson of a mean of values that are all 0 or 1; None where they are not.

    Weighted queries count as the equal ones that would be as sure (Korn and Graubard): (Σw)² / Σw² of them, or fewer
    where those that count most are of one kind, as head queries that are easier.

    >>> [round(end, 3) for end in interval_of_share([1, 1, 1, 0, 1, 1, 1, 1])]
    [0.473, 0.997]
    """
    from scipy.special import betaincinv

    numbers, importance = _pairs(values, weights)
    if not np.isin(numbers, (0.0, 1.0)).all():
        return None
    share, tail = math.fsum(importance * numbers), (1.0 - level) / 2.0
    variance = math.fsum((importance * (numbers - share)) ** 2)
    n = 1.0 / max(math.fsum(importance**2), variance / (share * (1.0 - share)) if 0.0 < share < 1.0 else 0.0)
    low = float(betaincinv(n * share, n * (1.0 - share) + 1.0, tail)) if share > 0.0 else 0.0
    high = float(betaincinv(n * share + 1.0, n * (1.0 - share), 1.0 - tail)) if share < 1.0 else 1.0
    return low, high


def randomization_test(
    differences: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    stream: Stream | None = None,
    flips: int = FLIPS,
) -> float:
    """Fisher's randomization test: the p-value of the mean difference when each sign could as well be the other.

    If the systems were the same, which of the two values of a query belongs to which would be a coin's throw. The
    p-value is the share of all ways to throw the coins whose mean is as far from 0 as the one seen. With no more ways
    than ``flips`` (16 differences that are not 0) all of them are listed and the p-value is exact. Otherwise
    ``flips`` ways are drawn, keyed by query id, and the one seen is counted among them, so that p is never 0.

    >>> randomization_test([0.1, 0.2, 0.3, 0.4])  # 2 of the 16 ways: all signs as seen, or all turned
    0.125
    """
    values, importance = _pairs(differences, weights)
    flips = check.integer("flips", flips, least=1)
    stream = Stream(0) if stream is None else stream
    words = stream.queries(values.size)
    product = values * importance
    nonzero = product != 0.0  # turning a 0 changes nothing
    product, words = product[nonzero], words[nonzero]
    if product.size == 0:
        return 1.0
    seen = abs(math.fsum(product)) - _ROUNDING * math.fsum(np.abs(product))
    if product.size < 63 and 1 << product.size <= flips:
        return float(_count_all(product, seen) / (1 << (product.size - 1)))
    order = np.argsort(words)  # sums must not depend on the order of queries, not even in their last bit
    blocks = -(-flips // _FLIPS_AT_ONCE)
    counts = np.zeros(blocks, np.int64)
    work = np.full(blocks, 0.25 * _FLIPS_AT_ONCE * product.size)
    ranges = np.arange(blocks + 1, dtype=np.int64)
    threads.over_queries(_count_flips, ranges, stream.key, words[order], product[order], seen, flips, counts, work=work)
    return float((counts.sum() + 1) / (flips + 1))


@kernel
def _count_all(values, seen):  # type: ignore[no-untyped-def]
    """How many sign assignments reach ``seen``, out of the half that keeps the last sign."""
    n = values.size
    count = 0
    for mask in range(1 << (n - 1)):
        total = 0.0
        for i in range(n):
            total += -values[i] if (mask >> i) & 1 else values[i]
        count += abs(total) >= seen
    return count


@kernel
def _count_flips(first, last, offsets, key, words, values, seen, flips, counts):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Count the flips of blocks ``first`` to ``last`` that reach ``seen``; a bit of a query's block is its sign."""
    low = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    sums = np.empty(_FLIPS_AT_ONCE)
    bits = np.empty(4, np.uint32)
    total = values.sum()
    for block in range(first, last):
        sums[:] = 0.0
        for q in range(values.size):
            bits[0], bits[1], bits[2], bits[3] = philox(
                np.uint64(0), np.uint64(block), words[q] & low, words[q] >> half, key & low, key >> half
            )
            value = values[q]
            for k in range(4):
                word = np.int32(bits[k])
                for j in range(32):
                    sums[32 * k + j] += value * np.float64((word >> np.int32(j)) & np.int32(1))
        for flip in range(min(_FLIPS_AT_ONCE, flips - block * _FLIPS_AT_ONCE)):
            counts[block] += abs(2.0 * sums[flip] - total) >= seen  # turned minus kept


def wilcoxon_test(differences: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Wilcoxon's signed-rank test; pairs without a difference are left out.

    >>> wilcoxon_test([0.1, 0.2, 0.3, 0.4])
    0.125
    """
    from scipy.stats import wilcoxon

    values, importance = _pairs(differences, weights)
    product = values * importance
    product = product[product != 0.0]
    if product.size == 0:
        return 1.0
    # Equal differences must get equal ranks although their last bits differ.
    product = np.round(product / np.abs(product).max(), 12)
    size = np.abs(product)
    exact = product.size <= 50 and np.unique(size).size == size.size
    return float(wilcoxon(product, method="exact" if exact else "approx").pvalue)


def holm(p: ArrayLike) -> NDArray[np.float64]:
    """Holm's step-down correction: adjusted p-values of a family of tests, in the order given.

    >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p, dtype=np.float64)
    if values.ndim != 1 or not ((values >= 0) & (values <= 1)).all():
        raise check.error("p-values must be a list of numbers from 0 to 1", got=f"{values!r}")
    order = np.argsort(values, kind="stable")
    scaled = values[order] * np.arange(values.size, 0, -1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return adjusted


def effect_size(differences: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Cohen's d of the paired differences: their mean divided by their own standard deviation (often called d_z).

    0.2 counts as small, 0.5 as medium, 0.8 as large; unlike a p-value it does not grow with the number of queries.

    >>> round(effect_size([0.02, 0.03, -0.01, 0.04, 0.02]), 3)
    1.069
    """
    values, importance = _pairs(differences, weights)
    n = int(np.count_nonzero(importance))
    mean = math.fsum(importance * values)
    deviation = math.sqrt(math.fsum(importance * (values - mean) ** 2) * n / (n - 1))
    if deviation == 0.0:
        return math.copysign(math.inf, mean) if mean else 0.0
    return mean / deviation


def times_as_many(difference: float, half: float, *, level: float = 0.95, power: float = 0.8) -> float:
    """Return how many times as many queries would show a true ``difference`` with a probability of ``power``.

    ``half`` is half of the width of its interval of that ``level`` now. With (half / difference)² times as many
    the interval would just reach 0 on average, so that half of such experiments would miss the difference.

    >>> round(times_as_many(0.01, 0.02, power=0.5), 2), round(times_as_many(0.01, 0.02), 2)
    (4.0, 8.17)
    """
    if difference == 0.0:
        return math.inf
    normal = NormalDist()
    ratio = 1.0 + normal.inv_cdf(power) / normal.inv_cdf(0.5 + level / 2.0)
    return (ratio * half / difference) ** 2


def alpha(level: float) -> float:
    """Return the probability of a false alarm that a level allows, 1 − ``level``, without errors of rounding."""
    return round(1.0 - level, 12)


def wins_ties_losses(differences: ArrayLike, *, tolerance: float = 1e-9) -> tuple[int, int, int]:
    """How many differences are above, within and below ±``tolerance``.

    >>> wins_ties_losses([0.1, 0.0, 1e-15, -0.2, 0.3])
    (2, 2, 1)
    """
    values = np.asarray(differences, dtype=np.float64)
    wins, losses = int((values > tolerance).sum()), int((values < -tolerance).sum())
    return wins, values.size - wins - losses, losses


def _pairs(differences: ArrayLike, weights: ArrayLike | None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Check paired differences; give them with weights that add up to 1."""
    values = np.asarray(differences, dtype=np.float64)
    if values.ndim != 1 or not np.isfinite(values).all():
        raise check.error("differences must be a list of finite numbers", got=f"{values!r}")
    importance = np.ones(values.size) if weights is None else check.query_weights(weights, values.size)
    counted = int(np.count_nonzero(importance))
    if counted < 2:
        hint = "compare on more queries or more trials"
        raise check.error("a paired test needs at least two pairs that count", got=counted, hint=hint)
    return values, importance / math.fsum(importance)
