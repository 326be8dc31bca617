"""Progress of an experiment while it runs: a bar and the means so far on a terminal, elsewhere a line now and then."""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rankwise import check
from rankwise.base.tables import duration

if TYPE_CHECKING:
    from rich.console import Console, Group

    from rankwise.wings.lab.experiments.running.run import ExperimentRun, Progress, Report
    from rankwise.wings.lab.experiments.spec import Spec

_ROWS = 16  # of means at once
_EVERY = 20.0  # seconds between lines where there is no terminal


def forecast(work: "ExperimentRun") -> str:
    """Return how much work is left, in words."""
    progress = work.progress
    left = progress.seconds_left
    unknown = "the first trainings will tell how long" if work.workers else "nobody knows how long on that cluster"
    time = unknown if left is None else f"at most {duration(left)} left"
    return f"{progress.total} trainings, {progress.kept} of them there already: {time}."


@contextlib.contextmanager
def watching(
    spec: "Spec", folder: Path, terminal: "Console", note: Callable[[str], None], *, enabled: bool | None
) -> Iterator["Report"]:
    """Return the function that a run calls after every trial; an interruption prints what is kept, and is raised again.

    By default a bar is shown on a terminal and a line now and then elsewhere; ``enabled=False`` shows nothing.
    """
    from rich.live import Live

    seen: list[Progress] = []
    last = time.monotonic()
    shown = enabled is not False
    live = Live(console=terminal, refresh_per_second=4, transient=True) if shown and terminal.is_terminal else None

    def report(progress: "Progress") -> None:
        nonlocal last
        if shown and (not seen or (live is None and time.monotonic() - last > _EVERY)):
            note(_sentence(progress))
            last = time.monotonic()
        seen[:] = [progress]
        if live is not None:
            live.update(_picture(spec, progress))

    try:
        with live or contextlib.nullcontext():
            yield report
    except KeyboardInterrupt:
        if seen:
            note(f"{seen[0].done} of {seen[0].total} trainings are kept in {folder}: the same command resumes.")
        raise


def _sentence(progress: "Progress") -> str:
    left = progress.seconds_left
    more = (
        "" if left is None else f", at most {duration(left)} left" if progress.done < progress.total else ", all there"
    )
    return f"{progress.done} of {progress.total} trainings done{more}"


def _picture(spec: "Spec", progress: "Progress") -> "Group":
    """A bar, and the means so far with their intervals."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table as Grid
    from rich.text import Text

    from rankwise.base import tables
    from rankwise.statistics import bounds_of, significance

    grid = Grid(box=None, pad_edge=False, header_style="dim")
    for name in ("data", "level", "method", f"{spec.decide}, {100 * (1 - spec.alpha):g}% interval", "trials"):
        grid.add_column(name, justify="left" if name in ("data", "method") else "right")
    for (data, level, method), values in list(progress.means.items())[-_ROWS:]:
        text = tables.number(sum(values) / len(values))
        if len(values) >= significance.FEWEST:
            ends = significance.interval_of_mean(values, bounds=bounds_of(str(spec.decide)), level=1.0 - spec.alpha)
            text += " " + tables.interval(*ends)
        grid.add_row(*(Text(check.printable(one)) for one in (data, f"{level:g}", method, text, str(len(values)))))
    bar = ProgressBar(total=progress.total, completed=progress.done, width=40)
    return Group(bar, Text(_sentence(progress), style="bold"), grid)
