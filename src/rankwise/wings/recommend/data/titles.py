"""Titles of items: a table from CSV, Parquet or the files of MovieLens."""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import polars as pl

from rankwise import check
from rankwise.base.arrays import Ids
from rankwise.check.parameters import Option, Unset
from rankwise.data.io import is_parquet, read_bytes
from rankwise.wings.recommend.data.ratings import SPELLINGS, plain, read_parquet

NAMES = ("movies.csv", "movies.csv.gz", "movies.dat", "u.item", "items.csv", "items.parquet")
"""Usual names of files of titles beside ratings."""
_TITLES = ("title", "titles", "name", "movietitle")


def beside(ratings: str | Path) -> Path | None:
    """Return the file of titles beside ratings, or inside their folder; None without one."""
    path = Path(ratings)
    folder = path if path.is_dir() else path.parent
    return next((folder / name for name in NAMES if (folder / name).is_file()), None)


def read_titles(path: str | Path, *, item: str | None = None, title: str | None = None) -> pl.DataFrame:
    """Read the columns of items and titles, by name; by default as they are usually called, or the first two.

    Text that is not UTF-8 is read as Latin-1, the encoding of older files of MovieLens.
    """
    path = Path(path)
    table = read_parquet(path) if is_parquet(path) else _text(path)
    with check.naming(path):
        names = {"item": _column(table, item, SPELLINGS["item"], 0), "title": _column(table, title, _TITLES, 1)}
    chosen = table.select(pl.col(name).cast(pl.String).alias(role) for role, name in names.items())
    return chosen.unique("item", keep="first", maintain_order=True)


def titles_of(items: Ids, table: pl.DataFrame) -> pl.Series:
    """Return the title of each item, null where the table has none.

    >>> titles_of(np.array([2, 7]), pl.DataFrame({"item": ["7", "8"], "title": ["Seven", "Eight"]})).to_list()
    [None, 'Seven']
    """
    rows = pl.DataFrame({"item": pl.Series(np.asarray(items).astype(str).tolist(), dtype=pl.String)})
    return rows.join(table, on="item", how="left", maintain_order="left")["title"]


def with_titles(
    table: pl.DataFrame,
    ratings: str | Path,
    *,
    title_file: Annotated[
        Path | None, "What items are called: a table of items and titles.", Unset("movies.csv beside")
    ] = None,
    title: Annotated[str | None, "The column of titles there.", Option(metavar="COLUMN")] = None,
    note: Callable[[str], object] = lambda _: None,
) -> pl.DataFrame:
    """Return a table of items with titles behind them, where there are any; by default from a file beside the ratings.

    ``note`` is called with a sentence where no item has one.
    """
    path = title_file or beside(ratings)
    if path is None:
        if title is None:
            return table
        hint = "name the table of titles as well"
        raise check.error("a column of titles needs a table of titles", got=repr(title), hint=hint)
    called = titles_of(table["item"].to_numpy(), read_titles(path, title=title))
    if called.null_count() == len(called):
        note(f"no item has a title in {path}, which knows items by other ids")
    return table.clone().insert_column(table.columns.index("item") + 1, called.alias("title"))


def _text(path: Path) -> pl.DataFrame:
    content = read_bytes(path)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    first = text.partition("\n")[0]
    mark = next((one for one in ("::", "\t", "|", ",") if one in first), ",")
    if mark == "::":
        text, mark = text.replace("::", "\t"), "\t"
    lines = io.StringIO(text, newline="")
    # Elsewhere than in CSV quotes are letters.
    reader = csv.reader(lines) if mark == "," else csv.reader(lines, delimiter=mark, quoting=csv.QUOTE_NONE)
    rows = [row for row in reader if row]
    if not rows or len(rows[0]) < 2:
        hint = "write an id and a title in every line"
        raise check.error("a table of titles must have two columns at least", where=str(path), hint=hint)
    usual = {*SPELLINGS["item"], *_TITLES}
    header = any(plain(word) in usual for word in rows[0])
    names = rows[0] if header else [f"column {number}" for number in range(1, len(rows[0]) + 1)]
    check.require_unique_names(names, str(path))
    width = len(names)
    body = [(row + [""] * width)[:width] for row in rows[header:]]
    return pl.DataFrame(body, schema=dict.fromkeys(names, pl.String), orient="row")


def _column(table: pl.DataFrame, name: str | None, usual: tuple[str, ...], place: int) -> str:
    if name is not None:
        if name not in table.columns:
            hint = check.suggestion(name, table.columns)
            raise check.error("the table has no such column", got=repr(name), hint=hint)
        return name
    return next((column for column in table.columns if plain(column) in usual), table.columns[place])
