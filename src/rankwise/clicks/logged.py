"""The rows of a log as off-policy estimators read them, and what they must hold for each estimator."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.arrays import Array
from rankwise.clicks.bias import Bias
from rankwise.clicks.exposure import query_impressions, query_of_pair
from rankwise.clicks.log import Log

_ROUNDING = 1e-6  # of probabilities that add up to 1
_Numbers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class LoggedRows:
    """Rows of a log that are added up by *units*, which are independent of each other: queries or users.

    Rows belong to *lists*: impressions, or, of a log without them, all impressions of a query as one.
    """

    pairs: _Numbers
    positions: _Numbers
    segments: _Numbers
    """The number of each row's segment in the bias; −1 for its common curve."""
    weights: Array
    """How often each row was shown."""
    clicks: Array
    probabilities: Array
    """With which rows were drawn; empty without them."""
    lists: _Numbers
    """The list of each row."""
    queries: _Numbers
    """The query of each list."""
    units: _Numbers
    """The unit of each list."""
    traffic: Array
    """The impressions of each list."""

    @classmethod
    def of(cls, log: Log, by: str, bias: Bias | None = None) -> Self:
        """Read the cells of a log, for units that are queries, or its impressions one by one."""
        if check.choice("unit of intervals (by)", by, ("query", "user")) == "query":
            numbers = np.arange(log.n_queries)
            return cls(
                pairs=log.pairs,
                positions=log.positions,
                segments=_segment_numbers(log, bias)[log.segments],
                weights=log.impressions,
                clicks=log.clicks,
                probabilities=np.empty(0) if log.probabilities is None else log.probabilities,
                lists=log.queries,
                queries=numbers,
                units=numbers,
                traffic=query_impressions(log),
            )
        users = None if log.sessions is None else log.sessions.users
        if users is None:
            raise check.error(
                "intervals by user need a log with impressions one by one and their users",
                got="a log without " + ("sessions" if log.sessions is None else "users"),
                hint='name the column of users in rw.clicks.read(…, user=…), or compare with by="query"',
            )
        return cls.of_sessions(log, bias, users)

    @classmethod
    def of_sessions(cls, log: Log, bias: Bias | None = None, users: _Numbers | None = None) -> Self:
        """Read impressions one by one; units are users, or queries without them."""
        if (sessions := log.sessions) is None:
            raise _no_sessions()
        lists = np.repeat(np.arange(sessions.n_impressions), np.diff(sessions.offsets))
        queries, chances = query_of_pair(log)[sessions.pairs[sessions.offsets[:-1]]], sessions.probabilities
        return cls(
            pairs=sessions.pairs.astype(np.int64),
            positions=sessions.positions.astype(np.int64),
            segments=_segment_numbers(log, bias)[sessions.segments[lists]],
            weights=sessions.weights[lists],
            clicks=sessions.weights[lists] * sessions.clicked,
            probabilities=np.empty(0) if chances is None else chances.astype(np.float64),
            lists=lists,
            queries=queries,
            units=queries if users is None else users,
            traffic=sessions.weights,
        )

    def by_unit(self, of_rows: Array, of_queries: Array | float = 0.0) -> Array:
        """Add up values of rows, and of each impression the value of its query, by unit."""
        totals = np.bincount(self.units[self.lists], of_rows, self.n_units)
        of_lists = np.broadcast_to(of_queries, int(self.queries.max()) + 1)[self.queries]
        return np.asarray(totals + np.bincount(self.units, self.traffic * of_lists, self.n_units))

    @property
    def n_units(self) -> int:
        """Number of queries or users."""
        return int(self.units.max()) + 1

    @property
    def unit_traffic(self) -> Array:
        """The impressions of each unit."""
        return np.asarray(np.bincount(self.units, self.traffic, self.n_units), np.float64)


def require_item_probabilities(log: Log) -> None:
    """Raise unless the log has the probability of each document at its position, before the list is drawn."""
    probabilities = _probabilities(log, log.probabilities, log.rankers, "of each document at its position")
    shape = log.n_queries, len(log.ranker_names), len(log.segment_names), log.n_positions + 1
    keys = np.ravel_multi_index((log.queries, log.rankers, log.segments, log.positions), shape)
    _, cells = np.unique(keys, return_inverse=True)
    largest = np.bincount(cells, probabilities).max(initial=0.0)
    if largest > 1.0 + _ROUNDING:
        raise check.error(
            "probabilities of documents at one position must add up to at most 1 in a query",
            got=f"a sum of {largest:.3g}, as probabilities of a document given those above it have",
            hint='use estimator="cascade", or log the probability of the document at the position, before any is drawn',
        )


def require_whole_lists(log: Log) -> None:
    """Raise unless impressions are one by one, from the first position, with conditional probabilities."""
    if (sessions := log.sessions) is None:
        raise _no_sessions()
    sizes = np.diff(sessions.offsets)
    lists = np.repeat(np.arange(sizes.size), sizes)
    _probabilities(
        log, sessions.probabilities, sessions.rankers[lists].astype(np.int64), "of each document given those above it"
    )
    gaps = sessions.positions != np.arange(lists.size) - sessions.offsets[lists] + 1
    if gaps.any():
        raise check.error(
            "a cascade needs lists from the first position on without gaps",
            got=f"{np.unique(lists[gaps]).size:,} of {sizes.size:,} impressions with gaps",
            hint='leave them out, or use estimator="position"',
        )


def _probabilities(log: Log, values: Array | NDArray[np.float32] | None, rankers: _Numbers, which: str) -> Array:
    """Return logging probabilities; raise where they are absent, 0, or those of a ranker that draws nothing."""
    if values is None:
        raise _no_probabilities(which)
    if not ((values > 0.0) & (values <= 1.0 + _ROUNDING)).all():
        got = f"values from {values.min():g} to {values.max():g}"
        raise check.error("logging probabilities of what was shown must be above 0 and at most 1", got=got)
    for number, name in enumerate(log.ranker_names):
        if (values[rankers == number] == 1.0).all():
            raise check.error(
                "rankers that always show the same list leave no estimator but the position-based one",
                got=f"ranker {name!r}, whose probabilities are all 1",
                hint='use estimator="position", or leave its impressions out with log.only(rankers=…)',
            )
    return values.astype(np.float64)


def _no_sessions() -> ValueError:
    hint = "read the log with `sessions=True`"
    return check.error("this needs impressions one by one", got="a log without sessions", hint=hint)


def _no_probabilities(which: str) -> ValueError:
    return check.error(
        f"this estimator needs the probability {which}, with which the logging ranker drew it",
        got="a log without probabilities",
        hint='rankers that always show the same list leave estimator="position"; of others, name the column in '
        "rw.clicks.read(…, probability=…)",
    )


def _segment_numbers(log: Log, bias: Bias | None) -> _Numbers:
    """Return the number in the bias of each segment of the log, found by name, or −1."""
    numbers = {} if bias is None else {name: number for number, name in enumerate(bias.segment_names)}
    return np.array([numbers.get(name, -1) for name in log.segment_names])
