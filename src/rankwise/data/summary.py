"""A summary of a data set, in numbers."""

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.base.arrays import Column, Ids, Json, row_blocks
from rankwise.base.tables import Table
from rankwise.data.dataset import RankingDataset

_FEW_LABELS = 20
_BINS = 10
_SHOWN = 40  # features that are named


def features_in_words(data: RankingDataset, most: int = 12) -> str:
    """Return the names of the features, at most so many of them; categorical ones are marked.

    >>> data = RankingDataset([[1, 0], [1, 5]], [0, 2], [0, 2], feature_names=["bm25", "shop"], categorical=[1])
    >>> features_in_words(data)
    '2 features: bm25, shop (category)'
    >>> features_in_words(data, most=1)
    '2 features: bm25, … and 1 more'
    """
    count = f"{data.n_features:,} feature{'' if data.n_features == 1 else 's'}"
    if data.feature_names is None:
        return f"{count} without names"
    marked = [f"{name} (category)" if kind != "number" else name for name, kind in _types(data).items()]
    rest = data.n_features - most
    return f"{count}: {', '.join(marked[:most])}" + (f", … and {rest:,} more" if rest > 0 else "")


def _types(data: RankingDataset) -> dict[str, str]:
    kinds = dict.fromkeys(range(data.n_features), "number") | dict.fromkeys(data.categorical, "category")
    kinds |= {column: f"category of {len(values):,}" for column, values in data.categories.items()}
    return dict(zip(data.feature_names or (), kinds.values(), strict=False))


def summary(data: RankingDataset) -> Json:
    """Return counts and statistics of ``data``: plain numbers, ready to print or to write as JSON.

    ``labels`` counts the documents of each label, or, where there are more than twenty different ones, of ten
    intervals; ``groups`` those of each group, where the data have groups. ``feature_types`` says which features hold
    numbers and which categories, where they have names. A constant feature has the same value, or is missing, in every
    document: no ranker can use it.

    >>> data = RankingDataset([[1, 0], [1, np.nan], [1, 5]], [0, 2, 0], [0, 2, 3])
    >>> for name, value in summary(data).items():
    ...     print(name, value)
    queries 2
    documents 3
    features 2
    labels {'0': 2, '2': 1}
    list_lengths {'min': 1, 'median': 1.5, 'mean': 1.5, '90%': 1.9, 'max': 2}
    queries_without_relevant 1
    missing 0.16666666666666666
    features_with_missing 1
    constant_features ['1']
    """
    sizes = data.sizes
    best = np.maximum.reduceat(data.labels, data.offsets[:-1]) if data.n_queries else np.zeros(0)
    missing, low, high = ranges(data)
    varies = (low < high) | ((missing > 0) & (missing < data.n_docs))
    names = data.feature_names or [str(number) for number in range(1, data.n_features + 1)]
    return {
        "queries": data.n_queries,
        "documents": data.n_docs,
        "features": data.n_features,
        **({} if data.feature_names is None else {"feature_types": _types(data)}),
        "labels": _labels(data.labels),
        **({} if data.groups is None else {"groups": _groups(data.groups)}),
        "list_lengths": {
            "min": int(sizes.min()),
            "median": float(np.median(sizes)),
            "mean": float(sizes.mean()),
            "90%": float(np.quantile(sizes, 0.9)),
            "max": int(sizes.max()),
        }
        if sizes.size
        else {},
        "queries_without_relevant": int((best <= 0).sum()),
        "missing": float(missing.sum() / max(data.n_docs * data.n_features, 1)),
        "features_with_missing": int((missing > 0).sum()),
        "constant_features": [name for name, moves in zip(names, varies.tolist(), strict=True) if not moves],
    }


def ranges(data: RankingDataset) -> tuple[NDArray[np.int64], Column, Column]:
    """Return the number of missing values, the lowest and the highest value of each feature."""
    missing = np.zeros(data.n_features, np.int64)
    low, high = np.full(data.n_features, np.inf, np.float32), np.full(data.n_features, -np.inf, np.float32)
    if data.is_sparse and data.n_docs:
        matrix: Any = data.features
        missing += np.bincount(matrix.indices[np.isnan(matrix.data)], minlength=data.n_features)
        low, high = matrix.nanmin(axis=0).toarray().ravel(), matrix.nanmax(axis=0).toarray().ravel()
    else:
        for rows in row_blocks(data.n_docs, data.n_features):
            block = data.features[rows]
            missing += np.isnan(block).sum(0)
            low, high = np.fmin(low, np.fmin.reduce(block)), np.fmax(high, np.fmax.reduce(block))
    return missing, low, high


def _labels(labels: NDArray[np.float64]) -> dict[str, int]:
    values, counts = np.unique(labels, return_counts=True)
    if values.size <= _FEW_LABELS:
        return {f"{value:g}": int(count) for value, count in zip(values, counts, strict=True)}
    counts, edges = np.histogram(labels, _BINS)
    spans = [f"{low:.4g} to {high:.4g}" for low, high in itertools.pairwise(edges)]
    return dict(zip(spans, counts.tolist(), strict=True))


def _groups(groups: Ids) -> dict[str, int]:
    """Count the documents of each group: of the largest, if there are many."""
    names, counts = np.unique(groups, return_counts=True)
    largest = np.argsort(-counts, kind="stable")
    shown = {str(names[place]): int(counts[place]) for place in largest[:_FEW_LABELS]}
    rest = int(counts[largest[_FEW_LABELS:]].sum())
    return shown | ({f"{names.size - _FEW_LABELS:,} more": rest} if rest else {})


def in_words(facts: Json) -> Table:
    """Return a table of a summary: what, and how much."""

    def words(value: object) -> str:
        if isinstance(value, dict):
            shown = [f"{name}: {words(number)}" for name, number in itertools.islice(value.items(), _SHOWN)]
            rest = len(value) - _SHOWN
            return ", ".join(shown) + (f", … and {rest:,} more, which --json lists" if rest > 0 else "")
        if isinstance(value, list):
            shown = [*map(str, value[:10]), *(["…"] if len(value) > 10 else [])]
            return f"{len(value)}" + (f": {', '.join(shown)}" if value else "")
        if isinstance(value, float):
            return f"{value:.4g}"
        return value if isinstance(value, str) else f"{value:,}"

    rows = [(name.replace("_", " "), words(value)) for name, value in facts.items() if name != "missing"]
    rows.append(("missing values", f"{facts['missing']:.2%}"))
    return Table(header=("fact", "value"), rows=tuple(rows), align="ll")
