"""Rows of a Parquet folder or a Dask frame as whole queries on workers: one part, a RankingDataset, on each.

The ids of all queries are looked at first. Queries, in the order in which they begin, are cut into as many runs as
there are workers, with about equal numbers of documents. Then every worker gets the rows of its queries: from a Parquet
folder it reads just these itself; of a Dask frame they are sent. The documents of a query keep their order, whichever
partitions they came from.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankwise import check
from rankwise.arrays import Ids, offsets_of
from rankwise.data import frames
from rankwise.data.categories import Values, join
from rankwise.data.dataset import RankingDataset
from rankwise.data.tables import parquet
from rankwise.data.tables.columns import category_lists
from rankwise.data.tables.polars import as_polars
from rankwise.kernels import kernel
from rankwise.plain import Keywords
from rankwise.rankers.schema import Schema
from rankwise.rankers.trees.cluster.workers import Workers
from rankwise.stream import hashed_ids

_READING = "reading the data"


@dataclass(frozen=True)
class Partitions:
    """Where the data of a training on a cluster lie, and what had to be moved to get them there."""

    workers: int
    queries: int
    documents: int
    partitions: int
    """Files of a folder, or partitions of a frame."""
    moved_queries: int
    """Queries with documents in more than one partition, which were put together."""
    moved_documents: int
    """Their documents outside the partition where the query begins."""

    def __str__(self) -> str:
        text = f"{self.queries:,} queries with {self.documents:,} documents from {self.partitions:,} partitions "
        text += f"on {self.workers:,} worker{'s' if self.workers > 1 else ''}"
        if self.moved_queries:
            text += f"; {self.moved_queries:,} queries lay in more than one partition and were put together, by moving "
            text += f"{self.moved_documents:,} documents"
        return text


class Parts(NamedTuple):
    """The data on the workers."""

    workers: Workers
    futures: list[Any]
    """A RankingDataset on each worker."""
    about: Partitions
    sample: RankingDataset
    """The first query, which has the columns of all."""
    digest: str
    """Of all data, whatever their order and partition."""


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


def spread(workers: Workers, data: object, columns: Keywords, older: Schema | None = None) -> Parts:
    """Bring the data to the workers, each query whole, and all with one list of categories for each column.

    The lists begin with those of the ``older`` model that is continued.
    """
    sources, columns, unnamed = _sources(workers, data, columns)
    runs = _runs(workers, sources, columns)
    plan = Plan(runs, len(workers.names))
    columns = {**columns, "categories": _common_lists(runs, older)}
    workers = workers.first(plan.parts)
    futures = _load(workers, sources, plan, columns, unnamed)
    facts = workers.all(_READING, _facts, futures)
    about = Partitions(len(workers.names), plan.n_queries, plan.n_docs, len(runs), *plan.moved)
    sample = facts[0].sample
    for other in facts[1:]:
        if (other.sample.feature_names, other.sample.categorical) != (sample.feature_names, sample.categorical):
            raise check.error("the partitions differ in their features", hint="give all the same columns")
    read = sum(one.queries for one in facts), sum(one.documents for one in facts)
    if read != (plan.n_queries, plan.n_docs):
        raise check.error(
            "the data changed while they were read",
            got=f"{read[0]} queries with {read[1]} documents, of {plan.n_queries} with {plan.n_docs}",
            hint="persist the frame, or wait until the files are written",
        )
    digest = sum(one.digest for one in facts) % 2**64
    return Parts(workers, futures, about, sample, f"{digest:016x}")


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
        ids = np.concatenate([one.ids for one in runs])
        if not ids.size:
            raise check.error("the data have no documents")
        self.sizes = np.concatenate([one.sizes for one in runs])
        self.partition = np.repeat(np.arange(len(runs)), [one.ids.size for one in runs])
        self.starts = np.concatenate([offsets_of(one.sizes)[:-1] for one in runs])
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


def _sources(workers: Workers, data: Any, columns: Keywords) -> tuple[list[Any], Keywords, tuple[str, ...]]:
    """The partitions, Parquet files or futures of tables; and what is known of their columns."""
    if isinstance(data, str | Path):
        paths = parquet.parquet_files(data)
        known, absent = parquet.described(paths, columns)
        unnamed = tuple(name for name in absent if name != "query_ids")  # numbers are as good, and randomness needs ids
        return [str(path.resolve()) for path in paths], known, unnamed
    if not hasattr(data, "to_delayed"):
        raise check.error(
            "data for a cluster must be a Parquet file or folder, or a Dask DataFrame",
            got=type(data).__name__,
            hint="write Parquet with rw.write_parquet, or make a frame with dask.dataframe.from_pandas",
        )
    with workers.connected("the data are asked for"):
        return workers.client.compute(data.to_delayed(), workers=workers.names), columns, ()


def _runs(workers: Workers, sources: list[Any], columns: Keywords) -> list[Runs]:
    doing = "looking at the queries"
    with workers.connected(doing):
        submit = functools.partial(workers.client.submit, _find_runs, pure=False, workers=workers.names)
        futures = [submit(source, columns) for source in sources]
    found: list[Runs] = workers.results(doing, futures)
    return found


def _load(workers: Workers, sources: list[Any], plan: Plan, columns: Keywords, unnamed: tuple[str, ...]) -> list[Any]:
    pieces: list[list[object]] = []
    for part in range(plan.parts):
        rows = plan.rows(part)
        if isinstance(sources[0], str):
            pieces.append([(sources[partition], of) for partition, of in rows])
        else:
            submit = functools.partial(workers.client.submit, _take, pure=False, workers=workers.names)
            with workers.connected(_READING):
                pieces.append([submit(sources[partition], of) for partition, of in rows])
    scattered = [plan.scattered(part) for part in range(plan.parts)]
    futures = workers.submit(_READING, _join, pieces, [columns] * plan.parts, scattered, [unnamed] * plan.parts)
    workers.wait(_READING, futures)
    return futures


# What follows runs on the workers.


class _Facts(NamedTuple):
    queries: int
    documents: int
    sample: RankingDataset
    digest: int


def _table(source: Any) -> tuple[pl.LazyFrame, dict[str, Values]]:
    return (pl.scan_parquet(source), {}) if isinstance(source, str) else as_polars(source)


def _find_runs(source: object, columns: Keywords) -> Runs:
    table, listed = _table(source)
    schema = table.collect_schema()
    ids = frames.query_ids(table, columns.get("query", "qid"))
    starts = np.concatenate(([0], np.flatnonzero(ids[1:] != ids[:-1]) + 1)) if ids.size else np.zeros(0, np.int64)
    features = _features(table, columns)
    present = [name for name in features if name in schema]
    wanted = {name: values for name, values in (columns.get("categories") or {}).items() if name in present}
    lists = category_lists(table, present, listed, columns.get("categorical", ()), wanted)
    open_ended = {name for name in lists if name not in wanted and name not in listed} - {
        name for name in lists if isinstance(schema[name], pl.Enum)
    }
    sizes = np.diff(np.append(starts, ids.size))
    return Runs(ids[starts], sizes, tuple(schema.names()), lists, frozenset(open_ended))


def _features(table: pl.LazyFrame, columns: dict[str, Any]) -> list[str]:
    """The columns that are features; one that is missing in this partition alone is named when all are compared."""
    asked = columns.get("features")
    if asked and not any(mark in name for name in asked for mark in "*?[!"):
        return list(asked)
    return frames.feature_columns(table, columns)


def _take(source: object, rows: Rows) -> pl.DataFrame:
    return rows.of(_table(source)[0]).collect()


def _join(pieces: list[Any], columns: Keywords, scattered: bool, unnamed: tuple[str, ...]) -> RankingDataset:
    """Make the data set of one worker."""
    tables = [
        of.of(pl.scan_parquet(table)) if isinstance(table, str) else table.lazy() for table, of in map(_paired, pieces)
    ]
    names = tables[0].collect_schema().names()  # a later file may have them in another order
    whole = pl.concat(
        [_by_value(table.select(names), columns["categories"]) for table in tables], how="vertical_relaxed"
    )
    data = RankingDataset.from_frame(whole, sort=scattered, **columns)
    return data.with_(**dict.fromkeys(unnamed)) if unnamed else data


def _paired(piece: object) -> tuple[Any, Any]:
    return piece if isinstance(piece, tuple) else (piece, None)


def _by_value(table: pl.LazyFrame, lists: dict[str, Values]) -> pl.LazyFrame:
    """Give columns of categories as text: types that list others would not fit one below the other."""
    schema = table.collect_schema()
    texts = [name for name in lists if isinstance(schema[name], pl.Categorical | pl.Enum)]
    return table.with_columns(pl.col(name).cast(pl.String) for name in texts)


def _facts(data: RankingDataset) -> _Facts:
    weights = np.ones(data.n_queries) if data.weights is None else data.weights
    ids: Any = data.query_ids
    digest = _digest(data.features.view(np.uint32), data.labels, weights, hashed_ids(ids), data.offsets)
    return _Facts(data.n_queries, data.n_docs, data.take([0]), int(digest))


def _agree(runs: Sequence[Runs]) -> None:
    """Check that partitions can be put together."""
    filled = [one for one in runs if one.ids.size] or [runs[0]]
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


def _common_lists(runs: Sequence[Runs], older: Schema | None) -> dict[str, Values]:
    """Put the categories of all partitions together, in the order of these; an older model's go before."""
    filled = [one for one in runs if one.ids.size] or [runs[0]]
    found = {}
    for name in filled[0].categories:
        joined = join((one.categories[name] for one in filled), f"column {name!r}")
        found[name] = tuple(sorted(joined)) if all(name in one.occurring for one in filled) else joined
    for name, values in ({} if older is None else older.lists(list(found))).items():
        found[name] = join((values, found[name]), f"column {name!r}")
    return found


@kernel
def _digest(features, labels, weights, ids, offsets):  # type: ignore[no-untyped-def]
    """Add up a number for each document that depends on all that is known of it, and not on where it lies."""
    total = np.uint64(0)
    prime = np.uint64(0x9E3779B97F4A7C15)
    for q in range(offsets.size - 1):
        for i in range(offsets[q], offsets[q + 1]):
            mixed = (ids[q] ^ np.uint64(i - offsets[q])) * prime
            mixed = (mixed ^ np.uint64(np.float32(labels[i]).view(np.uint32))) * prime
            mixed = (mixed ^ np.uint64(np.float32(weights[q]).view(np.uint32))) * prime
            for j in range(features.shape[1]):
                mixed = (mixed ^ (mixed >> np.uint64(29)) ^ np.uint64(features[i, j])) * prime
            total += mixed ^ (mixed >> np.uint64(32))
    return total
