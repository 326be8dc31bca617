"""What unjudged documents, the holes of rankings, could change in a comparison.

Metrics take an unjudged document for not relevant. Here holes get labels and the metric is computed again, so that all
metrics of labels are treated alike, and the ideal order of NDCG changes with them. There are two kinds of labels:

- *filled*: as judged documents at the hole's depth. A label is drawn from the judged documents at that depth of that
  query or, as if there were ``_PRIOR`` more of them, from those of all queries. Values are means over ``DRAWS`` draws,
  spread evenly over these documents. The depth of a document is the geometric mean of its ranks: what one system alone
  finds is less often relevant than what several find, and mostly those were judged.
- *extreme*: the highest grade for what one system ranks higher than the other, and 0 for all else.

A document has one depth and one label for all systems. Depths double: 1, 2 and 3, 4 to 7, 8 to 15 …
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rankwise.base.arrays import Array, Offsets, index_of, offsets_of
from rankwise.base.stream import Stream, hashed_ids
from rankwise.data.dataset import RankingDataset
from rankwise.metrics import Metric

if TYPE_CHECKING:
    from rankwise.statistics.evaluation import Evaluation, Ranked

DRAWS = 32
_PRIOR = 5.0
_STEPS = 4
"""Into how many steps the holes of a query are divided on the way to an extreme: with NDCG, whose ideal order changes,
the last of them may not be the worst."""
_WORTHS = 100
"""Ranks whose worth is measured; those below are worth less."""

Rows = NDArray[np.int64]


class Lists(NamedTuple):
    """All documents that any system ranked or that were judged, query after query."""

    offsets: Offsets
    queries: Rows
    """(n_docs,) number of each document's query."""
    labels: Array
    judged: NDArray[np.bool_]
    scores: Array
    """(n_systems, n_docs); −inf where a document was not retrieved."""
    ranks: Rows
    """(n_systems, n_docs) from 1; 0 where a document was not retrieved."""

    @classmethod
    def of(cls, evaluations: "Sequence[Evaluation]") -> Self | None:
        """Join the rankings of systems by the ids of queries and documents; None where they cannot be joined."""
        rankings = [one.ranked for one in evaluations if one.ranked is not None]
        if len(rankings) < len(evaluations):
            return None  # values from files
        first = evaluations[0].query_ids
        places = [index_of(one.query_ids, first) for one in evaluations]
        rows = _rows(rankings, places)
        if rows is None:
            return None
        key, size = np.concatenate([place[_queries(one)] for one, place in zip(rankings, places, strict=True)]), 0
        n_docs = 1 + max(int(row.max(initial=-1)) for row in rows)
        queries, labels, judged = np.zeros(n_docs, np.int64), np.zeros(n_docs), np.zeros(n_docs, bool)
        scores, ranks = np.full((len(rows), n_docs), -np.inf), np.zeros((len(rows), n_docs), np.int64)
        for number, (one, row) in enumerate(zip(rankings, rows, strict=True)):
            queries[row] = key[size : size + row.size]
            size += row.size
            labels[row] = np.maximum(labels[row], one.labels)
            judged[row] |= True if one.judged is None else one.judged == 1
            scores[number, row], ranks[number, row] = one.scores, _ranks(one)
        return cls(offsets_of(np.bincount(queries, minlength=first.size)), queries, labels, judged, scores, ranks)

    @property
    def holes(self) -> Rows:
        """Rows of the documents that a system retrieved and nobody judged."""
        return np.flatnonzero(~self.judged & (self.ranks > 0).any(axis=0))

    def values(self, metric: Metric, labels: Array, systems: Sequence[int] | None = None) -> Array:
        """Return (n_systems, n_queries) values of a metric by these labels."""
        data = RankingDataset(np.empty((labels.size, 0)), labels, self.offsets)
        # Rows are in no system's order.
        ordered = (
            np.where(self.ranks > 0, -self.ranks, -np.inf) if getattr(metric, "ties", "") == "row" else self.scores
        )
        return np.array([metric.of(ordered[one], data) for one in systems or range(len(ordered))])

    @property
    def depths(self) -> Rows:
        """(n_docs,) depth of each document as a power of 2; who did not retrieve it has it below the last document."""
        last = np.stack([np.maximum.reduceat(one, self.offsets[:-1]) for one in self.ranks]) + 1
        ranks = np.where(self.ranks > 0, self.ranks, last[:, self.queries])
        return np.asarray(np.log2(ranks).mean(axis=0).astype(np.int64))

    def filled(self, stream: Stream) -> Iterator[Array]:
        """Draw labels of holes from judged documents at their depths, again and again."""
        holes, retrieved = self.holes, (self.ranks > 0).any(axis=0)
        rows = np.flatnonzero(self.judged & (retrieved | ~(self.judged & retrieved).any()))
        # Where no document was judged at a depth, those above it stand for it.
        known = np.unique(self.depths[rows])
        depth = known[np.maximum(np.searchsorted(known, self.depths, "right") - 1, 0)]
        of_query, first, count = _alike(depth * (self.offsets.size - 1) + self.queries, rows, holes, self.labels)
        of_all, start, size = _alike(depth, rows, holes, self.labels)
        own, uniform = count / (count + _PRIOR), stream.documents(self.offsets)[holes]
        for draw in range(DRAWS):
            place = (uniform + draw / DRAWS) % 1.0
            near = place < own
            share = np.where(near, place / np.where(near, own, 1.0), (place - own) / (1.0 - own))
            place = np.where(near, count, size) * share
            place = np.where(near, first, start) + np.minimum(place, np.where(near, count, size) - 1).astype(np.int64)
            labels = self.labels.copy()
            labels[holes] = np.where(near, of_query[np.minimum(place, rows.size - 1)], of_all[place])
            yield labels

    def extremes(self, metric: Metric, system: int, against: int) -> tuple[Array, Array]:
        """Return the lowest and the highest difference of two systems found on each query, whatever holes are."""
        holes, highest = self.holes, float(self.labels.max())
        worths = _worths(metric, highest, int(self.ranks.max()))
        favour = worths[self.ranks[system, holes]] - worths[self.ranks[against, holes]]
        found = []
        for rows, gain in ((holes[favour > 0.0], favour[favour > 0.0]), (holes[favour < 0.0], -favour[favour < 0.0])):
            rows = rows[np.lexsort((-gain, self.queries[rows]))]
            counts = np.bincount(self.queries[rows], minlength=self.offsets.size - 1)
            place = np.arange(rows.size) - np.repeat(np.cumsum(counts) - counts, counts)
            steps = (np.repeat(counts, counts) * step / _STEPS for step in range(1, _STEPS + 1))
            found += [rows[place < np.ceil(most)] for most in steps]
        differences = []
        for rows in (*found, holes, holes[:0]):
            labels = self.labels.copy()
            labels[rows] = highest
            one, other = self.values(metric, labels, (system, against))
            differences.append(one - other)
        return np.min(differences, axis=0), np.max(differences, axis=0)


