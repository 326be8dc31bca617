"""Documents that can be searched: words of their fields, how often each occurs, and their texts."""

import json
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.base import arrays, progress, threads
from rankwise.base.arrays import Array, Ids, Offsets
from rankwise.data import io
from rankwise.wings.text import kernels
from rankwise.wings.text.analyzer import Analyzer

if TYPE_CHECKING:
    from rankwise.data.io import Table

Source = "Table | str | Path | Mapping[str, str | Mapping[str, object]] | Iterable[Mapping[str, object]]"
_SHOWN_EVERY = 2_000
_MOST_TOKENS = 2**31 - 1


@dataclass(frozen=True)
class Bm25:
    """Parameters of BM25: idf = ln(1 + (N − df + ½)/(df + ½)); Σ idf·tf·(k₁+1)/(tf + k₁·(1 − b + b·length/mean))."""

    k1: float = 1.2
    b: float = 0.75


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

    ``source`` is a file of JSON lines (``.jsonl``, also ``.gz`` and ``.zst``), CSV or Parquet, a table of polars,
    pandas or Arrow, a dictionary from ids to texts or to dictionaries, or an iterable of dictionaries. A document
    whose field is missing or empty has no words there. ``columns`` are numbers that become features.

    >>> pages = Documents({"mean": "arithmetic mean of an array", "median": "median of an array"}, fields=("text",))
    >>> pages
    Documents(2 documents, 5 words, fields text)
    >>> pages.search(["the mean"], k=1)
    shape: (1, 3)
    ┌───────┬──────────┬──────────┐
    │ query ┆ document ┆ score    │
    │ ---   ┆ ---      ┆ ---      │
    │ str   ┆ str      ┆ f64      │
    ╞═══════╪══════════╪══════════╡
    │ 0     ┆ mean     ┆ 0.643764 │
    └───────┴──────────┴──────────┘
    """

    ids: Ids
    """(n_documents,) ids, as text."""
    fields: tuple[str, ...]
    analyzer: Analyzer
    words: dict[str, int]
    """Word -> its number."""
    columns: Mapping[str, Array]
    """Numbers of the documents by name; NaN where one is missing."""
    statistics: tuple[Array, Array, Array, Array]
    """(n_fields · n_words,) idf and share of the field's words, (n_documents · n_fields,) norms, (n_fields,) means."""
    arrays: Mapping[str, NDArray[Any]]
    """tokens, bounds, lists, post_documents, post_counts, totals, text_bytes and text_bounds; see ``kernels``."""

    def __init__(
        self,
        source: Any,
        *,
        id: str = "id",  # noqa: A002 (the usual name of the column)
        fields: Sequence[str] = ("title", "text"),
        columns: Sequence[str] = (),
        analyzer: Analyzer | None = None,
        bm25: Bm25 | None = None,
        progress: bool | None = None,
    ) -> None:
        self.fields, self.analyzer, self.bm25 = tuple(fields), analyzer or Analyzer(), bm25 or Bm25()
        if not self.fields or len({*self.fields, *columns, id}) < 1 + len(self.fields) + len(columns):
            hint = "name each column once"
            raise check.error(
                "fields, columns and id must be different names", got=str((id, *fields, *columns)), hint=hint
            )
        collected = _Collected(self.fields, tuple(columns), self.analyzer)
        collected.read(source, id, progress)
        self.ids = np.array(collected.ids, np.str_)
        self.words = collected.words
        self.columns = {name: np.frombuffer(one, np.float64) for name, one in collected.numbers.items()}
        self._index(collected)

    def _index(self, collected: "_Collected") -> None:
        tokens = np.frombuffer(collected.tokens, np.int32) if collected.tokens else np.empty(0, np.int32)
        bounds = np.frombuffer(collected.bounds, np.int64)
        n_lists = len(self.fields) * len(self.words)
        counts, totals = np.zeros(n_lists, np.int64), np.zeros(n_lists, np.int64)
        kernels.count_postings(tokens, bounds, len(self.fields), len(self.words), counts, totals)
        lists = arrays.offsets_of(counts)
        post_documents, post_counts = (np.empty(int(lists[-1]), np.int32) for _ in range(2))
        kernels.fill_postings(tokens, bounds, len(self.fields), len(self.words), lists, post_documents, post_counts)
        self.arrays = {
            "tokens": tokens, "bounds": bounds, "lists": lists, "post_documents": post_documents,
            "post_counts": post_counts, "totals": totals, "text_bytes": np.frombuffer(collected.texts, np.uint8),
            "text_bounds": np.frombuffer(collected.text_bounds, np.int64),
        }  # fmt: skip
        self._count()

    def _count(self) -> None:
        """Compute what follows from the arrays: idf, mean lengths and norms, for each field."""
        bounds, lists = self.arrays["bounds"], self.arrays["lists"]
        n_fields, n_words = len(self.fields), len(self.words)
        lengths = np.diff(bounds).reshape(-1, n_fields)
        filled = (lengths > 0).sum(0)
        means = np.where(filled > 0, lengths.sum(0) / np.maximum(filled, 1), 1.0)
        df = np.diff(lists).reshape(n_fields, n_words)
        idf = np.log1p((filled[:, None] - df + 0.5) / (df + 0.5)).ravel()
        share = (self.arrays["totals"].reshape(n_fields, n_words) / np.maximum(lengths.sum(0), 1)[:, None]).ravel()
        norms = np.zeros(bounds.size - 1)
        posts = lists, self.arrays["post_documents"], self.arrays["post_counts"]
        kernels.fill_norms(*posts, idf, n_fields, n_words, norms)
        self.statistics = idf, share, norms, means

    def __len__(self) -> int:
        """Return the number of documents."""
        return int(self.ids.size)

    def __repr__(self) -> str:
        """Say how many documents and words there are."""
        return f"Documents({len(self):,d} documents, {len(self.words):,d} words, fields {', '.join(self.fields)})"

    def text(self, document: str) -> dict[str, str]:
        """Return the fields of a document, as they were given."""
        place = int(self.places([document])[0])
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

    def search(self, queries: Any, k: int = 100, *, weights: Mapping[str, float] | None = None) -> Any:
        """Return the first ``k`` documents of each query by BM25: a run, columns query, document and score.

        The score is the sum over fields, each with its weight, 1 by default.
        """
        import polars as pl

        check.integer("k", k, least=1)
        for name in weights or {}:
            check.choice("weights", name, self.fields)
        names, texts = queries_of(queries)
        words = self.numbers_of(texts)
        k = min(k, max(len(self), 1))
        documents = np.full(len(texts) * k, -1, np.int64)
        scores = np.empty(len(texts) * k)
        shares = np.array([float((weights or {}).get(field, 1.0)) for field in self.fields])
        stored = [self.arrays[name] for name in ("lists", "post_documents", "post_counts", "bounds")]
        idf, _, _, means = self.statistics
        lengths = np.diff(self.arrays["lists"]).reshape(len(self.fields), -1).sum(0)
        costs = np.diff(np.concatenate([[0.0], np.cumsum(10.0 * lengths[words.distinct])])[words.distinct_offsets])
        threads.over_queries(
            kernels.search, words.distinct_offsets, words.distinct, words.counts, shares, *stored, idf, means,
            self.bm25.k1, self.bm25.b, k, documents, scores, work=costs,
        )  # fmt: skip
        found = documents >= 0
        query = np.repeat(np.array(names, np.str_), k)[found]
        return pl.DataFrame({"query": query, "document": self.ids[documents[found]], "score": scores[found]})


