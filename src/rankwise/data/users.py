"""Simulated users: what they see, what they click, when they leave; and the truth about them in closed form."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check, threads
from rankwise.arrays import Array, Floats, offsets_of
from rankwise.compiling import kernel
from rankwise.data.dataset import RankingDataset
from rankwise.stream import uniform, uniform_pair

CLICK_PROBABILITIES = (0.05, 0.3, 0.5, 0.7, 0.95)
"""Probability of a click on an examined document of grade 0, 1, ...: 2021 paper, section 5.5."""
SATISFACTION = (0.2, 0.3, 0.5, 0.7, 0.9)
"""Probability that a clicked document of grade 0, 1, ... ends the search: Hofmann et al. (2013), navigational."""
CONTINUATION = 0.9
"""Probability that a user who is not satisfied goes on to the next document."""

_OPTIONS = {"cascade": (), "position": ("curve", "trust"), "dbn": ("satisfaction", "continuation")}
_RENEW = 1e-3  # Plackett-Luce: weights are computed anew when this share of them is left, before rounding matters
_NEGLIGIBLE = -40.0  # in logarithms: less than a uniform number can resolve

Trust = tuple[float | Sequence[float], float | Sequence[float]]


class Predictor(Protocol):
    """Anything that scores the documents of a data set."""

    def predict(self, data: RankingDataset, /) -> ArrayLike:
        """Return one score per document."""


Shown = Predictor | ArrayLike | None
"""What decides an order: a model, scores, or None for a new random order in every impression."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Users:
    """Users of one kind, with the arguments of :func:`simulate_clicks` that describe them.

    >>> users = Users(curve=[1.0, 0.5], trust=(0.9, 0.1))
    >>> alpha, beta = users.bias(2)
    >>> alpha, beta
    (array([0.8, 0.4]), array([0.1 , 0.05]))
    >>> data = RankingDataset([[1.0], [2.0], [3.0]], [0, 4, 0], [0, 3])
    >>> users.rewards(data), users.expected_clicks(data, [1.0, 3.0, 2.0])
    (array([0.05, 0.95, 0.05]), array([0.93]))
    """

    model: str = "position"
    probabilities: Sequence[float] = CLICK_PROBABILITIES
    eta: float = 1.0
    curve: Sequence[float] | Array | None = None
    trust: Trust | None = None
    satisfaction: Sequence[float] | None = None
    continuation: float | None = None

    def __post_init__(self) -> None:
        allowed = _OPTIONS[check.choice("click model", self.model, _OPTIONS)]
        for name in ("curve", "trust", "satisfaction", "continuation"):
            if getattr(self, name) is not None and name not in allowed:
                model = next(model for model, options in _OPTIONS.items() if name in options)
                what = f"users of the model {self.model!r} have no {name}"
                raise check.error(what, got=f"{name}={getattr(self, name)!r}", hint=f'`set model="{model}"`')
        check.probabilities("click probabilities", self.probabilities)
        check.number("eta", self.eta, least=0.0, most=10.0)
        check.probabilities(
            "satisfaction probabilities", SATISFACTION if self.satisfaction is None else self.satisfaction
        )
        check.number(
            "continuation", CONTINUATION if self.continuation is None else self.continuation, least=0.0, most=1.0
        )
        if self.curve is not None:
            check.probabilities("examination probabilities", self.curve)  # type: ignore[arg-type]
            if self.eta != 1.0:
                what, hint = "examination is either a curve or (1/r)^eta", "leave one of them out"
                raise check.error(what, got=f"a curve and eta={self.eta}", hint=hint)

    def depth(self, cutoff: int) -> int:
        """Return the number of positions that these users are shown: a curve ends somewhere."""
        return cutoff if self.curve is None else min(cutoff, len(self.curve))

    def examination(self, positions: int) -> Array:
        """Return the probabilities of looking at positions 1, 2, …, whatever was clicked above."""
        if self.model != "position":
            return np.ones(positions)
        if self.curve is None:
            return np.arange(1.0, positions + 1) ** -self.eta
        return np.concatenate((self.curve, np.zeros(positions)))[:positions]

    def bias(self, positions: int) -> tuple[Array, Array]:
        """Return α and β of P(click | document, position k) = α_k R + β_k, R being the document's reward.

        With trust (ε⁺, ε⁻) they are θ(ε⁺ − ε⁻) and θ ε⁻ (Vardasbi et al. 2020), else θ and 0.
        """
        if self.model != "position":
            what = f"clicks of the model {self.model!r} depend on what stands above, not on the position alone"
            raise check.error(what, hint="compare `expected_clicks` instead")
        return self._affine(positions)

    def _affine(self, positions: int) -> tuple[Array, Array]:
        examined = self.examination(positions)
        if self.trust is None:
            return examined, np.zeros(positions)
        plus, minus = (self._trust(name, value, positions) for name, value in zip("+-", self.trust, strict=True))
        if (plus < minus).any():
            k = int(np.argmax(plus < minus))
            what = "a click on a relevant document must be at least as likely as on another"
            raise check.error(what, got=f"trust {plus[k]:g} below {minus[k]:g} at position {k + 1}")
        return examined * (plus - minus), examined * minus

    @staticmethod
    def _trust(sign: str, value: float | Sequence[float], positions: int) -> Array:
        what = f"probabilities ε{sign} of trust"
        chances = check.probabilities(what, np.atleast_1d(value))  # type: ignore[arg-type]
        if chances.size not in (1, positions) and chances.size < positions:
            hint = "set a cutoff, or one number for all positions"
            raise check.error(f"{what} are needed for every position", got=f"{chances.size} of {positions}", hint=hint)
        return np.broadcast_to(chances, positions) if chances.size == 1 else chances[:positions]

    def rewards(self, data: RankingDataset) -> Array:
        """Return the reward R of each document: the probability of a click, once examined (and without trust)."""
        return self._by_grade(data, "click probabilities", self.probabilities)

    @staticmethod
    def _by_grade(data: RankingDataset, what: str, probabilities: Sequence[float]) -> Array:
        chances = check.probabilities(what, probabilities)
        return chances[check.grades(data.labels, data.offsets, data.query_ids, what, chances)]

    def leaving(self, data: RankingDataset) -> tuple[Array, float]:
        """Return the probability that a click on each document satisfies, and that of going on otherwise."""
        if self.model == "position":
            return np.zeros(data.n_docs), 1.0
        if self.model == "cascade":
            return np.ones(data.n_docs), 1.0
        satisfaction = SATISFACTION if self.satisfaction is None else self.satisfaction
        continuation = CONTINUATION if self.continuation is None else self.continuation
        return self._by_grade(data, "satisfaction probabilities", satisfaction), continuation

    def expected_clicks(self, data: RankingDataset, scores: Shown, cutoff: int | None = None) -> Array:
        """Return the expected number of clicks in an impression of each query, in the order of scores.

        Documents with equal scores stand in the order of the data.
        """
        positions = self.depth(_cutoff(cutoff, data))
        clicks = np.zeros(data.n_queries)
        users = self.rewards(data), *self.leaving(data), *self._affine(positions)
        threads.over_queries(_expected, data.offsets, scores_of(scores, data), *users, clicks)
        return clicks


