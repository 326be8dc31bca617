"""What off-policy estimators read of a log: its rows, and how often users look at its documents.

Exposure is as displayed, or as expected of the logging rankers before they draw.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import RankingDataset, check
from rankwise.base.arrays import Array, Keywords, offsets_of, read_only
from rankwise.base.compiling import kernel
from rankwise.base.threads import over_queries
from rankwise.evaluation import Scored, scores_of
from rankwise.objectives import sample_rankings
from rankwise.wings.clicks.logs.log import Log
from rankwise.wings.clicks.positions.bias import Bias

_Numbers = NDArray[np.int64]
Policy = ArrayLike | Mapping[str, Scored]
"""The logging policy: probabilities of pairs by position, or the scores by which rankers, by name, draw rankings."""

ROUNDING = 1e-6
"""Of probabilities that add up to 1."""
_SAMPLES = 200  # drawn rankings; each counts with the probabilities of all documents at each of its positions


@dataclass(frozen=True, kw_only=True, eq=False)
class LoggedRows:
    """Rows of a log that are added up by *units*, which are independent of each other: queries or users.

    Rows belong to *lists*: impressions, or all impressions of a query as one.
    """

    pairs: _Numbers
    positions: _Numbers
    segments: _Numbers
    """The number of each row's segment in the bias; −1 for its common curve."""
    rankers: _Numbers
    """The number of each row's ranker in the log."""
    weights: Array
    """How often each row was shown."""
    clicks: Array
    lists: _Numbers
    """The list of each row."""
    queries: _Numbers
    """The query of each list."""
    units: _Numbers
    """The unit of each list."""
    traffic: Array
    """The impressions of each list."""
    probabilities: Array
    """With which rows were drawn; empty without them."""

    @classmethod
    def of(cls, log: Log, by: str, bias: Bias | None = None, *, one_by_one: bool = False) -> Self:
        """Read the cells of a log, or its impressions one by one; units are queries, or users with ``by="user"``."""
        check.choice("unit of intervals (by)", by, ("query", "user"))
        names = () if bias is None else bias.segment_names
        segments = np.array([names.index(name) if name in names else -1 for name in log.segment_names])
        if by == "query" and not one_by_one:
            numbers = np.arange(log.n_queries)
            rows: Keywords = {"pairs": log.pairs, "positions": log.positions, "rankers": log.rankers}
            rows |= {"weights": log.impressions, "clicks": log.clicks, "segments": segments[log.segments]}
            lists: Keywords = {"queries": numbers, "units": numbers, "traffic": query_impressions(log)}
            return cls(lists=log.queries, probabilities=np.empty(0), **rows, **lists)
        sessions = log.one_by_one()
        if by == "user" and sessions.users is None:
            hint = "`set user=…`, the column of users, where the log is read, or `by='query'`"
            raise check.error("intervals by user need the users of impressions", got="a log without users", hint=hint)
        list_of_row = np.repeat(np.arange(sessions.n_impressions), np.diff(sessions.offsets))
        queries, chances = log.query_of_pair[sessions.pairs[sessions.offsets[:-1]]], sessions.probabilities
        return cls(
            pairs=sessions.pairs.astype(np.int64),
            positions=sessions.positions.astype(np.int64),
            segments=segments[sessions.segments[list_of_row]],
            rankers=sessions.rankers[list_of_row].astype(np.int64),
            weights=sessions.weights[list_of_row],
            clicks=sessions.weights[list_of_row] * sessions.clicked,
            lists=list_of_row,
            queries=queries,
            units=queries if by == "query" or sessions.users is None else sessions.users,
            traffic=sessions.weights,
            probabilities=np.empty(0) if chances is None else chances.astype(np.float64),
        )

    @classmethod
    def drawn(cls, log: Log, by: str, bias: Bias | None = None) -> Self:
        """Read impressions one by one with the probabilities of their rows; raise where rankers draw nothing."""
        shown = cls.of(log, by, bias, one_by_one=True)
        chances = shown.probabilities
        if not chances.size:
            raise check.error(
                "this estimator needs the probabilities with which the logging ranker drew the documents",
                got="a log without probabilities",
                hint='rankers that always show the same list leave estimator="position"; of others, name the column in '
                "rw.clicks.read(…, probability=…)",
            )
        if not ((chances > 0.0) & (chances <= 1.0 + ROUNDING)).all():
            got = f"values from {chances.min():g} to {chances.max():g}"
            raise check.error("logging probabilities of what was shown must be above 0 and at most 1", got=got)
        for number, name in enumerate(log.ranker_names):
            if log.sessions is not None and (chances[log.sessions.rankers[shown.lists] == number] == 1.0).all():
                raise check.error(
                    "rankers that always show the same list leave no estimator but the position-based one",
                    got=f"ranker {name!r}, whose probabilities are all 1",
                    hint='use estimator="position", or leave its impressions out with log.only(rankers=…)',
                )
        return shown

    def by_unit(self, of_rows: Array, of_queries: Array | None = None) -> Array:
        """Add up values of rows, and of each impression the value of its query, by unit."""
        totals: Array = np.asarray(np.bincount(self.units[self.lists], of_rows, self.unit_traffic.size), np.float64)
        if of_queries is not None:
            totals = totals + self.of_queries(of_queries)
        return totals

    def of_queries(self, values: Array) -> Array:
        """Add up, of each impression, the value of its query, by unit."""
        return np.asarray(np.bincount(self.units, self.traffic * values[self.queries]), np.float64)

    @property
    def unit_traffic(self) -> Array:
        """The impressions of each unit."""
        return np.asarray(np.bincount(self.units, self.traffic), np.float64)


