"""The command ``reproduce``: the papers' experiments, and yours."""

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rankwise import check
from rankwise.arrays import Keywords
from rankwise.check.parameters import AtLeast, Option, Unset
from rankwise.cli import console, inputs
from rankwise.cli.data_options import Reading
from rankwise.cli.options import But, Of, Only
from rankwise.cli.running import Running
from rankwise.statistics.tables import Table

if TYPE_CHECKING:
    from rankwise.experiments.results import Results


def _engine() -> Mapping[str, Sequence[Callable[..., Any]]]:
    """Return the function that runs an experiment, whose parameters are options."""
    from rankwise.experiments.running import run

    return {"": [run.run]}


def reproduce(
    name: Annotated[str | None, "An experiment from --list, or a .toml file that describes one of yours."] = None,
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
        Keywords,
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
    from rankwise.experiments.running import live
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
        running.say(document, live.forecast(work))
        return
    with live.watching(spec, folder, console.terminal(stderr=True), console.note, enabled=running.progress) as report:
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
