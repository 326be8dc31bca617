"""Steps from all features to the cheapest: units of features, how they overlap, and what permuting them loses."""

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankwise import Metric, Ranker, RankingDataset, check, cross_validate, split
from rankwise.base.arrays import Array, Floats, Offsets
from rankwise.base.sparse import dense
from rankwise.model_selection import Trainings
from rankwise.models import Schema
from rankwise.rankers import monotone
from rankwise.results import CrossValidation
from rankwise.statistics import TTest, t_test

Chosen = NDArray[np.int64]
"""Numbers of units, ascending."""
_MEASURED = 50_000  # documents by which overlap and losses are measured
_GROUPED = 0.8  # rank correlation from which two units are permuted together
_REPEATS = 2  # permutations
_DOUBT = 1.0  # standard errors by which a mean loss is lowered: what is not above them is taken for nothing
_INNER = 3  # folds in which models are trained whose features are permuted


@dataclass(frozen=True, eq=False)
class Units:
    """Features that one computation makes are a unit, and so is every other feature."""

    columns: tuple[NDArray[np.int64], ...]
    """Columns of the data of each unit."""
    costs: Array

    @classmethod
    def of(cls, data: RankingDataset, costs: Mapping[Any, float] | None) -> Self:
        """Return the units of data with these costs: those of features, or of several that one computation makes.

        >>> data = RankingDataset([[1.0, 2.0, 3.0]], [0], [0, 1], feature_names=["bm25", "first", "second"])
        >>> units = Units.of(data, {("first", "second"): 30.0})
        >>> [one.tolist() for one in units.columns], units.costs
        ([[0], [1, 2]], array([ 1., 30.]))
        """
        schema, listed = Schema.of(data), {}
        titles = [schema.title(column) for column in range(data.n_features)]
        hint = "write costs={'bm25': 2.0, ('first', 'second'): 30.0}: by feature, or by all that one computation makes"
        if not isinstance(costs, Mapping | None):
            raise check.error("costs must be numbers by feature", got=type(costs).__name__, hint=hint)
        for features, cost in (costs or {}).items():
            together: tuple[Any, ...] = features if isinstance(features, tuple) else (features,)
            numbers = [
                titles.index(check.choice("feature in costs", one, titles)) if isinstance(one, str) else one
                for one in together
            ]
            columns = check.columns("costs", numbers, data.n_features)
            value = check.number("a cost", cost, least=0.0)
            for column in columns:
                if column in listed:
                    raise check.error("a feature has one cost", got="two", where=schema.name(column), hint=hint)
                listed[column] = (columns[0], value)
        firsts = np.array([listed.get(column, (column, 1.0))[0] for column in range(data.n_features)])
        units = [np.flatnonzero(firsts == first) for first in np.unique(firsts)]
        return cls(tuple(units), np.array([listed.get(int(one[0]), (0, 1.0))[1] for one in units]))

    def columns_of(self, chosen: Chosen) -> NDArray[np.int64]:
        """Return the columns of some units."""
        return np.sort(np.concatenate([self.columns[unit] for unit in chosen]))

    def explained(self, data: RankingDataset) -> Array:
        """Return how much of each unit (column) each other one (row) explains: a share of the variance of ranks.

        Of a unit of several features it is the mean; each is explained by the one that explains most.
        """
        part = data.take(_sample(data))
        whole = np.array([0, part.n_docs])
        ranks = np.empty((part.n_features, part.n_docs), np.float32)
        for column in range(part.n_features):
            values = dense(part.features[:, [column]])[:, 0]
            ranks[column] = _ranks(values, whole if _is_of_queries(values, part.offsets) else part.offsets)
        ranks /= np.sqrt((ranks**2).sum(axis=1, keepdims=True)) + 1e-30
        shares = np.minimum((ranks @ ranks.T).astype(np.float64) ** 2, 1.0)
        shares[shares > 1.0 - 1e-5] = 1.0  # duplicates, but for rounding
        if all(one.size == 1 for one in self.columns):
            return shares
        most = np.array([shares[rows].max(axis=0) for rows in self.columns])
        return np.array([most[:, columns].mean(axis=1) for columns in self.columns]).T

    def worth(
        self, result: CrossValidation, data: RankingDataset, chosen: Chosen, explained: Array, metric: Metric, seed: int
    ) -> tuple[Array, Array, NDArray[np.int64]]:
        """Return what each of the chosen units is worth to a ranker, surely and on average, and its group.

        Groups are units that overlap. Permuting one of two duplicates says little, since the other still has it all: so
        a group is permuted at once, in queries that the model has not seen. The mean loss, and surely one standard
        error less, is what that unit is worth which explains most of its group, the cheapest of equals; any other is
        worth what that one does not explain of it.
        """
        overlap = explained[np.ix_(chosen, chosen)]
        groups = _groups(np.sqrt(np.maximum(overlap, overlap.T)))
        columns = [self.columns_of(chosen[groups == group]) for group in range(groups.max() + 1)]
        places = np.searchsorted(self.columns_of(chosen), np.concatenate(columns))  # in the data of these units
        parts = np.split(places, np.cumsum([one.size for one in columns])[:-1])
        worth = np.empty((2, chosen.size))
        for group, test in enumerate(_losses(result, data, parts, metric, seed)):
            loss = np.array([test.mean - _DOUBT * test.error, test.mean])
            members = np.flatnonzero(groups == group)
            inside = overlap[np.ix_(members, members)]
            best = members[np.lexsort((self.costs[chosen[members]], -inside.sum(axis=1).round(6)))[0]]
            worth[:, members] = np.outer(np.maximum(loss, 0.0), 1.0 - overlap[best, members])
            worth[:, best] = loss
        return worth[0], worth[1], groups

    def fewer(self, chosen: Chosen, worth: Array, most: float) -> Chosen:
        """Drop units that are worth nothing, then those worth least for their cost, until the rest cost ``most``."""
        costs = self.costs[chosen]
        rate = np.divide(worth, costs, out=np.full(worth.size, np.inf), where=costs > 0.0)
        order = np.lexsort((-costs, rate))
        left = costs.sum() - np.cumsum(costs[order])
        last = int(np.searchsorted(-left, -most * (1.0 + 1e-9))) + 1 if costs.sum() > most * (1.0 + 1e-9) else 0
        dropped = np.zeros(worth.size, bool)
        dropped[order[:last]] = True
        dropped |= worth <= 0.0
        if dropped.all():
            dropped[np.argmax(np.where(costs <= max(most, costs.min()), worth, -np.inf))] = False
        return chosen[~dropped]


