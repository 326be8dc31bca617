"""The compiled part of reading LETOR text: one pass over raw bytes, one line after the other.

A block of text ends with a line end, which also ends every number, so that no loop needs to check for the end of the
block. Where Python must decide (a broken line, a wider matrix, a full batch), the kernel stops at the beginning of that
line; it resumes from there when called again.
"""

import numpy as np

from rankwise.base.arrays import Column
from rankwise.base.compiling import kernel
from rankwise.data.io.letor import decimals

# Why the kernel stopped.
DONE, FULL, WIDEN, ZERO_INDEX, BROKEN = 0, 1, 2, 3, 4
# What is wrong with a broken line.
NO_LABEL, BAD_LABEL, NO_QUERY, EXTRA_QUERY, EMPTY_QUERY, LONG_QUERY = range(6)
NO_FEATURE, BAD_INDEX, BEYOND, BAD_VALUE, TWICE = range(6, 11)
# Where the kernel stands, in its array of state: byte, line number; rows, queries and hard numbers of this batch;
# length of the current query's id, highest index so far, what is wrong and at which byte, the last mark of columns,
# how many numbers of a sparse matrix are in this batch.
AT, LINE, ROWS, QUERIES, HARD, ID_LENGTH, HIGHEST, WRONG, SPOT, MARK, CELLS = range(11)
STATE_SIZE = 11

MOST_INDEX = 9_999_999
MOST_ID = 1024
MESSAGES = {
    NO_LABEL: ("a line must begin with a label, a number", "write label qid:Q index:value …"),
    BAD_LABEL: (
        "a label must be finite and not negative",
        "qrels use -1 for 'not judged': make it 0 or drop the line",
    ),
    NO_QUERY: (
        "after the label must come qid: and the query's id",
        "add it, or pass the number of documents of each query as sizes",
    ),
    EXTRA_QUERY: ("a file with qid: needs no sizes", "leave sizes out"),
    EMPTY_QUERY: ("qid: must be followed by an id", "write qid:Q without a space in between"),
    LONG_QUERY: (f"a query id must have at most {MOST_ID} bytes", "shorten it"),
    NO_FEATURE: ("a feature must be written index:value", "mend the word; a comment begins with #"),
    BAD_INDEX: ("a feature's index is out of range", "look at first_index and n_features"),
    BEYOND: (
        "a feature's index is beyond max_features",
        "a dense matrix has a number for every feature of every document: read it with `sparse=True`, or if there are "
        "so many `pass max_features=…` or `n_features=…`",
    ),
    BAD_VALUE: ("a feature's value must be a number, nan or inf", "encode text as category codes"),
    TWICE: ("a feature must stand only once in a line", "keep one of the two"),
}
"""What is wrong with a broken line, and what to do about it."""
SPACE, TAB, RETURN, NEWLINE, HASH, COLON, EQUALS = 32, 9, 13, 10, 35, 58, 61
_INC, _PROB = np.frombuffer(b"inc", np.uint8), np.frombuffer(b"prob", np.uint8)


@kernel(forceinline=True)
def _skip_space(text, at):
    while text[at] == SPACE or text[at] == TAB or text[at] == RETURN:
        at += 1
    return at


@kernel(forceinline=True)
def _ends_word(byte):
    return byte in (SPACE, NEWLINE, TAB, RETURN)


@kernel
def line_end(text, at):
    """Return the end of the line around ``at``."""
    while text[at] != NEWLINE:
        at += 1
    return at


def expected_indexes(least: int, width: int) -> tuple[Column, Column, Column]:
    """Write ``index:`` of every column as a little-endian word; with it a mask of its bytes, and its digits' number."""
    indexes = np.arange(least, least + width).astype("S7")
    texts, lengths = np.strings.add(indexes, b":").astype("S8").view("<u8"), np.strings.str_len(indexes)
    return texts, ~np.uint64(0) >> (8 * (7 - lengths)).astype(np.uint64), lengths


@kernel
def highest_index(text, at, last, most):
    """Return the highest number before a colon outside of comments: the width that this text may need.

    Numbers greater than ``most`` do not count: their lines will be broken ones.
    """
    highest = np.int64(0)
    while at < last:
        byte = text[at]
        if byte == HASH and (at == 0 or _ends_word(text[at - 1])):
            at = line_end(text, at)
        elif byte == COLON:
            place = at - 1
            number, unit = np.int64(0), np.int64(1)
            while place >= 0 and decimals.is_digit(text[place]) and unit <= MOST_INDEX:
                number += unit * (np.int64(text[place]) - 48)
                unit *= 10
                place -= 1
            if highest < number <= most and (place < 0 or _ends_word(text[place])):
                highest = number
        at += 1
    return highest


