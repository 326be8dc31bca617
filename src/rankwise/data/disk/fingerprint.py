"""What a binary copy of data depends on: every file that the data are made of, and how they were read."""

import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rankwise.arrays import Column
from rankwise.plain import Json

_BLOCK = 1 << 16
_BLOCKS = 256


def fingerprints(files: Iterable[Path], folder: Path) -> Json:
    """Tell one state of files from another; names are relative to ``folder``. A file that is not there has None."""
    folder = folder.absolute()
    found = {}
    for path in map(Path.absolute, files):
        name = path.relative_to(folder) if path.is_relative_to(folder) else path
        found[str(name)] = fingerprint(path) if path.exists() else None
    return found


def fingerprint(path: Path) -> Json:
    """Tell one state of a file from another: size, time, and a checksum over up to 16 MiB of it."""
    facts = path.stat()
    with path.open("rb") as file:
        checksum = 0
        for start in _starts(facts.st_size):
            file.seek(start)
            checksum = zlib.crc32(file.read(_BLOCK), checksum)
    return {"size": facts.st_size, "mtime_ns": facts.st_mtime_ns, "crc32": checksum}


def plain(options: Json) -> Json:
    """Write options as JSON has them, so that the same ones are always written alike."""
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
    """Add up an array, or a sample of 16 MiB if it is larger."""
    if not array.size:
        return 0
    data = memoryview(array.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
    found = 0
    for start in _starts(data.nbytes):
        found = zlib.crc32(data[start : start + _BLOCK], found)
    return found


def _starts(size: int) -> Iterator[int]:
    """Where to look: every block of a small file, 256 blocks spread over a large one, its end among them."""
    count = -(-size // _BLOCK)
    if count <= _BLOCKS:
        yield from (number * _BLOCK for number in range(count))
    else:
        yield from ((size - _BLOCK) * number // (_BLOCKS - 1) for number in range(_BLOCKS))
