"""Loading a data set by name: its files are found below the data folder, read, and kept in binary form."""

import contextlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, overload

import rankwise as rw
from rankwise import RankingDataset, check
from rankwise.base import hooks
from rankwise.data.io import Parts, cached, files_of, parquet
from rankwise.wings.datasets import sets
from rankwise.wings.datasets.archive import fetch_archive
from rankwise.wings.datasets.description import KEYS, describe, in_toml
from rankwise.wings.datasets.sets import PARTS, CatalogEntry

PartName = Literal["train", "valid", "test"]
MovieLens = Literal["movielens-latest-small", "movielens-100k", "movielens-1m", "ml-latest-small", "ml-100k", "ml-1m"]
_PACKED = ("", ".gz", ".zst")


@overload
def load_dataset(  # type: ignore[overload-overlap]  # these names are strings too
    name: MovieLens,
    *,
    folder: str | Path | None = None,
    download: bool = False,
) -> "rw.recommend.Interactions": ...
@overload
def load_dataset(
    name: str | Path,
    fold: int | None = None,
    folder: str | Path | None = None,
    *,
    part: PartName,
    download: bool = False,
    cache: bool = True,
) -> RankingDataset: ...
@overload
def load_dataset(
    name: str | Path,
    fold: int | None = None,
    folder: str | Path | None = None,
    *,
    part: None = None,
    download: bool = False,
    cache: bool = True,
) -> Parts: ...
def load_dataset(
    name: str | Path,
    fold: int | None = None,
    folder: str | Path | None = None,
    *,
    part: str | None = None,
    download: bool = False,
    cache: bool = True,
) -> "RankingDataset | Parts | rw.recommend.Interactions":
    r"""Load a public data set by name, or your own by the ``.toml`` file that describes it.

    The files are looked for below ``folder``, else below the folder that the environment variable ``RANKWISE_DATA``
    names, else in ``~/rankwise-data``, laid out as the distributor's archive unpacks (``MQ2008/Fold1/train.txt``,
    plain or as ``.gz`` or ``.zst``). ``fold`` counts from 1, which is the default. ``part`` gives one of ``train``,
    ``valid`` and ``test`` alone. ``download=True`` fetches a set that is not there, where its terms let a program do
    so. With ``cache`` a binary copy is kept, which the next load maps into memory instead of reading the text (see
    :mod:`rankwise.data.io.disk.cache`). MovieLens comes as :class:`rankwise.recommend.Interactions`; its ``to_frame()``
    is the table of ratings: user, item, rating, time. ``numpy-scipy`` is made of the documentation of the installed
    NumPy and SciPy: features of texts, queries in three parts.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as here:
    ...     text = "0 qid:1 1:0.5\n2 qid:1 1:0.25\n1 qid:2 1:1\n"
    ...     _ = Path(here, "rows.txt").write_text(text)
    ...     _ = Path(here, "mine.toml").write_text('train = "rows.txt"\ntest = "rows.txt"\n')
    ...     load_dataset(f"{here}/mine.toml", part="test")
    RankingDataset(2 queries, 3 documents, 1 feature, labels 0 to 2)
    """
    entry = set_entry(name)
    if str(name).endswith(".toml"):
        if download:
            raise check.error("only sets of the catalog can be downloaded", got=str(name))
        bases = [Path(name).parent]
    else:  # a folder that the user names may also be the set's own
        bases = [_data_folder(folder) / one for one in (*entry.folders, *(["."] if folder else []))]
    patterns = _patterns(entry, part, fold)
    if entry.format == "made":
        made: Parts = hooks.find("data set", entry.name)()
        return made if part is None else made._asdict()[part]
    files = _find(patterns, bases)
    if files is None and download:
        into = _data_folder(folder)
        if entry.archive is None:
            hint = f"get it from {entry.source} ({entry.terms}) and unpack it to {into / entry.folders[0]}"
            raise check.error(f"{entry.title} cannot be downloaded by a program", hint=hint)
        try:
            fetch_archive(entry.archive, into)
        except FileExistsError:  # perhaps another process has just downloaded it
            if _find(patterns, bases) is None:
                raise
        files = _find(patterns, bases)
    if files is None:
        raise _missing(entry, patterns, bases)
    if entry.format == "ratings":
        ratings: rw.recommend.Interactions = hooks.find("class", "ratings").read(files["ratings"])
        return ratings
    with in_toml(name) if str(name).endswith(".toml") else contextlib.nullcontext():
        parts = {one: _read(entry, path, cache) for one, path in files.items()}
        if part is not None:
            return parts[part]
        numbers = {name: data.n_features for name, data in parts.items()}
        if len(set(numbers.values())) > 1:
            raise check.error(
                f"the parts of {entry.title} differ in their number of features",
                got=", ".join(f"{number} in {name}" for name, number in numbers.items()),
                hint=f"write n_features = {max(numbers.values())}, and first_index = 0 or 1, into the .toml file",
            )
    return Parts(parts["train"], parts.get("valid"), parts["test"])


