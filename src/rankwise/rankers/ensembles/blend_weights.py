"""How much each of several rankers counts, chosen from scores of queries that none of them has seen."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from statistics import NormalDist
from typing import Any, NamedTuple, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.base.arrays import Array, Json, rows_of
from rankwise.data.arguments import Columns
from rankwise.data.dataset import RankingDataset
from rankwise.metrics import MetricLike
from rankwise.metrics import metric as find_metric
from rankwise.metrics.base import Metric, require_scored, weighted_mean
from rankwise.statistics.significance import t_test

GREEDY, AVERAGE = "greedy", "average"
"""How weights are chosen: selected greedily, or equal ones of all members but those that are surely worse."""
SURELY = 2.0
"""Of two, one is surely worse that is behind by more than so many standard errors of the paired difference."""
_PICKS = 16
"""How many picks a selection has; weights are the mean of several selections, and finer than that."""
_PARTS = 5
"""Into how many parts queries fall at most, by their folds; all but two of them are selected on at a time."""


def centred(scores: Array, offsets: NDArray[np.int64]) -> Array:
    """Subtract the mean of its list from every score: what is added to a whole list changes no ranking.

    >>> centred(np.array([1.0, 3.0, 7.0]), np.array([0, 2, 3]))
    array([-1.,  1.,  0.])
    """
    sizes = np.diff(offsets)
    return np.asarray(scores - np.repeat(np.add.reduceat(scores, offsets[:-1]) / sizes, sizes))


def score_deviation(scores: Array, offsets: NDArray[np.int64]) -> float:
    """Return the root mean square of scores within lists of several documents, around the mean of each list.

    It is 0 where that is nothing but rounding.

    >>> score_deviation(np.array([1.0, 3.0, 7.0]), np.array([0, 2, 3]))
    1.0
    """
    sizes = np.diff(offsets)
    several = np.repeat(sizes > 1, sizes)
    left = centred(scores, offsets)[several]
    unit = float(np.sqrt(np.mean(left**2))) if left.size else 0.0
    return unit if unit > 1e-12 * float(np.abs(scores).max(initial=0.0)) else 0.0


@dataclass(frozen=True)
class Weights:
    """What each member counts in a blend, and why; prints as a table."""

    names: tuple[str, ...]
    values: tuple[float, ...]
    """Not negative, and 1 in total: of scores in units of their spread."""
    spreads: tuple[float, ...]
    """The root mean square of each member's out-of-fold scores within lists; 0 if it gives all of a list the same."""
    alone: tuple[float, ...]
    """The mean of the metric of each member alone, out of fold."""
    metric: str

    @property
    def factors(self) -> tuple[float, ...]:
        """What scores are multiplied by, in the unit that each member scores in."""
        return tuple(value / unit if unit else 0.0 for value, unit in zip(self.values, self.spreads, strict=True))

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, member: int) -> float:
        return self.values[member]

    def __array__(self, dtype: object = None, copy: bool | None = None) -> Array:
        return np.array(self.values)

    def __repr__(self) -> str:
        width = max(len("member"), *map(len, self.names))
        lines = [f"{'member':<{width}}  weight  {self.metric} alone"]
        for name, value, alone in zip(self.names, self.values, self.alone, strict=True):
            lines.append(f"{name:<{width}}  {value:6.3f}  {alone:.4f}")
        return "\n".join(lines)

    def to_dict(self) -> Json:
        """Return plain data for a model's file."""
        return asdict(self)

    @classmethod
    def read(cls, description: Json) -> Self:
        """Read what :meth:`to_dict` returned."""
        fields: Any = {name: tuple(value) if isinstance(value, list) else value for name, value in description.items()}
        for name in ("values", "spreads", "alone"):
            for value in fields[name]:
                check.number(name, value)
        return cls(**fields)


def choose_weights(
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike,
    metric: MetricLike = "ndcg@10",
    *,
    names: Sequence[str] | None = None,
    fold: ArrayLike | None = None,
    query_weights: Array | None = None,
    **columns: Unpack[Columns],
) -> tuple[Weights, Array]:
    """Choose non-negative weights of members from their out-of-fold scores.

    ``scores`` is (n_members, n_docs), each score of a model that has not seen the query; ``fold`` says into which part
    each query falls (by default one after the other into five). Scores are centred within queries and divided by their
    spread. ``columns`` are those of a data set that the metric reads.

    Weights are selected greedily and with replacement: the member that makes the mean of the metric largest is picked
    again and again, and its share of the picks is its weight (Caruana et al. 2004, *Ensemble selection from libraries
    of models*). Selected once, such weights overfit few queries. So queries are cut into five parts by their folds,
    weights are selected on every three of them, and the ten selections are averaged: where queries are too few to tell
    members apart, selections disagree, and their mean is near equal weights; a member that is surely worse is picked by
    none.

    Returns the weights, and blended scores of every document by the mean of selections that had not seen its query.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 3, 4000).astype(float)
    >>> members = np.stack([labels + 2 * rng.normal(size=4000), 7 * rng.normal(size=4000)])
    >>> weights, blended = choose_weights(members, labels, np.arange(0, 4001, 10), names=["good", "noise"])
    >>> weights
    member  weight  ndcg@10 alone
    good     0.925  0.8608
    noise    0.075  0.7519
    """
    features = np.empty((np.asarray(labels).size, 0))
    data = RankingDataset(features, labels, offsets, **columns)
    chosen = choose(scores, scores, data, find_metric(metric), names=names, fold=fold, query_weights=query_weights)
    return chosen.weights, chosen.scores


