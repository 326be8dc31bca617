"""The one training loop, whatever a round is: a tree, an epoch, or a tree that the workers of a cluster grow together.

Learners derive from :class:`Learner`. Rounds, history, the best round, early stopping, checkpoints, interruption
and the error where nothing was learned are here and nowhere else. A round counts once everything about it
is known, so an interruption at any moment finds whole rounds, and keeps the model of the best.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rankwise.base.arrays import Array, Json
from rankwise.base.stream import Stream
from rankwise.rankers.training.interrupts import Interrupts
from rankwise.rankers.training.stopping import NothingLeftToLearn, Stopping, StopTraining
from rankwise.rankers.training.validation import DeviceScores, EvalMetrics, Validation

if TYPE_CHECKING:
    from rankwise.rankers.training.resume import Checkpoint

History = dict[str, list[float]]
Snapshot = TypeVar("Snapshot")


@dataclass(kw_only=True)
class State:
    """How far training has come: all that a checkpoint must hold beside the settings and the model."""

    before: int = 0
    """Rounds of the model that training started from."""
    done: int = 0
    """Rounds trained since then."""
    best: int = 0
    """The best of them, counted from 1."""
    history: History = field(default_factory=dict)
    """``loss``: of the training queries. A metric: of the validation queries after each round. ``train ndcg@5``: of the
    data set of that name, where it is measured too. ``bound ndcg@5``, ``multiplier ndcg@5``: of a constraint."""
    stopped: str = ""
    """Why training ended."""


class SingleProcess:
    """The processes that train one model together; here, the only one."""

    first: bool = True
    """Whether this is the one that shows progress and writes files."""
    alone: bool = True
    """Whether there is no other."""

    def broadcast(self, values: list[float]) -> list[float]:
        """Return the first process's values in all processes, so that they decide alike."""
        return values


class Learner(ABC, Generic[Snapshot]):
    """Learns in rounds."""

    processes: SingleProcess = SingleProcess()
    """The processes that train together."""
    close: Callable[[], None] | None = None
    """Ends what it has started, such as processes."""
    validation: Validation | None = None
    """Metrics of the validation data, where this learner scores these in a form of its own."""

    @abstractmethod
    def round(self, stream: Stream, weights: Sequence[float] = ()) -> float | None:
        """Learn one round, of number ``stream.round``; returns the loss of the training queries, if it is known.

        ``weights`` are those of the terms of the objective, a sum, where constraints change them from round to round.
        Raises :class:`NothingLeftToLearn` where there is nothing more to learn.
        """

    @abstractmethod
    def scores(self, number: int) -> Array | DeviceScores:
        """Score a measured data set, by its number, after the last round; called in the first process only."""

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """Keep the model as it is after the last round."""

    @abstractmethod
    def model(self, best: Snapshot, rounds: int) -> Any:
        """Return the model that was kept, of so many rounds, those that it continues included; no round follows."""

    def keep(self, ranker: Any, state: State) -> None:
        """Set the attributes of the ranker that training knows beside the model."""

    def description(self, rounds: int) -> Json:
        """Return what the description of a model of so many rounds holds of its own."""
        return {}

    @abstractmethod
    def files(self, best: Snapshot) -> dict[str, bytes]:
        """Return the files of a checkpoint: the model ``best``, and all that the next round depends on."""

    @abstractmethod
    def resume(self, files: Mapping[str, bytes], state: State) -> Snapshot:
        """Resume from the files of a checkpoint, if they can be read safely; returns the best model so far."""


@dataclass(frozen=True, kw_only=True)
class Loop:
    """One training run: learner, random numbers, stopping rule, measured data sets, checkpoint and callbacks."""

    learner: Learner[Any]
    stream: Stream
    """Of the training queries."""
    stopping: Stopping
    measured: Sequence[EvalMetrics] = ()
    """Measures after every round, in the order in which the learner numbers data sets."""
    checkpoint: "Checkpoint | None" = None
    reports: Sequence[Callable[[State], None]] = ()
    """Called after every round; one that raises :class:`StopTraining` ends training."""

    def run(self, state: State, best: object, interrupts: Interrupts) -> Any:
        """Train from ``state`` on, with ``best`` the best model so far, and return the best model."""
        try:
            while not (stop := self.stopping.finished(state.done, state.best)):
                with interrupts.allowed():
                    measures = self._round(state)
                for name, value in measures.items():
                    state.history.setdefault(name, []).append(value)
                state.done += 1
                if self.stopping.improved(state.history, state.done, state.best):
                    state.best, best = state.done, self.learner.snapshot()
                with interrupts.allowed():
                    self._report(state, best)
        except StopTraining as end:
            if not state.done:
                raise (end.error() if isinstance(end, NothingLeftToLearn) else end) from None
            stop = end.reason
        except KeyboardInterrupt:
            # Other processes wait for this one, and only its end ends their waiting.
            if not state.done or not self.learner.processes.alone:
                raise
            stop = "interrupted"
        state.stopped = stop
        return self.learner.model(best, state.before + state.best)

    def _round(self, state: State) -> dict[str, float]:
        """Train a round, and return its loss and measures."""
        learner, constraints = self.learner, self.stopping.constraints
        weights = constraints.weights(state.history) if constraints.goals else ()
        loss = learner.round(self.stream.at(state.before + state.done), weights)
        measures = {} if loss is None else {"loss": loss}
        for number, measured in enumerate(self.measured):
            values = [0.0] * len(measured.names)
            if learner.processes.first:
                values = measured(learner.scores(number))
            measures |= zip(measured.names, learner.processes.broadcast(values), strict=True)
        return measures | constraints.multipliers(state.history, measures)

    def _report(self, state: State, best: object) -> None:
        checkpoint = self.checkpoint
        if checkpoint is not None and state.done % checkpoint.every == 0 and self.learner.processes.first:
            checkpoint.write(state, self.learner.files(best))
        for report in self.reports:
            report(state)
