"""Progress of a training: a bar on the error output."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from rankwise.base.progress import Update, bar
from rankwise.rankers.training.loop import State
from rankwise.rankers.training.stopping import Stopping


@dataclass
class ProgressBar:
    """A bar that counts rounds; or steps, where the learner reports them: a round of a large model takes hours."""

    stopping: Stopping
    loss: Callable[[], bool] | None = None
    """Returns whether the losses of different rounds compare."""
    steps: Callable[[int], int] | None = None
    """Maps a number of rounds to the number of their steps."""
    _metric: str = field(default="", init=False)
    _update: Update | None = field(default=None, init=False)

    @contextlib.contextmanager
    def showing(self, done: int) -> Iterator[None]:
        """Show the bar within the context, from ``done`` rounds on."""
        count = self.steps or int
        total, width = count(self.stopping.rounds), 40 if self.steps is None else 20
        columns = ("bar", "count", "text", "elapsed", "left")
        with bar(True, total, self.stopping.unit, completed=count(done), columns=columns, width=width) as update:
            self._update = update
            try:
                yield
            finally:
                self._update = None

    def report(self, state: State) -> None:
        """Update the bar after a round."""
        if self.steps is None and self._update is not None:
            self._update(state.done, progress_text(self.stopping, state, loss=self.loss is None or self.loss()))
        elif self.steps is not None and self.stopping.metrics:
            self._metric = f", {progress_text(self.stopping, state)}"

    def step(self, number: int, loss: float) -> None:
        """Update the bar after a step: how many there were, and the loss of the last."""
        if self._update is not None:
            self._update(number, f"loss {loss:.4f}{self._metric}")


def progress_text(stopping: Stopping, state: State, *, loss: bool = True) -> str:
    """Return where training stands: the first metric, now and in the round that would be kept, or the loss.

    A ``loss`` that does not compare between rounds may rise while the ranker learns, and is not shown.

    >>> stopping = Stopping(rounds=9, metrics=("ndcg",))
    >>> progress_text(stopping, State(done=2, best=1, history={"ndcg": [0.75, 0.5]}))
    'ndcg 0.5000 (best 0.7500 in round 1)'
    >>> progress_text(Stopping(rounds=9), State(done=1, history={"loss": [2.5]}))
    'loss 2.5000'
    >>> progress_text(Stopping(rounds=9), State(done=1, history={"loss": [2.5]}), loss=False)
    'rounds'
    """
    if stopping.metrics:
        name, column = stopping.metrics[0], state.history[stopping.metrics[0]]
        return f"{name} {column[-1]:.4f} (best {column[state.best - 1]:.4f} in {stopping.unit[:-1]} {state.best})"
    return f"loss {state.history['loss'][-1]:.4f}" if loss and "loss" in state.history else stopping.unit
