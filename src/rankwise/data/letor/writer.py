"""Writing LETOR text: every number with the fewest digits that read back to the same float32.

Nine digits always identify a float32. Digits are dropped from the end as long as what remains is still nearer to this
float32 than to its neighbours.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np

from rankwise import check
from rankwise.arrays import Ids
from rankwise.compiling import kernel
from rankwise.data import columns
from rankwise.data.compressed import TABLES, create_bytes, ending
from rankwise.data.dataset import RankingDataset
from rankwise.data.letor.decimals import POWERS, write_whole
from rankwise.data.letor.lines import COLON, MOST_ID, SPACE
from rankwise.sparse import is_sparse

_BLOCK = 1 << 22
_MOST_BYTES = 16  # of a float32


def unsupported() -> list[str]:
    """Return the columns that LETOR text cannot hold."""
    return [column.name for column in columns.COLUMNS if not column.in_letor] + ["categorical"]


def write_letor(data: RankingDataset, path: str | Path, *, force: bool = False, lossy: bool = False) -> Path:
    """Write LETOR text, compressed if the name ends in ``.gz`` or ``.zst``; reading it gives the same numbers back.

    Every feature of every document is written, of a sparse matrix those that it stores; indexes count from 1, and
    comments are ``#docid = … inc = … prob = …``. The last columns of a sparse matrix may be empty: name ``n_features``
    when you read it. The file appears once it is complete, and replaces another only with ``force``. It has no place
    for feature names, which are left out, nor for categorical columns and most others of :func:`unsupported`: data with
    them are rejected, unless ``lossy`` allows to leave them out.
    """
    if ending(Path(path)) in TABLES:
        hint = "end its name in .txt, .letor or .svm, or write Parquet with rw.write_parquet"
        raise check.error("LETOR text is read by names of text", got=repr(Path(path).name), hint=hint)
    comments = {"inc": data.inclusion_probabilities, "prob": data.relevance_probabilities}
    after_ids = ("inclusion_probabilities", "relevance_probabilities")
    names = [*unsupported(), *(after_ids if data.document_ids is None else ())]
    held = [name for name in names if getattr(data, name) is not None and len(getattr(data, name))]
    if held and not lossy:
        raise check.error(
            f"LETOR text cannot hold {', '.join(held)}",
            hint="write Parquet, which keeps everything, or `pass lossy=True` to leave them out",
        )
    ids = np.arange(data.n_queries) if data.query_ids is None else data.query_ids
    heads = [f" qid:{name}" for name in _words("query ids", ids)]
    queries = np.repeat(np.arange(data.n_queries), data.sizes)
    widest = 2 + len(str(data.n_features)) + _MOST_BYTES
    longest = data.features.nnz / max(data.n_docs, 1) if data.is_sparse else data.n_features  # type: ignore[attr-defined]
    rows = max(1, int(_BLOCK // (longest * widest + 64)))
    with create_bytes(path, force=force) as out:
        for first in range(0, data.n_docs, rows):
            block = slice(first, first + rows)
            labels = data.labels[block].tolist()
            starts = [
                f"{int(label) if label.is_integer() and label < 1e15 else repr(label)}{heads[query]}".encode()
                for label, query in zip(labels, queries[block].tolist(), strict=True)
            ]
            if data.document_ids is None:
                ends = [b"\n"] * len(starts)
            else:
                texts = [f" #docid = {name}" for name in _words("document ids", data.document_ids[block])]
                for key, column in comments.items():
                    if column is not None:
                        numbers = column[block].tolist()
                        texts = [f"{text} {key} = {value!r}" for text, value in zip(texts, numbers, strict=True)]
                ends = [f"{text}\n".encode() for text in texts]
            out.write(_lines(data.features[block], starts, ends, widest))
    return Path(path)


def _lines(features: Any, starts: list[bytes], ends: list[bytes], widest: int) -> memoryview:
    pieces: list[Any] = []
    for texts in (starts, ends):
        pieces += [np.frombuffer(b"".join(texts), np.uint8), np.cumsum([len(text) for text in texts])]
    if is_sparse(features):
        values, columns, row_ends = features.data, features.indices.astype(np.int64), features.indptr.astype(np.int64)
    else:
        rows, width = features.shape
        values, columns, row_ends = features.ravel(), np.tile(np.arange(width), rows), np.arange(rows + 1) * width
    space = np.empty(values.size * widest + pieces[0].size + pieces[2].size, np.uint8)
    return space.data[: _write_lines(values, columns, row_ends, *pieces, space)]


def _words(what: str, ids: Ids) -> list[str]:
    """Return ids as words; raise for one that would not read back."""
    words = list(map(str, ids.tolist()))
    for word in words if ids.dtype.kind == "U" else ():
        if not re.fullmatch(r"[^ \t\r\n\0]+", word) or len(word.encode(errors="replace")) > MOST_ID:
            what = f"{what} must be single words of at most {MOST_ID} bytes to be written as LETOR text"
            raise check.error(what, got=repr(word[:60]), hint="rename them, or write Parquet")
    return words


@kernel
def _write_lines(values, columns, row_ends, heads, head_ends, tails, tail_ends, out):  # type: ignore[no-untyped-def]
    """Write rows as head, `` index:value`` …, tail, and return the number of bytes; ``out`` must be large enough."""
    at = 0
    for row in range(row_ends.size - 1):
        at = _copy(heads, head_ends, row, out, at)
        for cell in range(row_ends[row], row_ends[row + 1]):
            out[at] = SPACE
            at = write_whole(out, at + 1, columns[cell] + 1)
            out[at] = COLON
            at = write_float32(out, at + 1, values[cell])
        at = _copy(tails, tail_ends, row, out, at)
    return at


@kernel(forceinline=True)
def _copy(texts, ends, number, out, at):  # type: ignore[no-untyped-def]
    """Copy one of several texts that follow each other."""
    for place in range(ends[number - 1] if number else 0, ends[number]):
        out[at] = texts[place]
        at += 1
    return at


@kernel
def _shortest(value, bits):  # type: ignore[no-untyped-def]
    """Return the fewest digits, as (integer, power of ten), that are nearer to ``value`` than to any other float32."""
    exponent = max(bits >> 23, 1) - 150
    up = np.ldexp(0.5, exponent)  # half the way to the next float32 above, and below
    down = up * 0.5 if (bits & 0x7FFFFF) == 0 and exponent > -149 else up
    power = np.int64(np.floor(np.log10(value))) - 8
    scale = POWERS[-power] if power < 0 else POWERS[power]
    scaled = value * scale if power < 0 else value / scale
    up = (up * scale if power < 0 else up / scale) * (1 - 1e-7)
    down = (down * scale if power < 0 else down / scale) * (1 - 1e-7)
    digits = np.int64(np.floor(scaled + 0.5))
    unit = np.int64(10)
    dropped_unit = np.int64(1)
    while unit <= 100_000_000:
        low = np.int64(np.floor(scaled / unit)) * unit
        high = low + unit
        fits_low, fits_high = scaled - low < down, high - scaled < up
        if fits_low and (scaled - low <= high - scaled or not fits_high):
            digits = low
        elif fits_high:
            digits = high
        else:
            break
        dropped_unit = unit
        unit *= 10
    while dropped_unit > 1:
        digits //= 10
        power += 1
        dropped_unit //= 10
    while digits % 10 == 0:
        digits //= 10
        power += 1
    return digits, power


@kernel(forceinline=True)
def write_float32(out, at, value):  # type: ignore[no-untyped-def]
    """Write a float32 with the fewest digits that read back to the same bits, and return where it ends.

    That takes at most 16 bytes.
    """
    bits = np.int64(np.float32(value).view(np.uint32))
    if bits >> 31:
        out[at] = 45
        at += 1
        bits &= 0x7FFFFFFF
    if bits >= 0x7F800000:
        word = (105, 110, 102) if bits == 0x7F800000 else (110, 97, 110)
        if bits > 0x7F800000 and out[at - 1] == 45:
            at -= 1
        for letter in word:
            out[at] = letter
            at += 1
        return at
    size = abs(np.float64(value))
    if size < 16777216.0 and size == np.floor(size):
        return write_whole(out, at, np.int64(size))
    return _write_digits(out, at, size, bits)


@kernel
def _write_digits(out, at, size, bits):  # type: ignore[no-untyped-def]
    digits, power = _shortest(size, bits)
    count = np.int64(1)
    top = np.int64(10)
    while top <= digits:
        top *= 10
        count += 1
    point = count + power  # digits before the decimal point
    if power >= 0 and point <= 10:
        return write_whole(out, at, digits * np.int64(POWERS[power]))
    if -4 < point <= 0:
        out[at], out[at + 1] = 48, 46
        at += 2
        for _ in range(-point):
            out[at] = 48
            at += 1
        return write_whole(out, at, digits)
    if power < 0 < point:
        end = at + count + 1
        for place in range(end - 1, at - 1, -1):
            if place == at + point:
                out[place] = 46
            else:
                out[place] = 48 + digits % 10
                digits //= 10
        return end
    at = write_whole(out, at, digits)  # 125e-7
    out[at] = 101
    at += 1
    if power < 0:
        out[at] = 45
        at += 1
    return write_whole(out, at, abs(power))
