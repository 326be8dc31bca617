"""Off-policy estimators: the clicks an impression that a ranking would have had, from a log of other rankings.

Each is unbiased under its own assumption about users:

- position-based: a click depends on the document and its position, α_k R + β_k, with α and β known
- item-position IPS: a click depends on the document and its position, in any way
- cascade with DR: a click at position k depends on the documents at positions 1 to k, in any way

The last two divide by the probabilities with which the logging ranker drew what it showed. A ranker that always shows
the same list has none but 0 and 1, and leaves the first.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankwise.base.arrays import Array, Offsets, offsets_of, read_only
from rankwise.base.compiling import kernel
from rankwise.base.threads import over_queries
from rankwise.wings.clicks.off_policy.log_rows import LoggedRows
from rankwise.wings.clicks.positions.bias import Bias

_Numbers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class LogCandidates:
    """All documents that can be ranked for the queries of a log, shown or not."""

    offsets: Offsets
    """Where the documents of each query of the log begin."""
    rows: _Numbers
    """The document of each pair of the log."""
    relevance: Array
    """R̂ of each document, from a model that has not seen the clicks of its query."""
    low_relevance: Array | float = 0.0
    """The same if a document is far below what R̂ predicts."""

    @property
    def queries(self) -> _Numbers:
        """The query of each document."""
        numbers: _Numbers = np.repeat(np.arange(self.offsets.size - 1), np.diff(self.offsets))
        return numbers

    def unseen(self, known: Array | float = 1.0) -> Array:
        """Return 1 for documents that were never shown, and 1 − ``known`` for each pair of the log."""
        column = np.ones(self.relevance.size)
        column[self.rows] -= known
        return column

    def sums(self, values: Array) -> Array:
        """Add up values of documents by query."""
        return np.asarray(np.bincount(self.queries, values, self.offsets.size - 1), np.float64)


@dataclass(frozen=True, eq=False)
class Estimated:
    """The estimate for one ranking, and what it rests on."""

    totals: Array
    """Clicks of each unit, times its impressions."""
    effective: float
    """(Σw)²/Σw² of the rows' weights, in impressions."""
    largest: float
    """The largest weight."""
    unsupported: float
    """The share of the exposure that goes to documents of which the log says nothing, or next to nothing."""
    balance: float = 1.0
    """The mean weight over what it is where the log supports the ranking: far from 1 where it does not."""
    assumed: Array | float = 0.0
    """The part of ``totals`` that is R̂ of these documents, and no clicks."""
    possible: Array | float = 0.0
    """The most that this part could be."""
    modest: Array | float | None = None
    """This part with the low R̂; None where the estimator has none."""
    guessed: Array | float = 0.0
    """The exposure of each document that rests on R̂."""

    @property
    def lowest(self) -> Self:
        """The same if nobody clicked these documents."""
        return replace(self, totals=self.totals - self.assumed)

    @property
    def likely_low(self) -> Self | None:
        """The same with the low R̂ of these documents."""
        return None if self.modest is None else replace(self, totals=self.totals - self.assumed + self.modest)

    @property
    def highest(self) -> Self:
        """The same if everybody who saw these documents clicked them."""
        return replace(self, totals=self.totals - self.assumed + self.possible)


class RankRange(NamedTuple):
    """The first and last place, from 0, that each document can have; they differ where scores are equal."""

    first: _Numbers
    last: _Numbers

    @classmethod
    def of(cls, scores: Array, documents: LogCandidates) -> Self:
        """Rank by scores; documents with the score −inf are not shown."""
        ranks = pl.DataFrame({"query": documents.queries, "score": scores}).select(
            pl.col("score").rank(method, descending=True).over("query").alias(method) for method in ("min", "max")
        )
        first, last = (np.where(scores > -np.inf, ranks[name].to_numpy() - 1, scores.size) for name in ranks.columns)
        return cls(first.astype(np.int64), last.astype(np.int64))

    def mean(self, curves: Array, queries: _Numbers) -> Array:
        """Return the mean of a curve, (positions,) or (queries, positions), over the places that a document can have.

        Places beyond the end of the curve count 0.
        """
        length = curves.shape[-1]
        sums = np.concatenate((np.zeros((*curves.shape[:-1], 1)), np.cumsum(curves, axis=-1)), axis=-1)
        ends = np.minimum(self.last + 1, length), np.minimum(self.first, length)
        upper, lower = (sums[end] if curves.ndim == 1 else sums[queries, end] for end in ends)
        return np.asarray((upper - lower) / (self.last + 1 - self.first))

    def chance(self, rows: _Numbers, positions: _Numbers) -> Array:
        """Return the probability that these documents stand at these positions, which count from 1."""
        first, last = self.first[rows], self.last[rows]
        inside = (positions - 1 >= first) & (positions - 1 <= last)
        return np.where(inside, 1.0 / (last + 1 - first), 0.0)


