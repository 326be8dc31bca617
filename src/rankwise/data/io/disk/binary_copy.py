"""One binary copy of a data set: a folder of plain ``.npy`` files, and a JSON file with their origin and checksums.

A copy is written elsewhere and then renamed, so that it is never incomplete. One that differs from its checksums is
not opened. Nothing is ever unpickled.
"""

import contextlib
import hashlib
import io
import itertools
import json
import math
import os
import re
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from rankwise.base import files
from rankwise.base.arrays import Column, Json, offsets_of
from rankwise.data import columns
from rankwise.data.dataset import RankingDataset

_BLOCK = 1 << 16
_BLOCKS = 256
_DESCRIPTION = "data.json"
_OFFSETS = "_offsets"  # after the name of a column of texts
_DAMAGE = (OSError, ValueError, KeyError, TypeError, RecursionError)
_LOCK = re.compile(r"\..+-[0-9a-f]{16}\.lock")


def open_copy(place: Path, stamp: Json) -> RankingDataset | None:
    """Map a copy into memory; None where there is none, or it is damaged."""
    try:
        described = json.loads((place / _DESCRIPTION).read_text(encoding="utf-8"))
        content = described["content"]
        if zlib.crc32(as_json(content)) != described["crc32"] or content["stamp"] != stamp:
            return None
        arrays = {name: _load(place, name, facts) for name, facts in content["arrays"].items()}
        for name in [column.name for column in columns.COLUMNS if column.kind == "text" and column.name in arrays]:
            content_of_texts, offsets = arrays[name].tobytes(), arrays.pop(f"{name}{_OFFSETS}").tolist()
            texts = [content_of_texts[first:last].decode() for first, last in itertools.pairwise(offsets)]
            arrays[name] = np.array(texts, np.object_)
        names, categorical = content["feature_names"], tuple(content["categorical"])
        lists = {int(column): listed for column, listed in content["categories"].items()}
        data = RankingDataset(**columns.nested(arrays), feature_names=names, categorical=categorical, categories=lists)
    except _DAMAGE:
        return None
    with contextlib.suppress(OSError):  # another user's
        os.utime(place / _DESCRIPTION)
    return data


def _load(place: Path, name: str, facts: Json) -> Column:
    """Map or read an array; its file's header must be the one that was written, and is not interpreted."""
    path, dtype, shape = place / f"{name}.npy", np.dtype(facts["dtype"]), tuple(facts["shape"])
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": facts["dtype"], "fortran_order": False, "shape": shape})
    start = head.tell()
    with path.open("rb") as file:
        begins_well = file.read(start) == head.getvalue()
    if not begins_well or path.stat().st_size != start + dtype.itemsize * math.prod(shape):
        raise ValueError(f"{path} is damaged")
    array: Column
    of_documents = ("features", *(column.name for column in columns.COLUMNS if column.per == "document"))
    if name.partition(".")[0] in of_documents and 0 not in shape:
        array = np.memmap(path, dtype, "r", start, shape)
    else:
        array = np.fromfile(path, dtype, offset=start).reshape(shape)
    if checksum(array) != facts["crc32"]:
        raise ValueError(f"{path} is damaged")
    return array


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


def write_copy(place: Path, stamp: Json, fill: Callable[[Path], RankingDataset]) -> RankingDataset:
    """Write a copy whole or not at all, and open it; ``fill`` returns the data, and may write arrays itself."""
    temporary = files.part_in(place.parent)
    try:
        temporary.mkdir(parents=True)
        data = fill(temporary)
        facts = {}
        for name, array in _stored(data).items():
            path = temporary / f"{name}.npy"
            if not path.exists():
                with path.open("wb") as file:
                    np.save(file, array, allow_pickle=False)
                    _fsync(file)
            facts[name] = {"dtype": array.dtype.str, "shape": array.shape, "crc32": checksum(array)}
        content = {
            "stamp": stamp,
            "arrays": facts,
            "feature_names": data.feature_names,
            "categorical": data.categorical,
            "categories": {str(column): listed for column, listed in data.categories.items()},
        }
        with (temporary / _DESCRIPTION).open("w", encoding="utf-8") as text:
            json.dump({"crc32": zlib.crc32(as_json(content)), "content": content}, text, indent=1)
            _fsync(text)
        _rename(temporary, place, stamp)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    _sweep(place, stamp)
    written = open_copy(place, stamp)
    if written is None:
        raise OSError(f"{place} is not as it was written")
    return written


def as_json(value: object) -> bytes:
    """Return plain data as JSON, always in the same form, for checksums."""
    return json.dumps(value, sort_keys=True).encode()


def _fsync(file: IO[Any]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _rename(temporary: Path, place: Path, stamp: Json) -> None:
    """Rename a copy into place, unless another process has just written the same."""
    try:
        temporary.rename(place)
    except OSError:
        if open_copy(place, stamp) is not None:
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


def fingerprints(files: Iterable[Path], folder: Path) -> Json:
    """Return a fingerprint of each file by its name relative to ``folder``; None for a file that does not exist."""
    folder = folder.absolute()
    by_name = {}
    for path in map(Path.absolute, files):
        name = path.relative_to(folder) if path.is_relative_to(folder) else path
        by_name[str(name)] = fingerprint(path) if path.exists() else None
    return by_name


def fingerprint(path: Path) -> Json:
    """Return size, time, and a checksum over up to 16 MiB of a file."""
    facts = path.stat()
    with path.open("rb") as file:
        checksum = 0
        for start in _starts(facts.st_size):
            file.seek(start)
            checksum = zlib.crc32(file.read(_BLOCK), checksum)
    return {"size": facts.st_size, "mtime_ns": facts.st_mtime_ns, "crc32": checksum}


def plain(options: Json) -> Json:
    """Return options as JSON has them, always in the same form."""
    written: Json = json.loads(json.dumps(options, default=_plain))
    return written


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


def checksum(array: Column) -> int:
    """Return the checksum of an array, or of a sample of 16 MiB if it is larger."""
    if not array.size:
        return 0
    data = memoryview(array.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
    total = 0
    for start in _starts(data.nbytes):
        total = zlib.crc32(data[start : start + _BLOCK], total)
    return total


def _starts(size: int) -> Iterator[int]:
    """Return where sampled blocks start: every block of a small file, 256 spread over a large one, the end included."""
    count = -(-size // _BLOCK)
    if count <= _BLOCKS:
        yield from (number * _BLOCK for number in range(count))
    else:
        yield from ((size - _BLOCK) * number // (_BLOCKS - 1) for number in range(_BLOCKS))
