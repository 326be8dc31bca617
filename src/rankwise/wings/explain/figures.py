"""Pictures of explanations: what features add to the scores of documents, and the steps from one score to another."""

import textwrap
from typing import TYPE_CHECKING

from rankwise import check
from rankwise.base import tables
from rankwise.base.arrays import Keywords
from rankwise.statistics import BLUE, GREY, VERMILLION, canvas
from rankwise.wings.explain.breakdown import digits_for, other_features, shortened_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from rankwise.wings.explain.breakdown import Breakdown
    from rankwise.wings.explain.explanation import Explanation

_ROW = 0.27  # inches of height for a bar
_MOST_PANELS = 8
_LONGEST = 32  # letters of a name beside a bar


def documents_figure(why: "Explanation", *, top: int) -> "Figure":
    """Draw a panel of bars for each document: the features that add most to it, and all others in one bar."""
    parts = why.breakdowns()
    if len(parts) > _MOST_PANELS:
        raise check.error(f"a figure holds {_MOST_PANELS} documents at most", got=len(parts), hint="name fewer of them")
    bars = max(len(part.steps(top)[0]) for part in parts) + 1
    across = 1 if len(parts) == 1 else 2
    down = -(-len(parts) // across)
    with canvas(5.6 * across, 0.4 + down * (1.0 + _ROW * bars)) as drawing:
        panels = drawing.subplots(down, across, sharex=True, squeeze=False).ravel()
        for row, (panel, part) in enumerate(zip(panels, parts, strict=False)):
            names, amounts = _steps(part, top)
            digits = digits_for(part.contributions)
            for y, amount in enumerate(amounts):
                panel.barh(y, amount, 0.72, color=BLUE if amount > 0 else VERMILLION, linewidth=0)
                _write(panel, max(amount, 0.0), y, tables.number(amount, digits, signed=True))
            panel.axvline(0.0, color="#444444", linewidth=0.8)
            _lay_out(panel, names)
            document = tables.shortened(str(why.documents[row]), _LONGEST)
            panel.set_title(f"rank {why.ranks[row]}: document {document}", loc="left", fontweight="bold", pad=17)
            facts = ", ".join([*why.label(row), f"score {tables.number(part.end)}"])
            panel.annotate(facts, (0, 1), (0, 5), "axes fraction", textcoords="offset points", fontsize=8.5)
        for panel in panels[len(parts) :]:
            panel.remove()
        start = f"{why.start_name} ({tables.number(why.start)})"
        _head(drawing, f"Query {why.query}: what features add to the scores of documents, from the {start}")
    return drawing


def waterfall_figure(part: "Breakdown", *, top: int) -> "Figure":
    """Draw every step from the start to the end, each from where the one before it came to."""
    names, amounts = _steps(part, top)
    with canvas(8.6, 1.3 + _ROW * (len(names) + 2)) as drawing:
        panel = drawing.subplots()
        digits = digits_for(part.contributions)
        rows = range(1, len(names) + 1)
        at = part.start
        for y, amount in zip(rows, amounts, strict=True):
            panel.barh(y, amount, 0.72, left=at, color=BLUE if amount > 0 else VERMILLION, linewidth=0)
            below = y + (1.36 if y < len(names) else 1.0)  # to the end of the next bar, or to the mark of the end
            panel.plot([at + amount] * 2, [y - 0.36, below], color="#777777", linewidth=0.7)
            _write(panel, max(at, at + amount), y, tables.number(amount, digits, signed=True))
            at += amount
        for y, value in ((0, part.start), (len(names) + 1, part.end)):
            panel.plot(value, y, "D", color="#222222", markersize=5)
            _write(panel, value, y, tables.number(value, digits), bold=True)
        panel.plot([part.start] * 2, [0, 0.64], color="#777777", linewidth=0.7)
        _lay_out(panel, [part.start_name, *names, part.end_name])
        _head(drawing, part.title[:1].upper() + part.title[1:])
        panel.set_xlabel("score")
    return drawing


def _steps(part: "Breakdown", top: int) -> tuple[list[str], list[float]]:
    """Names with values, and what they add; the others last."""
    shown, rest = part.steps(top)
    columns = list(part.values.values())
    names = []
    for j in shown:
        values = " against ".join(shortened_value(column[j]) for column in columns)
        names.append(f"{tables.shortened(part.features[j], _LONGEST)} = {values}")
    rest_names = other_features(len(part.features) - len(shown))
    return names + rest_names, [float(part.contributions[j]) for j in shown] + [rest] * len(rest_names)


def _lay_out(panel: "Axes", names: list[str]) -> None:
    panel.set_yticks(range(len(names)), names, fontsize=8)
    panel.set_ylim(len(names) - 0.4, -0.6)
    panel.tick_params(axis="y", length=0)
    panel.grid(axis="x", color="#DDDDDD", linewidth=0.6)
    panel.set_axisbelow(True)
    panel.tick_params(axis="x", labelbottom=True)
    panel.use_sticky_edges = False  # bars would end where the numbers beside them begin
    panel.margins(x=0.14)
    panel.spines["left"].set_color(GREY)


def _head(drawing: "Figure", text: str) -> None:
    drawing.suptitle(textwrap.fill(text, 100), x=0.01, ha="left", fontsize=10, fontweight="bold")


def _write(panel: "Axes", x: float, y: float, text: str, *, bold: bool = False) -> None:
    style: Keywords = {"va": "center", "fontsize": 8, "fontweight": "bold" if bold else "normal"}
    panel.annotate(text, (x, y), xytext=(5, 0), textcoords="offset points", **style)
