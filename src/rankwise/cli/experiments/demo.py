"""The command ``demo``."""

from pathlib import Path
from typing import Annotated

from rankwise.cli import console, options
from rankwise.cli.options import flag, option


def demo(
    output: Annotated[
        Path, option("The folder for the results; created if it does not exist.", "DIR", "--output", "-o")
    ] = Path("results/demo"),
    force: Annotated[bool, flag("Write into a folder that holds other files as well.", "--force")] = False,
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
    from rankwise.demo.run import STEPS, demonstrate

    with console.progress(STEPS, progress) as bar:
        result = demonstrate(output, force=force, progress=bar.step)
    if json:
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
