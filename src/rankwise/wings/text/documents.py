"""Documents that can be searched: words of their fields, how often each occurs, and their texts."""

import dataclasses
import json
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.base import arrays, threads
from rankwise.base import progress as bars
from rankwise.base.arrays import Array, Ids, Json, Offsets
from rankwise.check.parameters import AtLeast, Within, check_declared
from rankwise.models import storage
from rankwise.wings.text import kernels
from rankwise.wings.text.analyzer import Analyzer
from rankwise.wings.text.index import TYPES, Index, opened
from rankwise.wings.text.source import Source, queries_of

if TYPE_CHECKING:
    import polars as pl

_DESCRIPTION = "documents.json"
_ENCODED = 256
_SCORES_AT_ONCE = 1 << 24
_DAMAGED = "index the documents again, or get the folder again"


@dataclass(frozen=True)
class Bm25:
    """Parameters of BM25: idf = ln(1 + (N − df + ½)/(df + ½)); Σ idf·tf·(k₁+1)/(tf + k₁·(1 − b + b·length/mean))."""

    k1: Annotated[float, AtLeast(0), "How slowly further occurrences of a word add less."] = 1.2
    b: Annotated[float, Within(0, 1), "How much longer fields count less."] = 0.75

    def __post_init__(self) -> None:
        """Check the values."""
        check_declared(self)


@dataclass(frozen=True, eq=False)
class Words:
    """Texts as numbers of words: text t is ``numbers[offsets[t]:offsets[t + 1]]``, −1 for a word that no document has.

    ``distinct`` has each known word of a text once, with its ``counts``, by ``distinct_offsets``.
    """

    numbers: NDArray[np.int32]
    offsets: Offsets
    distinct: NDArray[np.int32]
    counts: Array
    distinct_offsets: Offsets


