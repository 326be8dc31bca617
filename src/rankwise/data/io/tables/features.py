"""Feature columns of a table: which they are, and one float32 matrix of them, with codes of categories."""

import difflib
import fnmatch
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankwise import check
from rankwise.base.arrays import Keywords
from rankwise.data import columns
from rankwise.data.categories import Values, is_numeric, translated, translation, unknown_code_error, values

CategoryLists = Mapping[str, Values]
"""Column -> its categories."""

_SHOWN = 8  # columns that an error lists
_NAMED = 20  # columns among which an error lets one choose
_WHOLE = 2.0**24  # from here on float32 has no odd numbers
_MICROSECONDS = 86_400_000_000.0  # of a day
_DATES = ("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y")
_TIMES = ("", " %H:%M", " %H:%M:%S%.f", "T%H:%M", "T%H:%M:%S%.f", " %H:%M:%S%.f%#z", "T%H:%M:%S%.f%#z")
_LIKE_A_DATE = r"^\d{4}[-/]\d\d?[-/]\d\d?(?:T|\b)|^\d\d?[./]\d\d?[./]\d{4}\b"
_COLUMNS_AT_ONCE = 16  # how many columns lie in memory beside the matrix that they go into


def feature_columns(table: pl.LazyFrame, arguments: Keywords) -> list[str]:
    """Return the columns that are features: those that ``arguments`` name, or all that play no other role."""
    present = table.collect_schema().names()
    defaults = {role: columns.roles()[role] for role in ("query", "label")}
    with_role = columns.named_by(defaults | arguments)
    without_role = [name for name in present if name not in with_role]
    features = arguments.get("features")
    return without_role if features is None else matching(column_names(features), present, without_role)


def column_names(several: Iterable[str] | str) -> list[str]:
    """Return names of columns as a list; a single str is one name.

    >>> column_names("shop"), column_names(("shop", "colour"))
    (['shop'], ['shop', 'colour'])
    """
    return [several] if isinstance(several, str) else list(several)


def matching(features: Sequence[str], names: Sequence[str], without_role: Sequence[str]) -> list[str]:
    """Return the columns that match names and patterns; patterns match columns ``without_role``.

    >>> matching(["f_*", "!f_2", "qid"], ["qid", "f_1", "f_2", "f_3"], ["f_1", "f_2", "f_3"])
    ['f_1', 'f_3', 'qid']
    """
    columns_chosen: dict[str, None] = {}
    if features and all(_leaves_out(name, names) for name in features):
        columns_chosen = dict.fromkeys(without_role)
    for name in features:
        if name in names:
            columns_chosen[name] = None
            continue
        pattern = name.removeprefix("!")
        fitting = [pattern] if pattern in names else fnmatch.filter(without_role, pattern)
        if not fitting:
            require_column("a feature", pattern, names)
        if _leaves_out(name, names):
            columns_chosen = {column: None for column in columns_chosen if column not in fitting}
        else:
            columns_chosen |= dict.fromkeys(fitting)
    return list(columns_chosen)


def _leaves_out(name: str, names: Sequence[str]) -> bool:
    return name.startswith("!") and name not in names


def require_column(what: str, name: str | None, names: Sequence[str]) -> None:
    """Raise if there is no column of this name for a role or feature, ``what``."""
    if name in names:
        return
    similar = difflib.get_close_matches(str(name), names, n=1)
    shown = ", ".join(names[:_NAMED]) + (f", … ({len(names)} in all)" if len(names) > _NAMED else "")
    hint = f"did you mean {similar[0]!r}" if similar else f"choose one of {shown}"
    if what != "a feature":
        argument = what.removeprefix("the ").partition(".")[0]
        hint = f"{hint}; `set {argument}=…`" if similar else f"`set {argument}=…`, one of {shown}"
        if argument == "label":
            hint = f"{hint}`; or label=None where documents have no labels|`"
    raise check.error(f"the table has no such column for {what}", got=repr(name), hint=hint)