def require_item_probabilities(log: Log) -> None:
    """Raise where probabilities are not those of each document at its position, before the list is drawn."""
    shape = log.n_queries, len(log.ranker_names), len(log.segment_names), log.n_positions + 1
    keys = np.ravel_multi_index((log.queries, log.rankers, log.segments, log.positions), shape)
    _, cells = np.unique(keys, return_inverse=True)
    largest = np.bincount(cells, log.probabilities).max(initial=0.0)
    if largest > 1.0 + ROUNDING:
        raise check.error(
            "probabilities of documents at one position must add up to at most 1 in a query",
            got=f"a sum of {largest:.3g}, as probabilities of a document given those above it have",
            hint='use estimator="cascade", or log the probability of the document at the position, before any is drawn',
        )


def require_lists_without_gaps(shown: LoggedRows) -> None:
    """Raise unless lists start at the first position and have all positions up to their last."""
    sizes = np.bincount(shown.lists)
    gaps = shown.positions != np.arange(shown.lists.size) - offsets_of(sizes)[shown.lists] + 1
    if gaps.any():
        raise check.error(
            "a cascade needs lists from the first position on without gaps",
            got=f"{np.unique(shown.lists[gaps]).size:,} of {sizes.size:,} impressions with gaps",
            hint='leave them out, or use estimator="position"',
        )


def query_impressions(log: Log) -> Array:
    """Return the number of impressions of each query.

    Without sessions these are, for each ranker, the impressions of the position that was shown most often.

    >>> import polars as pl
    >>> rows = {"query": list("aab"), "document": list("xyx"), "impression": [1, 1, 2], "position": [1, 2, 1]}
    >>> query_impressions(Log.from_rows(pl.LazyFrame(rows | {"clicked": [0, 1, 0]})))
    array([1., 1.])
    """
    if (sessions := log.sessions) is not None:
        queries = log.query_of_pair[sessions.pairs[sessions.offsets[:-1]]]
        return np.asarray(np.bincount(queries, sessions.weights, log.n_queries), np.float64)
    rankers = range(len(log.ranker_names))
    return np.asarray(sum(_by_position(log, log.impressions * (log.rankers == one)).max(axis=1) for one in rankers))


