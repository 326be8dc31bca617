"""Reading LETOR and SVMLight text: lines ``label qid:Q index:value index:value … # comment``.

A file is read in one pass through a buffer of fixed size, so the peak of memory is the finished arrays and that buffer.
Absent indexes are zero, as the format says. Numbers are rounded to the nearest float32.
"""

import warnings
from collections.abc import Callable, Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.base.arrays import Column, Keywords
from rankwise.data.dataset import RankingDataset
from rankwise.data.io.file_formats import open_bytes
from rankwise.data.io.letor import lines
from rankwise.data.io.letor.buffers import Growing, GrowingIds, GrowingRows, NotUtf8Error, probabilities
from rankwise.data.io.letor.decimals import exact_float32
from rankwise.data.io.letor.line_blocks import Sizes, line_blocks, read_sizes, side_files
from rankwise.data.io.urls import accepts_urls

_BLOCK = 1 << 22  # bytes of text
_BATCH = 1 << 14  # rows between two visits of Python
MAX_FEATURES = 100_000
"""How wide the matrix may become unless the user says so: one damaged index must not take all memory."""
MAX_SPARSE_FEATURES = 1 << 21
"""The same of a sparse matrix, of which the reader keeps 72 bytes for each column."""
MAX_LINE_BYTES = 1 << 26
_NAMED = 5  # skipped lines that the warning lists


@accepts_urls
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
            ``#docid = GX1 …``, or the first word of the comment. So are ``inc = …`` and ``prob = …`` of LETOR 4.0, if
            all are from 0 to 1: ``inclusion_probabilities`` and ``relevance_probabilities``.
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
    reader = Reader(path, errors, n_features, first_index, sizes, max_features, max_line_bytes, sparse)
    with open_bytes(path) as (source, raw):
        total = Path(path).stat().st_size
        for text, last in reader.line_blocks(source):
            reader.feed(text, last)
            if progress is not None and raw.seekable():
                progress(raw.tell(), total)
    return reader.dataset()


