"""Reading a click log: files or frames with one row for each document that was shown."""

import contextlib
import difflib
import functools
import operator
import shlex
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, cast

import numpy as np
import polars as pl

from rankwise import check
from rankwise.base.arrays import Keywords
from rankwise.check.parameters import Option, Unset
from rankwise.data.io import Table, as_polars, file_formats, parquet, read_table
from rankwise.wings.clicks.logs.log import Log
from rankwise.wings.clicks.logs.sessions import day

Source = str | Path | Sequence[str | Path] | Table
_IDS = ("query", "document", "impression", "ranker", "segment", "user")
_PART = 5_000_000  # rows that are added up at once
_MOST_IN_SESSIONS = 20_000_000
_HASHED_AT_ONCE = 25_000_000
LAST_POSITION = 32_767
_SHOWN = 3  # bad rows in an error
_USUAL = {
    "query": ("query_text", "user_query", "search_term", "search_text", "keywords", "keyword", "text", "term"),
    "document": ("document_id", "doc_id", "docid", "doc", "sku", "item_id", "item", "product_id", "product", "asin"),
    "impression": ("impression_id", "search_id", "request_id", "serp_id", "query_id"),
    "position": ("rank", "pos", "ordinal"),
    "clicked": ("click", "clicks", "is_click", "is_clicked"),
    "score": ("scores", "relevance", "prediction"),
}
"""How columns are often called."""
_REPEATED = {
    "document": "a document that is in its impression already",
    "position": "a position where its impression shows another document",
}
_MIXED = 1.1  # more rows at 1 than that for each at 0: some lists begin at 1
_UBI = (".json", ".ndjson", ".jsonl")
_OF_UBI = ("ranker", "segment")
_COLUMN = Option(metavar="COLUMN")
_SYSTEM = Option("system", metavar="COLUMN")


@dataclass(frozen=True)
class LogRows:
    """Rows whose columns have the names of their roles, and the place of each in its file."""

    frame: pl.LazyFrame
    place: Callable[[int], str]


def read(
    source: Source,
    *,
    query: str,
    document: str,
    impression: str,
    position: str,
    clicked: str,
    ranker: str | None = None,
    probability: str | None = None,
    weight: str | None = None,
    user: str | None = None,
    segment: str | None = None,
    time: str | None = None,
    first: int | None = None,
    sessions: bool | None = None,
    errors: Literal["raise", "drop"] = "raise",
) -> Log:
    """Read a click log with one row for each document that was shown, clicked or not.

    ``source`` is a CSV file, a Parquet file, a folder of Parquet files, a pattern such as ``"log-*.parquet"``, a list
    of files, or a polars, pandas or Arrow table. The other arguments name columns: ``impression`` is the id of one
    display of a list, ``ranker`` the system that ordered it, ``probability`` that with which the ranker shows the
    document at its position given those above, ``weight`` how many impressions a row stands for, ``segment`` a part of
    the traffic whose users look at the page in another way, such as the device, ``time`` when the list was shown, which
    is kept by day in UTC: a date, a datetime, ISO 8601 with or without a zone, or seconds (milliseconds …) since 1970.

    A bad row (an id is missing, a click is not 0, 1, true or false, a document appears twice in an impression …) is an
    error with its file and line; ``errors="drop"`` leaves bad rows out, with their number in ``log.notes``. Positions
    are counted from ``first``, 0 or 1; by default from 0 if rows have position 0, for each ranker apart, which a note
    mentions. ``sessions`` keeps the impressions one by one, by default up to 20 million rows; a larger log is added up
    part by part.

    >>> rows = {"search": [1, 1, 2, 2], "text": ["tv"] * 4, "sku": ["a", "b", "b", "a"], "rank": [0, 1, 0, 1]}
    >>> frame = pl.DataFrame(rows | {"click": [1, 0, 0, 1], "arm": ["old", "old", "new", "new"]})
    >>> log = read(frame, query="text", document="sku", impression="search", position="rank", clicked="click",
    ...            ranker="arm")
    >>> log
    Log(2 impressions, 1 queries, 2 pairs, 2 rankers, positions 1 to 2, 0.5000 clicks a document)
    >>> log.notes
    ('positions were counted from 0: 1 was added',)
    """
    named = {"query": query, "document": document, "impression": impression, "position": position, "clicked": clicked}
    optional = {"ranker": ranker, "probability": probability, "weight": weight, "user": user, "segment": segment}
    named |= {role: name for role, name in (optional | {"time": time}).items() if name is not None}
    with contextlib.ExitStack() as stack:
        rows = open_log(source, named, stack)
        log = add_up(rows, by="ranker" if ranker else None, first=first, sessions=sessions, errors=errors)
    return replace(log, id_columns=(query, document))


