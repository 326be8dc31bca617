"""Making an index: words of documents in one reading, then posting lists by counting, in memory or in files."""

import json
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.base import arrays, progress
from rankwise.wings.text import kernels
from rankwise.wings.text.analyzer import Analyzer
from rankwise.wings.text.source import rows

TYPES: Mapping[str, Any] = {
    "tokens": np.int32, "bounds": np.int64, "lists": np.int64, "post_documents": np.int32, "post_counts": np.int32,
    "totals": np.int64, "text_bytes": np.uint8, "text_bounds": np.int64, "idf": np.float64, "share": np.float64,
    "norms": np.float64, "means": np.float64,
}  # fmt: skip
"""Arrays of an index; those of columns are float64."""
_MOST_TOKENS = 2**31 - 1
_FLUSHED = 1 << 22
"""Values that wait in memory to be written to a file."""
_AT_ONCE = 1 << 27
"""Posting lists are filled so many entries at once: written in random order, they should stay in memory."""
_SHOWN_EVERY = 2_000
_REMEMBERED = 64
"""Letters of a run whose words are remembered: longer ones are hardly met again."""


def opened(folder: Path, name: str, mode: Any = "r") -> NDArray[Any]:
    """Map the array of a file into memory."""
    path, kind = folder / f"{name}.bin", np.dtype(TYPES.get(name, np.float64)).newbyteorder("<")
    if not path.stat().st_size:
        return arrays.read_only(np.empty(0, kind))
    return np.asarray(np.memmap(path, kind, mode))


class _Growing:
    """An array that is made from its beginning to its end, in memory or in a file."""

    def __init__(self, name: str, code: str, folder: Path | None) -> None:
        self.name, self.folder, self.waiting, self.written = name, folder, array(code), 0
        self.file = None if folder is None else (folder / f"{name}.bin").open("wb")

    def __len__(self) -> int:
        return self.written + len(self.waiting)

    def extend(self, values: Any) -> None:
        self.waiting.extend(values)
        if self.file is not None and len(self.waiting) > _FLUSHED:
            self.flush()

    def flush(self) -> None:
        if self.file is not None:
            self.waiting.tofile(self.file)
            self.written += len(self.waiting)
            del self.waiting[:]

    def finished(self) -> NDArray[Any]:
        self.flush()
        if self.file is not None and self.folder is not None:
            self.file.close()
            return opened(self.folder, self.name)
        kind = TYPES.get(self.name, np.float64)
        return arrays.read_only(np.frombuffer(self.waiting, kind) if self.waiting else np.empty(0, kind))


