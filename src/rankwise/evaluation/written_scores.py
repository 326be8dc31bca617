"""Files of scores that are written: as a TREC run, a table, an array or lines, by their endings."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rankwise import check
from rankwise.base import files
from rankwise.base.arrays import Array
from rankwise.base.tables import as_csv

if TYPE_CHECKING:
    import polars as pl

    from rankwise.data.dataset import RankingDataset

_ENDINGS = (".csv", ".tsv", ".run", ".trec", ".txt")


def format_of(path: Path) -> str:
    """Return the format of scores by the file's ending: the ending itself, without a .gz or .zst after it."""
    packed = path.suffix.lower() in (".gz", ".zst")
    ending = (path.with_suffix("") if packed else path).suffix.lower()
    if ending not in (_ENDINGS if packed else (*_ENDINGS, ".npy", ".parquet")):
        hint = "end it with .csv, .tsv, .run, .trec or .txt, also .gz and .zst after that, or with .npy or .parquet"
        raise check.error("a file's ending says its format", got=str(path), hint=hint)
    return ending


def write_scores(path: Path, scores: Array, data: "RankingDataset", *, tag: str, force: bool) -> None:
    """Write scores, in the order of the file of data, as a TREC run, as a table, as an array or as lines."""
    from rankwise.data.io.file_formats import create_bytes

    match format_of(path):
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


def _scored(scores: Array, data: "RankingDataset") -> "pl.DataFrame":
    """One row per document: query, document (its number within the query where it has no id) and score."""
    import polars as pl

    numbers = np.arange(data.n_docs) - np.repeat(data.offsets[:-1], data.sizes)
    documents = numbers if data.document_ids is None else data.document_ids
    ids = {"query": data.unsorted(data.qids()), "document": data.unsorted(documents)}
    return pl.DataFrame({**ids, "score": scores})
