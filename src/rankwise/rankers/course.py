"""How far a training has come and when it ends: the same whether a round grows a tree or is an epoch."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from rankwise import check
from rankwise.data.dataset import RankingDataset
from rankwise.metrics.base import Metric
from rankwise.rankers.newton import Array
from rankwise.rankers.validation import Validation

History = dict[str, list[float]]


@dataclass(kw_only=True)
class State:
    """How far training has come: all that a checkpoint must hold beside the settings and the model."""

    before: int = 0
    """Rounds of the model that training started from."""
    done: int = 0
    """Rounds trained since then."""
    history: History = field(default_factory=dict)
    """``loss``: of the training queries. A metric: of the validation queries after each round."""
    stopped: str = ""
    """Why training ended."""

    @property
    def total(self) -> int:
        """How many rounds the model has, and the number of the next one."""
        return self.before + self.done

    def record(self, values: Mapping[str, float]) -> None:
        """Count a round, with all that was measured in it."""
        for name, value in values.items():
            self.history.setdefault(name, []).append(value)
        self.done += 1  # last: an interruption before it finds a round that does not count yet

    def settle(self) -> None:
        """Forget a round that was cut short: one counts once everything about it is known."""
        self.done = min([self.done, *map(len, self.history.values())])
        self.history = {name: column[: self.done] for name, column in self.history.items()}


@dataclass(kw_only=True)
class Course:
    """What is trained, on what, and for how long."""

    unit: ClassVar[str] = "rounds"
    """What rounds are called."""

    objective: Any
    train: RankingDataset
    valid: RankingDataset | None
    metrics: tuple[Metric, ...]
    seed: int
    rounds: int
    patience: int | None
    every: int
    debias: bool = False
    """Whether clicks of the validation data count by the inverse of their propensity, as those of training do."""
    documents: Mapping[str, Array] = field(default_factory=dict)
    """Columns of single documents that the objective is handed, such as ``document_weights``."""
    digest: str = ""
    """Of all training data, where ``train`` is only a sample of them."""
    report: Callable[[Any, int], None] | None = None
    """Called after every round with the state and the best round so far."""
    checkpoint: Callable[[Any], None] | None = None
    """Called with the state after every ``every`` rounds."""

    @property
    def leads(self) -> bool:
        """Whether this process shows progress and writes files: one of those that train together."""
        return True

    def best(self, state: State) -> int:
        """The round (of those done) after which the first metric was best; the last one without validation."""
        if self.valid is None or not state.done:
            return state.done
        return int(np.argmax(state.history[self.measure.names[0]][: state.done])) + 1

    def finished(self, state: State) -> str:
        """Say why training is over; empty if it is not."""
        if self.patience is not None and self.valid is not None and state.done - self.best(state) >= self.patience:
            return "patience"
        return self.unit if state.done >= self.rounds else ""

    @functools.cached_property
    def measure(self) -> Validation:
        """From scores of the validation documents to the mean of every metric."""
        data: Any = self.valid
        return Validation(data, self.metrics, debias=self.debias)


class NothingLearnedError(ValueError):
    """Training ended where it began."""


def nothing_learned(n_queries: int, got: str, cure: str) -> NothingLearnedError:
    """Say that a model learned nothing, and why."""
    what = f"the model learned nothing from {n_queries} queries"
    return NothingLearnedError(str(check.error(what, got=got, cure=cure)))


def no_gradient(data: RankingDataset, objective: Any) -> ValueError:
    """Say why every gradient was 0 from the start."""
    firsts = np.repeat(data.labels[data.offsets[:-1]], data.sizes)
    if (data.labels == firsts).all():
        got, cure = "no query with documents of different labels", "check the labels and the query ids"
    else:
        got = f"a gradient of 0 for every document from {objective}"
        cure = "check the weights, and which labels the objective takes for relevant"
    return nothing_learned(data.n_queries, got, cure)


def no_feature(data: RankingDataset) -> ValueError:
    """Say that features do not tell documents apart."""
    return nothing_learned(data.n_queries, "features that are the same for every document", "check the features")
