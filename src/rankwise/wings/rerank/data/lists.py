"""Lists of texts, for rerankers: a data set whose queries and documents have texts."""

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import RankingDataset, check
from rankwise.base.arrays import Array, Column, Keywords, Offsets, offsets_of
from rankwise.data.arguments import Changes, NamedColumns
from rankwise.quality import findings, leakage
from rankwise.wings.rerank.data.rows import NUMBERS, TextRoles, gather

_TEXTS = {"queries": "query_texts", "documents": "document_texts"}


class ListChanges(Changes, total=False):
    """Arguments of :meth:`Lists.with_`."""

    queries: Iterable[str]
    documents: Iterable[str]


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Lists(RankingDataset):
    """A data set with texts: list ``q`` is a query and its documents, ``offsets[q]`` to ``offsets[q + 1]``.

    It is a :class:`rankwise.RankingDataset` whose columns ``query_texts`` and ``document_texts`` are set, and whose
    matrix of features may have no columns; no list is padded. Nothing can be changed; ``take`` and ``with_`` return
    other lists, and :func:`rankwise.split` and :func:`rankwise.folds` divide them by query.

    >>> lists = Lists(["red shoe", "hat"], ["a red shoe", "a shoe", "a hat"], [2, 1, 1], [0, 2, 3])
    >>> lists
    Lists(2 queries, 3 documents, labels 1 to 2)
    >>> lists.take([1]).documents
    ('a hat',)
    >>> list(lists.pairs())
    [('red shoe', 'a red shoe'), ('red shoe', 'a shoe'), ('hat', 'a hat')]
    """

    origin: str = ""
    """How documents came onto the lists, where that is known: ``"judged documents and 8 drawn from the run"``."""

    def __init__(
        self,
        queries: Iterable[str] | None = None,
        documents: Iterable[str] | None = None,
        labels: ArrayLike | None = None,
        offsets: ArrayLike = (),
        *,
        features: ArrayLike | None = None,
        origin: str = "",
        **columns: Unpack[NamedColumns],
    ) -> None:
        """Build from texts, or from the columns ``query_texts`` and ``document_texts``; labels are 0 by default."""
        if queries is not None:
            columns["query_texts"] = _texts(queries)
        if documents is not None:
            columns["document_texts"] = _texts(documents)
        for name in _TEXTS.values():
            if columns.get(name) is None:
                raise check.error("lists need the texts of queries and documents", got=f"no {name}")
        n_docs = len(cast("Column", columns["document_texts"]))
        matrix = np.empty((n_docs, 0), np.float32) if features is None else features
        super().__init__(matrix, np.zeros(n_docs) if labels is None else labels, offsets, **columns)
        object.__setattr__(self, "origin", origin)

    @classmethod
    def of(cls, queries: Iterable[str], documents: Iterable[str], data: RankingDataset, *, origin: str = "") -> Self:
        """Add texts to ranking data, with features or without: one per query, and one per document."""
        columns: Keywords = vars(data) | {"query_texts": _texts(queries), "document_texts": _texts(documents)}
        return cls(**columns | {"origin": origin})

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
        """Build from lists within lists, as other trainers have them: one list of documents for each query.

        Without ``labels`` all are 0, for documents that are only to be scored. ``columns`` hold one list for each
        query, too: ``document_ids``, ``teacher_scores``, ``document_weights``, ``propensities`` ….

        >>> Lists.from_lists(["red shoe", "hat"], [["a red shoe", "a shoe"], ["a hat"]], [[2, 1], [1]]).labels
        array([2., 1., 1.])
        """
        nested = list(documents)
        text = next((texts for texts in nested if isinstance(texts, str)), None)
        if text is not None:
            hint = "pass [[…], […]]; documents of all queries in one list go to Lists(queries, documents, …, offsets)"
            raise check.error("documents must be one list for each query", got=f"the text {text[:40]!r}", hint=hint)
        offsets = offsets_of([len(texts) for texts in nested])
        flat: Keywords = {"query_ids": query_ids, "weights": weights}
        flat |= {name: _flat(name, values, offsets) for name, values in columns.items()}
        grades = None if labels is None else _flat("labels", labels, offsets)
        return cls(queries, itertools.chain.from_iterable(nested), grades, offsets, **flat)

    @classmethod
    def from_dataset(cls, dataset: Iterable[Mapping[str, Any]], **columns: Any) -> Self:
        """Build from a Hugging Face ``Dataset``, or other rows by column, which are named as in `rankwise.rerank.read`.

        >>> rows = [{"question": "hat", "docs": ["a hat", "a shoe"], "labels": [1, 0]}]
        >>> Lists.from_dataset(rows, query="question")
        Lists(1 query, 2 documents, labels 0 to 1)
        """
        if isinstance(dataset, Mapping):
            hint = "choose one, such as dataset['train']"
            raise check.error("a Dataset with one part is needed", got=f"parts {', '.join(dataset)}", hint=hint)
        if iter(dataset) is dataset:  # can be read only once
            dataset = list(dataset)
        names = getattr(dataset, "column_names", None) or list(next(iter(dataset), ()))
        roles = TextRoles(names, **columns)
        if hasattr(dataset, "select_columns"):
            dataset = dataset.select_columns(roles.used)
        return gather(cls, enumerate(dataset), roles, lambda row: f"row {row}")

    @property
    def queries(self) -> tuple[str, ...]:
        """The text of each query."""
        return tuple(cast("Column", self.query_texts).tolist())

    @property
    def documents(self) -> tuple[str, ...]:
        """The text of each document, flat."""
        return tuple(cast("Column", self.document_texts).tolist())

    @property
    def data(self) -> RankingDataset:
        """The same data set without texts."""
        without = ("origin", *_TEXTS.values())
        return RankingDataset(**{name: value for name, value in vars(self).items() if name not in without})

    @property
    def columns(self) -> dict[str, Array]:
        """Columns of documents that objectives read, where there are any: ``teacher_scores`` and the like."""
        names = [name for name in NUMBERS.values() if name != "labels"]
        return {name: values for name in names if (values := getattr(self, name)) is not None}

    @property
    def candidates(self) -> str:
        """Number of documents per query, and their origin: what metrics of these lists are measured over.

        >>> Lists(["red shoe", "hat"], ["a red shoe", "a shoe", "a hat"], [2, 1, 1], [0, 2, 3]).candidates
        '1.5 documents per query on average (median 1.5)'
        """
        mean, median = float(self.sizes.mean()), float(np.median(self.sizes))
        count = f"{mean:,.4g} documents per query on average (median {median:,g})"
        return f"{count}: {self.origin}" if self.origin else count

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Iterate over query and document of each row, as tokenizers read them."""
        return zip(np.repeat(cast("Column", self.query_texts), self.sizes), self.documents, strict=True)

    def nested(self, column: Sequence[Any] | NDArray[Any]) -> list[list[Any]]:
        """Split a flat column, such as ``documents`` or scores, into one list for each query."""
        values: Any = column.tolist() if isinstance(column, np.ndarray) else list(column)
        return [values[first:last] for first, last in itertools.pairwise(self.offsets.tolist())]

    def with_(self, **changes: Unpack[ListChanges]) -> Self:
        """Return a copy with ``queries``, ``documents`` or columns replaced, and checked again."""
        renamed: Keywords = {_TEXTS.get(name, name): value for name, value in changes.items()}
        for name in _TEXTS.values():
            if name in renamed:
                renamed[name] = _texts(renamed[name])
        return super().with_(**renamed)

    def to_dataset(self) -> Any:
        """Return a Hugging Face ``Dataset`` for sentence-transformers: a query, its documents, their labels.

        The columns are ``query``, ``documents``, then ``teacher_scores``, ``document_weights``, ``propensities`` and
        ``weight`` where there are such, and last ``labels``; needs the package ``datasets``.
        """
        datasets = check.optional("datasets", "rerank")
        columns: Keywords = {"query": list(self.queries), "documents": self.nested(self.documents)}
        columns |= {name: self.nested(values) for name, values in self.columns.items()}
        if self.weights is not None:
            columns["weight"] = self.weights.tolist()
        return datasets.Dataset.from_dict({**columns, "labels": self.nested(self.labels)})

    def compare_with(self, seen: "Lists", part: str) -> None:
        """Warn of queries that this ``part`` of the data shares with training data, by id or by text."""
        findings.warn(findings.shared_queries({"train": _queries(seen), part: _queries(self)}, "text"))

    def __repr__(self) -> str:
        return super().__repr__().replace("RankingDataset", type(self).__name__).replace(", 0 features", "")


def _queries(lists: Lists) -> leakage.Queries:
    """Return the queries by id and by text; a text of several queries identifies none of them."""
    digests = [hashlib.blake2b(text.encode(), digest_size=8).digest() for text in lists.queries]
    texts = np.frombuffer(b"".join(digests), np.uint64)
    _, place, counts = np.unique(texts, return_inverse=True, return_counts=True)
    alone = np.where(counts[place] == 1, texts, 0).astype(np.uint64)
    return leakage.Queries(leakage.unless_numbers(lists.query_ids), alone)


def with_texts(data: object) -> Lists | None:
    """Return a data set with texts as lists; None where it has none."""
    if isinstance(data, Lists):
        return data
    if isinstance(data, RankingDataset) and data.query_texts is not None and data.document_texts is not None:
        return Lists(**vars(data))
    return None


def _texts(values: Iterable[str]) -> Column:
    texts = list(values)
    column: Column = np.empty(len(texts), object)
    column[:] = texts
    return column


def _flat(name: str, values: Iterable[Sequence[Any]], offsets: Offsets) -> list[Any]:
    """Concatenate the lists of a column; each must be as long as the list of documents."""
    lists = [list(entries) for entries in values]
    check_lengths(name, [len(entries) for entries in lists], np.diff(offsets).tolist(), "query number {}")
    return list(itertools.chain.from_iterable(lists))


def check_lengths(name: str, lengths: list[int], sizes: list[int], place: str) -> None:
    """Raise unless a column has one list for each query, as long as its list of documents."""
    for number, (length, size) in enumerate(zip(lengths, sizes, strict=False)):
        if length != size:
            what = f"{name} must be as many as the documents of a query"
            raise check.error(what, got=f"{length} for {size} documents", where=place.format(number))
    if len(lengths) != len(sizes):
        got = f"{len(lengths)} lists for {len(sizes)} queries"
        raise check.error(f"{name} must be one list for each query", got=got)