def position_based(
    scores: Array,
    shown: LoggedRows,
    documents: LogCandidates,
    cutoff: int,
    *,
    bias: Bias,
    exposure: Array,
    floor: float,
    beside: Array | float = 0.0,
) -> Estimated:
    """Estimate Σ_d ω_d·target_d + β, with ω_d = α at the place of the document.

    The target is R̂ + Σ (c − β − α R̂) / max(ρ, floor) over the impressions of a query, divided by their number; ρ is
    the ``exposure`` of each pair an impression of its query. A document that was never shown has R̂; of one with ρ below
    the floor, the part 1 − ρ / floor of the target is R̂. Such documents have one relevance in all rankings: what is
    assumed of them is what this ranking adds to the exposure that another, ``beside`` it, gives them.
    """
    places = RankRange.of(scores, documents)
    curves = query_curves(shown, bias, cutoff, documents.offsets.size - 1)
    seen, trusted = (places.mean(curve, documents.queries) for curve in curves)
    divisor = np.maximum(exposure, floor)
    divisor = np.where(divisor > 0.0, divisor, 1.0)  # nobody looks: nothing to weigh
    weights = seen[documents.rows] / divisor
    alpha, beta = bias.of(shown.positions, shown.segments)
    relevance = documents.relevance[documents.rows[shown.pairs]]
    residuals = shown.clicks - shown.weights * (beta + alpha * relevance)
    totals = shown.by_unit(weights[shown.pairs] * residuals, documents.sums(seen * documents.relevance + trusted))
    guessed = seen * documents.unseen(exposure / divisor)
    added = np.maximum(guessed - beside, 0.0)
    return replace(
        _estimated(totals, shown, weights[shown.pairs], cutoff),
        unsupported=_share(shown, documents, guessed, seen),
        assumed=shown.of_queries(documents.sums(added * documents.relevance)),
        possible=shown.of_queries(documents.sums(added)),
        modest=shown.of_queries(documents.sums(added * documents.low_relevance)),
        guessed=guessed,
    )


def item_position(scores: Array, shown: LoggedRows, documents: LogCandidates, cutoff: int) -> Estimated:
    """Estimate Σ_k c_k · P(d_k at k) / P₀(d_k at k), with the probabilities of the log for P₀."""
    places = RankRange.of(scores, documents)
    chances = np.where(shown.positions <= cutoff, places.chance(documents.rows[shown.pairs], shown.positions), 0.0)
    weights = chances / shown.probabilities
    lengths = np.minimum(documents.sums(np.where(scores > -np.inf, 1.0, 0.0)), cutoff)
    balance = float(shown.weights @ weights) / float(shown.traffic @ lengths[shown.queries])
    # What was never shown has no clicks here: the estimate is the lowest possible.
    never = documents.sums(places.mean(np.ones(cutoff), documents.queries) * documents.unseen())
    estimated = _estimated(shown.by_unit(weights * shown.clicks), shown, weights, cutoff)
    unsupported = _unsupported(places, shown, documents, cutoff)
    return replace(estimated, balance=balance, unsupported=unsupported, possible=shown.of_queries(never))


def cascade(
    scores: Array,
    shown: LoggedRows,
    documents: LogCandidates,
    cutoff: int,
    *,
    bias: Bias | None,
    temperature: float = 0.0,
) -> Estimated:
    """Estimate Σ_k w_{1:k}(c_k − Q̂_k) + w_{1:k−1} E[Q̂_k], with w_{1:k} = Π_{j≤k} P(d_j | d_<j) / P₀(d_j | d_<j).

    The candidate draws each next document by the softmax of the scores that are left over ``temperature``, or shows
    the best at temperature 0. Q̂_k = α_k R̂ + β_k only lowers the variance, and may be wrong; without a ``bias`` it is 0.
    """
    alpha, beta = np.zeros((2, shown.positions.size)) if bias is None else bias.of(shown.positions, shown.segments)
    weights, before, expected, assumed, never = columns = np.empty((5, shown.positions.size))
    sizes, rows = np.bincount(shown.lists), documents.rows[shown.pairs]
    of_log = rows, shown.probabilities, shown.queries, documents.offsets
    settings = *map(read_only, (*of_log, scores, documents.relevance, documents.unseen())), temperature
    work = 4.0 * np.diff(documents.offsets)[shown.queries] * sizes
    over_queries(_weigh, offsets_of(sizes), *settings, *columns, work=work)
    columns[:, shown.positions > cutoff] = 0.0
    corrected = weights * (shown.clicks - shown.weights * (beta + alpha * documents.relevance[rows]))
    totals = shown.by_unit(corrected + shown.weights * (alpha * expected + before * beta))
    reached, entered = (
        np.bincount(shown.positions, column * shown.weights, cutoff + 1)[1 : cutoff + 1] for column in (weights, before)
    )
    # Lists may end early: what is lost is seen from each position to the next, and is lost for all below.
    steps = np.divide(reached, entered, out=np.ones(cutoff), where=entered > 0.0)
    below = cutoff + 1 - shown.positions  # after a document that was never shown, nothing is known
    return replace(
        _estimated(totals, shown, weights, cutoff),
        balance=float(np.cumprod(steps).mean()),
        unsupported=_unsupported(RankRange.of(scores, documents), shown, documents, cutoff),
        assumed=shown.by_unit(shown.weights * (alpha * assumed + never * beta)),
        possible=shown.by_unit(shown.weights * never * below),
    )


