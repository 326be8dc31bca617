"""When training ends, and which of its rounds is kept."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rankwise import check
from rankwise.data.dataset import RankingDataset
from rankwise.objectives.base import Objective
from rankwise.rankers.training.constraints import NONE, Constraints


class StopTraining(Exception):  # noqa: N818 (as StopIteration, no error)
    """Raised by a function that is passed to ``fit`` as ``callback``: ends training, and the best model so far is kept.

    ``reason`` is the ranker's ``stopped_`` afterwards.

    >>> import rankwise as rw
    >>> def until(round, history):
    ...     if round == 3:
    ...         raise rw.errors.StopTraining("three are enough")
    >>> data = rw.synthetic(n_queries=60, n_docs=10, seed=1)
    >>> model = rw.LightGBMRanker(rounds=20, leaves=4, threads=1).fit(data, callback=until)
    >>> model.stopped_, model.best_round_
    ('three are enough', 3)
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = str(reason)


def after(minutes: float) -> Callable[..., None]:
    """Return the callback that ends training after this time from now."""
    end = time.monotonic() + 60.0 * minutes

    def callback(*_: object) -> None:
        if time.monotonic() >= end:
            raise StopTraining("minutes")

    return callback


class NothingLearnedError(check.InputError):
    """Training ended where it began."""


class NothingLeftToLearn(StopTraining):
    """Raised by a learner with nothing more to learn; ``error`` is raised instead where no round was trained."""

    def __init__(self, reason: str, error: Callable[[], NothingLearnedError]) -> None:
        super().__init__(reason)
        self.error = error


def nothing_learned(n_queries: int, got: str, hint: str) -> NothingLearnedError:
    """Return the error that a model learned nothing, with its reason."""
    error = check.error(f"the model learned nothing from {n_queries} queries", got=got, hint=hint)
    return NothingLearnedError(*error.args)


def no_gradient(data: RankingDataset, objective: Objective | None) -> NothingLearnedError:
    """Return the reason why every gradient was 0 from the start."""
    firsts = np.repeat(data.labels[data.offsets[:-1]], data.sizes)
    if (data.labels == firsts).all():
        got, hint = "no query with documents of different labels", "check the labels and the query ids"
    else:
        got = f"a gradient of 0 for every document from {objective}"
        hint = "check the weights, and which labels the objective takes for relevant"
    return nothing_learned(data.n_queries, got, hint)


def no_feature(data: RankingDataset) -> NothingLearnedError:
    """Return the error that all documents have the same features."""
    return nothing_learned(data.n_queries, "features that are the same for every document", "check the features")


@dataclass(frozen=True, kw_only=True)
class Stopping:
    """The rule: at most ``rounds``, and no more than ``patience`` of them after the best, but ``min_rounds`` at least.

    Rounds are compared by a moving mean over ``smoothing`` rounds of the first metric, or of the mean of all metrics. A
    round stands for itself and the ``smoothing − 1`` rounds before it; rounds that have fewer before them are not
    compared, and until there is one that has enough, the last is taken. Of equal rounds the first is kept. A round that
    meets the constraints is better than one that does not, and of two that do not, the nearer is better, from the first
    round on.

    >>> curve = {"ndcg": [0.5, 0.9, 0.1, 0.6, 0.7, 0.7, 0.4]}
    >>> Stopping(rounds=9, metrics=("ndcg",)).improved(curve, 6, best=2)
    False
    >>> Stopping(rounds=9, metrics=("ndcg",), smoothing=3).improved(curve, 6, best=3)  # the mean of 0.6, 0.7 and 0.7
    True
    """

    rounds: int
    metrics: Sequence[str] = ()
    """Metrics of the validation data; none without such data, and then the last round is the best."""
    patience: int | None = None
    min_rounds: int = 0
    smoothing: int = 1
    stop_on: str = "first"
    unit: str = "rounds"
    """Name of rounds."""
    constraints: Constraints = NONE

    def finished(self, done: int, best: int) -> str:
        """Return why training is over after ``done`` rounds, of which ``best`` is the best; empty if it is not."""
        patience = self.patience if self.metrics else None
        if patience is not None and done - best >= patience and done >= self.min_rounds:
            return "patience"
        return self.unit if done >= self.rounds else ""

    def improved(self, history: Mapping[str, Sequence[float]], done: int, best: int) -> bool:
        """Whether round ``done``, the last, is better than round ``best``, the best of those before."""
        if not best:
            return True
        if not self.metrics or done <= self.smoothing:
            return self.constraints.shortfall(history, done) <= self.constraints.shortfall(history, best)
        return self._worth(history, done) > self._worth(history, best)

    def _worth(self, history: Mapping[str, Sequence[float]], done: int) -> tuple[float, float]:
        """Return what rounds are compared by: first the constraints, then the mean of metrics over the window."""
        names = self.metrics[:1] if self.stop_on == "first" else self.metrics
        window = range(max(0, done - self.smoothing), done)
        total = math.fsum(history[name][number] for name in names for number in window)  # so equal rounds are equal
        return -self.constraints.shortfall(history, done), total / (len(names) * len(window))
