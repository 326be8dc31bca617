"""The columns of the frames that results consist of."""

from collections.abc import Iterable, Mapping

import polars as pl

KEY = pl.Schema({"data": pl.String(), "level": pl.Float64(), "trial": pl.Int64(), "method": pl.String()})
_COUNTS = {"documents": pl.Int64(), "relevant": pl.Int64()}
QUERIES = pl.Schema({**KEY, "query": pl.String(), **_COUNTS, "weight": pl.Float64()})
CURVES = pl.Schema({**KEY, "round": pl.Int64(), "series": pl.String(), "value": pl.Float64()})
_DOCUMENT = {"query": pl.String(), "document": pl.Int64()}
_SCORED = {"data": pl.String(), "method": pl.String(), **_DOCUMENT}
DOCUMENTS = pl.Schema({**_SCORED, "id": pl.String(), "label": pl.Float64(), "score": pl.Float64()})
FEATURES = pl.Schema({"data": pl.String(), **_DOCUMENT, "features": pl.List(pl.Float32)})
CONTRIBUTIONS = pl.Schema({**_SCORED, "contributions": pl.List(pl.Float32)})
FRAMES = {
    "queries": QUERIES,
    "curves": CURVES,
    "documents": DOCUMENTS,
    "features": FEATURES,
    "contributions": CONTRIBUTIONS,
}
"""Frame of results -> the columns that it has at least."""


def empty(schema: pl.Schema) -> pl.DataFrame:
    """Make a frame without rows.

    >>> empty(FEATURES).columns
    ['data', 'query', 'document', 'features']
    """
    return pl.DataFrame(schema=schema)


def stack_frames(frames: Iterable[pl.DataFrame], schema: pl.Schema) -> pl.DataFrame:
    """Lay frames below each other; none at all make an empty one, and a metric that one lacks is null there."""
    return pl.concat([empty(schema), *frames], how="diagonal")


def stack_trials(trials: Iterable[Mapping[str, pl.DataFrame]]) -> dict[str, pl.DataFrame]:
    """Lay the frames of trials below each other, kind by kind; the features of a document are there once."""
    trials = list(trials)
    frames = {
        name: stack_frames([one[name] for one in trials if name in one], schema) for name, schema in FRAMES.items()
    }
    return frames | {"features": frames["features"].unique(["data", "query", "document"], maintain_order=True)}
