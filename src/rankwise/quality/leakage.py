"""Leakage: features that reveal the answer or the display, and queries that two parts of the data share."""

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.base.arrays import Array, Floats, Ids, row_blocks
from rankwise.base.sparse import dense, is_sparse
from rankwise.data.dataset import RankingDataset
from rankwise.data.io.disk.mapped import DiskDataset

ANSWERS = (
    *("label", "labels", "relevance", "relevant", "grade", "judgment", "judgement", "judged", "target"),
    *("click", "clicks", "clicked", "purchase", "purchased", "bought", "booked", "conversion", "converted"),
)
"""Names of columns that reveal the answer."""
DISPLAYS = ("position", "positions", "rank", "slot", "propensity")
"""Names of columns that reveal how documents were displayed."""
_BEFORE = re.compile(r"^(?:is|was|has|display|displayed|shown|doc|document|result)_")
_SAMPLE = 1000  # documents that show at once that a feature is no copy of the labels
_FEWEST = 20  # of fewer documents a feature may go with the labels by chance

CHECKED: ContextVar[bool] = ContextVar("checked", default=False)
"""Whether this is inside :func:`checked`."""


def suspects(names: Iterable[str]) -> list[str]:
    """Return the names of features that probably reveal the answer or the display.

    >>> suspects(["bm25", "Clicks", "is_clicked", "clicks_last_month", "displayPosition", "pagerank", "label_2"])
    ['Clicks', 'is_clicked', 'displayPosition', 'label_2']
    """
    return [name for name in names if _plain(name) in (*ANSWERS, *DISPLAYS)]


def copies(data: RankingDataset) -> list[int]:
    """Return the numbers of features that map one to one to the labels.

    >>> labels = np.arange(30) % 3
    >>> features = np.column_stack([labels, (labels - 1) ** 3, labels > 0, np.arange(30)])
    >>> copies(RankingDataset(features, labels, [0, 30]))
    [0, 1]
    """
    if data.n_docs < _FEWEST or not data.n_features or np.ptp(data.labels) == 0.0:
        return []
    order = np.argsort(data.labels, kind="stable")
    sample = order[np.unique(np.linspace(0, order.size - 1, _SAMPLE).astype(np.int64))]
    candidates = _copied(dense(data.features[sample]), data.labels[sample])
    return [
        column for column in candidates if _copied(dense(data.features[order, column : column + 1]), data.labels[order])
    ]


def warn_features(names: Sequence[str], hint: str, data: RankingDataset | None = None) -> None:
    """Warn of features that reveal the answer, by their names, and in ``data`` by their values.

    ``hint`` says how to leave features out, with ``{}`` for the list of their names.
    """
    copied = [] if data is None or data.feature_names is None else [data.feature_names[one] for one in copies(data)]
    for what, columns in (
        ("features whose names suggest the answer, or how documents were displayed", suspects(names)),
        ("features with one value for each label", [name for name in copied if name in names]),
    ):
        if columns:
            excluded = [f"!{name}" for name in columns]
            check.warn(f"{what}: {', '.join(columns)}", hint=hint.format(excluded), stacklevel=2)


_hashed: "WeakKeyDictionary[RankingDataset, NDArray[np.uint64]]" = WeakKeyDictionary()
"""The contents of queries, computed once for a data set: of each the sum of the hashes of its documents."""


class Queries(NamedTuple):
    """Ids and contents of queries, by which two parts are compared."""

    ids: Ids | None
    """None where there are none, or where they only count the queries of their file."""
    contents: NDArray[np.uint64] | None
    """A hash of the documents of each query, in any order; 0 where there is nothing to compare."""

    @classmethod
    def of(cls, data: RankingDataset) -> "Queries":
        """Return the queries of a data set; contents are hashes of features, if these are in memory."""
        ids, in_memory = unless_numbers(data.query_ids), not isinstance(data, DiskDataset)
        if in_memory and data.n_features and data.n_queries and data not in _hashed:
            sums = np.add.reduceat(document_hashes(data), data.offsets[:-1])
            # A query of one document has 0: there is nothing to rank.
            _hashed[data] = np.where(np.diff(data.offsets) > 1, sums, 0).astype(np.uint64)
        return cls(ids, _hashed.get(data))


def unless_numbers(ids: Ids | None) -> Ids | None:
    """Return ids of queries, unless they count from 0 or 1, as those of another file would, too.

    >>> unless_numbers(np.array([1, 2, 3])), unless_numbers(np.array([7, 2]))
    (None, array([7, 2]))
    """
    if ids is None or (ids.dtype.kind in "iu" and ids.size and np.array_equal(ids - min(ids[0], 1), range(ids.size))):
        return None
    return ids


