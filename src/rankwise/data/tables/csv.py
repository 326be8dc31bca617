"""Ranking data as CSV: a first line that names the columns, then one line per document."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import polars as pl

from rankwise import check
from rankwise.data import columns
from rankwise.data.categories import is_numeric
from rankwise.data.compressed import BYTE_ORDER_MARK, read_bytes
from rankwise.data.dataset import RankingDataset
from rankwise.data.frames import column_names
from rankwise.data.tables import ids, text

_MARKS = (",", "\t", ";", "|")


def read_csv(path: str | Path, *, separator: str | None = None, **arguments: Any) -> RankingDataset:
    r"""Read ranking data from CSV, plain or compressed with gzip or Zstandard, with one line per document.

    The first line names the columns; ``arguments`` name those of each role, as in :meth:`RankingDataset.from_frame`:
    ``query="qid", label="label", features=…, weight=…, categorical=…`` …. ``separator`` stands between columns; by
    default it is the comma, tab, semicolon or bar that the first line has most of. An empty cell is a missing value,
    and so is NA in a column of numbers.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as here:
    ...     path = Path(here, "rows.csv")
    ...     _ = path.write_text("session,clicked,bm25,shop\na,1,7.5,north\na,0,,south\nb,1,3,north\n")
    ...     data = read_csv(path, query="session", label="clicked", categorical=["shop"])
    >>> print(data, data.feature_names, data.categories)
    RankingDataset(2 queries, 3 documents, 2 features, labels 0 to 1) ('bm25', 'shop') {1: ('north', 'south')}
    """
    path = Path(path)
    listed = arguments.get("categories") or {}
    words = [name for name, values in listed.items() if not is_numeric(tuple(values))]
    names = {"query": columns.roles()["query"], **arguments}
    identifiers = [names.get(column.role) for column in columns.COLUMNS if column.kind == "id"]
    texts = [names.get(column.role) for column in columns.COLUMNS if column.kind == "text"]
    coded = column_names(arguments.get("categorical", ()))
    table = read_table(path, separator=separator, words=[*words, *coded, *filter(None, (*identifiers, *texts))])
    frame = table.frame.with_columns(
        ids.from_text(series)
        if series.name in identifiers
        else series.fill_null("")
        if series.name in texts
        else _codes(series)
        if series.name in coded
        else _numbers(series)
        for series in table.frame.iter_columns()
        if series.name not in words
    )
    with check.naming(path), check.placing(table.place):
        return RankingDataset.from_frame(frame, **arguments)


def read_table(path: Path, *, separator: str | None = None, words: Collection[str] | None = ()) -> text.TextTable:
    """Read the columns of a CSV file, and the line of each row; those of ``words``, or all if None, stay text."""
    content = read_bytes(path).removeprefix(BYTE_ORDER_MARK)
    first, _, _ = content.partition(b"\n")
    between = separator or _separator(first.decode("utf-8", "replace"))
    table = text.parse(content, path, between=between, words=words)
    if not table.columns:
        raise check.error("there is nothing in the file", where=str(path), hint="write one line per document")
    if all(_is_number(name) for name in table.columns):
        got, hint = f"{len(table.columns)} numbers", "put a line with a name for each column before the others"
        raise check.error("the first line of a CSV file must name the columns", got=got, where=str(path), hint=hint)
    return table


def _separator(first: str) -> str:
    """Find what stands between the columns that the first line names."""
    return max(_MARKS, key=first.count)


def _codes(column: pl.Series) -> pl.Series:
    """Return a column of categories: text, also where it looks like numbers that print otherwise, such as 007."""
    if column.null_count() == len(column):
        return column
    small = column.str.to_lowercase()
    if small.is_in(("true", "false")).all():
        return small == "true"
    return column if column.str.contains(r"^[-+]?0\d").any() else _numbers(column)


def _numbers(column: pl.Series) -> pl.Series:
    """Give a column of text as numbers, if all that it holds, if anything, is numbers or words for a missing value."""
    if column.dtype != pl.String:
        return column
    known = column.str.strip_chars()
    known = known.set(known.is_in(ids.MISSING), None)
    numbers = known.cast(pl.Float64, strict=False)
    return numbers if numbers.null_count() == known.null_count() else column


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
