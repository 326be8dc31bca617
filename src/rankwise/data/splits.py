"""Split data by query: once, in folds, or over and over.

The part of a query depends on its id and the seed: the order of the queries does not matter, and the same queries and
the same seed always have the same split.
"""

from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.base.stream import Stream
from rankwise.data.dataset import RankingDataset

Data = TypeVar("Data", bound=RankingDataset)


def split(
    data: Data, fractions: Sequence[float] = (0.6, 0.2, 0.2), *, seed: int = 0, trial: int = 0
) -> tuple[Data, ...]:
    """Split the queries at random, in these proportions; every query is in exactly one part.

    Part sizes are exact: they differ from the proportions by less than one query (largest remainders). Queries
    keep their order within a part. ``trial`` selects one of the splits of :func:`trials`.

    >>> from rankwise import synthetic
    >>> [part.n_queries for part in split(synthetic(n_queries=99), (0.6, 0.2, 0.2), seed=1)]
    [59, 20, 20]
    """
    stream = data.stream(seed).child("split").at(check.integer("trial", trial, least=0))
    return _parts(data, _counts(data, fractions), stream)


def trials(
    data: Data, n: int, fractions: Sequence[float] = (0.6, 0.2, 0.2), *, seed: int = 0
) -> Iterator[tuple[Data, ...]]:
    """Iterate over ``n`` independent splits, made one at a time; the first is that of :func:`split`.

    Trial t does not depend on ``n``. This is how the papers average over randomly drawn training, validation and
    test sets; parts of different trials overlap, which a test over trials has to allow for.

    >>> from rankwise import synthetic
    >>> for train, valid, test in trials(synthetic(n_queries=10), 2):
    ...     print(train.query_ids, valid.query_ids, test.query_ids)
    [0 1 2 4 5 8] [3 7] [6 9]
    [3 4 6 7 8 9] [2 5] [0 1]
    """
    n = check.integer("n, the number of trials,", n, least=1)
    counts, stream = _counts(data, fractions), data.stream(seed).child("split")
    return (_parts(data, counts, stream.at(trial)) for trial in range(n))


def folds(data: Data, n: int = 5, *, seed: int = 0) -> Iterator[tuple[Data, Data, Data]]:
    """Iterate over cross-validation folds as LETOR lays them out: ``(train, valid, test)``, made one at a time.

    The queries fall into ``n`` parts of the same size (up to one). Fold i trains on ``n − 2`` parts from the i-th on,
    validates on the next and tests on the one after that; each part is the test part once and the validation part
    once. For plain (train, test) pairs join the first two with :func:`rankwise.concatenate`.

    >>> from rankwise import synthetic
    >>> for train, valid, test in folds(synthetic(n_queries=5)):
    ...     print(train.n_queries, valid.query_ids, test.query_ids)
    3 [1] [3]
    3 [3] [0]
    3 [0] [4]
    3 [4] [2]
    3 [2] [1]
    """
    if check.integer("n, the number of folds,", n, least=1) < 3:
        raise check.error(
            "folds need at least three parts: to train, to validate and to test",
            got=n,
            hint="choose n of at least 3, or use split(data, (0.5, 0.5)) for two halves",
        )
    part = fold_of_query(data, n, seed=seed)

    def fold(part: NDArray[np.int64]) -> tuple[Data, Data, Data]:
        return data.take(part < n - 2), data.take(part == n - 2), data.take(part == n - 1)

    return (fold((part - first - 1) % n) for first in range(n))


def fold_of_query(data: RankingDataset, n: int, *, seed: int = 0, trial: int = 0) -> NDArray[np.int64]:
    """Return the fold that tests each query, from 0: the test parts of :func:`folds`, of which two suffice here.

    Another ``trial`` has other folds for the same seed.

    >>> from rankwise import synthetic
    >>> fold_of_query(synthetic(n_queries=5), 5)
    array([1, 4, 3, 0, 2])
    """
    n = check.integer("n, the number of folds,", n, least=2)
    part = _part_of_query(_counts(data, (1.0 / n,) * n), data.stream(seed).child("split").at(trial))
    return (part + 1) % n


def _parts(data: Data, counts: NDArray[np.int64], stream: Stream) -> tuple[Data, ...]:
    part = _part_of_query(counts, stream)
    return tuple(data.take(part == number) for number in range(counts.size))


def _part_of_query(counts: NDArray[np.int64], stream: Stream) -> NDArray[np.int64]:
    """Return the part of each query: queries are ordered by a random number each, and that order is cut."""
    draws = stream.per_query(int(counts.sum()))[:, 0]
    part = np.empty(draws.size, np.int64)
    part[np.argsort(draws)] = np.repeat(np.arange(counts.size), counts)
    return part


def _counts(data: RankingDataset, fractions: Sequence[float]) -> NDArray[np.int64]:
    """Return the number of queries of each part: rounded down, the rest goes to the largest remainders."""
    exact = np.array(check.fractions(fractions)) * data.n_queries
    counts = np.floor(exact + 1e-9).astype(np.int64)
    left_over = data.n_queries - int(counts.sum())
    counts[np.argsort(counts - exact, kind="stable")[:left_over]] += 1
    if not counts.all():
        parts = ", ".join(map(str, counts.tolist()))
        raise check.error(
            "every part of a split needs at least one query",
            got=f"{data.n_queries} queries cut into {parts}",
            hint="give the part a larger proportion, split into fewer parts, or use more queries",
        )
    return counts
