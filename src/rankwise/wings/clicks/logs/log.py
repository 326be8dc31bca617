"""A click log: what was shown where, how often, and how often it was clicked."""

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self, cast

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from rankwise import RankingDataset, check
from rankwise.base import threads
from rankwise.base.arrays import Array, Column, Keywords, Offsets, read_only
from rankwise.data.io import Table, as_polars
from rankwise.wings.clicks.logs.examination import Examination, examine
from rankwise.wings.clicks.logs.findings import robots
from rankwise.wings.clicks.logs.sessions import Days, Sessions

KEYS = ("query", "document", "position", "ranker", "segment")
"""Columns by which rows are added up."""
_SHOWN, _NAMED = 3, 12  # examples and columns in an error


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Log:
    """Impressions and clicks, added up by query, document, position, ranker and segment.

    A *pair* is a document that was shown for a query. Pairs of a query follow each other, as documents do in
    :class:`rankwise.RankingDataset`; queries and documents are sorted by their ids, so that the order of rows in a log
    does not matter. A *cell* is a pair at one position, shown by one ranker in one segment; cells are sorted by pair.
    """

    query_ids: Column
    """One per query."""
    offsets: Offsets
    """Where the pairs of each query begin."""
    document_ids: Column
    """One per pair."""
    pairs: NDArray[np.int64]
    """The pair of each cell."""
    positions: NDArray[np.int64]
    """The position of each cell, from 1."""
    rankers: NDArray[np.int64]
    """The number of each cell's ranker in ``ranker_names``."""
    segments: NDArray[np.int64]
    """The number of each cell's segment in ``segment_names``."""
    impressions: Array
    """How often each cell was shown: the sum of weights."""
    clicks: Array
    """How often each cell was clicked: the sum of weights."""
    probabilities: Array | None = None
    """The probability with which the ranker shows the document at this position, where the log has it."""
    ranker_names: tuple[str, ...] = ("",)
    segment_names: tuple[str, ...] = ("",)
    sessions: Sessions | None = None
    """The impressions one by one, where they were kept."""
    days: Days | None = None
    """Cells by day, where the log has times."""
    notes: tuple[str, ...] = ()
    """What reading found: rows that were left out with their number, positions that were counted from 0."""
    id_columns: tuple[str, str] = ("query", "document")
    """How the columns of queries and documents were called, which frames of features and scores have too."""

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.query_ids)

    @property
    def n_pairs(self) -> int:
        """Number of documents, counted for each query in which they were shown."""
        return len(self.document_ids)

    @property
    def n_positions(self) -> int:
        """The last position."""
        return int(self.positions.max(initial=0))

    @functools.cached_property
    def n_impressions(self) -> float:
        """Number of lists that were shown, or its estimate: documents at the position that was shown most often."""
        if self.sessions is not None:
            return float(self.sessions.weights.sum())
        return float(np.bincount(self.positions, self.impressions).max(initial=0.0))

    @functools.cached_property
    def query_of_pair(self) -> NDArray[np.int64]:
        """The number of each pair's query."""
        numbers: NDArray[np.int64] = np.repeat(np.arange(self.n_queries), np.diff(self.offsets))
        return numbers

    @functools.cached_property
    def queries(self) -> NDArray[np.int64]:
        """The query of each cell."""
        return self.query_of_pair[self.pairs]

    @functools.cached_property
    def robots(self) -> NDArray[np.bool_]:
        """Whether each user clicks more often than the spread of users explains; empty without users.

        ``log.only(users=~log.robots)`` leaves them out.
        """
        return read_only(robots(self.sessions)) if self.sessions is not None else np.zeros(0, np.bool_)

    def __repr__(self) -> str:
        """Describe the log in a line.

        >>> rows = {"query": ["q", "q"], "document": ["a", "b"], "impression": [1, 1], "position": [1, 2]}
        >>> Log.from_rows(pl.LazyFrame(rows | {"clicked": [0, 1]}))
        Log(1 impressions, 1 queries, 2 pairs, 1 rankers, positions 1 to 2, 0.5000 clicks a document)
        """
        rate = self.clicks.sum() / max(self.impressions.sum(), 1.0)
        segments = f", {len(self.segment_names)} segments" if len(self.segment_names) > 1 else ""
        return (
            f"Log({self.n_impressions:,.0f} impressions, {self.n_queries:,} queries, {self.n_pairs:,} pairs, "
            f"{len(self.ranker_names)} rankers{segments}, positions {self.positions.min(initial=self.n_positions)} to "
            f"{self.n_positions}, {rate:.4f} clicks a document)"
        )

    @classmethod
    def from_rows(
        cls, rows: pl.LazyFrame | Sequence[pl.LazyFrame], *, sessions: bool = True, notes: tuple[str, ...] = ()
    ) -> Self:
        """Add up checked rows; parts of a large log are added up one after another.

        Columns are ``query``, ``document``, ``impression``, ``position`` (from 1) and ``clicked`` (0 or 1), and
        optionally ``ranker``, ``segment``, ``user``, ``weight``, ``probability`` and ``day`` (since 1970). ``sessions``
        keeps the impressions too, which takes about 16 bytes a row.
        """
        threads.check_tables()
        parts = [rows] if isinstance(rows, pl.LazyFrame) else list(rows)
        schema = parts[0].collect_schema()
        fixed = {"ranker": pl.lit(""), "segment": pl.lit(""), "weight": pl.lit(1.0)}
        filled = {name: value for name, value in fixed.items() if name not in schema}
        parts = [part.with_columns(**filled) for part in parts]
        names = {key: pl.Series([""]) if key in filled else _distinct(parts, key) for key in KEYS}
        # Ids are replaced by their numbers in sorted order, and all of a cell's by one number: it takes 24 bytes then.
        numbers = {
            key: pl.col(key).cast(pl.String).cast(pl.Enum(values.cast(pl.String))).to_physical().cast(pl.UInt32)
            for key, values in names.items()
            if key != "position"
        }
        sizes = {key: len(values) for key, values in names.items()}
        sizes["position"] = 1 + cast("int", names["position"].max() or 0)
        first_day, sizes["day"] = _range(parts) if "day" in schema else (0, 1)
        if math.prod(sizes.values()) > np.iinfo(np.int64).max:
            hint = "read a part of the queries" + (", or leave the times out" if "day" in schema else "")
            raise check.error("a click log has too many ids to add it up", got=sizes, hint=hint)
        parts = [part.with_columns(**numbers) for part in parts]
        cell = functools.reduce(
            lambda number, key: number * sizes[key] + pl.col(key).cast(pl.Int64), KEYS, pl.lit(0, pl.Int64)
        )
        if "day" in schema:
            cell = cell * sizes["day"] + (pl.col("day") - first_day).cast(pl.Int64)
        weight = pl.col("weight").cast(pl.Float64)
        values = {"impressions": weight, "clicks": weight * pl.col("clicked").cast(pl.Float64)}
        if "probability" in schema:
            values["probability"] = weight * pl.col("probability").cast(pl.Float64)
        cells, sums = _sums(parts, cell, values)
        days: Days | None = None
        if "day" in schema:
            cells, number = np.divmod(cells, sizes["day"])
            firsts = np.diff(cells, prepend=-1) > 0
            columns = np.cumsum(firsts, dtype=np.int32) - np.int32(1), (number + first_day).astype(np.int32)
            days = Days(*map(read_only, (*columns, sums["impressions"], sums["clicks"])))
            cells, places = cells[firsts], np.flatnonzero(firsts)
            sums = {name: np.add.reduceat(column, places) for name, column in sums.items()}
        rest, segments = np.divmod(cells, sizes["segment"])
        rest, rankers = np.divmod(rest, sizes["ranker"])
        rest, positions = np.divmod(rest, sizes["position"])
        starts = np.diff(rest, prepend=-1) > 0
        queries, documents = np.divmod(rest[starts], sizes["document"])
        log = cls(
            query_ids=read_only(names["query"].to_numpy()),
            offsets=read_only(np.concatenate(([0], np.cumsum(np.bincount(queries))))),
            document_ids=read_only(names["document"].to_numpy()[documents]),
            pairs=read_only(np.cumsum(starts) - 1),
            positions=read_only(positions),
            rankers=read_only(rankers),
            segments=read_only(segments),
            impressions=read_only(sums["impressions"]),
            clicks=read_only(sums["clicks"]),
            probabilities=read_only(sums["probability"] / sums["impressions"]) if "probability" in schema else None,
            ranker_names=tuple(names["ranker"].cast(pl.String)),
            segment_names=tuple(names["segment"].cast(pl.String)),
            days=days,
            notes=notes,
        )
        if not sessions:
            return log
        pairs = {"query": queries, "document": documents, "pair": np.arange(queries.size, dtype=np.int32)}
        numbered = pl.LazyFrame(pairs).cast({"query": pl.UInt32, "document": pl.UInt32})
        return replace(log, sessions=Sessions.from_rows(pl.concat(parts).join(numbered, on=["query", "document"])))

    def to_frame(self) -> pl.DataFrame:
        """Return one row per cell: query, document, position, ranker, segment, impressions, clicks.

        >>> rows = {"query": ["q", "q"], "document": ["a", "b"], "impression": [1, 1], "position": [1, 2]}
        >>> Log.from_rows(pl.LazyFrame(rows | {"clicked": [0, 1]})).to_frame().drop("ranker", "segment").row(1)
        ('q', 'b', 2, 1.0, 1.0)
        """
        probabilities = {} if self.probabilities is None else {"probability": self.probabilities}
        return pl.DataFrame(
            {
                "query": self.query_ids[self.queries],
                "document": self.document_ids[self.pairs],
                "position": self.positions,
                "ranker": np.array(self.ranker_names, object)[self.rankers],
                "segment": np.array(self.segment_names, object)[self.segments],
                "impressions": self.impressions,
                "clicks": self.clicks,
                **probabilities,
            },
            schema_overrides={"ranker": pl.String, "segment": pl.String},
        )

    def one_by_one(self, what: str = "this needs", hint: str = "read the log with `sessions=True`") -> Sessions:
        """Return the impressions; raise where they were not kept."""
        if self.sessions is None:
            raise check.error(f"{what} impressions one by one", got="a log without sessions", hint=hint)
        return self.sessions

    def only(
        self,
        *,
        rankers: str | Iterable[str] | None = None,
        segments: str | Iterable[str] | None = None,
        positions: int | Iterable[int] | None = None,
        queries: ArrayLike | None = None,
        users: ArrayLike | None = None,
    ) -> "Log":
        """Return a part of the log: what reading only these rows returns.

        ``queries`` has a truth value for each query, ``users`` one for each of ``log.sessions.user_ids``. Rankers,
        segments, queries and users select whole impressions, positions the rows of impressions. Queries, pairs, rankers
        and segments without rows are left out, so that numbers of pairs change.

        >>> rows = {"query": ["q", "q"], "document": ["a", "b"], "impression": [1, 1], "position": [1, 2]}
        >>> log = Log.from_rows(pl.LazyFrame(rows | {"clicked": [0, 1]}))
        >>> log.only(positions=2)
        Log(1 impressions, 1 queries, 1 pairs, 1 rankers, positions 2 to 2, 1.0000 clicks a document)
        """
        mask = None
        if queries is not None:
            hint = "compare log.query_ids with what you look for, as np.isin(log.query_ids, names) does"
            mask = _mask(queries, "query", "queries", self.n_queries, hint)
        if users is not None:
            if self.sessions is None or self.sessions.user_ids is None:
                got, hint = "a log without them", "`set user=…` where the log is read, and sessions=True"
                raise check.error("this needs the users of impressions", got=got, hint=hint)
            hint = "compare log.sessions.user_ids with what you look for"
            rest = self._without(~_mask(users, "user", "users", self.sessions.user_ids.size, hint))
            mask = None if mask is None else mask[np.isin(self.query_ids, rest.query_ids)]
            return rest.only(rankers=rankers, segments=segments, positions=positions, queries=mask)
        sessions = self.sessions
        cells = np.ones(self.pairs.size, np.bool_)
        lists = np.ones(0 if sessions is None else sessions.n_impressions, np.bool_)
        for what, names, selected in (
            ("ranker", self.ranker_names, rankers),
            ("segment", self.segment_names, segments),
        ):
            if selected is not None:
                codes = _codes(what, names, selected)
                cells &= np.isin(getattr(self, f"{what}s"), codes)
                lists &= True if sessions is None else np.isin(getattr(sessions, f"{what}s"), codes)
        if mask is not None:
            cells &= mask[self.queries]
            lists &= True if sessions is None else mask[self.query_of_pair[sessions.pairs[sessions.offsets[:-1]]]]
        rows = None if sessions is None else np.repeat(lists, np.diff(sessions.offsets))
        if positions is not None:
            numbers = [positions] if isinstance(positions, int | np.integer) else list(positions)
            cells &= np.isin(self.positions, numbers)
            rows = None if rows is None or sessions is None else rows & np.isin(sessions.positions, numbers)
        return self.part(cells, rows)

    def _without(self, users: NDArray[np.bool_]) -> "Log":
        """Return the log without the impressions of these users: their sums are subtracted."""
        sessions = self.sessions
        if sessions is None or sessions.users is None or not users.any():
            return self
        sizes = np.diff(sessions.offsets)
        rows = np.repeat(users[sessions.users], sizes)
        lists = np.repeat(np.arange(sizes.size), sizes)[rows]
        widths = (self.n_positions + 1, len(self.ranker_names), len(self.segment_names))

        def key(pairs: Column, *codes: Column) -> NDArray[np.int64]:
            columns = zip(widths, codes, strict=True)
            return functools.reduce(lambda number, one: number * one[0] + one[1], columns, pairs.astype(np.int64))

        of_rows = sessions.pairs[rows], sessions.positions[rows], sessions.rankers[lists], sessions.segments[lists]
        cells = np.searchsorted(key(self.pairs, self.positions, self.rankers, self.segments), key(*of_rows))
        weights = sessions.weights[lists]

        def rest(column: Array, places: Column, values: Array) -> Array:
            left = column - np.bincount(places, values, column.size)
            return read_only(np.where(left > 1e-9 * column, left, 0.0))

        clicked = weights * sessions.clicked[rows]
        impressions, chances, days = rest(self.impressions, cells, weights), self.probabilities, self.days
        if chances is not None and sessions.probabilities is not None:
            sums = rest(chances * self.impressions, cells, weights * sessions.probabilities[rows])
            chances = read_only(sums / np.where(impressions > 0.0, impressions, 1.0))
        if days is not None and sessions.days is not None:
            span, first = int(np.ptp(days.days)) + 1, int(days.days.min())
            numbers = cells * span + sessions.days[lists] - first
            numbered = days.cells.astype(np.int64) * span + days.days - first
            places = np.searchsorted(numbered, numbers).clip(max=numbered.size - 1)
            same = numbered[places] == numbers  # not the rows after midnight
            shown = rest(days.impressions, places[same], weights[same])
            clicks = rest(days.clicks, places[same], clicked[same])
            remaining = shown > 0.0
            days = Days(
                read_only(days.cells[remaining]),
                read_only(days.days[remaining]),
                read_only(shown[remaining]),
                read_only(clicks[remaining]),
            )
        clicks = rest(self.clicks, cells, clicked)
        part = replace(self, impressions=impressions, clicks=clicks, probabilities=chances, days=days)
        return part.part(impressions > 0.0, ~rows)

    def examine(self) -> Examination:
        """Examine what this log can identify, how precisely at best, and what looks wrong in it.

        >>> rows = {"query": ["q", "q"], "document": ["a", "b"], "impression": [1, 1], "position": [1, 2]}
        >>> log = Log.from_rows(pl.LazyFrame(rows | {"clicked": [1, 1]}))
        >>> log.examine().findings[0].sentence
        'Every document was always at the same position (one deterministic ranker): what position and what relevance \
contribute to clicks cannot be told apart. Show some lists in another order.'
        """
        return examine(self)

    def documents(self, data: RankingDataset | Table) -> RankingDataset:
        """Return data with features as a data set: a frame has the log's ``id_columns``, a row for each document.

        >>> rows = {"query": ["q", "q"], "document": ["a", "b"], "impression": [1, 1], "position": [1, 2]}
        >>> log = Log.from_rows(pl.LazyFrame(rows | {"clicked": [0, 1]}))
        >>> log.documents(pl.DataFrame({"query": ["q", "q"], "document": ["a", "b"], "bm25": [2.0, 0.5]})).feature_names
        ('bm25',)
        """
        if isinstance(data, RankingDataset):
            return data
        frame, _ = as_polars(data)
        present, (query, document) = frame.collect_schema().names(), self.id_columns
        if not {query, document} <= set(present):
            raise check.error(
                f"a frame of features must have the log's columns {query} and {document}",
                got=f"columns {', '.join(present[:_NAMED])}{', …' if len(present) > _NAMED else ''}",
                hint="rename its columns, or pass RankingDataset.from_frame(frame, query=…, document=…, label=None)",
            )
        return RankingDataset.from_frame(data, query=query, document=document, to_score=True)

    def within(self, data: RankingDataset | Table) -> "Log":
        """Return the log without pairs that have no features in ``data``; a note has their number.

        >>> rows = {"query": ["q", "q"], "document": ["a", "b"], "impression": [1, 1], "position": [1, 2]}
        >>> log = Log.from_rows(pl.LazyFrame(rows | {"clicked": [0, 1]}))
        >>> log.within(RankingDataset([[0.5]], [0], [0, 1], query_ids=["q"], document_ids=["a"])).notes
        ('1 of 2 pairs of query and document left out, with 1 of 2 impressions of documents: no features',)
        """
        has_features = self._rows_in(self.documents(data))["row"].is_not_null().to_numpy()
        if has_features.all():
            return self
        cells = has_features[self.pairs]
        note = (
            f"{np.count_nonzero(~has_features):,} of {self.n_pairs:,} pairs of query and document left out, with "
            f"{self.impressions[~cells].sum():,.0f} of {self.impressions.sum():,.0f} impressions of documents: "
            "no features"
        )
        part = self.part(cells, None if self.sessions is None else has_features[self.sessions.pairs])
        return replace(part, notes=(*self.notes, note))

    def lists_in(self, data: RankingDataset) -> RankingDataset:
        """Return the lists of a data set whose queries are in the log."""
        return data.take(np.isin(np.asarray(data.query_ids).astype(str), self.query_ids.astype(str)))

    def rows_in(self, data: RankingDataset) -> NDArray[np.int64]:
        """Return the row of each pair in a data set with the ids of queries and documents; raise where it has none."""
        joined = self._rows_in(data)
        if missing := joined["row"].null_count():
            first = joined.filter(pl.col("row").is_null()).head(_SHOWN)
            raise check.error(
                "every document that was shown needs features",
                got=f"{missing:,} of {self.n_pairs:,} pairs of query and document without",
                where="; ".join(f"query {query!r}, document {doc!r}" for query, doc, _ in first.iter_rows()),
                hint="add their features, or leave these documents out of the log with log.within(data)",
            )
        return joined["row"].to_numpy()

    def _rows_in(self, data: RankingDataset) -> pl.DataFrame:
        """Return query, document and row in ``data`` of each pair, null where it has none."""
        if data.query_ids is None or data.document_ids is None:
            raise check.error(
                "features of a click log need the ids of queries and documents",
                got="data without " + ("query ids" if data.query_ids is None else "document ids"),
                hint="`set document=…`, the column that holds them, where the data are read",
            )
        query_of_row = np.repeat(np.asarray(data.query_ids).astype(str), data.sizes)
        rows = pl.DataFrame({"query": query_of_row, "document": np.asarray(data.document_ids).astype(str)})
        rows = rows.with_columns(row=pl.int_range(pl.len(), dtype=pl.Int64)).unique(["query", "document"], keep="first")
        shown = named_pairs(self.query_ids, self.offsets, self.document_ids)
        return shown.join(rows, on=["query", "document"], how="left", maintain_order="left")

    def by_day(self) -> "Log":
        """Return the log with a cell for each day, in the order of ``days``."""
        if (days := self.days) is None:
            raise check.error("this needs the times of a log", got="none", hint="`set time=…` where it is read")
        names = ("pairs", "positions", "rankers", "segments")
        columns: Keywords = {name: read_only(getattr(self, name)[days.cells]) for name in names}
        columns |= {"impressions": days.impressions, "clicks": days.clicks}
        return replace(self, **columns, probabilities=None, sessions=None, days=None)

    def part(self, cells: NDArray[np.bool_], rows: NDArray[np.bool_] | None) -> "Log":
        """Return these cells and rows of impressions, numbered anew."""
        if not cells.any():
            raise check.error(
                "a part of a log must have rows",
                got=f"none of {cells.size:,} cells",
                hint="select rankers, segments, positions or queries that appear together",
            )
        shown = np.bincount(self.pairs[cells], minlength=self.n_pairs) > 0
        sizes = np.bincount(self.query_of_pair[shown], minlength=self.n_queries)
        pairs = np.cumsum(shown) - 1
        ranker_names, rankers = _renumbered(self.ranker_names, self.rankers[cells])
        segment_names, segments = _renumbered(self.segment_names, self.segments[cells])
        sessions = self.sessions
        if sessions is not None and rows is not None:
            sessions = sessions.part(rows, pairs=pairs, rankers=rankers, segments=segments)
        return replace(
            self,
            query_ids=read_only(self.query_ids[sizes > 0]),
            offsets=read_only(np.concatenate(([0], np.cumsum(sizes[sizes > 0])))),
            document_ids=read_only(self.document_ids[shown]),
            pairs=read_only(pairs[self.pairs[cells]]),
            positions=read_only(self.positions[cells]),
            rankers=read_only(rankers[self.rankers[cells]]),
            segments=read_only(segments[self.segments[cells]]),
            impressions=read_only(self.impressions[cells]),
            clicks=read_only(self.clicks[cells]),
            probabilities=None if self.probabilities is None else read_only(self.probabilities[cells]),
            ranker_names=ranker_names,
            segment_names=segment_names,
            sessions=None if rows is None else sessions,
            days=self.days and self.days.part(cells),
        )


