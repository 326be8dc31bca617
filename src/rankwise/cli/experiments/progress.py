"""Watching an experiment: trials done, time left, means so far; live on a terminal, a line now and then elsewhere."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rankwise.cli import console
from rankwise.statistics.tables import duration

if TYPE_CHECKING:
    from rich.console import Group

    from rankwise.experiments.running.run import Progress, Report
    from rankwise.experiments.spec import Spec

_ROWS = 16  # of means at once
_EVERY = 20.0  # seconds between lines where there is no terminal


@contextlib.contextmanager
def watching(spec: "Spec", folder: Path, *, wanted: bool | None) -> Iterator["Report"]:
    """Give the function that a run calls after every trial; an interruption reports what is kept, and is raised again.

    By default a bar is shown on a terminal and a line now and then elsewhere; ``wanted=False`` shows nothing.
    """
    seen: list[Progress] = []
    stderr = console.terminal(stderr=True)
    try:
        if wanted is False:

            def keep(progress: "Progress") -> None:
                seen[:] = [progress]

            yield keep
        elif stderr.is_terminal:
            from rich.live import Live

            with Live(console=stderr, refresh_per_second=4, transient=True) as live:

                def draw(progress: "Progress") -> None:
                    if not seen:
                        console.note(_sentence(progress))
                    seen[:] = [progress]
                    live.update(_picture(spec, progress))

                yield draw
        else:
            last = time.monotonic()

            def write(progress: "Progress") -> None:
                nonlocal last
                now = time.monotonic()
                if not seen or now - last > _EVERY:
                    console.note(_sentence(progress))
                    last = now
                seen[:] = [progress]

            yield write
    except KeyboardInterrupt:
        if seen:
            console.note(f"{seen[0].done} of {seen[0].total} trainings are kept in {folder}: the same command resumes.")
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

    from rankwise.statistics import significance, tables

    grid = Grid(box=None, pad_edge=False, header_style="dim")
    for name in ("data", "level", "method", f"{spec.decide}, {100 * (1 - spec.alpha):g}% interval", "trials"):
        grid.add_column(name, justify="left" if name in ("data", "method") else "right")
    for (data, level, method), values in list(progress.means.items())[-_ROWS:]:
        text = tables.number(sum(values) / len(values))
        if len(values) >= significance.FEWEST:
            text += " " + tables.interval(*significance.t_test(values).interval(1.0 - spec.alpha))
        grid.add_row(*map(console.plain, (data, f"{level:g}", method, text, str(len(values)))))
    bar = ProgressBar(total=progress.total, completed=progress.done, width=40)
    return Group(bar, Text(_sentence(progress), style="bold"), grid)
