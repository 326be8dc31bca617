"""A progress bar on the error output, for people who watch."""

import contextlib
import sys
from collections.abc import Callable, Iterator

from rankwise.rankers.training.loop import State
from rankwise.rankers.training.stopping import Stopping


@contextlib.contextmanager
def showing(
    wanted: bool | None, stopping: Stopping, done: int, *, loss: bool = True
) -> Iterator[Callable[[State], None]]:
    """Give the function to call after every round; by default there is a bar only where a terminal shows it.

    ``loss`` says whether it compares between rounds: where it does not, it is not shown.
    """
    if wanted is False or (wanted is None and not sys.stderr.isatty()):
        yield _silent
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, TextColumn("left"), TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task(stopping.unit, total=stopping.rounds, completed=done)

        def report(state: State) -> None:
            bar.update(task, completed=state.done, description=described(stopping, state, loss=loss))

        yield report


def described(stopping: Stopping, state: State, *, loss: bool = True) -> str:
    """Say where training stands: the first metric, now and in the round that would be kept, or the loss.

    A ``loss`` that does not compare between rounds may rise while the ranker learns, and says nothing.

    >>> stopping = Stopping(rounds=9, metrics=("ndcg",))
    >>> described(stopping, State(done=2, best=1, history={"ndcg": [0.75, 0.5]}))
    'ndcg 0.5000 (best 0.7500 in round 1)'
    >>> described(Stopping(rounds=9), State(done=1, history={"loss": [2.5]}))
    'loss 2.5000'
    >>> described(Stopping(rounds=9), State(done=1, history={"loss": [2.5]}), loss=False)
    'rounds'
    """
    if stopping.metrics:
        name, column = stopping.metrics[0], state.history[stopping.metrics[0]]
        return f"{name} {column[-1]:.4f} (best {column[state.best - 1]:.4f} in {stopping.unit[:-1]} {state.best})"
    return f"loss {state.history['loss'][-1]:.4f}" if loss and "loss" in state.history else stopping.unit


def _silent(state: State) -> None:
    """Show nothing."""
