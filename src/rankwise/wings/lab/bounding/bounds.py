"""The range of a metric over all orderings of a list, and the maps of values to that scale (thesis, chapter 3)."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwise.base.arrays import Array, offsets_of, read_only
from rankwise.base.compiling import REORDERED, kernel
from rankwise.base.threads import over_queries
from rankwise.objectives.wrappers import PerQuery, sigmoid
from rankwise.wings.lab.bounding.distributions import Distribution, distribution, quantiles
from rankwise.wings.lab.bounding.orderings import DISCORDANCE, LINEAR, Orderings

SATURATED = 40.0
"""σ(−40) is lost in the last digit of anything that it is added to."""
LEAST_SLOPE = 1e-300
"""Keeps the smoothed distribution function rising where every sigmoid is 0 or 1 to the last digit."""
_SLOPE_SHARE = 0.05  # of the distribution function at the best ordering, as a share of its mean slope


class Tables(NamedTuple):
    """Distributions one after another, and the number of each query's distribution."""

    which: PerQuery
    offsets: NDArray[np.int64]
    values: Array
    shares: Array
    """The share of orderings whose value is at most each value."""
    gains: Array


class BoundMaps(NamedTuple):
    """The map of each query's value, in units of its weight; ``scale`` is 0 if there is nothing to learn."""

    sign: float
    scale: PerQuery
    shift: PerQuery
    slope: PerQuery
    tables: Tables | None

    def apply(self, values: Array) -> tuple[Array, Array, Array]:
        """Return the bounded value and its first and second derivative by the inner value."""
        metric = self.sign * values * self.scale
        if self.tables is None:
            first, second = self.slope.copy(), np.zeros_like(metric)
            mapped = self.slope * (metric - self.shift)
        else:
            mapped, first, second = np.empty_like(metric), np.empty_like(metric), np.empty_like(metric)
            places = read_only(np.arange(metric.size + 1))
            over_queries(_smooth_share, places, read_only(metric), *self.tables, mapped, first, second)
        alive = self.scale > 0.0
        return (
            np.where(alive, self.sign * mapped, 0.0),
            np.where(alive, first * self.scale, 0.0),
            np.where(alive, self.sign * second * self.scale**2, 0.0),
        )

    def apply_on_device(self, values: Any) -> tuple[Any, Any]:
        """Map tensors of values in place; return the first and second derivative."""
        from rankwise.wings.lab.bounding.triton import map_values

        return map_values(self, values)


class BoundRule(NamedTuple):
    """The settings of distributions and their smoothing."""

    gain: str
    orderings: int
    favour: float