def category_lists(
    table: pl.LazyFrame,
    features: Sequence[str],
    listed: Mapping[str, Values],
    categorical: Collection[str],
    requested: Mapping[str, Sequence[object]],
) -> dict[str, Values]:
    """Return the categories of every feature that holds categories rather than numbers or plain codes.

    ``requested`` are those of the user; ``listed`` are those of the table where the types of columns lack them. A type
    that lists categories has them in its order; other text, if it is Categorical or named in ``categorical``, has those
    that occur, sorted. A column of any type without a single value is one of missing numbers, or of missing categories
    where it is to have some.
    """
    schema = table.collect_schema()
    odd = [name for name in features if not _fits(schema[name], requested.get(name))]
    empty = {name for name in odd if schema[name] == pl.Null}
    if typed := [name for name in odd if name not in empty]:
        has_values = table.select(pl.col(typed).is_not_null().any()).collect()
        empty |= {name for name in typed if not has_values[name][0]}
    categories: dict[str, Values] = {}
    open_ended: list[str] = []
    text: list[str] = []
    other: list[str] = []
    for name in features:
        kind = schema[name]
        if name in requested:
            categories[name] = values(requested[name], f"column {name!r}")
            if name not in empty and categories[name] and not _fits(kind, categories[name]):
                what = "numbers" if is_numeric(categories[name]) else "text"
                raise check.error(
                    f"a column whose categories are {what} must hold {what}",
                    got=f"{kind} in column {name!r}, whose first category is {categories[name][0]!r}",
                    hint="cast it, so that it holds the categories themselves",
                )
        elif name in listed:
            categories[name] = listed[name]
        elif isinstance(kind, pl.Enum):
            categories[name] = tuple(kind.categories.to_list())
        elif isinstance(kind, pl.Categorical) or (kind == pl.String and name in categorical):
            open_ended.append(name)
        elif name in empty:
            continue
        elif kind == pl.String:
            text.append(name)
        elif not _is_number(kind):
            other.append(name)
    if text or other:
        raise _no_numbers(table, text, other)
    if open_ended:
        different = (pl.col(name).cast(pl.String).unique().drop_nulls().sort().implode() for name in open_ended)
        row = table.select(different).collect()
        categories |= {name: tuple(row[name][0].to_list()) for name in open_ended}
    return {name: categories[name] for name in features if name in categories}


def _no_numbers(table: pl.LazyFrame, text: Sequence[str], other: Sequence[str]) -> ValueError:
    """Return an error that names all features that are no numbers, and what may be done about each kind."""
    schema = table.collect_schema()
    by_kind: dict[str, list[str]] = {"String": [*text]} if text else {}
    for name in other:
        by_kind.setdefault(str(schema[name]), []).append(name)
    got = "; ".join(
        f"{kind} in column{'s' if len(names) > 1 else ''} {_listed(names)}" for kind, names in by_kind.items()
    )
    dated = [name for name in other if schema[name].is_temporal()]
    if text:
        whole = pl.col(text).str.contains(_LIKE_A_DATE).all()
        dated += [name for name, all_dates in table.select(whole).collect().row(0, named=True).items() if all_dates]
    hints = ["`set dates='days'` to read dates as numbers"] if dated else []
    several = len(text) + len(other) > 1
    if words := [name for name in text if name not in dated]:
        them, hold = ("those", "they hold") if len(words) > 1 else ("it", "it holds")
        hints.append(
            f"name {them} in `categorical=[…]` if {hold} categories, in `document=…` if {hold} ids of documents"
        )
    if not words and not dated:
        hints.append(f"encode {'them' if several else 'it'} as numbers")
    first = (words or [name for name in (*text, *other) if name not in dated] or dated)[0]
    hints.append(f"leave {'one' if several else 'it'} out with `features={[f'!{first}']}`")
    hint = hints[0] if len(hints) == 1 else f"{', '.join(hints[:-1])}, or {hints[-1]}"
    return check.error("a feature must be a column of numbers", got=got, hint=hint)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:_SHOWN])) + (f", … ({len(names)} in all)" if len(names) > _SHOWN else "")


def in_days(table: pl.LazyFrame, features: Sequence[str], dates: str | None) -> pl.LazyFrame:
    """Return the table with dates and times among the features, also as text, as days since 1970, in UTC.

    >>> table = pl.DataFrame({"seen": ["1970-01-02", None], "sold": ["1.2.1970 12:00", "2.1.1970 00:00"]})
    >>> in_days(table.lazy(), ["seen", "sold"], "days").collect().to_dicts()
    [{'seen': 1.0, 'sold': 31.5}, {'seen': None, 'sold': 1.0}]
    """
    if dates is None:
        return table
    check.choice("form of dates", dates, ("days",))
    schema = table.collect_schema()
    if text := [name for name in features if schema[name] == pl.String]:
        read = [_dates(series) for series in table.select(text).collect().iter_columns()]
        table = table.with_columns(series for series in read if series is not None)
        schema = table.collect_schema()
    days = {
        pl.Date: lambda column: column.cast(pl.Float64),
        pl.Datetime: lambda column: column.dt.epoch("us") / _MICROSECONDS,
        pl.Duration: lambda column: column.dt.total_microseconds() / _MICROSECONDS,
        pl.Time: lambda column: column.cast(pl.Int64) / (1000 * _MICROSECONDS),
    }
    return table.with_columns(
        days[schema[name].base_type()](pl.col(name)) for name in features if schema[name].is_temporal()
    )