class Reader:
    """Reads blocks of text one after the other, and returns the data set at the end of the file."""

    def __init__(
        self,
        path: str | Path,
        errors: str = "raise",
        n_features: int | None = None,
        first_index: object = "auto",
        sizes: Sizes | None = None,
        max_features: int | None = None,
        max_line_bytes: int = MAX_LINE_BYTES,
        sparse: bool = False,
    ) -> None:
        self.path = Path(path)
        self.skip = check.choice("way to treat broken lines", errors, ("raise", "skip")) == "skip"
        if first_index not in ("auto", 0, 1):
            raise check.error("first_index must be 'auto', 0 or 1", got=repr(first_index))
        self.base = -1 if first_index == "auto" else int(first_index)
        self.limit = 0 if n_features is None else check.integer("n_features", n_features, least=1)
        if max_features is None:
            max_features = MAX_SPARSE_FEATURES if sparse else MAX_FEATURES
        self.most = self.limit or min(check.integer("max_features", max_features, least=1), lines.MOST_INDEX)
        self.longest = check.integer("max_line_bytes", max_line_bytes, least=1)
        self.sizes: Column | None = None
        self.sizes_from = self.path
        if sizes is not None:
            self.take_sizes(sizes)
        self.state = np.zeros(lines.STATE_SIZE, np.int64)
        self.state[lines.LINE] = 1
        self.features = GrowingRows(self.limit) if sparse else Growing(np.float32, self.limit)
        self.labels, self.starts, self.lines = Growing(np.float64), Growing(np.int64), Growing(np.int64)
        self.query_ids = GrowingIds()
        self.document_ids: GrowingIds | None = GrowingIds()
        names = ("inclusion_probabilities", "relevance_probabilities")
        self.probabilities: dict[str, Growing | None] = {name: Growing(np.float64) for name in names}
        self.current = np.empty(lines.MOST_ID, np.uint8)
        self.batch_labels = np.empty(_BATCH)
        self.batch_starts, self.batch_lines = np.empty(_BATCH, np.int64), np.empty(_BATCH, np.int64)
        self.query_spans, self.comment_spans = np.empty((_BATCH, 2), np.int64), np.empty((3, _BATCH, 2), np.int64)
        self.resize_to_width()
        self.skipped: list[int] = []
        self.first_error = ""

    def resize_to_width(self) -> None:
        """Resize the arrays with one element per column."""
        self.marks = np.zeros(self.features.width, np.int64)
        self.expected = lines.expected_indexes(int(self.base != 0), self.features.width)
        self.hard_cells = np.empty((self.features.width + 1024, 2), np.int64)
        self.hard_spans = np.empty_like(self.hard_cells)

    def line_blocks(self, source: BufferedIOBase, size: int | None = None) -> Iterator[tuple[NDArray[np.uint8], int]]:
        """Iterate over the text in blocks of whole lines, each to be fed before the next one is read."""

        def too_long() -> ValueError:
            what, where = f"a line must have at most max_line_bytes={self.longest:,} bytes", self.state[lines.LINE]
            hint = "check that this is LETOR text; if lines are so long, `pass max_line_bytes=…`"
            return check.error(what, got="more", where=f"{self.path}, line {where}", hint=hint)

        return line_blocks(source, size or _BLOCK, longest=self.longest, too_long=too_long)

    def feed(self, text: NDArray[np.uint8], last: int) -> None:
        """Read the lines of ``text`` up to ``last``."""
        state = self.state
        state[lines.AT] = 0
        stop = -1
        while stop != lines.DONE:
            self.features.reserve(self.features.rows + 1)
            stop = lines.parse_lines(
                text, last, state, self.base, self.most, self.sizes is None, self.features.matrix(),
                self.features.rows, self.batch_labels, self.batch_starts, self.batch_lines,
                self.query_spans, self.current, self.comment_spans,
                self.hard_cells, self.hard_spans, self.marks, *self.expected, *self.features.cells(),
            )  # fmt: skip
            self.keep_batch(text)
            if stop == lines.WIDEN:
                index = max(int(state[lines.SPOT]), lines.highest_index(text, state[lines.AT], last, self.most))
                self.widen(index + (self.base == 0))
            elif stop == lines.ZERO_INDEX:  # the columns read so far shift by one
                self.base, highest = 0, int(state[lines.HIGHEST])
                if highest >= self.most:
                    what = f"index 0 occurs, so index {highest} is out of range"
                    raise self.error(text, what, "look at first_index, n_features and max_features")
                self.widen(max(self.features.width, highest + 1), shift=1)
            elif stop == lines.BROKEN:
                self.broken_line(text)

    def keep_batch(self, text: NDArray[np.uint8]) -> None:
        """Keep the results of a batch of the kernel: numbers that it was not sure of, labels, ids."""
        state = self.state
        rows, queries = int(state[lines.ROWS]), int(state[lines.QUERIES])
        for (row, column), (start, length) in zip(
            self.hard_cells[: state[lines.HARD]].tolist(), self.hard_spans[: state[lines.HARD]].tolist(), strict=True
        ):
            written = bytes(text[start : start + length]).decode()
            if column < 0:
                self.batch_labels[row] = float(written)
            else:
                self.features.set(row, column, exact_float32(written))
        self.features.keep(rows, int(state[lines.CELLS]))
        before = self.labels.rows + rows - self.features.rows  # rows that a reader did not keep
        self.labels.append(self.batch_labels[:rows])
        self.starts.append(before + self.batch_starts[:queries])
        self.lines.append(self.batch_lines[:queries])
        try:
            self.query_ids.append(text, self.query_spans[:queries])
        except NotUtf8Error as broken:
            raise check.not_utf8(b"", f"{self.path}, line {self.line_of(text, broken)}") from None
        for name, numbers in zip(self.probabilities, self.comment_spans[1:, :rows], strict=True):
            column, values = self.probabilities[name], probabilities(text, numbers)
            if column is not None and values is not None:
                column.append(values)
            else:
                self.probabilities[name] = None
        spans = self.comment_spans[0, :rows]
        if (spans[:, 1] < 1).any() or (spans[:, 1] > lines.MOST_ID).any():
            self.document_ids = None  # not every document has one
        if self.document_ids is not None:
            try:
                self.document_ids.append(text, spans)
            except NotUtf8Error as broken:
                self.document_ids = None
                what = "document ids are left out: the comment is not UTF-8"
                warnings.warn(f"{self.path}, line {self.line_of(text, broken)}: {what}", stacklevel=3)
        state[lines.ROWS] = state[lines.QUERIES] = state[lines.HARD] = state[lines.CELLS] = 0

    def line_of(self, text: NDArray[np.uint8], broken: NotUtf8Error) -> int:
        """Return the line of an id that is not UTF-8."""
        later = np.count_nonzero(text[broken.args[0] : self.state[lines.AT]] == ord("\n"))
        return int(self.state[lines.LINE] - later)

    def widen(self, width: int, shift: int = 0) -> None:
        """Make the matrix wider."""
        self.features.widen(min(width, self.most), shift)
        self.resize_to_width()

    def broken_line(self, text: NDArray[np.uint8]) -> None:
        """Skip the line, raise an error that names it, or read the sizes of queries beside the file."""
        wrong, line = int(self.state[lines.WRONG]), int(self.state[lines.LINE])
        side = next((path for path in side_files(self.path) if path.is_file()), None)  # where LightGBM looks for it
        if wrong == lines.NO_QUERY and not self.labels.rows and side is not None:
            self.take_sizes(side)
            return
        what, hint = lines.MESSAGES[lines.BAD_INDEX if wrong == lines.BEYOND and self.limit else wrong]
        if not self.skip:
            raise self.error(text, what, f"{hint}; or `pass errors='skip'` to leave such lines out")
        if not self.skipped:
            self.first_error = what
        self.skipped.append(line)
        self.state[lines.AT] = lines.line_end(text, self.state[lines.AT]) + 1
        self.state[lines.LINE] += 1

    def error(self, text: NDArray[np.uint8], what: str, hint: str) -> ValueError:
        """Build the error of a word: its line, and the text around it."""
        begin, spot = int(self.state[lines.AT]), int(self.state[lines.SPOT])
        end = int(lines.line_end(text, spot))
        word = bytes(text[spot : min(end, spot + 200)]).decode(errors="replace").split(maxsplit=1)
        near = bytes(text[max(begin, spot - 24) : min(end, spot + 24)]).decode(errors="replace").strip()
        dots = ("…" if spot - 24 > begin else "", "…" if spot + 24 < end else "")
        where = f"{self.path}, line {self.state[lines.LINE]}, near '{dots[0]}{near}{dots[1]}'"
        got = repr(word[0][:60]) if word and end > spot else "the end of the line"
        return check.error(what, got=got, where=where, hint=hint)

    def take_sizes(self, sizes: Sizes) -> None:
        """Read the number of documents of each query, from a file if it is one."""
        if self.skip:
            raise check.error(
                "errors='skip' cannot be used where the queries are given by their sizes",
                hint="mend the lines; a line left out would move documents into another query",
            )
        if isinstance(sizes, str | Path):
            self.sizes_from, sizes = Path(sizes), read_sizes(Path(sizes))
        self.sizes = np.asarray(sizes)

    def dataset(self) -> RankingDataset:
        """Return the data set once everything has been read."""
        rows = self.labels.rows
        if not rows:
            raise check.error("there are no documents in the file", where=str(self.path))
        columns: Keywords = {}
        if self.sizes is not None:
            with check.naming(self.sizes_from):
                offsets = check.sizes(self.sizes, rows)
        else:
            columns["query_ids"] = self.query_ids.finish()
            starts = self.starts.finish()[:, 0]
            again = check.first_repeated(columns["query_ids"])
            if again is not None:
                raise check.error(
                    "the documents of a query must lie together",
                    got=f"query {columns['query_ids'][again].item()!r} again after another query",
                    where=f"{self.path}, line {self.lines.flat[again]}",
                    hint="sort the lines by query id (a stable sort keeps the order of documents)",
                )
            offsets = np.append(starts, rows)
        if self.document_ids is not None:
            columns["document_ids"] = self.document_ids.finish()
        columns |= {name: column.finish()[:, 0] for name, column in self.probabilities.items() if column is not None}
        width = int(self.state[lines.HIGHEST]) + (self.base == 0) if not self.limit else self.limit
        data = RankingDataset(self.matrix(width), self.labels.finish()[:, 0], offsets, **columns)
        if self.skipped:
            named = ", ".join(map(str, self.skipped[:_NAMED])) + (", …" if len(self.skipped) > _NAMED else "")
            warnings.warn(
                f"{self.path}: left out {len(self.skipped)} of {self.state[lines.LINE] - 1} lines "
                f"that could not be read (line {named}; the first: {self.first_error})",
                stacklevel=3,
            )
        return data

    def matrix(self, width: int) -> NDArray[np.float32]:
        """Return the features, in as many columns as the file has."""
        features: NDArray[np.float32] = self.features.finish()
        return features[:, :width] if width < features.shape[1] else features
