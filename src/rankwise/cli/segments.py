"""Segments on the command line: names of features, or a table of queries."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise import check
from rankwise.base.arrays import Keywords
from rankwise.data.segments import TRAFFIC, segments_of

if TYPE_CHECKING:
    from rankwise.statistics.evaluation import Evaluation

_QUERY = "query"


def segment_of(words: Sequence[str]) -> Any:
    """Return what ``segment`` of :func:`rankwise.evaluate` takes: names, and mappings of tables; None without words."""
    found: list[Any] = []
    for word in words:
        found += [_read(Path(word))] if Path(word).suffix.lower() in (".csv", ".tsv", ".parquet") else [word]
    return tuple(found) or None


def with_columns(columns: Keywords, segment: Any) -> Keywords:
    """Return the columns to read of a table, those of segments as categories where no model has them as features."""
    names = [name for name in segment or () if isinstance(name, str) and name != TRAFFIC]
    new = [name for name in names if "features" in columns and name not in columns["features"]]
    return columns | {key: [*columns[key], *new] for key in ("features", "categorical") if new}


def segmented(evaluation: "Evaluation", segment: Any) -> "Evaluation":
    """Return stored results with segments, those that they know or those of a table."""
    settings: Any = {"weights": evaluation.weights, "known": evaluation.segments}
    found = {} if segment is None else segments_of(segment, evaluation.query_ids, **settings)
    return replace(evaluation, segments=found)


def _read(path: Path) -> dict[str, dict[str, Any]]:
    """Read a table with the column query and one for each kind of segments."""
    import polars as pl

    path = check.readable(path)
    with check.library("a table of segments", path):
        separator = "\t" if path.suffix.lower() == ".tsv" else ","
        text = path.suffix.lower() != ".parquet"
        frame = pl.read_csv(path, infer_schema=False, separator=separator) if text else pl.read_parquet(path)
    if _QUERY not in frame.columns or frame.width < 2:
        what = "a table of segments has the column query, and one for each kind of segments"
        raise check.error(what, got=f"the columns {', '.join(frame.columns[:5])}", where=str(path))
    if (again := frame[_QUERY].is_duplicated()).any():
        got = repr(frame[_QUERY].filter(again)[0])
        raise check.error("a query has one row in a table of segments", got=got, where=str(path))
    if TRAFFIC in frame.columns and not (counts := frame[TRAFFIC].cast(pl.Float64, strict=False)).has_nulls():
        frame = frame.with_columns(counts)
    ids = frame[_QUERY].to_list()
    return {name: dict(zip(ids, frame[name].to_list(), strict=True)) for name in frame.columns if name != _QUERY}
