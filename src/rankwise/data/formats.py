"""Data files of any format: the name tells which, or the user, or the first line."""

import inspect
import re
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from rankwise import check
from rankwise.data import compressed
from rankwise.data.columns import reading_arguments
from rankwise.data.dataset import RankingDataset
from rankwise.data.format_names import FORMATS, TABLES, TEXT, by_name, ending, is_known
from rankwise.data.letor import text as letor
from rankwise.data.tables import csv, parquet
from rankwise.files import is_device
from rankwise.plain import Keywords

if TYPE_CHECKING:
    from collections.abc import Callable

STANDARD_INPUT = compressed.STANDARD_INPUT
LETOR_OPTIONS = tuple(inspect.signature(letor.read_letor).parameters)[1:]
_HEAD = 1 << 16  # bytes that tell the format
_FORMS = {
    **dict.fromkeys(("features", "categorical"), "a name, or a list of names"),
    **dict.fromkeys(("sort", "to_score"), "true or false"),
    "categories": "a list of values for each column",
    "separator": "one letter",
    "": "the name of a column",
}
"""What arguments that are no text of LETOR's must be."""


def read_data(
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002 (as users call it)
    tables: Keywords | None = None,
    **options: Any,
) -> RankingDataset:
    """Read ranking data: LETOR text, CSV, or Parquet, a file or a folder of them.

    ``format`` is ``"letor"``, ``"csv"`` or ``"parquet"``; by default the ending of the name tells (``.csv``, ``.tsv``,
    ``.parquet``, ``.txt``, ``.svm`` …, also with ``.gz`` or ``.zst`` after it), and the first line where it does not.
    ``"-"`` reads standard input, and a pipe will do. ``options`` go to :func:`rankwise.read_letor`,
    :func:`rankwise.read_csv` or :func:`rankwise.read_parquet`; ``tables`` are more of them for data whose features have
    names.
    """
    if str(path) == STANDARD_INPUT:
        return _read_copy(sys.stdin.buffer, compressed.shown(path), format=format, tables=tables, **options)
    path = Path(path)
    if format in (None, "parquet") and is_device(path):
        with path.open("rb") as pipe:
            return _read_copy(pipe, str(path), format=format, tables=tables, **options)
    kind = format_of_data(path) if format is None else check.choice("format of data", format, FORMATS)
    readers: dict[str, Callable[..., RankingDataset]] = {
        "letor": letor.read_letor,
        "csv": csv.read_csv,
        "parquet": parquet.read_parquet,
    }
    if kind != "letor":
        options.pop("progress", None)
    for name in options:
        known = LETOR_OPTIONS if kind == "letor" else (*reading_arguments(), *(["separator"] * (kind == "csv")))
        if name not in (*LETOR_OPTIONS, *reading_arguments(), "separator"):
            hint = check.suggestion(name, [one for one in known if one != "progress"]).rstrip("?")
            raise check.error("unknown argument of reading ranking data", got=repr(name), where=str(path), hint=hint)
        if not _fits(name, options[name]):
            got, hint = f"{name}={options[name]!r}", f"{name} is {_FORMS.get(name, _FORMS[''])}"
            raise check.error("an argument of reading ranking data cannot be this", got=got, where=str(path), hint=hint)
        if (name in LETOR_OPTIONS) != (kind == "letor"):
            what = "of a table" if kind == "letor" else "of LETOR text"
            got = f"{path}, which is read as {'LETOR text' if kind == 'letor' else kind}"
            hint = f"leave {name} out, or set format={'csv' if kind == 'letor' else 'letor'!r}"
            raise check.error(f"{name} belongs to the reading {what}", got=got, hint=hint)
    if tables and (kind == "csv" or (kind == "parquet" and parquet.has_feature_names(path))):
        options = {**tables, **options}
    return readers[kind](path, **options)


def _fits(name: str, value: object) -> bool:
    """Whether an argument that says what columns are has the right type; those of LETOR text are checked there."""
    match name:
        case "features" | "categorical":
            listed = isinstance(value, Collection) and all(isinstance(one, str) for one in value)
            return listed or value is None or isinstance(value, Iterator)
        case "categories":
            return value is None or isinstance(value, Mapping)
        case "sort" | "to_score":
            return isinstance(value, bool)
        case "separator":
            return value is None or (isinstance(value, str) and len(value) == 1)
        case _:
            return name in LETOR_OPTIONS or value is None or isinstance(value, str)


def format_of_data(path: Path) -> str:
    """Tell the format of a file that is there, or a folder: by its name, and else by what it begins with."""
    if path.is_dir():
        return "parquet"
    if is_known(path) or not path.is_file():
        return by_name(path)
    with path.open("rb") as file:
        if file.read(4) == b"PAR1":
            return "parquet"
    with compressed.open_bytes(path) as (plain, _):
        space = bytearray(_HEAD)
        head = bytes(space[: plain.readinto(space)])  # type: ignore[attr-defined]  # of binary files, which these are
    first, _, _ = head.partition(b"\n")
    between = any(mark in first for mark in (b",", b"\t", b";"))
    return "csv" if between and not re.search(rb"(?:\d|qid):", first) else "letor"


def is_parquet(path: Path) -> bool:
    """Tell Parquet, a file or a folder of them, by the name."""
    return path.is_dir() or TABLES.get(path.suffix.lower()) == "parquet"


def write_data(data: RankingDataset, path: str | Path, *, force: bool = False) -> Path:
    """Write ranking data in the format that the name asks for: ``.parquet``, ``.txt``, ``.txt.gz``, ``.svm.zst`` ….

    >>> write_data(None, "ranking.csv")
    Traceback (most recent call last):
    ValueError: cannot tell the format of a data file from its name: got 'ranking.csv'. Hint: end it in .parquet, or for
    LETOR text in .txt, .letor or .svm, with .gz or .zst after it to compress.
    """
    path = Path(path)
    if format_of(path) == "parquet":
        return parquet.write_parquet(data, path, force=force)
    return letor.write_letor(data, path, force=force)


def format_of(path: Path) -> str:
    """Tell by its name which format a data file is to have: ``parquet`` or ``letor``."""
    if TABLES.get(path.suffix.lower()) == "parquet":
        return "parquet"
    if ending(path) in TEXT:
        return "letor"
    raise check.error(
        "cannot tell the format of a data file from its name",
        got=repr(path.name),
        hint="end it in .parquet, or for LETOR text in .txt, .letor or .svm, with .gz or .zst after it to compress",
    )


def _read_copy(source: IO[bytes], name: str, **options: Any) -> RankingDataset:
    """Read what comes in, from a copy on disk: its beginning tells the format, and Parquet is not read in order."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "copy")
        with copy.open("wb") as file:
            shutil.copyfileobj(source, file)
        try:
            return read_data(copy, **options)
        except ValueError as wrong:
            raise ValueError(str(wrong).replace(str(copy), name)) from wrong