@kernel
def _weigh(  # type: ignore[no-untyped-def]
    first, last, offsets, rows, probabilities, queries, starts, scores, relevance, unseen, temperature, weights, before,
    expected, assumed, never,
):  # fmt: skip
    """Fill w_{1:k}, w_{1:k−1}, and w_{1:k−1} times the mean R̂ of the candidate's next document, for each row.

    The last two are the part of that mean, and of w_{1:k−1}, that belongs to documents which were never shown.
    """
    for i in range(first, last):
        begin, end = starts[queries[i]], starts[queries[i] + 1]
        left = scores[begin:end].copy()
        chances = np.empty(left.size)
        weight = 1.0
        for row in range(offsets[i], offsets[i + 1]):
            top = left.max()
            total, mean, guess, new = 0.0, 0.0, 0.0, 0.0
            for d in range(left.size):
                if left[d] == -np.inf:
                    chances[d] = 0.0
                elif temperature == 0.0:
                    chances[d] = 1.0 if left[d] == top else 0.0
                else:
                    chances[d] = np.exp((left[d] - top) / temperature)
                total += chances[d]
                mean += chances[d] * relevance[begin + d]
                guess += chances[d] * relevance[begin + d] * unseen[begin + d]
                new += chances[d] * unseen[begin + d]
            scale = 1.0 / total if total > 0.0 else 0.0
            before[row] = weight if total > 0.0 else 0.0
            expected[row] = weight * mean * scale
            assumed[row] = weight * guess * scale
            never[row] = weight * new * scale
            weight *= chances[rows[row] - begin] * scale / probabilities[row]
            weights[row] = weight
            left[rows[row] - begin] = -np.inf


def query_curves(shown: LoggedRows, bias: Bias, cutoff: int, n_queries: int) -> tuple[Array, Array]:
    """Return α and β of the first positions; where segments differ, α of each query by its segments' traffic."""
    positions = np.arange(1, cutoff + 1)
    if bias.by_segment is None:
        return bias.of(positions)
    numbers = np.arange(-1, len(bias.segment_names))
    curves = np.stack([bias.of(positions, np.full(cutoff, number))[0] for number in numbers])
    first = shown.positions == 1
    keys = shown.queries[shown.lists[first]] * numbers.size + shown.segments[first] + 1
    counts = np.bincount(keys, shown.weights[first], n_queries * numbers.size).reshape(n_queries, -1)
    counts[counts.sum(axis=1) == 0.0, 0] = 1.0  # the common curve
    return counts / counts.sum(axis=1, keepdims=True) @ curves, bias.of(positions)[1]


def _estimated(totals: Array, shown: LoggedRows, weights: Array, cutoff: int) -> Estimated:
    """Return an estimate with the effective number of impressions of its weights."""
    squares = shown.weights @ weights**2
    rows = (shown.weights @ weights) ** 2 / squares if squares > 0.0 else 0.0
    n_impressions = shown.traffic.sum()
    length = shown.weights[shown.positions <= cutoff].sum() / n_impressions
    effective = float(min(rows / max(length, 1e-300), n_impressions))
    return Estimated(totals, effective=effective, largest=float(weights.max()), unsupported=0.0)


def _unsupported(places: RankRange, shown: LoggedRows, documents: LogCandidates, cutoff: int) -> float:
    """Return the share of documents that were never shown, by the clicks that positions have in the log."""
    shows, clicks = (
        np.bincount(shown.positions, column, cutoff + 1)[1 : cutoff + 1] for column in (shown.weights, shown.clicks)
    )
    rates = np.divide(clicks, shows, out=np.zeros(cutoff), where=shows > 0.0)
    seen = places.mean(rates if rates.any() else np.ones(cutoff), documents.queries)
    return _share(shown, documents, seen * documents.unseen(), seen)


def _share(shown: LoggedRows, documents: LogCandidates, part: Array, whole: Array) -> float:
    """Return the share of a part of values of documents, by the traffic of queries."""
    traffic = np.bincount(shown.queries, shown.traffic, documents.offsets.size - 1)
    return float(traffic @ documents.sums(part)) / max(float(traffic @ documents.sums(whole)), 1e-300)
