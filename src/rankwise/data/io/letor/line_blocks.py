"""LETOR text as bytes: blocks of whole lines, and the sizes of queries in a file beside it."""

from collections.abc import Callable, Iterator
from io import BufferedIOBase
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.data.io.file_formats import BYTE_ORDER_MARK, read_bytes
from rankwise.data.io.letor.decimals import SLACK

Sizes = ArrayLike | str | Path
"""The number of documents of each query, or the file that holds them."""

_NEWLINE = 10
_MOST_DIGITS = 18  # as many as fit into int64 whatever they are


def line_blocks(
    source: BufferedIOBase, size: int, *, longest: int, too_long: Callable[[], Exception]
) -> Iterator[tuple[NDArray[np.uint8], int]]:
    """Read whole lines: (buffer, where the last line in it ends). The last line of the text may lack its end.

    The buffer holds ``size`` bytes of text, and grows only for a line that does not fit into it; a line of more than
    ``longest`` bytes is ``too_long``. Every byte is searched once, however small the pieces that the source returns.
    """
    space = bytearray(size + 1 + SLACK)
    rest = 0
    start = True
    while True:
        if 2 * rest > len(space) - 1 - SLACK:
            small, space = space, bytearray(2 * len(space))
            space[:rest] = small[:rest]
        text, view = np.frombuffer(space, np.uint8), memoryview(space)
        count = source.readinto(view[rest : -1 - SLACK])
        if not count:
            if rest:
                space[rest] = _NEWLINE
                yield text, rest + 1
            return
        filled = rest + count
        if start and filled >= len(BYTE_ORDER_MARK):
            start = False
            if space.startswith(BYTE_ORDER_MARK):
                view[: len(BYTE_ORDER_MARK)] = b" " * len(BYTE_ORDER_MARK)
        last = space.rfind(b"\n", rest, filled) + 1
        if last:
            start = False
            yield text, last
            view[: filled - last] = view[last:filled]
        rest = filled - last
        if rest > longest:
            raise too_long()


def files_of(path: Path, sizes: Sizes | None = None) -> list[Path]:
    """Return every file that data are read from, also possible ones that do not exist; the first is the text."""
    if sizes is None:
        return [path, *side_files(path)]
    return [path, Path(sizes)] if isinstance(sizes, str | Path) else [path]


def side_files(path: Path) -> list[Path]:
    """Return the files that may hold the sizes of queries; the first that exists is read."""
    if path.suffix in (".gz", ".zst"):
        plain = path.with_suffix("")
        names = [f"{plain.name}.query{path.suffix}", f"{plain.name}.query"]
    else:
        names = [f"{path.name}.query"]
    return [path.with_name(name) for name in names]


def read_sizes(path: Path) -> NDArray[np.int64]:
    """Read a file of whole numbers between blanks."""
    sizes = []
    for number, line in enumerate(read_bytes(path).split(b"\n"), 1):
        for word in line.split():
            if not word.isdigit() or len(word) > _MOST_DIGITS:
                got, where = repr(word[:60].decode(errors="replace")), f"{path}, line {number}"
                hint = "write the number of documents of each query"
                raise check.error("a file of sizes must hold whole numbers", got=got, where=where, hint=hint)
            sizes.append(int(word))
    return np.array(sizes, np.int64)
