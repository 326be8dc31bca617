"""Which rows of which partition each worker gets, decided from the ids of all queries, before any row is read."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankwise import check
from rankwise.arrays import Ids, offsets_of
from rankwise.data.categories import Values, join
from rankwise.rankers.schema import Schema


class Runs(NamedTuple):
    """The queries of a partition: rows of the same id that lie together."""

    ids: Ids
    sizes: NDArray[np.int64]
    columns: tuple[str, ...]
    categories: dict[str, Values] = {}  # noqa: RUF012 (a tuple with names is no class with state)
    """Of features that hold categories rather than numbers."""
    occurring: frozenset[str] = frozenset()
    """Those of which nothing lists the categories: they are the values that occur."""


class Rows(NamedTuple):
    """Rows of one partition: from ``first`` to ``last``, of these only those that ``chosen`` counts from ``first``."""

    first: int
    last: int
    chosen: NDArray[np.int64] | None

    def of(self, table: pl.LazyFrame) -> pl.LazyFrame:
        """Take the rows of a table."""
        table = table.slice(self.first, self.last - self.first)
        return table if self.chosen is None else table.select(pl.all().gather(self.chosen))


class Plan:
    """Which rows of which partition each worker gets.

    >>> ids = np.array(["a", "b"])
    >>> first = Runs(ids, np.array([2, 1]), ())
    >>> second = Runs(ids[::-1], np.array([3, 2]), ())
    >>> plan = Plan([first, second], parts=2)
    >>> plan.moved
    (2, 5)
    >>> plan.rows(0)[0][1].chosen is None, plan.rows(0)[1]
    (True, (1, Rows(first=3, last=5, chosen=None)))
    """

    def __init__(self, runs: Sequence[Runs], parts: int) -> None:
        _agree(runs)
        ids = np.concatenate([run.ids for run in runs])
        if not ids.size:
            raise check.error("the data have no documents")
        self.sizes = np.concatenate([run.sizes for run in runs])
        self.partition = np.repeat(np.arange(len(runs)), [run.ids.size for run in runs])
        self.starts = np.concatenate([offsets_of(run.sizes)[:-1] for run in runs])
        _, first, query = np.unique(ids, return_index=True, return_inverse=True)
        place = np.empty(first.size, np.int64)
        place[np.argsort(first)] = np.arange(first.size)  # queries in the order in which they begin
        self.query = place[query]
        self.home = self.partition[np.sort(first)]
        documents = np.bincount(self.query, self.sizes).astype(np.int64)
        middle = np.cumsum(documents) - documents / 2
        part = np.floor(middle / documents.sum() * min(parts, first.size)).astype(np.int64)
        part = np.unique(part, return_inverse=True)[1]  # a part that one huge query left empty is left out
        self.part = part[self.query]
        self.parts, self.n_queries, self.n_docs = int(part[-1]) + 1, int(first.size), int(documents.sum())

    @property
    def moved(self) -> tuple[int, int]:
        """How many queries lie in more than one partition, and how many of their documents outside of the first."""
        away = self.partition != self.home[self.query]
        return int(np.unique(self.query[away]).size), int(self.sizes[away].sum())

    def rows(self, part: int) -> list[tuple[int, Rows]]:
        """The rows of a part, partition by partition."""
        mine = np.flatnonzero(self.part == part)
        found = []
        for partition in np.unique(self.partition[mine]).tolist():
            runs = mine[self.partition[mine] == partition]
            starts, sizes = self.starts[runs], self.sizes[runs]
            first, last = int(starts[0]), int(starts[-1] + sizes[-1])
            chosen = None
            if sizes.sum() < last - first:
                shifts = np.repeat(starts - first - offsets_of(sizes)[:-1], sizes)
                chosen = np.arange(sizes.sum()) + shifts
            found.append((int(partition), Rows(first, last, chosen)))
        return found

    def scattered(self, part: int) -> bool:
        """Whether the documents of some query do not lie together."""
        mine = self.query[self.part == part]
        return bool(np.unique(mine).size < mine.size)


def common_lists(runs: Sequence[Runs], older: Schema | None) -> dict[str, Values]:
    """Put the categories of all partitions together, in the order of these; an older model's go before."""
    filled = [run for run in runs if run.ids.size] or [runs[0]]
    found = {}
    for name in filled[0].categories:
        joined = join((one.categories[name] for one in filled), f"column {name!r}")
        found[name] = tuple(sorted(joined)) if all(name in one.occurring for one in filled) else joined
    for name, values in ({} if older is None else older.lists(list(found))).items():
        found[name] = join((values, found[name]), f"column {name!r}")
    return found


def _agree(runs: Sequence[Runs]) -> None:
    """Check that partitions can be put together."""
    filled = [run for run in runs if run.ids.size] or [runs[0]]
    for one in filled[1:]:
        if set(one.columns) != set(filled[0].columns):
            different = sorted(set(one.columns) ^ set(filled[0].columns))
            raise check.error("all partitions must have the same columns", got=f"{different[0]!r} in only some of them")
        if one.ids.dtype.kind != filled[0].ids.dtype.kind:
            got = f"{filled[0].ids.dtype} and {one.ids.dtype}"
            raise check.error("the query ids of all partitions must be of one type", got=got, hint="cast them before")
        for name in one.categories.keys() ^ filled[0].categories.keys():
            raise check.error(
                "a column must hold categories in all partitions or in none",
                got=f"plain numbers in column {name!r} of only some of them",
                hint="cast it to one type before",
            )
