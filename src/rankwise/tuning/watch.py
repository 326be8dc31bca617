"""Watch a trial while it trains: report its validation metric, and end it when it falls behind or time is up."""

import time
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise.metrics.base import Metric

_ROUNDS = 10  # between reports, at the middle of the searched learning rates


class Watch:
    """What is asked after every round of a trial.

    Trials are compared at the same distance, rounds times learning rate: at the same round a slow learner would always
    seem to be behind a fast one, and be ended before it could overtake.
    """

    def __init__(self, trial: Any, *, rate: float, middle: float, deadline: float) -> None:
        self.trial, self.rate, self.unit, self.deadline = trial, rate, _ROUNDS * middle, deadline
        self.round, self.step, self.best = -1, 0, -np.inf  # a ranker measures once before its first round

    def __call__(self, value: float) -> None:
        """Take the value of the metric after one more round; raises Optuna's TrialPruned to end the trial."""
        import optuna

        self.round += 1
        if self.round < 1:
            return
        self.best = max(self.best, value)
        step = int(self.round * self.rate / self.unit + 1e-9)
        if step > self.step:
            self.step = step
            self.trial.report(self.best, step)
            if self.trial.should_prune():
                raise optuna.TrialPruned(f"behind the others after round {self.round}")
        if time.monotonic() > self.deadline:
            raise optuna.TrialPruned(f"out of time after round {self.round}")


class Watched(Metric):
    """A metric that tells a watch its mean whenever it is measured on the validation data."""

    def __init__(self, inner: Metric, weights: NDArray[np.float64] | None, watch: Watch) -> None:
        super().__init__(cutoff=inner.cutoff, ties=inner.ties, empty=inner.empty)
        for name, value in {"inner": inner, "weights": weights, "watch": watch}.items():
            object.__setattr__(self, name, value)

    def __call__(self, scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike) -> NDArray[np.float64]:
        """Measure as the metric inside does."""
        mine: Any = self
        values: NDArray[np.float64] = mine.inner(scores, labels, offsets)
        weights = np.ones(values.size) if mine.weights is None else mine.weights
        scored = ~np.isnan(values) & (weights > 0)
        if scored.any():
            mine.watch(float(np.average(values[scored], weights=weights[scored])))
        return values

    def __str__(self) -> str:
        mine: Any = self
        return str(mine.inner)

    __repr__ = __str__
