"""Ratings as text: commas, tabs or MovieLens' ``::`` between columns, with or without a line that names them."""

import re
from dataclasses import replace
from pathlib import Path

from rankwise import check
from rankwise.data.compressed import read_bytes
from rankwise.data.tables.text import TextTable, parse

ROLES = ("user", "item", "rating", "time")


def read_text(path: Path) -> TextTable:
    """Read a table. A first line whose third column is no number names the columns; blank lines are left out."""
    text = read_bytes(path)
    first = text[: text.find(b"\n")] if b"\n" in text else text
    between = next((mark for mark in (b"::", b"\t", b",") if mark in first), b",")
    if between == b"::":
        text, between = text.replace(b"::", b"\t"), b"\t"
        first = first.replace(b"::", b"\t")
    words = first.strip().split(between)
    header = len(words) < 3 or re.fullmatch(rb"[-+.\deE]+", words[2].strip()) is None
    table = parse(text, path, between=between.decode(), header=header)
    if table.frame.is_empty():
        raise check.error("there are no ratings in the file", where=str(path), hint="write one line per rating")
    if not header:
        table = replace(table, frame=table.frame.rename(dict(zip(table.columns, ROLES, strict=False))))
    return table