def read_log(
    source: str,
    *,
    query: Annotated[str, "The query.", _COLUMN] = "query",
    document: Annotated[str, "The document.", _COLUMN] = "document",
    impression: Annotated[str, "The id of one display of a list.", _COLUMN] = "impression",
    position: Annotated[str, "The position.", _COLUMN] = "position",
    clicked: Annotated[
        str | None, "1 for a click and 0 for none; of UBI, the actions that count as clicks, between commas.",
        Unset("clicked; click"), _COLUMN,
    ] = None,
    ranker: Annotated[str | None, "The system that ordered the list; of UBI, a field.", _SYSTEM] = None,
    user: Annotated[str | None, "The user.", _COLUMN] = None,
    segment: Annotated[str | None, "The part of the traffic, such as the device.", _COLUMN] = None,
    time: Annotated[
        str | None, "The time: dates, ISO 8601, or seconds since 1970; of UBI, the timestamp.", _COLUMN
    ] = None,
    weight: Annotated[str | None, "The number of impressions that a row stands for.", Unset("1"), _COLUMN] = None,
) -> Log:  # fmt: skip
    """Read a log of :func:`rankwise.clicks.read`, or, by the ending, of :func:`rankwise.clicks.read_ubi`.

    Files of User Behavior Insights may be several, between commas.
    """
    from rankwise.wings.clicks.logs.ubi import read_ubi

    optional = {"ranker": ranker, "user": user, "segment": segment, "time": time, "weight": weight}
    named: Keywords = {role: name for role, name in optional.items() if name is not None}
    files = [part.strip() for part in source.split(",") if part.strip()]
    if all(map(_is_ubi, files)):
        actions = [part.strip() for part in (clicked or "click").split(",")]
        return read_ubi(*files, clicked=actions, **{role: named[role] for role in _OF_UBI if role in named})
    if len(files) > 1:
        raise check.error("several files between commas are of User Behavior Insights", got=source)
    named |= {"query": query, "document": document, "impression": impression, "position": position}
    return read(source, clicked=clicked or "clicked", **named)


def _is_ubi(path: str) -> bool:
    return Path(path.removesuffix(".gz").removesuffix(".zst")).suffix.lower() in _UBI


