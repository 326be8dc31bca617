"""Simulate users who click, on lists shown at random or by a ranker.

Each list that a user sees is an *impression* and becomes a query of its own: query "Q" shown for the third time is
"Q#3". Its documents stand in the order in which they were shown, their labels are 1 where clicked and else 0, and
``positions`` counts from 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check, threads
from rankwise.arrays import Array, offsets_of
from rankwise.compiling import kernel
from rankwise.data import columns
from rankwise.data.columns import NamedColumns
from rankwise.data.dataset import RankingDataset
from rankwise.stream import uniform_pair

CLICK_PROBABILITIES = (0.05, 0.3, 0.5, 0.7, 0.95)
"""How likely a click on an examined document of grade 0, 1, ... is: 2021 paper, section 5.5."""

_MODELS = ("cascade", "position")


class Predictor(Protocol):
    """Anything that scores the documents of a data set."""

    def predict(self, data: RankingDataset, /) -> ArrayLike:
        """Return one score per document."""


@dataclass(frozen=True, eq=False, repr=False, init=False)
class ClickLog(RankingDataset):
    """Impressions as ranking data, and the number of impressions without a click that were left out."""

    dropped: int = field(default=0, kw_only=True)
    """Impressions that ended without a click and were dropped when the log was made."""

    def __init__(
        self,
        features: ArrayLike,
        labels: ArrayLike,
        offsets: ArrayLike,
        *,
        dropped: int = 0,
        **optional: Unpack[NamedColumns],
    ) -> None:
        super().__init__(features, labels, offsets, **optional)
        self._set("dropped", dropped)

    def __repr__(self) -> str:
        impressions = "impression" if self.dropped == 1 else "impressions"
        return (
            f"ClickLog{super().__repr__().removeprefix('RankingDataset')[:-1]}, {self.dropped:,} {impressions} dropped)"
        )


def simulate_clicks(
    data: RankingDataset,
    *,
    model: str = "cascade",
    probabilities: Sequence[float] = CLICK_PROBABILITIES,
    impressions: int = 10,
    ranker: Predictor | ArrayLike | None = None,
    cutoff: int | None = None,
    eta: float = 1.0,
    keep_empty: bool = False,
    seed: int = 0,
) -> ClickLog:
    """Show each list ``impressions`` times and return what was seen and clicked.

    ``model="cascade"`` is the persistent user of Bruch (2021, section 5.5): reads from the top, clicks a document of
    grade g with ``probabilities[g]``, and stops at the first click; the impression is the list up to it.
    ``model="position"`` examines rank r with probability (1/r)^eta, whatever else happens, and clicks what is examined
    and attractive; the impression is the whole list, and the examination probabilities are its ``propensities``.

    ``ranker`` decides the order: None shuffles every time; scores, or a model with ``predict(data)`` (one of another
    library through :func:`wrap`), sort it, equal scores in random order, documents with score −inf not shown. Only the
    first ``cutoff`` documents are shown. An impression without a click teaches nothing to most losses and is dropped,
    and counted in ``.dropped``, unless ``keep_empty``. Data with fewer grades uses the first probabilities. Weights and
    document ids are carried over.

    >>> data = RankingDataset([[1.0], [2.0], [3.0]], [0, 4, 0], [0, 3], query_ids=["Q"])
    >>> log = simulate_clicks(data, probabilities=(0, 0, 0, 0, 1), ranker=[3.0, 2.0, 1.0], impressions=2)
    >>> log.query_ids, log.labels, log.positions
    (array(['Q#1', 'Q#2'], dtype='<U3'), array([0., 1., 0., 1.]), array([1, 2, 1, 2]))
    >>> simulate_clicks(data, probabilities=(0, 0, 0, 0, 0.5), seed=2)
    ClickLog(4 queries, 6 documents, 1 feature, labels 0 to 1, 6 impressions dropped)
    """
    cascade = check.choice("click model", model, _MODELS) == "cascade"
    chances = check.probabilities("click probabilities", probabilities)
    impressions = check.integer("impressions", impressions, least=1)
    cutoff = data.n_docs if cutoff is None else check.integer("cutoff", cutoff, least=1)
    grades = check.grades(data.labels, data.offsets, data.query_ids, "click probabilities", chances)
    eta = check.number("eta", eta, least=0.0, most=10.0)
    ranks = np.arange(1.0, min(cutoff, int(data.sizes.max(initial=1))) + 1)
    examined: Array = np.ones(ranks.size) if cascade else ranks**-eta
    scores = _scores(ranker, data)

    # Streams have no state, so the users are simulated twice: once to learn how long impressions are, once to write.
    stream = data.stream(seed).child("clicks")
    users = stream.key, stream.queries(data.n_queries), scores, chances[grades], examined, cascade, keep_empty
    lengths = np.zeros((data.n_queries, impressions), np.int64)
    nothing = np.empty(0, np.int64)
    work = data.sizes.astype(np.float64) * (40.0 * impressions)
    threads.over_queries(_simulate, data.offsets, *users, lengths, nothing, nothing, np.empty(0), work=work)
    starts = offsets_of(lengths.ravel())
    rows, labels = np.empty(int(starts[-1]), np.int64), np.empty(int(starts[-1]))
    if rows.size == 0:
        raise check.error(
            "no impression got a click",
            got=f"{lengths.size} impressions",
            hint="raise the click probabilities or the number of impressions, or `keep_empty=True`",
        )
    threads.over_queries(_simulate, data.offsets, *users, lengths, starts, rows, labels, work=work)

    clicked = lengths.ravel() > 0
    sizes = lengths.ravel()[clicked]
    offsets = offsets_of(sizes)
    query = np.repeat(np.arange(data.n_queries), impressions)[clicked]
    number = np.tile(np.arange(1, impressions + 1), data.n_queries)[clicked]
    positions = np.arange(1, rows.size + 1) - np.repeat(offsets[:-1], sizes)
    names = np.arange(data.n_queries) if data.query_ids is None else data.query_ids
    shown = zip(names[query].tolist(), number.tolist(), strict=True)
    made_here = ("labels", "query_ids", "propensities", "positions", "judged", "rows")
    return ClickLog(
        data.features[rows],
        labels,
        offsets,
        query_ids=np.array([f"{name}#{count}" for name, count in shown]),
        feature_names=data.feature_names,
        categorical=data.categorical,
        categories=data.categories,
        propensities=None if cascade else examined[positions - 1],
        positions=positions,
        dropped=int(lengths.size - clicked.sum()),
        **columns.take(data, rows, query, leave_out=made_here),
    )


def _scores(ranker: Predictor | ArrayLike | None, data: RankingDataset) -> NDArray[np.float64]:
    if ranker is None:
        return np.zeros(data.n_docs)
    values = ranker.predict(data.without_rows()) if hasattr(ranker, "predict") else ranker
    scores = check.scores(values, data.offsets, data.query_ids)
    best = np.maximum.reduceat(scores, data.offsets[:-1]) if data.n_docs else scores
    if (best == -np.inf).any():
        row = int(data.offsets[np.argmax(best == -np.inf)])
        what, where = "a list needs a document that can be shown", check.query_of_row(row, data.offsets, data.query_ids)
        raise check.error(what, got="only scores of -inf", where=where, hint="leave the query out")
    return scores


@kernel
def _simulate(  # type: ignore[no-untyped-def]
    first, last, offsets, key, queries, scores, chances, examined, cascade, keep_empty, lengths, starts, rows, labels
):
    """Fill ``lengths`` (queries × impressions; 0 for a dropped one); with ``starts`` also ``rows`` and ``labels``."""
    impressions = lengths.shape[1]
    for q in range(first, last):
        begin, size = offsets[q], offsets[q + 1] - offsets[q]
        list_scores = scores[begin : begin + size]
        best = np.argsort(-list_scores, kind="mergesort")
        # Documents with the same score are a run; each place of it is filled at random from those that are left.
        ends = np.empty(size, np.int64)
        for i in range(size - 1, -1, -1):
            ends[i] = ends[i + 1] if i + 1 < size and list_scores[best[i]] == list_scores[best[i + 1]] else i + 1
        shown = min(size, examined.size)
        while list_scores[best[shown - 1]] == -np.inf:
            shown -= 1
        for k in range(impressions):
            if starts.size and lengths[q, k] == 0:
                continue
            order = best.copy()
            length, clicked = shown, False
            for i in range(shown):
                place, click = uniform_pair(key, queries[q], i, k)
                swap = i + np.int64(place * (ends[i] - i))
                order[i], order[swap] = order[swap], order[i]
                hit = click < examined[i] * chances[begin + order[i]]
                clicked |= hit
                if starts.size:
                    rows[starts[q * impressions + k] + i] = begin + order[i]
                    labels[starts[q * impressions + k] + i] = hit
                if hit and cascade:
                    length = i + 1
                    break
            if not starts.size:
                lengths[q, k] = length if clicked or keep_empty else 0