def _queries(ranked: "Ranked") -> Rows:
    return np.repeat(np.arange(ranked.offsets.size - 1), np.diff(ranked.offsets))


def _ranks(ranked: "Ranked") -> Rows:
    """Rank documents by score, equal ones in the order of their rows; 0 for those that were not retrieved."""
    queries, ranks = _queries(ranked), np.zeros(ranked.scores.size, np.int64)
    ranks[np.lexsort((-ranked.scores, queries))] = np.arange(queries.size) - ranked.offsets[queries] + 1
    ranks[ranked.scores == -np.inf] = 0
    return ranks


def _rows(rankings: "Sequence[Ranked]", places: Sequence[Rows]) -> list[Rows] | None:
    """Return the row of each document of each ranking in lists of them all."""
    first = rankings[0]
    same = all(
        np.array_equal(place, places[0])
        and np.array_equal(one.offsets, first.offsets)
        and np.array_equal(one.labels, first.labels)
        and _equal(one.judged, first.judged)
        and _equal(one.document_ids, first.document_ids)
        for one, place in zip(rankings, places, strict=True)
    )
    if same:
        return [np.arange(first.labels.size)] * len(rankings)
    if any(one.document_ids is None for one in rankings):
        return None
    ids = np.concatenate([hashed_ids(np.asarray(one.document_ids).astype(np.str_)) for one in rankings])
    queries = np.concatenate([place[_queries(one)] for one, place in zip(rankings, places, strict=True)])
    order = np.lexsort((ids, queries))
    new = np.ones(order.size, bool)
    new[1:] = (np.diff(queries[order]) != 0) | (ids[order][1:] != ids[order][:-1])
    rows = np.empty(order.size, np.int64)
    rows[order] = np.cumsum(new) - 1
    return np.split(rows, np.cumsum([one.labels.size for one in rankings])[:-1])


def _equal(one: object, other: object) -> bool:
    return one is other or (one is not None and other is not None and np.array_equal(one, other))  # type: ignore[arg-type]


def _alike(kinds: Rows, rows: Rows, holes: Rows, labels: Array) -> tuple[Array, Rows, Rows]:
    """Return labels of judged rows by kind, sorted, and where those of each hole's kind begin, and their number."""
    rows = rows[np.lexsort((labels[rows], kinds[rows]))]
    first, end = (np.searchsorted(kinds[rows], kinds[holes], side) for side in ("left", "right"))
    return labels[rows], first, end - first


def _worths(metric: Metric, grade: float, longest: int) -> Array:
    """Return what ranks are worth, from rank 0, which is none: the metric of a lone relevant document there."""
    cutoff = getattr(metric, "cutoff", None)
    measured = min(longest, cutoff or _WORTHS)
    sizes = np.arange(1, measured + 1)
    offsets = offsets_of(sizes)
    labels = np.zeros(int(offsets[-1]))
    labels[offsets[1:] - 1] = grade
    scores = -(np.arange(labels.size) - np.repeat(offsets[:-1], sizes)).astype(float)
    worths = np.nan_to_num(np.asarray(metric(scores, labels, offsets)))
    below = np.arange(measured + 1, longest + 1)
    return np.concatenate([[0.0], worths, np.zeros(below.size) if cutoff else worths[-1] * measured / below])
