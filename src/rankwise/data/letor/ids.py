"""Ids found in text: integers if all of them are, else strings, in the array that the data set keeps."""

import numpy as np
from numpy.typing import NDArray

from rankwise.arrays import Column
from rankwise.compiling import kernel
from rankwise.data.letor.decimals import is_digit
from rankwise.data.letor.growing import Growing


@kernel
def _whole_numbers(text, spans, out):  # type: ignore[no-untyped-def]
    """Read spans of text as whole numbers; False as soon as one is not written the way Python writes such a number."""
    for i in range(spans.shape[0]):
        at, length = spans[i, 0], spans[i, 1]
        negative = text[at] == 45
        digits = length - negative
        if digits < 1 or digits > 18 or (text[at + negative] == 48 and length > 1):
            return False
        number = np.int64(0)
        for place in range(at + negative, at + length):
            if not is_digit(text[place]):
                return False
            number = number * 10 + (np.int64(text[place]) - 48)
        out[i] = -number if negative else number
    return True


@kernel
def _decode(text, spans, out, first_row):  # type: ignore[no-untyped-def]
    """Write spans of UTF-8 as code points into rows of ``out``.

    With ``first_row`` = -1 nothing is written; either way the longest number of code points is returned, or if a span
    is not UTF-8, its number less than 0: −1 for the first.
    """
    longest = 0
    for i in range(spans.shape[0]):
        at, end, count = spans[i, 0], spans[i, 0] + spans[i, 1], 0
        while at < end:
            byte = np.int64(text[at])
            more = -1  # bytes that follow
            if byte < 0x80:
                more = 0
            elif 0xC2 <= byte < 0xF5:
                more = 1 if byte < 0xE0 else 2 if byte < 0xF0 else 3
                byte &= 0x3F >> more
            point = byte
            for step in range(1, more + 1):
                if at + step >= end or (text[at + step] & 0xC0) != 0x80:
                    more = -1
                    break
                point = (point << 6) | (np.int64(text[at + step]) & 0x3F)
            too_short = (more == 2 and point < 0x800) or (more == 3 and point < 0x10000)
            if too_short or 0xD800 <= point < 0xE000 or point >= 0x110000:
                more = -1
            if more < 0:
                return -1 - i
            if first_row >= 0:
                out[first_row + i, count] = point
            at += 1 + more
            count += 1
        longest = max(longest, count)
    return longest


class NotUtf8Error(Exception):
    """An id is not UTF-8; the argument is where it begins in the text."""


class Ids:
    """A column of ids that grows: whole numbers as long as all are, words from the first one that is not."""

    def __init__(self) -> None:
        self.numbers: Growing | None = Growing(np.int64)
        self.words = Growing(np.uint32, 0)

    def append(self, text: NDArray[np.uint8], spans: NDArray[np.int64]) -> None:
        """Add the ids that stand in these spans (start, length) of UTF-8 text."""
        if self.numbers is not None:
            found = np.empty(len(spans), np.int64)
            if _whole_numbers(text, spans, found):
                self.numbers.append(found)
                return
            earlier = self.numbers.finish()[:, 0].astype(np.str_)
            self.numbers = None
            if earlier.size:
                self.words.width = earlier.itemsize // 4
                self.words.reserve(earlier.size)
                self.words.matrix()[: earlier.size] = earlier.view(np.uint32).reshape(earlier.size, -1)
                self.words.rows = earlier.size
        longest = _decode(text, spans, self.words.matrix(), -1)
        if longest < 0:
            raise NotUtf8Error(int(spans[-1 - longest, 0]))
        if longest > self.words.width:
            self.words.widen(longest)
        self.words.reserve(self.words.rows + len(spans))
        _decode(text, spans, self.words.matrix(), self.words.rows)
        self.words.rows += len(spans)

    def finish(self) -> Column:
        """Give all ids, as int64 or as strings."""
        if self.numbers is not None:
            return self.numbers.finish()[:, 0]
        words = self.words.finish()
        return words.view(f"U{words.shape[1]}")[:, 0]
