"""Documents and queries as users have them, row by row: files, tables, dictionaries."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from rankwise import check
from rankwise.data import io
from rankwise.data.columns import is_text
from rankwise.models import is_frame

if TYPE_CHECKING:
    import polars as pl

    from rankwise.data.io import Table

Source: TypeAlias = "Table | str | Path | Mapping[Any, str | Mapping[str, object]] | Iterable[Mapping[str, object]]"
Rows: TypeAlias = Iterator[tuple[str, str, Mapping[str, Any]]]
"""Place, id and columns."""
_ROWS = 20_000
"""Rows of a table that are in memory at once."""


def rows(source: Any, id_name: str | None, wanted: Sequence[str], text: str) -> Rows:
    """Iterate over place, id and columns of each row; a bare text becomes the column ``text``.

    Of a table only the columns ``wanted`` are read. Without ``id_name``, the id is in the first of ``io.IDS`` there.
    """
    for where, name, row in _rows(source, id_name, wanted, text):
        if not name or "\0" in name or not is_text(name):
            raise check.error("an id must be a text that files can hold", got=repr(name), where=where)
        yield where, name, row


def _rows(source: Any, id_name: str | None, wanted: Sequence[str], text: str) -> Rows:
    ids = io.IDS if id_name is None else (id_name,)
    if isinstance(source, str | Path):
        path = Path(source)
        if io.ending(path) in io.TABLES and (io.ending(path) != ".tsv" or _has_header(path, ids)):
            with check.library("the table", path, also=True):
                yield from _of_table(_scanned(path), ids, wanted, f" of {path}")
            return
        for line, name, value in io.read_records(path, ids):
            row = cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {text: value}
            yield f"line {line} of {io.shown(path)}", name, row
    elif isinstance(source, Mapping):
        check.different_as_text("ids", list(source))
        for name, value in source.items():
            yield f"id {name!r}", str(name), value if isinstance(value, Mapping) else {text: value}
    elif is_frame(source):
        yield from _of_table(io.as_polars(source)[0], ids, wanted, "")
    else:
        for number, row in enumerate(source):
            where = f"item {number}"
            if not isinstance(row, Mapping):
                hint = "give dictionaries with an id and the fields"
                raise check.error("an item must be a dictionary", got=type(row).__name__, where=where, hint=hint)
            yield where, io.id_of(row, ids, where), row


def queries_of(queries: Any) -> tuple[list[str], list[str]]:
    """Return the ids and texts of queries: a list of texts, a dictionary, a table, or a file with id and text."""
    if isinstance(queries, str) and not Path(queries).suffix[1:].isalnum():
        hint = "put a single query into a list; a file of queries is a pathlib.Path, or has its ending: queries.jsonl"
        raise check.error("queries must be several texts", got=repr(queries[:80]), hint=hint)
    if isinstance(queries, Sequence) and not isinstance(queries, str):
        queries = {str(number): text for number, text in enumerate(queries)}
    found: dict[str, str] = {}
    for where, name, row in rows(queries, None, (*io.BODIES, "query", "title"), "text"):
        text = row.get("query") if "query" in row and not any(body in row for body in io.BODIES) else io.text_of(row)
        if not isinstance(text, str):
            hint = f"a query has one of the columns {', '.join((*io.BODIES, 'query'))}"
            raise check.error("a query must be a text", got=repr(row.get("text")), where=where, hint=hint)
        if name in found:
            raise check.error("two queries have the same id", got=repr(name), where=where)
        found[name] = text
    return list(found), list(found.values())


def _has_header(path: Path, ids: Sequence[str]) -> bool:
    first = next(iter(io.read_lines(path)), (0, b""))[1].decode("utf-8", "replace")
    return not {*first.strip().split("\t")}.isdisjoint(ids)


def _scanned(path: Path) -> "pl.LazyFrame":
    import polars as pl

    if io.is_parquet(path):
        return pl.scan_parquet(path)
    separator = "\t" if io.ending(path) == ".tsv" else ","
    return pl.read_csv(io.read_bytes(path), separator=separator, infer_schema=False).lazy()


def _of_table(table: "pl.LazyFrame", ids: Sequence[str], wanted: Sequence[str], of: str) -> Rows:
    import polars as pl

    names = table.collect_schema().names()
    key = next((name for name in ids if name in names), None)
    if key is None:
        hint = f"name the column of ids {' or '.join(map(repr, ids))}, or say its name with `id=…`"
        raise check.error(f"the table{of} has no column of ids", got=f"the columns {', '.join(names)}", hint=hint)
    table = table.select(key, *(name for name in names if name in wanted and name != key))
    total = int(table.select(pl.len()).collect().item())
    for start in range(0, total, _ROWS):
        for number, row in enumerate(table.slice(start, _ROWS).collect().iter_rows(named=True), start):
            where = f"row {number}{of}"
            yield where, io.id_of(row, (key,), where), row
