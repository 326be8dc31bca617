"""The page of a search for a ranker: what was taken and why, the leaderboard, and a figure of it."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise.base import tables
from rankwise.statistics import BLUE, GREY, VERMILLION
from rankwise.wings.lab.report import html
from rankwise.wings.lab.report.blocks import Plot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from rankwise import Evaluation
    from rankwise.results import Leaderboard

_CAPTION = (
    "The mean of the metric on queries that no member had seen, with its 95% interval; grey is not trained to its end. "
    "Intervals say little about differences, which are paired by query: whether one is ahead, the table says."
)


def write_leaderboard(
    leaderboard: "Leaderboard", path: str | Path, *, tested: "Evaluation | None" = None, force: bool = False
) -> Path:
    """Write the page of a search, one HTML file that needs no network; ``tested`` adds what test data say."""
    board, drawing = _parts(leaderboard)
    sections = [
        ("found", "What was taken", f'<div class="lead">{html.paragraphs(leaderboard.table().notes)}</div>'),
        ("leaderboard", "Leaderboard", board),
        ("figure", "Recipes beside each other", drawing),
    ]
    if tested is not None:
        sections.append(("test", "On test data", _tested(tested)))
    return html.write_page(
        path,
        title=f"{leaderboard.chosen.recipe} was taken, of {tables.count(leaderboard.tried, 'recipe')}",
        kicker="A ranker within a time",
        sections=sections,
        force=force,
    )


def section(leaderboard: "Leaderboard", tested: "Evaluation") -> tuple[str, str, str]:
    """Return the leaderboard as a section of another page: name, title and content."""
    board, drawing = _parts(leaderboard)
    words = html.paragraphs(leaderboard.table().notes)
    return "search", "A ranker within a time", "\n".join([words, board, drawing, _tested(tested)])


def _parts(leaderboard: "Leaderboard") -> tuple[str, str]:
    """The table and the figure."""
    table = leaderboard.table()
    measured = [entry for entry in leaderboard.entries if not math.isnan(entry.mean)]
    words = f"Leaderboard: {'; '.join(f'{one.recipe} {tables.number(one.mean)}' for one in measured)}."
    board = tables.Table(header=table.header, rows=table.rows, align=table.align)
    plot = Plot(
        name="recipe-means", title="How good each recipe is", caption=_CAPTION, alt=words,
        size=(7.2, 0.9 + 0.3 * len(measured)), frame=leaderboard.to_frame(),
        draw=lambda drawing: draw_means(drawing, leaderboard.metric, measured),
    )  # fmt: skip
    return (
        html.table("recipes", "Recipes, the best first", _COLUMNS, board.html()),
        html.figure(plot),
    )


def _tested(tested: "Evaluation") -> str:
    caption = "Of the ranker that was taken, on queries by which nothing was chosen."
    return html.table("tested", "Test data", caption, tested.table().html())


_COLUMNS = (
    "The arrow marks what was taken. Differences to a bag of the default are paired by query, with Student's 95% "
    "interval, not corrected for how many recipes there are; weight is the share in the average of all kinds."
)


def draw_means(drawing: "Figure", metric: str, entries: list[Any]) -> None:
    """Draw means with their intervals, the best at the top; what was taken is filled and named."""
    axes = drawing.subplots()
    for place, entry in enumerate(entries):
        colour = VERMILLION if entry.chosen else BLUE if entry.state == "complete" else GREY
        axes.plot([entry.low, entry.high], [place, place], color=colour, linewidth=1.5)
        axes.plot([entry.mean], [place], "o", color=colour, markersize=6, fillstyle="full" if entry.chosen else "none")
        if entry.chosen:
            axes.annotate("taken", (entry.high, place), (5, 0), textcoords="offset points", va="center", color=colour)
    axes.set_yticks(range(len(entries)), [entry.recipe for entry in entries])
    axes.set_ylim(len(entries) - 0.5, -0.5)
    axes.set_xlabel(f"{metric}, out of fold")
    axes.grid(axis="x", color="#e4e4e4")
    axes.set_axisbelow(True)