def named_pairs(query_ids: Column, offsets: Offsets, document_ids: Column) -> pl.DataFrame:
    """Return the ids of query and document, as text, of each pair."""
    queries = np.repeat(query_ids.astype(str), np.diff(offsets))
    return pl.DataFrame({"query": queries, "document": document_ids.astype(str)})


def _distinct(parts: Sequence[pl.LazyFrame], key: str) -> pl.Series:
    values: pl.Series | None = None
    for part in parts:
        added = part.select(pl.col(key).unique()).collect(engine="streaming").to_series()
        values = added if values is None else pl.concat([values, added]).unique()
    return pl.Series(key, values).sort()


def _range(parts: Sequence[pl.LazyFrame]) -> tuple[int, int]:
    """Return the first day of a log and the number of days to the last."""
    ends = [part.select(pl.min("day"), last=pl.max("day")).collect(engine="streaming").row(0) for part in parts]
    first, last = min(a for a, _ in ends if a is not None), max(b for _, b in ends if b is not None)
    return first, last - first + 1


def _sums(
    parts: Sequence[pl.LazyFrame], cell: pl.Expr, values: dict[str, pl.Expr]
) -> tuple[NDArray[np.int64], dict[str, Array]]:
    """Return the sorted numbers of cells, and the sums of values over the rows of each."""
    cells, sums = np.zeros(0, np.int64), {name: np.zeros(0) for name in values}
    for part in parts:
        table = part.group_by(cell=cell).agg(**{name: value.sum() for name, value in values.items()})
        added = table.collect(engine="streaming")
        numbers = np.concatenate([cells, added["cell"].to_numpy()])
        order = np.argsort(numbers, kind="stable")
        starts = np.flatnonzero(np.diff(numbers[order], prepend=-1))
        cells = numbers[order][starts]
        for name, total in sums.items():
            sums[name] = np.add.reduceat(np.concatenate([total, added[name].to_numpy()])[order], starts)
    return cells, sums


def _mask(values: ArrayLike, one: str, several: str, size: int, hint: str) -> NDArray[np.bool_]:
    mask = np.asarray(values)
    if mask.dtype != np.bool_ or mask.shape != (size,):
        what, got = f"{several} must be a truth value for each {one} of the log", f"{mask.dtype} of shape {mask.shape}"
        raise check.error(what, got=f"{got} for {size:,} {several}", hint=hint)
    return mask


def _codes(what: str, names: tuple[str, ...], selected: str | Iterable[str]) -> list[int]:
    labels = [selected] if isinstance(selected, str) else list(selected)
    for label in labels:
        if label not in names:
            raise check.error(f"the {what} must be in the log", got=repr(label), hint=f"the log has {list(names)}")
    return [names.index(label) for label in labels]


def _renumbered(names: tuple[str, ...], codes: NDArray[np.int64]) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Return the names in use, and the new number of each old one."""
    used = np.bincount(codes, minlength=len(names)) > 0
    return tuple(name for name, is_used in zip(names, used, strict=True) if is_used), np.cumsum(used) - 1
