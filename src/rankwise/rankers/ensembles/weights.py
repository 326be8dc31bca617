"""How much each of several rankers counts, chosen from scores of queries that none of them has seen."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.arrays import Array, Column, part_of, rows_of
from rankwise.metrics import MetricLike
from rankwise.metrics import metric as find_metric
from rankwise.metrics.base import Metric, require_scored, weighted_mean
from rankwise.plain import Json
from rankwise.rankers.ensembles.spread import centred, spread

_PICKS = 30
"""How many picks a selection has at most; parts differ in theirs, so that weights are finer than that."""
_DRAWS = 10_000
_ROUNDING = 1e-12
"""Differences of means that are nothing but rounding."""


@dataclass(frozen=True)
class Weights:
    """What each member counts in a blend, and why; prints as a table."""

    names: tuple[str, ...]
    values: tuple[float, ...]
    """Not negative, and 1 in total: of scores in units of their spread."""
    spreads: tuple[float, ...]
    """The root mean square of each member's out-of-fold scores within lists; 0 if it gives all of a list the same."""
    selected: tuple[float, ...]
    """The weights that a greedy selection gives, before they are shrunk."""
    alone: tuple[float, ...]
    """The mean of the metric of each member alone, out of fold."""
    metric: str
    shares: tuple[float, float, float]
    """How much of the weights are equal ones, the best member's alone, and selected ones."""

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
        lines = [f"{'member':<{width}}  weight  selected  {self.metric} alone"]
        for name, value, chosen, alone in zip(self.names, self.values, self.selected, self.alone, strict=True):
            lines.append(f"{name:<{width}}  {value:6.3f}  {chosen:8.3f}  {alone:.4f}")
        equal, best, selected = self.shares
        return "\n".join(
            [*lines, f"shares: {equal:.2f} equal weights, {best:.2f} best member, {selected:.2f} selected"]
        )

    def written(self) -> Json:
        """What a model's file says."""
        return asdict(self)

    @classmethod
    def read(cls, description: Json) -> Self:
        """Take what :meth:`written` gave."""
        found: Any = {name: tuple(value) if isinstance(value, list) else value for name, value in description.items()}
        for name in ("values", "spreads", "selected", "alone", "shares"):
            for value in found[name]:
                check.number(name, value)
        return cls(**found)


def choose_weights(
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike,
    metric: MetricLike = "ndcg@10",
    *,
    names: Sequence[str] | None = None,
    fold: ArrayLike | None = None,
    query_weights: Array | None = None,
    judged: ArrayLike | None = None,
) -> tuple[Weights, Array]:
    """Choose non-negative weights of members from their out-of-fold scores.

    ``scores`` is (n_members, n_docs), each score of a model that has not seen the query; ``fold`` says into which part
    each query falls (by default one after the other into five). Scores are centred within queries and divided by their
    spread.

    For each part, weights are selected on all other queries: greedily and with replacement, the member that makes the
    mean of the metric largest is picked again and again, and its share of the picks is its weight (Caruana et al. 2004,
    *Ensemble selection from libraries of models*). After every pick, queries of the part left out are scored; the mean
    over all parts is one curve, and the number of picks that is best by it is that of all parts, whose weights are
    averaged: a pick that only fits the queries that it was made on does not lift the curve.

    On few queries such weights overfit still, so that they are shrunk towards weights that need few queries or none:
    those of the best member alone, and equal ones. Each of the three counts as much as the probability that it is the
    best of them, given their means over queries of parts left out and the covariance of the errors of these means. With
    two of them that is Φ(difference / its standard error). So a small set keeps weights near equal where members are
    about as good as each other, and near the best member where others add nothing; in a large one selected weights win
    as soon as they are better.

    Gives the weights, and blended scores of every document by weights that were selected without its query.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 3, 4000).astype(float)
    >>> members = np.stack([labels + 2 * rng.normal(size=4000), 7 * rng.normal(size=4000)])
    >>> weights, blended = choose_weights(members, labels, np.arange(0, 4001, 10), names=["good", "noise"])
    >>> weights
    member  weight  selected  ndcg@10 alone
    good     0.942     0.929  0.8608
    noise    0.058     0.071  0.7519
    shares: 0.00 equal weights, 0.19 best member, 0.81 selected
    """
    lists = _Lists.of(labels, offsets, find_metric(metric), query_weights, judged)
    units, spreads = _in_units(scores, lists.offsets)
    part = np.arange(lists.n_queries) % 5 if fold is None else np.asarray(fold)
    titles = tuple(f"member {number}" for number in range(1, len(units) + 1)) if names is None else tuple(names)
    if len(titles) != len(units) or part.shape != (lists.n_queries,):
        got = f"{len(titles)} names and {part.size} folds for {len(units)} members and {lists.n_queries} queries"
        raise check.error("there must be a name for each member and a fold for each query", got=got)
    alone = lists.values(units)
    require_scored(str(lists.metric), alone[0], query_weights)
    useful = np.array(spreads) > 0
    equal = useful / useful.sum()
    curves, paths, places = np.empty((_PICKS, lists.n_queries)), [], []
    for number in np.unique(part):
        seen, out = lists.take(part != number), lists.take(part == number)
        path = _path(seen[0], units[:, seen[1]], equal)
        curves[:, part == number] = out[0].values(path @ units[:, out[1]])
        paths.append(path)
        places.append(out[1])
    picks = int(np.argmax([weighted_mean(row, query_weights) for row in curves]))
    candidates = [np.stack([equal, path[0], path[picks]]) for path in paths]
    held_out = np.empty((3, units.shape[1]))
    for rows, own in zip(places, candidates, strict=True):
        held_out[:, rows] = own @ units[:, rows]
    shares = _probabilities(lists.values(held_out), query_weights)
    means = np.mean(candidates, axis=0)
    weights = Weights(
        names=titles,
        values=tuple((shares @ means).tolist()),
        spreads=spreads,
        selected=tuple(means[-1].tolist()),
        alone=tuple(weighted_mean(row, query_weights) for row in alone),
        metric=str(lists.metric),
        shares=tuple(shares.tolist()),
    )
    return weights, shares @ held_out