@kernel(forceinline=True)
def _document(text, at):
    """Return the document's id in a comment: ``docid = GX1 …``, or else its first word; (start, length)."""
    at = _skip_space(text, at + 1)
    if text[at] == 100 and text[at + 1] == 111 and text[at + 2] == 99 and text[at + 3] == 105 and text[at + 4] == 100:
        sign = _skip_space(text, at + 5)
        if text[sign] == EQUALS:
            at = _skip_space(text, sign + 1)
    end = at
    while not _ends_word(text[end]):
        end += 1
    return at, end - at


@kernel(forceinline=True)
def _same_query(text, start, length, current, current_length):
    if length != current_length:
        return False
    for i in range(length):  # noqa: SIM110
        if text[start + i] != current[i]:
            return False
    return True


@kernel
def _fill_comment(text, at, spans, row):
    """Fill the spans (start, length) of a comment: the document's id, ``inc = …`` and ``prob = …``; 0 where absent."""
    spans[0, row, 0], spans[0, row, 1] = _document(text, at)
    spans[1:, row] = 0
    at = spans[0, row, 0] + spans[0, row, 1]
    while text[at] != NEWLINE:
        start = at = _skip_space(text, at)
        while not _ends_word(text[at]):
            at += 1
        sign = _skip_space(text, at)
        key = _same_query(text, start, at - start, _INC, 3) + 2 * _same_query(text, start, at - start, _PROB, 4)
        if key and text[sign] == EQUALS:
            start = at = _skip_space(text, sign + 1)
            while not _ends_word(text[at]):
                at += 1
            spans[key, row, 0], spans[key, row, 1] = start, at - start


