"""A binary copy of a data file that is slow to parse, so that the next load is instant and memory-mapped.

Plain ``.npy`` files and one JSON lie in ``.rankwise-cache`` beside the source, or, where that folder is read-only, in
``$XDG_CACHE_HOME/rankwise`` (``~/.cache/rankwise``). An entry is named after everything that it depends on: the
source's size, time and content, the options it was read with and the version that read it. A changed source means
another entry, so that nothing stale is read. An entry is written elsewhere and then renamed, so that none is ever half
there; one that is damaged all the same is built again. Nothing is ever unpickled.
"""

import hashlib
import json
import os
import secrets
import shutil
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise._version import __version__
from rankwise.data.dataset import PER_DOCUMENT, PER_QUERY, RankingDataset

FORMAT = 2
FOLDER = ".rankwise-cache"
_ARRAYS = ("offsets", *PER_DOCUMENT, *PER_QUERY)
_BLOCK = 1 << 16
_BLOCKS = 256
_DAY = 86_400.0


def cached(source: Path, read: Callable[..., RankingDataset], **options: Any) -> RankingDataset:
    """Give ``read(source, **options)``, from the cache where that is possible; ``options`` are plain JSON values."""
    stamp, entries = _entries(source, options)
    for entry in entries:
        data = _open(entry)
        if data is not None:
            return data
    data = read(source, **options)
    if fingerprint(source) == stamp["source"]:  # else it was being written while we read
        for entry in entries:
            if _stored(entry, stamp, lambda _: data):
                break
    return data


def mapped(
    source: Path, spill: Callable[..., RankingDataset], folder: Path | None = None, **options: Any
) -> RankingDataset:
    """Give the data set whose features ``spill(source, target, **options)`` writes to the file ``target``.

    The features stay in an entry of the cache, which is kept in ``folder`` if one is named.
    """
    stamp, entries = _entries(source, options)
    if folder is not None:
        entries = [folder / entries[0].name]
    for entry in entries:
        data = _open(entry)
        if data is not None:
            return data
    failed: OSError | None = None
    for entry in entries:
        try:
            _store(entry, stamp, lambda place: spill(source, place / "features.npy", **options))
        except OSError as cannot:
            failed = failed or cannot
            continue
        data = _open(entry)
        if data is not None:
            return data
    raise OSError(
        f"the features of {source} could not be copied to {entries[0].parent}: {failed}. "
        "Cure: name a folder with enough room, folder=…."
    )


def _entries(source: Path, options: dict[str, Any]) -> tuple[dict[str, Any], list[Path]]:
    """What an entry of the cache depends on, and where it may lie."""
    stamp = {"format": FORMAT, "version": __version__, "options": options, "source": fingerprint(source)}
    key = hashlib.sha256(json.dumps(stamp, sort_keys=True).encode()).hexdigest()[:16]
    return stamp, [folder / f"{source.name}-{key}" for folder in _folders(source)]


def fingerprint(source: Path) -> dict[str, Any]:
    """Tell one state of a file from another: name, size, time, and a checksum over up to 16 MiB of it.

    That of a folder is made of its files'.
    """
    if source.is_dir():
        return {
            "name": source.name,
            "files": [fingerprint(path) for path in sorted(source.iterdir()) if path.is_file()],
        }
    facts = source.stat()
    with source.open("rb") as file:
        checksum = 0
        for start in _starts(facts.st_size):
            file.seek(start)
            checksum = zlib.crc32(file.read(_BLOCK), checksum)
    return {"name": source.name, "size": facts.st_size, "mtime_ns": facts.st_mtime_ns, "crc32": checksum}


def _starts(size: int) -> list[int]:
    """Where to look: every block of a small file, 256 blocks spread over a large one, its end among them."""
    count = -(-size // _BLOCK)
    if count <= _BLOCKS:
        return [number * _BLOCK for number in range(count)]
    return [(size - _BLOCK) * number // (_BLOCKS - 1) for number in range(_BLOCKS)]


def _checksum(array: NDArray[Any]) -> int:
    if not array.size:
        return 0
    data = memoryview(array.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
    checksum = 0
    for start in _starts(data.nbytes):
        checksum = zlib.crc32(data[start : start + _BLOCK], checksum)
    return checksum


def _folders(source: Path) -> list[Path]:
    """Where an entry may lie: beside the source unless that folder is marked read-only, then the user's own cache."""
    beside = source.parent / FOLDER
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rankwise"
    place = hashlib.sha256(os.fsencode(source.parent.resolve())).hexdigest()[:16]
    writable = source.parent.stat().st_mode & 0o222 and os.access(source.parent, os.W_OK)
    return [beside, home / place] if writable or beside.is_dir() else [home / place]


def _open(entry: Path) -> RankingDataset | None:
    """Map an entry into memory, or give None where there is none or it is not as it was written."""
    try:
        described = json.loads((entry / "data.json").read_text(encoding="utf-8"))
        columns: dict[str, Any] = {}
        for name, facts in described["arrays"].items():
            large = name in PER_DOCUMENT and 0 not in facts["shape"]
            array = np.load(entry / f"{name}.npy", mmap_mode="r" if large else None, allow_pickle=False)
            if _facts(array) != facts:
                return None
            columns[name] = array
        return RankingDataset(
            **columns, feature_names=described["feature_names"], categorical=tuple(described["categorical"])
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError):
        return None


def _facts(array: NDArray[Any]) -> dict[str, Any]:
    return {"dtype": array.dtype.str, "shape": list(array.shape), "crc32": _checksum(array)}


def _stored(entry: Path, stamp: dict[str, Any], fill: Callable[[Path], RankingDataset]) -> bool:
    """Write an entry, if that is possible; say whether it is there."""
    try:
        _store(entry, stamp, fill)
    except OSError:
        return False
    return True


def _store(entry: Path, stamp: dict[str, Any], fill: Callable[[Path], RankingDataset]) -> None:
    """Write an entry whole or not at all; ``fill`` may write arrays to its folder itself, and gives the data."""
    temporary = entry.parent / f".writing-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        temporary.mkdir(parents=True)
        data = fill(temporary)
        arrays = {name: getattr(data, name) for name in _ARRAYS if getattr(data, name) is not None}
        for name, array in arrays.items():
            if (temporary / f"{name}.npy").exists():
                continue
            with (temporary / f"{name}.npy").open("wb") as file:
                np.save(file, array, allow_pickle=False)
                _settle(file)
        described = {
            "stamp": stamp,
            "arrays": {name: _facts(array) for name, array in arrays.items()},
            "feature_names": data.feature_names,
            "categorical": data.categorical,
        }
        with (temporary / "data.json").open("w", encoding="utf-8") as text:
            json.dump(described, text, indent=1)
            _settle(text)
        if entry.exists():  # damaged, or just written by another process, in which case ours is as good
            shutil.rmtree(entry)
        temporary.rename(entry)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    _sweep(entry, stamp)


def _settle(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sweep(entry: Path, stamp: dict[str, Any]) -> None:
    """Remove copies of earlier states of the same source, and what a killed process left behind."""
    for other in entry.parent.iterdir():
        try:
            if other.name.startswith(".writing-"):
                old = time.time() - other.stat().st_mtime > _DAY
            else:
                source = json.loads((other / "data.json").read_text(encoding="utf-8"))["stamp"]["source"]
                old = source["name"] == stamp["source"]["name"] and source != stamp["source"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if old:
            shutil.rmtree(other, ignore_errors=True)
