"""A click log: what was shown where, how often, and how often it was clicked."""

import functools
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankwise import check, threads
from rankwise.arrays import Array, Column, Offsets, read_only
from rankwise.data.dataset import RankingDataset

KEYS = ("query", "document", "position", "ranker", "segment")
"""Columns by which rows are added up."""
_SHOWN = 3  # examples in an error


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
    sessions: "Sessions | None" = None
    """The impressions one by one, where they were kept."""
    notes: tuple[str, ...] = ()
    """What reading found: rows that were left out with their number, positions that were counted from 0."""

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
    def queries(self) -> NDArray[np.int64]:
        """The query of each cell."""
        pairs: NDArray[np.int64] = np.repeat(np.arange(self.n_queries), np.diff(self.offsets))
        return pairs[self.pairs]

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
            f"{len(self.ranker_names)} rankers{segments}, positions {self.positions.min(initial=1)} to "
            f"{self.n_positions}, {rate:.4f} clicks a document)"
        )

    @classmethod
    def from_rows(cls, rows: pl.LazyFrame, *, sessions: bool = True, notes: tuple[str, ...] = ()) -> Self:
        """Add up checked rows.

        Columns are ``query``, ``document``, ``impression``, ``position`` (from 1) and ``clicked`` (0 or 1), and
        optionally ``ranker``, ``segment``, ``user``, ``weight`` and ``probability``. ``sessions`` keeps the impressions
        too, which takes about 16 bytes a row.
        """
        threads.check_tables()
        names = rows.collect_schema().names()
        fixed = {"ranker": pl.lit(""), "segment": pl.lit(""), "weight": pl.lit(1.0)}
        rows = rows.with_columns(**{name: value for name, value in fixed.items() if name not in names})
        weight = pl.col("weight").cast(pl.Float64)
        sums = {"impressions": weight.sum(), "clicks": (weight * pl.col("clicked").cast(pl.Float64)).sum()}
        if "probability" in names:
            sums["probability"] = (weight * pl.col("probability").cast(pl.Float64)).sum() / weight.sum()
        cells = rows.group_by(KEYS).agg(**sums).sort(KEYS).collect(engine="streaming")
        starts_query = (cells["query"] != cells["query"].shift()).fill_null(value=True)
        starts_pair = starts_query | (cells["document"] != cells["document"].shift()).fill_null(value=True)
        pairs = cells.filter(starts_pair)
        query_of_pair = starts_query.filter(starts_pair).cum_sum().to_numpy() - 1
        names_of = {key: cells[key].cast(pl.String).unique().sort() for key in ("ranker", "segment")}
        codes = {
            key: cells[key].cast(pl.String).replace_strict(values, range(len(values)), return_dtype=pl.Int64)
            for key, values in names_of.items()
        }
        log = cls(
            query_ids=read_only(cells["query"].filter(starts_query).to_numpy()),
            offsets=read_only(np.concatenate(([0], np.cumsum(np.bincount(query_of_pair))))),
            document_ids=read_only(pairs["document"].to_numpy()),
            pairs=read_only(starts_pair.cum_sum().cast(pl.Int64).to_numpy() - 1),
            positions=read_only(cells["position"].cast(pl.Int64).to_numpy()),
            rankers=read_only(codes["ranker"].to_numpy()),
            segments=read_only(codes["segment"].to_numpy()),
            impressions=read_only(cells["impressions"].to_numpy()),
            clicks=read_only(cells["clicks"].to_numpy()),
            probabilities=read_only(cells["probability"].to_numpy()) if "probability" in names else None,
            ranker_names=tuple(names_of["ranker"]),
            segment_names=tuple(names_of["segment"]),
            notes=notes,
        )
        if not sessions:
            return log
        numbered = pairs.select("query", "document", pair=pl.int_range(pl.len(), dtype=pl.Int64)).lazy()
        return replace(log, sessions=Sessions.from_rows(rows.join(numbered, on=["query", "document"]), log))

    def rows_in(self, data: RankingDataset) -> NDArray[np.int64]:
        """Return the row of each pair in a data set with the ids of queries and documents; raise where it has none."""
        if data.query_ids is None or data.document_ids is None:
            raise check.error(
                "features of a click log need the ids of queries and documents",
                got="data without " + ("query ids" if data.query_ids is None else "document ids"),
                hint="`set document=…`, the column that holds them, where the data are read",
            )
        query_of_row = np.repeat(np.asarray(data.query_ids).astype(str), data.sizes)
        rows = pl.DataFrame({"query": query_of_row, "document": np.asarray(data.document_ids).astype(str)})
        rows = rows.with_columns(row=pl.int_range(pl.len(), dtype=pl.Int64)).unique(["query", "document"], keep="first")
        names = np.repeat(self.query_ids.astype(str), np.diff(self.offsets))
        shown = pl.DataFrame({"query": names, "document": self.document_ids.astype(str)})
        joined = shown.join(rows, on=["query", "document"], how="left", maintain_order="left")
        if missing := joined["row"].null_count():
            first = joined.filter(pl.col("row").is_null()).head(_SHOWN)
            raise check.error(
                "every document that was shown needs features",
                got=f"{missing:,} of {self.n_pairs:,} pairs of query and document without",
                where="; ".join(f"query {query!r}, document {doc!r}" for query, doc, _ in first.iter_rows()),
                hint="add their features, or leave these documents out of the log with log.within(data)",
            )
        return joined["row"].to_numpy()


