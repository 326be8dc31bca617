"""Batches of whole queries, which are never padded."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankwise.base.arrays import Array, offsets_of, rows_of
from rankwise.base.stream import Stream
from rankwise.data.dataset import RankingDataset

Rows = slice | NDArray[np.int64]


@dataclass(frozen=True)
class Batching:
    """How many queries go into a batch: ``queries`` of them, or as many as fit into a budget of ``documents``."""

    queries: int
    documents: int | None = None

    def cut(self, data: RankingDataset, stream: Stream) -> Iterator[NDArray[np.int64]]:
        """Yield the numbers of each batch's queries; all queries occur once, in an order that the stream decides.

        A query that is larger than the whole budget is a batch of its own.

        >>> data = RankingDataset.from_sizes(np.zeros((9, 1)), np.zeros(9), [4, 3, 2])
        >>> [batch.tolist() for batch in Batching(2).cut(data, data.stream(seed=1))]
        [[2, 0], [1]]
        >>> [batch.tolist() for batch in Batching(2, documents=6).cut(data, data.stream(seed=1))]
        [[2, 0], [1]]
        """
        order = np.argsort(stream.child("order").per_query(data.n_queries)[:, 0], kind="stable")
        filled = offsets_of(data.sizes[order])
        start = 0
        while start < order.size:
            end = start + self.queries
            if self.documents is not None:
                fits = int(np.searchsorted(filled, filled[start] + self.documents, side="right")) - 1
                end = max(fits, start + 1)
            yield order[start:end]
            start = end


@dataclass(frozen=True)
class BatchPart:
    """Some whole queries of a data set, in the order of a batch."""

    data: RankingDataset
    queries: NDArray[np.int64]
    """Their numbers in ``data``."""
    rows: Rows
    """Where their documents lie in ``data``."""
    offsets: NDArray[np.int64]
    """Where each query starts among the part's documents."""
    stream: Stream
    """The random stream of these queries."""

    @classmethod
    def of(cls, data: RankingDataset, queries: NDArray[np.int64], stream: Stream) -> "BatchPart":
        """Return some queries of a data set; ``stream`` is that of all."""
        rows, offsets = rows_of(queries, data.offsets)
        return cls(data, queries, rows, offsets, stream.take(queries, data.n_queries))

    @property
    def weights(self) -> Array:
        """One weight per query."""
        weights = self.data.weights
        return np.ones(self.queries.size) if weights is None else weights[self.queries]