class Impressions(NamedTuple):
    """Lists that were shown, those of a query next to each other."""

    lengths: NDArray[np.int64]
    """Documents of each impression; 0 for one that was left out."""
    rankers: NDArray[np.int16]
    """The number of the ranker of each impression."""
    rows: NDArray[np.int32]
    """The row of each document that was shown, in the data."""
    clicked: NDArray[np.bool_]
    probabilities: Floats
    """The probability of each document at its place, given those above it; empty if it was not asked for."""


def show(
    data: RankingDataset,
    users: Users,
    rankers: Sequence[Shown],
    *,
    counts: NDArray[np.int64],
    cutoff: int | None,
    drawn: float | None,
    seed: int,
    first: NDArray[np.int64] | None = None,
    keep_empty: bool = True,
    truncated: bool = False,
    probabilities: bool = False,
) -> Impressions:
    """Show the list of query q ``counts[q]`` times, each time by one of the rankers, all equally likely.

    ``first`` is the number of each query's first impression in the result. ``truncated`` ends an impression where the
    user leaves, and without ``keep_empty`` those without a click are left out.
    """
    positions = users.depth(_cutoff(cutoff, data))
    temperature = 0.0 if drawn is None else check.number("temperature", drawn, least=1e-6, most=1e6)
    # Streams have no state, so the users are simulated twice: once to learn how long impressions are, once to write.
    stream = data.stream(seed).child("clicks")
    keys = np.array([stream.key, stream.child("leaving").key, stream.child("rankers").key], np.uint64)
    scores = np.stack([scores_of(ranker, data) for ranker in rankers])
    of_users = users.rewards(data), *users.leaving(data), *users._affine(positions)
    how = temperature, keep_empty, truncated
    first = offsets_of(counts)[:-1] if first is None else first
    lengths, shown_by = np.zeros(int(counts.sum()), np.int64), np.zeros(int(counts.sum()), np.int16)
    settings = keys, stream.queries(data.n_queries), scores, *of_users, *how, counts, first, lengths, shown_by
    work = data.sizes.astype(np.float64) + 40.0 * counts * np.minimum(data.sizes, positions)
    nothing = np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.bool_), np.empty(0, np.float32)
    threads.over_queries(_simulate, data.offsets, *settings, *nothing, work=work)
    starts = offsets_of(lengths)
    size = int(starts[-1])
    rows, clicked = np.empty(size, np.int32), np.empty(size, np.bool_)
    chances = np.empty(size if probabilities else 0, np.float32)
    threads.over_queries(_simulate, data.offsets, *settings, starts, rows, clicked, chances, work=work)
    return Impressions(lengths, shown_by, rows, clicked, chances)


