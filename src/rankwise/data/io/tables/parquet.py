"""Reading and writing Parquet; a file of rankwise describes its columns."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Unpack, cast

import polars as pl

from rankwise import check
from rankwise.base import threads
from rankwise.base.arrays import Json, Keywords
from rankwise.base.files import replacing
from rankwise.data import columns, frames
from rankwise.data.arguments import Roles
from rankwise.data.categories import Values, is_numeric, join
from rankwise.data.dataset import RankingDataset
from rankwise.data.io.file_formats import is_known, is_parquet
from rankwise.data.io.tables.features import feature_columns, matrix
from rankwise.data.io.urls import accepts_urls

Source = str | Path
"""A file, or a URL that polars reads."""

_METADATA = "rankwise"
_HINT = "get the file again, or write it anew"
_DESCRIBED = ("roles", "features", "categorical", "categories", "absent", "feature_origin")
_ABSENT = ("query_ids", "feature_names")  # a table has these even where the data set lacks them


@accepts_urls
def read_parquet(path: str | Path, **arguments: Unpack[Roles]) -> RankingDataset:
    """Read a Parquet file, or all of a folder in the order of their names; from a URL they are downloaded first.

    ``arguments`` are those of :meth:`RankingDataset.from_frame`. A file that :func:`write_parquet` wrote
    describes its columns itself.
    """
    return load(Path(path), cast("Keywords", arguments))


def load(path: Path, arguments: Keywords, fill: frames.Fill = matrix) -> RankingDataset:
    """Read as :func:`read_parquet`; ``fill`` makes the matrix of features."""
    paths = parquet_files(path)
    arguments, absent = arguments_for_frame(paths, arguments)
    with reading(paths):
        data = frames.from_frame(scan(paths), RankingDataset, fill=fill, **arguments)
    kept: Keywords = dict.fromkeys(absent)
    if (origin := _description(paths[0]).get("feature_origin")) is not None:  # that of all of them
        kept["feature_origin"] = origin
    return data.with_(**kept) if kept else data


def write_parquet(data: RankingDataset, path: str | Path, *, force: bool = False) -> Path:
    """Write one row per document; reading it gives back exactly the same data set.

    The file appears only once it is complete, and replaces another only with ``force``.
    """
    threads.check_tables()
    path = Path(path)
    if is_known(path) and not is_parquet(path):
        hint = "end its name in .parquet, or write LETOR text with rw.data.write_letor"
        raise check.error("Parquet is read by its name", got=repr(path.name), hint=hint)
    names = frames.feature_names(data)
    table = frames.to_frame(data)
    description = {
        "roles": {role: name for role, (name, _) in frames.titles(data).items()},
        "features": names,
        "categorical": [names[number] for number in data.categorical],
        "categories": {names[number]: listed for number, listed in data.categories.items()},
        "absent": [name for name in _ABSENT if getattr(data, name) is None],
        **({} if data.feature_origin is None else {"feature_origin": data.feature_origin}),
    }
    with replacing(path, force=force) as new:
        table.write_parquet(new, metadata={_METADATA: json.dumps(description)})
    return path


def has_feature_names(path: str | Path) -> bool:
    """Whether features have names of the user; else they are called f1, f2 …."""
    return "feature_names" not in _description(parquet_files(path)[0]).get("absent", ())


def parquet_files(path: str | Path) -> list[Path]:
    """Return the Parquet file, or all files of a folder in the order of their names."""
    path = Path(path)
    paths = sorted(path.glob("*.parquet")) if path.is_dir() else [check.readable(path)]
    if not paths:
        raise FileNotFoundError(f"there are no .parquet files in the folder {path}.")
    return paths


@contextlib.contextmanager
def reading(paths: Sequence[Source]) -> Iterator[None]:
    """Name the file in errors of reading, and in errors about its data."""
    place = paths[0] if len(paths) == 1 else _folder(paths)
    with check.library("Parquet", lambda: _unreadable(paths) or place, also=True), check.naming(place):
        yield


def arguments_for_frame(paths: Sequence[Source], arguments: Keywords) -> tuple[Keywords, tuple[str, ...]]:
    """Return the arguments of :func:`frames.from_frame` for these files, and the names that the data did not have.

    A file that :func:`write_parquet` wrote describes its columns; ``arguments`` of the user take precedence.
    """
    descriptions = [_description(path) for path in paths]
    categories = _joined_categories([one.pop("categories", {}) for one in descriptions])
    description = descriptions[0]
    for path, other in zip(paths, descriptions, strict=True):
        if other != description:
            raise check.error(
                "the files of a folder must say the same about their columns",
                got=f"{Path(paths[0]).name} and {Path(path).name}, which differ",
                where=_folder(paths),
                hint="read them one by one, or write them anew with the same columns and ids",
            )
    with reading(paths):
        scan(paths).collect_schema()
    if not description:
        return arguments, ()
    roles = columns.nested(description["roles"] | columns.flat(arguments))
    if len(paths) > 1 and "query_ids" in description["absent"] and roles["query"] == description["roles"]["query"]:
        raise check.error(
            "several files of data without query ids cannot be told apart",
            got=f"{len(paths)} files whose queries are numbered from 0",
            where=_folder(paths),
            hint="write them with query_ids, different in all files",
        )
    coded = {"categorical": description["categorical"], "categories": categories}
    if not arguments:
        return {**roles, "features": description["features"], **coded}, tuple(description["absent"])
    # Arguments about some columns leave the others as they are.
    features = {*description["features"]} - columns.named_by(arguments)
    chosen = [name for name in description["features"] if name in features]
    if arguments.get("features"):
        with reading(paths):
            features &= {*feature_columns(scan(paths), roles)}
    about_features: Keywords = {
        "categorical": [name for name in description["categorical"] if name in features],
        "categories": {name: listed for name, listed in categories.items() if name in features},
    }
    return {"features": chosen, **about_features, **roles}, ()


def _folder(paths: Sequence[Source]) -> str:
    return str(paths[0].parent) if isinstance(paths[0], Path) else paths[0].rpartition("/")[0]


def scan(paths: Sequence[Source]) -> pl.LazyFrame:
    """Return the rows of all files, whose columns are cast to common types where they differ.

    Lists of categories are joined, numbers are widened, and a column without values in a file is missing there.
    """
    table = pl.scan_parquet([str(path) for path in paths])
    if len(paths) == 1:
        return table
    schemas = [pl.read_parquet_schema(path) for path in paths]
    mended: Keywords = {}
    for name, first in schemas[0].items():
        kinds = [schema.get(name) for schema in schemas]
        if any(kind != first for kind in kinds) and None not in kinds:
            filled = [kind for path, kind in zip(paths, kinds, strict=True) if kind and not _is_empty(path, name, kind)]
            common = _common_type(name, filled or [pl.Null()])
            if common is not None:
                mended[name] = common
    if not mended:
        return table
    casts = [
        pl.col(name).cast(pl.String).cast(kind) if _is_text(kind) else pl.col(name).cast(kind)
        for name, kind in mended.items()
    ]
    return pl.concat([pl.scan_parquet(path).select(*schemas[0]).with_columns(casts) for path in paths])


def _common_type(name: str, kinds: Sequence[pl.DataType]) -> pl.DataType | None:
    """Return the type for a column that has these in several files; None where they do not go together."""
    if all(kind == kinds[0] for kind in kinds):
        return kinds[0]
    if all(isinstance(kind, pl.Enum) for kind in kinds):
        lists = [tuple(kind.categories.to_list()) for kind in kinds if isinstance(kind, pl.Enum)]
        return pl.Enum(list(map(str, join(lists, f"column {name!r}"))))
    if all(_is_text(kind) for kind in kinds):
        return pl.Categorical()
    if all(kind.is_integer() for kind in kinds):
        return pl.Int64()
    if all(kind.is_integer() or kind == pl.String for kind in kinds):  # ids: 12 and "12" are the same
        return pl.String()
    return pl.Float64() if all(kind.is_numeric() or kind == pl.Boolean for kind in kinds) else None


def _is_empty(path: Source, name: str, kind: pl.DataType) -> bool:
    return kind == pl.Null or not pl.scan_parquet(path).select(pl.col(name).is_not_null().any()).collect().item()


def _is_text(kind: pl.DataType | None) -> bool:
    return isinstance(kind, pl.Categorical | pl.Enum | pl.String)


def _joined_categories(files: Sequence[dict[str, list[Any]]]) -> dict[str, Values]:
    """Return the categories of columns of numbers, of all files; types of text list their own."""
    joined: dict[str, Values] = {}
    for written in files:
        for name, listed in written.items():
            if is_numeric(tuple(listed)):
                joined[name] = join((joined.get(name, ()), tuple(listed)), f"column {name!r}")
    return joined


def _description(path: Source) -> Json:
    """Return what :func:`write_parquet` wrote about the columns of a file; empty for a file of other programs."""
    with check.library("Parquet", path):
        text = pl.read_parquet_metadata(path).get(_METADATA)
    if text is None:
        return {}
    try:
        content = json.loads(text)
        is_valid = _is_description(content)
    except (ValueError, RecursionError):
        is_valid = False
    if not is_valid:
        what = "what rankwise wrote about the columns of a Parquet file is damaged"
        raise check.error(what, where=str(path), hint=_HINT)
    return {"categories": {}, **{name: content[name] for name in _DESCRIBED if name in content}}


def _is_description(content: object) -> bool:
    """Whether a description is complete, and of the right types."""
    if not isinstance(content, dict) or not isinstance(content.get("roles"), dict):
        return False
    roles, categories = content["roles"], content.get("categories", {})
    lists = [content.get(name) for name in ("features", "categorical", "absent")]
    return (
        {"query", "label"} <= {role.partition(".")[0] for role in roles} <= set(columns.roles())
        and all(isinstance(one, list) and all(isinstance(name, str) for name in one) for one in lists)
        and all(isinstance(name, str) for name in roles.values())
        and set(content["categorical"]) <= set(content["features"])
        and isinstance(categories, dict)
        and set(categories) <= set(content["categorical"])
        and all(isinstance(listed, list) for listed in categories.values())
        and set(content["absent"]) <= set(_ABSENT)
        and isinstance(content.get("feature_origin", ""), str)
    )


def _unreadable(paths: Sequence[Source]) -> Source | None:
    """Return the first file that cannot be read by itself."""
    for path in paths:
        try:
            with check.library("Parquet", path):
                pl.scan_parquet(path).collect()
        except ValueError:
            return path
    return None