@kernel
def parse_lines(
    text, last, state, base, limit, with_queries, features, first_row, labels, query_rows, query_lines, query_spans,
    current, comment_spans, hard_cells, hard_spans, marks, next_texts, next_masks, next_lengths,
    cell_columns, cell_values, cell_ends,
):  # fmt: skip
    """Read lines from ``state[AT]`` to ``last`` into rows of ``features`` from ``first_row`` on, and into a batch.

    ``base`` is the first index of the file (-1: 1 unless there is an index 0); ``limit`` the most features allowed.
    Where there is space for cells, ``features`` is not written: columns and values of what is not zero go there, and
    where each row ends.
    """
    width = marks.size
    sparse = cell_columns.size > 0
    capacity = min(labels.size, features.shape[0] - first_row) if width and not sparse else labels.size
    rows, queries, hard, cells = state[ROWS], state[QUERIES], state[HARD], state[CELLS]
    at, line, highest = state[AT], state[LINE], state[HIGHEST]
    least = 0 if base == 0 else 1
    stop = DONE
    wrong = -1
    spot = at
    while at < last:
        begin = at
        at = _skip_space(text, at)
        if text[at] == NEWLINE or text[at] == HASH:
            at = line_end(text, at) + 1
            line += 1
            continue
        if rows == capacity or hard == hard_cells.shape[0]:
            stop, at = FULL, begin
            break
        hard_before, cells_before = hard, cells
        # The label.
        spot = at
        kind, negative, digits, power, at = decimals.read_number(text, at)
        if kind == decimals.WRONG or not (_ends_word(text[at]) or text[at] == HASH):
            wrong = NO_LABEL
        elif kind != decimals.DECIMAL or (negative and digits > 0) or decimals.beyond_float64(digits, power):
            wrong = BAD_LABEL
        else:
            value, sure = decimals.nearest_float64(digits, power)
            labels[rows] = value
            if sure != decimals.SURE:
                hard_cells[hard, 0], hard_cells[hard, 1] = rows, -1
                hard_spans[hard, 0], hard_spans[hard, 1] = spot, at - spot
                hard += 1
        # The query.
        new_query = False
        start = length = at
        if wrong < 0:
            at = _skip_space(text, at)
            spot = at
            has_query = text[at] == 113 and text[at + 1] == 105 and text[at + 2] == 100 and text[at + 3] == COLON
            if has_query != with_queries:
                wrong = EXTRA_QUERY if has_query else NO_QUERY
            elif has_query:
                at += 4
                start = at
                while not _ends_word(text[at]):
                    at += 1
                length = at - start
                if length == 0:
                    wrong = EMPTY_QUERY
                elif length > current.size:
                    wrong = LONG_QUERY
                new_query = wrong < 0 and not _same_query(text, start, length, current, state[ID_LENGTH])
        # The features.
        hard_label = hard
        previous = np.int64(-1)
        from_here, ordered = at, True
        row = first_row + rows
        while wrong < 0:
            at += text[at] == SPACE
            spot = at
            ahead = previous + 1
            if ahead < width and (decimals.eight_bytes(text, at) ^ next_texts[ahead]) & next_masks[ahead] == 0:
                # The index that was to be expected: no need to read it digit by digit.
                index = ahead + least
                at += next_lengths[ahead]
            else:
                index, at = decimals.read_digits(text, at, np.int64(0))
            if text[at] != COLON or at == spot or at - spot > 18:
                byte = text[spot]
                if byte in (SPACE, TAB, RETURN):
                    at = spot + 1
                    continue
                if byte != NEWLINE and byte != HASH:
                    wrong = BAD_INDEX if at - spot > 18 else NO_FEATURE
                at = spot
                break
            column = index - least
            if not (previous < column < width and ordered):
                if column < 0 and base < 0:
                    stop = ZERO_INDEX
                    break
                if column < 0 or index > MOST_INDEX or column >= limit:
                    wrong = BAD_INDEX if column < 0 or index > MOST_INDEX else BEYOND
                    break
                if column >= width:
                    stop, spot = WIDEN, index
                    break
                if ordered:  # indexes go down: begin again, now keeping account of which ones have come
                    ordered = False
                    state[MARK] += 1
                    at, hard, cells = from_here, hard_label, cells_before
                    continue
                if marks[column] == state[MARK]:
                    wrong = TWICE
                    break
                marks[column] = state[MARK]
            if sparse and cells == cell_columns.size:
                stop = FULL
                break
            previous = max(previous, column)
            value_at = at + 1
            value, at, plain = decimals.read_plain(text, value_at)
            if plain:
                if not sparse:
                    features[row, column] = np.float32(value)
                elif value != 0:
                    cell_columns[cells], cell_values[cells] = column, np.float32(value)
                    cells += 1
                continue
            kind, negative, digits, power, at = decimals.read_number(text, value_at)
            if kind == decimals.DECIMAL:
                value, sure = decimals.nearest_float32(digits, power)
                if sure == decimals.UNSURE:
                    if hard == hard_cells.shape[0]:
                        stop = FULL
                        break
                    hard_cells[hard, 0], hard_cells[hard, 1] = cells if sparse else row, column
                    hard_spans[hard, 0], hard_spans[hard, 1] = value_at, at - value_at
                    hard += 1
            elif kind == decimals.NAN:
                value = np.nan
            elif kind == decimals.INFINITE:
                value = np.inf
            if kind == decimals.WRONG or not (_ends_word(text[at]) or text[at] == HASH):
                wrong = BAD_VALUE
                break
            if not sparse:
                features[row, column] = np.float32(-value if negative else value)
            else:
                cell_columns[cells], cell_values[cells] = column, np.float32(-value if negative else value)
                cells += 1
        if wrong >= 0 or stop != DONE:
            # Leave no trace of the line.
            if not sparse and row < features.shape[0]:
                features[row, :] = 0
            hard, cells, at = hard_before, cells_before, begin
            if wrong >= 0:
                stop = BROKEN
            break
        highest = max(highest, previous + least)
        if text[at] == HASH:
            _fill_comment(text, at, comment_spans, rows)
            at = line_end(text, at)
        else:
            comment_spans[:, rows] = 0
        if new_query:
            query_rows[queries], query_lines[queries] = row, line
            query_spans[queries, 0], query_spans[queries, 1] = start, length
            for i in range(length):
                current[i] = text[start + i]
            state[ID_LENGTH] = length
            queries += 1
        if sparse:
            cell_ends[rows] = cells
        rows += 1
        line += 1
        at += 1
    state[AT], state[LINE], state[ROWS], state[QUERIES], state[HARD] = at, line, rows, queries, hard
    state[HIGHEST], state[WRONG], state[SPOT], state[CELLS] = highest, wrong, spot, cells
    return stop
