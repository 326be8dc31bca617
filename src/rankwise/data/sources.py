"""Ranking data by whatever names them: a file, standard input, or a part of a set that has several."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rankwise import check
from rankwise.data import formats
from rankwise.data.catalog.described import KEYS
from rankwise.data.catalog.load import Parts, load_dataset
from rankwise.data.dataset import RankingDataset
from rankwise.plain import Keywords

_OF_SETS = ("folder", "download")


def is_set(name: str) -> bool:
    """Tell a set of several parts, described by a .toml file or the catalog, from plain data.

    >>> is_set("mq2008"), is_set("mine.toml"), is_set("rows.txt"), is_set("-")
    (True, True, False, False)
    """
    path = Path(name)
    plain = path.suffix or "/" in name or path.exists() or name == formats.STANDARD_INPUT
    return path.suffix == ".toml" or not plain


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

    ``options`` are those of :func:`rankwise.read_data`, of a set ``folder`` and ``download``; ``tables`` are more of
    them for plain files that are tables.
    """
    if is_set(name):
        found: Any = load_dataset(name, fold, part=part or "test", **of_set(name, options))  # type: ignore[call-overload]
        return found  # type: ignore[no-any-return]
    if part is not None or fold is not None:
        what, argument = "only sets of the catalog and .toml files have", "part" if fold is None else "fold"
        raise check.error(f"{what} a {argument}", got=f"the plain file {name}", hint=f"leave {argument} out")
    for option in _OF_SETS:
        if option in options:
            raise check.error(f"{option} belongs to sets of the catalog", got=name, hint=f"leave {option} out")
    return formats.read_data(name, progress=progress, tables=tables, **options)


def read_parts(
    data: str, valid: str | None, fold: int | None = None, **options: Any
) -> tuple[RankingDataset, RankingDataset | None]:
    """Read training and validation data: two files, or parts of a set."""
    if data == valid == formats.STANDARD_INPUT:
        raise check.error("standard input can be read only once", got="- for training and validation data")
    of_data = of_valid = options
    if valid is not None and is_set(data) != is_set(valid):  # what does not go with the one is meant for the other
        of_sets = {name: value for name, value in options.items() if name in _OF_SETS}
        of_files = {name: value for name, value in options.items() if name not in _OF_SETS}
        of_data, of_valid = (of_sets, of_files) if is_set(data) else (of_files, of_sets)
    held_out = None if valid is None else read_valid(valid, fold, **of_valid)
    if not is_set(data):
        fold_of_data = None if valid is not None and is_set(valid) else fold
        return read(data, fold=fold_of_data, **of_data), held_out
    whole: Any = load_dataset(data, fold, **of_set(data, of_data))
    if not isinstance(whole, Parts):
        raise check.error("ratings are no ranking data", got=data, hint=f"use 'rankwise recommend {data}'")
    return whole.train, held_out or whole.valid


def read_valid(name: str, fold: int | None = None, **options: Any) -> RankingDataset:
    """Read validation data: a file, or the validation part of a set, in the same fold as the training data."""
    return read(name, part="valid", fold=fold, **options) if is_set(name) else read(name, **options)


def of_set(name: str, options: Keywords) -> Keywords:
    """Check that options are those of a set: where it lies, and whether it may be downloaded."""
    for option in options:
        if option not in _OF_SETS:
            hint = f"write {option} into it" if name.endswith(".toml") and option in KEYS else f"leave {option} out"
            got = f"the set {name}, which says it itself"
            raise check.error(f"{option} belongs to plain files", got=got, hint=hint)
    return options