class Documents:
    """Documents by id, with the words of their fields.

    ``source`` is a file of JSON lines or of lines ``id<TAB>text`` (also ``.gz`` and ``.zst``), CSV, TSV or Parquet, a
    table of polars, pandas or Arrow, a dictionary from ids to texts or to dictionaries, or an iterable of
    dictionaries. ``id`` names the column of ids, by default the first of ``_id``, ``id``, ``docid`` and their like. A
    document whose field is missing or empty has no words there. ``columns`` are numbers that become features.

    With ``folder`` the index is made in the files of that folder, and only ids, words and counts are in memory. The
    folder is there when it is complete; ``force`` replaces one.

    >>> pages = Documents({"mean": "arithmetic mean of an array", "median": "median of an array"}, fields=("text",))
    >>> pages
    Documents(2 documents, 6 words, fields text)
    >>> pages.search(["the mean"], k=1)
    shape: (1, 3)
    ┌───────┬──────────┬─────────┐
    │ query ┆ document ┆ score   │
    │ ---   ┆ ---      ┆ ---     │
    │ str   ┆ str      ┆ f64     │
    ╞═══════╪══════════╪═════════╡
    │ 0     ┆ mean     ┆ 0.66301 │
    └───────┴──────────┴─────────┘
    """

    ids: Ids
    """(n_documents,) ids, as Python's text: one long id would widen an array of NumPy's."""
    fields: tuple[str, ...]
    analyzer: Analyzer
    words: dict[str, int]
    """Word -> its number."""
    columns: Mapping[str, Array]
    """Numbers of the documents by name; NaN where one is missing."""
    arrays: Mapping[str, NDArray[Any]]
    """Arrays of the index; see ``kernels``."""

    def __init__(
        self,
        source: Source,
        *,
        id: str | None = None,  # noqa: A002 (the usual name of the column)
        fields: Sequence[str] = ("title", "text"),
        columns: Sequence[str] = (),
        analyzer: Analyzer | None = None,
        bm25: Bm25 | None = None,
        folder: str | Path | None = None,
        force: bool = False,
        progress: bool | None = None,
    ) -> None:
        if isinstance(fields, str):
            raise check.error("fields must be several names", got=repr(fields), hint=f"write ({fields!r},)")
        self.fields, self.analyzer, self.bm25 = tuple(fields), analyzer or Analyzer(), bm25 or Bm25()
        if not self.fields or len({*self.fields, *columns, id}) < 1 + len(self.fields) + len(columns):
            got, hint = str((id, *fields, *columns)), "name each column once"
            raise check.error("fields, columns and id must be different names", got=got, hint=hint)

        def fill(new: Path | None) -> None:
            index = Index(self.fields, columns, self.analyzer, new)
            index.read(source, id, progress)
            columns_of = {name: index.arrays.pop(f"column-{number}") for number, name in enumerate(columns)}
            self._take(index.ids, index.words, columns_of, index.arrays)
            if new is not None:
                self.write_files(new)

        if folder is None:
            fill(None)
        else:
            self.__dict__.update(_read(self._write(folder, fill, force=force)))

    def save(self, folder: str | Path, *, force: bool = False) -> Path:
        """Write the index to a folder, whole or not at all; no pickle."""
        return self._write(folder, self.write_files, force=force)

    @classmethod
    def load(cls, folder: str | Path, *, verify: bool = True) -> Self:
        """Open a saved index, whose arrays are mapped into memory: it may be larger than that.

        Every byte is read and compared with its checksum. ``verify=False`` opens a folder of your own at once.
        """
        described(folder, "documents", "Documents.save", verify=verify)
        return cls.read_files(Path(folder), verify=verify)

    def _write(self, folder: str | Path, fill: Callable[[Path], None], *, force: bool) -> Path:
        described = {"kind": "documents", "opened_by": "rw.text.Documents.load"}
        return storage.write(folder, described, {}, fill=fill, force=force)

    def write_files(self, folder: Path) -> None:
        """Write the arrays that a folder lacks, and what describes them; :meth:`save` and larger folders do it."""
        columns = {f"column-{number}": values for number, values in enumerate(self.columns.values())}
        for name, values in {**self.arrays, **columns}.items():
            if not (path := folder / f"{name}.bin").exists():
                values.astype(values.dtype.newbyteorder("<"), copy=False).tofile(path)
        described = {
            "fields": self.fields, "analyzer": dataclasses.asdict(self.analyzer), "bm25": dataclasses.asdict(self.bm25),
            "columns": list(self.columns), "ids": self.ids.tolist(), "words": list(self.words),
        }  # fmt: skip
        (folder / _DESCRIPTION).write_text(json.dumps(described), encoding="utf-8")

    @classmethod
    def read_files(cls, folder: Path, *, verify: bool = True) -> Self:
        """Return the documents that :meth:`write_files` wrote to a folder, whose files are as they were written."""
        documents = cls.__new__(cls)
        documents.__dict__.update(_read(folder))
        if verify and not _fits(documents):
            raise check.error("the index does not fit together", where=str(folder), hint=_DAMAGED)
        return documents

    def _take(
        self, ids: Sequence[str], words: dict[str, int], columns: Mapping[str, Array], found: Mapping[str, NDArray[Any]]
    ) -> None:
        self.ids, self.words, self.columns, self.arrays = np.array(ids, np.object_), words, columns, found

    def __len__(self) -> int:
        """Return the number of documents."""
        return int(self.ids.size)

    def __repr__(self) -> str:
        """Say how many documents and words there are."""
        return f"Documents({len(self):,d} documents, {len(self.words):,d} words, fields {', '.join(self.fields)})"

    def text(self, document: str) -> dict[str, str]:
        """Return the fields of a document, as they were given."""
        return self._fields_of(int(self.places([document])[0]))

    def _fields_of(self, place: int) -> dict[str, str]:
        start, stop = self.arrays["text_bounds"][place : place + 2].tolist()
        return cast("dict[str, str]", json.loads(self.arrays["text_bytes"][start:stop].tobytes()))

    def places(self, ids: Iterable[str]) -> NDArray[np.int64]:
        """Return the places of documents by id; an unknown id is refused."""
        try:
            return np.array([self._places[one] for one in ids], np.int64)
        except KeyError as unknown:
            hint = "index all documents of the runs, with ids spelt alike"
            raise check.error("a document is not among those indexed", got=repr(unknown.args[0]), hint=hint) from None

    @cached_property
    def _places(self) -> dict[str, int]:
        return {one: place for place, one in enumerate(self.ids.tolist())}

    @cached_property
    def _documents_with(self) -> NDArray[np.int64]:
        """How many fields of documents have each word."""
        counts: NDArray[np.int64] = np.diff(self.arrays["lists"]).reshape(len(self.fields), -1).sum(0)
        return counts

    def numbers_of(self, texts: Sequence[str]) -> Words:
        """Return texts as numbers of words, as queries are looked up."""
        numbers, offsets = array("i"), [0]
        for text in texts:
            numbers.extend(self.words.get(term, -1) for term in self.analyzer(text))
            offsets.append(len(numbers))
        flat = np.frombuffer(numbers, np.int32) if numbers else np.empty(0, np.int32)
        bounds = np.array(offsets, np.int64)
        text_of = np.repeat(np.arange(len(texts)), np.diff(bounds))
        known = flat >= 0
        keys, counts = np.unique(text_of[known] * max(len(self.words), 1) + flat[known], return_counts=True)
        distinct_offsets = np.searchsorted(keys, np.arange(len(texts) + 1) * max(len(self.words), 1))
        distinct = (keys % max(len(self.words), 1)).astype(np.int32)
        return Words(flat, bounds, distinct, counts.astype(np.float64), distinct_offsets)

    def search(self, queries: Any, k: int = 100, *, weights: Mapping[str, float] | None = None) -> "pl.DataFrame":
        """Return the first ``k`` documents of each query by BM25: a run, columns query, document and score.

        The score is the sum over fields, each with its weight, 1 by default.
        """
        check.integer("k", k, least=1)
        for name in weights or {}:
            check.choice("weights", name, self.fields)
        names, texts = queries_of(queries)
        words = self.numbers_of(texts)
        k = min(k, max(len(self), 1))
        documents = np.full(len(texts) * k, -1, np.int64)
        scores = np.empty(len(texts) * k)
        shares = np.array([check.number("a weight", (weights or {}).get(field, 1.0)) for field in self.fields])
        costs = np.concatenate([[0.0], np.cumsum(10.0 * self._documents_with[words.distinct])])[words.distinct_offsets]
        stored = [self.arrays[name] for name in ("lists", "post_documents", "post_counts", "bounds", "idf", "means")]
        threads.over_queries(
            kernels.search, words.distinct_offsets, words.distinct, words.counts, shares, *stored,
            self.bm25.k1, self.bm25.b, k, documents, scores, work=np.diff(costs),
        )  # fmt: skip
        return self._run(names, documents, scores)

    def nearest(
        self,
        queries: Any,
        encode: Callable[[list[str]], ArrayLike],
        k: int = 100,
        *,
        vectors: ArrayLike | None = None,
        progress: bool | None = None,
    ) -> "pl.DataFrame":
        """Return the first ``k`` documents of each query by the cosine of vectors, exactly: a run.

        ``encode`` returns a row for each of a list of texts, such as ``SentenceTransformer(…).encode``; a document's
        text is that of its fields, in their order. ``vectors`` are those of the documents, as :meth:`encoded` returns
        them, to be kept with ``numpy.save``. Of equal scores the first document is taken.
        """
        check.integer("k", k, least=1)
        names, texts = queries_of(queries)
        stored = (
            self.encoded(encode, progress=progress) if vectors is None else unit_vectors("vectors", vectors, len(self))
        )
        asked = (
            unit_vectors("encode", encode(texts), len(texts)) if texts else np.empty((0, stored.shape[1]), np.float32)
        )
        if asked.shape[1] != stored.shape[1]:
            got, hint = f"{asked.shape[1]} of queries and {stored.shape[1]} of documents", "encode both by one model"
            raise check.error("vectors must have the same length", got=got, hint=hint)
        k = min(k, max(len(self), 1))
        documents, scores = np.full(len(texts) * k, -1, np.int64), np.empty(len(texts) * k)
        everything = arrays.read_only(np.arange(len(self)))
        block = max(1, _SCORES_AT_ONCE // max(1, len(self)))
        for first in range(0, len(texts), block):
            totals = arrays.read_only((asked[first : first + block] @ stored.T).astype(np.float64))
            offsets, span = np.arange(len(totals) + 1) * k, slice(first * k, (first + len(totals)) * k)
            work = np.full(len(totals), 2.0 * len(self))
            threads.over_queries(
                kernels.best_of_all, offsets, totals, everything, documents[span], scores[span], work=work
            )
        return self._run(names, documents, scores)

    def encoded(self, encode: Callable[[list[str]], ArrayLike], *, progress: bool | None = None) -> NDArray[np.float32]:
        """Return the vectors of all documents, of length 1; zeros stay zeros."""
        parts = []
        with bars.bar(progress, len(self), "vectors") as update:
            for first in range(0, len(self), _ENCODED):
                places = range(first, min(first + _ENCODED, len(self)))
                texts = [" ".join(self._fields_of(place).values()) for place in places]
                parts.append(unit_vectors("encode", encode(texts), len(texts)))
                if update:
                    update(places.stop, f"{places.stop:,d} documents")
        return np.concatenate(parts)

    def _run(self, names: Sequence[str], documents: NDArray[np.int64], scores: Array) -> "pl.DataFrame":
        import polars as pl

        found = documents >= 0
        query = np.repeat(np.array(names, np.object_), documents.size // max(len(names), 1))[found]
        columns = {"query": query, "document": self.ids[documents[found]], "score": scores[found]}
        return pl.DataFrame(columns, {"query": pl.String, "document": pl.String, "score": pl.Float64})


def described(folder: str | Path, kind: str, saver: str, *, verify: bool) -> Json:
    """Return the description of a folder of this kind, after its files were compared with their checksums."""
    description, _ = storage.read(folder)
    if (found := description.get("kind", "model")) != kind:
        hint = f"pass the folder that {saver} wrote"
        raise check.error(f"the folder holds no {kind}", got=repr(found), where=str(folder), hint=hint)
    if verify:
        storage.verify(folder, description, _DAMAGED)
    return description


def _read(folder: Path) -> dict[str, Any]:
    """Return the attributes of the documents in a folder."""
    with storage.malformed_as_error(folder):
        described = json.loads((folder / _DESCRIPTION).read_text(encoding="utf-8"))
        return {
            "fields": tuple(described["fields"]),
            "analyzer": Analyzer(**described["analyzer"]),
            "bm25": Bm25(**described["bm25"]),
            "ids": np.array(described["ids"], np.object_),
            "words": {word: number for number, word in enumerate(described["words"])},
            "columns": {name: opened(folder, f"column-{number}") for number, name in enumerate(described["columns"])},
            "arrays": {name: opened(folder, name) for name in TYPES},
        }


def _fits(documents: Documents) -> bool:
    """Whether arrays point nowhere outside one another, as those of a forged folder may: kernels trust them."""
    one, n_documents = documents.arrays, len(documents)
    n_segments, n_lists = n_documents * len(documents.fields), len(documents.words) * len(documents.fields)
    sizes = {
        "bounds": n_segments + 1, "text_bounds": n_documents + 1, "lists": n_lists + 1, "totals": n_lists,
        "post_counts": one["post_documents"].size, "idf": n_lists, "share": n_lists, "norms": n_segments,
        "means": len(documents.fields),
    }  # fmt: skip
    points = {"bounds": "tokens", "text_bounds": "text_bytes", "lists": "post_documents"}
    limits = {"tokens": len(documents.words), "post_documents": n_documents}
    return (
        all(one[name].size == size for name, size in sizes.items())
        and all(
            one[a][0] == 0 and one[a][-1] == one[b].size and (np.diff(one[a]) >= 0).all() for a, b in points.items()
        )
        and all(one[a].min(initial=0) >= 0 and one[a].max(initial=-1) < most for a, most in limits.items())
        and all(values.size == n_documents for values in documents.columns.values())
    )


def unit_vectors(what: str, vectors: ArrayLike, count: int) -> NDArray[np.float32]:
    """Return vectors of length 1; zeros stay zeros."""
    got = "what is no matrix of numbers"
    try:
        found = np.asarray(vectors, np.float32)
        got = f"shape {found.shape}" if found.ndim != 2 or len(found) != count else ""
        got = got or "NaN or infinity" * (not np.isfinite(found).all())
    except (TypeError, ValueError):  # rows of several lengths, a sparse matrix
        found = np.empty((0, 0), np.float32)
    if got:
        what = f"{what} must give a finite vector for each text"
        raise check.error(what, got=got, hint=f"a matrix with {count} rows")
    length = np.linalg.norm(found, axis=1, keepdims=True)
    unit: NDArray[np.float32] = np.divide(found, length, out=np.zeros_like(found), where=length > 0)
    return unit