def queries_of(queries: Any) -> tuple[list[str], list[str]]:
    """Return the ids and texts of queries: a list of texts, a dictionary, a table, or a file with id and text."""
    if isinstance(queries, str | Path) or hasattr(queries, "columns"):
        rows = [*_rows(queries, "id", ("text",))]
        return [str(row["id"]) for _, row in rows], [str(row.get("text") or "") for _, row in rows]
    if isinstance(queries, Mapping):
        return [str(one) for one in queries], [str(text) for text in queries.values()]
    texts = list(queries)
    if wrong := next((text for text in texts if not isinstance(text, str)), None):
        raise check.error("a query must be a text", got=type(wrong).__name__, hint="pass texts, or a dictionary by id")
    return [str(number) for number in range(len(texts))], texts


class _Collected:
    """What one reading of the documents collects."""

    def __init__(self, fields: tuple[str, ...], columns: tuple[str, ...], analyzer: Analyzer) -> None:
        self.fields, self.analyzer = fields, analyzer
        self.ids: list[str] = []
        self.words: dict[str, int] = {}
        self.tokens, self.bounds = array("i"), array("q", [0])
        self.texts, self.text_bounds = bytearray(), array("q", [0])
        self.numbers = {name: array("d") for name in columns}

    def read(self, source: Any, id_name: str, shown: bool | None) -> None:
        """Read all documents."""
        seen: set[str] = set()
        numbered: dict[str, array[int]] = {}  # a run of letters -> the numbers of its words
        with progress.bar(shown, None, "documents", columns=("spinner", "text", "elapsed")) as update:
            for where, row in _rows(source, id_name, self.fields):
                name = row.get(id_name)
                if name is None or str(name) == "":
                    raise check.error(f"a document has no {id_name}", where=where, hint="name the column: id=…")
                if str(name) in seen:
                    hint = "keep one document for each id"
                    raise check.error("two documents have the same id", got=repr(str(name)), where=where, hint=hint)
                seen.add(str(name))
                self.ids.append(str(name))
                self._add(row, where, numbered)
                if update and len(self.ids) % _SHOWN_EVERY == 0:
                    update(len(self.ids), f"{len(self.ids):,d} documents")
        if not self.ids:
            raise check.error("there are no documents", hint="give at least one")

    def _add(self, row: Mapping[str, object], where: str, numbered: "dict[str, array[int]]") -> None:
        kept: dict[str, str] = {}
        for field in self.fields:
            value = row.get(field)
            if value is not None and not isinstance(value, str):
                what, hint = f"the field {field} must be text", "leave it out of fields=, or take it as a column"
                raise check.error(what, got=type(value).__name__, where=where, hint=hint)
            if value:
                kept[field] = value
                for word in self.analyzer.raw(value):
                    numbers = numbered.get(word)
                    if numbers is None:
                        terms = self.analyzer.terms(word)
                        numbers = array("i", [self.words.setdefault(term, len(self.words)) for term in terms])
                        if len(word) < 64:  # longer ones are hardly met again
                            numbered[word] = numbers
                    self.tokens.extend(numbers)
            self.bounds.append(len(self.tokens))
        for name, values in self.numbers.items():
            value = row.get(name)
            values.append(np.nan if value is None else check.number(f"the column {name}", value))
        self.texts += json.dumps(kept, ensure_ascii=False).encode("utf-8", "replace")
        self.text_bounds.append(len(self.texts))


