"""Rows that each worker gets: planned from the ids of all queries before any row is read, then read and joined."""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankwise import RankingDataset, check
from rankwise.base.arrays import Ids, Keywords, offsets_of
from rankwise.base.compiling import kernel
from rankwise.base.stream import hashed_ids
from rankwise.data import frames
from rankwise.data.categories import Values, join
from rankwise.data.columns import taken_by_objectives
from rankwise.data.io import as_polars, category_lists, feature_columns, urls
from rankwise.models import Schema

_MIXER = np.uint64(0x9E3779B97F4A7C15)  # odd: no two numbers become the same


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
        """Return the rows of a table."""
        table = table.slice(self.first, self.last - self.first)
        return table if self.chosen is None else table.select(pl.all().gather(self.chosen))


class RowPlan:
    """The rows of partitions that each worker gets.

    >>> ids = np.array(["a", "b"])
    >>> first = Runs(ids, np.array([2, 1]), ())
    >>> second = Runs(ids[::-1], np.array([3, 2]), ())
    >>> plan = RowPlan([first, second], parts=2)
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
        """The numbers of queries in more than one partition, and of their documents outside of the first."""
        away = self.partition != self.home[self.query]
        return int(np.unique(self.query[away]).size), int(self.sizes[away].sum())

    def rows(self, part: int) -> list[tuple[int, Rows]]:
        """Return the rows of a part, partition by partition."""
        all_runs = np.flatnonzero(self.part == part)
        rows = []
        for partition in np.unique(self.partition[all_runs]).tolist():
            runs = all_runs[self.partition[all_runs] == partition]
            starts, sizes = self.starts[runs], self.sizes[runs]
            first, last = int(starts[0]), int(starts[-1] + sizes[-1])
            chosen = None
            if sizes.sum() < last - first:
                shifts = np.repeat(starts - first - offsets_of(sizes)[:-1], sizes)
                chosen = np.arange(sizes.sum()) + shifts
            rows.append((int(partition), Rows(first, last, chosen)))
        return rows

    def scattered(self, part: int) -> bool:
        """Whether the documents of some query do not lie together."""
        queries = self.query[self.part == part]
        return bool(np.unique(queries).size < queries.size)


def common_lists(runs: Sequence[Runs], older: Schema | None) -> dict[str, Values]:
    """Join the categories of all partitions, in the order of these; an older model's go before."""
    filled = [run for run in runs if run.ids.size] or [runs[0]]
    lists = {}
    for name in filled[0].categories:
        joined = join((one.categories[name] for one in filled), f"column {name!r}")
        lists[name] = tuple(sorted(joined)) if all(name in one.occurring for one in filled) else joined
    for name, values in ({} if older is None else older.lists(list(lists))).items():
        lists[name] = join((values, lists[name]), f"column {name!r}")
    return lists


def _agree(runs: Sequence[Runs]) -> None:
    """Raise if partitions cannot be joined."""
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


class PartSummary(NamedTuple):
    """Counts, columns and digest of a worker's part."""

    queries: int
    documents: int
    sample: RankingDataset
    digest: int


def find_runs(source: object, columns: Keywords) -> Runs:
    """Return the queries of a partition, and the categories of its columns."""
    with urls.errors(source):
        return _find_runs(source, columns)


def _find_runs(source: object, columns: Keywords) -> Runs:
    table, listed = _table(source)
    schema = table.collect_schema()
    ids = frames.query_ids(table, columns.get("query", "qid"))
    starts = np.concatenate(([0], np.flatnonzero(ids[1:] != ids[:-1]) + 1)) if ids.size else np.zeros(0, np.int64)
    features = _features(table, columns)
    present = [name for name in features if name in schema]
    fixed = {name: values for name, values in (columns.get("categories") or {}).items() if name in present}
    lists = category_lists(table, present, listed, columns.get("categorical", ()), fixed)
    open_ended = {name for name in lists if name not in fixed and name not in listed} - {
        name for name in lists if isinstance(schema[name], pl.Enum)
    }
    sizes = np.diff(np.append(starts, ids.size))
    return Runs(ids[starts], sizes, tuple(schema.names()), lists, frozenset(open_ended))


