"""The command ``reproduce``: the papers' experiments, and yours."""

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankwise.cli import console, inputs, options, outputs
from rankwise.cli.data_options import Reading, reads_data
from rankwise.cli.experiments.progress import watching
from rankwise.statistics.tables import duration

if TYPE_CHECKING:
    from rankwise.experiments.results import Results
    from rankwise.experiments.running.run import Work


@partial(reads_data, leave_out=("download",))
def reproduce(
    *,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="An experiment from --list, or a .toml file that describes one of yours."),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the experiments: paper, data, cost.")] = False,
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DATA",
            help="Run it on this instead: a name of the catalog, a file, NAME=FILE, or 'synthetic(n_queries=500)'; may "
            "be repeated.",
        ),
    ] = None,
    data_folder: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The folder of the catalog's data sets.", show_default="RANKWISE_DATA"),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="The folder for the results.", show_default="results/NAME"),
    ] = None,
    trials: Annotated[int | None, typer.Option(min=1, metavar="N", help="How many trials.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small form that takes a minute or two.")] = False,
    jobs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="How many processes; the threads are divided among them.")
    ] = None,
    dask: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Compute on the workers of this Dask cluster.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change a key of the description: seed=1, or settings.rounds=100 for all methods; may be repeated.",
        ),
    ] = None,
    estimate: Annotated[bool, typer.Option("--estimate", help="Only estimate how long it will take.")] = False,
    reading: Reading,
    progress: options.Progress = None,
    json: options.Json = False,
) -> None:
    """Run an experiment of a paper, or your own, and compare the outcome with the published figures.

    Every trial is kept as it ends: the same command resumes a run that was interrupted, and more trials keep the old
    ones. Without --data the papers' experiments run on synthetic data.

    [cyan]rankwise reproduce --list[/cyan]
    [cyan]rankwise reproduce 2021-table1 --quick[/cyan]
    [cyan]rankwise reproduce 2021-table1 --data mq2008 --data-folder ~/letor --trials 20[/cyan]
    [cyan]rankwise reproduce mine.toml --jobs 4 --set settings.rounds=100[/cyan]
    """
    if list_ or name is None:
        _list(json)
        return
    from rankwise.experiments.reproduce import described, results_folder
    from rankwise.experiments.running import run as engine

    changes = {**inputs.settings(set_ or []), "data": data, "trials": trials, "columns": reading.options or None}
    spec = described(name, quick=quick, changes={key: value for key, value in changes.items() if value is not None})
    folder = output or results_folder(spec, quick=quick)
    command = " ".join(["rankwise", *map(shlex.quote, sys.argv[1:])])
    if estimate:
        work = engine.begin(spec, folder, jobs=jobs, on_cluster=dask is not None, data_folder=data_folder)
        if json:
            left = work.progress.seconds_left
            console.document({"total": work.progress.total, "kept": work.progress.kept, "seconds_left": left})
        else:
            console.say(_forecast(work))
        return
    with watching(spec, folder, wanted=progress) as report:
        results = engine.run(
            spec,
            folder,
            jobs=jobs,
            dask=dask,
            data_folder=data_folder,
            progress=report,
            estimate=not quick,
            command=command,
        )
    _show(results, folder, json)


def _list(json: bool) -> None:
    from rankwise.experiments.spec import find_spec, recipes
    from rankwise.statistics.tables import Table

    found = [find_spec(name) for name in recipes()]
    rows = tuple(
        (spec.name, spec.paper.partition(":")[0], spec.title, ", ".join(spec.paper_data or spec.data), spec.cost)
        for spec in found
    )
    notes = (
        "Cost: the full form on synthetic data, on two cores; --estimate gives it for your data. --quick takes a "
        "minute or two. --data runs it on other data.",
    )
    header = ("name", "paper by", "what", "the paper's data", "cost")
    table = Table(header=header, rows=rows, align="lllll", notes=notes)
    outputs.show([spec.plain() for spec in found], ("", table), json=json)


def _forecast(work: "Work") -> str:
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