@dataclass(frozen=True, kw_only=True, eq=False)
class Sessions:
    """Impressions one by one: what memory between positions, users and cascades need."""

    offsets: Offsets
    """Where the rows of each impression begin; rows are in the order of positions."""
    pairs: NDArray[np.int32]
    """The pair of each row, as in the log."""
    positions: NDArray[np.int16]
    """The position of each row, from 1."""
    clicked: NDArray[np.bool_]
    rankers: NDArray[np.int16]
    """The ranker of each impression."""
    segments: NDArray[np.int16]
    """The segment of each impression."""
    weights: Array
    """The weight of each impression."""
    users: NDArray[np.int64] | None = None
    """The number of each impression's user."""
    probabilities: NDArray[np.float32] | None = None
    """The logging probability of each row."""

    @property
    def n_impressions(self) -> int:
        """Number of impressions."""
        return self.offsets.size - 1

    @classmethod
    def from_rows(cls, rows: pl.LazyFrame, log: Log) -> Self:
        """Read the impressions of checked rows that have the number of their ``pair``."""
        names = rows.collect_schema().names()
        code = {
            key: pl.col(key).cast(pl.String).replace_strict(values, range(len(values)), return_dtype=pl.Int16)
            for key, values in (("ranker", log.ranker_names), ("segment", log.segment_names))
        }
        frame = rows.select(
            "impression",
            "query",
            pl.col("pair").cast(pl.Int32),
            pl.col("position").cast(pl.Int16),
            pl.col("clicked").cast(pl.Boolean),
            **code,
            weight=pl.col("weight").cast(pl.Float64),
            **({"probability": pl.col("probability").cast(pl.Float32)} if "probability" in names else {}),
            **({"user": pl.col("user")} if "user" in names else {}),
        ).sort("query", "impression", "position", "pair")
        table = frame.collect(engine="streaming")
        first = (table["impression"] != table["impression"].shift()).fill_null(value=True)
        first |= (table["query"] != table["query"].shift()).fill_null(value=True)
        heads = table.filter(first)
        return cls(
            offsets=read_only(np.append(np.flatnonzero(first.to_numpy()), len(table))),
            pairs=read_only(table["pair"].to_numpy()),
            positions=read_only(table["position"].to_numpy()),
            clicked=read_only(table["clicked"].to_numpy()),
            rankers=read_only(heads["ranker"].to_numpy()),
            segments=read_only(heads["segment"].to_numpy()),
            weights=read_only(heads["weight"].to_numpy()),
            users=read_only(heads["user"].rank("dense").cast(pl.Int64).to_numpy() - 1) if "user" in names else None,
            probabilities=read_only(table["probability"].to_numpy()) if "probability" in names else None,
        )