def add_up(
    rows: LogRows,
    *,
    by: str | None,
    first: int | None,
    sessions: bool | None,
    errors: str,
    notes: tuple[str, ...] = (),
) -> Log:
    """Check rows and add them up; positions are counted from 0 or 1 for each value of the column ``by``."""
    check.choice("way to treat bad rows", errors, ("raise", "drop"))
    if first not in (None, 0, 1):
        raise check.error("the first position must be 0 or 1", got=repr(first))
    numbered = rows.frame.with_row_index("row")
    columns, problems = typed_columns(rows.frame.collect_schema(), first or 0)
    bad = pl.coalesce(
        pl.when(is_bad).then(pl.lit(number, pl.Int8)) for number, (_, is_bad) in enumerate(problems.values())
    )
    weight = columns.get("weight", pl.lit(1.0))
    count = {what: (bad == number).sum() for number, what in enumerate(problems)}
    tally = numbered.select(**count, weightless=(bad.is_null() & (weight == 0)).sum(), rows=pl.len())
    *counts, weightless, n_rows = tally.collect(engine="streaming").row(0)
    if any(counts):
        located = numbered.filter(bad.is_not_null()).with_columns(bad=bad).head(_SHOWN).collect(engine="streaming")
        role = [name for name, _ in problems.values()]
        where = [f"{rows.place(row['row'])} ({row[role[row['bad']]]!r})" for row in located.iter_rows(named=True)]
        notes += left_out(dict(zip(problems, counts, strict=True)), n_rows, where, errors)
    if weightless:
        notes += (f"{weightless:,} rows of weight 0 left out",)
    good = bad.is_null() & (weight > 0)
    repeats = _repeats(numbered.filter(good).select("row", **columns), n_rows)
    if repeats.height:
        kinds = dict(repeats.group_by("what", maintain_order=True).len().iter_rows())
        notes += left_out(kinds, n_rows, [rows.place(row) for row in repeats["row"].head(_SHOWN)], errors)
        good &= ~pl.col("row").is_in(repeats["row"].implode())
    source = (pl.col(by) if by else pl.lit("")).cast(pl.String).fill_null("")
    at = columns["position"]
    starts = numbered.filter(good).group_by(source=source).agg(zeros=(at == 0).sum(), ones=(at == 1).sum())
    from_zero, position_notes = _from_zero(starts.collect(engine="streaming").sort("source"), by, first)
    if n_rows == sum(counts) + weightless:
        raise check.error("a click log must have rows", got="none that can be used" if n_rows else "none")
    columns["position"] = at + source.is_in(from_zero)
    keep_sessions = n_rows <= _MOST_IN_SESSIONS if sessions is None else sessions
    if not keep_sessions and sessions is None:
        notes += (f"impressions are not kept one by one: more than {_MOST_IN_SESSIONS:,} rows",)
    parts = [numbered.slice(start, _PART).filter(good).select(**columns) for start in range(0, n_rows, _PART)]
    return Log.from_rows(parts, sessions=keep_sessions, notes=(*notes, *position_notes))


def typed_columns(schema: pl.Schema, first: int = 0) -> tuple[dict[str, pl.Expr], dict[str, tuple[str, pl.Expr]]]:
    """Return the typed columns, and for each kind of bad row the column and whether a row is of that kind."""
    columns: dict[str, pl.Expr] = {}
    problems: dict[str, tuple[str, pl.Expr]] = {}
    for name, kind in schema.items():
        column = pl.col(name)
        if name in _IDS:
            if isinstance(kind, pl.String | pl.Categorical | pl.Enum) or name in {"ranker", "segment"}:
                column = column.cast(pl.String)
                column = pl.when(column != "").then(column)
            elif not kind.is_integer() and kind != pl.Null:
                what = f"the column of the {name} must hold integers or strings"
                raise check.error(what, got=str(kind), hint="cast it before")
            columns[name] = column
            problems[f"no {name}"] = name, column.is_null()
            continue
        if name == "time":
            columns["day"] = day(column, kind)
            problems["a time that is neither a date, ISO 8601 nor seconds since 1970"] = name, columns["day"].is_null()
            continue
        number = _number(column, kind, truths=name == "clicked")
        if name == "clicked":
            problems["a click that is not 0, 1, true or false"] = name, ~number.is_in([0.0, 1.0]).fill_null(value=False)
            columns[name] = number.cast(pl.Int8, strict=False)
        elif name == "position":
            is_position = (number == number.floor()) & number.is_between(first, LAST_POSITION)
            problems[f"a position that is not an integer from {first}"] = name, ~is_position.fill_null(value=False)
            columns[name] = number.cast(pl.Int32, strict=False)
        elif name == "probability":
            is_probability = number.is_between(0, 1, closed="right").fill_null(value=False)
            problems["a probability that is not above 0 and at most 1"] = name, ~is_probability
            columns[name] = number
        elif name == "weight":
            is_weight = (number >= 0) & number.is_finite()
            problems["a weight that is not a number from 0"] = name, ~is_weight.fill_null(value=False)
            columns[name] = number
    return columns, problems


