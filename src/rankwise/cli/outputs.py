"""Files that commands write: checked before the work begins, in the format that their ending names."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rankwise.base import files
from rankwise.base.tables import Table, as_csv
from rankwise.cli import console
from rankwise.statistics.result import as_json

if TYPE_CHECKING:
    import polars as pl

    from rankwise.data.dataset import RankingDataset
    from rankwise.statistics.evaluation import Evaluation

TABLES = (".json", ".csv", ".md", ".tex", ".txt")
FRAMES = (".csv", ".parquet")
PICTURES = (".png", ".svg", ".pdf")
PAGES = (".html", ".htm")


def save(path: Path, document: object, tables: Sequence[Table], frame: "pl.DataFrame", *, force: bool) -> None:
    """Write a result: all of it as JSON, its numbers as CSV, its tables as Markdown, LaTeX or text."""
    match path.suffix.lower():
        case ".json":
            text = as_json(document)
        case ".csv":
            text = as_csv(frame)
        case ending:
            write = {".md": "markdown", ".tex": "latex", ".txt": "text"}[ending]
            text = "\n\n".join(getattr(table, write)() for table in tables) + "\n"
    with files.replacing(path, force=force) as new:
        new.write_text(text, encoding="utf-8")


def features_of(data: "RankingDataset") -> None:
    """Print the features that a ranker is trained on."""
    from rankwise.data.summary import features_in_words

    console.note(features_in_words(data))


def save_evaluations(
    evaluations: "Mapping[str, Evaluation]", document: object, tables: Sequence[Table], summary: Path | None,
    per_query: Path | None, *, force: bool,
) -> None:  # fmt: skip
    """Write evaluations: their summary, and the values of every query."""
    from rankwise.evaluation.evaluation_files import joined, write_evaluations

    if summary is not None:
        save(summary, document, tables, joined({name: one.summary() for name, one in evaluations.items()}), force=force)
    if per_query is not None:
        write_evaluations(evaluations, per_query, force=force)
