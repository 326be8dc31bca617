"""What workers do to get their part of the data: look at ids, read or take rows, and join them to whole queries."""

from typing import Any, NamedTuple, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankwise.arrays import Ids, Keywords
from rankwise.compiling import kernel
from rankwise.dask.plan import Rows, Runs
from rankwise.data import frames
from rankwise.data.categories import Values
from rankwise.data.columns import taken_by_objectives
from rankwise.data.dataset import RankingDataset
from rankwise.data.tables.features import category_lists, feature_columns
from rankwise.data.tables.polars import as_polars
from rankwise.stream import hashed_ids

_MIXER = np.uint64(0x9E3779B97F4A7C15)  # odd: no two numbers become the same


class Facts(NamedTuple):
    """What is told of a worker's part."""

    queries: int
    documents: int
    sample: RankingDataset
    digest: int


def find_runs(source: object, columns: Keywords) -> Runs:
    """Find the queries of a partition, and the categories of its columns."""
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


def take_rows(source: object, rows: Rows) -> pl.DataFrame:
    """Take rows of a partition."""
    return rows.of(_table(source)[0]).collect()


def join_rows(pieces: list[Any], columns: Keywords, scattered: bool, unnamed: tuple[str, ...]) -> RankingDataset:
    """Make the data set of one worker."""
    tables = [
        of.of(pl.scan_parquet(table)) if isinstance(table, str) else table.lazy() for table, of in map(_paired, pieces)
    ]
    names = tables[0].collect_schema().names()  # a later file may have them in another order
    whole = pl.concat(
        [_by_value(table.select(names), columns["categories"]) for table in tables], how="vertical_relaxed"
    )
    data = RankingDataset.from_frame(whole, sort=scattered, **columns).without_rows()
    nothing: Keywords = dict.fromkeys(unnamed)
    return data.with_(**nothing) if unnamed else data


def facts_of(data: RankingDataset) -> Facts:
    """Count and sum up the part of a worker."""
    weights = np.ones(data.n_queries) if data.weights is None else data.weights
    ids = cast("Ids", data.query_ids)
    features, documents = data.features.view(np.uint32), _of_documents(data)
    digest = _digest(features, data.labels, weights, hashed_ids(ids), documents, data.offsets)
    return Facts(data.n_queries, data.n_docs, data.take([0]), int(digest))


def _table(source: Any) -> tuple[pl.LazyFrame, dict[str, Values]]:
    return (pl.scan_parquet(source), {}) if isinstance(source, str) else as_polars(source)


def _features(table: pl.LazyFrame, columns: Keywords) -> list[str]:
    """The columns that are features; one that is missing in this partition alone is named when all are compared."""
    asked = columns.get("features")
    if asked and not any(mark in name for name in asked for mark in "*?[!"):
        return list(asked)
    return feature_columns(table, columns)


def _paired(piece: object) -> tuple[Any, Any]:
    return piece if isinstance(piece, tuple) else (piece, None)


def _by_value(table: pl.LazyFrame, lists: dict[str, Values]) -> pl.LazyFrame:
    """Give columns of categories as text: types that list others would not fit one below the other."""
    schema = table.collect_schema()
    texts = [name for name in lists if isinstance(schema[name], pl.Categorical | pl.Enum)]
    return table.with_columns(pl.col(name).cast(pl.String) for name in texts)


def _of_documents(data: RankingDataset) -> NDArray[np.uint64]:
    """What objectives are told of single documents beside their labels; 0 where that is nothing."""
    words, mixer = np.zeros(data.n_docs, np.uint64), np.uint64(1)
    for number, column in enumerate(taken_by_objectives()):
        values = getattr(data, column.name)
        with np.errstate(over="ignore"):
            mixer *= _MIXER if number > 1 else np.uint64(1)  # other bits: two columns could hold the same numbers
        if values is not None and column.kind == "id":
            names, places = np.unique(values, return_inverse=True)
            words ^= hashed_ids(names)[places] * mixer
        elif values is not None:
            words ^= values.astype(np.float64, copy=False).view(np.uint64) * mixer
    return words


@kernel
def _digest(features, labels, weights, ids, documents, offsets):  # type: ignore[no-untyped-def]
    """Add up a number for each document that depends on all that is known of it, and not on where it lies."""
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
