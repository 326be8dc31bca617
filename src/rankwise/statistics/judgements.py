"""Digests of the labels that an evaluation rests on, so that evaluations by other labels are not compared."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rankwise.base.arrays import Array, Ids, Offsets
from rankwise.base.stream import hashed_ids
from rankwise.data.columns import column_of, flat
from rankwise.metrics.base import Metric

if TYPE_CHECKING:
    from rankwise.data.dataset import RankingDataset

Digests = Mapping[str, NDArray[np.uint64]]
"""Name of labels -> one digest for each query; the main labels are called ``labels``."""
Judgements = Digests | Callable[[], Digests]
"""Digests, or what computes them when they are asked for."""
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def judgements_of(data: "RankingDataset", metrics: Iterable[Metric]) -> Callable[[], Digests]:
    """Return what computes the digests of the labels that metrics read."""
    found = {name: column_of(data, name) for one in metrics for name in one.reads}
    columns: dict[str, Array] = {}
    for name, column in flat(found).items():
        if column.dtype.kind in "biuf" and column.size == data.n_docs:
            columns[name.removeprefix("more_labels.")] = column
    return partial(digests, columns, data.offsets, data.document_ids)


def digests(columns: Mapping[str, Array], offsets: Offsets, document_ids: Ids | None) -> dict[str, NDArray[np.uint64]]:
    """Digest the labels other than 0 of each query, in whichever order its documents are.

    Documents of label 0 do not count, so that runs that retrieved others have the same digest. The lower half knows the
    labels alone; the upper half also to which documents they belong, and is 0 where documents have no ids.

    >>> labels, offsets = {"labels": np.array([2.0, 0.0, 1.0])}, np.array([0, 3])
    >>> one, other = (digests(labels, offsets, ids)["labels"] for ids in (None, ["a", "b", "c"]))
    >>> one == other, differing(one, other)
    (array([False]), array([False]))
    """
    found = {}
    for name, column in columns.items():
        labels = np.ascontiguousarray(column, np.float64)
        rows = np.flatnonzero(labels)
        rounded = labels[rows].astype(np.float32).astype(np.float64)  # a file may have kept them in single precision
        ends, words = np.searchsorted(rows, offsets), _mixed(rounded.view(np.uint64))
        digest = _sums(words, ends) & _LOW
        if document_ids is not None:
            ids = hashed_ids(np.asarray(document_ids)[rows].astype(np.str_))
            digest |= (_sums(_mixed(words ^ _mixed(ids)), ends) >> _HALF | np.uint64(1)) << _HALF
        found[name] = digest
    return found


def differing(one: NDArray[np.uint64], other: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return for each query whether its labels differ, as far as both digests know."""
    known = (one >> _HALF > 0) & (other >> _HALF > 0)
    return np.where(known, one != other, (one ^ other) & _LOW > 0)


def _sums(words: NDArray[np.uint64], ends: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Add up the words of each query, modulo 2⁶⁴: no order of documents has another sum."""
    running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(words, dtype=np.uint64)])
    sums: NDArray[np.uint64] = running[ends[1:]] - running[ends[:-1]]
    return sums


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64: every bit depends on all others."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
