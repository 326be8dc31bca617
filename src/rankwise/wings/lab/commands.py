"""The commands ``demo``, ``reproduce`` and ``report``: the papers' experiments, and yours."""

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

from rankwise import check
from rankwise.base.arrays import Keywords
from rankwise.check.parameters import AtLeast, Option, Unset
from rankwise.cli.wing import BEGIN, EXPERIMENTS, But, Only, Reading, Running, console, inputs, of, register

if TYPE_CHECKING:
    from typer import Typer


def demo(
    *,
    output: Annotated[
        Path, "The folder for the results; created if it does not exist.", Option(short="-o", metavar="DIR")
    ] = Path("results/demo"),
    running: Annotated[Running, Only("progress", "force", "json")],
) -> None:
    """Show what rankwise does, on the documentation of NumPy and SciPy.

    Collects the documentation of what is installed, searches it by BM25, trains trees with four objectives and a bag on
    the links of "See Also", and tests which rank better, by how much, and whether that is significant. A search for
    "rankwise serve", a report with a query explorer, a plot, data and models go into the folder; running it again
    replaces them, and --force writes into a folder that holds other files as well.

    rankwise demo
    rankwise demo --output /tmp/demo --json
    """
    from rankwise.wings.lab.demo.run import STEPS, demonstrate

    with running.steps(STEPS) as bar:
        result = demonstrate(output, force=running.force, progress=bar.step)
    if running.json:
        console.document(result.to_dict())
        return
    console.say(f"{result.data}\n")
    console.table(result.table())
    console.say(f"\n{result.sentence}\n")
    console.say(result.why, wrap=False)
    console.say(f"\nReport: {output / 'report.html'}, for a browser: tests, figures, and every query in an explorer.")
    lines = [
        "Next (rankwise serve needs pip install 'rankwise[serve]'):",
        *(f"  {command}" for command in result.next_commands()),
    ]
    lines += ["On texts of your own:", "  rankwise text features DOCUMENTS QUERIES --qrels QRELS --output data.parquet"]
    console.say("\n".join(lines), wrap=False)


def report(
    results: Annotated[Path, "The folder that 'rankwise reproduce' wrote, or a pack of it.", Option(metavar="RESULTS")],
    *,
    output: Annotated[
        Path | None, "The folder for the report.", Unset("RESULTS itself"), Option(short="-o", metavar="DIR")
    ] = None,
    tuning: Annotated[
        Mapping[str, str],
        "Show this search for parameters as well: the output of 'rankwise tune --json'; may be repeated.",
        Option(metavar="NAME=FILE"),
    ] = MappingProxyType({}),
    running: Annotated[Running, Only("progress", "force", "json")],
) -> None:
    """Write the report of an experiment: one HTML page, and every figure and table as files.

    The page needs no network: what was found in words, tables with tests of significance, figures, what the paper says,
    and an explorer in which the rankings of two models stand side by side, query by query. Beside it lie SVG, PNG, CSV,
    LaTeX and Markdown.

    rankwise reproduce 2021-table1 --quick
    rankwise report results/2021-table1-quick
    rankwise report results/2021-table1 --output report --force
    """
    from rankwise.results import Tuning
    from rankwise.wings.lab.experiments.results import Results
    from rankwise.wings.lab.report.write import FILES, check_report_target, write_report

    beside = results.with_suffix("") if results.is_file() else results
    folder = beside if output is None else output
    check_report_target(folder, force=running.force)
    searches = {name: Tuning.read(path) for name, path in tuning.items()}
    loaded = Results.read(results)
    with running.steps(None) as bar:
        page = write_report(loaded, folder, tunings=searches, force=running.force, progress=bar.step)
    written = {"page": str(page), "files": sorted(path.name for path in (folder / FILES).iterdir())}
    running.say(written, f"Report: {page}, with {len(written['files'])} files in {folder / FILES}.")


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
    working: Annotated[Keywords, of("rankwise.wings.lab.experiments.running.run:run")],
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
    from rankwise.wings.lab.experiments.reproduce import experiment_spec, included, included_table, results_folder

    if list_ or name is None:
        running.show([spec.plain() for spec in included()], ("", included_table()))
        return
    from rankwise.wings.lab.experiments.results import PAGE
    from rankwise.wings.lab.experiments.running import run as engine
    from rankwise.wings.lab.experiments.running.progress import forecast, watching
    from rankwise.wings.lab.experiments.summary import all_tables, claimed

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
        running.say(document, forecast(work))
        return
    with watching(spec, folder, console.terminal(stderr=True), console.note, enabled=running.progress) as report:
        results = engine.run(spec, folder, progress=report, estimate=not quick, command=command, **working)
    if not running.json and results.spec["claim"]:
        console.say(f"{claimed(results.spec)}: {results.spec['claim']}")
    running.show(results.to_dict(), *all_tables(results))
    if not running.json:
        console.say(f"\nResults: {folder / PAGE}, with every trial beside it.")
        console.say(f"Next: rankwise report {folder}", wrap=False)


def add(app: "Typer") -> None:
    """Add the commands of the wing."""
    register(app, BEGIN, demo)
    register(app, EXPERIMENTS, reproduce, report)
