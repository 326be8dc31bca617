"""The progress of a search: live on a terminal of any width, and a line for each training elsewhere."""

import contextlib
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rankwise.base import tables
from rankwise.wings.tuning.auto import budget

_NARROW = 60  # columns: below, numbers stand without words


@dataclass(frozen=True, kw_only=True)
class SearchState:
    """The state of a search."""

    recipe: str
    done: int
    """The number of complete recipes."""
    recipes: int
    round: int
    value: float
    """Out of fold, after this round or after the best one once the training has ended; NaN before the first."""
    ended: str
    """Why the training ended, empty while it is under way."""
    leader: str
    leads_with: float
    spent: float
    seconds: float
    """The limit; infinite without one."""

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return max(self.seconds - self.spent, 0.0)

    @property
    def leads(self) -> bool:
        """Whether no other recipe is better."""
        return self.value > self.leads_with or self.recipe == self.leader

    @property
    def share(self) -> float:
        """The share of the search that is over."""
        return self.done / self.recipes if math.isinf(self.seconds) else min(self.spent / self.seconds, 1.0)


Report = Callable[[SearchState], None]


@contextlib.contextmanager
def showing(progress: bool | None, metric: str) -> Iterator[Report]:
    """Yield the function to call after every round; ``progress=False`` shows nothing."""
    if progress is False:
        yield lambda _: None
    elif not sys.stderr.isatty():
        yield lambda moment: print(line(moment, metric), file=sys.stderr, flush=True) if moment.ended else None
    else:
        screen = LiveView(metric)
        # A round only notes its moment; drawing it, twice a second, costs the training next to nothing.
        with Live(screen, console=Console(stderr=True), transient=True, refresh_per_second=2):
            yield screen.update


def line(moment: SearchState, metric: str) -> str:
    """Return the state in one line, with the name of the recipe, which may be long, at the end.

    >>> state = {"recipe": "b", "done": 1, "recipes": 3, "leader": "a", "leads_with": 0.5, "spent": 9.0}
    >>> line(SearchState(**state, round=20, value=0.25, ended="partial", seconds=60.0), "ndcg@10")
    'ndcg@10 0.2500, best 0.5000; 51 s left; b: partial, round 20'
    >>> line(SearchState(**state, round=20, value=0.75, ended="complete", seconds=math.inf), "ndcg@10")
    'ndcg@10 0.7500, the best; 1 of 3 recipes complete; b: complete, round 20'
    """
    text = f"{metric} {tables.number(moment.value)}"
    if moment.leads:
        text += ", the best"
    elif moment.leader:
        text += f", best {tables.number(moment.leads_with)}"
    text += f"; {complete(moment)}" if math.isinf(moment.seconds) else f"; {tables.duration(moment.left)} left"
    return f"{text}; {moment.recipe}: {moment.ended}" + (f", round {moment.round}" if moment.round else "")


def complete(moment: SearchState) -> str:
    """Return how many recipes are complete, in words."""
    return f"{moment.done} of {tables.count(moment.recipes, 'recipe')} complete"


class LiveView:
    """Three lines that are drawn anew whenever the terminal is refreshed; names give way to numbers."""

    def __init__(self, metric: str) -> None:
        self.metric = metric
        self.moment: SearchState | None = None
        self.updated = budget.clock()

    def update(self, moment: SearchState) -> None:
        """Note the state of the search."""
        self.moment, self.updated = moment, budget.clock()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines; the clock goes on between two rounds."""
        if self.moment is None:
            return
        now = replace(self.moment, spent=self.moment.spent + budget.clock() - self.updated)
        wide = options.max_width >= _NARROW
        round_, metric = ("round ", f"{self.metric} ") if wide else ("", "")
        rankers, time = Table.grid(padding=(0, 2, 0, 0), expand=True), Table.grid(padding=(0, 2, 0, 0), expand=True)
        rankers.add_column(no_wrap=True)
        rankers.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        rankers.add_column(no_wrap=True, justify="right")
        rankers.add_column(no_wrap=True, justify="right")
        place, value = f"{round_}{now.round}", f"{metric}{tables.number(now.value)}"
        if math.isnan(now.value):
            place, value = "begins", ""
        rankers.add_row("trying", Text(now.recipe), place, Text(value, "bold green" if now.leads else ""))
        leads_with = f"{metric}{tables.number(now.leads_with)}" if now.leader else ""
        rankers.add_row("leads", Text(now.leader or tables.NOTHING), "", Text(leads_with))
        yield rankers
        time.add_column(ratio=1)
        time.add_column(no_wrap=True, justify="right")
        left = "" if math.isinf(now.seconds) else f"{_clock(now.left)} left, "
        done = complete(now) if wide else f"{now.done}/{now.recipes}"
        time.add_row(ProgressBar(total=1.0, completed=now.share), f"{left}{done}")
        yield time


def _clock(seconds: float) -> str:
    """Return a time as clocks write it.

    >>> _clock(9.4), _clock(171.0), _clock(4000.0)
    ('0:09', '2:51', '1:06:40')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
