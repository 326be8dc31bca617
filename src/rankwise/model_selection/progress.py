"""A progress bar of a search, for people who watch."""

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence

from rankwise.model_selection.result import COMPLETE, Trial

Report = Callable[[Sequence[Trial], float], None]


@contextlib.contextmanager
def showing(wanted: bool | None, metric: str, limit: int | None, minutes: float | None) -> Iterator[Report]:
    """Give the function to call between trials; by default there is a bar only where a terminal shows it."""
    if wanted is False or (wanted is None and not sys.stderr.isatty()):
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), TextColumn("left"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("the first trial", total=1.0)

        def report(trials: Sequence[Trial], seconds: float) -> None:
            shares = [len(trials) / limit] if limit else []
            shares += [seconds / (60.0 * minutes)] if minutes else []
            best = max((trial for trial in trials if trial.state == COMPLETE), key=lambda t: t.value or 0, default=None)
            text = f"{len(trials)} trials" + (f" of {limit}" if limit else "")
            if best is not None:
                text += f", {metric} {best.value:.4f} in trial {best.number}"
            bar.update(task, completed=min(max(shares), 1.0), description=text)

        yield report