class _Lists(NamedTuple):
    """Queries, and what is measured of their scores."""

    labels: Array
    offsets: NDArray[np.int64]
    metric: Metric
    weights: Array | None
    judged: Column | None

    @classmethod
    def of(
        cls, labels: ArrayLike, offsets: ArrayLike, metric: Metric, weights: Array | None, judged: ArrayLike | None
    ) -> "_Lists":
        starts = check.offsets(offsets, np.asarray(labels).size)
        known = None if judged is None else np.asarray(judged)
        return cls(check.labels(labels, starts), starts, metric, weights, known)

    @property
    def n_queries(self) -> int:
        return self.offsets.size - 1

    def values(self, rows: Array) -> Array:
        """The metric of every query for every row of scores, (n_rows, n_queries), in one call."""
        times, n_docs = len(rows), self.labels.size
        offsets = np.append((self.offsets[:-1] + n_docs * np.arange(times)[:, None]).ravel(), times * n_docs)
        judged = None if self.judged is None else np.tile(self.judged, times)
        return self.metric(rows.ravel(), np.tile(self.labels, times), offsets, judged).reshape(times, -1)

    def means(self, rows: Array) -> Array:
        """The mean over queries for every row of scores; 0 where there is nothing to rank."""
        values = self.values(rows)
        if not values.size or np.isnan(values if self.weights is None else values[:, self.weights > 0]).all():
            return np.zeros(len(rows))
        return np.array([weighted_mean(row, self.weights) for row in values])

    def take(self, queries: NDArray[np.bool_]) -> tuple["_Lists", slice | NDArray[np.int64]]:
        """Some of the queries, and their documents."""
        rows, offsets = rows_of(np.flatnonzero(queries), self.offsets)
        weights = None if self.weights is None else self.weights[queries]
        return _Lists(self.labels[rows], offsets, self.metric, weights, part_of(self.judged, rows)), rows


def _in_units(scores: ArrayLike, offsets: NDArray[np.int64]) -> tuple[Array, tuple[float, ...]]:
    """Scores of every member, centred within queries and in units of their spread, and these spreads."""
    given = np.asarray(scores)
    if given.ndim != 2 or not len(given):
        got = f"an array of shape {given.shape}"
        raise check.error("a blend needs scores of at least one member", got=got, hint="pass one row for each member")
    rows = [check.teacher_scores(row, offsets) for row in given]
    spreads = tuple(spread(row, offsets) for row in rows)
    if not any(spreads):
        hint = "look at the members: did they learn anything"
        raise check.error("every member gives all documents of a query the same score", hint=hint)
    return np.stack(
        [centred(row, offsets) / (unit or np.inf) for row, unit in zip(rows, spreads, strict=True)]
    ), spreads


def _path(lists: _Lists, units: Array, equal: Array) -> Array:
    """Weights after every pick, (picks, members): the first are those of the best member.

    Each pick makes the mean largest; of equally good ones that is made which has fewest picks so far.
    """
    useful = np.flatnonzero(equal)
    path, counts, total = np.empty((_PICKS, len(equal))), np.zeros(len(equal)), np.zeros(units.shape[1])
    for number in range(_PICKS):
        means = lists.means(total + units[useful])
        best = useful[means == means.max()]
        pick = best[np.argmin(counts[best])]
        total += units[pick]
        counts[pick] += 1.0
        path[number] = counts / counts.sum()
    return path


def _probabilities(values: Array, weights: Array | None) -> Array:
    """How probable it is of each row that its mean over all queries there are is the largest; ties go to the first.

    Means of many queries are normal; the probabilities are shares of draws that are always the same.
    """
    scored = ~np.isnan(values).any(axis=0)
    weight = (np.ones(values.shape[1]) if weights is None else weights)[scored]
    count = np.count_nonzero(weight)
    if count < 2:
        return np.asarray(np.eye(len(values))[0])
    change = values[1:, scored] - values[0, scored]
    means = change @ weight / weight.sum()
    left = weight * (change - means[:, None])
    sizes, directions = np.linalg.eigh(left @ left.T * count / (count - 1) / weight.sum() ** 2)
    draws = np.random.default_rng(0).standard_normal((_DRAWS, len(change)))
    drawn = np.column_stack([np.zeros(_DRAWS), means + draws * np.sqrt(np.maximum(sizes, 0.0)) @ directions.T])
    best = drawn >= drawn.max(axis=1, keepdims=True) - _ROUNDING
    return np.asarray(np.bincount(best.argmax(axis=1), minlength=len(values)) / _DRAWS)
