"""Loading a data set by name: its files are found below the data folder, read, and kept in binary form."""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

from rankwise import check
from rankwise.base import hooks
from rankwise.base.arrays import Keywords
from rankwise.data.columns import COLUMNS, roles
from rankwise.data.dataset import RankingDataset
from rankwise.data.io.catalog import sets
from rankwise.data.io.catalog.sets import PARTS, CatalogEntry
from rankwise.data.io.disk.cache import cached
from rankwise.data.io.download import fetch_archive
from rankwise.data.io.file_formats import FORMATS, by_name
from rankwise.language import settings_files

if TYPE_CHECKING:
    from rankwise.wings.recommend.data.interactions import Interactions

PartName = Literal["train", "valid", "test"]
MovieLens = Literal["movielens-latest-small", "movielens-100k", "movielens-1m", "ml-latest-small", "ml-100k", "ml-1m"]
_PACKED = ("", ".gz", ".zst")
_WHAT = "the description of a data set"
_OF_TABLES = (*roles(), "features", "categorical", "sort")
_OF_TEXT = ("n_features", "first_index")
_NUMBERS = ("folds", *_OF_TEXT)
_TYPES: Keywords = {"features": tuple[str, ...], "categorical": tuple[str, ...], "sort": bool} | {
    column.role: dict[str, str] for column in COLUMNS if column.several
}  # of values; others are strings
KEYS = ("name", *PARTS, "folds", "format", *_OF_TABLES, *_OF_TEXT)


class Parts(NamedTuple):
    """The parts of one data set, or of one of its folds."""

    train: RankingDataset
    valid: RankingDataset | None
    """None where the distributor gives no validation data: take it off ``train`` with :func:`rankwise.split`."""
    test: RankingDataset


@overload
def load_dataset(  # type: ignore[overload-overlap]  # these names are strings too
    name: MovieLens,
    *,
    folder: str | Path | None = None,
    download: bool = False,
) -> "Interactions": ...
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
) -> "RankingDataset | Parts | Interactions":
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
        ratings: Interactions = hooks.find("class", "ratings").read(files["ratings"])
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


def load_folds(name: str | Path, folds: int, **options: Any) -> list[Parts]:
    """Load all folds of a set, whose number must be ``folds``; ``options`` are those of :func:`load_dataset`."""
    available = set_entry(name).folds
    if available != folds:
        what = f"{name} has {available} folds of its own" if available else f"{name} has one fixed split and no folds"
        hint = f"`set folds={available}`" if available else "give a plain file, or one part of it"
        raise check.error(what, got=f"folds={folds}", hint=hint)
    return [load_dataset(name, number, **options) for number in range(1, folds + 1)]


def set_entry(name: str | Path) -> CatalogEntry:
    """Return the description of a set of the catalog, or of a .toml file."""
    return describe(check.readable(name)) if str(name).endswith(".toml") else sets.entry(str(name))


def describe(path: Path) -> CatalogEntry:
    r"""Read the description of a data set; its paths are relative to the folder that the description lies in.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as here:
    ...     path = Path(here, "mine.toml")
    ...     _ = path.write_text('train = "{fold}/train.txt"\ntest = "{fold}/test.txt"\nfolds = 3\n')
    ...     describe(path).files["train"]
    ('{fold}/train.txt',)
    """
    file = settings_files.load(path, _WHAT)
    keys = file.keys
    settings_files.check_keys(keys, KEYS, _WHAT, file.place)
    for key in ("train", "test"):
        if key not in keys:
            raise check.error(f"the description of a data set must name a {key} file", where=str(path))
    for key, value in keys.items():
        if key not in _NUMBERS:
            settings_files.check_type(key, value, _TYPES.get(key, str), file.place(key))
    files = {part: (keys[part],) for part in PARTS if part in keys}
    numbered = all("{fold}" in pattern for (pattern,) in files.values())
    if numbered != ("folds" in keys):
        raise check.error(
            "{fold} in every path and folds belong together in the description of a data set",
            got=", ".join(f'{part} = "{pattern}"' for part, (pattern,) in files.items()),
            where=str(path),
            hint="write folds = 5 and put {fold} where the number of the fold stands, or neither",
        )
    with check.naming(file.place("format")):
        form = check.choice("format of a data set", keys.get("format", by_name(Path(keys["train"]))), FORMATS)
    columns: Keywords = {key: keys[key] for key in _OF_TABLES if key in keys}
    for key in _OF_TABLES if form == "letor" else _OF_TEXT:
        if key in keys:
            raise check.error(
                f"{key} does not go with the format of the data set",
                got=f"format {form!r}",
                where=file.place(key),
                hint="columns are named in csv and parquet files; n_features and first_index are for letor text",
            )
    index = keys.get("first_index", "auto")
    if index != "auto" and (isinstance(index, bool) or index not in (0, 1)):
        raise check.error('first_index must be 0, 1 or "auto"', got=repr(index), where=file.place("first_index"))
    counts: Keywords = {}
    for key in ("folds", "n_features"):
        if key in keys:
            with check.naming(file.place(key)):
                counts[key] = check.integer(key, keys[key], least=1)
    title = keys.get("name", path.stem)
    return CatalogEntry(name=title, title=title, files=files, format=form, columns=columns, first_index=index, **counts)


@contextlib.contextmanager
def in_toml(path: str | Path) -> Iterator[None]:
    """Name the .toml file in errors about its data, with hints about what to write there."""

    def write(name: str, value: str | None) -> str | None:
        if name not in KEYS or value is None:
            return None
        words = {"True": "true", "False": "false", "": "…"}
        return f"{name} = {words.get(value, value)} in {Path(path).name}".replace("'", '"')

    with check.naming(path), check.hints(write, "write"):
        yield


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
    read: Callable[..., RankingDataset]
    options: Keywords
    if entry.format == "parquet":
        from rankwise.data.io.tables import parquet

        read, files, options = parquet.read_parquet, parquet.parquet_files(path), dict(entry.columns)
    elif entry.format == "csv":
        from rankwise.data.io.tables import csv

        read, files, options = csv.read_csv, [path], dict(entry.columns)
    else:
        from rankwise.data.io.letor.line_blocks import files_of
        from rankwise.data.io.letor.reader import read_letor

        read, files = read_letor, files_of(path)
        options = {"n_features": entry.n_features, "first_index": entry.first_index}
    return cached(path, read, files, **options) if cache else read(path, **options)
