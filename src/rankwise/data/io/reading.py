"""Reading data by name: a file of any format, standard input, a set of the catalog, or one of a .toml file."""

import inspect
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

from rankwise import check
from rankwise.base import hooks
from rankwise.base.arrays import Keywords
from rankwise.base.files import is_device
from rankwise.data.columns import reading_arguments
from rankwise.data.dataset import RankingDataset
from rankwise.data.io import file_formats
from rankwise.data.io.file_formats import FORMATS, STANDARD_INPUT, TEXT, by_name, ending, is_known
from rankwise.data.io.letor.reader import read_letor
from rankwise.data.io.letor.writer import write_letor
from rankwise.data.io.tables import csv, parquet
from rankwise.data.io.urls import accepts_urls

LETOR_OPTIONS = tuple(inspect.signature(read_letor).parameters)[1:]
CSV_OPTIONS = ("separator", *csv.MARKS)
_HEAD = 1 << 16  # bytes by which a format is recognised
_OF_SETS = ("folder", "download")


def _is_names(value: object) -> bool:
    is_list = isinstance(value, Collection) and all(isinstance(word, str) for word in value)
    return is_list or value is None or isinstance(value, Iterator)


_NAMES = ("a name, or a list of names", _is_names)
_FLAG = ("true or false", lambda value: isinstance(value, bool))
_COLUMN = ("the name of a column", lambda value: value is None or isinstance(value, str))
_TYPES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "features": _NAMES,
    "categorical": _NAMES,
    "categories": ("a list of values for each column", lambda value: value is None or isinstance(value, Mapping)),
    "more_labels": ("the name of a column for each label", lambda value: value is None or isinstance(value, Mapping)),
    "sort": _FLAG,
    "to_score": _FLAG,
    "dates": ("the word 'days'", lambda value: value in (None, "days")),
    "drop_duplicates": _FLAG,
    **{
        name: (f"one of {', '.join(map(repr, words))}", (None, *words).__contains__)
        for name, words in csv.MARKS.items()
    },
    "separator": ("one letter", lambda value: value is None or (isinstance(value, str) and len(value) == 1)),
}
"""Types of the arguments of reading a table, in words and as a test; the others are names of columns."""


class Parts(NamedTuple):
    """The parts of one data set, or of one of its folds."""

    train: RankingDataset
    valid: RankingDataset | None
    """None where the distributor gives no validation data: take it off ``train`` with :func:`rankwise.split`."""
    test: RankingDataset


@accepts_urls
def read_data(
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002 (as users call it)
    tables: Keywords | None = None,
    **options: Any,
) -> RankingDataset:
    """Read ranking data: LETOR text, CSV, or Parquet, a file or a folder of them.

    ``format`` is ``"letor"``, ``"csv"`` or ``"parquet"``; by default the ending of the name decides (``.csv``,
    ``.tsv``, ``.parquet``, ``.txt``, ``.svm`` …, also with ``.gz`` or ``.zst`` after it), and for other names the first
    line. ``"-"`` reads standard input, and a pipe will do; a URL (``https://``, ``s3://``, ``gs://`` …) is downloaded
    into the cache. ``options`` are those of :func:`rankwise.read_letor`, :func:`rankwise.read_csv` or
    :func:`rankwise.read_parquet`; ``tables`` are further options for data whose features have names.
    """
    if str(path) == STANDARD_INPUT:
        return _read_copy(sys.stdin.buffer, file_formats.shown(path), format=format, tables=tables, **options)
    path = Path(path)
    if format in (None, "parquet") and is_device(path):
        with path.open("rb") as pipe:
            return _read_copy(pipe, str(path), format=format, tables=tables, **options)
    kind = format_of_data(path) if format is None else check.choice("format of data", format, FORMATS)
    if kind != "letor":
        options.pop("progress", None)
    for name, value in options.items():
        _check_option(name, value, kind, path)
    if tables and (kind == "csv" or (kind == "parquet" and parquet.has_feature_names(path))):
        options = {**tables, **options}
    readers: dict[str, Callable[..., RankingDataset]] = {
        "letor": read_letor,
        "csv": csv.read_csv,
        "parquet": parquet.read_parquet,
    }
    return readers[kind](path, **options)


