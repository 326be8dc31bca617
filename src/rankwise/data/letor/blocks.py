"""Text in blocks of whole lines, through a buffer that is used again and again."""

from collections.abc import Callable, Iterator
from typing import IO

import numpy as np
from numpy.typing import NDArray

from rankwise.data.letor.decimals import SLACK

_NEWLINE = 10
_MARK = b"\xef\xbb\xbf"  # what Windows calls the mark of UTF-8


def line_blocks(
    source: IO[bytes], size: int, *, longest: int, too_long: Callable[[], Exception]
) -> Iterator[tuple[NDArray[np.uint8], int]]:
    """Read whole lines: (buffer, where the last line in it ends). The last line of the text may lack its end.

    The buffer takes ``size`` bytes of text, and grows only for a line that does not fit into it; a line of more than
    ``longest`` bytes is ``too_long``. Every byte is looked at once, however small the pieces that the source gives.
    """
    space = np.empty(size + 1 + SLACK, np.uint8)
    kept = 0
    start = True
    while True:
        if 2 * kept > space.size - 1 - SLACK:
            space = np.concatenate((space, np.empty_like(space)))
        view = space.data
        count = source.readinto(view[kept : -1 - SLACK])  # type: ignore[attr-defined]
        if not count:
            if kept:
                space[kept] = _NEWLINE
                yield space, kept + 1
            return
        filled = kept + count
        if start and filled >= len(_MARK):
            start = False
            if bytes(view[: len(_MARK)]) == _MARK:
                view[: len(_MARK)] = b" " * len(_MARK)
        last = _after_last_newline(view, kept, filled)
        if last:
            start = False
            yield space, last
            space[: filled - last] = space[last:filled].copy()
        kept = filled - last
        if kept > longest:
            raise too_long()


def _after_last_newline(view: memoryview, begin: int, end: int) -> int:
    """Where a line ends last in ``view[begin:end]``; 0 if none does."""
    while end > begin:
        first = max(begin, end - 65536)
        found = bytes(view[first:end]).rfind(b"\n")
        if found >= 0:
            return first + found + 1
        end = first
    return 0
