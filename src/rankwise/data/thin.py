"""Thin data: a random sample of queries and of negatives, with inverse-probability weights."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rankwise import check, threads
from rankwise.arrays import offsets_of, rows_of
from rankwise.compiling import kernel
from rankwise.data import columns
from rankwise.data.dataset import RankingDataset
from rankwise.data.disk.mapped import MappedRows
from rankwise.stream import uniform

Data = TypeVar("Data", bound=RankingDataset)


def thin(data: Data, *, queries: float | None = None, negatives: float | None = None, seed: int = 0) -> Data:
    """Return a random sample of the queries, and of the negatives of each query, with inverse-probability weights.

    A float is a share and an integer a number: ``queries=0.1`` is a tenth of the queries, ``negatives=20`` is 20 (or
    all, of fewer) documents with label 0 of each query, ``negatives=0.2`` a fifth of them and at least one. Documents
    with a label above 0 stay. Every sample of that size is equally likely. It depends on query ids, the index of a
    document in its query and the seed: not on the order of the queries. Of :func:`rankwise.open_data` only the sample
    is read into memory.

    ``weights`` of queries are multiplied by queries / sampled queries, ``document_weights`` of negatives by negatives /
    sampled negatives of the query. Sums over queries, or over documents, that are weighted so are unbiased: counts,
    sums of features, the loss or the metric of whole lists.

    Thin test data by ``queries`` alone. Metrics do not read ``document_weights``, and negatives that are left out rank
    below nothing: with 20 negatives in each list of a sample of MSLR-WEB10K (100 on average) NDCG@10 of the same
    ranking is {gap} higher.

    Thinned negatives change training, too. Objectives of rankwise read the weight of the better document of a pair, or
    of a relevant one, so that weights of negatives change nothing in ``lambdarank``, ``pairwise``, ``softmax_ce`` and
    ``xendcg``; others reject the column: ``data.with_(document_weights=None)``. ``native:lambdarank`` multiplies the
    gradient of each document by its weight, which is not the gradient of the whole list either. In all of them the
    relevant documents meet fewer negatives; which documents rank first then depends little on it, as negatives are
    drawn uniformly, yet nothing guarantees that: measure on whole lists.

    >>> data = RankingDataset.from_sizes(np.arange(8.0)[:, None], [1, 0, 0, 0, 0, 2, 0, 0], [5, 3], query_ids=["a", "b"])
    >>> fewer = thin(data, negatives=2)
    >>> fewer.labels, fewer.document_weights
    (array([1., 0., 0., 2., 0., 0.]), array([1., 2., 2., 1., 1., 1.]))
    >>> thin(data, queries=0.5).weights
    array([2.])
    """
    if queries is None and negatives is None:
        raise check.error("there is nothing to thin", hint="`set queries=0.1`, `negatives=20`, or both")
    stream = data.stream(seed).child("thin")
    sampled = np.arange(data.n_queries)
    if queries is not None:
        size = int(_sizes("queries", queries, np.array([data.n_queries]))[0])
        if size > data.n_queries:
            got = f"queries={size:,} of {data.n_queries:,}"
            raise check.error("a sample has no more queries than the data", got=got, hint="pass a smaller number")
        order = np.argsort(stream.child("queries").per_query(data.n_queries)[:, 0])
        sampled = np.sort(order[:size])
    rows, offsets = rows_of(sampled, data.offsets)
    inverse = np.ones(int(offsets[-1]))
    if negatives is not None:
        is_negative = data.labels[rows] == 0.0
        counts = np.diff(np.append(0, np.cumsum(is_negative))[offsets])
        sizes = np.minimum(_sizes("negatives", negatives, counts), counts)
        is_sampled = ~is_negative
        draws = stream.child("negatives")
        threads.over_queries(_sample, offsets, is_negative, counts, sizes, draws.key, draws.queries(data.n_queries)[sampled], is_sampled)
        inverse[is_negative] = np.repeat(counts / np.maximum(sizes, 1), counts)
        rows, inverse = np.arange(data.n_docs)[rows][is_sampled], inverse[is_sampled]
        offsets = offsets_of(np.diff(offsets) - counts + sizes)
    changes = columns.take(data, rows, sampled)
    if queries is not None:
        weights = np.ones(sampled.size) if changes["weights"] is None else changes["weights"]
        changes["weights"] = weights * (data.n_queries / sampled.size)
    if negatives is not None:
        weights = changes["document_weights"]
        changes["document_weights"] = inverse if weights is None else weights * inverse
    if changes["query_ids"] is None:
        changes["query_ids"] = sampled  # so that a sample keeps the randomness of the data
    thinned = data.with_(features=data.features[rows], offsets=offsets, **changes)
    file = MappedRows.of(data.features)
    if file is not None:
        file.release()
    return thinned


def _sizes(name: str, amount: float, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the size of each sample: a share of the count, at least one, or a number."""
    if isinstance(amount, float | np.floating):
        share = check.number(f"{name}, a share,", amount, least=0.0, most=1.0)
        if share > 0.0:
            sizes: NDArray[np.int64] = np.maximum(np.rint(share * counts), 1.0).astype(np.int64)
            return sizes
        raise check.error(f"{name}, a share, must be above 0", got=amount)
    return np.full(counts.size, check.integer(name, amount, least=1))


@kernel
def _sample(first, last, offsets, is_negative, counts, sizes, key, words, out):  # type: ignore[no-untyped-def]
    """Mark the sampled negatives: one is drawn with probability (still to draw) / (still to come)."""
    for q in range(first, last):
        to_come, to_draw = counts[q], sizes[q]
        for i in range(offsets[q], offsets[q + 1]):
            if is_negative[i]:
                if uniform(key, words[q], i - offsets[q], 0) * to_come < to_draw:
                    out[i] = True
                    to_draw -= 1
                to_come -= 1