def _check_option(name: str, value: object, kind: str, path: Path) -> None:
    """Raise for an option that no reader has, whose value has a wrong type, or that belongs to another format."""
    of_letor, of_tables = name in LETOR_OPTIONS, name in (*reading_arguments(), *CSV_OPTIONS)
    if not of_letor and not of_tables:
        names = LETOR_OPTIONS if kind == "letor" else (*reading_arguments(), *(CSV_OPTIONS if kind == "csv" else ()))
        hint = check.suggestion(name, [word for word in names if word != "progress"], arguments=True).rstrip("?")
        raise check.error("unknown argument of reading ranking data", got=repr(name), where=str(path), hint=hint)
    words, fits = _TYPES.get(name, _COLUMN)
    if of_tables and not fits(value):
        what, got = "an argument of reading ranking data cannot be this", f"{name}={value!r}"
        raise check.error(what, got=got, where=str(path), hint=f"{name} is {words}")
    if name in CSV_OPTIONS and kind == "parquet":
        raise check.error(f"{name} belongs to the reading of CSV", got=f"{path}, Parquet", hint=f"leave `{name}` out")
    if of_letor != (kind == "letor"):
        what = "of a table" if kind == "letor" else "of LETOR text"
        got = f"{path}, which is read as {'LETOR text' if kind == 'letor' else kind}"
        hint = f"leave `{name}` out, or `set format={'csv' if kind == 'letor' else 'letor'!r}`"
        raise check.error(f"{name} belongs to the reading {what}", got=got, hint=hint)


def format_of_data(path: Path) -> str:
    """Return the format of a file or folder that exists: by its name, and else by its first bytes."""
    if path.is_dir():
        return "parquet"
    if is_known(path) or not path.is_file():
        return by_name(path)
    with path.open("rb") as file:
        if file.read(4) == b"PAR1":
            return "parquet"
    with file_formats.open_bytes(path) as (plain, _):
        first, _, _ = plain.read(_HEAD).partition(b"\n")
    has_separator = any(mark in first for mark in (b",", b"\t", b";"))
    return "csv" if has_separator and not re.search(rb"(?:\d|qid):", first) else "letor"


def is_parquet(path: Path) -> bool:
    """Whether a name is that of Parquet: a file, or a folder of them."""
    return path.is_dir() or file_formats.is_parquet(path)


def write_data(data: RankingDataset, path: str | Path, *, force: bool = False, lossy: bool = False) -> Path:
    """Write ranking data in the format of the name: ``.parquet``, ``.txt``, ``.txt.gz``, ``.svm.zst`` ….

    ``lossy`` allows LETOR text to leave columns out that it cannot hold.

    >>> write_data(None, "ranking.csv")
    Traceback (most recent call last):
    rankwise.errors.InputError: cannot tell the format of a data file from its name: got 'ranking.csv'. Hint: end it in
    .parquet, or for LETOR text in .txt, .letor or .svm, with .gz or .zst after it to compress.
    """
    path = Path(path)
    if format_to_write(path) == "parquet":
        return parquet.write_parquet(data, path, force=force)
    return write_letor(data, path, force=force, lossy=lossy)


def format_to_write(path: Path) -> str:
    """Return the format of a new data file by its name: ``parquet`` or ``letor``."""
    if file_formats.is_parquet(path):
        return "parquet"
    if ending(path) in TEXT:
        return "letor"
    raise check.error(
        "cannot tell the format of a data file from its name",
        got=repr(path.name),
        hint="end it in .parquet, or for LETOR text in .txt, .letor or .svm, with .gz or .zst after it to compress",
    )


