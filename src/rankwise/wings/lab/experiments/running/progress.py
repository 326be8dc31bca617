"""How far an experiment is and how long it will take: from trials that are there, or from a few rounds of each method.

On a terminal a bar and the means so far are shown, elsewhere a line now and then.
"""

import contextlib
import functools
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rankwise import check
from rankwise.base.arrays import Keywords
from rankwise.base.tables import duration
from rankwise.quality import leakage
from rankwise.rankers import ranker_class
from rankwise.wings.lab.experiments.running.trials import parts_of

if TYPE_CHECKING:
    from rich.console import Console, Group

    from rankwise.rankers import RankerExpression
    from rankwise.wings.lab.experiments.running.run import ExperimentRun
    from rankwise.wings.lab.experiments.running.store import Store
    from rankwise.wings.lab.experiments.running.trials import TrialCell
    from rankwise.wings.lab.experiments.spec import Spec

_FEW, _MORE = 2, 5  # rounds of the two probes; their difference is free of what a first call costs
_ROUNDS = ("rounds", "epochs")
_ENOUGH = 30.0  # seconds of probing, after which what is known has to do for the rest

Kind = tuple[str, float, str]


@dataclass(kw_only=True, eq=False)
class Progress:
    """How far a run is; reported after every trial."""

    total: int
    """Trials times methods, levels and data sets."""
    kept: int
    """Those that were there before."""
    done: int
    """Those that are there now."""
    seconds_left: float | None
    """At most, as far as can be told; None: not known yet."""
    means: dict[tuple[str, float, str], list[float]] = field(default_factory=dict)
    """(data, level, method) -> the deciding metric's mean of each trial that is there."""
    failed: list[str] = field(default_factory=list)


Report = Callable[[Progress], None]


class Clock:
    """Seconds that trials take, by data set, level and method."""

    def __init__(self, store: "Store", cells: "list[TrialCell]", missing: "list[TrialCell]", workers: int) -> None:
        self.workers = workers
        self.missing = missing
        self.seconds: dict[Kind, list[float]] = {}
        self.guessed: dict[Kind, float] = {}
        self.began, self.ended = time.monotonic(), 0
        absent = {cell.name for cell in missing}
        for cell in cells:
            if cell.name not in absent:
                self.seconds.setdefault(_kind(cell), []).append(float(store.about(cell.name)["seconds"]))

    def probe(self) -> None:
        """Train a few rounds of each method on each data set of which nothing is known.

        The guess takes every round that is allowed, so it is a limit where training stops early. Methods that take long
        even for a few rounds, since they draw distributions first, are begun with rather than guessed at.
        """
        began = time.monotonic()
        for cell in self.missing:
            if time.monotonic() - began > _ENOUGH:
                return
            timed = {(data, method) for data, _, method in (*self.seconds, *self.guessed)}
            if (cell.source.name, cell.method) not in timed:
                with contextlib.suppress(ValueError):  # what cannot be trained says so when its turn comes
                    self.guessed[_kind(cell)] = _guess(cell)

    def start(self) -> None:
        """Start the clock: work begins now."""
        self.began = time.monotonic()

    def tell(self, cell: "TrialCell", seconds: float) -> None:
        """Learn from a trial that ended."""
        self.ended += 1
        self.seconds.setdefault(_kind(cell), []).append(seconds)

    def left(self, waiting: "list[TrialCell]") -> float | None:
        """Seconds that these trials take together; None where nothing is known."""
        if not self.workers:  # nobody knows how large a cluster is: what it did so far tells
            return (time.monotonic() - self.began) / self.ended * len(waiting) if self.ended else None
        each = [self._expected(cell) for cell in waiting]
        return None if None in each else sum(one or 0.0 for one in each) / self.workers

    def _expected(self, cell: "TrialCell") -> float | None:
        """What is usual for the same, else of other levels, else the guess, else of all that is known."""
        data, _, method = cell_kind = _kind(cell)
        alike = [seconds for kind, seconds in self.seconds.items() if (kind[0], kind[2]) == (data, method)]
        for durations in (self.seconds.get(cell_kind, []), [second for seconds in alike for second in seconds]):
            if durations:
                return statistics.median(durations)
        guesses = [one for kind, one in self.guessed.items() if (kind[0], kind[2]) == (data, method)]
        everything = guesses or [second for seconds in self.seconds.values() for second in seconds]
        return statistics.median(everything) if everything else None


def _guess(cell: "TrialCell") -> float:
    """Time a method at two small numbers of rounds, and extrapolate in a straight line."""
    spec = cell.spec
    expression = spec.ranker_of(cell.method, cell.source.name, cell.level)
    began = time.perf_counter()
    train, valid, _ = parts_of(cell)
    durations = [time.perf_counter() - began]
    full_ranker = expression.build()
    word = next((name for name in _ROUNDS if hasattr(full_ranker, name)), "rounds")
    for rounds in (_FEW, _MORE):
        ranker = expression.map(functools.partial(_limited, rounds)).build(cell.defaults)
        began = time.perf_counter()
        with leakage.checked():
            ranker.fit(train, valid)
        durations.append(time.perf_counter() - began)
    rate = max(durations[2] - durations[1], 0.0) / (_MORE - _FEW)
    once = durations[0] + max(durations[2] + rate * ((getattr(full_ranker, word, None) or _MORE) - _MORE), 0.0)
    budgets = [once * spec.tune_trials] * bool(spec.tune_trials) + [60.0 * spec.tune_minutes] * bool(spec.tune_minutes)
    return once + min(budgets, default=0.0)


def _limited(rounds: int, single: "RankerExpression") -> Keywords:
    return {**single.settings, ranker_class(single.name).unit: rounds}


def _kind(cell: "TrialCell") -> Kind:
    return cell.source.name, cell.level, cell.method


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
) -> Iterator[Report]:
    """Return the function that a run calls after every trial; an interruption prints what is kept, and is raised again.

    By default a bar is shown on a terminal and a line now and then elsewhere; ``enabled=False`` shows nothing.
    """
    from rich.live import Live

    seen: list[Progress] = []
    last = time.monotonic()
    shown = enabled is not False
    live = Live(console=terminal, refresh_per_second=4, transient=True) if shown and terminal.is_terminal else None

    def report(progress: Progress) -> None:
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


def _sentence(progress: Progress) -> str:
    left = progress.seconds_left
    more = (
        "" if left is None else f", at most {duration(left)} left" if progress.done < progress.total else ", all there"
    )
    return f"{progress.done} of {progress.total} trainings done{more}"


def _picture(spec: "Spec", progress: Progress) -> "Group":
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
