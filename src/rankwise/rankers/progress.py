"""A progress bar on the error output, for people who watch."""

import contextlib
import sys
from collections.abc import Callable, Iterator

from rankwise.rankers.course import Course, State


@contextlib.contextmanager
def showing(wanted: bool | None, plan: Course, done: int) -> Iterator[Callable[[State, int], None]]:
    """Give the function to call after every round; by default there is a bar only where a terminal shows it."""
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
        task = bar.add_task(plan.unit, total=plan.rounds, completed=done)
        metric = None if plan.valid is None else plan.measure.names[0]

        def report(state: State, best: int) -> None:
            text = plan.unit
            if metric is not None:
                column = state.history[metric]
                text = f"{metric} {column[-1]:.4f} (best {column[best - 1]:.4f} in {plan.unit[:-1]} {best})"
            elif "loss" in state.history:
                text = f"loss {state.history['loss'][-1]:.4f}"
            bar.update(task, completed=state.done, description=text)

        yield report


def _silent(state: State, best: int) -> None:
    """Show nothing."""
