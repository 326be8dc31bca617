"""What the orderings of lists can reach, and the maps that bring a metric to that scale (thesis, chapter 3)."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwise.arrays import Array, offsets_of, read_only
from rankwise.compiling import REORDERED, kernel
from rankwise.metrics.orderings import DISCORDANCE, LINEAR, Distribution, Orderings, distribution, quantiles
from rankwise.objectives.fastmath import sigmoid
from rankwise.objectives.prepared import PerQuery
from rankwise.threads import over_queries

SATURATED = 40.0
"""σ(−40) is lost in the last digit of anything that it is added to."""
LEAST_SLOPE = 1e-300
"""Keeps the smoothed distribution function rising where every sigmoid is 0 or 1 to the last digit."""
_SLOPE_SHARE = 0.05  # of the distribution function at the best ordering, as a share of its mean slope


class Tables(NamedTuple):
    """Distributions one after another, and which of them each query has."""

    which: PerQuery
    offsets: NDArray[np.int64]
    values: Array
    shares: Array
    """The share of orderings whose value is at most each value."""
    gains: Array


class Bounds(NamedTuple):
    """The map of each query's value, in units of its weight; ``scale`` is 0 where there is nothing to learn."""

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


class Rule(NamedTuple):
    """How a distribution is made and smoothed."""

    gain: str
    orderings: int
    favour: float


def bounds(seen: Orderings, weights: Array, method: str, *, gain: str, orderings: int, favour: float = 1.0) -> Bounds:
    """Find the map of each list; ``weights`` are what wrappers multiply the metric by before it is bounded."""
    least, mean, most = seen.extremes()
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
    sign = 1.0 if seen.kind == DISCORDANCE else -1.0
    rule = Rule(gain, orderings, favour)
    tables = _tables(seen, rule, alive, least, most, sign) if method == "distribution" else None
    return Bounds(sign, scale, np.where(alive, shift, 0.0), slope, tables)


def _tables(seen: Orderings, rule: Rule, alive: NDArray[np.bool_], least: Array, most: Array, sign: float) -> Tables:
    known: dict[bytes, int] = {}
    found: list[Distribution] = []
    gains: list[float] = []
    which = np.zeros(alive.size, np.int64)
    for q in np.flatnonzero(alive).tolist():
        worths = np.sort(seen.gains[seen.offsets[q] : seen.offsets[q + 1]])
        key = worths.tobytes()
        if key not in known:
            known[key] = len(found)
            thetas = seen.discounts[: worths.size].tobytes() if seen.kind == LINEAR else b""
            best = least[q] if sign > 0.0 else most[q]
            span = most[q] - least[q]
            one, gain = _smoothed(seen.kind, key, thetas, float(best), float(span), rule)
            found.append(one)
            gains.append(gain)
        which[q] = known[key]
    if not found:
        found, gains = [Distribution(np.zeros(1), np.ones(1), 1, True)], [1.0]
    starts = offsets_of([one.values.size for one in found])
    values = np.concatenate([one.values for one in found])
    shares = np.concatenate([np.cumsum(one.chances) for one in found])
    return Tables(*map(read_only, (which, starts, values, shares, np.array(gains))))


def _smoothed(
    kind: str, worths: bytes, thetas: bytes, best: float, span: float, rule: Rule
) -> tuple[Distribution, float]:
    """A distribution and its gain.

    Sigmoids as narrow as eq. 3.13 has them show every value by itself, so all are kept; wider ones need fewer.
    """
    if rule.gain == "thesis":
        found = _whole(kind, worths, thetas, rule)
        return found, sigmoid_gain(found, best, span, rule.gain)
    return _capped(kind, worths, thetas, best, span, rule)


@lru_cache(maxsize=1024)
def _capped(
    kind: str, worths: bytes, thetas: bytes, best: float, span: float, rule: Rule
) -> tuple[Distribution, float]:
    """Batches are made of other lists every time, but of lists of the same kinds."""
    found = quantiles(_made(kind, worths, thetas, rule))
    return found, sigmoid_gain(found, best, span, rule.gain)


@lru_cache(maxsize=256)
def _whole(kind: str, worths: bytes, thetas: bytes, rule: Rule) -> Distribution:
    """As ``_capped``, but 300,000 values take 5 MB, where quantiles take 64 kB."""
    return _made(kind, worths, thetas, rule)


def _made(kind: str, worths: bytes, thetas: bytes, rule: Rule) -> Distribution:
    arrays = (np.frombuffer(part).copy() for part in (worths, thetas))
    return distribution(kind, *arrays, orderings=rule.orderings, favour=rule.favour)


def sigmoid_gain(distribution: Distribution, best: float, span: float, rule: str) -> float:
    """The steepness of the sigmoids that smooth a distribution function: eq. 3.13, or less where that is too steep."""
    reach = distribution.values[-1] - distribution.values[0]
    gain = distribution.different / (reach if reach > 0.0 else 1.0)
    if rule == "thesis":
        return gain
    mapped, first, second = np.empty(1), np.empty(1), np.empty(1)
    while gain > 1.0 / span:
        tables = (
            *map(read_only, (np.zeros(1, np.int64), offsets_of([distribution.values.size]))),
            *map(read_only, (distribution.values, np.cumsum(distribution.chances))),
            read_only(np.array([gain])),
        )
        _smooth_share(0, 1, read_only(np.arange(2)), read_only(np.array([best])), *tables, mapped, first, second)
        if first[0] >= _SLOPE_SHARE / span:
            break
        gain *= 0.9
    return gain


@kernel(fastmath=REORDERED)
def _smooth_share(first, last, _, metric, which, starts, values, shares, gains, share, slope, bend):  # type: ignore[no-untyped-def]
    """Algorithm 2: Σ chance · σ(a(M − value)), with its first and second derivative.

    Sigmoids that are 0 or 1 to the last digit are not looked at one by one.
    """
    for q in range(first, last):
        own = slice(starts[which[q]], starts[which[q] + 1])
        x, upto, a = values[own], shares[own], gains[which[q]]
        low = np.searchsorted(x, metric[q] - SATURATED / a)
        high = np.searchsorted(x, metric[q] + SATURATED / a)
        total, first_sum, second_sum = upto[low - 1] if low else 0.0, 0.0, 0.0
        before = total
        for k in range(low, high):
            s = sigmoid(a * (metric[q] - x[k]))
            p = upto[k] - before
            before = upto[k]
            w = p * s * (1.0 - s)
            total += p * s
            first_sum += w
            second_sum += w * (1.0 - 2.0 * s)
        share[q], slope[q], bend[q] = total, max(a * first_sum, LEAST_SLOPE), a * a * second_sum