def surely(among: int) -> float:
    """Return by how many standard errors the best ``among`` so many is surely better: the best of many is lucky.

    >>> surely(1), round(surely(10), 2)
    (2.0, 2.84)
    """
    return -NormalDist().inv_cdf(NormalDist().cdf(-SURELY) / among)


def average_weights(values: Array, groups: Sequence[int], query_weights: Array | None = None) -> Array:
    """Return equal weights of all members but those that are surely worse than the best.

    ``values`` is (n_members, n_queries), the metric of each member on queries that it has not seen, NaN where a query
    is skipped. Surely worse is what is behind by more than two standard errors of the difference, paired by query, or
    more where there are many. Members of one group, a kind of rankers, share the weight of one. First
    those are left out that are surely worse than the best of their own group, as a bag is that had no time; then groups
    that are surely worse than the best one, by the mean of the rest.

    >>> level, worse = np.array([0.5, 0.6, 0.7, 0.8]), np.array([0.1, 0.3, 0.3, 0.5])
    >>> average_weights(np.stack([level, level[::-1], worse, level]), [0, 1, 2, 0])
    array([0.25, 0.5 , 0.  , 0.25])
    >>> average_weights(np.stack([level, level[::-1], worse]), [0, 1, 0])
    array([0.5, 0.5, 0. ])
    """
    group = np.asarray(groups)
    numbers = np.unique(group)
    scored = ~np.isnan(values[0]) if query_weights is None else ~np.isnan(values[0]) & (query_weights > 0.0)
    weights = None if query_weights is None else query_weights[scored]
    kept = np.ones(group.size, np.bool_)
    if scored.sum() >= 2:
        for number in numbers:
            kept[group == number] = _level(values[group == number][:, scored], weights)
        means = [values[kept & (group == number)][:, scored].mean(axis=0) for number in numbers]
        kept &= np.isin(group, numbers[_level(np.stack(means), weights)])
    shares = {number: 1.0 / (np.unique(group[kept]).size * np.sum(group[kept] == number)) for number in group[kept]}
    return np.array([shares[number] if keep else 0.0 for number, keep in zip(group, kept, strict=True)])


def _level(rows: Array, weights: Array | None) -> NDArray[np.bool_]:
    """Return which rows of values are not surely worse than the best of them."""
    best = rows[int(np.argmax([weighted_mean(row, weights) for row in rows]))]
    gaps = [t_test(best - row, weights) for row in rows]
    errors = surely(max(len(rows) - 1, 1))
    return np.array([gap.mean <= errors * gap.error for gap in gaps])


class Chosen(NamedTuple):
    """Weights of members, and blended scores of every document by selections that had not seen its query."""

    weights: Weights
    scores: Array
    cross_fitted: Array
    """Of members whose numbers of rounds were chosen without the query, too."""