@dataclass(frozen=True, eq=False)
class Step:
    """What is left after a step, what each unit of it is worth, and the values of the queries that measure the step."""

    chosen: Chosen
    worth: Array
    """Surely, beyond a standard error."""
    average: Array
    groups: NDArray[np.int64]
    values: Array


@dataclass(frozen=True)
class FeatureSteps:
    """Drops units step by step, by training queries alone."""

    ranker: Any
    data: RankingDataset
    units: Units
    metric: Metric
    seed: int

    def walk(self, train: RankingDataset, test: RankingDataset | None, budgets: Sequence[float]) -> Iterator[Step]:
        """Yield all units, then what is worth something on average, and within each budget what surely is."""
        explained = self.units.explained(train)
        step = self._measured(train, np.arange(len(self.units.columns)), explained)
        yield (step := self._tested(step, train, test))
        for number, budget in enumerate(budgets[1:]):
            before, worth = step.chosen.size, operator.attrgetter("worth" if number else "average")
            chosen = self.units.fewer(step.chosen, worth(step), budget)
            while chosen.size < step.chosen.size:
                step = self._measured(train, chosen, explained)
                chosen = self.units.fewer(chosen, worth(step), budget)
            yield (step := step if step.chosen.size == before else self._tested(step, train, test))

    def _measured(self, train: RankingDataset, chosen: Chosen, explained: Array) -> Step:
        """Train on these units, and measure what each is worth."""
        columns = self.units.columns_of(chosen)
        part, ranker = with_columns(train, columns), self._ranker(columns)
        result = cross_validate(ranker, part, _INNER, metrics=[self.metric], seed=self.seed, progress=False)
        return Step(chosen, *self.units.worth(result, part, chosen, explained, self.metric, self.seed), np.empty(0))

    def _tested(self, step: Step, train: RankingDataset, test: RankingDataset | None) -> Step:
        """Train on all training queries, and test on others, if there are any."""
        if test is None:
            return step
        columns = self.units.columns_of(step.chosen)
        part, held_out, ranker = with_columns(train, columns), None, self._ranker(columns)
        if getattr(ranker, "patience", None) is not None:
            part, held_out = split(part, (0.8, 0.2), seed=self.seed)
        model = Trainings("step", 1, None).model(1, ranker, part, held_out)
        tested = with_columns(test, columns).without_rows()
        scores = check.scores(model.predict(tested), tested.offsets, tested.query_ids)
        return replace(step, values=self.metric.of(scores, tested))

    def _ranker(self, columns: NDArray[np.int64]) -> Any:
        """Return the ranker, silent, with monotone constraints of these columns alone."""
        ranker = self.ranker.__sklearn_clone__() if isinstance(self.ranker, Ranker) else self.ranker
        if isinstance(ranker, Ranker) and "progress" in ranker.get_params():
            ranker.set_params(progress=False)
        if (signs := getattr(ranker, monotone.NAME, None)) is None:
            return ranker
        every = monotone.by_column(signs, Schema.of(self.data))
        return ranker.set_params(**{monotone.NAME: [every[column] for column in columns]})


def with_columns(data: RankingDataset, columns: NDArray[np.int64]) -> RankingDataset:
    """Return data with some of their features."""
    place = {int(column): number for number, column in enumerate(columns)}
    return data.with_(
        features=data.features[:, columns],
        feature_names=None if data.feature_names is None else [data.feature_names[column] for column in columns],
        categorical=[place[column] for column in data.categorical if column in place],
        categories={place[column]: values for column, values in data.categories.items() if column in place},
    )


