"""A progress bar that moves with every step, for people who watch: an epoch of a large model takes hours."""

import contextlib
import sys
from collections.abc import Callable, Iterator

from rankwise.rankers.training.loop import State
from rankwise.rankers.training.stopping import Stopping

Told = Callable[[int, float], None]
"""Called after a step with how many there were, and its loss."""


@contextlib.contextmanager
def showing(
    wanted: bool | None, stopping: Stopping, steps: int, done: int
) -> Iterator[tuple[Told, Callable[[State], None]]]:
    """Give what is called after every step, and what after every part; a bar is shown only where a terminal is."""
    if wanted is False or (wanted is None and not sys.stderr.isatty()):
        yield lambda step, loss: None, lambda state: None  # noqa: ARG005
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

    columns = (BarColumn(20), MofNCompleteColumn(), TextColumn("{task.description}"))
    times = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    with Progress(*columns, *times, console=Console(stderr=True)) as bar:
        task, found = bar.add_task("", total=steps, completed=done), ""

        def told(step: int, loss: float) -> None:
            bar.update(task, completed=step, description=f"loss {loss:.4f}{found}")

        def report(state: State) -> None:
            nonlocal found
            if stopping.metrics:
                name, column = stopping.metrics[0], state.history[stopping.metrics[0]]
                found = f", {name} {column[-1]:.4f} (best {column[state.best - 1]:.4f})"

        yield told, report
