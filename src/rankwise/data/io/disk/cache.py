"""Binary copies of data that are slow to parse, so that the next load is instant and memory-mapped.

Copies of sets of the catalog lie in the library's cache folder (:mod:`rankwise.base.caches`). Those of
:func:`open_data`, as large as the data, lie in ``.rankwise-cache`` beside the source, or in the cache folder where that
is read-only or where
``RANKWISE_CACHE`` names it. A copy is named after everything that it depends on: size, time and content of every file
that is read, the options of reading, and the version of rankwise. A changed source has another copy, so that nothing
stale is read.
"""

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rankwise import check
from rankwise._version import __version__
from rankwise.base import caches
from rankwise.base.arrays import Json
from rankwise.data.dataset import RankingDataset
from rankwise.data.io.disk.binary_copy import as_json, fingerprints, open_copy, plain, write_copy

FORMAT = 5
FOLDER = ".rankwise-cache"
_NAME = 48  # letters of the source's name in that of a copy, which file systems limit


def cached(
    source: Path, read: Callable[..., RankingDataset], files: Sequence[Path] = (), **options: Any
) -> RankingDataset:
    """Return ``read(source, **options)``, from a copy where there is one.

    ``files`` are all files that are read, if they are not the source alone.
    """
    stamp = _stamp(source, files, options)

    def make(places: list[Path]) -> RankingDataset:
        data = read(source, **options)
        if _stamp(source, files, options) == stamp:  # else it was being written while we read
            try:
                _write_one(places, stamp, lambda _: data)
            except OSError as failed:
                caches.warn_no_cache(f"no copy of {source} can be kept ({failed.strerror or failed})")
        return data

    return _open_or(make, _places(source, stamp, _in_cache(source)), stamp)


def mapped(
    source: Path,
    copy: Callable[..., RankingDataset],
    files: Sequence[Path] = (),
    folder: Path | None = None,
    **options: Any,
) -> RankingDataset:
    """Return the data set whose features ``copy(source, target, **options)`` writes to the file ``target``.

    The features stay in a copy, in ``folder`` if one is named; where no copy can be kept, only as long as the process
    runs.
    """
    stamp = _stamp(source, files, options)

    def fill(place: Path) -> RankingDataset:
        data = copy(source, place / "features.npy", **options)
        if _stamp(source, files, options) != stamp:
            raise check.error("the data changed while they were read", where=str(source), hint="open them again")
        return data

    def make(places: list[Path]) -> RankingDataset:
        try:
            return _write_one(places, stamp, fill)
        except OSError as failed:
            if folder is not None:
                raise _no_room(source, folder, failed) from None
            caches.warn_no_cache(f"no copy of the features of {source} can be kept ({failed.strerror or failed})")
        try:
            return _write_one(_places(source, stamp, [caches.scratch() / _place(source)]), stamp, fill)
        except OSError as failed:
            raise _no_room(source, "a temporary folder", failed) from None

    folders = _near(source) if folder is None else [folder / _place(source)]
    return _open_or(make, _places(source, stamp, folders), stamp)


def _stamp(source: Path, files: Sequence[Path], options: Json) -> Json:
    source = source.absolute()
    return {
        "format": FORMAT,
        "version": __version__,
        "source": source.name,
        "files": fingerprints(files or [source], source.parent),
        "options": plain(options),
    }


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
        return next((data for place in places if (data := open_copy(place, stamp)) is not None), None)

    data = opened()
    if data is None:
        with caches.file_lock(*(place.with_name(f".{place.name}.lock") for place in places)):
            data = opened()
            if data is None:
                data = write(places)
    return data


def _write_one(places: list[Path], stamp: Json, fill: Callable[[Path], RankingDataset]) -> RankingDataset:
    """Write a copy to the first folder that can be written."""
    failed = OSError("there is no folder for it")
    for place in places:
        try:
            return write_copy(place, stamp, fill)
        except OSError as cannot:
            failed = cannot
    raise failed


def _no_room(source: Path, folder: object, failed: OSError) -> OSError:
    what = f"the features of {source} could not be copied to {folder}: {failed}"
    return OSError(check.Message(what, hint="set folder=… to one with enough space"))
