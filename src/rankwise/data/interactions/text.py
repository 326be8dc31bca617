"""Ratings as text: commas, tabs or MovieLens' ``::`` between columns, with or without a line that names them."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rankwise import check
from rankwise.data.compressed import BYTE_ORDER_MARK, read_bytes
from rankwise.data.tables.ids import from_text
from rankwise.data.tables.text import TextTable, header_of, parse

ROLES = ("user", "item", "rating", "time")


def read_text(path: Path, is_id: Callable[[str], bool]) -> TextTable:
    """Read a table. A first line whose third column is no number names the columns; blank lines are left out.

    ``is_id`` says of which columns ids are to be read.
    """
    text = read_bytes(path).removeprefix(BYTE_ORDER_MARK)
    first = text[: text.find(b"\n")] if b"\n" in text else text
    between = next((mark for mark in (b"::", b"\t", b",") if mark in first), b",")
    if between == b"::":
        text, between = text.replace(b"::", b"\t"), b"\t"
        first = first.replace(b"::", b"\t")
    words = first.strip().split(between)
    header = len(words) < 3 or re.fullmatch(rb"[-+.\deE]+", words[2].strip()) is None
    between_columns = between.decode()
    if header:
        ids = [name for name in header_of(text, path, between_columns)[0] if is_id(name)]
    else:
        ids = parse(first, path, between=between_columns, header=False).columns[:2]  # as polars calls them
    table = parse(text, path, between=between_columns, header=header, words=ids)
    if table.frame.is_empty():
        raise check.error("there are no ratings in the file", where=str(path), hint="write one line per rating")
    if not header:
        table = replace(table, frame=table.frame.rename(dict(zip(table.columns, ROLES, strict=False))))
    frame = table.frame
    named = [name for name in frame.columns if is_id(name)]
    return replace(table, frame=frame.with_columns(from_text(frame[name]) for name in named))
