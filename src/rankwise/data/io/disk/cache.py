"""Binary copies of data that are slow to parse, so that the next load is instant and memory-mapped.

Copies of sets of the catalog lie in the library's cache folder (:mod:`rankwise.base.caches`). Those of
:func:`open_data`, as large as the data, lie in ``.rankwise-cache`` beside the source, or in the cache folder where that
is read-only or where ``RANKWISE_CACHE`` names it. A copy is named after everything that it depends on: size, time and
content of every file that is read, the options of reading, and the version of rankwise. A changed source has another
copy, so that nothing stale is read.

A copy is a folder of plain ``.npy`` files, and a JSON file with their origin and checksums. It is written elsewhere and
then renamed, so that it is never incomplete. One that differs from its checksums is not opened. Nothing is ever
unpickled.
"""

import contextlib
import hashlib
import itertools
import json
import os
import re
import shutil
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from rankwise import check
from rankwise._version import __version__
from rankwise.base import caches, files
from rankwise.base.arrays import Column, Json, offsets_of
from rankwise.data import columns
from rankwise.data.dataset import RankingDataset

FORMAT = 6
FOLDER = ".rankwise-cache"
_NAME = 48  # letters of the source's name in that of a copy, which file systems limit
_BLOCK, _BLOCKS = 1 << 16, 256  # bytes, and how many blocks of a large file a checksum reads
_DESCRIPTION = "data.json"
_OFFSETS = "_offsets"  # after the name of a column of texts
_DAMAGE = (OSError, ValueError, KeyError, TypeError, RecursionError)
_LOCK = re.compile(r"\..+-[0-9a-f]{16}\.lock")


def cached(
    source: Path, read: Callable[..., RankingDataset], sources: Sequence[Path] = (), **options: Any
) -> RankingDataset:
    """Return ``read(source, **options)``, from a copy where there is one.

    ``sources`` are all files that are read, if they are not the source alone.
    """
    stamp = _stamp(source, sources, options)

    def make(places: list[Path]) -> RankingDataset:
        data = read(source, **options)
        if _stamp(source, sources, options) == stamp:  # else it was being written while we read
            try:
                _write_one(places, stamp, lambda _: data)
            except OSError as failed:
                caches.warn_no_cache(f"no copy of {source} can be kept ({failed.strerror or failed})")
        return data

    return _open_or(make, _places(source, stamp, _in_cache(source)), stamp)


def mapped(
    source: Path,
    copy: Callable[..., RankingDataset],
    sources: Sequence[Path] = (),
    folder: Path | None = None,
    **options: Any,
) -> RankingDataset:
    """Return the data set whose features ``copy(source, target, **options)`` writes to the file ``target``.

    The features stay in a copy, in ``folder`` if one is named; where no copy can be kept, only as long as the process
    runs.
    """
    stamp = _stamp(source, sources, options)

    def fill(place: Path) -> RankingDataset:
        data = copy(source, place / "features.npy", **options)
        if _stamp(source, sources, options) != stamp:
            raise check.error("the data changed while they were read", where=str(source), hint="open them again")
        return data

    def make(places: list[Path]) -> RankingDataset:
        try:
            try:
                return _write_one(places, stamp, fill)
            except OSError as failed:
                if folder is not None:
                    raise
                caches.warn_no_cache(f"no copy of the features of {source} can be kept ({failed.strerror or failed})")
            return _write_one(_places(source, stamp, [caches.scratch() / _place(source)]), stamp, fill)
        except OSError as failed:
            what = f"the features of {source} could not be copied to {folder or 'a temporary folder'}: {failed}"
            raise OSError(check.Message(what, hint="set folder=… to one with enough space")) from None

    folders = _near(source) if folder is None else [folder / _place(source)]
    return _open_or(make, _places(source, stamp, folders), stamp)


def _stamp(source: Path, sources: Sequence[Path], options: Json) -> Json:
    """Return what a copy depends on, as JSON has it, with the names of files relative to the source."""
    source = source.absolute()
    files = {}
    for path in map(Path.absolute, sources or [source]):
        name = path.relative_to(source.parent) if path.is_relative_to(source.parent) else path
        files[str(name)] = fingerprint(path) if path.exists() else None
    stamp = {"format": FORMAT, "version": __version__, "source": source.name, "files": files, "options": options}
    plain: Json = json.loads(json.dumps(stamp, default=_plain))
    return plain


