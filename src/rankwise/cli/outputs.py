"""Files that commands write: checked before the work begins, in the format that their ending names."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rankwise import files
from rankwise.cli import console
from rankwise.models import storage
from rankwise.statistics.tables import Table, as_csv

if TYPE_CHECKING:
    import polars as pl

    from rankwise.data.dataset import RankingDataset
    from rankwise.statistics.evaluation import Evaluation

TABLES = (".json", ".csv", ".md", ".tex", ".txt")
FRAMES = (".csv", ".parquet")
PICTURES = (".png", ".svg", ".pdf")
PAGES = (".html", ".htm")


def is_interrupted(path: Path) -> bool:
    """Whether a folder holds a model whose training was interrupted."""
    try:
        description, _ = storage.read(path)
    except (OSError, ValueError):
        return False
    return description.get("stopped") == "interrupted"


def save(path: Path, document: object, tables: Sequence[Table], frame: "pl.DataFrame", *, force: bool) -> None:
    """Write a result: all of it as JSON, its numbers as CSV, its tables as Markdown, LaTeX or text."""
    match path.suffix.lower():
        case ".json":
            text = console.as_json(document)
        case ".csv":
            text = as_csv(frame)
        case ending:
            write = {".md": "markdown", ".tex": "latex", ".txt": "text"}[ending]
            text = "\n\n".join(getattr(table, write)() for table in tables) + "\n"
    with files.replacing(path, force=force) as new:
        new.write_text(text, encoding="utf-8")


def save_frame(path: Path, frame: "pl.DataFrame", *, force: bool, metadata: dict[str, str] | None = None) -> None:
    """Write a frame as CSV, JSON or Parquet, which alone has room for ``metadata``."""
    with files.replacing(path, force=force) as new:
        if path.suffix.lower() == ".csv":
            new.write_text(as_csv(frame), encoding="utf-8")
        elif path.suffix.lower() == ".json":
            new.write_text(console.as_json(frame.to_dicts()), encoding="utf-8")
        else:
            frame.write_parquet(new, metadata=metadata)


def features_of(data: "RankingDataset") -> None:
    """Print the features that a ranker is trained on."""
    from rankwise.data.summary import features_in_words

    console.note(features_in_words(data))


def save_evaluations(
    evaluations: "Mapping[str, Evaluation]", document: object, tables: Sequence[Table], summary: Path | None,
    per_query: Path | None, *, force: bool,
) -> None:  # fmt: skip
    """Write evaluations: their summary, and the values of every query."""
    import polars as pl

    from rankwise.evaluation.evaluation_files import frame_of, metadata_of

    def joined(frames: "Mapping[str, pl.DataFrame]") -> "pl.DataFrame":
        return pl.concat([frame.select(pl.lit(name).alias("ranking"), pl.all()) for name, frame in frames.items()])

    if summary is not None:
        frame = joined({name: one.summary() for name, one in evaluations.items()})
        save(summary, document, tables, frame, force=force)
    if per_query is not None:
        stored = per_query.suffix.lower() == ".parquet"
        rows = joined({name: frame_of(one) if stored else one.to_frame() for name, one in evaluations.items()})
        about = metadata_of(next(iter(evaluations.values()))) if len(evaluations) == 1 else None  # as are read again
        save_frame(per_query, rows, force=force, metadata=about)