def logging_exposure(
    log: Log, data: RankingDataset, rows: NDArray[np.int64], alpha: Array, policy: Policy, seed: int
) -> Array:
    """Return Σ of α over the impressions of each pair's query, as expected before rankings are drawn.

    ``alpha`` is that of each cell. Rankers without a policy count as they displayed the documents.
    """
    weights = log.impressions * alpha
    if not isinstance(policy, Mapping):
        return np.asarray((_checked(policy, log) * _by_position(log, weights)[log.query_of_pair]).sum(axis=1))
    for name in policy:
        check.choice("ranker in the log", name, log.ranker_names)
    numbers = [log.ranker_names.index(name) for name in policy]
    displayed = ~np.isin(log.rankers, numbers)
    exposure = np.asarray(np.bincount(log.pairs, weights * displayed, log.n_pairs), np.float64)
    query_in_data = np.repeat(np.arange(data.n_queries), data.sizes)[rows[log.offsets[:-1]]]
    for number, (name, system) in zip(numbers, policy.items(), strict=True):
        by_position = np.zeros((data.n_queries, log.n_positions))
        by_position[query_in_data] = _by_position(log, weights * (log.rankers == number))
        scores = check.document_values(f"scores of {name!r}", scores_of(system, data), data.offsets)
        ranks = np.minimum(data.sizes, log.n_positions)
        stream = data.stream(seed).child("logging_policy", number)
        rankings = sample_rankings(scores, data.offsets, stream, _SAMPLES, log.n_positions)
        expected, arrays = np.zeros(data.n_docs), (scores, by_position, rankings, offsets_of(ranks))
        work = 4.0 * _SAMPLES * data.sizes * ranks
        over_queries(_add_chances, data.offsets, *map(read_only, arrays), expected, work=work)
        exposure += expected[rows]
    return exposure


def _by_position(log: Log, values: Array) -> Array:
    shape = log.n_queries, log.n_positions
    keys = log.queries * log.n_positions + log.positions - 1
    return np.asarray(np.bincount(keys, values, shape[0] * shape[1]), np.float64).reshape(shape)


def _checked(policy: ArrayLike, log: Log) -> Array:
    array: Array = np.asarray(policy, np.float64)
    shape = (log.n_pairs, log.n_positions)
    if array.shape != shape:
        raise check.error(
            "probabilities must be an array of pairs and positions, or the scores of rankers by name",
            got=f"shape {array.shape} where the log has {shape[0]:,} pairs and {shape[1]} positions",
        )
    totals = np.add.reduceat(array, log.offsets[:-1])
    if not (array >= 0.0).all() or not (totals <= 1.0 + ROUNDING).all():
        raise check.error(
            "probabilities of documents at a position must be at least 0 and add up to at most 1 in a query",
            got=f"{array.min():g} to {array.max():g}, with sums of up to {totals.max():g}",
            hint="they are those before the ranking is drawn, not given the documents above",
        )
    return array


@kernel
def _add_chances(first, last, offsets, scores, by_position, rankings, rank_offsets, expected):  # type: ignore[no-untyped-def]
    """Add the probability of every document at every position, given the documents above it in drawn rankings."""
    for q in range(first, last):
        ranks = rank_offsets[q + 1] - rank_offsets[q]
        if ranks == 0 or by_position[q].max() <= 0.0:
            continue
        for sample in range(rankings.shape[0]):
            left = scores[offsets[q] : offsets[q + 1]].copy()
            for k in range(ranks):
                chances = np.exp(left - left.max())
                share = by_position[q, k] / (chances.sum() * rankings.shape[0])
                for d in range(left.size):
                    expected[offsets[q] + d] += share * chances[d]
                left[rankings[sample, rank_offsets[q] + k]] = -np.inf
