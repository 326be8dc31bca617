"""The rows of a log as off-policy estimators read them, and what they must hold for each estimator."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.base.arrays import Array, offsets_of
from rankwise.wings.clicks.logs.log import Log
from rankwise.wings.clicks.off_policy.exposure import ROUNDING, query_impressions
from rankwise.wings.clicks.positions.bias import Bias

_Numbers = NDArray[np.int64]


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
            return cls(
                pairs=log.pairs,
                positions=log.positions,
                segments=segments[log.segments],
                rankers=log.rankers,
                weights=log.impressions,
                clicks=log.clicks,
                lists=log.queries,
                queries=numbers,
                units=numbers,
                traffic=query_impressions(log),
                probabilities=np.empty(0),
            )
        sessions = log.one_by_one()
        if by == "user" and sessions.users is None:
            hint = "`set user=…`, the column of users, where the log is read, or `by='query'`"
            raise check.error("intervals by user need the users of impressions", got="a log without users", hint=hint)
        lists = np.repeat(np.arange(sessions.n_impressions), np.diff(sessions.offsets))
        queries, chances = log.query_of_pair[sessions.pairs[sessions.offsets[:-1]]], sessions.probabilities
        return cls(
            pairs=sessions.pairs.astype(np.int64),
            positions=sessions.positions.astype(np.int64),
            segments=segments[sessions.segments[lists]],
            rankers=sessions.rankers[lists].astype(np.int64),
            weights=sessions.weights[lists],
            clicks=sessions.weights[lists] * sessions.clicked,
            lists=lists,
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