def bounds(metric: Orderings, weights: Array, method: str, rule: BoundRule) -> BoundMaps:
    """Return the map of each list; ``weights`` are the factors of wrappers inside, before the metric is bounded."""
    least, mean, most = metric.extremes()
    alive = (most - least > 1e-12) & (weights > 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.where(alive, 1.0 / weights, 0.0)
        shift, span = {
            "min_max": (least, most - least),
            "expectation": (np.zeros_like(mean), mean),
            "expectation_max": (mean, most - mean),
            "distribution": (least, most - least),
        }[method]
        slope = np.where(alive, 1.0 / span, 0.0)
    sign = 1.0 if metric.kind == DISCORDANCE else -1.0
    tables = _tables(metric, rule, alive, least, most, sign) if method == "distribution" else None
    return BoundMaps(sign, scale, np.where(alive, shift, 0.0), slope, tables)


def _tables(
    metric: Orderings, rule: BoundRule, alive: NDArray[np.bool_], least: Array, most: Array, sign: float
) -> Tables:
    numbers: dict[bytes, int] = {}
    distributions: list[Distribution] = []
    gains: list[float] = []
    which = np.zeros(alive.size, np.int64)
    for q in np.flatnonzero(alive).tolist():
        list_gains = np.sort(metric.gains[metric.offsets[q] : metric.offsets[q + 1]])
        key = list_gains.tobytes()
        if key not in numbers:
            numbers[key] = len(distributions)
            discounts = metric.discounts[: list_gains.size].tobytes() if metric.kind == LINEAR else b""
            best = least[q] if sign > 0.0 else most[q]
            span = most[q] - least[q]
            smoothed_by = _full if rule.gain == "thesis" else _reduced
            smoothed, gain = smoothed_by(metric.kind, key, discounts, float(best), float(span), rule)
            distributions.append(smoothed)
            gains.append(gain)
        which[q] = numbers[key]
    if not distributions:
        distributions, gains = [Distribution(np.zeros(1), np.ones(1), 1, True)], [1.0]
    offsets = offsets_of([part.values.size for part in distributions])
    values = np.concatenate([part.values for part in distributions])
    shares = np.concatenate([np.cumsum(part.chances) for part in distributions])
    return Tables(*map(read_only, (which, offsets, values, shares, np.array(gains))))


def _smoothed(
    kind: str, list_gains: bytes, discounts: bytes, best: float, span: float, rule: BoundRule
) -> tuple[Distribution, float]:
    """Return the distribution of a list, and the gain of the sigmoids that smooth it."""
    arrays = (np.frombuffer(part).copy() for part in (list_gains, discounts))
    values = distribution(kind, *arrays, orderings=rule.orderings, favour=rule.favour)
    # Sigmoids as narrow as those of eq. 3.13 resolve single values and need all of them; wider ones quantiles.
    values = values if rule.gain == "thesis" else quantiles(values)
    return values, sigmoid_gain(values, best, span, rule.gain)


_full, _reduced = lru_cache(maxsize=256)(_smoothed), lru_cache(maxsize=1024)(_smoothed)
"""Batches repeat the same kinds of lists. 300,000 values take 5 MB, quantiles 64 kB."""


def sigmoid_gain(distribution: Distribution, best: float, span: float, rule: str) -> float:
    """Return the gain of the sigmoids that smooth a distribution function: eq. 3.13, or less if that is too steep."""
    reach = distribution.values[-1] - distribution.values[0]
    gain = distribution.different / (reach if reach > 0.0 else 1.0)
    if rule == "thesis":
        return gain
    values, shares, which = distribution.values, np.cumsum(distribution.chances), np.zeros(1, np.int64)
    offsets = offsets_of([values.size])
    inputs = [read_only(array) for array in (offsets, np.array([best]), which, offsets, values, shares)]
    mapped, first, second = np.empty(1), np.empty(1), np.empty(1)
    while gain > 1.0 / span:
        _smooth_share(0, 1, *inputs, read_only(np.array([gain])), mapped, first, second)
        if first[0] >= _SLOPE_SHARE / span:
            break
        gain *= 0.9
    return gain


@kernel(fastmath=REORDERED)
def _smooth_share(  # type: ignore[no-untyped-def]
    first, last, _, metric, which, offsets, values, shares, gains, share, first_derivative, second_derivative
):
    """Fill Σ chance · σ(a(M − value)) of algorithm 2, and its first and second derivative.

    Sigmoids that are 0 or 1 to the last digit are not computed one by one.
    """
    for q in range(first, last):
        table = slice(offsets[which[q]], offsets[which[q] + 1])
        x, cumulative, a = values[table], shares[table], gains[which[q]]
        low = np.searchsorted(x, metric[q] - SATURATED / a)
        high = np.searchsorted(x, metric[q] + SATURATED / a)
        total, first_sum, second_sum = cumulative[low - 1] if low else 0.0, 0.0, 0.0
        before = total
        for k in range(low, high):
            s = sigmoid(a * (metric[q] - x[k]))
            p = cumulative[k] - before
            before = cumulative[k]
            w = p * s * (1.0 - s)
            total += p * s
            first_sum += w
            second_sum += w * (1.0 - 2.0 * s)
        share[q], first_derivative[q], second_derivative[q] = total, max(a * first_sum, LEAST_SLOPE), a * a * second_sum
