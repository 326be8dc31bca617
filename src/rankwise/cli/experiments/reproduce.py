"""The command ``reproduce``: the papers' experiments, and yours."""

import contextlib
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rankwise import check
from rankwise.arrays import Keywords
from rankwise.check.parameters import AtLeast, Option, Unset
from rankwise.cli import console, inputs
from rankwise.cli.data_options import Reading
from rankwise.cli.options import But, Of, Only
from rankwise.cli.running import Running
from rankwise.statistics.tables import Table, duration

if TYPE_CHECKING:
    from rich.console import Group

    from rankwise.experiments.results import Results
    from rankwise.experiments.running.run import ExperimentRun, Progress, Report
    from rankwise.experiments.spec import Spec

_ROWS = 16  # of means at once
_EVERY = 20.0  # seconds between lines where there is no terminal


def _engine() -> Mapping[str, Sequence[Callable[..., Any]]]:
    """Return the function that runs an experiment, whose parameters are options."""
    from rankwise.experiments.running import run

    return {"": [run.run]}


def reproduce(
    name: Annotated[
        str | None, "An experiment from --list, or a .toml file that describes one of yours.", Option(metavar="NAME")
    ] = None,
    *,
    list_: Annotated[bool, "List the experiments: paper, data, cost."] = False,
    data: Annotated[
        list[str] | None,
        "Run it on this instead: a name of the catalog, a file, NAME=FILE, or 'synthetic(n_queries=500)'; may be "
        "repeated.",
        Option(metavar="DATA"),
    ] = None,
    output: Annotated[
        Path | None, "The folder for the results.", Unset("results/NAME"), Option(short="-o", metavar="DIR")
    ] = None,
    trials: Annotated[int | None, AtLeast(1), "Number of trials."] = None,
    quick: Annotated[
        bool, "A small form that takes a minute or two; its figures are not comparable with the paper's."
    ] = False,
    set_: Annotated[
        Mapping[str, object],
        "Change a key of the description: seed=1, or settings.rounds=100 for all methods; may be repeated.",
        Option(metavar="NAME=VALUE"),
    ] = inputs.NONE,
    estimate: Annotated[bool, "Only estimate how long it will take."] = False,
    working: Annotated[Keywords, Of(_engine)],
    reading: Annotated[Reading, But("part", "fold", "download", "folder")],
    running: Annotated[Running, Only("progress", "json")],
) -> None:
    """Run an experiment of a paper, or your own, and compare the outcome with the published figures.

    Every trial is kept as it ends: the same command resumes a run that was interrupted, and more trials keep the old
    ones. Without --data the papers' experiments run on synthetic data.

    rankwise reproduce --list
    rankwise reproduce 2021-table1 --quick
    rankwise reproduce 2021-table1 --data mq2008 --data-folder ~/letor --trials 20
    rankwise reproduce mine.toml --jobs 4 --set settings.rounds=100
    """
    if list_ or name is None:
        _list(running)
        return
    from rankwise.experiments.reproduce import experiment_spec, results_folder
    from rankwise.experiments.running import run as engine

    changes = {**set_, "data": data, "trials": trials, "columns": reading.arguments or None}
    spec = experiment_spec(
        name, quick=quick, changes={key: value for key, value in changes.items() if value is not None}
    )
    folder = output or results_folder(spec, quick=quick)
    command = " ".join(["rankwise", *map(shlex.quote, map(check.shown, sys.argv[1:]))])
    if estimate:
        folders = {name: value for name, value in working.items() if name in ("jobs", "data_folder")}
        work = engine.begin(spec, folder, on_cluster="dask" in working, **folders)
        progress = work.progress
        document = {"total": progress.total, "kept": progress.kept, "seconds_left": progress.seconds_left}
        running.say(document, _forecast(work))
        return
    with _watching(spec, folder, enabled=running.progress) as report:
        results = engine.run(spec, folder, progress=report, estimate=not quick, command=command, **working)
    _show(results, folder, running.json)


def _list(running: Running) -> None:
    from rankwise.experiments.spec import find_spec, recipes

    specs = [find_spec(name) for name in recipes()]
    rows = tuple(
        (spec.name, spec.paper.partition(":")[0], spec.title, ", ".join(spec.paper_data or spec.data), spec.cost)
        for spec in specs
    )
    notes = (
        "Cost: the full form on synthetic data, on two cores; --estimate gives it for your data. --quick takes a "
        "minute or two. --data runs it on other data.",
    )
    header = ("name", "paper by", "what", "the paper's data", "cost")
    table = Table(header=header, rows=rows, align="lllll", notes=notes)
    running.show([spec.plain() for spec in specs], ("", table))


def _forecast(work: "ExperimentRun") -> str:
    progress = work.progress
    left = progress.seconds_left
    unknown = "the first trainings will tell how long" if work.workers else "nobody knows how long on that cluster"
    time = unknown if left is None else f"at most {duration(left)} left"
    return f"{progress.total} trainings, {progress.kept} of them there already: {time}."


def _show(results: "Results", folder: Path, json: bool) -> None:
    from rankwise.experiments.results import PAGE
    from rankwise.experiments.summary import all_tables, claimed

    if json:
        console.document(results.to_dict())
        return
    if results.spec["claim"]:
        console.say(f"{claimed(results.spec)}: {results.spec['claim']}")
    for title, table in all_tables(results):
        console.table(table, title=title)
    console.say(f"\nResults: {folder / PAGE}, with every trial beside it.")
    console.say(f"Next: rankwise report {folder}", wrap=False)


@contextlib.contextmanager
def _watching(spec: "Spec", folder: Path, *, enabled: bool | None) -> Iterator["Report"]:
    """Return the function that a run calls after every trial; an interruption prints what is kept, and is raised again.

    By default a bar is shown on a terminal and a line now and then elsewhere; ``enabled=False`` shows nothing.
    """
    from rich.live import Live

    seen: list[Progress] = []
    stderr, last = console.terminal(stderr=True), time.monotonic()
    shown = enabled is not False
    live = Live(console=stderr, refresh_per_second=4, transient=True) if shown and stderr.is_terminal else None

    def report(progress: "Progress") -> None:
        nonlocal last
        if shown and (not seen or (live is None and time.monotonic() - last > _EVERY)):
            console.note(_sentence(progress))
            last = time.monotonic()
        seen[:] = [progress]
        if live is not None:
            live.update(_picture(spec, progress))

    try:
        with live or contextlib.nullcontext():
            yield report
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
    from rankwise.statistics.titles import bounds_of

    grid = Grid(box=None, pad_edge=False, header_style="dim")
    for name in ("data", "level", "method", f"{spec.decide}, {100 * (1 - spec.alpha):g}% interval", "trials"):
        grid.add_column(name, justify="left" if name in ("data", "method") else "right")
    for (data, level, method), values in list(progress.means.items())[-_ROWS:]:
        text = tables.number(sum(values) / len(values))
        if len(values) >= significance.FEWEST:
            ends = significance.interval_of_mean(values, bounds=bounds_of(str(spec.decide)), level=1.0 - spec.alpha)
            text += " " + tables.interval(*ends)
        grid.add_row(*map(console.plain, (data, f"{level:g}", method, text, str(len(values)))))
    bar = ProgressBar(total=progress.total, completed=progress.done, width=40)
    return Group(bar, Text(_sentence(progress), style="bold"), grid)