def _dates(column: pl.Series) -> pl.Series | None:
    """Return the dates that a column of text holds, in one form; None where it holds something else, too."""
    cells = column.str.strip_chars()
    if not cells.str.contains(_LIKE_A_DATE).all() or column.null_count() == len(column):  # years have four digits
        return None
    cells = cells.str.replace("Z$", "+00:00")
    dates: pl.Series | None = None
    unread = cells.is_not_null()
    for form in map("".join, itertools.product(_DATES, _TIMES)):
        read = cells.str.to_datetime(form, time_unit="us", strict=False)
        left = read.is_null() & cells.is_not_null()
        unread = min(unread, left, key=pl.Series.sum)
        if left.any():
            continue
        if dates is not None and not read.equals(dates, null_equal=True):
            hint = "write the year first: 2024-05-03"
            got = f"{column.drop_nulls()[0]!r} in column {column.name!r}"
            raise check.error("dates can be read in two ways, day or month first", got=got, hint=hint)
        dates = read
    if dates is None:
        got = f"{column.filter(unread)[0]!r} in column {column.name!r}"
        hint = "write all in one form, such as 2024-05-03 or 2024-05-03 14:30"
        raise check.error("dates must be in one form, of those that are read", got=got, hint=hint)
    return dates


def matrix(
    table: pl.LazyFrame,
    features: Sequence[str],
    n_docs: int,
    lists: CategoryLists,
    order: NDArray[np.int64] | None = None,
    *,
    warn: bool = True,
) -> NDArray[np.float32]:
    """Fill the feature matrix, a few columns at a time; columns of ``lists`` become codes.

    With ``warn``, large numbers of which float32 tells less than half apart, such as times in seconds, raise a warning.
    """
    filled = np.empty((n_docs, len(features)), np.float32)
    coarse = []
    for first in range(0, len(features), _COLUMNS_AT_ONCE):
        part = table.select(list(features[first : first + _COLUMNS_AT_ONCE])).collect()
        for number, series in enumerate(part.iter_columns(), first):
            if series.null_count() == len(series):  # of whatever type
                filled[:, number] = np.nan
                continue
            column = _codes(series, lists[series.name]) if series.name in lists else _float32(series)
            filled[:, number] = column if order is None else column[order]
            if warn and series.name not in lists and np.abs(column).max(initial=0.0, where=~np.isnan(column)) >= _WHOLE:
                coarse += [series.name] if 2 * np.unique(column).size < series.n_unique() else []
    if coarse:
        what = f"features whose numbers are so large that float32 tells less than half apart: {_listed(coarse)}"
        hint = "subtract the smallest, as of times in seconds, or leave out what is an id"
        check.warn(what, hint=hint, stacklevel=2)
    return filled


def of_values(name: str, codes: NDArray[np.float32], listed: Values) -> pl.Series:
    """Return the categories of codes: an Enum of text, or a column of numbers; null where missing."""
    kind = None if is_numeric(listed) else pl.Enum(list(map(str, listed)))
    present = ~np.isnan(codes)
    outside = present & ~np.isin(codes, np.arange(len(listed)))
    if outside.any():
        raise unknown_code_error(codes[int(np.argmax(outside))], len(listed), f"column {name!r}")
    places = pl.Series(np.where(present, codes, 0).astype(np.uint32)).set(pl.Series(~present), None)
    return pl.Series(name, list(listed), dtype=kind, strict=False).gather(places)


def _is_number(kind: pl.DataType) -> bool:
    return kind.is_numeric() or kind == pl.Boolean


def _fits(kind: pl.DataType, listed: Sequence[object] | None) -> bool:
    """Whether a column holds numbers, or the same type as its categories: text, or numbers."""
    if not listed:
        return _is_number(kind) or isinstance(kind, pl.Categorical | pl.Enum)
    return _is_number(kind) if is_numeric(listed) else isinstance(kind, pl.Categorical | pl.Enum | pl.String)


def _codes(series: pl.Series, listed: Values) -> NDArray[np.float32]:
    """Return the index of every value in a list, NaN where it is not there."""
    kind = series.dtype
    if isinstance(kind, pl.Enum):
        codes = _float32(series.to_physical())
        table = translation(tuple(kind.categories.to_list()), listed, f"column {series.name!r}")
        return codes if table is None else translated(codes, table, f"column {series.name!r}")
    if not listed:
        return np.full(len(series), np.nan, np.float32)
    if is_numeric(listed):
        places = {value: place for place, value in enumerate(listed)}
        different, inverse = np.unique(series.drop_nulls().to_numpy(), return_inverse=True)
        codes = np.full(len(series), np.nan, np.float32)
        of_each = np.array([places.get(value, np.nan) for value in different.tolist()], np.float32)
        codes[series.is_not_null().to_numpy()] = of_each[inverse]
        return codes
    text, places_of = series.cast(pl.String), np.arange(len(listed), dtype=np.float32)
    return _float32(text.replace_strict(list(listed), places_of, default=None, return_dtype=pl.Float32))


def _float32(series: pl.Series) -> NDArray[np.float32]:
    column: NDArray[np.float32] = series.cast(pl.Float32).fill_null(np.nan).to_numpy()
    infinite = np.isinf(column)
    if series.dtype == pl.Float64 and infinite.any():
        beyond = infinite & ~np.isinf(series.to_numpy())
        column = np.where(beyond, np.copysign(np.finfo(np.float32).max, column), column)
    return column
