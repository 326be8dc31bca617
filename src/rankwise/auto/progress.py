"""What is tried, what leads, how long is left: live on a terminal, a line for each training elsewhere."""

import contextlib
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rankwise.evaluation import tables


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
        from rich.progress import BarColumn, Progress, TextColumn

        columns = (BarColumn(), TextColumn("{task.description}", markup=False))
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("", total=1.0)
            yield lambda moment: bar.update(task, completed=moment.share, description=line(moment, metric))


def line(moment: Moment, metric: str) -> str:
    """Say it in one line.

    >>> about = {"recipe": "b", "done": 1, "recipes": 3, "leader": "a", "leads_with": 0.5, "spent": 9.0}
    >>> line(Moment(**about, round=20, value=0.25, ended="", seconds=60.0), "ndcg@10")
    'b: ndcg@10 0.2500 in round 20; a leads with 0.5000; 51 s left'
    >>> line(Moment(**about, round=20, value=0.75, ended="complete", seconds=math.inf), "ndcg@10")
    'b: ndcg@10 0.7500 in round 20, complete; it leads; 1 of 3 recipes complete'
    """
    said = f"{moment.recipe}: "
    said += "begins" if math.isnan(moment.value) else f"{metric} {tables.number(moment.value)} in round {moment.round}"
    said += f", {moment.ended}" if moment.ended else ""
    if moment.leader:
        ahead = moment.value > moment.leads_with or moment.recipe == moment.leader
        said += "; it leads" if ahead else f"; {moment.leader} leads with {tables.number(moment.leads_with)}"
    if math.isinf(moment.seconds):
        return f"{said}; {moment.done} of {moment.recipes} recipes complete"
    return f"{said}; {tables.duration(max(moment.seconds - moment.spent, 0.0))} left"
