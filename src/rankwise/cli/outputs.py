"""Files that commands write: checked before the work begins, in the format that their ending names."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rankwise import check
from rankwise.base import files
from rankwise.base.tables import Table, as_csv
from rankwise.cli import console
from rankwise.statistics.result import as_json

if TYPE_CHECKING:
    import polars as pl

    from rankwise.base.arrays import Array
    from rankwise.data.dataset import RankingDataset
    from rankwise.statistics.evaluation import Evaluation

TABLES = (".json", ".csv", ".md", ".tex", ".txt")
FRAMES = (".csv", ".parquet")
PICTURES = (".png", ".svg", ".pdf")
PAGES = (".html", ".htm")
SCORES = (".csv", ".tsv", ".run", ".trec", ".txt")
"""Endings of scores, which may have .gz or .zst after them."""


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


def format_of_scores(path: Path) -> str:
    """Return the format of scores by the file's ending: the ending itself, without a .gz or .zst after it."""
    packed = path.suffix.lower() in (".gz", ".zst")
    ending = (path.with_suffix("") if packed else path).suffix.lower()
    if ending not in (SCORES if packed else (*SCORES, ".npy", ".parquet")):
        hint = "end it with .csv, .tsv, .run, .trec or .txt, also .gz and .zst after that, or with .npy or .parquet"
        raise check.error("a file's ending says its format", got=str(path), hint=hint)
    return ending


def write_scores(path: Path, scores: "Array", data: "RankingDataset", *, tag: str, force: bool) -> None:
    """Write scores, in the order of the file of data, as a TREC run, as a table, as an array or as lines."""
    from rankwise.data.io.file_formats import create_bytes

    match format_of_scores(path):
        case ".run" | ".trec":
            from rankwise.evaluation.score_files import in_order_of
            from rankwise.evaluation.trec import write_run

            write_run(in_order_of(data, scores), data, path, tag=tag, force=force)
        case ".parquet":
            with files.replacing(path, force=force) as new:
                _scored(scores, data).write_parquet(new)
        case ".csv" | ".tsv" as ending:
            text = as_csv(_scored(scores, data), separator="," if ending == ".csv" else "\t")
            with create_bytes(path, force=force) as out:
                out.write(text.encode())
        case ending:
            with create_bytes(path, force=force) as out:
                if ending == ".npy":
                    np.save(out, scores, allow_pickle=False)
                else:
                    out.write("".join(f"{score!r}\n" for score in scores.tolist()).encode())


def _scored(scores: "Array", data: "RankingDataset") -> "pl.DataFrame":
    """One row per document: query, document (its number within the query where it has no id) and score."""
    import polars as pl

    numbers = np.arange(data.n_docs) - np.repeat(data.offsets[:-1], data.sizes)
    documents = numbers if data.document_ids is None else data.document_ids
    ids = {"query": data.unsorted(data.qids()), "document": data.unsorted(documents)}
    return pl.DataFrame({**ids, "score": scores})
