"""Writing LETOR text: every number with the fewest digits that read back to the same float32."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rankwise import check
from rankwise.base.arrays import Ids
from rankwise.base.sparse import is_sparse
from rankwise.data import columns
from rankwise.data.dataset import RankingDataset
from rankwise.data.io.file_formats import TABLES, create_bytes, ending
from rankwise.data.io.letor.lines import MOST_ID

_BLOCK = 1 << 18  # numbers that are written at once


def unsupported() -> list[str]:
    """Return the columns that LETOR text cannot hold."""
    return [column.name for column in columns.COLUMNS if not column.in_letor] + ["categorical"]


def write_letor(data: RankingDataset, path: str | Path, *, force: bool = False, lossy: bool = False) -> Path:
    """Write LETOR text, compressed if the name ends in ``.gz`` or ``.zst``; reading it gives the same numbers back.

    Every feature of every document is written, of a sparse matrix those that it stores; indexes count from 1, and
    comments are ``#docid = … inc = … prob = …``. The last columns of a sparse matrix may be empty: name ``n_features``
    when you read it. The file appears once it is complete, and replaces another only with ``force``. It has no place
    for feature names, which are left out, nor for categorical columns and most others of :func:`unsupported`: data with
    them are rejected, unless ``lossy`` allows to leave them out.
    """
    if ending(Path(path)) in TABLES:
        hint = "end its name in .txt, .letor or .svm, or write Parquet with rw.data.write_parquet"
        raise check.error("LETOR text is read by names of text", got=repr(Path(path).name), hint=hint)
    comments = {"inc": data.inclusion_probabilities, "prob": data.relevance_probabilities}
    after_ids = ("inclusion_probabilities", "relevance_probabilities")
    names = [*unsupported(), *(after_ids if data.document_ids is None else ())]
    held = [name for name in names if getattr(data, name) is not None and len(getattr(data, name))]
    if held and not lossy:
        raise check.error(
            f"LETOR text cannot hold {', '.join(held)}",
            hint="write Parquet, which keeps everything, or `pass lossy=True` to leave them out",
        )
    ids = np.arange(data.n_queries) if data.query_ids is None else data.query_ids
    heads = [f" qid:{name}" for name in _words("query ids", ids)]
    queries = np.repeat(np.arange(data.n_queries), data.sizes)
    longest = data.features.nnz / max(data.n_docs, 1) if data.is_sparse else data.n_features  # type: ignore[attr-defined]
    rows = max(1, int(_BLOCK // (longest + 1)))
    with create_bytes(path, force=force) as out:
        for first in range(0, data.n_docs, rows):
            block = slice(first, first + rows)
            labels = data.labels[block].tolist()
            starts = [
                f"{int(label) if label.is_integer() and label < 1e15 else repr(label)}{heads[query]}"
                for label, query in zip(labels, queries[block].tolist(), strict=True)
            ]
            if data.document_ids is None:
                ends = ["\n"] * len(starts)
            else:
                ends = [f" #docid = {name}" for name in _words("document ids", data.document_ids[block])]
                for key, column in comments.items():
                    if column is not None:
                        numbers = column[block].tolist()
                        ends = [f"{text} {key} = {value!r}" for text, value in zip(ends, numbers, strict=True)]
                ends = [f"{text}\n" for text in ends]
            out.write(_lines(data.features[block], starts, ends))
    return Path(path)


def _lines(features: Any, starts: list[str], ends: list[str]) -> bytes:
    """Write rows as start, `` index:value`` …, end."""
    rows, width = features.shape
    if is_sparse(features):
        values, numbers, sizes = features.data, features.indices, np.diff(features.indptr)
    else:
        values, numbers, sizes = features.ravel(), np.tile(np.arange(width), rows), np.full(rows, width)
    digits = pl.Series(values).cast(pl.String).str.strip_suffix(".0")
    cells = pl.select(pl.concat_str(pl.lit(" "), pl.Series(numbers + 1), pl.lit(":"), digits)).to_series()
    places = np.arange(rows)
    order = np.argsort(np.concatenate([places, np.repeat(places, sizes), places]), kind="stable")
    texts = pl.concat([pl.Series(starts, dtype=pl.String), cells.alias(""), pl.Series(ends, dtype=pl.String)])
    return str(texts[order].str.join("").item()).encode()


def _words(what: str, ids: Ids) -> list[str]:
    """Return ids as words; raise for one that would not read back."""
    words = list(map(str, ids.tolist()))
    for word in words if ids.dtype.kind == "U" else ():
        if not re.fullmatch(r"[^ \t\r\n\0]+", word) or len(word.encode(errors="replace")) > MOST_ID:
            what = f"{what} must be single words of at most {MOST_ID} bytes to be written as LETOR text"
            raise check.error(what, got=repr(word[:60]), hint="rename them, or write Parquet")
    return words