def load_set(name: str, fold: int | None = None, *, part: str | None = None, **options: Any) -> Any:
    """Load a set or one part of it, whose ``options`` are its folder, and whether it may be downloaded."""
    for option in options:
        if option not in ("folder", "download"):
            hint = f"write {option} into it" if name.endswith(".toml") and option in KEYS else f"leave `{option}` out"
            got = f"the set {name}, which says it itself"
            raise check.error(f"{option} belongs to plain files", got=got, hint=hint)
    return load_dataset(name, fold, part=part, **options)  # type: ignore[arg-type]


def load_folds(name: str, folds: int, **options: Any) -> list[Parts]:
    """Load all folds of a set, whose number must be ``folds``."""
    available = set_entry(name).folds
    if available != folds:
        what = f"{name} has {available} folds of its own" if available else f"{name} has one fixed split and no folds"
        hint = f"`set folds={available}`" if available else "give a plain file, or one part of it"
        raise check.error(what, got=f"folds={folds}", hint=hint)
    return [load_set(name, number, **options) for number in range(1, folds + 1)]


def set_entry(name: str | Path) -> CatalogEntry:
    """Return the description of a set of the catalog, or of a .toml file."""
    return describe(check.readable(name)) if str(name).endswith(".toml") else sets.entry(str(name))


def _data_folder(folder: str | Path | None) -> Path:
    try:
        return Path(folder or os.environ.get("RANKWISE_DATA") or Path.home() / "rankwise-data").expanduser()
    except (RuntimeError, KeyError):
        raise check.error(
            "there is no home folder to look for data sets in",
            hint="name the data folder with `folder=` or the environment variable RANKWISE_DATA",
        ) from None


def _patterns(entry: CatalogEntry, part: str | None, fold: int | None) -> dict[str, list[str]]:
    """Return the possible names of the file of each part, or of one."""
    if not entry.folds and fold not in (None, 1):
        what = f"{entry.title} has one fixed split and no folds"
        raise check.error(what, got=f"fold {fold!r}", hint="leave `fold` out")
    if entry.folds and (fold := 1 if fold is None else check.integer("fold", fold, least=1)) > entry.folds:
        raise check.error(f"{entry.title} has the folds 1 to {entry.folds}", got=fold)
    if part is not None and entry.format == "ratings":
        raise check.error(f"{entry.title} is one table of ratings and has no parts", got=f"part {part!r}")
    if part is not None and check.choice("part", part, PARTS) not in entry.files:
        hint = "take one off its training part with rw.split, or 'rankwise data split'"
        raise check.error(f"{entry.title} has no part {part!r}", hint=hint)
    parts = entry.files if part is None else [part]
    return {name: [pattern.replace("{fold}", str(fold)) for pattern in entry.files[name]] for name in parts}


def _find(patterns: Mapping[str, list[str]], bases: list[Path]) -> dict[str, Path] | None:
    """Return the files of all these parts below one folder, so that versions of a set are never mixed."""
    for base in bases:
        paths = {part: _first(base, names) for part, names in patterns.items()}
        if all(paths.values()):
            return {part: path for part, path in paths.items() if path}
    return None


def _first(base: Path, names: list[str]) -> Path | None:
    paths = (_any_case(base / (name + ending)) for name in names for ending in _PACKED)
    return next((path for path in paths if path is not None and path.is_file()), None)


def _any_case(path: Path) -> Path | None:
    """Return the path as it is spelt on the disk, in whatever case."""
    if path.exists():
        return path
    parent = _any_case(path.parent) if path.parent != path else None
    if parent is None or not parent.is_dir():
        return None
    return next((one for one in sorted(parent.iterdir()) if one.name.lower() == path.name.lower()), None)


def _missing(entry: CatalogEntry, patterns: Mapping[str, list[str]], bases: list[Path]) -> FileNotFoundError:
    lines = [f"cannot find {entry.title}: no folder holds all of its files. Looked for, plain or as .gz or .zst:"]
    for base in bases:
        for names in patterns.values():
            path = _first(base, names)
            lines.append(f"  {path} (found)" if path else f"  {base / ' or '.join(names)}")
    if entry.source:
        lines.append(f"Where to get it: {entry.source}. Terms: {entry.terms}.")
        hint = "unpack it there, name another data folder with `folder=` or the environment variable RANKWISE_DATA"
        hint += ", or `pass download=True`" if entry.archive else ""
    else:
        hint = "correct the paths, which are relative to the .toml file"
    return FileNotFoundError(check.Message("\n".join(lines), hint=hint, end="\n"))


def _read(entry: CatalogEntry, path: Path, cache: bool) -> RankingDataset:
    read: Callable[..., RankingDataset] = getattr(rw, f"read_{entry.format}")
    files, options = [path], dict(entry.columns)
    if entry.format == "letor":
        files, options = files_of(path), {"n_features": entry.n_features, "first_index": entry.first_index}
    elif entry.format == "parquet":
        files = parquet.parquet_files(path)
    return cached(path, read, files, **options) if cache else read(path, **options)