def fingerprint(path: Path) -> Json:
    """Return size, time, and the checksum of a file."""
    return {"size": path.stat().st_size, "mtime_ns": path.stat().st_mtime_ns, "crc32": checksum(path)}


def checksum(path: Path) -> int:
    """Return the checksum of a file: of all of it, or of 16 MiB in blocks spread over a larger one to its end."""
    size, total = path.stat().st_size, 0
    count = -(-size // _BLOCK)
    starts = range(0, size, _BLOCK)
    spread = ((size - _BLOCK) * number // (_BLOCKS - 1) for number in range(_BLOCKS))
    with path.open("rb") as file:
        for start in starts if count <= _BLOCKS else spread:
            file.seek(start)
            total = zlib.crc32(file.read(_BLOCK), total)
    return total


def _plain(value: object) -> Any:
    if isinstance(value, os.PathLike):
        return str(Path(value).absolute())
    if isinstance(value, set | frozenset):
        return sorted(value)
    array = np.asarray(value)
    if array.dtype == object:
        raise TypeError(f"cannot tell one {type(value).__name__} from another")
    if not array.ndim:
        return array.item()
    digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    return {"dtype": array.dtype.str, "shape": array.shape, "sha256": digest}


def as_json(value: object) -> bytes:
    """Return plain data as JSON, always in the same form, for checksums."""
    return json.dumps(value, sort_keys=True).encode()


def _in_cache(source: Path) -> list[Path]:
    """Return the folder for copies of ``source`` in the library's cache; none for a user without a home."""
    cache = caches.folder()
    return [] if cache is None else [cache / _place(source)]


def _near(source: Path) -> list[Path]:
    """Return folders for a large copy: beside the source unless that is read-only, and in the library's cache."""
    parent = source.absolute().parent
    beside = parent / FOLDER
    writable = parent.stat().st_mode & 0o222 and os.access(parent, os.W_OK)
    folders = [beside] if writable or beside.is_dir() else []
    return _in_cache(source) + folders if os.environ.get("RANKWISE_CACHE") else folders + _in_cache(source)


def _place(source: Path) -> str:
    """Return a name for the folder of a source in a shared cache, where files of several folders may share a name."""
    return hashlib.sha256(os.fsencode(source.absolute().parent.resolve())).hexdigest()[:16]


def _places(source: Path, stamp: Json, folders: list[Path]) -> list[Path]:
    key = hashlib.sha256(as_json(stamp)).hexdigest()[:16]
    return [folder / f"{source.absolute().name[:_NAME]}-{key}" for folder in folders]


def _open_or(write: Callable[[list[Path]], RankingDataset], places: list[Path], stamp: Json) -> RankingDataset:
    """Open the first copy that exists, or write one; other processes that need the same wait."""

    def opened() -> RankingDataset | None:
        return next((data for place in places if (data := _open(place, stamp)) is not None), None)

    data = opened()
    if data is None:
        with caches.file_lock(*(place.with_name(f".{place.name}.lock") for place in places)):
            data = opened()
            if data is None:
                data = write(places)
    return data


def _open(place: Path, stamp: Json) -> RankingDataset | None:
    """Map a copy into memory; None where there is none, or it is damaged."""
    try:
        described = json.loads((place / _DESCRIPTION).read_text(encoding="utf-8"))
        content = described["content"]
        if zlib.crc32(as_json(content)) != described["crc32"] or content["stamp"] != stamp:
            return None
        arrays = {name: _load(place / f"{name}.npy", crc) for name, crc in content["arrays"].items()}
        for name in [column.name for column in columns.COLUMNS if column.kind == "text" and column.name in arrays]:
            content_of_texts, offsets = arrays[name].tobytes(), arrays.pop(f"{name}{_OFFSETS}").tolist()
            texts = [content_of_texts[first:last].decode() for first, last in itertools.pairwise(offsets)]
            arrays[name] = np.array(texts, np.object_)
        described = {"feature_names": content["feature_names"], "feature_origin": content.get("feature_origin")}
        lists = {int(column): listed for column, listed in content["categories"].items()}
        categorical = tuple(content["categorical"])
        data = RankingDataset(**columns.nested(arrays), **described, categorical=categorical, categories=lists)
    except _DAMAGE:
        return None
    with contextlib.suppress(OSError):  # another user's
        os.utime(place / _DESCRIPTION)
    return data


def _load(path: Path, crc: int) -> Column:
    """Read an array, or map one with a value for each document."""
    if checksum(path) != crc:
        raise ValueError(f"{path} is damaged")
    of_documents = ("features", *(column.name for column in columns.COLUMNS if column.per == "document"))
    array: Column = np.load(path, mmap_mode="r" if path.name.partition(".")[0] in of_documents else None)
    return array


def _write_one(places: list[Path], stamp: Json, fill: Callable[[Path], RankingDataset]) -> RankingDataset:
    """Write a copy to the first folder that can be written."""
    failed = OSError("there is no folder for it")
    for place in places:
        try:
            return _write(place, stamp, fill)
        except OSError as cannot:
            failed = cannot
    raise failed


def _write(place: Path, stamp: Json, fill: Callable[[Path], RankingDataset]) -> RankingDataset:
    """Write a copy whole or not at all, and open it; ``fill`` returns the data, and may write arrays itself."""
    temporary = files.part_in(place.parent)
    try:
        temporary.mkdir(parents=True)
        data = fill(temporary)
        checksums = {}
        for name, array in _stored(data).items():
            path = temporary / f"{name}.npy"
            if not path.exists():
                with path.open("wb") as file:
                    np.save(file, array, allow_pickle=False)
                    _fsync(file)
            checksums[name] = checksum(path)
        content = {
            "stamp": stamp,
            "arrays": checksums,
            "feature_names": data.feature_names,
            "categorical": data.categorical,
            "feature_origin": data.feature_origin,
            "categories": {str(column): listed for column, listed in data.categories.items()},
        }
        with (temporary / _DESCRIPTION).open("w", encoding="utf-8") as text:
            json.dump({"crc32": zlib.crc32(as_json(content)), "content": content}, text, indent=1)
            _fsync(text)
        _rename(temporary, place, stamp)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    _sweep(place, stamp)
    written = _open(place, stamp)
    if written is None:
        raise OSError(f"{place} is not as it was written")
    return written


def _stored(data: RankingDataset) -> dict[str, Column]:
    """Return the arrays of a copy by name: those of the data set, where texts are one row of bytes and offsets."""
    arrays: dict[str, Column] = {"features": data.features, "offsets": data.offsets}
    texts = {column.name for column in columns.COLUMNS if column.kind == "text"}
    for name, values in columns.arrays(data).items():
        if name in texts:
            content = [text.encode() for text in values.tolist()]
            arrays[name] = np.frombuffer(b"".join(content), np.uint8)
            arrays[f"{name}{_OFFSETS}"] = offsets_of([len(text) for text in content])
        else:
            arrays[name] = values
    return arrays


def _fsync(file: IO[Any]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _rename(temporary: Path, place: Path, stamp: Json) -> None:
    """Rename a copy into place, unless another process has just written the same."""
    try:
        temporary.rename(place)
    except OSError:
        if _open(place, stamp) is not None:
            return
        aside = files.part_in(place.parent)
        with contextlib.suppress(FileNotFoundError):
            place.rename(aside)  # it is damaged
        _remove(aside)
        temporary.rename(place)
    files.sync_folder(place.parent)


def _sweep(place: Path, stamp: Json) -> None:
    """Remove files not used for a day: copies of older states of the source, and leftovers of killed processes.

    Copies of other versions of rankwise and files of other programs stay.
    """
    files.clear(place.parent)
    with contextlib.suppress(OSError):
        for other in place.parent.iterdir():
            with contextlib.suppress(*_DAMAGE):
                if (_LOCK.fullmatch(other.name) and files.is_old(other)) or _stale(other, stamp):
                    _remove(other)


def _stale(other: Path, stamp: Json) -> bool:
    """Whether it is a copy of another state of the same source, last opened a day ago or earlier."""
    if not files.is_old(other / _DESCRIPTION):
        return False
    theirs: Json = json.loads((other / _DESCRIPTION).read_text(encoding="utf-8"))["content"]["stamp"]
    if theirs["source"] != stamp["source"] or theirs["files"] == stamp["files"]:
        return False
    both = theirs["files"].keys() & stamp["files"].keys()
    changed = any(theirs["files"][name] != stamp["files"][name] for name in both)
    return changed or bool(theirs["options"] == stamp["options"])


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
