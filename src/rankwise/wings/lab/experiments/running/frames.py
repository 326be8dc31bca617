"""The rows that a trial leaves: values per query, learning curves, single documents."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankwise import RankingDataset
from rankwise.wings.lab.experiments.schema import CONTRIBUTIONS, CURVES, DOCUMENTS, FEATURES, QUERIES
from rankwise.wings.lab.experiments.spec import CURVES as KINDS

if TYPE_CHECKING:
    from rankwise import Ranker
    from rankwise.wings.lab.experiments.running.trials import Untrained

_FIRST, _LATER, _STEPS = 50, 200, (1, 5, 25, 100, 500, 2500)  # rounds of a curve that are kept
_MOST_DOCUMENTS = 300_000
_MOST_NUMBERS = 6_000_000
_MOST_EXPLAINED = 1_500_000  # contributions of a method
_MOST_LEAVES = 20_000_000  # that SHAP values go through: documents times leaves of the model


def queries(
    key: Mapping[str, object], test: RankingDataset, columns: Mapping[str, NDArray[np.float64]], relevant: float
) -> pl.DataFrame:
    """One row per query, with one column per metric."""
    ids = np.arange(test.n_queries) if test.query_ids is None else test.query_ids
    frame = pl.DataFrame(
        {
            "query": pl.Series(ids).cast(pl.String),
            "documents": test.sizes,
            "relevant": np.add.reduceat(test.labels >= relevant, test.offsets[:-1], dtype=np.int64),
            "weight": np.ones(test.n_queries) if test.weights is None else test.weights,
            **columns,
        }
    )
    frame = frame.with_columns(pl.col(list(columns)).fill_nan(None), *_constant(key))
    return frame.select([*QUERIES, *columns]).cast(QUERIES)


def of_documents(
    key: Mapping[str, object], ranker: "Ranker | Untrained | None", test: RankingDataset, scores: NDArray[np.float64]
) -> dict[str, pl.DataFrame]:
    """The frames of single documents, of as many as a page can hold: scores, features, contributions to the scores."""
    frames = {"documents": _documents(key, test, scores)}
    if test.n_features:
        frames["features"] = _features(key, test)
        if (explained := contributions(key, ranker, test)) is not None:
            frames["contributions"] = explained
    return frames


def _documents(key: Mapping[str, object], test: RankingDataset, scores: NDArray[np.float64]) -> pl.DataFrame:
    """Label and score of every document, of as many queries as a page can hold."""
    rows = _whole_queries(test, _MOST_DOCUMENTS)
    ids = pl.lit(None) if test.document_ids is None else pl.Series(test.document_ids[:rows])
    return _by_document(key, test, rows, DOCUMENTS, id=ids, label=test.labels[:rows], score=scores[:rows])


def _features(key: Mapping[str, object], test: RankingDataset) -> pl.DataFrame:
    """The features of as many of those documents as a page can hold."""
    rows = _whole_queries(test, min(_MOST_DOCUMENTS, _MOST_NUMBERS // max(test.n_features, 1)))
    values = pl.Series(test.features[:rows].tolist(), dtype=pl.List(pl.Float32))
    return _by_document(key, test, rows, FEATURES, features=values)


def contributions(
    key: Mapping[str, object], ranker: "Ranker | Untrained | None", test: RankingDataset
) -> pl.DataFrame | None:
    """What each feature adds to the scores of documents: of the first queries, as many as take no long time."""
    leaves = getattr(getattr(ranker, "model_", None), "n_trees", 0) * getattr(ranker, "settings_", {}).get("leaves", 0)
    most = min(_MOST_DOCUMENTS, _MOST_EXPLAINED // test.n_features, _MOST_LEAVES // max(leaves, 1))
    queries = int(np.searchsorted(test.offsets, most, side="right")) - 1
    if not queries or ranker is None or not hasattr(ranker, "contributions"):
        return None
    some = test.take(np.arange(queries))
    try:
        parts = ranker.contributions(some).parts[:, :-1]
    except ValueError:  # trees that their library cannot explain, and factors
        return None
    added = pl.Series(parts.astype(np.float32).tolist(), dtype=pl.List(pl.Float32))
    return _by_document(key, some, some.n_docs, CONTRIBUTIONS, contributions=added)


def curves(key: Mapping[str, object], ranker: "Ranker | Untrained") -> pl.DataFrame:
    """What the ranker kept by round: its loss, and the metrics of validation data and of others that were measured."""
    rows: list[tuple[int, str, float]] = []
    for name, column in ranker.history_.items():
        series = name if name == "loss" or name.partition(" ")[0] in KINDS else f"valid {name}"
        first = 0 if name == "loss" else 1
        rows += [(number - 1 + first, series, float(column[number - 1])) for number in _spread(len(column))]
    frame = pl.DataFrame(rows, schema=["round", "series", "value"], orient="row")
    return frame.with_columns(_constant(key)).select(list(CURVES)).cast(CURVES)


def _spread(length: int) -> list[int]:
    """Which rounds of a curve are kept, counted from 1: the first all, later ones in whole steps, and the last.

    Steps are whole numbers, so that curves of different lengths have rounds in common: 50, 100, 200, …

    >>> _spread(3), _spread(1000)[48:53], len(_spread(1000)), len(_spread(4000))
    ([1, 2, 3], [49, 50, 55, 60, 65], 240, 208)
    """
    step = next((step for step in _STEPS if (length - _FIRST) / step <= _LATER), length)
    return sorted({*range(1, min(length, _FIRST) + 1), *range(_FIRST, length + 1, step), length} - {0})


def _constant(key: Mapping[str, object]) -> list[pl.Expr]:
    return [pl.lit(value).alias(name) for name, value in key.items()]


def _by_document(
    key: Mapping[str, object], data: RankingDataset, rows: int, schema: pl.Schema, **columns: Any
) -> pl.DataFrame:
    """One row for each of the first documents, with the number of its place in its query."""
    places = np.arange(data.n_docs) - np.repeat(data.offsets[:-1], data.sizes)
    frame = pl.DataFrame({"query": pl.Series(data.qids()[:rows]), "document": places[:rows]})
    return frame.with_columns(*_constant(key), **columns).select(list(schema)).cast(schema)


def _whole_queries(data: RankingDataset, most: int) -> int:
    """How many rows whole queries take, at most so many."""
    return int(data.offsets[np.searchsorted(data.offsets, most, side="right") - 1])