class Index:
    """What one reading of the documents makes: ids, words, and arrays by name."""

    def __init__(
        self, fields: Sequence[str], columns: Sequence[str], analyzer: Analyzer, folder: Path | None = None
    ) -> None:
        self.fields, self.columns, self.analyzer, self.folder = tuple(fields), tuple(columns), analyzer, folder
        self.ids: list[str] = []
        self.words: dict[str, int] = {}
        self.arrays: dict[str, NDArray[Any]] = {}
        codes = {"tokens": "i", "bounds": "q", "text_bytes": "B", "text_bounds": "q"}
        codes |= {f"column-{number}": "d" for number in range(len(self.columns))}
        self._growing = {name: _Growing(name, code, folder) for name, code in codes.items()}
        self._numbered: dict[str, array[int]] = {}  # a run of letters -> the numbers of its words

    def read(self, source: Any, id_name: str | None, shown: bool | None) -> None:
        """Read all documents, and make their posting lists."""
        seen: set[str] = set()
        for name in ("bounds", "text_bounds"):
            self._growing[name].extend([0])
        wanted, met = (*self.fields, *self.columns), False
        text = "text" if "text" in self.fields else self.fields[0]
        try:
            with progress.bar(shown, None, "documents", columns=("spinner", "text", "elapsed")) as update:
                for where, name, row in rows(source, id_name, wanted, text):
                    if name in seen:
                        hint = "keep one document for each id"
                        raise check.error("two documents have the same id", got=repr(name), where=where, hint=hint)
                    seen.add(name)
                    self.ids.append(name)
                    met = met or any(field in row for field in self.fields)
                    self._add(row, where)
                    if update and len(self.ids) % _SHOWN_EVERY == 0:
                        update(len(self.ids), f"{len(self.ids):,d} documents")
                if not met:
                    got = "no documents" if not self.ids else f"fields {', '.join(self.fields)}"
                    raise check.error("no document has one of the fields", got=got, hint="name them: fields=…")
                self.arrays = {name: one.finished() for name, one in self._growing.items()}
                if update:
                    update(len(self.ids), f"{len(self.ids):,d} documents: posting lists")
                self._invert()
        finally:
            for one in self._growing.values():
                if one.file is not None:
                    one.file.close()
        self._count()

    def _add(self, row: Mapping[str, Any], where: str) -> None:
        kept: dict[str, str] = {}
        tokens = self._growing["tokens"]
        for field in self.fields:
            value = row.get(field)
            if value is not None and not isinstance(value, str) and value == value:  # NaN is missing, as pandas has it
                what, hint = f"the field {field} must be text", "leave it out of fields=, or take it as a column"
                raise check.error(what, got=type(value).__name__, where=where, hint=hint)
            if isinstance(value, str) and value:
                kept[field] = value
                tokens.extend(self._numbers_of(value))
            self._growing["bounds"].extend([len(tokens)])
        if len(tokens) > _MOST_TOKENS:
            hint = "index parts of the documents, search each, and put the runs together"
            got = f"over {_MOST_TOKENS:,d}"
            raise check.error("the documents have too many words for one index", got=got, hint=hint)
        for number, name in enumerate(self.columns):
            self._growing[f"column-{number}"].extend([_number(row.get(name), name, where)])
        texts = self._growing["text_bytes"]
        texts.extend(json.dumps(kept, ensure_ascii=False).encode("utf-8", "replace"))
        self._growing["text_bounds"].extend([len(texts)])

    def _numbers_of(self, text: str) -> "array[int]":
        """Return the words of a text by number, new ones too."""
        found, numbered = array("i"), self._numbered
        for word in self.analyzer.raw(text):
            numbers = numbered.get(word)
            if numbers is None:
                terms = self.analyzer.terms(word)
                numbers = array("i", [self.words.setdefault(term, len(self.words)) for term in terms])
                if len(word) < _REMEMBERED:
                    numbered[word] = numbers
            found += numbers
        return found

    def _new(self, name: str, size: int) -> NDArray[Any]:
        if self.folder is None or not size:
            return np.zeros(size, TYPES[name])
        return np.asarray(np.memmap(self.folder / f"{name}.bin", TYPES[name], "w+", shape=size))

    def _invert(self) -> None:
        n_fields, n_words = len(self.fields), len(self.words)
        texts = self.arrays["tokens"], self.arrays["bounds"], n_fields, n_words
        counts, totals = np.zeros(n_fields * n_words, np.int64), np.zeros(n_fields * n_words, np.int64)
        kernels.count_postings(*texts, counts, totals)
        lists = arrays.read_only(arrays.offsets_of(counts))
        posts = self._new("post_documents", int(lists[-1])), self._new("post_counts", int(lists[-1]))
        begin = 0
        while begin < counts.size:
            end = max(int(np.searchsorted(lists, lists[begin] + _AT_ONCE, "right")) - 1, begin + 1)
            kernels.fill_postings(*texts, lists, begin, end, *posts)
            begin = end
        self.arrays |= {"lists": lists, "totals": arrays.read_only(totals)}
        self.arrays |= {"post_documents": arrays.read_only(posts[0]), "post_counts": arrays.read_only(posts[1])}

    def _count(self) -> None:
        """Compute idf, share of words, mean lengths and norms, for each field."""
        bounds, lists = self.arrays["bounds"], self.arrays["lists"]
        n_fields, n_words = len(self.fields), len(self.words)
        lengths = np.diff(bounds).reshape(-1, n_fields)
        filled = (lengths > 0).sum(0)
        means = np.where(filled > 0, lengths.sum(0) / np.maximum(filled, 1), 1.0)
        df = np.diff(lists).reshape(n_fields, n_words)
        idf = arrays.read_only(np.log1p((filled[:, None] - df + 0.5) / (df + 0.5)).ravel())
        share = (self.arrays["totals"].reshape(n_fields, n_words) / np.maximum(lengths.sum(0), 1)[:, None]).ravel()
        norms = np.zeros(bounds.size - 1)
        posts = lists, self.arrays["post_documents"], self.arrays["post_counts"]
        kernels.fill_norms(*posts, idf, n_fields, n_words, norms)
        found = {"idf": idf, "share": share, "norms": norms, "means": means}
        self.arrays |= {name: arrays.read_only(one) for name, one in found.items()}


def _number(value: object, name: str, where: str) -> float:
    """Return the number of a column, also as text; NaN for a missing one."""
    if value is None or value == "":
        return float("nan")
    try:
        number: Any = float(value) if isinstance(value, str | bool) else value
        return check.number(f"the column {name}", number) if number == number else float("nan")
    except ValueError:
        what = f"the column {name} must be a number"
        raise check.error(what, got=repr(value), where=where, hint="missing values are empty") from None
