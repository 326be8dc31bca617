"""What is tried, what leads, how long is left: live on a terminal, a line for each training elsewhere."""

import contextlib
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rankwise.statistics import tables


@dataclass(frozen=True, kw_only=True)
class Moment:
    """Where a search stands."""

    recipe: str
    done: int
    """Recipes that are complete."""
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
    """That there are, of which some are spent; infinite without a limit."""

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
        """How much of the search is over."""
        return self.done / self.recipes if math.isinf(self.seconds) else min(self.spent / self.seconds, 1.0)


Report = Callable[[Moment], None]


@contextlib.contextmanager
def showing(wanted: bool | None, metric: str) -> Iterator[Report]:
    """Give the function to call after every round; ``wanted=False`` shows nothing."""
    if wanted is False:
        yield lambda _: None
    elif not sys.stderr.isatty():
        yield lambda moment: print(line(moment, metric), file=sys.stderr, flush=True) if moment.ended else None
    else:
        from rich.console import Console
        from rich.live import Live

        from rankwise.model_selection.auto.screen import Screen

        screen = Screen(metric)
        # A round only leaves its moment behind: what is drawn, twice a second, costs the training next to nothing.
        with Live(screen, console=Console(stderr=True), transient=True, refresh_per_second=2):
            yield screen.tell


def line(moment: Moment, metric: str) -> str:
    """Say it in one line: what is short and matters comes first, and the name of the recipe, which may be long, last.

    >>> about = {"recipe": "b", "done": 1, "recipes": 3, "leader": "a", "leads_with": 0.5, "spent": 9.0}
    >>> line(Moment(**about, round=20, value=0.25, ended="partial", seconds=60.0), "ndcg@10")
    'ndcg@10 0.2500, best 0.5000; 51 s left; b: partial, round 20'
    >>> line(Moment(**about, round=20, value=0.75, ended="complete", seconds=math.inf), "ndcg@10")
    'ndcg@10 0.7500, the best; 1 of 3 recipes complete; b: complete, round 20'
    """
    said = f"{metric} {tables.number(moment.value)}"
    if moment.leads:
        said += ", the best"
    elif moment.leader:
        said += f", best {tables.number(moment.leads_with)}"
    said += f"; {complete(moment)}" if math.isinf(moment.seconds) else f"; {tables.duration(moment.left)} left"
    return f"{said}; {moment.recipe}: {moment.ended}" + (f", round {moment.round}" if moment.round else "")


def complete(moment: Moment) -> str:
    """Say how many recipes are complete."""
    return f"{moment.done} of {tables.count(moment.recipes, 'recipe')} complete"
