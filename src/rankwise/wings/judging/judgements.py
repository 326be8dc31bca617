"""Judgements in a .csv file: who gave which document which grade, and when; every answer is appended at once.

Columns are query, document, grade, judge and time (UTC, ISO 8601). There may be version and prompt (the version of a
model that judges, and a digest of what it was asked) and probability (of being drawn). A row without a grade takes back
what the same judge said of the document before, or says that the judge skipped it. Two rows with grades are repeats, of
which the last counts.
"""

import csv
import os
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from rankwise import check
from rankwise.base import files, tables
from rankwise.data.io import BYTE_ORDER_MARK, TextTable, parse, read_bytes

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

COLUMNS = ("query", "document", "grade", "judge")
"""Columns that must be there."""
KEY = ("judge", "query", "document")
_MORE = ("version", "prompt", "time")
CONTROL = r"[\x00-\x1f\x7f-\x9f\u2028\u2029]"
"""Letters that ids and names of judges may not have: lines and cells end there."""
_WHOLE = re.compile(r"[0-9]{4}-[0-9-]{5}T[0-9:]{8}\.[0-9]{3}Z")


def has_judges(path: str | Path) -> bool:
    """Whether it is a .csv file that says who judged, also one whose last line was torn."""
    return Path(path).suffix.lower() == ".csv" and "judge" in _names(read_bytes(path))


def read_rows(path: str | Path) -> pl.DataFrame:
    """Read every row of a file in its order: also those without a grade, and those that were taken back later.

    A last line that was torn by a crash is left out: nobody was told that it is kept.
    """
    content = read_bytes(path).removeprefix(BYTE_ORDER_MARK)
    frame = checked(parse(content[: _whole(content)], Path(path), between=","), path, COLUMNS)
    return frame.with_columns(pl.lit(None, pl.String).alias(name) for name in _MORE if name not in frame.columns)


def checked(table: TextTable, path: str | Path, needed: Sequence[str], *, once: bool = False) -> pl.DataFrame:
    """Return a table of documents with ids as text, and grades and probabilities as numbers; errors name the line.

    With ``once`` a document may stand only once under a query.
    """
    frame = tables.from_csv(table.frame)
    if missing := [name for name in needed if name not in frame.columns]:
        got, hint = ", ".join(frame.columns), f"the first line names the columns, among them {', '.join(needed)}"
        raise check.error(f"there is no column {missing[0]}", got=got, where=str(path), hint=hint)
    names = [name for name in frame.columns if name in ("grade", "probability")]
    numbers = {name: frame[name].str.strip_chars().cast(pl.Float64, strict=False) for name in names}
    rules: list[tuple[str, str, pl.Series]] = []
    for name in names:
        wrong = frame[name].is_not_null() & ~numbers[name].is_finite().fill_null(False)
        rules.append((name, f"every {name} must be a number, or empty", wrong))
    for name in (one for one in needed if one not in names):
        wrong = frame[name].is_null() | frame[name].str.contains(CONTROL).fill_null(False)
        rules.append((name, f"every line must have a {name}, without tabs and line ends", wrong))
    if once:
        again = ~frame.select(pl.struct("query", "document").is_first_distinct()).to_series()
        rules.append(("document", "a document may stand only once under a query", again))
    for name, what, wrong in rules:
        if wrong.any():
            row = int(wrong.arg_max() or 0)
            raise check.error(what, got=repr(frame[name][row] or ""), where=f"{path}, {table.place(row)}")
    return frame.with_columns(column.alias(name) for name, column in numbers.items())


