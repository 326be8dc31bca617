"""Data files: their formats by name, and compression by gzip or Zstandard, which their first bytes show."""

import contextlib
import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from rankwise import check
from rankwise.files import replacing

FORMATS = ("letor", "csv", "parquet")
TEXT = (".txt", ".letor", ".svm", ".svmlight", ".libsvm", ".dat", ".train", ".vali", ".test")
TABLES = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".pq": "parquet"}
_COMPRESSED = (".gz", ".zst")
STANDARD_INPUT = "-"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""How some spreadsheets begin a file."""

_GZIP, _ZSTANDARD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_NO_TEXT = {
    b"PK\x03\x04": ("a zip archive", "unpack it first"),
    b"7z\xbc\xaf\x27\x1c": ("a 7z archive", "unpack it first"),
    b"Rar!\x1a\x07": ("a RAR archive", "unpack it first"),
    b"\xfd7zXZ\x00": ("an xz file", "unpack it first, or compress it with gzip or zstd instead"),
    b"PAR1\x15": ("a Parquet file", "end its name in .parquet, or read it with rw.read_parquet"),
}


def ending(path: Path) -> str:
    """Return the ending of a name, before one of compression.

    >>> ending(Path("train.csv.gz")), ending(Path("train.TXT"))
    ('.csv', '.txt')
    """
    plain = path.with_suffix("") if path.suffix.lower() in _COMPRESSED else path
    return plain.suffix.lower()


def by_name(path: Path) -> str:
    """Return the format by the name: LETOR text, unless the ending is that of a table.

    >>> by_name(Path("train.csv.gz")), by_name(Path("train.parquet")), by_name(Path("train.txt"))
    ('csv', 'parquet', 'letor')
    """
    return TABLES.get(ending(path), "letor")


def is_known(path: Path) -> bool:
    """Whether a name has the ending of a format."""
    return ending(path) in TEXT or ending(path) in TABLES


@contextlib.contextmanager
def open_bytes(path: str | Path) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Open a file that may be gzip or Zstandard, by its first bytes: (plain bytes, the file itself).

    A pipe will do, such as the shell's ``<(zcat run.gz)``, and ``"-"`` is standard input. The position in
    the file itself shows the progress, unless it is a pipe.
    """
    with _opened(path) as file:
        name = shown(path)
        magic = file.read(8)
        raw = _from_beginning(magic, file)
        if magic.startswith(_GZIP):
            try:
                with gzip.GzipFile(fileobj=raw, mode="rb") as plain:
                    yield plain, raw  # type: ignore[misc]
            except (EOFError, gzip.BadGzipFile, zlib.error) as broken:
                raise _cannot_unpack(name, broken) from None
        elif magic.startswith(_ZSTANDARD):
            import zstandard

            try:
                yield _Zstandard(raw), raw  # type: ignore[misc]
            except (EOFError, zstandard.ZstdError) as broken:
                raise _cannot_unpack(name, broken) from None
        else:
            for beginning, (what, hint) in _NO_TEXT.items():
                if magic.startswith(beginning):
                    raise check.error("cannot read this kind of file", got=what, where=name, hint=hint)
            yield raw, raw


def shown(path: str | Path) -> str:
    """Return the name of a path in messages.

    >>> shown("-"), shown("run.gz")
    ('standard input', 'run.gz')
    """
    return "standard input" if str(path) == STANDARD_INPUT else str(path)


@contextlib.contextmanager
def _opened(path: str | Path) -> Iterator[IO[bytes]]:
    if str(path) == STANDARD_INPUT:
        yield sys.stdin.buffer
    else:
        with check.readable(path, pipe=True).open("rb") as file:
            yield file


def read_bytes(path: str | Path) -> bytes:
    """Return the whole content of a file, unpacked; a pipe will do."""
    with open_bytes(path) as (plain, _):
        return plain.read()


