"""Data files: their formats by name, and compression by gzip or Zstandard, which their first bytes show."""

import contextlib
import gzip
import io
import itertools
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from rankwise import check
from rankwise.base.arrays import Json
from rankwise.base.files import replacing

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


def is_parquet(path: Path) -> bool:
    """Whether a name is that of a Parquet file."""
    return TABLES.get(path.suffix.lower()) == "parquet"


@contextlib.contextmanager
def open_bytes(path: str | Path) -> Iterator[tuple[io.BufferedIOBase, IO[bytes]]]:
    """Open a file that may be gzip or Zstandard, by its first bytes: (plain bytes, the file itself).

    A pipe will do, such as the shell's ``<(zcat run.gz)``, and ``"-"`` is standard input. The position in
    the file itself shows the progress, unless it is a pipe.
    """
    is_input = str(path) == STANDARD_INPUT
    opened: Any = contextlib.nullcontext(sys.stdin.buffer) if is_input else check.readable(path, pipe=True).open("rb")
    with opened as file:
        magic = file.read(8)
        for beginning, (what, hint) in _NO_TEXT.items():
            if magic.startswith(beginning):
                raise check.error("cannot read this kind of file", got=what, where=shown(path), hint=hint)
        raw = file
        if file.seekable():
            file.seek(-len(magic), io.SEEK_CUR)
        else:
            raw = io.BufferedReader(_Pieces(itertools.chain([magic], iter(lambda: file.read1(1 << 16), b""))))
        plain: Any = raw
        failures: tuple[type[Exception], ...] = ()
        if magic.startswith(_GZIP):
            plain, failures = gzip.GzipFile(fileobj=raw, mode="rb"), (EOFError, gzip.BadGzipFile, zlib.error)
        elif magic.startswith(_ZSTANDARD):
            zstd = zstandard()
            plain, failures = io.BufferedReader(zstd.ZstdFile(raw), 1 << 17), (EOFError, zstd.ZstdError)
        try:
            yield plain, raw
        except failures as broken:
            what, where = "cannot unpack a compressed file", shown(path)
            raise check.error(what, got=str(broken), where=where, hint="get the file again") from None


def shown(path: str | Path) -> str:
    """Return the name of a path in messages.

    >>> shown("-"), shown("run.gz")
    ('standard input', 'run.gz')
    """
    return "standard input" if str(path) == STANDARD_INPUT else str(path)


def read_bytes(path: str | Path) -> bytes:
    """Return the whole content of a file, unpacked; a pipe will do."""
    with open_bytes(path) as (plain, _):
        return plain.read()


def read_lines(path: str | Path) -> Iterator[tuple[int, bytes]]:
    """Iterate over number and text of each line that is not blank; a byte order mark is left out."""
    with open_bytes(path) as (plain, _):
        for number, line in enumerate(plain, 1):
            if line.strip():
                yield number, (line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line).removesuffix(b"\n")


def without_repeats(pairs: list[tuple[str, Any]]) -> Json:
    """Return an object whose names are all different: JSON would silently keep the last of two."""
    record = dict(pairs)
    if len(record) < len(pairs):
        check.require_unique_names([name for name, _ in pairs])
    return record


class _Pieces(io.RawIOBase):
    """A file that consists of pieces, each of which is read when it is needed."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self.pieces, self.rest = pieces, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, space: Any) -> int:
        """Fill ``space`` from its beginning, and return the number of bytes; 0 at the end."""
        while not self.rest:
            piece = next(self.pieces, None)
            if piece is None:
                return 0
            self.rest = memoryview(piece)
        count = min(len(space), len(self.rest))
        space[:count], self.rest = self.rest[:count], self.rest[count:]
        return count


def zstandard() -> Any:
    """Return the module of Zstandard, which Python has since 3.14."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


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
            zstd = zstandard()
            # The checksum tells damage from data; gzip always has one.
            options = {zstd.CompressionParameter.compression_level: 3, zstd.CompressionParameter.checksum_flag: 1}
            with zstd.ZstdFile(raw, "wb", options=options) as packed:
                yield packed
        else:
            yield raw