def named_rankers(ranker: Shown, rankers: Mapping[str, Shown] | None) -> dict[str, Shown]:
    """Return rankers by name, sorted: one that was not named has the empty name."""
    if rankers is None:
        return {"": ranker}
    if ranker is not None or not isinstance(rankers, Mapping) or not rankers:
        what = "lists are shown by one ranker, or by rankers, a dictionary with a name for each"
        raise check.error(what, got="both" if ranker is not None else repr(rankers))
    return {name: rankers[name] for name in sorted(rankers)}


def scores_of(ranker: Shown, data: RankingDataset) -> Array:
    """Return one score per document; zeros without a ranker."""
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


def _cutoff(cutoff: int | None, data: RankingDataset) -> int:
    longest = int(data.sizes.max(initial=1))
    return longest if cutoff is None else min(check.integer("cutoff", cutoff, least=1), longest)


@kernel
def _expected(first, last, offsets, scores, rewards, satisfied, continuation, alpha, beta, clicks):  # type: ignore[no-untyped-def]
    for q in range(first, last):
        begin = offsets[q]
        order = np.argsort(-scores[begin : offsets[q + 1]], kind="mergesort")
        present = 1.0  # the probability that the user is still there
        for i in range(min(order.size, alpha.size)):
            row = begin + order[i]
            if scores[row] == -np.inf:
                break
            chance = alpha[i] * rewards[row] + beta[i]
            clicks[q] += present * chance
            present *= continuation * (1.0 - chance * satisfied[row])


