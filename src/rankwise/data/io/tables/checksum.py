"""A checksum of the whole file inside each Parquet file of rankwise, so that damage is noticed before it is read.

Readers of Parquet read most flipped bits as data, and some flipped bits end the process. The checksum is a CRC-32 in
eight hexadecimal digits in the metadata of the file, computed with zeros in their place, so that every reader of
Parquet can still read the file.
"""

import zlib
from pathlib import Path
from typing import BinaryIO

from rankwise import check

METADATA = {"rankwise.checksum": "rankwise-crc32=00000000"}
"""Metadata of a file that :func:`seal` will seal."""

_KEY, _MARK = b"rankwise.checksum", b"rankwise-crc32="
_DIGITS = 8
_BLOCK = 2**24
_LEAST_METADATA = 2**16  # bytes of the file's end that are searched whatever length the metadata claim


def seal(path: Path) -> None:
    """Write the checksum into a file that was written with :data:`METADATA`."""
    with path.open("r+b") as file:
        at = _place(file, _MARK)
        if at is None:
            raise check.error("a Parquet file without a place for a checksum cannot be sealed", where=str(path))
        digits = _checksum(file, at)
        file.seek(at)
        file.write(digits)


def verify(path: Path, *, hint: str) -> None:
    """Raise if a file differs from its checksum; a file without one passes."""
    with path.open("rb") as file:
        at = _place(file, _MARK)
        if at is None:
            intact = _place(file, _KEY) is None
        else:
            file.seek(at)
            intact = file.read(_DIGITS) == _checksum(file, at)
    if not intact:
        raise check.error("the file is damaged", got="another checksum than its own", where=str(path), hint=hint)


def _place(file: BinaryIO, mark: bytes) -> int | None:
    """Return where a mark ends in the metadata, whose length is before the last four bytes; None without a mark."""
    size = file.seek(0, 2)
    file.seek(max(size - 8, 0))
    length = int.from_bytes(file.read(4), "little")
    start = file.seek(max(size - 8 - max(length, _LEAST_METADATA), 0))
    position = file.read().rfind(mark)
    return None if position < 0 else start + position + len(mark)


def _checksum(file: BinaryIO, at: int) -> bytes:
    """Return the checksum of a file with zeros in place of the checksum."""
    file.seek(0)
    total, place = 0, 0
    while block := file.read(_BLOCK):
        first, last = max(at - place, 0), at + _DIGITS - place
        if first < len(block) and last > 0:
            last = min(last, len(block))
            block = block[:first] + b"0" * (last - first) + block[last:]
        total, place = zlib.crc32(block, total), place + len(block)
    return f"{total:08x}".encode()
