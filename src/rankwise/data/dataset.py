"""Ranking data: flat arrays of documents, and offsets where each query starts."""

import inspect
import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.base.arrays import Column, Ids, Keywords, read_only, rows_of
from rankwise.base.sparse import is_sparse
from rankwise.data import columns
from rankwise.data.arguments import Changes, Columns, NamedColumns, Roles
from rankwise.data.categories import Values, lists
from rankwise.data.io.tables import Table

if TYPE_CHECKING:
    from rankwise.base.stream import Stream


@dataclass(frozen=True, eq=False, repr=False, init=False)
class RankingDataset:
    """Documents of many queries in flat arrays; query ``q`` owns rows ``offsets[q]`` to ``offsets[q + 1]``.

    Arguments are validated once, here. The arrays are read-only, and share memory with the arguments wherever no
    conversion is needed, so that building and slicing a data set is cheap.

    >>> data = RankingDataset([[1.0], [2.0], [3.0]], [0, 1, 2], [0, 2, 3], query_ids=["a", "b"])
    >>> data
    RankingDataset(2 queries, 3 documents, 1 feature, labels 0 to 2)
    >>> data.take([1]).labels
    array([2.])
    """

    features: NDArray[np.float32]
    """(n_docs, n_features), C order, or a sparse matrix of scipy, kept as a ``csr_array``. NaN means missing."""
    labels: NDArray[np.float64]
    """(n_docs,) relevance: real numbers of 0 (not relevant) or more."""
    offsets: NDArray[np.int64]
    """(n_queries + 1,) the row where each query starts; the last is the number of documents."""
    _: KW_ONLY
    feature_names: tuple[str, ...] | None = None
    """One name per column of ``features``."""
    categorical: tuple[int, ...] = ()
    """Columns of ``features`` that hold category codes."""
    categories: Mapping[int, Values] = field(default_factory=dict)
    """Categorical column -> its values, where they are known: code k is the k-th. Rankers then match by value."""
    feature_origin: str | None = None
    """How the features were made, in words of what made them, such as :func:`rankwise.text.dataset`; models and Parquet
    keep it."""
    # fields:begin, from the table of columns by python -m tests.generate
    query_ids: Ids | None = None
    """(n_queries,) ids of queries, integers or strings, all different. Randomness is keyed by them."""
    weights: NDArray[np.float64] | None = None
    """(n_queries,) how much each query counts, in training and in means of metrics."""
    document_ids: Ids | None = None
    """(n_docs,) ids of documents, integers or strings."""
    document_weights: NDArray[np.float64] | None = None
    """(n_docs,) how much each document counts in training, with objectives that weigh documents."""
    groups: Ids | None = None
    """(n_docs,) integers or strings: the group of each document, among which exposure is to be fair."""
    teacher_scores: NDArray[np.float64] | None = None
    """(n_docs,) scores of another model, which a ranker is to learn with ``distil`` or ``margin_mse``."""
    document_rewards: NDArray[np.float64] | None = None
    """(n_docs,) how good it is to rank the document first, negative numbers included, as estimated from clicks by
    ``rw.clicks.targets``. They replace the gains of labels in ``plrank``."""
    propensities: NDArray[np.float64] | None = None
    """(n_docs,) probability that the document was examined, for click data."""
    positions: NDArray[np.int64] | None = None
    """(n_docs,) 1-based rank at which the document was displayed, for click data."""
    init_scores: NDArray[np.float64] | None = None
    """(n_docs,) scores that training starts from, such as production's; ``predict`` then needs them and adds them."""
    judged: NDArray[np.int8] | None = None
    """(n_docs,) 1: judged; 0: not judged; −1: pooled for judging, yet not judged. By default all are 1."""
    strata: Ids | None = None
    """(n_docs,) integers or strings: the part of its query's pool that the document was sampled from, for
    ``infndcg``."""
    inclusion_probabilities: NDArray[np.float64] | None = None
    """(n_docs,) probability with which the document was drawn to be judged; 0: it was chosen otherwise."""
    relevance_probabilities: NDArray[np.float64] | None = None
    """(n_docs,) estimated probability that the document is relevant: a weak judge."""
    rows: NDArray[np.int64] | None = None
    """(n_docs,) the row of each document in the table or file that was read, where reading brought the rows of a query
    together; None: documents are in the order of the table. See :meth:`unsorted`."""
    query_texts: NDArray[np.object_] | None = None
    """(n_queries,) the text of each query, for rerankers."""
    document_texts: NDArray[np.object_] | None = None
    """(n_docs,) the text of each document, for rerankers."""
    more_labels: Mapping[str, NDArray[np.float64]] | None = None
    """Name -> (n_docs,) labels of another goal, such as purchases, which ``labels_of`` returns."""
    # fields:end

    def __init__(
        self, features: ArrayLike, labels: ArrayLike, offsets: ArrayLike, **optional: Unpack[NamedColumns]
    ) -> None:
        values: Keywords = {"labels": labels, **optional}
        if values["labels"] is None:
            hint = "give documents that nobody judged label 0 and `judged=0`, as a table without labels has"
            raise check.error("labels must be one number per document", got="None", hint=hint)
        feature_names, categorical = values.pop("feature_names", None), values.pop("categorical", ())
        categories, origin = values.pop("categories", None), values.pop("feature_origin", None)
        if not isinstance(origin, str | None):
            raise check.error("the origin of features must be a text", got=type(origin).__name__)
        self._set("feature_origin", origin)
        for name in values:
            if name not in columns.names():
                others = ("features", "offsets", "feature_names", "categorical", "categories", "feature_origin")
                arguments = (*others, *columns.names())
                raise check.unexpected(type(self).__name__, name, check.suggestion(name, arguments).rstrip("?"))
        matrix = check.features(features)
        self._set("features", matrix)
        self._set("offsets", check.offsets(offsets, matrix.shape[0]))
        for column in columns.COLUMNS:
            value = values.get(column.name)
            self._set(column.name, None if value is None else column.checked(value, self))
        self._set("feature_names", check.feature_names(feature_names, self.n_features))
        self._set("categorical", check.columns("categorical", categorical, self.n_features))
        if self.categorical and self.is_sparse:
            raise check.error(
                "a sparse matrix of features has no categorical columns",
                got=f"categorical={self.categorical}",
                hint="make a column of 0 and 1 for each category, or pass a dense matrix",
            )
        self._set("categories", lists(categories, self.categorical))

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, read_only(value, contiguous=False) if isinstance(value, np.ndarray) else value)

    @classmethod
    def from_sizes(
        cls, features: ArrayLike, labels: ArrayLike, sizes: ArrayLike, **optional: Unpack[NamedColumns]
    ) -> Self:
        """Build from the number of documents of each query, as in LightGBM's ``group``.

        >>> RankingDataset.from_sizes([[1.0], [2.0], [3.0]], [0, 1, 2], [2, 1]).offsets
        array([0, 2, 3])
        """
        array = check.features(features)
        return cls(features=array, labels=labels, offsets=check.sizes(sizes, array.shape[0]), **optional)

    @classmethod
    def from_qids(cls, features: ArrayLike, labels: ArrayLike, qids: ArrayLike, **optional: Unpack[Columns]) -> Self:
        """Build from a column of query ids, one per document; a query's rows must lie together.

        >>> RankingDataset.from_qids([[1.0], [2.0], [3.0]], [0, 1, 2], ["a", "a", "b"]).query_ids
        array(['a', 'b'], dtype='<U1')
        """
        array = check.features(features)
        check.different_as_text("qids", qids)
        column = np.asarray(qids)
        if column.shape[:1] != array.shape[:1]:
            raise check.error(
                "qids must be one query id per document",
                got=f"{column.size} ids for {array.shape[0]} documents",
                hint="for one number per query use from_sizes",
            )
        if column.ndim == 1:
            column = check.identifiers("qids", column, array.shape[0], "document")
        offsets = check.runs(column)
        return cls(features=array, labels=labels, offsets=offsets, query_ids=column[offsets[:-1]], **optional)

    @classmethod
    def from_frame(cls, frame: Table, **roles: Unpack[Roles]) -> Self:
        """Build from a polars, pandas or pyarrow table; see :func:`rankwise.data.frames.from_frame`."""
        from rankwise.data.frames import from_frame  # brings polars, which takes long to load

        return from_frame(frame, cls, **roles)

    @property
    def n_docs(self) -> int:
        """Number of documents."""
        return int(self.offsets[-1])

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return int(self.offsets.size - 1)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.features.shape[1])

    @property
    def is_sparse(self) -> bool:
        """Whether ``features`` is a sparse matrix, a ``csr_array``."""
        return is_sparse(self.features)

    @property
    def is_labelled(self) -> bool:
        """Whether any document was judged or pooled. Documents of a table without labels have label 0 and were not."""
        return self.judged is None or not self.n_docs or bool(self.judged.any())

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of documents of each query."""
        return np.diff(self.offsets)

    def labels_of(self, name: str | None = None) -> NDArray[np.float64]:
        """Return the labels of this name in ``more_labels``; without a name, ``labels``."""
        return self.labels if name is None else columns.labels_of(name, self.more_labels)

    def take(self, queries: ArrayLike | slice) -> Self:
        """Return the data of these queries, in this order; neighbouring queries are sliced without a copy.

        ``queries`` is a slice, a boolean mask or an array of query numbers. Repeating a query is an error, since
        ids are unique: use weights instead.
        """
        numbers = self.query_numbers(queries)
        rows, offsets = rows_of(numbers, self.offsets)
        changes = columns.take(self, rows, numbers)
        if changes["query_ids"] is None:
            changes["query_ids"] = numbers  # so that a part keeps the randomness of the whole
        return self.with_(features=self.features[rows], offsets=offsets, **changes)

    def query_numbers(self, queries: ArrayLike | slice) -> NDArray[np.int64]:
        """Return the numbers of the queries that a slice, a mask or numbers select."""
        return check.query_numbers(queries, self.n_queries)

    def unsorted(self, values: ArrayLike) -> Column:
        """Return values of documents, such as scores, in the order of the table that was read.

        >>> import polars as pl
        >>> table = pl.DataFrame({"qid": ["b", "a", "b"], "label": [0, 1, 2], "f": [0.1, 0.2, 0.3]})
        >>> data = RankingDataset.from_frame(table, sort=True)
        >>> data.labels, data.rows, data.unsorted(data.labels)
        (array([1., 0., 2.]), array([1, 0, 2]), array([0., 1., 2.]))
        """
        array: Column = np.asarray(values)
        if array.shape[:1] != (self.n_docs,):
            what = "values must be one for each document"
            raise check.error(what, got=f"shape {array.shape} for {self.n_docs} documents")
        return array if self.rows is None else array[np.argsort(self.rows)]

    def without_rows(self) -> Self:
        """Return the same data without ``rows``."""
        return self if self.rows is None else self.with_(rows=None)

    def warn_of_order(self) -> None:
        """Warn that scores of these documents are not in the order of the table that was read."""
        if self.rows is not None:
            warnings.warn(
                "scores have the order of the data set, whose rows were brought together by query, and not that of the "
                "table: data.unsorted(scores) has, and scoring the table itself needs no sorting",
                stacklevel=3,
            )

    def with_(self, **changes: Unpack[Changes]) -> Self:
        """Return a copy with some columns replaced (checked again; arrays that stay are shared).

        Columns that ``categorical`` no longer names lose their list of categories, too. Labels of data that had none
        are of judged documents.
        """
        if "labels" in changes and "judged" not in changes and not self.is_labelled:
            changes["judged"] = None
        if "categorical" in changes and "categories" not in changes:
            categories = {
                column: listed for column, listed in self.categories.items() if column in changes["categorical"]
            }
            changes["categories"] = categories
        return type(self)(**{**vars(self), **changes})

    def __getstate__(self) -> Keywords:
        """Return what copies and other processes get; views of mappings cannot be sent."""
        return vars(self) | {"more_labels": None if self.more_labels is None else dict(self.more_labels)}

    def column_name(self, column: int) -> str:
        """Return the name of a feature column for messages: ``column 'bm25'`` or ``column 3``."""
        return f"column {column if self.feature_names is None else repr(self.feature_names[column])}"

    def stream(self, seed: int, round: int = 0) -> "Stream":
        """Return the random stream of these queries, keyed by their ids."""
        from rankwise.base.stream import Stream  # brings Numba, which takes long to load

        return Stream(seed, round, self.query_ids)

    def qids(self) -> Ids:
        """Return one query id per document; queries without ids have their numbers."""
        ids = np.arange(self.n_queries) if self.query_ids is None else self.query_ids
        return np.repeat(ids, self.sizes)

    def __len__(self) -> int:
        return self.n_queries

    def __repr__(self) -> str:
        def count(number: int, one: str, many: str) -> str:
            return f"{number:,} {one if number == 1 else many}"

        parts = [count(self.n_queries, "query", "queries"), count(self.n_docs, "document", "documents")]
        parts.append(count(self.n_features, "feature", "features"))
        if self.is_sparse:
            parts.append(f"sparse: {count(self.features.nnz, 'number', 'numbers')}")  # type: ignore[attr-defined]
        if not self.is_labelled:
            parts.append("no labels")
        elif self.n_docs:
            parts.append(f"labels {self.labels.min() + 0.0:g} to {self.labels.max():g}")
        if self.more_labels:
            parts.append(f"more labels: {', '.join(self.more_labels)}")
        return f"RankingDataset({', '.join(parts)})"


def _show_keywords() -> None:
    """Set the signature that ``help`` and editors show: the optional arguments by name, which ``**optional`` hides."""
    signature = inspect.signature(RankingDataset.__init__)
    parameters = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    for name, annotation in NamedColumns.__annotations__.items():
        default = () if name == "categorical" else None
        parameters.append(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        )
    RankingDataset.__init__.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]


_show_keywords()
