"""Simulated users: what they see, what they click, when they leave; and the truth about them in closed form."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import RankingDataset, check
from rankwise.base import threads
from rankwise.base.arrays import Array, offsets_of, read_only
from rankwise.base.compiling import kernel
from rankwise.base.stream import uniform, uniform_pair
from rankwise.check.docstrings import PlainSignature
from rankwise.check.parameters import Option
from rankwise.evaluation import Predictor
from rankwise.wings.clicks.logs.sessions import Sessions

CLICK_PROBABILITIES = (0.05, 0.3, 0.5, 0.7, 0.95)
"""Probability of a click on an examined document of grade 0, 1, ...: 2021 paper, section 5.5."""
SATISFACTION = (0.2, 0.3, 0.5, 0.7, 0.9)
"""Probability that a clicked document of grade 0, 1, ... ends the search: Hofmann et al. (2013), navigational."""
CONTINUATION = 0.9
"""Probability that a user who is not satisfied goes on to the next document."""

_OPTIONS = {"cascade": (), "position": ("curve", "trust"), "dbn": ("satisfaction", "continuation")}

Trust = tuple[float | Sequence[float], float | Sequence[float]]


Shown = Predictor | ArrayLike | None
"""What decides an order: a model, scores, or None for a new random order in every impression."""


class UserOptions(TypedDict, total=False):
    """Arguments of :class:`Users`, but for the model."""

    probabilities: Sequence[float]
    eta: float
    curve: Sequence[float] | Array | None
    trust: Trust | None
    satisfaction: Sequence[float] | None
    continuation: float | None


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

    __signature__: ClassVar[object] = PlainSignature()
    model: str = "position"
    probabilities: Annotated[
        Sequence[float], "Probability of a click on a seen document of grade 0, 1, ….", Option(metavar="NUMBERS")
    ] = CLICK_PROBABILITIES
    eta: Annotated[float, "How fast attention falls with the rank, where the click model is position."] = 1.0
    curve: Sequence[float] | Array | None = None
    trust: Trust | None = None
    satisfaction: Sequence[float] | None = None
    continuation: float | None = None

    def __post_init__(self) -> None:
        check.choice("click model", self.model, _OPTIONS)
        for model, names in _OPTIONS.items():
            for name in names:
                if model != self.model and getattr(self, name) is not None:
                    what = f"users of the model {self.model!r} have no {name}"
                    raise check.error(what, got=f"{name}={getattr(self, name)!r}", hint=f'`set model="{model}"`')
        check.number("eta", self.eta, least=0.0, most=10.0)
        if self.curve is not None:
            check.probabilities("examination probabilities", self.curve)  # type: ignore[arg-type]
            if self.eta != 1.0:
                what, hint = "examination is either a curve or (1/r)^eta", "leave one of them out"
                raise check.error(what, got=f"a curve and eta={self.eta}", hint=hint)
        if self.continuation is not None:
            check.number("continuation", self.continuation, least=0.0, most=1.0)

    def bias(self, positions: int) -> tuple[Array, Array]:
        """Return α and β of P(click | document, position k) = α_k R + β_k, R being the document's reward.

        With trust (ε⁺, ε⁻) they are θ(ε⁺ − ε⁻) and θ ε⁻ (Vardasbi et al. 2020), else θ and 0.
        """
        if self.model != "position":
            what = f"clicks of the model {self.model!r} depend on what stands above, not on the position alone"
            raise check.error(what, hint="compare `expected_clicks` instead")
        return self._bias(positions)

    def rewards(self, data: RankingDataset) -> Array:
        """Return the reward R of each document: the probability of a click, once examined (and without trust)."""
        return _by_grade(data, "click probabilities", self.probabilities)

    def expected_clicks(self, data: RankingDataset, scores: Shown, cutoff: int | None = None) -> Array:
        """Return the expected number of clicks in an impression of each query, in the order of scores.

        Documents with equal scores stand in the order of the data.
        """
        clicks = np.zeros(data.n_queries)
        parameters = self.parameters(data, self.depth(data, cutoff))
        threads.over_queries(_expected, data.offsets, scores_of(scores, data), *parameters, clicks)
        return clicks

    def depth(self, data: RankingDataset, cutoff: int | None) -> int:
        """Return the last position that is shown: a list, a cutoff or a curve ends there."""
        lengths = [int(data.sizes.max(initial=1))]
        if cutoff is not None:
            lengths.append(check.integer("cutoff", cutoff, least=1))
        if self.curve is not None:
            lengths.append(len(self.curve))
        return min(lengths)

    def examination(self, positions: int) -> Array:
        """Return the probabilities of looking at positions 1, 2, …, whatever was clicked above."""
        if self.model != "position":
            return np.ones(positions)
        if self.curve is None:
            return np.arange(1.0, positions + 1) ** -self.eta
        return np.concatenate((self.curve, np.zeros(positions)))[:positions]

    def parameters(self, data: RankingDataset, positions: int) -> tuple[Array, Array, float, Array, Array]:
        """Return what kernels read: rewards, satisfaction by document, continuation, α and β."""
        satisfied, continuation = np.full(data.n_docs, float(self.model == "cascade")), 1.0
        if self.model == "dbn":
            satisfaction = SATISFACTION if self.satisfaction is None else self.satisfaction
            satisfied = _by_grade(data, "satisfaction probabilities", satisfaction)
            continuation = CONTINUATION if self.continuation is None else self.continuation
        return self.rewards(data), satisfied, continuation, *self._bias(positions)

    def _bias(self, positions: int) -> tuple[Array, Array]:
        examined = self.examination(positions)
        if self.trust is None:
            return examined, np.zeros(positions)
        plus, minus = (check.probabilities("probabilities of trust", np.atleast_1d(part)) for part in self.trust)  # type: ignore[arg-type]
        for part in (plus, minus):
            if 1 != part.size < positions:
                what, hint = "trust is a number, or one for each position", "set a cutoff, or one number"
                raise check.error(what, got=f"{part.size} for {positions} positions", hint=hint)
        plus, minus = (np.broadcast_to(part[:positions], positions) for part in (plus, minus))
        if (plus < minus).any():
            k = int(np.argmax(plus < minus))
            what = "a click on a relevant document must be at least as likely as on another"
            raise check.error(what, got=f"trust {plus[k]:g} below {minus[k]:g} at position {k + 1}")
        return examined * (plus - minus), examined * minus


def _by_grade(data: RankingDataset, what: str, probabilities: Sequence[float]) -> Array:
    chances = check.probabilities(what, probabilities)
    return chances[check.grades(data.labels, data.offsets, data.query_ids, what, chances)]


def show(
    data: RankingDataset,
    users: Users,
    rankers: Mapping[str, Shown],
    *,
    counts: NDArray[np.int64],
    cutoff: int | None,
    temperature: float | None,
    seed: int,
    order: NDArray[np.int64] | None = None,
) -> Sessions:
    """Show the list of query q ``counts[q]`` times, each time by one of the rankers, all equally likely.

    Pairs of the result are rows of the data, rankers numbers of the sorted names. ``order`` is the order of queries.
    """
    order = np.arange(data.n_queries) if order is None else order
    first = np.empty(data.n_queries, np.int64)  # the number of each query's first impression
    first[order] = offsets_of(counts[order])[:-1]
    depth = users.depth(data, cutoff)
    sizes = np.minimum(data.sizes, depth)
    offsets = offsets_of(np.repeat(sizes[order], counts[order]))
    scale = 1.0 if temperature is None else check.number("temperature", temperature, least=1e-6, most=1e6)
    scores = np.stack([scores_of(rankers[name], data) for name in sorted(rankers)]) / scale
    stream = data.stream(seed).child("clicks")
    keys = np.array([stream.key, stream.child("leaving").key, stream.child("rankers").key], np.uint64)
    numbers, n_rows = np.zeros(offsets.size - 1, np.int16), int(offsets[-1])
    rows, clicked, chances = np.full(n_rows, -1, np.int32), np.zeros(n_rows, np.bool_), np.ones(n_rows, np.float32)
    inputs = keys, stream.queries(data.n_queries), scores, temperature is not None, *users.parameters(data, depth)
    positions = np.empty(n_rows, np.int16 if depth < 2**15 else np.int64)
    outputs = offsets, numbers, rows, positions, clicked, chances
    work = data.sizes.astype(np.float64) + 40.0 * counts * sizes
    threads.over_queries(_show, data.offsets, *inputs, counts, first, *outputs, work=work)
    if not (shown := rows >= 0).all():  # some have documents of score -inf
        offsets = offsets_of(np.add.reduceat(shown, offsets[:-1], dtype=np.int64))
        rows, positions, clicked, chances = rows[shown], positions[shown], clicked[shown], chances[shown]
    return Sessions(
        offsets=read_only(offsets),
        pairs=read_only(rows),
        positions=read_only(positions),
        clicked=read_only(clicked),
        rankers=read_only(numbers),
        segments=read_only(np.zeros(numbers.size, np.int16)),
        weights=read_only(np.ones(numbers.size)),
        probabilities=read_only(chances),
    )


def named_rankers(ranker: Shown, rankers: Mapping[str, Shown] | None) -> Mapping[str, Shown]:
    """Return rankers by name: one that was not named has the empty name."""
    if rankers is None:
        return {"": ranker}
    if ranker is not None or not isinstance(rankers, Mapping) or not rankers:
        what = "lists are shown by one ranker, or by rankers, a dictionary with a name for each"
        raise check.error(what, got="both" if ranker is not None else repr(rankers))
    return rankers


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
def _show(  # type: ignore[no-untyped-def]
    first, last, offsets, keys, queries, scores, drawn, rewards, satisfied, continuation, alpha, beta, counts, firsts,
    starts, rankers, rows, positions, clicked, probabilities,
):  # fmt: skip
    """Fill the last five arrays, which begin at ``starts`` of an impression."""
    n_rankers = scores.shape[0]
    for q in range(first, last):
        begin, size = offsets[q], offsets[q + 1] - offsets[q]
        best, ends = np.empty((n_rankers, size), np.int64), np.empty((n_rankers, size), np.int64)
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
        order, chances = np.empty(size, np.int64), np.empty(size)
        for k in range(counts[q]):
            n = firsts[q] + k
            by = np.int64(uniform(keys[2], queries[q], 0, k) * n_rankers)
            rankers[n] = by
            order[:] = best[by]
            if drawn:
                _draw(keys[0], queries[q], k, scores[by, begin : begin + size], order[: retrieved[by]], chances)
            present = True
            for i in range(min(retrieved[by], alpha.size)):
                place, click = uniform_pair(keys[0], queries[q], i, k)
                if not drawn:
                    swap = i + np.int64(place * (ends[by, i] - i))
                    order[i], order[swap] = order[swap], order[i]
                    chances[i] = 1.0 / (ends[by, i] - i)
                row = begin + order[i]
                hit = present and click < alpha[i] * rewards[row] + beta[i]
                rows[starts[n] + i], positions[starts[n] + i] = row, i + 1
                clicked[starts[n] + i] = hit
                probabilities[starts[n] + i] = chances[i]
                stays = continuation * (1.0 - satisfied[row]) if hit else continuation
                if present and stays < 1.0:
                    present = uniform(keys[1], queries[q], i, k) < stays


@kernel
def _draw(key, query, impression, scores, order, chances):  # type: ignore[no-untyped-def]
    """Replace an order by one of Plackett-Luce, which scores with Gumbel noise have, and fill its probabilities."""
    noisy = np.empty(order.size)
    for i in range(order.size):
        noisy[i] = scores[order[i]] - np.log(-np.log(uniform_pair(key, query, i, impression)[0]))
    order[:] = order[np.argsort(-noisy)]
    below = -np.inf  # the logarithm of the weights of this document and those below
    for i in range(order.size - 1, -1, -1):
        below = np.logaddexp(below, scores[order[i]])
        chances[i] = np.exp(scores[order[i]] - below)
