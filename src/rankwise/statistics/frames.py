"""Frames as tables and files, and tables of several rankings as one."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rankwise.base.files import replacing
from rankwise.base.tables import NOTHING, Table, as_csv, number
from rankwise.statistics.result import as_json

if TYPE_CHECKING:
    import polars as pl


def stacked(tables: Mapping[str, Table]) -> Table:
    """Join the tables of rankings by name, one below the other."""
    first = max(tables.values(), key=lambda table: len(table.header))
    if len(tables) == 1:
        return first
    rows = tuple(
        (name, *row, *[NOTHING] * (len(first.header) - len(row)))
        for name, table in tables.items()
        for row in table.rows
    )
    notes = first.notes
    if any(table.notes != notes for table in tables.values()):
        notes = tuple(f"{name}: {note}" for name, table in tables.items() for note in table.notes)
    return replace(first, header=("ranking", *first.header), rows=rows, align="l" + first.align, notes=notes)


def of_frame(frame: "pl.DataFrame", most: int, rest: str) -> Table:
    """Return a table of the first rows of a frame; ``rest`` is where the others are."""

    def text(cell: object) -> str:
        return number(cell) if isinstance(cell, float) else NOTHING if cell is None else str(cell)

    rows = tuple(tuple(map(text, row)) for row in frame[:most].rows())
    notes = (f"… and {len(frame) - most:,} rows more; {rest}",) if len(frame) > most else ()
    align = "".join("l" if kind.is_nested() or not kind.is_numeric() else "r" for kind in frame.dtypes)
    return Table(header=tuple(frame.columns), rows=rows, align=align, notes=notes)


def write_frame(
    frame: "pl.DataFrame", path: Path, *, force: bool = False, metadata: dict[str, str] | None = None
) -> None:
    """Write a frame as CSV, JSON or Parquet, which alone has room for ``metadata``."""
    with replacing(path, force=force) as new:
        if path.suffix.lower() == ".parquet":
            frame.write_parquet(new, metadata=metadata)
        else:
            text = as_csv(frame) if path.suffix.lower() == ".csv" else as_json(frame.to_dicts())
            new.write_text(text, encoding="utf-8")
