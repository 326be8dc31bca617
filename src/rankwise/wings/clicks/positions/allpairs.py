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
from scipy.special import xlog1py, xlogy
from scipy.stats import poisson

from rankwise import Stream
from rankwise.base.arrays import Array
from rankwise.base.stream import hashed_ids
from rankwise.wings.clicks.logs.log import Log
from rankwise.wings.clicks.logs.position_pairs import Gap, gap_of

_MOST_GROUPS = 4096  # more queries than that are resampled in groups
_MOST_SUMS = 2**21  # groups times pairs of positions, by segment
_FARTHEST = 20.0  # of a logarithm from 0: e^20 is beyond any curve
_SMALLEST = 1e-300
_MOST_STEPS, _LAST_STEP = 50, 1e-9
_LARGEST = 1.0 - 1e-15  # of a click rate
_LBFGS = {"gtol": 1e-11, "ftol": 1e-16, "maxiter": 1000, "maxcor": 20}

Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PositionCounts:
    """Impressions and clicks by unit and position, over all rankers.

    A unit keeps its relevance: a document of a query, or a query whose documents were shuffled. In two segments it is
    two units: who sees a page in one may click more than who sees it in another.
    """

    units: Numbers
    """The unit of each row, sorted; positions are sorted within a unit."""
    positions: Numbers
    """From 0."""
    shown: Array
    clicks: Array
    cells: Numbers
    """A cell of each unit in the log."""
    queries: Numbers
    """The query of each unit."""
    n_positions: int
    n_queries: int

    @classmethod
    def of(cls, log: Log, items: Numbers) -> Self:
        """Add up the cells of a log; ``items`` has the number of each cell's document or query."""
        shown = np.flatnonzero(log.impressions > 0)
        keys = (items * len(log.segment_names) + log.segments) * log.n_positions + log.positions - 1
        rows, cells, row_of_cell = np.unique(keys[shown], return_index=True, return_inverse=True)
        _, first, units = np.unique(rows // log.n_positions, return_index=True, return_inverse=True)
        impressions, clicks = (sums_by(row_of_cell, column[shown]) for column in (log.impressions, log.clicks))
        cells = shown[cells[first]]
        positions = rows % log.n_positions
        return cls(units, positions, impressions, clicks, cells, log.queries[cells], log.n_positions, log.n_queries)

    def by_position(self, column: Array) -> Array:
        """Return sums by position."""
        return sums_by(self.positions, column, self.n_positions)

    def by_query(self, column: Array) -> Array:
        """Return sums by query and position."""
        places = self.queries[self.units] * self.n_positions + self.positions
        return sums_by(places, column, self.n_queries * self.n_positions).reshape(-1, self.n_positions)

    def by_unit(self, column: Array) -> Array:
        """Return the sum of each row's unit."""
        return sums_by(self.units, column)[self.units]


@dataclass(frozen=True, eq=False)
class PositionSwaps:
    """Sums over units that were shown at both positions of a pair."""

    first: Numbers
    """The first position of each pair, from 0."""
    second: Numbers
    sums: Array
    """Segment × group of queries × pair × (weight, clicks at the first, clicks at the second position)."""
    words: NDArray[np.uint64]
    """The name of each group in random streams."""
    positions: Numbers
    """Those that were shown, from 1."""
    n_positions: int

    @classmethod
    def of(cls, log: Log, items: Numbers, *, by_segment: bool = False) -> Self:
        """Add up the swaps of a log; ``items`` as in :meth:`PositionCounts.of`."""
        counts = PositionCounts.of(log, items)
        units, positions, shown, clicks = counts.units, counts.positions, counts.shown, counts.clicks
        number = np.zeros((log.n_positions, log.n_positions), np.int64)
        first, second = np.triu_indices(log.n_positions, 1)
        number[first, second] = np.arange(first.size)
        n_segments = len(log.segment_names) if by_segment else 1
        groups, words = groups_of(log, first.size * n_segments)
        rows = groups[counts.queries] + words.size * (log.segments[counts.cells] if by_segment else 0)
        sums = np.zeros((n_segments * words.size * first.size, 3))
        for lag in range(1, log.n_positions):
            upper = np.flatnonzero(units[lag:] == units[:-lag])
            lower = upper + lag
            place = rows[units[upper]] * first.size + number[positions[upper], positions[lower]]
            share = 1.0 / (shown[upper] + shown[lower])
            columns = (shown[upper] * shown[lower], clicks[upper] * shown[lower], clicks[lower] * shown[upper])
            for j, column in enumerate(columns):
                sums[:, j] += sums_by(place, column * share, len(sums))
        table = sums.reshape(n_segments, words.size, first.size, 3)
        return cls(first, second, table, words, np.unique(positions) + 1, log.n_positions)

    def clicks(self, sums: Array) -> Array:
        """Return clicks by position of sums by pair."""
        upper, lower = sums_by(self.first, sums[:, 1], self.n_positions), sums_by(self.second, sums[:, 2])
        return upper + lower

    @property
    def gap(self) -> Gap | None:
        """What is missing to compare all positions."""
        shown, clicks = np.zeros((2, self.n_positions, self.n_positions))
        total, places = self.sums.sum((0, 1)), self.positions - 1
        for first, second, column in ((self.first, self.second, 1), (self.second, self.first, 2)):
            shown[first, second], clicks[first, second] = total[:, 0], total[:, column]
        return gap_of(self.positions, shown[np.ix_(places, places)], clicks[np.ix_(places, places)])

    def fit(self, sums: Array, center: Array | None = None, ridge: float = 0.0) -> Array:
        """Return log θ, 0 at the first position, from sums by pair; ``ridge`` pulls it to ``center``."""
        middle = np.zeros(self.n_positions) if center is None else center
        if self.n_positions == 1:
            return np.zeros(1)
        scale = 1.0 / max(float(sums[:, 1:].sum()), 1.0)

        def loss(free: Array) -> tuple[float, Array]:
            logs = np.append(0.0, free)
            value, gradient, _ = self.likelihood(logs, sums)
            gap = logs - middle
            return float(scale * (0.5 * ridge * gap @ gap - value)), (scale * (ridge * gap - gradient))[1:]

        ends = [(-_FARTHEST, _FARTHEST)] * (self.n_positions - 1)
        solution = minimize(loss, middle[1:], jac=True, method="L-BFGS-B", bounds=ends, options=_LBFGS)
        return np.append(0.0, solution.x)

    def resampled(self, logs: Array, samples: int, stream: Stream) -> Array:
        """Return log θ of samples of queries with replacement, by Newton's method from ``logs``, all at once."""
        times = poisson_counts(self.words, samples, stream)
        sums = (times @ self.sums.sum(0).reshape(self.words.size, -1)).reshape(samples, self.first.size, 3)
        logs = np.tile(logs, (samples, 1))
        for _ in range(_MOST_STEPS):
            _, gradient, spring = self.likelihood(logs, sums)
            matrix = np.zeros((samples, self.n_positions, self.n_positions))
            matrix[:, self.first, self.second] = matrix[:, self.second, self.first] = -spring
            total = -matrix.sum(2)
            matrix += (total + 1e-9 * total.sum(1, keepdims=True))[:, :, None] * np.eye(self.n_positions)
            steps = np.linalg.solve(matrix[:, 1:, 1:], gradient[:, 1:, None])[..., 0].clip(-1.0, 1.0)
            logs[:, 1:] = (logs[:, 1:] + steps).clip(-_FARTHEST, _FARTHEST)
            if np.abs(steps).max(initial=0.0) < _LAST_STEP:
                break
        return logs

    def likelihood(self, logs: Array, sums: Array) -> tuple[Array, Array, Array]:
        """Return the log-likelihood at the best relevance of each pair of positions, and its gradient by log θ.

        The third is the expected information of each pair, a spring between its positions. Rows of ``logs`` and
        ``sums`` may be several.
        """
        places, weight = np.eye(self.n_positions), sums[..., 0]
        left, right = np.exp(logs[..., self.first]), np.exp(logs[..., self.second])
        total = np.maximum(sums[..., 1] + sums[..., 2], _SMALLEST)  # without a click relevance is 0, and any θ as good
        # The smaller root of a quadratic, at which both click rates are below 1.
        linear = _SMALLEST + total * (left + right) + left * (weight - sums[..., 1]) + right * (weight - sums[..., 2])
        root = np.sqrt(np.maximum(linear**2 - 8.0 * weight * left * right * total, 0.0))
        relevance = 2.0 * total / (linear + root)
        value, gradient, springs = np.zeros(logs.shape[:-1]), np.zeros_like(logs), []
        for side, (alpha, position) in enumerate(((left, self.first), (right, self.second)), start=1):
            rate = np.minimum(alpha * relevance, _LARGEST)
            odds, clicked = rate / (1.0 - rate), sums[..., side]
            missed = weight - clicked
            value += (xlogy(clicked, rate) + xlog1py(missed, -rate)).sum(-1)
            gradient += (clicked - missed * odds) @ places[position]
            springs.append(weight * odds + _SMALLEST)
        return value, gradient, springs[0] * springs[1] / (springs[0] + springs[1])


def poisson_counts(ids: NDArray[np.generic], samples: int, stream: Stream) -> Array:
    """Return how often each id is in each sample with replacement, in any order of the ids."""
    uniforms = Stream(stream.seed, query_ids=ids, path=stream.path).per_query(ids.size, samples)
    return np.searchsorted(poisson.cdf(np.arange(20), 1.0), uniforms).astype(np.float64).T


def sums_by(places: Numbers, values: Array, size: int = 0) -> Array:
    """Return the sum of values at each place.

    >>> sums_by(np.array([0, 2, 0]), np.array([1.0, 2.0, 3.0]), 4)
    array([4., 0., 2., 0.])
    """
    return np.bincount(places, values, size).astype(np.float64, copy=False)


def groups_of(log: Log, n_sums: int) -> tuple[Numbers, NDArray[np.uint64]]:
    """Return the group of each query, by a hash of its id, and the names of the groups."""
    words = hashed_ids(log.query_ids)
    most = int(np.clip(_MOST_SUMS // max(n_sums, 1), 256, _MOST_GROUPS))
    if log.n_queries <= most:
        return np.arange(log.n_queries), words
    mixed = (words * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
    return (mixed % np.uint64(most)).astype(np.int64), np.arange(most, dtype=np.uint64)
