"""The command ``demo``."""

from pathlib import Path
from typing import Annotated

import typer

from rankwise.cli import options, screen


def demo(
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="DIR", help="The folder for the results; created if it does not exist."),
    ] = Path("results/demo"),
    force: Annotated[bool, typer.Option("--force", help="Write into a folder that holds other files as well.")] = False,
    progress: options.Progress = None,
    json: options.Json = False,
) -> None:
    """Show what rankwise does, on synthetic data.

    Generates a data set like those of web search, splits it by query, trains trees with five objectives of rankwise and
    two of LightGBM itself, and tests which ranks best, by how much, and whether that is significant. A short search as
    that of "rankwise auto" follows, with its leaderboard. A report with a query explorer, tables, values per query,
    plots, data and models go into the folder; running it again replaces them.

    [cyan]rankwise demo[/cyan]
    [cyan]rankwise demo --output /tmp/demo --json[/cyan]
    """
    from rankwise.demo.run import STEPS, demonstrate, next_commands

    with screen.progress(STEPS, progress) as bar:
        result = demonstrate(output, force=force, progress=bar.step)
    if json:
        screen.document(result.to_dict())
        return
    screen.say(f"{result.introduction()}\n")
    screen.table(result.table())
    screen.say(f"\n{result.conclusion()}\n")
    screen.say(f"{result.search.introduction()}\n")
    screen.table(result.search.leaderboard.table(), narrow=result.search.leaderboard.brief())
    screen.say(f"\n{result.beside()}\n")
    screen.say(
        f"Report: {output / 'report.html'}, for a browser: figures, the leaderboard, and every query in an explorer."
    )
    screen.say(f"Results: {output / 'results.md'}, with pictures, data and models beside it.")
    screen.say("Next:")
    for command in next_commands(result):
        screen.say(f"  {command}", wrap=False)
    screen.say("On data of your own (LETOR text, CSV or Parquet):")
    screen.say("  rankwise auto DATA --minutes 10 --output model", wrap=False)
