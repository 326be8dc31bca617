"""The command ``report``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankwise import check
from rankwise.cli import console, inputs, options
from rankwise.cli.options import option

if TYPE_CHECKING:
    from rankwise.model_selection.result import Tuning

_LARGEST_SEARCH = 2**26  # bytes of JSON


def report(
    results: Annotated[
        Path, typer.Argument(metavar="RESULTS", help="The folder that 'rankwise reproduce' wrote, or a pack of it.")
    ],
    output: Annotated[
        Path | None, option("The folder for the report.", "DIR", "--output", "-o", default="RESULTS itself")
    ] = None,
    search: Annotated[
        list[str] | None,
        option(
            "Show this search for parameters as well: the output of 'rankwise tune --json'; may be repeated.",
            "NAME=FILE",
        ),
    ] = None,
    progress: options.Progress = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Write the report of an experiment: one HTML page, and every figure and table as files.

    The page needs no network: what was found in words, tables with tests of significance, figures, what the paper says,
    and an explorer in which the rankings of two models stand side by side, query by query. Beside it lie SVG, PNG, CSV,
    LaTeX and Markdown.

    [cyan]rankwise reproduce 2021-table1 --quick[/cyan]
    [cyan]rankwise report results/2021-table1-quick[/cyan]
    [cyan]rankwise report results/2021-table1 --output report --force[/cyan]
    """
    from rankwise.experiments.results import Results
    from rankwise.report.write import FILES, ready, write_report

    beside = results.with_suffix("") if results.is_file() else results
    folder = beside if output is None else output
    ready(folder, force=force)
    searches = {name: _search(path) for name, path in inputs.pairs(search or [], "NAME=FILE").items()}
    loaded = Results.read(results)
    with console.progress(None, progress) as bar:
        page = write_report(loaded, folder, tunings=searches, force=force, progress=bar.step)
    written = {"page": str(page), "files": sorted(path.name for path in (folder / FILES).iterdir())}
    if json:
        console.document(written)
        return
    console.say(f"Report: {page}, with {len(written['files'])} files in {folder / FILES}.")


def _search(path: str) -> "Tuning":
    """Read a search from the output of ``rankwise tune --json``."""
    from rankwise import settings_files
    from rankwise.model_selection.result import Tuning

    file = settings_files.load(check.readable(path), "a file of JSON", as_json=True, most=_LARGEST_SEARCH)
    with check.naming(path):
        return Tuning.from_dict(file.keys)
