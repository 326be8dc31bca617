"""Watch a trial while it trains: report its validation metric, and end it when it falls behind or time is up."""

import time
from typing import TYPE_CHECKING

import numpy as np

from rankwise.rankers.training.loop import History

if TYPE_CHECKING:
    from optuna import Trial


def clock() -> float:
    """Seconds since some moment."""
    return time.monotonic()


_ROUNDS = 10  # between reports, at the middle of the searched learning rates


class Watch:
    """What is asked after every round of a trial.

    Trials are compared at the same distance, rounds times learning rate: at the same round a slow learner would always
    seem to be behind a fast one, and be ended before it could overtake.
    """

    def __init__(self, trial: "Trial", metric: str, *, rate: float, middle: float, deadline: float) -> None:
        self.trial, self.rate, self.unit, self.deadline = trial, rate, _ROUNDS * middle, deadline
        self.metric, self.step, self.best = metric, 0, -np.inf
        self.last: float | None = None
        self.out_of_time = False
        """Whether the trial was ended since another round would have come too late."""

    def __call__(self, round: int, history: History) -> None:
        """Look at the metric after a round; raises Optuna's TrialPruned to end the trial."""
        import optuna

        self.best = max(self.best, history[self.metric][-1])
        step = int(round * self.rate / self.unit + 1e-9)
        if step > self.step:
            self.step = step
            self.trial.report(self.best, step)
            if self.trial.should_prune():
                raise optuna.TrialPruned(f"behind the others after round {round}")
        now = clock()
        takes, self.last = 0.0 if self.last is None else now - self.last, now
        if now + takes > self.deadline:
            self.out_of_time = True
            raise optuna.TrialPruned(f"out of time after round {round}")
