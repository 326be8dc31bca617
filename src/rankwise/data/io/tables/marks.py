"""Numbers as spreadsheets write them: decimal commas, marks between thousands, leading zeros.

A column is read so only where all of its cells are such numbers, and where they can mean nothing else or the file shows
what they mean: whoever separates columns by semicolons has decimal commas.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, field

import polars as pl

from rankwise import check
from rankwise.data.io.tables.polars import MISSING

CHOICES = {"decimal": (".", ","), "thousands": ("none", ".", ",", " ", "'")}
"""Argument -> the marks that it may be."""

_POINTS = 20  # numbers with a point of which three decimals each are no chance
_BLANKS = "[ \u00a0\u202f]"
_OTHER = "[ \u00a0\u202f'\u2019]"
_ZEROS = r"^[-+]?0\d"
_EXPONENT = r"(?:[eE][-+]?\d+)?"
# Numbers: a mark that some have, and a pattern of all. Beside decimal commas, points may stand between thousands.
_DECIMAL_COMMA = ",", rf"\d+{_EXPONENT}|(?:\d+|\d{{1,3}}(?:\.\d{{3}})+),\d*{_EXPONENT}|\d{{1,3}}(?:\.\d{{3}})+"
_COMMA_OF_THOUSANDS = ",", rf"\d*\.?\d+{_EXPONENT}|[1-9]\d{{0,2}}(?:,\d{{3}})+(?:\.\d*)?"
_POINT_OF_THOUSANDS = r"\.", r"\d{1,3}|[1-9]\d{0,2}(?:\.\d{3})+"
_OTHER_GROUPS = _OTHER, rf"\d+(?:[.,]\d*)?|[1-9]\d{{0,2}}(?:{_OTHER}\d{{3}})+(?:[.,]\d*)?"


def plain(column: pl.Series, decimal: str = ".", thousands: str = "none") -> pl.Series:
    """Return a column of text as numbers, if all of its values are numbers or words for a missing value.

    >>> plain(pl.Series(["1.582,5", "7", "NA"]), ",", ".").to_list()
    [1582.5, 7.0, None]
    """
    if column.dtype != pl.String:
        return column
    stripped = _cells(column)
    written = stripped
    if thousands != "none":
        group = _BLANKS if thousands == " " else "['\u2019]" if thousands == "'" else re.escape(thousands)
        grouped = written.str.contains(rf"^[-+]?\d{{1,3}}(?:{group}\d{{3}})+(?:{re.escape(decimal)}\d*)?$")
        written = written.zip_with(~grouped.fill_null(value=False), written.str.replace_all(group, ""))
    if decimal != ".":
        pointed = written.str.contains(".", literal=True).fill_null(value=False)
        written = written.str.replace(decimal, ".", literal=True).set(pointed, "two marks")
    numbers = written.cast(pl.Float64, strict=False)
    return numbers if numbers.null_count() == stripped.null_count() else column


def _as_written(column: pl.Series) -> pl.Series:
    """Return a column of text as whole numbers, numbers, or true and false, if all of its values are written so."""
    for kind in (pl.Int64, pl.Float64):
        numbers = column.cast(kind, strict=False)
        if numbers.null_count() == column.null_count():
            return numbers
    small = column.str.to_lowercase()
    return small == "true" if small.is_in(("true", "false")).all() else column


def _is_unclear(column: pl.Series, numbers: pl.Series) -> bool:
    """Whether the text of numbers may say something else: 1.582, 007."""
    if numbers.dtype.is_integer():
        return bool(column.str.contains(_ZEROS).any())
    return numbers.dtype.is_float() and _all(column, *_POINT_OF_THOUSANDS)


def _cells(column: pl.Series) -> pl.Series:
    stripped = column.str.strip_chars()
    return stripped.set(stripped.is_in(MISSING), None)


def _all(cells: pl.Series, mark: str, numbers: str) -> bool:
    """Whether all cells that are not missing are such numbers, some of them with a mark."""
    return bool(cells.str.contains(mark).any()) and bool(cells.str.contains(rf"^[-+]?(?:{numbers})$").all())


@dataclass
class Numbers:
    """Columns of a file as numbers, and what there is to say about some of them."""

    columns: list[pl.Series] = field(default_factory=list)
    zeros: list[str] = field(default_factory=list)
    """Columns of numbers with leading zeros."""
    joined: dict[str, str] = field(default_factory=dict)
    """Column -> a number with a point, which was read as a mark of thousands."""
    pointed: dict[str, str] = field(default_factory=dict)
    """Column -> a number with a point, which may be one."""
    doubtful: dict[str, str] = field(default_factory=dict)
    """Column -> a number with a comma, which may be either, or with a mark that may be no part of a number."""

    def check(self, used: Collection[str | None]) -> None:
        """Raise for a column that is used, and that can be read in two ways."""
        for name, cell in self.doubtful.items():
            if name in used:
                hint = "`set decimal=','` if the comma is a decimal one, or `set thousands=','`"
                if other := re.search(_OTHER, cell):
                    hint = "`set thousands=' '`" if other[0].isspace() else '`set thousands="\'"`'
                    hint += " (and `set decimal=','`)" if "," in cell else ""
                hint += ", or name it in `categorical=[…]` if these are no numbers"
                raise check.error("numbers can be read in two ways", got=f"{cell!r} in column {name!r}", hint=hint)

    def warn(self, features: Collection[str], roles: Collection[str | None] = ()) -> None:
        """Warn of what may be wrong in these features, and of points in columns with a role."""
        if zeros := [name for name in self.zeros if name in features]:
            what = f"features of numbers with leading zeros, which ids have: {', '.join(zeros)}"
            hint = (
                f"name ids in `document=…` or `categorical=[…]`, or leave them out with `features={[f'!{zeros[0]}']}`"
            )
            check.warn(what, hint=hint, stacklevel=3)
        for found, meaning in ((self.joined, "between thousands"), (self.pointed, "before decimals")):
            for name, cell in found.items():
                if name in features or name in roles:
                    value = cell.replace(".", "") if found is self.joined else f"{float(cell):g}"
                    what = f"points in column {name!r} are taken as marks {meaning}: {cell} is {value}"
                    hint = "`set thousands='.'` if they are marks between thousands, or `set thousands='none'` if not"
                    check.warn(what, hint=hint, stacklevel=3)


def warn_of_categories(frame: pl.DataFrame) -> None:
    """Warn of categories that are numbers with a comma."""
    cells = {series.name: _cells(series) for series in frame.iter_columns()}
    with_comma = (_DECIMAL_COMMA, _COMMA_OF_THOUSANDS)
    named = {name: _first(one, ",") for name, one in cells.items() if any(_all(one, *form) for form in with_comma)}
    if named:
        shown = ", ".join(f"{name} ({cell})" for name, cell in named.items())
        what = f"categories that are numbers with a comma: {shown}"
        hint = "leave them out of `categorical=[…]`, and `set decimal=','` if the comma is a decimal one"
        check.warn(what, hint=hint, stacklevel=3)


def _first(cells: pl.Series, mark: str) -> str:
    return str(cells.filter(cells.str.contains(mark).fill_null(value=False))[0])


def read(frame: pl.DataFrame, decimal: str | None, thousands: str | None, between: str) -> Numbers:
    """Read columns as numbers where all of their cells are: with these marks, or by default those that they show."""
    found = Numbers()
    written = {series.name: _as_written(series) for series in frame.iter_columns()}
    texts = {
        series.name: _cells(series)
        for series, numbers in zip(frame.iter_columns(), written.values(), strict=True)
        if numbers.dtype != pl.Boolean
        and (decimal or thousands or numbers.dtype == pl.String or _is_unclear(series, numbers))
    }
    decimals, groups = set[str](), set[str]()  # columns whose commas may be decimal ones, or between thousands
    if decimal is None and thousands != ",":
        decimals = {name for name, cells in texts.items() if _all(cells, *_DECIMAL_COMMA)}
    if decimal != "," and thousands is None:
        groups = {name for name, cells in texts.items() if _all(cells, *_COMMA_OF_THOUSANDS)}
    # What one column cannot mean otherwise, the others mean, too; and columns are separated by commas for a point.
    european = (decimals > groups or between == ";") and not groups - decimals and between != ","
    american = bool(groups - decimals) and not decimals - groups
    commas = decimal == "," or (bool(decimals) and european)
    for series in frame.iter_columns():
        name, cells = series.name, texts.get(series.name)
        numbers = written[name] if cells is None else plain(series)
        either = name in decimals and name in groups
        if cells is None:
            pass
        elif (either and not european and not american) or (name in decimals and name not in groups and between == ","):
            found.doubtful[name] = _first(cells, ",")
        elif name in decimals and (european or not either):
            numbers = plain(series, ",", "." if thousands is None else thousands)
        elif name in groups:
            numbers = plain(series, ".", ",")
        elif thousands is None and _all(cells, *_POINT_OF_THOUSANDS):
            n_points = int(cells.str.contains(".", literal=True).sum())
            if commas or numbers.dtype == pl.String:
                numbers = plain(series, ",", ".")
                found.joined[name] = _first(cells, r"\.")
            elif between == ";" or (between != "," and _POINTS <= n_points < len(cells.drop_nulls())):
                found.pointed[name] = _first(cells, r"\.")
        elif thousands is None and numbers.dtype == pl.String and _all(cells, *_OTHER_GROUPS):
            found.doubtful[name] = _first(cells, _OTHER)
        elif decimal or thousands not in (None, "none"):
            mark = decimal or ("," if thousands == "." else ".")
            marked = plain(series, mark, ("." if mark == "," else "none") if thousands is None else thousands)
            numbers = marked if marked.dtype != pl.String or thousands == "." else numbers
        if cells is not None and numbers.dtype != pl.String and cells.str.contains(_ZEROS).any():
            found.zeros.append(name)
        found.columns.append(numbers)
    return found
