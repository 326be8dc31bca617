"""Lists of texts in files: JSON lines, CSV and Parquet."""

import itertools
import json
from pathlib import Path
from typing import IO, Any

import numpy as np

from rankwise import check
from rankwise.base import files
from rankwise.base.arrays import Keywords
from rankwise.data.io import TABLES, ending, file_formats, read_objects
from rankwise.wings.rerank.data.lists import Lists
from rankwise.wings.rerank.data.rows import NUMBERS, TextRoles, gather

_FORMATS = ("jsonl", "csv", "parquet")
_ENDINGS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", **TABLES}


def read(
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002 (as users call it)
    separator: str | None = None,
    **columns: Any,
) -> Lists:
    r"""Read lists of texts: JSON lines, CSV, or Parquet, a file or a folder of them.

    A row holds a whole list, ``{"query": "…", "documents": ["…", "…"], "labels": [2, 0]}``, or one document of it,
    ``{"query": "…", "document": "…", "label": 2}``; rows of the latter kind are joined by ``query_id``, or by the text
    of the query. A document is text, or an object with ``text`` and perhaps ``title``. Errors name the line.

    Args:
        path: The file; ``"-"`` is standard input (JSON lines, or CSV). ``.gz`` and ``.zst`` are unpacked.
        format: ``"jsonl"``, ``"csv"`` or ``"parquet"``; by default by the ending of the name.
        separator: Separator of the columns of CSV; by default the comma, tab, semicolon or bar that is most frequent
            in the first line.
        columns: Names of columns: ``query``, ``document`` and ``label``, and where there are such, ``query_id``,
            ``document_id``, ``teacher_score``, ``document_weight``, ``propensity`` and ``weight`` (of the query). By
            default columns of these names, or their plurals. ``positive`` and ``negative`` name columns of relevant and
            other documents, texts or lists of them, in place of documents and labels. With ``to_score=True`` there
            need be no labels.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as here:
    ...     path = Path(here, "lists.jsonl")
    ...     line = '{"query": "hat", "documents": ["a hat", "a shoe"], "labels": [1, 0], "teacher": [3.5, -1]}'
    ...     _ = path.write_text(line)
    ...     lists = read(path, teacher_score="teacher")
    >>> print(lists, lists.columns)
    Lists(1 query, 2 documents, labels 0 to 1) {'teacher_scores': array([ 3.5, -1. ])}
    """
    kind = _format(Path(path)) if format is None else check.choice("format of lists of texts", format, _FORMATS)
    if separator is not None and kind != "csv":
        raise check.error("separator belongs to CSV", got=f"{path}, which is read as {kind}", hint="leave it out")
    place = file_formats.shown(path)
    if kind == "parquet":
        from rankwise.data.io import parquet  # brings polars, which takes long to load

        paths = parquet.parquet_files(path)
        with parquet.reading(paths):
            table = parquet.scan(paths)
            roles = TextRoles(table.collect_schema().names(), **columns)
            rows = enumerate(table.select(roles.used).collect().iter_rows(named=True))
            return gather(Lists, rows, roles, lambda row: f"row {row} of {path}")
    with check.naming(place):
        if kind == "csv":
            from rankwise.data.io import read_table  # brings polars, too

            csv = read_table(Path(path), separator=separator)
            roles = TextRoles(csv.columns, **columns)
            rows = enumerate(csv.frame.select(roles.used).iter_rows(named=True))
            return gather(Lists, rows, roles, lambda row: f"{csv.place(row)} of {place}")
        objects = read_objects(path)
        first = next(objects, None)
        if first is None:
            raise check.error("there is nothing in the file", where=place, hint="write one list per line")
        roles = TextRoles(list(first[1]), **columns)
        return gather(Lists, itertools.chain([first], objects), roles, lambda line: f"line {line} of {place}")


def write(lists: Lists, path: str | Path, *, force: bool = False) -> Path:
    """Write lists of texts in the format of the name's ending, for :func:`read` to read back.

    ``.jsonl`` (also ``.ndjson`` and ``.json``) and ``.parquet`` hold a list in each row, ``.csv`` and ``.tsv`` a
    document; ``.gz`` and ``.zst`` at the end of a name of text compress it. CSV does not tell numbers from text: ids
    of one kind may be read back as the other. Queries of equal texts without ids are numbered there, to stay apart.

    Features, groups, positions and judgments are left out: lists of texts are read without them.
    """
    path = Path(path)
    kind = _ENDINGS.get(ending(path))
    if kind is None or (kind == "parquet" and ending(path) != path.suffix.lower()):
        hint = "end its name in .jsonl, .csv or .tsv, with .gz or .zst after it to compress, or in .parquet"
        raise check.error("cannot tell the format of lists of texts from the name", got=repr(path.name), hint=hint)
    if kind == "parquet":
        import polars as pl  # takes long to load

        with files.replacing(path, force=force) as new:
            pl.DataFrame(_by_list(lists)).write_parquet(new)
        return path
    with file_formats.create_bytes(path, force=force) as out:
        if kind == "csv":
            _write_csv(lists, out, "\t" if ending(path) == ".tsv" else ",")
        else:
            columns = _by_list(lists)
            for row in zip(*columns.values(), strict=True):
                out.write(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False).encode() + b"\n")
    return path


def _by_list(lists: Lists) -> Keywords:
    """Return columns with one entry per list."""
    columns: Keywords = {"query": list(lists.queries), "documents": lists.nested(lists.documents)}
    columns["labels"] = lists.nested(lists.labels)
    columns |= {name: lists.nested(values) for name, values in lists.columns.items()}
    if lists.document_ids is not None:
        columns["document_ids"] = lists.nested(lists.document_ids)
    for name, values in (("query_id", lists.query_ids), ("weight", lists.weights)):
        if values is not None:
            columns[name] = values.tolist()
    return columns


def _write_csv(lists: Lists, out: IO[bytes], separator: str) -> None:
    """Write one line per document."""
    import polars as pl

    ids = lists.query_ids
    if ids is None and len(set(lists.queries)) < lists.n_queries:
        ids = np.arange(lists.n_queries)
    per_query = {"query_id": ids, "query": np.array(lists.queries, object), "weight": lists.weights}
    columns = {
        name: np.repeat(values, lists.sizes).tolist() for name, values in per_query.items() if values is not None
    }
    columns["document"] = list(lists.documents)
    if lists.document_ids is not None:
        columns["document_id"] = lists.document_ids.tolist()
    columns["label"] = lists.labels.tolist()
    singular = {name: role for role, name in NUMBERS.items()}
    columns |= {singular[name]: values.tolist() for name, values in lists.columns.items()}
    # Quotes tell an empty text from none.
    pl.DataFrame(columns).write_csv(out, separator=separator, quote_style="non_numeric")


def _format(path: Path) -> str:
    if path.is_dir():
        if (path / "qrels").is_dir():
            hint = "read it with rw.rerank.read_beir(folder)"
            raise check.error("a folder of a corpus, queries and qrels holds no lists yet", got=str(path), hint=hint)
        return "parquet"
    if str(path) == file_formats.STANDARD_INPUT:
        return "jsonl"
    if ending(path) in _ENDINGS:
        return _ENDINGS[ending(path)]
    hint = f"end its name in .jsonl, .csv, .tsv or .parquet, or `set format='jsonl'`, or {' or '.join(_FORMATS[1:])}"
    raise check.error("cannot tell the format of lists of texts from the name", got=repr(path.name), hint=hint)
