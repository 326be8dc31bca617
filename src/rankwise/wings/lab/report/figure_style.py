"""How lines, bands and panels look in every figure of a report."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise.base.arrays import Keywords
from rankwise.statistics import COLOURS, DASHES
from rankwise.statistics import light_grid as light_grid

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKERS = "oDs^vP*"
_SHADES = ("#000000", "#555555", "#8C8C8C")
MOST_COLUMNS = 3
_LEGEND = 8.5  # points
_KEY = 5.5  # the line of a name in a legend and the gaps around it, times its size


def style(number: int) -> Keywords:
    """The colour and the dashes of a method by its number: no two of the first 44 look the same without colour too."""
    return {"color": COLOURS[number % len(COLOURS)], "linestyle": DASHES[number % len(DASHES)]}


def marks(number: int, points: int) -> Keywords:
    """A few marks along a line, by the number of its method: where dashes mean something else, and without colour."""
    apart = max(1, points // 8)
    every = (min(number % 4 * apart // 4, points - 1), apart)
    return {"marker": _MARKERS[number % len(_MARKERS)], "markersize": 4, "markevery": every}


def neutral(number: int) -> Keywords:
    """A shade and the dashes of a line that is no method: colours are those of methods, and mean nothing else."""
    return {"color": _SHADES[number % len(_SHADES)], "linestyle": DASHES[number % len(DASHES)]}


def band(panel: "Axes", rows: "pl.DataFrame", x: str, number: int, label: str, *, marked: bool = False) -> None:
    """Draw the column ``mean`` by the column ``x``, with a band from ``low`` to ``high``."""
    look = style(number)
    marks: Keywords = (
        {"marker": _MARKERS[number % len(_MARKERS)], "markersize": 5, "markeredgecolor": "white"} if marked else {}
    )
    places, mean, low, high = (rows[column].to_numpy() for column in (x, "mean", "low", "high"))
    if np.isfinite(low).any():
        panel.fill_between(places, low, high, color=look["color"], alpha=0.16, linewidth=0)
    panel.plot(places, mean, linewidth=1.5, label=label, **look, **marks)


def within(panel: "Axes") -> None:
    """Keep the axis of a metric to values that it can have; an interval of few trials may reach beyond them."""
    low, high = panel.get_ylim()
    panel.set_ylim(max(low, -0.02), min(high, 1.02))


def legend(drawing: "Figure", *panels: "Axes", paired: bool = False) -> None:
    """One legend for all panels, above them, of the lines in those that are passed; pairs of lines stand together."""
    lines = {name: line for panel in panels for line, name in zip(*panel.get_legend_handles_labels(), strict=True)}
    if len(lines) > 1:
        columns = legend_columns(list(lines), 72.0 * drawing.get_figwidth(), paired=paired)
        drawing.legend(lines.values(), lines, loc="outside upper left", ncols=columns, fontsize=_LEGEND)


def legend_columns(names: Sequence[str], width: float, *, paired: bool = False) -> int:
    """As many columns of a legend as fit beside each other in so many points; names fill one column after another."""
    from matplotlib.textpath import TextPath

    lengths = [TextPath((0, 0), name, size=_LEGEND).get_extents().width + _KEY * _LEGEND for name in names]
    for columns in range(min(len(names), 4), 1, -1):
        short, longer = divmod(len(names), columns)
        if paired and (longer or short < 2):
            continue
        ends = np.cumsum([short + (column < longer) for column in range(columns)])
        if sum(max(lengths[start:end]) for start, end in zip([0, *ends[:-1]], ends, strict=True)) <= width:
            return columns
    return 1


def heading(panel: "Axes", text: str) -> None:
    """Name a panel."""
    panel.set_title(text, loc="left", fontweight="bold")


def shape(panels: int, columns: int = 0) -> tuple[int, int]:
    """Rows and columns for so many panels; as many columns as asked for, or as fit beside each other."""
    columns = columns or min(panels, MOST_COLUMNS)
    return -(-panels // columns), columns


def laid_out(
    drawing: "Figure", titles: Sequence[str], x: str = "", y: str = "", columns: int = 0, **options: Any
) -> "list[Axes]":
    """Panels with titles, a grid, names of their axes and numbers below each; those that are too many are removed."""
    rows, columns = shape(len(titles), columns)
    axes = list(drawing.subplots(rows, columns, squeeze=False, **options).ravel())
    for panel in axes[len(titles) :]:
        panel.remove()
    for panel, title in zip(axes, titles, strict=False):
        panel.tick_params(labelbottom=True)
        panel.set_xlabel(x)
        panel.set_ylabel(y)
        heading(panel, title)
        light_grid(panel)
    return axes[: len(titles)]


def size(panels: int, height: float = 3.0, extra: float = 0.5, columns: int = 0) -> tuple[float, float]:
    """Width and height of a figure with so many panels, in inches; a legend needs the extra height."""
    rows, columns = shape(panels, columns)
    return {1: 7.2, 2: 9.8}.get(columns, 3.9 * columns), rows * height + extra
