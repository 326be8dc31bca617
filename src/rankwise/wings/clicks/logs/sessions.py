"""Impressions one by one."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankwise import check
from rankwise.base.arrays import Array, Column, Keywords, Offsets, offsets_of, read_only


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
    user_ids: Column | None = None
    """One per user."""
    days: NDArray[np.int32] | None = None
    """The day of each impression since 1970-01-01 (UTC)."""
    probabilities: NDArray[np.float32] | None = None
    """The logging probability of each row."""

    @property
    def n_impressions(self) -> int:
        """Number of impressions."""
        return self.offsets.size - 1

    def part(
        self,
        rows: NDArray[np.bool_],
        *,
        pairs: NDArray[np.int64],
        rankers: NDArray[np.int64],
        segments: NDArray[np.int64],
    ) -> "Sessions":
        """Return these rows and the impressions that have any, with the new numbers of pairs, rankers and segments."""
        counts = np.add.reduceat(rows, self.offsets[:-1], dtype=np.int64)
        lists = counts > 0
        columns: Keywords = {
            "offsets": offsets_of(counts[lists]),
            "pairs": pairs[self.pairs[rows]].astype(np.int32),
            "positions": self.positions[rows],
            "clicked": self.clicked[rows],
            "rankers": rankers[self.rankers[lists]].astype(np.int16),
            "segments": segments[self.segments[lists]].astype(np.int16),
            "weights": self.weights[lists],
        }
        if self.users is not None:
            known, columns["users"] = np.unique(self.users[lists], return_inverse=True)
            columns["user_ids"] = None if self.user_ids is None else self.user_ids[known]
        columns["days"] = None if self.days is None else self.days[lists]
        columns["probabilities"] = None if self.probabilities is None else self.probabilities[rows]
        columns = {name: None if column is None else read_only(column) for name, column in columns.items()}
        return Sessions(**columns)

    @classmethod
    def from_rows(cls, rows: pl.LazyFrame) -> Self:
        """Read the impressions of checked rows with the numbers of their ``pair``, ``ranker`` and ``segment``."""
        schema = rows.collect_schema()
        number = pl.col("impression") if schema["impression"].is_integer() else pl.col("impression").hash()
        kinds = {"position": pl.Int16, "ranker": pl.Int16, "segment": pl.Int16, "clicked": pl.Boolean}
        kinds |= {"weight": pl.Float64, "probability": pl.Float32, "day": pl.Int32}
        typed = [pl.col(name).cast(kind) for name, kind in kinds.items() if name in schema]
        names = ["query", "pair", *(["user"] if "user" in schema else [])]
        ordered = rows.select(*names, *typed, impression=number).sort("query", "impression", "position", "pair")
        table = ordered.collect(engine="streaming")
        first = (table["impression"] != table["impression"].shift()).fill_null(value=True)
        first |= (table["query"] != table["query"].shift()).fill_null(value=True)
        heads = table.filter(first)
        number_of_row = first.cum_sum() - 1
        for key in ("ranker", "segment", "weight", *(("user",) if "user" in schema else ())):
            if (table[key] != heads[key].gather(number_of_row)).any():
                raise check.error(
                    f"an impression must have one {key}",
                    got="several",
                    hint=f"leave the {key} out, or `set sessions=False` where the parts of a page differ",
                )
        columns: Keywords = {"offsets": np.append(np.flatnonzero(first.to_numpy()), len(table))}
        for source, several, name in (
            (table, "pairs", "pair"),
            (table, "positions", "position"),
            (table, "clicked", "clicked"),
            (table, "probabilities", "probability"),
            (heads, "rankers", "ranker"),
            (heads, "segments", "segment"),
            (heads, "weights", "weight"),
            (heads, "days", "day"),
        ):
            if name in schema:
                columns[several] = source[name].to_numpy()
        if "user" in schema:
            columns["users"] = heads["user"].rank("dense").cast(pl.Int64).to_numpy() - 1
            columns["user_ids"] = heads["user"].unique().sort().to_numpy()
        return cls(**{name: read_only(column) for name, column in columns.items()})
