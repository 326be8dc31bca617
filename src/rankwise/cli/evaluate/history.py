"""The command ``history``."""

from pathlib import Path
from typing import Annotated

from rankwise.check.parameters import Option, Unset
from rankwise.cli import arguments, outputs
from rankwise.cli.options import Only
from rankwise.cli.running import Running


def history(
    comparisons: Annotated[Path, "The folder of 'rankwise compare --history'.", Option(metavar="FOLDER")],
    *,
    metric: Annotated[
        str | None, "The metric that is shown.", Unset("the first"), Option(metavar="METRIC")
    ] = None,
    output: arguments.Summary = None,
    plot: Annotated[arguments.Plot, "It shows a line per system."] = None,
    running: Annotated[Running, Only("json", "force")],
) -> None:  # fmt: skip
    """Show the comparisons of a folder over time: a line per system, with intervals.

    Values on other queries or labels are other lines. 'rankwise compare … --history FOLDER' appends a comparison.

    rankwise history nightly
    rankwise history nightly --metric ap --plot history.png
    """
    from rankwise.evaluation.history import read_history

    running.check_target(output, outputs.TABLES)
    running.check_target(plot, outputs.PICTURES)
    running.deliver(read_history(comparisons), output, plot, metric=metric)
