"""A data set of the user's own, described by a ``.toml`` file: its parts, their format, and how they are read."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from rankwise import check
from rankwise.base.arrays import Keywords
from rankwise.data.columns import COLUMNS, roles
from rankwise.data.io import FORMATS, by_name
from rankwise.language import settings_files
from rankwise.wings.datasets.sets import PARTS, CatalogEntry

_WHAT = "the description of a data set"
_OF_TABLES = (*roles(), "features", "categorical", "sort")
_OF_TEXT = ("n_features", "first_index")
_NUMBERS = ("folds", *_OF_TEXT)
_TYPES: Keywords = {"features": tuple[str, ...], "categorical": tuple[str, ...], "sort": bool} | {
    column.role: dict[str, str] for column in COLUMNS if column.several
}  # of values; others are strings
KEYS = ("name", *PARTS, "folds", "format", *_OF_TABLES, *_OF_TEXT)


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