@kernel
def _simulate(  # type: ignore[no-untyped-def]
    first, last, offsets, keys, queries, scores, rewards, satisfied, continuation, alpha, beta, temperature, keep_empty,
    truncated, counts, firsts, lengths, shown_by, starts, rows, clicked, probabilities,
):  # fmt: skip
    """Fill ``lengths`` (0 for a dropped impression) and ``shown_by``; with ``starts`` also what follows it."""
    n_rankers = scores.shape[0]
    writing = starts.size > 0
    for q in range(first, last):
        begin, size = offsets[q], offsets[q + 1] - offsets[q]
        best, ends = np.empty((n_rankers, size), np.int64), np.empty((n_rankers, size), np.int64)
        weights, totals = np.empty((n_rankers, size)), np.empty(n_rankers)
        retrieved = np.empty(n_rankers, np.int64)
        for m in range(n_rankers):
            list_scores = scores[m, begin : begin + size]
            best[m] = np.argsort(-list_scores, kind="mergesort")
            # Documents with the same score are a run; each place of it is filled at random from those that are left.
            for i in range(size - 1, -1, -1):
                tied = i + 1 < size and list_scores[best[m, i]] == list_scores[best[m, i + 1]]
                ends[m, i] = ends[m, i + 1] if tied else i + 1
            retrieved[m] = size
            while list_scores[best[m, retrieved[m] - 1]] == -np.inf:
                retrieved[m] -= 1
            if temperature > 0.0:
                totals[m] = _weigh(list_scores, best[m], 0, retrieved[m], temperature, weights[m])
        order, chances = np.empty(size, np.int64), np.empty(size)
        for k in range(counts[q]):
            n = firsts[q] + k
            if writing and lengths[n] == 0:
                continue
            by = np.int64(0)
            if n_rankers > 1:
                by = np.int64(uniform(keys[2], queries[q], 0, k) * n_rankers)
            shown = min(retrieved[by], alpha.size)
            if not writing:
                shown_by[n] = by
                if keep_empty and not truncated:
                    lengths[n] = shown
                    continue
            order[:] = best[by]
            left = total = 0.0
            if temperature > 0.0:
                chances[:] = weights[by]
                left = total = totals[by]
            length, clicks, present = shown, 0, True
            for i in range(shown):
                place, click = uniform_pair(keys[0], queries[q], i, k)
                if temperature > 0.0:
                    if left < _RENEW * total:
                        list_scores = scores[by, begin : begin + size]
                        left = total = _weigh(list_scores, order, i, retrieved[by], temperature, chances)
                    probability = _draw(order, chances, i, retrieved[by], place, left)
                    left -= chances[i]
                else:
                    swap = i + np.int64(place * (ends[by, i] - i))
                    order[i], order[swap] = order[swap], order[i]
                    probability = 1.0 / (ends[by, i] - i)
                row = begin + order[i]
                hit = present and click < alpha[i] * rewards[row] + beta[i]
                clicks += hit
                if writing:
                    rows[starts[n] + i] = row
                    clicked[starts[n] + i] = hit
                    if probabilities.size:
                        probabilities[starts[n] + i] = probability
                if present:
                    stays = continuation * (1.0 - satisfied[row]) if hit else continuation
                    if stays < 1.0:
                        present = stays > 0.0 and uniform(keys[1], queries[q], i, k) < stays
                if truncated and not present:
                    length = i + 1
                    break
            if not writing:
                lengths[n] = length if clicks or keep_empty else 0


@kernel
def _weigh(scores, order, first, last, temperature, weights):  # type: ignore[no-untyped-def]
    """Fill the Plackett-Luce weights of places ``first`` to ``last`` of a sorted order, and return their sum."""
    total = 0.0
    for i in range(first, last):
        gap = (scores[order[i]] - scores[order[first]]) / temperature
        weights[i] = np.exp(gap) if gap > _NEGLIGIBLE else 0.0
        total += weights[i]
    return total


@kernel
def _draw(order, weights, first, last, place, left):  # type: ignore[no-untyped-def]
    """Move a document that is drawn by its weight to place ``first``, the rest stays sorted; return its probability."""
    target, below, i = place * left, weights[first], first
    while below <= target and i + 1 < last and weights[i + 1] > 0.0:
        i += 1
        below += weights[i]
    document, weight = order[i], weights[i]
    for j in range(i, first, -1):
        order[j], weights[j] = order[j - 1], weights[j - 1]
    order[first], weights[first] = document, weight
    return weight / left
