"""What rerankers learn from and score: queries and documents as text, and ranking data beside them."""

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.arrays import Array, Ids, Offsets, offsets_of, rows_of
from rankwise.data import leakage
from rankwise.data.columns import COLUMNS, NamedColumns, is_text
from rankwise.data.dataset import RankingDataset
from rankwise.plain import Keywords
from rankwise.rerank.data.rows import TextColumns, TextRoles, gather

if TYPE_CHECKING:
    from rankwise.stream import Stream

_LETTERS = 60  # of a value in an error
BY_DOCUMENT = tuple(
    column.name
    for column in COLUMNS
    if column.per == "document" and column.kind == "number" and column.in_text_rows and column.name != "labels"
)
"""What objectives may take of each document beside its label."""


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Lists:
    """A query's text and the texts of its documents, for many queries; list ``q`` owns documents ``offsets[q]`` and on.

    Documents lie flat, as everywhere: no list is padded. All that is not text (labels, ids, weights, scores of a
    teacher, propensities …) is in ``data``, a :class:`rankwise.RankingDataset` that has the texts' rows, so that
    ``rw.evaluate(scores, lists.data)`` and its kind take it. Nothing can be changed; ``take`` and ``with_`` give other
    lists, and :func:`rankwise.split` and :func:`rankwise.folds` cut them by query.

    >>> lists = Lists(["red shoe", "hat"], ["a red shoe", "a shoe", "a hat"], [2, 1, 1], [0, 2, 3])
    >>> lists
    Lists(2 queries, 3 documents, labels 1 to 2)
    >>> lists.take([1]).documents
    ('a hat',)
    >>> list(lists.pairs())
    [('red shoe', 'a red shoe'), ('red shoe', 'a shoe'), ('hat', 'a hat')]
    """

    queries: tuple[str, ...]
    """The text of each query."""
    documents: tuple[str, ...]
    """The text of each document, flat."""
    data: RankingDataset
    """Labels, offsets and all else of the same documents; it has no features unless they were given."""
    origin: str = ""
    """How documents came onto the lists, where that is known: ``"judged documents and 8 drawn from the run"``."""

    def __init__(
        self,
        queries: Iterable[str],
        documents: Iterable[str],
        labels: ArrayLike | None,
        offsets: ArrayLike,
        *,
        features: ArrayLike | None = None,
        **columns: Unpack[NamedColumns],
    ) -> None:
        texts = tuple(documents)
        known = np.zeros(len(texts)) if labels is None else labels
        matrix = np.empty((len(texts), 0), np.float32) if features is None else features
        self._fill(tuple(queries), texts, RankingDataset(matrix, known, offsets, **columns))

    @classmethod
    def of(cls, queries: Iterable[str], documents: Iterable[str], data: RankingDataset, *, origin: str = "") -> Self:
        """Put texts beside ranking data, with features or without: one per query, and one per document."""
        lists = cls.__new__(cls)
        lists._fill(tuple(queries), tuple(documents), data)
        object.__setattr__(lists, "origin", origin)
        return lists

    @classmethod
    def from_lists(
        cls,
        queries: Iterable[str],
        documents: Iterable[Sequence[str]],
        labels: Iterable[Sequence[float]] | None = None,
        *,
        query_ids: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        **columns: Iterable[Sequence[Any]],
    ) -> Self:
        """Build from lists within lists, as the trainers of others have them: one list of documents for each query.

        Without ``labels`` all are 0, which will do for documents that are only to be scored. ``columns`` hold one list
        for each query, too: ``document_ids``, ``teacher_scores``, ``document_weights``, ``propensities`` ….

        >>> Lists.from_lists(["red shoe", "hat"], [["a red shoe", "a shoe"], ["a hat"]], [[2, 1], [1]]).labels
        array([2., 1., 1.])
        """
        nested = [_texts("documents", documents_of) for documents_of in documents]
        offsets = offsets_of([len(texts) for texts in nested])
        named: Keywords = {"query_ids": query_ids, "weights": weights}
        named |= {name: _joined(name, values, offsets) for name, values in columns.items()}
        grades = None if labels is None else _joined("labels", labels, offsets)
        return cls(
            queries, (text for texts in nested for text in texts), grades, offsets, **cast("NamedColumns", named)
        )

    @classmethod
    def from_dataset(cls, dataset: Iterable[Mapping[str, Any]], **columns: Unpack[TextColumns]) -> Self:
        """Build from a Hugging Face ``Dataset``, or other rows by column, which are named as in `rankwise.rerank.read`.

        >>> rows = [{"question": "hat", "docs": ["a hat", "a shoe"], "labels": [1, 0]}]
        >>> Lists.from_dataset(rows, query="question")
        Lists(1 query, 2 documents, labels 0 to 1)
        """
        if isinstance(dataset, Mapping):
            hint = "choose one, such as dataset['train']"
            raise check.error("a Dataset with one part is needed", got=f"parts {', '.join(dataset)}", hint=hint)
        if iter(dataset) is dataset:  # can be gone through only once
            dataset = list(dataset)
        names = getattr(dataset, "column_names", None) or list(next(iter(dataset), ()))
        roles = TextRoles(names, **columns)
        if hasattr(dataset, "select_columns"):
            dataset = dataset.select_columns(roles.used)
        return gather(cls, enumerate(dataset), roles, lambda row: f"row {row}")

    def _fill(self, queries: tuple[str, ...], documents: tuple[str, ...], data: RankingDataset) -> None:
        for what, texts, count in (("query", queries, data.n_queries), ("document", documents, data.n_docs)):
            if len(texts) != count:
                raise check.error(f"there must be one text for each {what}", got=f"{len(texts)} texts for {count}")
            wrong = next((number for number, text in enumerate(texts) if not is_text(text)), None)
            if wrong is not None:
                hint = "give an empty text to a document that has none"
                got, where = repr(texts[wrong])[:_LETTERS], f"{what} number {wrong}"
                raise check.error(
                    f"the text of a {what} must be a str that UTF-8 can hold", got=got, where=where, hint=hint
                )
        object.__setattr__(self, "queries", queries)
        object.__setattr__(self, "documents", documents)
        object.__setattr__(self, "data", data)

    @property
    def labels(self) -> Array:
        """(n_docs,) relevance: real numbers of 0 (not relevant) or more."""
        return self.data.labels

    @property
    def offsets(self) -> Offsets:
        """(n_queries + 1,) the document where each list starts; the last is the number of documents."""
        return self.data.offsets

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of documents of each query."""
        return self.data.sizes

    @property
    def query_ids(self) -> Ids | None:
        """(n_queries,) integers or strings, all different."""
        return self.data.query_ids

    @property
    def document_ids(self) -> Ids | None:
        """(n_docs,) integers or strings."""
        return self.data.document_ids

    @property
    def weights(self) -> Array | None:
        """(n_queries,) how much each query counts."""
        return self.data.weights

    @property
    def columns(self) -> dict[str, Array]:
        """What there is of ``teacher_scores``, ``document_weights`` and ``propensities``, which objectives take."""
        found = {name: getattr(self.data, name) for name in BY_DOCUMENT}
        return {name: values for name, values in found.items() if values is not None}

    @property
    def candidates(self) -> str:
        """How many documents a query has, and which: what metrics of these lists are measured over.

        >>> Lists(["red shoe", "hat"], ["a red shoe", "a shoe", "a hat"], [2, 1, 1], [0, 2, 3]).candidates
        '1.5 documents per query on average (median 1.5)'
        """
        mean, median = float(self.sizes.mean()), float(np.median(self.sizes))
        count = f"{mean:,.4g} documents per query on average (median {median:,g})"
        return f"{count}: {self.origin}" if self.origin else count

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return self.data.n_queries

    @property
    def n_docs(self) -> int:
        """Number of documents."""
        return self.data.n_docs

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Give query and document of each row, as tokenizers take them."""
        offsets = self.offsets
        for number, query in enumerate(self.queries):
            for document in self.documents[offsets[number] : offsets[number + 1]]:
                yield query, document

    def nested(self, column: Sequence[Any] | NDArray[Any]) -> list[list[Any]]:
        """Cut a flat column, such as ``documents`` or scores, into one list for each query."""
        values: Any = column.tolist() if isinstance(column, np.ndarray) else list(column)
        bounds = self.offsets.tolist()
        return [values[first:last] for first, last in itertools.pairwise(bounds)]

    def take(self, queries: ArrayLike | slice) -> Self:
        """Give the lists of these queries, in this order: a slice, a mask or numbers."""
        numbers = self.data.query_numbers(queries)
        rows, _ = rows_of(numbers, self.offsets)
        documents = self.documents[rows] if isinstance(rows, slice) else [self.documents[row] for row in rows.tolist()]
        texts = (self.queries[number] for number in numbers.tolist())
        return self.of(texts, documents, self.data.take(numbers), origin=self.origin)

    def with_(self, **changes: Any) -> Self:
        """Give a copy with ``queries``, ``documents`` or columns of ``data`` replaced, and checked again."""
        queries, documents = changes.pop("queries", self.queries), changes.pop("documents", self.documents)
        data = self.data.with_(**changes) if changes else self.data
        return self.of(queries, documents, data, origin=self.origin)

    def stream(self, seed: int, round: int = 0) -> "Stream":
        """Give the random stream of these queries, keyed by their ids."""
        return self.data.stream(seed, round)

    def to_dataset(self) -> Any:
        """Give a Hugging Face ``Dataset`` as sentence-transformers trains on: a query, its documents, their labels.

        The columns are ``query``, ``documents``, then what there is of ``teacher_scores``, ``document_weights``,
        ``propensities`` and ``weight``, and last ``labels``; needs the package ``datasets``.
        """
        datasets = check.extra("datasets", "rerank")  # noqa: S610 (not the extra of Django)
        columns: Keywords = {"query": list(self.queries), "documents": self.nested(self.documents)}
        columns |= {name: self.nested(values) for name, values in self.columns.items()}
        if self.weights is not None:
            columns["weight"] = self.weights.tolist()
        return datasets.Dataset.from_dict({**columns, "labels": self.nested(self.labels)})

    def __len__(self) -> int:
        return self.n_queries

    def compare_with(self, seen: "Lists", part: str) -> None:
        """Warn of queries that this ``part`` of the data shares with training data, by id or by text."""
        leakage.warn_shared([seen._queries()], self._queries(), part, "text")

    def _queries(self) -> leakage.Queries:
        """The queries by id and by text; a text that several queries have tells none of them."""
        digests = [hashlib.blake2b(text.encode(), digest_size=8).digest() for text in self.queries]
        texts = np.frombuffer(b"".join(digests), np.uint64)
        _, place, counts = np.unique(texts, return_inverse=True, return_counts=True)
        alone = np.where(counts[place] == 1, texts, 0).astype(np.uint64)
        return leakage.Queries(leakage.unless_numbers(self.data.query_ids), alone)

    def __repr__(self) -> str:
        return repr(self.data).replace("RankingDataset", type(self).__name__).replace(", 0 features", "")


def _texts(what: str, values: Sequence[str]) -> Sequence[str]:
    if isinstance(values, str):
        hint = "pass [[…], […]]; documents of all queries in one list go to Lists(queries, documents, labels, offsets)"
        raise check.error(f"{what} must be one list for each query", got=f"the text {values[:40]!r}", hint=hint)
    return values


def _joined(name: str, values: Iterable[Sequence[Any]], offsets: Offsets) -> list[Any]:
    """Put the lists of a column one after the other; each must be as long as the list of documents."""
    lists = [list(one) for one in values]
    sizes = np.diff(offsets)
    if len(lists) != sizes.size:
        raise check.error(f"{name} must be one list for each query", got=f"{len(lists)} lists for {sizes.size} queries")
    for number, (one, size) in enumerate(zip(lists, sizes.tolist(), strict=True)):
        if len(one) != size:
            what = f"{name} must be as many as the documents of a query"
            raise check.error(what, got=f"{len(one)} for {size} documents", where=f"query number {number}")
    return [value for one in lists for value in one]
