"""AllPairs: position bias from documents that were shown at several positions (Agarwal et al. 2019).

A document that was shown at positions k and l has the same relevance at both, so its click rates there compare the
positions and nothing else. Rates of all documents that were shown at k and l are added up, c_kl at k and c_lk at l, and

    Σ_k<l  c_kl log(θ_k r_kl) + (w_kl − c_kl) log(1 − θ_k r_kl) + c_lk log(θ_l r_kl) + (w_kl − c_lk) log(1 − θ_l r_kl)

is largest at the examination θ, with one mean relevance r_kl for each unordered pair of positions. A document with n_k
and n_l impressions counts n_k n_l / (n_k + n_l) times at both, which is the inverse variance of the difference.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse.csgraph import connected_components
from scipy.special import xlog1py, xlogy
from scipy.stats import norm, poisson

from rankwise import check
from rankwise.arrays import Array
from rankwise.clicks.log import Log
from rankwise.statistics.significance import RESAMPLED
from rankwise.stream import Stream, hashed_ids

_MOST_GROUPS = 4096  # more queries than that are resampled in groups
_MOST_SUMS = 2**21  # groups times pairs of positions, by segment
_FARTHEST = 20.0  # of a logarithm from 0: e^20 is beyond any curve
_SMALLEST = 1e-300
_MOST_STEPS, _LAST_STEP = 50, 1e-9
_LARGEST = 1.0 - 1e-15  # of a click rate

Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Swaps:
    """Sums over documents that were shown at both positions of a pair."""

    first: Numbers
    """The first position of each pair, from 0."""
    second: Numbers
    sums: Array
    """Segment × group of queries × pair × (weight, clicks at the first, clicks at the second position)."""
    words: NDArray[np.uint64]
    """The name of each group in random streams."""
    n_queries: int

    @classmethod
    def of(cls, log: Log, items: Numbers, *, by_segment: bool = False) -> Self:
        """Add up the swaps of a log; ``items`` are what keeps its relevance, one number per cell.

        Items of different segments are different: who sees a page in one may click more than who sees it in another.
        """
        n_positions, n_segments = log.n_positions, len(log.segment_names)
        first, second = np.triu_indices(n_positions, 1)
        n_parts = n_segments if by_segment else 1
        groups, words = _groups(log, first.size * n_parts)
        order = np.lexsort((log.positions, log.segments, items))
        order = order[log.impressions[order] > 0]
        units, positions = (items * n_segments + log.segments)[order], log.positions[order] - 1
        starts = np.flatnonzero(np.diff(units * n_positions + positions, prepend=-1))
        shown = np.add.reduceat(log.impressions[order], starts) if starts.size else np.empty(0)
        clicks = np.add.reduceat(log.clicks[order], starts) if starts.size else np.empty(0)
        units, positions, cells = units[starts], positions[starts], order[starts]
        rows = groups[log.queries[cells]] + words.size * (log.segments[cells] if by_segment else 0)
        number = np.zeros((n_positions, n_positions), np.int64)
        number[first, second] = np.arange(first.size)
        sums = np.zeros((words.size * n_parts * first.size, 3))
        for lag in range(1, n_positions):  # positions of an item are sorted and distinct
            upper = np.flatnonzero(units[lag:] == units[:-lag])
            if not upper.size:
                break
            lower = upper + lag
            place = rows[upper] * first.size + number[positions[upper], positions[lower]]
            share = 1.0 / (shown[upper] + shown[lower])
            columns = (shown[upper] * shown[lower], clicks[upper] * shown[lower], clicks[lower] * shown[upper])
            for j, column in enumerate(columns):
                sums[:, j] += sums_by(place, column * share, len(sums))
        return cls(first, second, sums.reshape(-1, words.size, first.size, 3), words, log.n_queries)

    @property
    def n_positions(self) -> int:
        """Number of positions."""
        return int(self.second.max(initial=0)) + 1

    def check_connected(self, what: str) -> None:
        """Raise an error that names positions whose clicks are not comparable, by impressions and by clicks."""
        total = self.sums.sum((0, 1))
        for column, why in ((total[:, 0], f"never exchange {what}"), (total[:, 1:].sum(1), "exchange no click")):
            joined = np.zeros((self.n_positions, self.n_positions), bool)
            joined[self.first, self.second] = column > 0
            count, component = connected_components(joined, directed=False)
            if not joined.any():
                raise check.error(
                    f"position bias is not identified: {what} at two positions, and clicks on it, are needed",
                    got="no click" if total.any() else "one position each, as one ranker shows that always ranks alike",
                    hint="log several rankers on the same queries, shuffle a part of the traffic, or pass curves that "
                    "are known from elsewhere to rw.clicks.Bias.known",
                )
            if count > 1:
                parts = [spans(np.flatnonzero(component == part) + 1) for part in range(count)]
                raise check.error(
                    f"position bias is not identified: positions {' and '.join(parts)} {why}",
                    hint="log several rankers or shuffle a part of the traffic, or keep the positions of one part with"
                    f" log.only(positions=…), such as {parts[0]}",
                )
        clicks = sums_by(self.first, total[:, 1], self.n_positions)
        clicks += sums_by(self.second, total[:, 2], self.n_positions)
        if not clicks.all():
            raise check.error(
                "position bias needs clicks at every position",
                got=f"none at {spans(np.flatnonzero(clicks == 0) + 1)} on {what} that was shown elsewhere too",
                hint="keep the positions above with log.only(positions=…)",
            )

    def fit(self) -> Array:
        """Return log θ, 0 at the first position, from all groups of all segments."""
        return self.fit_sums(self.sums.sum((0, 1)))

    def fit_sums(
        self, sums: Array, start: Array | None = None, *, center: Array | None = None, ridge: float = 0.0
    ) -> Array:
        """Return log θ, 0 at the first position, from sums by pair; ``ridge`` pulls it to ``center``."""
        begin = np.zeros(self.n_positions) if start is None else start
        middle = np.zeros(self.n_positions) if center is None else center
        scale = 1.0 / max(float(sums[:, 1:].sum()), 1.0)

        def loss(free: Array) -> tuple[float, Array]:
            logs = np.append(0.0, free)
            value, gradient = likelihood(logs, sums, self.first, self.second)
            gap = logs - middle
            return float(scale * (0.5 * ridge * gap @ gap - value)), (scale * (ridge * gap - gradient))[1:]

        ends = [(-_FARTHEST, _FARTHEST)] * (self.n_positions - 1)
        options = {"gtol": 1e-11, "ftol": 1e-16, "maxiter": 1000, "maxcor": 20}
        solution = minimize(loss, begin[1:], jac=True, method="L-BFGS-B", bounds=ends, options=options)
        return np.append(0.0, solution.x)

    def resampled(self, best: Array, samples: int, stream: Stream) -> Array | None:
        """Return log θ of samples of queries with replacement; None with too few queries.

        Every group of queries is drawn a number of times that has Poisson's distribution, by its name: results do not
        depend on the order of queries.
        """
        if self.n_queries < RESAMPLED:
            return None
        names = Stream(stream.seed, query_ids=self.words, path=stream.path)
        times = poisson_counts(names.per_query(self.words.size, samples)).T
        flat = self.sums.sum(0).reshape(self.words.size, -1)
        return self._newton(best, (times @ flat).reshape(samples, self.first.size, 3))

    def _newton(self, start: Array, sums: Array) -> Array:
        """Return log θ of many sums at once, by Newton's method with the expected information.

        That of a pair, with its relevance at the best value, is a spring between its positions.
        """
        places = np.eye(self.n_positions)
        logs = np.tile(start, (len(sums), 1))
        weight = sums[..., 0]
        for _ in range(_MOST_STEPS):
            gradient, springs = np.zeros_like(logs), []
            for side, rate in enumerate(_rates(logs, sums, self.first, self.second)):
                odds, clicked = rate / (1.0 - rate), sums[..., 1 + side]
                gradient += (clicked - (weight - clicked) * odds) @ places[(self.first, self.second)[side]]
                springs.append(weight * odds + _SMALLEST)
            spring = springs[0] * springs[1] / (springs[0] + springs[1])
            matrix = np.zeros((len(sums), self.n_positions, self.n_positions))
            matrix[:, self.first, self.second] = matrix[:, self.second, self.first] = -spring
            total = -matrix.sum(2)
            matrix += (total + 1e-9 * total.sum(1, keepdims=True))[:, :, None] * places
            steps = np.linalg.solve(matrix[:, 1:, 1:], gradient[:, 1:, None])[..., 0].clip(-1.0, 1.0)
            logs[:, 1:] = (logs[:, 1:] + steps).clip(-_FARTHEST, _FARTHEST)
            if np.abs(steps).max(initial=0.0) < _LAST_STEP:
                break
        return logs


def likelihood(logs: Array, sums: Array, first: Numbers, second: Numbers) -> tuple[float, Array]:
    """Return the log-likelihood at the best relevance of each pair of positions, and its gradient by log θ."""
    value, gradient = 0.0, np.zeros(logs.size)
    for side, rate in enumerate(_rates(logs, sums, first, second)):
        clicked = sums[:, 1 + side]
        missed = sums[:, 0] - clicked
        value += float(np.sum(xlogy(clicked, rate) + xlog1py(missed, -rate)))
        gradient += sums_by((first, second)[side], clicked - missed * rate / (1.0 - rate), logs.size)
    return value, gradient


def _rates(logs: Array, sums: Array, first: Numbers, second: Numbers) -> tuple[Array, Array]:
    """Return click rates at both positions of each pair, with the relevance that makes its clicks most likely."""
    left, right = np.exp(logs[..., first]), np.exp(logs[..., second])
    weight, upper, lower = sums[..., 0], sums[..., 1], sums[..., 2]
    total = np.maximum(upper + lower, _SMALLEST)  # without a click relevance is 0, and any θ as good
    # The smaller root of a quadratic, at which both rates are below 1.
    linear = _SMALLEST + total * (left + right) + left * (weight - upper) + right * (weight - lower)
    root = np.sqrt(np.maximum(linear**2 - 8.0 * weight * left * right * total, 0.0))
    relevance = 2.0 * total / (linear + root)
    return np.minimum(left * relevance, _LARGEST), np.minimum(right * relevance, _LARGEST)


def sums_by(places: Numbers, values: Array, size: int = 0) -> Array:
    """Return the sum of values at each place.

    >>> sums_by(np.array([0, 2, 0]), np.array([1.0, 2.0, 3.0]), 4)
    array([4., 0., 2., 0.])
    """
    return np.bincount(places, values, size).astype(np.float64, copy=False)


def poisson_counts(uniforms: Array) -> Array:
    """Return counts with Poisson's distribution of mean 1 from uniform numbers.

    >>> poisson_counts(np.array([0.1, 0.5, 0.95, 0.9999]))
    array([0., 1., 3., 6.])
    """
    return np.searchsorted(poisson.cdf(np.arange(20), 1.0), uniforms).astype(np.float64)


def log_interval(logs: Array, samples: Array | None, level: float) -> tuple[Array, Array]:
    """Return the ends of intervals of exp(logs), symmetric on the log scale; NaN without samples."""
    if samples is None:
        return np.full(logs.size, np.nan), np.full(logs.size, np.nan)
    half = norm.ppf(0.5 + level / 2.0) * samples.std(0, ddof=1)
    return np.exp(logs - half), np.exp(logs + half)


def spans(positions: Numbers) -> str:
    """Write positions as ranges.

    >>> spans(np.array([1, 2, 3, 7]))
    '1 to 3, 7'
    """
    runs = np.split(positions, np.flatnonzero(np.diff(positions) > 1) + 1)
    return ", ".join(f"{run[0]} to {run[-1]}" if run.size > 1 else str(run[0]) for run in runs)


def _groups(log: Log, n_sums: int) -> tuple[Numbers, NDArray[np.uint64]]:
    """Return the group of each query, by a hash of its id, and the names of the groups."""
    words = hashed_ids(log.query_ids)
    most = int(np.clip(_MOST_SUMS // max(n_sums, 1), 256, _MOST_GROUPS))
    if log.n_queries <= most:
        return np.arange(log.n_queries), words
    mixed = (words * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
    return (mixed % np.uint64(most)).astype(np.int64), np.arange(most, dtype=np.uint64)
