"""LETOR / SVMLight text, in and out: ``label qid:Q index:value … # comment``.

A file is read in one pass through a buffer of fixed size, so the peak of memory is the finished arrays and that buffer.
Absent indexes are zero, as the format says. Numbers are rounded to the nearest float32, and written with as few digits
as read back to the same float32.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from rankwise import check
from rankwise.arrays import Ids
from rankwise.compiling import kernel
from rankwise.data import columns
from rankwise.data import compressed as files
from rankwise.data.compressed import TABLES, ending
from rankwise.data.dataset import RankingDataset
from rankwise.data.letor.lines import COLON, MOST_ID, SPACE
from rankwise.data.letor.reader import MAX_LINE_BYTES, Reader
from rankwise.data.letor.shortest import MOST_BYTES, write_float32, write_whole
from rankwise.sparse import is_sparse

_BLOCK = 1 << 22


def read_letor(
    path: str | Path,
    *,
    errors: Literal["raise", "skip"] = "raise",
    n_features: int | None = None,
    first_index: Literal["auto", 0, 1] = "auto",
    sizes: str | Path | ArrayLike | None = None,
    max_features: int | None = None,
    max_line_bytes: int = MAX_LINE_BYTES,
    progress: Callable[[int, int], object] | None = None,
    sparse: bool = False,
) -> RankingDataset:
    r"""Read a LETOR or SVMLight file, plain, gzip or Zstandard.

    Args:
        path: The file, or a pipe. Document ids are taken from comments if every document has one:
            ``#docid = GX1 …``, or the first word of the comment.
        errors: What to do about a line that cannot be read: ``"raise"`` an error that names it, or ``"skip"`` it and
            warn at the end how many there were. A query that comes back after another is always an error.
        n_features: The number of features; by default the highest index in the file decides. Give it for sparse
            files that are used together.
        first_index: The index of the first feature. ``"auto"``: 0 if index 0 occurs anywhere in the file, else 1.
        sizes: For files without ``qid:``, the number of documents of each query: an array, or a file of numbers. By
            default the file that LightGBM looks for, ``<path>.query``, if it is there.
        max_features: How many features there may be where ``n_features`` does not say it, by default 100,000, or
            2,097,152 of a sparse matrix: every document has all of them in memory unless it is sparse, and one damaged
            index must not take it all.
        max_line_bytes: How long a line may be that does not fit into the buffer of 4 MiB.
        progress: Called as ``progress(bytes_done, bytes_in_all)`` after every block, unless the file is a pipe.
        sparse: Keep only what the lines hold, in a sparse matrix: for files of very many features, few in each line.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "tiny.txt")
    ...     _ = path.write_text("2 qid:a 1:0.5 3:7 #docid = D1\n0 qid:a 2:25e-2 #docid = D2\n")
    ...     data = read_letor(path)
    >>> data
    RankingDataset(1 query, 2 documents, 3 features, labels 0 to 2)
    >>> print(data.features, data.document_ids)
    [[0.5  0.   7.  ]
     [0.   0.25 0.  ]] ['D1' 'D2']
    """
    reader = Reader(
        path,
        errors=errors,
        n_features=n_features,
        first_index=first_index,
        sizes=sizes,
        max_features=max_features,
        max_line_bytes=max_line_bytes,
        sparse=sparse,
    )
    with files.open_bytes(path) as (source, raw):
        total = Path(path).stat().st_size
        for text, last in reader.line_blocks(source):
            reader.feed(text, last)
            if progress is not None and raw.seekable():
                progress(raw.tell(), total)
    return reader.dataset()


def unsupported() -> list[str]:
    """Return the columns that LETOR text cannot hold."""
    return [column.name for column in columns.COLUMNS if not column.in_letor] + ["categorical"]


def write_letor(data: RankingDataset, path: str | Path, *, force: bool = False, lossy: bool = False) -> Path:
    """Write LETOR text, compressed if the name ends in ``.gz`` or ``.zst``; reading it gives the same numbers back.

    Every feature of every document is written, of a sparse matrix those that it stores; indexes count from 1, and
    document ids are ``#docid = …``. The last columns of a sparse matrix may be empty: name ``n_features`` when you read
    it. The file appears only once it is complete, and replaces another only with ``force``. The format has no place for
    feature names, which are left out, nor for weights, groups, scores of a teacher, categorical columns, propensities,
    positions and who was judged: data that have them are refused unless ``lossy`` allows to leave them out.
    """
    if ending(Path(path)) in TABLES:
        hint = "end its name in .txt, .letor or .svm, or write Parquet with rw.write_parquet"
        raise check.error("LETOR text is read by names of text", got=repr(Path(path).name), hint=hint)
    held = [name for name in unsupported() if getattr(data, name) is not None and len(getattr(data, name))]
    if held and not lossy:
        raise check.error(
            f"LETOR text cannot hold {', '.join(held)}",
            hint="write Parquet, which keeps everything, or pass lossy=True to leave them out",
        )
    ids = np.arange(data.n_queries) if data.query_ids is None else data.query_ids
    heads = [f" qid:{name}" for name in _words("query ids", ids)]
    queries = np.repeat(np.arange(data.n_queries), data.sizes)
    widest = 2 + len(str(data.n_features)) + MOST_BYTES
    longest = data.features.nnz / max(data.n_docs, 1) if data.is_sparse else data.n_features  # type: ignore[attr-defined]
    rows = max(1, int(_BLOCK // (longest * widest + 64)))
    with files.create_bytes(path, force=force) as out:
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
                ends = [f" #docid = {name}\n".encode() for name in _words("document ids", data.document_ids[block])]
            out.write(_lines(data.features[block], starts, ends, widest))
    return Path(path)


def _lines(features: Any, starts: list[bytes], ends: list[bytes], widest: int) -> memoryview:
    pieces: list[Any] = []
    for texts in (starts, ends):
        pieces += [np.frombuffer(b"".join(texts), np.uint8), np.cumsum([len(text) for text in texts])]
    space = np.empty(
        features.size * widest + pieces[0].size + pieces[2].size, np.uint8
    )  # of a sparse matrix, what is stored
    if is_sparse(features):
        stored = features.data, features.indices.astype(np.int64), features.indptr.astype(np.int64)
        return space.data[: _write_stored(*stored, *pieces, space)]
    length = _write_lines(features, *pieces, space)
    return space.data[:length]


def _words(what: str, ids: Ids) -> list[str]:
    """Write ids as words; one that would not read back is refused."""
    words = list(map(str, ids.tolist()))
    if ids.dtype.kind == "U":
        for word in words:
            if (
                not word
                or len(word.encode(errors="replace")) > MOST_ID
                or any(letter in word for letter in " \t\r\n\0")
            ):
                raise check.error(
                    f"{what} must be single words of at most {MOST_ID} bytes to be written as LETOR text",
                    got=repr(word[:60]),
                    hint="rename them, or write Parquet",
                )
    return words


@kernel
def _write_lines(features, heads, head_ends, tails, tail_ends, out):  # type: ignore[no-untyped-def]
    """Write rows as head, `` index:value`` …, tail; gives the number of bytes. ``out`` must be large enough."""
    at = 0
    for row in range(features.shape[0]):
        at = _copy(heads, head_ends, row, out, at)
        for column in range(features.shape[1]):
            at = _write_cell(column, features[row, column], out, at)
        at = _copy(tails, tail_ends, row, out, at)
    return at


@kernel
def _write_stored(values, columns, row_ends, heads, head_ends, tails, tail_ends, out):  # type: ignore[no-untyped-def]
    """Write what the rows of a sparse matrix store; zeros among it too."""
    at = 0
    for row in range(row_ends.size - 1):
        at = _copy(heads, head_ends, row, out, at)
        for cell in range(row_ends[row], row_ends[row + 1]):
            at = _write_cell(columns[cell], values[cell], out, at)
        at = _copy(tails, tail_ends, row, out, at)
    return at


@kernel(forceinline=True)
def _write_cell(column, value, out, at):  # type: ignore[no-untyped-def]
    out[at] = SPACE
    at = write_whole(out, at + 1, column + 1)
    out[at] = COLON
    return write_float32(out, at + 1, value)


@kernel(forceinline=True)
def _copy(texts, ends, number, out, at):  # type: ignore[no-untyped-def]
    """Copy one of several texts that follow each other."""
    for place in range(ends[number - 1] if number else 0, ends[number]):
        out[at] = texts[place]
        at += 1
    return at