def given(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with grades that were not taken back, repeats included."""
    return rows.filter(pl.col("grade").is_null().cum_sum(reverse=True).over(KEY) == 0)


def standing(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the last grade of each judge for each document, in the order of the file.

    >>> rows = pl.DataFrame({"query": "q", "document": ["a", "b", "a", "b"], "grade": [1, 2, 3, None], "judge": "ann"})
    >>> standing(rows).select("document", "grade").rows()
    [('a', 3)]
    """
    return given(rows).unique(KEY, keep="last", maintain_order=True)


def read(path: str | Path) -> pl.DataFrame:
    r"""Read the judgements that stand: one row per judge and document, in the order of the file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as here:
    ...     path = Path(here, "judged.csv")
    ...     _ = path.write_text("query,document,grade,judge,time\nq,a,1,ann,\nq,a,,ann,\nq,b,2,ann,\n")
    ...     read(path).select("document", "grade").rows()  # the grade of a was taken back
    [('b', 2.0)]
    """
    rows = read_rows(path)
    found = standing(rows)
    if "probability" not in rows.columns:
        return found
    left = rows.unique(KEY[1:], keep="first", maintain_order=True).join(found, on=KEY[1:], how="anti")
    return pl.concat([found, left.with_columns(grade=pl.lit(None, pl.Float64))])


class JudgementFile:
    """A file to which one process appends judgements: a row is on the disk when :meth:`append` returns.

    A last line that was torn by a crash is removed; ``torn`` is its length.
    """

    def __init__(self, path: Path, *, columns: tuple[str, ...] = (*COLUMNS, "time")) -> None:
        if path.suffix.lower() != ".csv":
            raise check.error("judgements are a .csv file", got=str(path), hint="end its name in .csv")
        self.path, new = path, not path.exists() or not path.stat().st_size
        files.check_writable(path, force=True)
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        try:
            self._lock()
            if new:
                self.columns, self.torn = columns, 0
                self._write((",".join(columns) + "\n").encode())
                files.sync_folder(path.resolve().parent)
            self.rows = read_rows(path)
            content = path.read_bytes()
            self.columns = tuple(_names(content))
            if missing := set(columns).difference(self.columns):
                hint = "name another file for the answers"
                got = ", ".join(self.columns)
                raise check.error(f"answers need a column {min(missing)}", got=got, where=str(path), hint=hint)
            self.torn = len(content) - _whole(content)
            if self.torn:
                os.ftruncate(self._file, _whole(content))
            if not content.endswith(b"\n") and not self.torn:
                self._write(b"\n")
        except BaseException:
            self.close()
            raise

    def append(self, *rows: Mapping[str, object]) -> None:
        """Append rows with the time of now, and wait until they are on the disk; all of them or none."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        frame = pl.DataFrame([{"time": time, **row} for row in rows], infer_schema_length=None)
        more = [pl.lit(None).alias(name) for name in self.columns if name not in frame.columns]
        text = tables.as_csv(frame.with_columns(more).select(self.columns))
        self._write(text.partition("\n")[2].encode())

    def close(self) -> None:
        """Close the file."""
        handle, self._file = self._file, -1
        if handle >= 0:
            os.close(handle)

    def _lock(self) -> None:
        try:
            if fcntl is not None:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # until it is closed
        except OSError:
            hint = "stop it first, or name another file for the answers"
            raise check.error("another process is writing into the judgements", got=str(self.path), hint=hint) from None

    def _write(self, content: bytes) -> None:
        size, written = os.fstat(self._file).st_size, 0
        try:
            while written < len(content):
                written += os.write(self._file, content[written:])
            os.fsync(self._file)
        except OSError:
            os.ftruncate(self._file, size)
            raise


def _names(content: bytes) -> list[str]:
    """Return the names in the first line."""
    first = re.split(rb"[\r\n]", content.removeprefix(BYTE_ORDER_MARK), maxsplit=1)[0]
    return next(csv.reader([first.decode("utf-8", "replace")]), [])


def _whole(content: bytes) -> int:
    """Return the length of the content without a torn last line: one with all columns and a whole time is none."""
    end = content.rfind(b"\n") + 1
    last, names = content[end:], _names(content)
    try:
        cells = next(csv.reader([last.decode()]), [])
    except UnicodeDecodeError:
        return end
    except csv.Error:  # not one of ours: who reads the table says what is wrong
        return len(content)
    torn = len(cells) < len(names) or (names[-1:] == ["time"] and not _WHOLE.fullmatch(cells[-1]))
    return end if last and end and torn else len(content)
