"""The columns of the frames that results consist of."""

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

KEY: dict[Any, Any] = {"data": pl.String, "level": pl.Float64, "trial": pl.Int64, "method": pl.String}
QUERIES: Mapping[Any, Any] = KEY | {
    "query": pl.String,
    "documents": pl.Int64,
    "relevant": pl.Int64,
    "weight": pl.Float64,
}
CURVES: Mapping[Any, Any] = KEY | {"round": pl.Int64, "series": pl.String, "value": pl.Float64}
DOCUMENTS: Mapping[Any, Any] = {
    "data": pl.String,
    "method": pl.String,
    "query": pl.String,
    "document": pl.Int64,
    "id": pl.String,
    "label": pl.Float64,
    "score": pl.Float64,
}
FEATURES: Mapping[str, Any] = {
    "data": pl.String,
    "query": pl.String,
    "document": pl.Int64,
    "features": pl.List(pl.Float32),
}
PUBLISHED: Mapping[str, Any] = {
    "data": pl.String,
    "level": pl.Float64,
    "method": pl.String,
    "metric": pl.String,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "source": pl.String,
}


def empty(schema: Mapping[str, Any]) -> pl.DataFrame:
    """Make a frame without rows.

    >>> empty(FEATURES).columns
    ['data', 'query', 'document', 'features']
    """
    return pl.DataFrame(schema=dict(schema))


def together(frames: Iterable[pl.DataFrame], schema: Mapping[str, Any]) -> pl.DataFrame:
    """Lay frames below each other; none at all make an empty one, and a metric that one lacks is null there."""
    return pl.concat([empty(schema), *frames], how="diagonal")