def trained_hashes(data: RankingDataset) -> NDArray[np.uint64] | None:
    """Return the sorted hashes by which a model recognises its training queries; None for features on disk.

    They are those of the contents of queries, and for targets from a click log (``document_rewards``) also those of
    the ids that queries have in the log: other features of the same clicks are recognised, too.
    """
    contents = Queries.of(data).contents
    if contents is None:
        return None
    if data.document_rewards is not None and data.query_ids is not None:
        contents = np.append(contents, key_hashes(data.query_ids))
    return np.unique(contents[contents != 0])


def key_hashes(ids: ArrayLike) -> NDArray[np.uint64]:
    """Return a hash of each query id of a click log; 12 and "12" are the same id."""
    from rankwise.base.stream import hashed_ids  # brings Numba, which takes long to load

    return hashed_ids(np.asarray(ids).astype(np.str_))


def union(*several: NDArray[np.uint64] | None) -> NDArray[np.uint64] | None:
    """Return the hashes of queries that any of several models was trained on; None where one of them is unknown."""
    present = [hashes for hashes in several if hashes is not None]
    return np.unique(np.concatenate(present)) if len(present) == len(several) else None


def seen(trained: NDArray[np.uint64] | None, queries: RankingDataset | ArrayLike) -> NDArray[np.bool_] | None:
    """Return which queries are among the hashes of a model's training queries; None where that is unknown.

    ``queries`` are a data set with the columns of training, which is compared by contents, or the query ids of a click
    log, which are compared with those of the targets that the model was trained on.

    >>> data = RankingDataset([[1.0], [2.0], [3.0], [4.0]], [0, 1, 0, 1], [0, 2, 4])
    >>> seen(trained_hashes(data.take([0])), data)
    array([ True, False])
    """
    hashes = Queries.of(queries).contents if isinstance(queries, RankingDataset) else key_hashes(queries)
    return None if trained is None or hashes is None else np.isin(hashes, trained) & (hashes != 0)


@contextlib.contextmanager
def checked() -> Iterator[None]:
    """Skip the checks of data and of their parts inside: they have been made, or these are parts of one data set."""
    token = CHECKED.set(True)
    try:
        yield
    finally:
        CHECKED.reset(token)


def document_hashes(data: RankingDataset) -> NDArray[np.uint64]:
    """Return a hash of the features of each document: mixed sums over columns, to which zeros add nothing."""
    factors = np.random.default_rng(0).integers(1, 2**64, data.n_features, np.uint64, endpoint=False)
    rows = np.zeros(data.n_docs, np.uint64)
    if is_sparse(data.features):
        matrix: Any = data.features
        stored = np.append((matrix.data + np.float32(0.0)).view(np.uint32) * factors[matrix.indices], np.uint64(0))
        some = np.diff(matrix.indptr) > 0
        rows[some] = np.add.reduceat(stored, matrix.indptr[:-1][some]) if some.any() else 0
    else:
        for block in row_blocks(data.n_docs, data.n_features):
            bits = np.ascontiguousarray(data.features[block]).view(np.uint32)
            rows[block] = bits.astype(np.uint64) @ factors
    for shift in (31, 29):
        rows = (rows ^ (rows >> np.uint64(shift))) * np.uint64(0x9E3779B97F4A7C15)
    return rows


def _copied(columns: Floats, labels: Array) -> list[int]:
    """Columns that change where the labels do, and only there, each time to another value; rows are sorted by label.

    Labels that hardly repeat go with any column of which the same is true, unless both rise, or fall, together.
    """
    starts = np.flatnonzero(np.diff(labels, prepend=np.nan) != 0.0)
    same = (np.diff(columns, axis=0, prepend=np.nan)[np.delete(np.arange(labels.size), starts)] == 0.0).all(0)
    values = columns[starts]
    if starts.size * _FEWEST > labels.size:
        steps = np.diff(values, axis=0)
        other = (steps > 0.0).all(0) | (steps < 0.0).all(0)
    else:
        other = (np.diff(np.sort(values, axis=0), axis=0) > 0.0).all(0)
    return [int(column) for column in np.flatnonzero(same & other)]


def _plain(name: str) -> str:
    """A name in small letters, without what stands before or after the word that says what it is."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    words = re.sub(r"[^a-z0-9]+", "_", words).strip("_")
    return re.sub(r"_?[0-9]+$", "", _BEFORE.sub("", words, count=1))
