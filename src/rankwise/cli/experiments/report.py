"""The commands ``demo`` and ``report``."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

from rankwise import check, settings_files
from rankwise.check.parameters import Option, Unset
from rankwise.cli import console
from rankwise.cli.options import Only
from rankwise.cli.running import Running

if TYPE_CHECKING:
    from rankwise.model_selection.result import Tuning

_LARGEST_SEARCH = 2**26  # bytes of JSON


def demo(
    *,
    output: Annotated[
        Path, "The folder for the results; created if it does not exist.", Option(short="-o", metavar="DIR")
    ] = Path("results/demo"),
    running: Annotated[Running, Only("progress", "force", "json")],
) -> None:
    """Show what rankwise does, on synthetic data.

    Generates a data set like those of web search, splits it by query, trains trees with five objectives of rankwise and
    two of LightGBM itself, and tests which ranks best, by how much, and whether that is significant. A short search as
    that of "rankwise auto" follows, with its leaderboard. A report with a query explorer, tables, values per query,
    plots, data and models go into the folder; running it again replaces them, and --force writes into a folder that
    holds other files as well.

    rankwise demo
    rankwise demo --output /tmp/demo --json
    """
    from rankwise.demo.run import STEPS, demonstrate

    with running.steps(STEPS) as bar:
        result = demonstrate(output, force=running.force, progress=bar.step)
    if running.json:
        console.document(result.to_dict())
        return
    introduced, concluded = result.search()
    console.say(f"{result.introduction()}\n")
    console.table(result.table())
    console.say(f"\n{result.conclusion()}\n")
    console.say(f"{introduced}\n")
    console.table(result.leaderboard.table(), narrow=result.leaderboard.brief())
    console.say(f"\n{concluded}\n")
    console.say(
        f"Report: {output / 'report.html'}, for a browser: figures, the leaderboard, and every query in an explorer."
    )
    console.say(f"Results: {output / 'results.md'}, with pictures, data and models beside it.")
    console.say("Next:")
    for command in result.next_commands():
        console.say(f"  {command}", wrap=False)
    console.say("On data of your own (LETOR text, CSV or Parquet):")
    console.say("  rankwise auto DATA --minutes 10 --output model", wrap=False)


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
    from rankwise.experiments.results import Results
    from rankwise.report.write import FILES, check_report_target, write_report

    beside = results.with_suffix("") if results.is_file() else results
    folder = beside if output is None else output
    check_report_target(folder, force=running.force)
    searches = {name: _search(path) for name, path in tuning.items()}
    loaded = Results.read(results)
    with running.steps(None) as bar:
        page = write_report(loaded, folder, tunings=searches, force=running.force, progress=bar.step)
    written = {"page": str(page), "files": sorted(path.name for path in (folder / FILES).iterdir())}
    running.say(written, f"Report: {page}, with {len(written['files'])} files in {folder / FILES}.")


def _search(path: str) -> "Tuning":
    """Read a search from the output of ``rankwise tune --json``."""
    from rankwise.model_selection.result import Tuning

    file = settings_files.load(check.readable(path), "a file of JSON", as_json=True, most=_LARGEST_SEARCH)
    with check.naming(path):
        return Tuning.from_dict(file.keys)