def take_rows(source: object, rows: Rows) -> pl.DataFrame:
    """Return rows of a partition."""
    return rows.of(_table(source)[0]).collect()


def join_rows(pieces: list[Any], columns: Keywords, scattered: bool, unnamed: tuple[str, ...]) -> RankingDataset:
    """Return the data set of one worker."""
    with urls.errors(pieces[0][0] if isinstance(pieces[0], tuple) else None):
        tables = [piece[1].of(_table(piece[0])[0]) if isinstance(piece, tuple) else piece.lazy() for piece in pieces]
        names = tables[0].collect_schema().names()  # a later file may have them in another order
        joined = pl.concat(
            [_by_value(table.select(names), columns["categories"]) for table in tables], how="vertical_relaxed"
        )
        data = RankingDataset.from_frame(joined, sort=scattered, **columns).without_rows()
    nothing: Keywords = dict.fromkeys(unnamed)
    return data.with_(**nothing) if unnamed else data


def facts_of(data: RankingDataset) -> PartSummary:
    """Return the counts and the digest of a worker's part."""
    weights = np.ones(data.n_queries) if data.weights is None else data.weights
    ids = cast("Ids", data.query_ids)
    features, documents = data.features.view(np.uint32), _of_documents(data)
    digest = _digest(features, data.labels, weights, hashed_ids(ids), documents, data.offsets)
    return PartSummary(data.n_queries, data.n_docs, data.take([0]), int(digest))


def _table(source: Any) -> tuple[pl.LazyFrame, dict[str, Values]]:
    return (pl.scan_parquet(urls.scanned(source)), {}) if isinstance(source, str) else as_polars(source)


def _features(table: pl.LazyFrame, columns: Keywords) -> list[str]:
    """The columns that are features; one that is missing in this partition alone is named when all are compared."""
    names = columns.get("features")
    if names and not any(mark in name for name in names for mark in "*?[!"):
        return list(names)
    return feature_columns(table, columns)


def _by_value(table: pl.LazyFrame, lists: dict[str, Values]) -> pl.LazyFrame:
    """Return columns of categories as text: types with other lists cannot be concatenated."""
    schema = table.collect_schema()
    texts = [name for name in lists if isinstance(schema[name], pl.Categorical | pl.Enum)]
    return table.with_columns(pl.col(name).cast(pl.String) for name in texts)


def _of_documents(data: RankingDataset) -> NDArray[np.uint64]:
    """Return a number of all columns of documents that objectives read; 0 where there are none."""
    words, mixer = np.zeros(data.n_docs, np.uint64), np.uint64(1)
    for number, column in enumerate(taken_by_objectives()):
        values = getattr(data, column.name)
        with np.errstate(over="ignore"):
            mixer *= _MIXER if number > 1 else np.uint64(1)  # other bits: two columns could hold the same numbers
        if values is not None and column.several:
            for key, numbers in zip(hashed_ids(np.array(list(values))), values.values(), strict=True):
                words ^= numbers.view(np.uint64) * (mixer ^ key | np.uint64(1))
        elif values is not None and column.kind == "id":
            names, places = np.unique(values, return_inverse=True)
            words ^= hashed_ids(names)[places] * mixer
        elif values is not None:
            words ^= values.astype(np.float64, copy=False).view(np.uint64) * mixer
    return words


@kernel
def _digest(features, labels, weights, ids, documents, offsets):  # type: ignore[no-untyped-def]
    """Add up a number for each document that depends on all its values, and not on its place."""
    total = np.uint64(0)
    prime = np.uint64(0x9E3779B97F4A7C15)
    for q in range(offsets.size - 1):
        for i in range(offsets[q], offsets[q + 1]):
            mixed = (ids[q] ^ np.uint64(i - offsets[q])) * prime ^ documents[i]
            mixed = (mixed ^ np.uint64(np.float32(labels[i]).view(np.uint32))) * prime
            mixed = (mixed ^ np.uint64(np.float32(weights[q]).view(np.uint32))) * prime
            for j in range(features.shape[1]):
                mixed = (mixed ^ (mixed >> np.uint64(29)) ^ np.uint64(features[i, j])) * prime
            total += mixed ^ (mixed >> np.uint64(32))
    return total