def _read_copy(source: IO[bytes], name: str, **options: Any) -> RankingDataset:
    """Read a pipe from a copy on disk: its beginning shows the format, and Parquet is not read in order."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "copy")
        with copy.open("wb") as file:
            shutil.copyfileobj(source, file)
        with check.renaming(str(copy), name):
            return read_data(copy, **options)


def is_set(name: str) -> bool:
    """Whether a name is that of a set with several parts, of the catalog or a .toml file, and not of plain data.

    >>> is_set("mq2008"), is_set("mine.toml"), is_set("rows.txt"), is_set("-")
    (True, True, False, False)
    """
    path = Path(name)
    plain = path.suffix or "/" in name or path.exists() or name == STANDARD_INPUT
    return path.suffix == ".toml" or not plain


def entry_of(name: str) -> Any:
    """Return the description of a set; None for plain data."""
    return hooks.find("sets of data", "entry")(name) if is_set(name) else None


def read(
    name: str,
    *,
    part: str | None = None,
    fold: int | None = None,
    progress: Callable[[int, int], object] | None = None,
    tables: Keywords | None = None,
    **options: Any,
) -> RankingDataset:
    """Read one data set: a file, standard input, or one part (``test`` by default) of a set.

    ``options`` are those of :func:`rankwise.read_data`, of a set ``folder`` and ``download``; ``tables`` are further
    options for plain files that are tables.
    """
    if is_set(name):
        data: RankingDataset = load_set(name, fold, part=part or "test", **options)
        return data
    if part is not None or fold is not None:
        argument = "part" if fold is None else "fold"
        what, got = (
            f"only sets of the catalog and .toml files have a {argument}",
            f"the plain file {check.address(name)}",
        )
        raise check.error(what, got=got, hint=f"leave `{argument}` out")
    for option in _OF_SETS:
        if option in options:
            hint = f"leave `{option}` out"
            raise check.error(f"{option} belongs to sets of the catalog", got=check.address(name), hint=hint)
    return read_data(name, progress=progress, tables=tables, **options)


def read_parts(
    data: str, valid: str | None, fold: int | None = None, **options: Any
) -> tuple[RankingDataset, RankingDataset | None]:
    """Read training and validation data: two files, or parts of a set."""
    if data == valid == STANDARD_INPUT:
        raise check.error("standard input can be read only once", got="- for training and validation data")
    of_data = of_valid = options
    if valid is not None and is_set(data) != is_set(valid):  # each option goes to the one of the two that has it
        of_sets = {name: value for name, value in options.items() if name in _OF_SETS}
        of_files = {name: value for name, value in options.items() if name not in _OF_SETS}
        of_data, of_valid = (of_sets, of_files) if is_set(data) else (of_files, of_sets)
    held_out = None if valid is None else read_valid(valid, fold, **of_valid)
    if not is_set(data):
        fold_of_data = None if valid is not None and is_set(valid) else fold
        return read(data, fold=fold_of_data, **of_data), held_out
    parts = load_set(data, fold, **of_data)
    if not isinstance(parts, Parts):
        raise check.error("ratings are no ranking data", got=data, hint=f"use 'rankwise recommend {data}'")
    return parts.train, held_out or parts.valid


def read_valid(name: str, fold: int | None = None, **options: Any) -> RankingDataset:
    """Read validation data: a file, or the validation part of a set, in the same fold as the training data."""
    return read(name, part="valid", fold=fold, **options) if is_set(name) else read(name, **options)


def load_set(name: str, fold: int | None = None, **options: Any) -> Any:
    """Load the parts of a set, or one ``part``; ``options`` are its folder, and whether it may be downloaded."""
    return hooks.find("sets of data", "load")(name, fold, **options)


def load_folds(name: str, folds: int, **options: Any) -> list[Parts]:
    """Load all folds of a set, whose number must be ``folds``."""
    loaded: list[Parts] = hooks.find("sets of data", "folds")(name, folds, **options)
    return loaded
