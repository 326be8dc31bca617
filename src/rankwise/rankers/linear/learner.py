"""The learner of the linear ranker: a round is one strength of the penalty, from strong to weak."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.base.arrays import Array, Json, rows_of
from rankwise.base.stream import Stream
from rankwise.data.splits import fold_of_query
from rankwise.models import storage
from rankwise.models.linear import LinearModel, LinearTransform
from rankwise.models.schema import Schema
from rankwise.objectives.base import Objective
from rankwise.rankers.linear.problem import Problem
from rankwise.rankers.training import stopping
from rankwise.rankers.training.loop import Learner, State
from rankwise.rankers.training.settings import TrainingData, TrainingSettings
from rankwise.rankers.training.stopping import NothingLeftToLearn
from rankwise.rankers.training.validation import Validation

if TYPE_CHECKING:
    from rankwise.rankers.linear.ranker import LinearRanker

L2 = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
"""Strengths of a ridge that are tried."""
L1 = tuple(0.5**k for k in range(1, 10))
"""Strengths that are tried of l1, as shares of the least at which every weight is 0."""
USUAL = 5
"""The place of the strength that is taken where nothing can choose."""
_LAST = "last.npz"
_ONE_FOLD = 2**18  # documents from which on one fold is held out, and not each
Strength = tuple[float, float]
"""l1 and l2."""


@dataclass(kw_only=True)
class LinearLearner(Learner[LinearModel]):
    """Fits weights at one strength after another, each from the weights of the one before."""

    ranker: "LinearRanker"
    data: TrainingData
    """Validation data choose a round; without, folds of the training data choose a strength."""
    settings: TrainingSettings
    objective: Objective
    transform: LinearTransform
    signs: Array
    """Of each weight: 1, −1 or 0."""
    done: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        train = self.train = self.data.train
        weights = np.ones(train.n_queries) if train.weights is None else train.weights
        self.shares = weights / max(float(weights.sum()), 1e-300)
        self.weights = self.origin = np.append(np.zeros(self.transform.width), self.settings.start(self.data))
        self.schema = Schema.of(train)
        self._problem: Problem | None = None
        self.path: Sequence[Strength] = ()

    def round(self, stream: Stream, weights: Sequence[float] = ()) -> float | None:
        """Fit at the next strength; returns the loss there."""
        problem = self._problem
        if problem is None:
            problem = self._problem = self.problem()
            self.path = self._strengths(problem)
        if self.done == len(self.path):
            raise NothingLeftToLearn("converged", lambda: stopping.no_gradient(self.train, self.objective))
        l1, l2 = self.path[self.done]
        found = problem.fit(self.weights, self.shares, l1, l2)
        if not l1 + l2 and (not found.converged or found.loss < 1e-6):
            check.warn(
                "without a penalty these weights have no end: they tell all documents of different labels apart",
                hint="`set l2=0.03`, or leave l1 and l2 out, and a strength is chosen",
                stacklevel=2,
            )
        self.weights, self.done = found.weights, self.done + 1
        width = self.transform.width
        self.current = LinearModel(
            self.schema,
            self.transform,
            found.weights[:width],
            float(found.weights[width]),
            self._average,
            penalty=(l1, l2),
            rounds=self.done,
        )
        return found.loss

    def problem(self) -> Problem:
        """Return the loss of the training data, made in the first round: a wrong checkpoint is refused before."""
        train, objective = self.train, self.objective
        rows = self.transform.all(train.features, train.offsets)
        # What every document has, or all of a query where scores may be shifted, tells none apart: rounding gives it
        # no weight, which other data would see.
        starts = np.unique(train.offsets[:-1][train.sizes > 0]) if objective.shift_invariant else [0]
        apart = (np.maximum.reduceat(rows, starts) > np.minimum.reduceat(rows, starts)).any(axis=0)
        self._average = rows.mean(axis=0, dtype=np.float64)
        rows[:, ~apart] = 0.0
        return Problem(
            prepared=objective.prepare(train.labels, train.offsets, **self.settings.columns(self.data)),
            rows=rows,
            start=0.0 if train.init_scores is None else train.init_scores,
            stream=train.stream(self.settings.seed),
            origin=self.origin,
            shares=self.shares,
            intercept=not objective.shift_invariant,
            signs=np.tile(self.signs, self.transform.width // self.signs.size),
            smooth=not (objective.held_fixed or objective.estimator),
        )

    def _strengths(self, problem: Problem) -> Sequence[Strength]:
        """Return the strengths to fit: one that is given, those that rounds choose from, or the best of folds."""
        _, slopes = problem.loss(self.origin, self.shares)
        if not slopes.any():
            raise NothingLeftToLearn("converged", lambda: stopping.no_gradient(self.train, self.objective))
        ranker = self.ranker
        if ranker.l1 is not None or ranker.l2 is not None:
            return [(ranker.l1 or 0.0, ranker.l2 or 0.0)]
        most = float(np.abs(slopes[:-1]).max())
        path = [(0.0, l2) for l2 in L2] if ranker.penalty == "l2" else [(share * most, 0.0) for share in L1]
        path = path[: self.settings.rounds]
        if self.data.valid is not None or len(path) == 1:
            return path
        count = min(ranker.folds, self.train.n_queries)
        return [path[self._best_of_folds(problem, path, count) if count > 1 else min(USUAL, len(path) - 1)]]

    def _best_of_folds(self, problem: Problem, path: Sequence[Strength], count: int) -> int:
        """Return the number of the strength whose loss is least on queries that were held out.

        It is surer than a metric's, which jumps. Where losses do not compare, the first metric decides.
        """
        train = self.train
        fold = fold_of_query(train, count, seed=self.settings.seed)
        used = range(count if train.n_docs < _ONE_FOLD else 1)
        scores = np.zeros((len(path), train.n_docs))
        for number in used:
            rows, weights = rows_of(np.flatnonzero(fold == number), train.offsets)[0], self.origin
            shares = np.where(fold == number, 0.0, self.shares)
            for place, (l1, l2) in enumerate(path if shares.any() else ()):
                weights = problem.fit(weights, shares / shares.sum(), l1, l2, quick=True).weights
                scores[place, rows] = problem.scores(weights)[rows]
        judged = np.where(np.isin(fold, used), self.shares, 0.0)
        if problem.smooth:
            return int(np.argmin([problem.value(row, judged) for row in scores]))
        validation = Validation(train, self.settings.metrics, debias=self.settings.debias)
        return int(np.argmax([_first_mean(validation, row, judged > 0) for row in scores]))

    def scores(self, number: int) -> Array:
        """Score a measured data set."""
        data = self.data.held_out[number]
        scores = self.current.scores(data.features, data.offsets)
        return scores if data.init_scores is None else scores + data.init_scores

    def snapshot(self) -> LinearModel:
        """Keep the model of the last strength."""
        self.best = self.current
        return self.current

    def model(self, best: LinearModel, rounds: int) -> LinearModel:
        """Return the model that was kept."""
        return best

    def description(self, rounds: int) -> Json:
        """Return what the description of the best model holds."""
        return self.best.description()

    def files(self, best: LinearModel) -> dict[str, bytes]:
        """Return the best model, and apart from it the last weights."""
        state = {"weights": self.weights, "done": np.array(self.done)}
        kept = {"penalty": np.array(best.penalty), "rounds": np.array(best.rounds)}
        return best.files() | {_LAST: storage.npz(state | kept)}

    def resume(self, files: Mapping[str, bytes], state: State) -> LinearModel:
        """Resume from the last weights."""
        with check.library("the state of a training", _LAST):
            last = storage.arrays(files[_LAST])
            self.weights, self.done = last["weights"].reshape(self.weights.shape), int(last["done"])
            l1, l2 = last["penalty"].tolist()
            described = {"transform": self.transform.kind, "penalty": {"l1": l1, "l2": l2}}
            best = LinearModel.from_files(described | {"rounds": int(last["rounds"])}, dict(files), self.schema)
        self.best = self.current = best
        return best


def _first_mean(validation: Validation, scores: Array, judged: NDArray[np.bool_]) -> float:
    """Return the mean of the first metric over some queries."""
    values = {
        name: np.where(judged[validation.queries], one, np.nan) for name, one in validation.values(scores).items()
    }
    return next(iter(validation.means(values).values()))