def _losses(
    result: CrossValidation, data: RankingDataset, groups: list[NDArray[np.int64]], metric: Metric, seed: int
) -> list[TTest]:
    """Return what a metric loses where columns are permuted, on queries that the models have not seen."""
    lost = np.zeros((len(groups), result.fold.size))
    measured = np.zeros(result.fold.size, bool)
    for number, model in enumerate(result.models, 1):
        queries = np.flatnonzero(result.fold == number)
        queries = queries[_sample(data.take(queries))]
        part = data.take(queries).without_rows()
        before, measured[queries] = result.values[str(metric)][queries], True
        columns = range(part.n_features)
        by_query = np.array([_is_of_queries(dense(part.features[:, [one]])[:, 0], part.offsets) for one in columns])
        for repeat in range(_REPEATS):
            orders = _orders(part, seed, repeat)
            for group, one in enumerate(groups):
                chosen, changed = np.isin(columns, one), part.features
                for order, which in zip(orders, (chosen & ~by_query, chosen & by_query), strict=True):
                    changed = _permuted(changed, order, which) if which.any() else changed
                scores = check.scores(model.predict(part.with_(features=changed)), part.offsets, part.query_ids)
                lost[group, queries] += (before - metric.of(scores, part)) / _REPEATS
    measured &= ~np.isnan(lost[0])
    weights = None if data.weights is None else data.weights[measured]
    return [t_test(one[measured], weights) for one in lost]


def _orders(data: RankingDataset, seed: int, repeat: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return rows that permute the documents of each query, and rows of other queries, for features of queries."""
    stream = data.stream(seed).child("permute", repeat)
    queries = np.repeat(np.arange(data.n_queries), data.sizes)
    others = np.argsort(np.argsort(stream.child("queries").per_query(data.n_queries)[:, 0]))
    first = np.minimum(data.offsets[:-1], data.n_docs - 1)
    return np.lexsort((stream.documents(data.offsets), queries)), first[others][queries]


def _permuted(features: Any, order: NDArray[np.int64], columns: NDArray[np.bool_]) -> Any:
    """Return features with some columns in another order of rows."""
    if isinstance(features, np.ndarray):
        changed = np.array(features)
        changed[:, columns] = features[np.ix_(order, np.flatnonzero(columns))]
        return changed
    from scipy.sparse import diags_array

    kept, moved = (diags_array(one.astype(np.float32)) for one in (~columns, columns))
    return (features @ kept + features[order] @ moved).tocsr()


def _groups(correlations: Array) -> NDArray[np.int64]:
    """Return the number of the group of each unit: those in a group are correlated with each other on average."""
    if correlations.shape[0] == 1:
        return np.zeros(1, np.int64)
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    distances = np.clip(1.0 - correlations, 0.0, 1.0)
    np.fill_diagonal(distances, 0.0)
    found = fcluster(linkage(squareform(distances, checks=False), "average"), 1.0 - _GROUPED, "distance")
    return np.asarray(np.unique(found, return_inverse=True)[1])


def _ranks(values: Array | Floats, offsets: Offsets) -> Array:
    """Return the ranks of values within each query, from about −½ to ½; equal values share the mean of theirs.

    >>> _ranks(np.array([3.0, 1.0, 1.0, 5.0]), np.array([0, 3, 4]))
    array([ 0.33333333, -0.16666667, -0.16666667,  0.        ])
    """
    queries = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
    filled = np.where(np.isnan(values), -np.inf, values)
    order = np.lexsort((filled, queries))
    ordered, of_query = filled[order], queries[order]
    starts = np.concatenate(([True], (ordered[1:] != ordered[:-1]) | (of_query[1:] != of_query[:-1])))
    runs = np.cumsum(starts) - 1
    places = np.bincount(runs, np.arange(values.size)) / np.bincount(runs)
    ranks = np.empty(values.size)
    ranks[order] = places[runs]
    middle, sizes = (offsets[:-1] + offsets[1:] - 1) / 2.0, np.diff(offsets)
    return np.asarray((ranks - middle[queries]) / sizes[queries])


def _is_of_queries(values: Array | Floats, offsets: Offsets) -> bool:
    """Whether a feature has one value in all documents of each query, and more than one in all."""
    filled = np.where(np.isnan(values), -np.inf, values)
    firsts = np.repeat(filled[np.minimum(offsets[:-1], values.size - 1)], np.diff(offsets))
    return bool((filled == firsts).all() and (filled != filled[0]).any())


def _sample(data: RankingDataset) -> NDArray[np.int64]:
    """Return the numbers of evenly spaced queries with about so many documents as are measured by, or of all."""
    number = max(1, min(data.n_queries, data.n_queries * _MEASURED // max(data.n_docs, 1)))
    return np.unique(np.linspace(0, data.n_queries - 1, number).astype(np.int64))