def read_lines(path: str | Path) -> Iterator[tuple[int, bytes]]:
    """Iterate over number and text of each line that is not blank; a byte order mark is left out."""
    number, rest, space = 1, b"", bytearray(1 << 20)
    with open_bytes(path) as (plain, _):
        while count := plain.readinto(space):  # type: ignore[attr-defined]  # of binary files, which these are
            *lines, rest = (rest + space[:count]).split(b"\n")
            for line in lines:
                if line.strip():
                    yield number, line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
                number += 1
    if rest.strip():
        yield number, rest.removeprefix(BYTE_ORDER_MARK) if number == 1 else rest


def _from_beginning(head: bytes, file: IO[bytes]) -> IO[bytes]:
    """Return a file that begins with ``head``, which has been read from it already."""
    if file.seekable():
        file.seek(-len(head), io.SEEK_CUR)
        return file
    return io.BufferedReader(_Rejoined(head, file))


class _Rejoined(io.RawIOBase):
    """A pipe whose first bytes have been read, to recognise its format, and are read again."""

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        self.head, self.rest = head, rest

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, space: Any) -> int:
        """Fill ``space`` from its beginning, and return the number of bytes; 0 at the end."""
        if not self.head:
            return self.rest.readinto1(space)  # type: ignore[attr-defined, no-any-return]
        count = min(len(space), len(self.head))
        space[:count], self.head = self.head[:count], self.head[count:]
        return count


def _cannot_unpack(name: str, broken: Exception) -> ValueError:
    return check.error("cannot unpack a compressed file", got=str(broken), where=name, hint="get the file again")


class _Zstandard:
    """Unpacks a stream of Zstandard frames; an incomplete last one is an error.

    The reader of the library takes a truncated file for a whole one. The number of bytes unpacked at once depends on
    the ratio of compression, so that the pieces stay small.
    """

    def __init__(self, raw: IO[bytes]) -> None:
        self.raw = raw
        self.unpacker: Any = None
        self.packed, self.plain = b"", memoryview(b"")
        self.step = 512

    def read(self) -> bytes:
        """Return the remaining bytes."""
        pieces, space = [], bytearray(1 << 20)
        while count := self.readinto(space):
            pieces.append(bytes(space[:count]))
        return b"".join(pieces)

    def readinto(self, space: bytearray | memoryview) -> int:
        """Fill ``space`` from its beginning, and return the number of bytes; 0 at the end."""
        import zstandard

        while not self.plain:
            self.packed = self.packed or self.raw.read(self.step)
            if not self.packed:
                if self.unpacker is not None:
                    raise EOFError("the file ends in the middle of its data")
                return 0
            self.unpacker = self.unpacker or zstandard.ZstdDecompressor().decompressobj()
            self.plain = memoryview(self.unpacker.decompress(self.packed))
            self.packed = self.unpacker.unused_data if self.unpacker.eof else b""
            if self.unpacker.eof:
                self.unpacker = None
            if len(self.plain) > 1 << 20:
                self.step = max(64, self.step // 2)
            elif len(self.plain) < 1 << 18:
                self.step = min(1 << 16, self.step * 2)
        count = min(len(space), len(self.plain))
        space[:count] = self.plain[:count]
        self.plain = self.plain[count:]
        return count


@contextlib.contextmanager
def create_bytes(path: str | Path, *, force: bool = False) -> Iterator[IO[bytes]]:
    """Open a file for writing, compressed if its name ends in ``.gz`` or ``.zst``; it appears when it is complete."""
    with replacing(path, force=force) as new, new.open("xb") as raw:
        suffix = Path(path).suffix.lower()
        if suffix == ".gz":
            # No name and no time inside: the same data give the same file.
            with gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) as packed:
                yield packed  # type: ignore[misc]
        elif suffix == ".zst":
            import zstandard

            # The checksum tells damage from data; gzip always has one.
            with zstandard.ZstdCompressor(level=3, write_checksum=True).stream_writer(raw, closefd=False) as packed:
                yield packed
        else:
            yield raw
