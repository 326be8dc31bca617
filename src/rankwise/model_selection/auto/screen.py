"""What a terminal shows of a search, in as many columns as it has: what is tried, what leads, and how long is left."""

import math
from dataclasses import replace

from rich.console import Console, ConsoleOptions, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rankwise.model_selection.auto import budget
from rankwise.model_selection.auto.progress import Moment, complete
from rankwise.statistics import tables

_NARROW = 60  # columns: below, numbers stand without words


class Screen:
    """Three lines that are drawn anew whenever the terminal is refreshed; names give way to numbers."""

    def __init__(self, metric: str) -> None:
        self.metric = metric
        self.moment: Moment | None = None
        self.told = budget.clock()

    def tell(self, moment: Moment) -> None:
        """Note where the search stands."""
        self.moment, self.told = moment, budget.clock()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Give the lines; the clock goes on between two rounds."""
        if self.moment is not None:
            now = replace(self.moment, spent=self.moment.spent + budget.clock() - self.told)
            wide = options.max_width >= _NARROW
            yield self._recipes(now, wide=wide)
            yield _time(now, wide=wide)

    def _recipes(self, now: Moment, *, wide: bool) -> Table:
        grid = Table.grid(padding=(0, 2, 0, 0), expand=True)
        grid.add_column(no_wrap=True)
        grid.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        for _ in range(2):
            grid.add_column(no_wrap=True, justify="right")
        metric = f"{self.metric} " if wide else ""
        begins = math.isnan(now.value)
        place = "begins" if begins else f"round {now.round}" if wide else str(now.round)
        value = "" if begins else f"{metric}{tables.number(now.value)}"
        grid.add_row("trying", Text(now.recipe), place, Text(value, "bold green" if now.leads else ""))
        leads_with = f"{metric}{tables.number(now.leads_with)}" if now.leader else ""
        grid.add_row("leads", Text(now.leader or tables.NOTHING), "", Text(leads_with))
        return grid


def _time(now: Moment, *, wide: bool) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0), expand=True)
    grid.add_column(ratio=1)
    grid.add_column(no_wrap=True, justify="right")
    words = [] if math.isinf(now.seconds) else [f"{_clock(now.left)} left"]
    words.append(complete(now) if wide else f"{now.done}/{now.recipes}")
    grid.add_row(ProgressBar(total=1.0, completed=now.share), ", ".join(words))
    return grid


def _clock(seconds: float) -> str:
    """Write a time as clocks do.

    >>> _clock(9.4), _clock(171.0), _clock(4000.0)
    ('0:09', '2:51', '1:06:40')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
