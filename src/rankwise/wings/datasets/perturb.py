"""Perturb training data: fewer grades, foreign documents, wrong labels.

The last two are the experiments on robustness of Bruch, "An Alternative Cross Entropy Loss for Learning-to-Rank"
(2021), section 5.4. They are meant for training data (and for validation data if you choose so), never for test data.
Both change a ``fraction`` of each list. A fraction that is not a whole number of documents is rounded up or down at
random, so that it holds on average even where lists are short.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rankwise import RankingDataset, check
from rankwise.base import threads
from rankwise.base.arrays import offsets_of
from rankwise.base.compiling import kernel
from rankwise.base.stream import Stream, empty_set, insert, uniform, uniform_pair
from rankwise.data import columns

FLIP_PROBABILITIES = (0.5, 0.2, 0.15, 0.1, 0.05)
"""How likely each grade is when a label is redrawn: 2021 paper, section 5.4."""


def binarize(data: RankingDataset, relevant: float = 1.0) -> RankingDataset:
    """Return data with label 1 where it was at least ``relevant``, else 0.

    >>> data = RankingDataset([[1.0], [2.0], [3.0]], [0, 1, 2], [0, 3])
    >>> binarize(data, relevant=2).labels
    array([0., 0., 1.])
    """
    relevant = check.number("relevant", relevant, least=0.0, open_ends=True)
    return data.with_(labels=(data.labels >= relevant).astype(np.float64))


def add_negatives(data: RankingDataset, fraction: float, *, seed: int = 0) -> RankingDataset:
    """Append documents of other queries to each list, as non-relevant ones.

    ``fraction`` is relative to the list's own length: .4 makes lists 40% longer. No document is drawn twice for
    a query, unless all others are used up. Documents keep their columns, with labels 0; a query's weight stays. Which
    documents a query gets depends on the queries in the data, not on their order.

    >>> data = RankingDataset([[1.0], [2.0], [3.0]], [1, 2, 1], [0, 2, 3], query_ids=["a", "b"])
    >>> longer = add_negatives(data, 0.5)
    >>> longer.labels[:3], longer.features[:3, 0]
    (array([1., 2., 0.]), array([1., 2., 3.], dtype=float32))
    """
    fraction = check.number("fraction", fraction, least=0.0, most=1000.0)
    if fraction > 0.0 and data.n_queries == 1:
        raise check.error(
            "negatives are documents of other queries, and there is only one query", hint="give data of more queries"
        )
    if data.positions is not None or data.propensities is not None:
        raise check.error(
            "negatives cannot join lists that were displayed to a user: they have no position",
            hint="add negatives before clicks are simulated, or to data without positions and propensities",
        )
    stream = data.stream(seed).child("negatives")
    queries = stream.queries(data.n_queries)
    added_sizes = _how_many(fraction, data.sizes, stream)
    offsets = offsets_of(data.sizes + added_sizes)
    # Documents are numbered along the queries sorted by id, so that the order in the data has no part in it.
    order = np.argsort(queries, kind="stable")
    starts = offsets_of(data.sizes[order])
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)

    rows = np.empty(int(offsets[-1]), np.int64)
    threads.over_queries(
        _append, offsets, data.offsets, order, rank, starts, stream.key, queries, rows, work=20.0 * np.diff(offsets)
    )
    changes = columns.take(data, rows, slice(None), leave_out=("rows",))  # documents come from several rows
    added = np.arange(rows.size) - np.repeat(offsets[:-1], np.diff(offsets)) >= np.repeat(
        data.sizes, data.sizes + added_sizes
    )
    for labels in (changes["labels"], *(changes["more_labels"] or {}).values()):
        labels[added] = 0.0
    if data.judged is not None:
        changes["judged"][added] = 0
    return data.with_(features=data.features[rows], offsets=offsets, rows=None, **changes)


def flip_labels(
    data: RankingDataset,
    fraction: float,
    probabilities: Sequence[float] = FLIP_PROBABILITIES,
    *,
    grades: int | None = None,
    seed: int = 0,
) -> RankingDataset:
    """Redraw the labels of a random ``fraction`` of each list; a new label may equal the old one.

    Grade g is drawn with ``probabilities[g]``. Data with fewer ``grades`` (by default the largest label plus one; name
    it where parts of the data may lack the largest) uses the first probabilities, divided by their sum.

    >>> data = RankingDataset(np.zeros((10, 1)), [0, 1, 2, 1, 0, 0, 0, 0, 0, 0], [0, 10])
    >>> flip_labels(data, 0.5, probabilities=(0, 0, 1), seed=1).labels
    array([0., 1., 2., 1., 2., 2., 2., 0., 0., 2.])
    """
    fraction = check.number("fraction", fraction, least=0.0, most=1.0)
    chances = check.distribution("flip probabilities", probabilities)
    old = check.grades(data.labels, data.offsets, data.query_ids, "flip probabilities", chances)
    count = int(old.max()) + 1 if grades is None else check.integer("grades", grades, least=int(old.max()) + 1)
    if count > chances.size:
        got, hint = f"{chances.size} probabilities for {count} grades", "pass one probability for each grade"
        raise check.error("there must be a flip probability for every grade", got=got, hint=hint)
    chances = chances[:count]
    if not chances.any():
        hint = f"labels here are the grades 0 to {count - 1}: make one of them likely"
        what = f"the first {count} flip probabilities must not all be zero"
        raise check.error(what, got=tuple(probabilities), hint=hint)
    stream = data.stream(seed).child("flips")
    counts = _how_many(fraction, data.sizes, stream)
    labels = data.labels.copy()
    cumulative = np.cumsum(chances / chances.sum())
    threads.over_queries(
        _redraw, data.offsets, counts, cumulative[:-1], stream.key, stream.queries(data.n_queries), labels
    )
    return data.with_(labels=labels)


def _how_many(fraction: float, sizes: NDArray[np.int64], stream: Stream) -> NDArray[np.int64]:
    """Round fraction · size up or down at random: a whole number stays, and any other is right on average."""
    exact = fraction * sizes
    floor = np.floor(exact + 1e-9)
    up = stream.per_query(sizes.size)[:, 0] < exact - floor
    count: NDArray[np.int64] = floor.astype(np.int64) + up
    return count


@kernel
def _append(first, last, offsets, old_offsets, order, rank, starts, key, queries, rows):  # type: ignore[no-untyped-def]
    for q in range(first, last):
        size = old_offsets[q + 1] - old_offsets[q]
        added = offsets[q] + size
        rows[offsets[q] : added] = np.arange(old_offsets[q], old_offsets[q + 1])
        _draw_distinct(key, queries[q], starts[-1] - size, rows[added : offsets[q + 1]])
        for i in range(added, offsets[q + 1]):
            number = rows[i]
            if number >= starts[rank[q]]:  # step over the query's own documents
                number += size
            place = np.searchsorted(starts, number, side="right") - 1
            rows[i] = old_offsets[order[place]] + number - starts[place]


@kernel
def _draw_distinct(key, query, limit, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with numbers below ``limit``: all of them as often as they fit, then distinct ones (Floyd's way)."""
    count = out.size
    while count >= limit:
        count -= limit
        out[count : count + limit] = np.arange(limit)
    numbers = empty_set(count)
    for i in range(count):
        largest = limit - count + i
        number = np.int64(uniform(key, query, i, 0) * (largest + 1))
        if not insert(numbers, number):
            number = largest
            insert(numbers, number)
        out[i] = number


@kernel
def _redraw(first, last, offsets, counts, cumulative, key, queries, labels):  # type: ignore[no-untyped-def]
    for q in range(first, last):
        remaining = counts[q]
        for i in range(offsets[q], offsets[q + 1]):
            choose, grade = uniform_pair(key, queries[q], i - offsets[q], 0)
            if choose * (offsets[q + 1] - i) < remaining:  # each subset of the wanted size is equally likely
                remaining -= 1
                labels[i] = np.searchsorted(cumulative, grade, side="right")
