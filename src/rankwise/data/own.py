"""Users' own data sets: a few lines of TOML make a set load as those of the catalog do."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rankwise import check
from rankwise.data.entry import PARTS, Entry

KEYS = ("name", *PARTS, "folds", "format", "query", "label", "n_features", "first_index")


def describe(path: Path) -> Entry:
    r"""Read the description of a data set; its paths are relative to the folder that the description lies in.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as here:
    ...     path = Path(here, "mine.toml")
    ...     _ = path.write_text('train = "{fold}/train.txt"\ntest = "{fold}/test.txt"\nfolds = 3\n')
    ...     describe(path).files["train"]
    ('{fold}/train.txt',)
    """
    try:
        keys = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as broken:
        raise check.error("cannot read the description of a data set", got=str(broken), where=str(path)) from None
    for key in keys:
        if key not in KEYS:
            cure = check.suggestion(key, KEYS).rstrip("?")
            raise check.error("unknown key in the description of a data set", got=repr(key), where=str(path), cure=cure)
    for key in ("train", "test"):
        if key not in keys:
            raise check.error(f"the description of a data set must name a {key} file", where=str(path))
    texts = {key: _text(path, keys, key) for key in ("name", *PARTS, "format", "query", "label") if key in keys}
    files = {part: (texts[part],) for part in PARTS if part in texts}
    numbered = all("{fold}" in pattern for (pattern,) in files.values())
    if numbered != ("folds" in keys):
        raise check.error(
            "{fold} in every path and folds belong together in the description of a data set",
            got=", ".join(f'{part} = "{pattern}"' for part, (pattern,) in files.items()),
            where=str(path),
            cure="write folds = 5 and put {fold} where the number of the fold stands, or neither",
        )
    form = check.choice("format of a data set", texts.get("format", "letor"), ("letor", "parquet"))
    columns: dict[str, str] = {key: texts[key] for key in ("query", "label") if key in texts}
    misplaced = {"letor": ("query", "label"), "parquet": ("n_features", "first_index")}[form]
    for key in misplaced:
        if key in keys:
            raise check.error(
                f"{key} does not go with the format of the data set",
                got=f"format {form!r}",
                where=str(path),
                cure="query and label name columns of parquet files; n_features and first_index are for letor text",
            )
    title = texts.get("name", path.stem)
    return Entry(
        name=title,
        title=title,
        files=files,
        folds=check.integer("folds", keys["folds"], least=1) if numbered else 0,
        format=form,
        columns=columns,
        first_index=keys.get("first_index", "auto"),
        n_features=check.integer("n_features", keys["n_features"], least=1) if "n_features" in keys else None,
    )


def _text(path: Path, keys: Mapping[str, Any], key: str) -> str:
    if not isinstance(keys[key], str):
        raise check.error(f"{key} must be text in the description of a data set", got=repr(keys[key]), where=str(path))
    return str(keys[key])