def _rows(source: Any, id_name: str, fields: Sequence[str]) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Iterate over where a document stands, and its columns."""
    if isinstance(source, str | Path):
        yield from _of_file(Path(source), id_name)
    elif isinstance(source, Mapping):
        for name, value in source.items():
            row = {fields[0]: value} if isinstance(value, str) else cast("Mapping[str, object]", value)
            yield f"document {name!r}", {**row, id_name: name}
    elif hasattr(source, "columns") or hasattr(source, "__arrow_c_stream__"):
        frame = io.as_polars(source)[0].collect()
        if id_name not in frame.columns:
            raise check.error(
                f"the table has no column {id_name!r}", got=", ".join(frame.columns), hint="name it: id=…"
            )
        for number, row in enumerate(frame.iter_rows(named=True)):
            yield f"row {number}", row
    else:
        for number, row in enumerate(source):
            if not isinstance(row, Mapping):
                hint = "give dictionaries with an id and the fields"
                raise check.error(
                    "a document must be a dictionary", got=type(row).__name__, where=f"document {number}", hint=hint
                )  # noqa: E501
            yield f"document {number}", row


def _of_file(path: Path, id_name: str) -> Iterator[tuple[str, Mapping[str, object]]]:
    if io.is_parquet(path):
        import polars as pl

        with check.library("cannot read the table", path):
            yield from _rows(pl.read_parquet(path), id_name, ())
        return
    if path.name.split(".")[1:2] in (["csv"], ["tsv"]):
        import polars as pl

        with check.library("cannot read the table", path):
            content = io.read_bytes(path)
            separator = "\t" if ".tsv" in path.name else ","
            yield from _rows(pl.read_csv(content, separator=separator, infer_schema=False), id_name, ())
        return
    for number, line in io.read_lines(path):
        where = f"{io.shown(path)}, line {number}"
        try:
            row = json.loads(line, object_pairs_hook=io.without_repeats)
        except ValueError as wrong:
            raise check.error(
                "a line is not JSON", got=str(wrong), where=where, hint="write one object a line"
            ) from None
        if not isinstance(row, dict):
            raise check.error("a line must be a JSON object", got=type(row).__name__, where=where)
        yield where, row