def choose(
    scores: ArrayLike,
    cross_fitted: ArrayLike,
    data: RankingDataset,
    metric: Metric,
    *,
    names: Sequence[str] | None,
    fold: ArrayLike | None,
    query_weights: Array | None,
    rule: str = GREEDY,
    groups: Sequence[int] | None = None,
) -> Chosen:
    """Choose weights; values that are reported, and those that :func:`average_weights` sees, are of ``cross_fitted``.

    These are scores of the same members, each fold after the rounds that were chosen on the others.
    """
    lists = _MeasuredQueries(data, metric, query_weights)
    units, spreads = _in_units(scores, data.offsets)
    part = np.arange(data.n_queries) % _PARTS if fold is None else np.asarray(fold)
    titles = tuple(f"member {number}" for number in range(1, len(units) + 1)) if names is None else tuple(names)
    if len(titles) != len(units) or part.shape != (data.n_queries,):
        got = f"{len(titles)} names and {part.size} folds for {len(units)} members and {data.n_queries} queries"
        raise check.error("there must be a name for each member and a fold for each query", got=got)
    alone = lists.values(np.asarray(cross_fitted))
    require_scored(str(metric), alone[0], query_weights)
    useful, group = np.array(spreads) > 0.0, part % _PARTS
    present = np.unique(group).tolist()
    if rule == AVERAGE:
        members = np.arange(len(units)) if groups is None else np.asarray(groups)

        def select(queries: NDArray[np.bool_]) -> Array:
            weights = np.zeros(len(units))
            some = None if query_weights is None else query_weights[queries]
            weights[useful] = average_weights(alone[useful][:, queries], members[useful].tolist(), some)
            return weights

        values = select(np.ones(data.n_queries, bool))
        unseen = {number: select(group != number) if len(present) > 1 else values for number in present}
    else:
        selected: dict[tuple[int, ...], Array] = {(): useful / useful.sum()}  # equal weights see no query
        if len(present) > 1:
            most = combinations(present, max(1, len(present) - 2))
            selected = {some: _selected(*lists.take(np.isin(group, some)), units, useful) for some in most}
        values = np.mean([*selected.values()], axis=0)
        unseen = {
            number: np.mean([weights for some, weights in selected.items() if number not in some], axis=0)
            for number in present
        }
    blended, reported = np.empty(units.shape[1]), np.empty(units.shape[1])
    sizes = np.array([1.0 / unit if unit else 0.0 for unit in spreads])
    for number in np.unique(part):
        few, rows = lists.take(part == number)
        # Not centred within queries, as the blend's own scores are not: calibration needs their levels.
        blended[rows] = (unseen[number % _PARTS] * sizes) @ np.asarray(scores)[:, rows]
        # After rounds of its own a part has scores of another spread.
        reported[rows] = unseen[number % _PARTS] @ _in_own_units(np.asarray(cross_fitted)[:, rows], few.data.offsets)[0]
    weights = Weights(
        names=titles,
        values=tuple(values.tolist()),
        spreads=spreads,
        alone=tuple(weighted_mean(row, query_weights) for row in alone),
        metric=str(metric),
    )
    return Chosen(weights, blended, reported)


class _MeasuredQueries(NamedTuple):
    """Queries, and what is measured of their scores."""

    data: RankingDataset
    metric: Metric
    weights: Array | None

    def values(self, rows: Array) -> Array:
        """The metric of every query for every row of scores, (n_rows, n_queries)."""
        return np.stack([self.metric.of(row, self.data) for row in rows])

    def means(self, rows: Array) -> Array:
        """The mean over queries for every row of scores; 0 where there is nothing to rank."""
        values = self.values(rows)
        if not values.size or np.isnan(values if self.weights is None else values[:, self.weights > 0]).all():
            return np.zeros(len(rows))
        return np.array([weighted_mean(row, self.weights) for row in values])

    def take(self, queries: NDArray[np.bool_]) -> tuple["_MeasuredQueries", slice | NDArray[np.int64]]:
        """Some of the queries, and their documents."""
        weights = None if self.weights is None else self.weights[queries]
        taken = _MeasuredQueries(self.data.take(queries), self.metric, weights)
        return taken, rows_of(np.flatnonzero(queries), self.data.offsets)[0]


def _in_units(scores: ArrayLike, offsets: NDArray[np.int64]) -> tuple[Array, tuple[float, ...]]:
    """Scores of every member, centred within queries and in units of their spread, and these spreads."""
    rows = np.asarray(scores)
    if rows.ndim != 2 or not len(rows):
        got = f"an array of shape {rows.shape}"
        raise check.error("a blend needs scores of at least one member", got=got, hint="pass one row for each member")
    units, spreads = _in_own_units([check.teacher_scores(row, offsets) for row in rows], offsets)
    if not any(spreads):
        hint = "look at the members: did they learn anything"
        raise check.error("every member gives all documents of a query the same score", hint=hint)
    return units, spreads


def _in_own_units(rows: Iterable[Array], offsets: NDArray[np.int64]) -> tuple[Array, tuple[float, ...]]:
    rows = list(rows)
    spreads = tuple(score_deviation(row, offsets) for row in rows)
    parts = [centred(row, offsets) / (unit or np.inf) for row, unit in zip(rows, spreads, strict=True)]
    return np.stack(parts), spreads


def _selected(
    lists: _MeasuredQueries, rows: slice | NDArray[np.int64], units: Array, useful: NDArray[np.bool_]
) -> Array:
    """Weights of a selection on some queries: each pick makes the mean largest, and equally good ones share it."""
    scores = units[:, rows]
    counts, total = np.zeros(len(units)), np.zeros(scores.shape[1])
    for _ in range(_PICKS):
        means = np.where(useful, lists.means(total + scores), -np.inf)
        best = means == means.max()
        total += scores[best].mean(axis=0)
        counts[best] += 1.0 / np.count_nonzero(best)
    return counts / _PICKS