def _number(column: pl.Expr, kind: pl.DataType, *, truths: bool) -> pl.Expr:
    """Return a column as numbers, with ``truths`` true as 1; null where it holds none."""
    if isinstance(kind, pl.String | pl.Categorical | pl.Enum):
        text = column.cast(pl.String).str.strip_chars().str.to_lowercase()
        return (text.replace({"true": "1", "false": "0"}) if truths else text).cast(pl.Float64, strict=False)
    return column.cast(pl.Float64, strict=False) if truths or kind != pl.Boolean else pl.lit(None, pl.Float64)


def left_out(counts: dict[str, int], n_rows: int, where: list[str], errors: str) -> tuple[str, ...]:
    """Return notes about bad rows that are left out, or raise."""
    kinds = [f"{count:,} {'row' if count == 1 else 'rows'} with {what}" for what, count in counts.items() if count]
    if errors == "drop":
        return tuple(f"{kind} left out" for kind in kinds)
    raise check.error(
        "every row of a click log must be usable",
        got=f"{', '.join(kinds)} (of {n_rows:,})",
        where="; ".join(where),
        hint="mend them, or `set errors='drop'`, which leaves them out with a note",
    )


def _repeats(rows: pl.LazyFrame, n_rows: int) -> pl.DataFrame:
    """Return the rows whose document or position was in their impression already, and which of both."""
    tables = [pl.DataFrame(schema={"row": pl.Int64, "what": pl.String})]
    parts = -(-n_rows // _HASHED_AT_ONCE)
    for name, what in _REPEATED.items():
        key = ["query", "impression", name]
        value = functools.reduce(operator.xor, (pl.col(part).hash(seed) for seed, part in enumerate(key, 1)))
        repeated = []
        for part in range(parts):
            # Eight bytes a row: the ids of a large log do not fit into memory.
            hashes = rows.select(hash=value).filter(pl.col("hash") % parts == part).collect(engine="streaming")
            ordered = np.sort(hashes["hash"].to_numpy())
            repeated.append(np.unique(ordered[1:][ordered[1:] == ordered[:-1]]))
        suspects = np.concatenate(repeated) if repeated else np.zeros(0, np.uint64)
        if suspects.size:
            table = rows.filter(value.is_in(pl.Series(suspects).implode())).collect(engine="streaming").sort("row")
            again = table.filter(~pl.struct(key).is_first_distinct())
            tables.append(again.select(pl.col("row").cast(pl.Int64), what=pl.lit(what)))
    return pl.concat(tables).unique("row", keep="first", maintain_order=True).sort("row")


def _from_zero(starts: pl.DataFrame, by: str | None, first: int | None) -> tuple[list[str], tuple[str, ...]]:
    """Return the sources that count positions from 0, and notes about them.

    A source with rows at position 0 does, unless more lists have a position 1 than a position 0.
    """
    if first is not None:
        return (starts["source"].to_list() if first == 0 else []), ()
    zero = starts.filter(pl.col("zeros") > 0)
    if not zero.height:
        return [], ()
    of = {name: f" of the {by} {name!r}" if by else "" for name in starts["source"]}
    for name, zeros, ones in zero.iter_rows():
        if ones > _MIXED * zeros:
            raise check.error(
                f"positions{of[name]} must all be counted from 0, or all from 1",
                got=f"{zeros:,} rows at position 0 and {ones:,} at position 1, so that some lists begin at 1",
                hint="`set first=0` where positions may be missing, or mend the log",
            )
    if zero.height == starts.height:
        return zero["source"].to_list(), ("positions were counted from 0: 1 was added",)
    listed = [", ".join(map(repr, names)) for names in (zero["source"], set(starts["source"]) - set(zero["source"]))]
    note = f"positions are counted from 0 by the {by} {listed[0]} (1 was added) and from 1 by {listed[1]}"
    check.warn(note, hint="`set first=0` or first=1 if that is wrong", stacklevel=4)
    return zero["source"].to_list(), (note,)


def naming_files(paths: Sequence[Path]) -> contextlib.AbstractContextManager[None]:
    """Name the files in errors of a ``with`` block that do not name them."""
    return check.naming(paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more")


def open_log(
    source: Source, names: dict[str, str], stack: contextlib.ExitStack, *, optional: Collection[str] = ()
) -> LogRows:
    """Return the named columns of a file, of several, or of a frame; the stack names the file in later errors.

    Columns of ``optional`` roles may be missing.
    """
    if not isinstance(source, str | Path | list | tuple):
        frame, _ = as_polars(cast("Table", source))
        return LogRows(_selected(frame, names, optional), lambda row: f"row {row}")
    paths = _paths(source)
    kinds = {file_formats.by_name(path) for path in paths}
    if kinds == {"parquet"}:
        stack.enter_context(parquet.reading(paths))
        return LogRows(_selected(parquet.scan(paths), names, optional), lambda row: _row_of_file(paths, row))
    if kinds != {"csv"}:
        got = ", ".join(path.name for path in paths[:_SHOWN])
        raise check.error("a click log is read from .csv, .tsv or .parquet files, of one kind", got=got)
    stack.enter_context(naming_files(paths))
    tables = [read_table(path) for path in paths]
    frames = [_selected(table.frame.lazy(), names, optional) for table in tables]
    ends = np.cumsum([table.frame.height for table in tables])

    def place(row: int) -> str:
        number = int(np.searchsorted(ends, row, side="right"))
        return f"{paths[number]}, {tables[number].place(row - int(ends[number]) + tables[number].frame.height)}"

    return LogRows(pl.concat(frames), place)


def _selected(frame: pl.LazyFrame, names: dict[str, str], optional: Collection[str]) -> pl.LazyFrame:
    """Return the columns under the names of their roles."""
    present = frame.collect_schema().names()
    names = {role: name for role, name in names.items() if name in present or role not in optional}
    if unknown := {role: name for role, name in names.items() if name not in present}:
        free = [name for name in present if name not in names.values()]
        guesses = {role: _guess(role, name, free) for role, name in unknown.items()}
        what = f"unknown column{'s' if len(unknown) > 1 else ''} ({', '.join(f'{role}=' for role in unknown)})"
        likely = [
            f"`{role}={name!r}|--{role} {shlex.quote(name)}`" for role, name in guesses.items() if name is not None
        ]
        hint = f"did you mean {', '.join(likely)}; columns are" if likely else "choose one of"
        raise check.error(what, got=", ".join(map(repr, unknown.values())), hint=f"{hint} {', '.join(present)}")
    return frame.select(**{role: pl.col(name) for role, name in names.items()})


def _guess(role: str, name: str, columns: Sequence[str]) -> str | None:
    """Return the column that was probably meant: a name with a slip, one that is usual, or one that has the role in it.

    >>> _guess("query", "query", ["user", "query_text", "query_id"]), _guess("document", "asni", ["asin", "document"])
    ('query_text', 'asin')
    """
    usual = [column for known in _USUAL.get(role, ()) for column in columns if column.lower() == known]
    near = difflib.get_close_matches(name, columns, n=1, cutoff=0.75)
    holding = [column for column in columns if role in column.lower()]
    slip = [] if name == role else near  # the default is no slip of the user's
    return next(iter((*slip, *usual, *holding, *near)), None)


def _paths(source: str | Path | Sequence[str | Path]) -> list[Path]:
    """Return all files of a path, a folder, a pattern, or a list of them."""
    if not isinstance(source, str | Path):
        return [path for one in source for path in _paths(one)]
    path = Path(source)
    if path.is_dir():
        return parquet.parquet_files(path)
    matches = [] if path.exists() else sorted(Path(path.anchor).glob(str(path.relative_to(path.anchor))))
    return matches or [check.readable(path)]


def _row_of_file(paths: Sequence[Path], row: int) -> str:
    """Return the file and the row in it of a row of all files."""
    for path in paths:
        height = int(pl.scan_parquet(path).select(pl.len()).collect().item())
        if row < height:
            return f"{path}, row {row}"
        row -= height
    return f"row {row}"
