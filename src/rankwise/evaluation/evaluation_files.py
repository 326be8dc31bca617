"""Evaluations on disk: the value of every query in a Parquet file, which keeps the kind of ids and every bit."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rankwise import check, moved
from rankwise.statistics.evaluation import SEGMENT, Evaluation, JudgedShare
from rankwise.statistics.result import write_frame

FILE = "results.parquet"
"""What the file is called in a folder of results."""
_ABOUT = ("ranking", "query", "weight", "fold")
"""Columns that are no metric."""
_CANDIDATES = "rankwise.candidates"
_JUDGED = "rankwise.judged"
_DIGEST = "digest of "
"""How names of columns begin that hold digests of labels."""


def write_evaluation(evaluation: Evaluation, path: str | Path, *, force: bool = False) -> Path:
    """Write one row per query, as ``to_frame()`` gives it, to a ``.parquet`` file."""
    path = Path(path)
    if path.suffix.lower() != ".parquet":
        raise check.error("an evaluation is written as Parquet", got=str(path), hint="end the name with .parquet")
    write_frame(frame_of(evaluation), path, force=force, metadata=metadata_of(evaluation))
    return path


def write_evaluations(evaluations: Mapping[str, Evaluation], path: Path, *, force: bool = False) -> None:
    """Write the rows of several by name, as CSV or Parquet; one alone is read again."""
    stored = path.suffix.lower() == ".parquet"
    rows = joined({name: frame_of(one) if stored else one.to_frame() for name, one in evaluations.items()})
    about = metadata_of(next(iter(evaluations.values()))) if len(evaluations) == 1 else None  # as are read again
    write_frame(rows, path, force=force, metadata=about)


def joined(frames: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Return frames by name as one, with the names in a first column."""
    return pl.concat([frame.select(pl.lit(name).alias("ranking"), pl.all()) for name, frame in frames.items()])


def metadata_of(evaluation: Evaluation) -> dict[str, str]:
    """Return what a file keeps beside its rows: which documents were ranked, and how many of the first were judged."""
    return {_CANDIDATES: evaluation.candidates, _JUDGED: json.dumps(evaluation.judged)}


def frame_of(evaluation: Evaluation) -> pl.DataFrame:
    """Return the rows of a file: those of ``to_frame()``, and digests of the labels that the values rest on."""
    digests = [pl.Series(_DIGEST + name, column) for name, column in evaluation.label_digests.items()]
    return evaluation.to_frame().with_columns(digests)


@moved.renamed("rw.results.read_evaluation")
def read_evaluation(path: str | Path, **about: Any) -> Evaluation:
    """Read what :func:`write_evaluation` wrote, or the folder of ``rankwise cross-validate``; for :func:`compare`.

    ``about`` is what :class:`Evaluation` takes beside: ``seed``, ``level``, ``resamples``. A file of an earlier
    version keeps no digest of the labels: whether others rest on the same ones cannot be checked then.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as here:
    ...     kept = write_evaluation(Evaluation({"ap": [0.5, float("nan")]}, ["a", "b"]), f"{here}/mine.parquet")
    ...     read_evaluation(kept)["ap"]
    array([0.5, nan])
    """
    path = Path(path)
    path = check.readable(path / FILE if path.is_dir() else path)
    with check.library("an evaluation", path):
        frame, kept = pl.read_parquet(path), pl.read_parquet_metadata(path)
        judged = json.loads(kept.get(_JUDGED, "null"))
        known = {"candidates": kept.get(_CANDIDATES, ""), "judged": judged and JudgedShare(int(judged[0]), *judged[1:])}
    names = _metrics(frame.schema)
    if names is None:
        hint = "pass what 'rankwise cross-validate', 'rankwise evaluate --per-query' or write_evaluation wrote"
        raise check.error("not the values of queries", got=f"the columns {', '.join(frame.columns[:5])}", hint=hint)
    if "ranking" in frame.columns and frame["ranking"].n_unique() > 1:
        hint = "write a file for each: evaluate one ranking at a time"
        got = f"{frame['ranking'].n_unique()}"
        raise check.error("the file holds several rankings", got=got, where=str(path), hint=hint)
    weights = frame["weight"].to_numpy() if "weight" in frame.columns else np.ones(frame.height)
    ids = frame["query"]
    with check.naming(path):
        return Evaluation(
            {name: frame[name].cast(pl.Float64).fill_null(np.nan).to_numpy() for name in names},
            np.array(ids.to_list(), np.str_) if ids.dtype == pl.String else ids.to_numpy(),
            None if (weights == 1.0).all() else weights,
            **{**known, "judgements": _digests(frame), "segments": _segments(frame), **about},
        )


def _segments(frame: pl.DataFrame) -> dict[str, Any]:
    return {name.removeprefix(SEGMENT): frame[name].to_numpy() for name in frame.columns if name.startswith(SEGMENT)}


def _digests(frame: pl.DataFrame) -> dict[str, Any]:
    columns = [name for name in frame.columns if name.startswith(_DIGEST)]
    return {name.removeprefix(_DIGEST): frame[name].cast(pl.UInt64).to_numpy() for name in columns}


def is_evaluation(path: str | Path) -> bool:
    """Whether a Parquet file holds values of queries, rather than data or scores, by its columns."""
    path = Path(path)
    path = path / FILE if path.is_dir() else path
    if path.suffix.lower() != ".parquet" or not path.is_file():
        return False
    try:
        return _metrics(pl.read_parquet_schema(path)) is not None
    except (pl.exceptions.PolarsError, OSError):
        return False


def _metrics(schema: Any) -> list[str] | None:
    """The columns that hold metrics; None if this is another table."""
    names = [name for name in schema if name not in _ABOUT and not name.startswith((_DIGEST, SEGMENT))]
    numbers = all(schema[name].is_float() or schema[name].is_integer() for name in names)
    return names if "query" in schema and names and numbers and not {"label", "score"} & set(names) else None


def read_evaluations(files: Mapping[str, Path], metrics: Sequence[str] | None = None) -> dict[str, Evaluation]:
    """Read several by name, with all of their metrics or with these."""
    evaluations = {name: read_evaluation(path) for name, path in files.items()}
    if metrics is None:
        return evaluations
    for name, one in evaluations.items():
        missing = [metric for metric in metrics if metric not in one.metrics]
        if missing:
            hint = f"choose among {', '.join(one.metrics)}, or write it anew with --metrics"
            raise check.error(f"{name} was not evaluated by a metric asked for", got=missing[0], hint=hint)
        evaluations[name] = replace(one, values={metric: one[metric] for metric in metrics})
    return evaluations
