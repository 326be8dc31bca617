"""What the orderings of lists can reach, and the maps that bring a metric to that scale (thesis, chapter 3)."""

from functools import lru_cache
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rankwise.arrays import Array, offsets_of, read_only
from rankwise.kernels import REORDERED, kernel
from rankwise.metrics.permutations import DISCORDANCE, LINEAR, Distribution, Orderings, distribution, quantiles
from rankwise.objectives.fastmath import sigmoid
from rankwise.threads import over_queries

_LEAST_SLOPE = 0.05  # of the distribution function at the best ordering, as a share of its mean slope


class Bounds(NamedTuple):
    """The map of each list, in units of its weight; ``scale`` is 0 where there is nothing to learn."""

    sign: float
    scale: Array
    shift: Array
    slope: Array
    tables: "_Tables | None"

    def apply(self, values: Array) -> tuple[Array, Array, Array]:
        """Give the bounded value and its first and second derivative with respect to the inner value."""
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

    def take(self, queries: NDArray[np.int64]) -> Self:
        """Give the maps of these lists."""
        tables = None if self.tables is None else self.tables._replace(which=read_only(self.tables.which[queries]))
        scale, shift, slope = (column[queries] for column in (self.scale, self.shift, self.slope))
        return self._replace(scale=scale, shift=shift, slope=slope, tables=tables)


class _Tables(NamedTuple):
    """Distributions one after another, and which of them each list has."""

    which: NDArray[np.int64]
    starts: NDArray[np.int64]
    values: Array
    chances: Array
    gains: Array


def bounds(seen: Orderings, weights: Array, method: str, rule: str, orderings: int) -> Bounds:
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
    tables = _tables(seen, rule, orderings, alive, least, most, sign) if method == "distribution" else None
    return Bounds(sign, scale, np.where(alive, shift, 0.0), slope, tables)


def _tables(
    seen: Orderings, rule: str, orderings: int, alive: NDArray[np.bool_], least: Array, most: Array, sign: float
) -> _Tables:
    known: dict[bytes, int] = {}
    found: list[Distribution] = []
    gains: list[float] = []
    which = np.zeros(alive.size, np.int64)
    for q in np.flatnonzero(alive).tolist():
        worths = np.sort(seen.worths[seen.offsets[q] : seen.offsets[q + 1]])
        key = worths.tobytes()
        if key not in known:
            known[key] = len(found)
            thetas = seen.thetas[: worths.size].tobytes() if seen.kind == LINEAR else b""
            best = least[q] if sign > 0.0 else most[q]
            span = most[q] - least[q]
            one, gain = _smoothed(seen.kind, key, thetas, orderings, float(best), float(span), rule)
            found.append(one)
            gains.append(gain)
        which[q] = known[key]
    if not found:
        found, gains = [Distribution(np.zeros(1), np.ones(1), 1, True)], [1.0]
    starts = offsets_of([one.values.size for one in found])
    values, chances = (np.concatenate(parts) for parts in zip(*(one[:2] for one in found), strict=True))
    return _Tables(*map(read_only, (which, starts, values, chances, np.array(gains))))


@lru_cache(maxsize=1024)
def _smoothed(
    kind: str, worths: bytes, thetas: bytes, orderings: int, best: float, span: float, rule: str
) -> tuple[Distribution, float]:
    """A distribution and its gain; batches are made of other lists every time, but of lists of the same kinds."""
    found = quantiles(
        distribution(kind, np.frombuffer(worths).copy(), np.frombuffer(thetas).copy(), orderings=orderings)
    )
    return found, sigmoid_gain(found, best, span, rule)


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
            *map(read_only, (distribution.values, distribution.chances)),
            read_only(np.array([gain])),
        )
        _smooth_share(0, 1, read_only(np.arange(2)), read_only(np.array([best])), *tables, mapped, first, second)
        if first[0] >= _LEAST_SLOPE / span:
            break
        gain *= 0.9
    return gain


@kernel(fastmath=REORDERED)
def _smooth_share(first, last, _, metric, which, starts, values, chances, gains, share, slope, bend):  # type: ignore[no-untyped-def]
    """Algorithm 2: Σ chance · σ(a(M − value)), with its first and second derivative."""
    for q in range(first, last):
        own = slice(starts[which[q]], starts[which[q] + 1])
        x, p, a = values[own], chances[own], gains[which[q]]
        total, first_sum, second_sum = 0.0, 0.0, 0.0
        for k in range(x.size):
            s = sigmoid(a * (metric[q] - x[k]))
            w = p[k] * s * (1.0 - s)
            total += p[k] * s
            first_sum += w
            second_sum += w * (1.0 - 2.0 * s)
        # Where every sigmoid is 0 or 1 to the last digit, a floor keeps the map rising.
        share[q], slope[q], bend[q] = total, max(a * first_sum, 1e-300), a * a * second_sum
