"""Impressions one by one."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankwise import check
from rankwise.base.arrays import Array, Column, Offsets, read_only


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
        return Sessions(
            offsets=read_only(np.concatenate(([0], np.cumsum(counts[lists])))),
            pairs=read_only(pairs[self.pairs[rows]].astype(np.int32)),
            positions=read_only(self.positions[rows]),
            clicked=read_only(self.clicked[rows]),
            rankers=read_only(rankers[self.rankers[lists]].astype(np.int16)),
            segments=read_only(segments[self.segments[lists]].astype(np.int16)),
            weights=read_only(self.weights[lists]),
            users=None if self.users is None else read_only(np.unique(self.users[lists], return_inverse=True)[1]),
            user_ids=None
            if self.users is None or self.user_ids is None
            else read_only(self.user_ids[np.unique(self.users[lists])]),
            days=None if self.days is None else read_only(self.days[lists]),
            probabilities=None if self.probabilities is None else read_only(self.probabilities[rows]),
        )

    @classmethod
    def from_rows(cls, rows: pl.LazyFrame) -> Self:
        """Read the impressions of checked rows with the numbers of their ``pair``, ``ranker`` and ``segment``."""
        schema = rows.collect_schema()
        number = pl.col("impression") if schema["impression"].is_integer() else pl.col("impression").hash()
        table = (
            rows.select(
                "query",
                "pair",
                pl.col("position", "ranker", "segment").cast(pl.Int16),
                pl.col("clicked").cast(pl.Boolean),
                pl.col("weight").cast(pl.Float64),
                impression=number,
                **({"probability": pl.col("probability").cast(pl.Float32)} if "probability" in schema else {}),
                **({"user": pl.col("user")} if "user" in schema else {}),
                **({"day": pl.col("day").cast(pl.Int32)} if "day" in schema else {}),
            )
            .sort("query", "impression", "position", "pair")
            .collect(engine="streaming")
        )
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
        return cls(
            offsets=read_only(np.append(np.flatnonzero(first.to_numpy()), len(table))),
            pairs=read_only(table["pair"].to_numpy()),
            positions=read_only(table["position"].to_numpy()),
            clicked=read_only(table["clicked"].to_numpy()),
            rankers=read_only(heads["ranker"].to_numpy()),
            segments=read_only(heads["segment"].to_numpy()),
            weights=read_only(heads["weight"].to_numpy()),
            users=read_only(heads["user"].rank("dense").cast(pl.Int64).to_numpy() - 1) if "user" in schema else None,
            user_ids=read_only(heads["user"].unique().sort().to_numpy()) if "user" in schema else None,
            days=read_only(heads["day"].to_numpy()) if "day" in schema else None,
            probabilities=read_only(table["probability"].to_numpy()) if "probability" in schema else None,
        )
