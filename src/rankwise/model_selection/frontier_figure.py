"""The figure of a frontier: goals against each other, with the weights that reach each point."""

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rankwise.base.arrays import Array, Keywords
from rankwise.model_selection.frontier import Frontier, shares
from rankwise.statistics.figures.drawing import BLUE, GREY, VERMILLION, canvas, light_grid
from rankwise.statistics.figures.labels import label_points

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INTERVAL: Keywords = {"alpha": 0.3, "linewidth": 1.2, "solid_capstyle": "round"}


def frontier_figure(frontier: Frontier) -> "Figure":
    """Draw every two goals against each other with intervals.

    Points of two goals are labelled with the weight of the second; of three, which have many points, the knee and the
    goals alone.
    """
    names = list(frontier.goals)
    pairs = list(combinations(range(len(names)), 2))
    with canvas(6.4 * len(pairs), 5.0) as drawing:
        panels = drawing.subplots(1, len(pairs), squeeze=False)[0]
        for panel, (x, y) in zip(panels, pairs, strict=True):
            _draw(panel, frontier, x, y, connected=len(pairs) == 1)
            panel.set_xlabel(names[x])
            panel.set_ylabel(names[y])
        handles, labels = panels[0].get_legend_handles_labels()
        weights = f"weight of {names[1]}" if len(pairs) == 1 else f"weights of {' / '.join(names)}"
        drawing.legend(
            handles, labels, loc="outside lower left", ncols=4, title=f"beside points: {weights}", alignment="left"
        )
        drawing.suptitle(
            f"{' against '.join(names)}\n{frontier.sentence}", x=0.02, ha="left", fontsize=10, fontweight="bold"
        )
        engine = drawing.get_layout_engine()
        if engine is not None:
            engine.execute(drawing)  # labels are placed where the panels are
        for panel, (x, y) in zip(panels, pairs, strict=True):
            points = frontier.means[:, [x, y]]
            best = [points[order_of(frontier, x)]] if len(pairs) == 1 else []
            arms = [arm for number in range(len(points)) for arm in _arms(frontier, number, x, y)]
            label_points(panel, points, _texts(frontier), [*best, *arms])
    return drawing


def order_of(frontier: Frontier, goal: int) -> NDArray[np.int64]:
    """Return the numbers of points that are not dominated, by the mean of a goal."""
    numbers = np.flatnonzero(~frontier.dominated)
    return numbers[np.argsort(frontier.means[numbers, goal], kind="stable")]


def _texts(frontier: Frontier) -> list[str]:
    if len(frontier.goals) == 2:
        return [shares(weights[1:]) for weights in frontier.weights]
    chosen = [max(weights) == 1.0 for weights in frontier.weights]
    chosen[frontier.knee] = True
    return [shares(weights) if shown else "" for weights, shown in zip(frontier.weights, chosen, strict=True)]


def _arms(frontier: Frontier, number: int, x: int, y: int) -> list[Array]:
    """Return the intervals of a point as two lines."""
    mean, ends = frontier.means[number], frontier.intervals[number]
    return [np.array([(end, mean[y]) for end in ends[x]]), np.array([(mean[x], end) for end in ends[y]])]


def _draw(panel: "Axes", frontier: Frontier, x: int, y: int, *, connected: bool) -> None:
    """Draw the points of two goals, each kind with its own shape and a line in the legend."""
    numbers = np.arange(len(frontier.weights))
    knee = numbers == frontier.knee
    best = ~frontier.dominated & ~knee
    if connected:
        panel.plot(*frontier.means[order_of(frontier, x)][:, [x, y]].T, color=BLUE, linewidth=1.4, zorder=2)
    kinds: tuple[tuple[str, NDArray[np.bool_], Keywords], ...] = (
        ("not dominated", best, {"marker": "o", "color": BLUE}),
        ("knee", knee, {"marker": "D", "color": VERMILLION}),
        ("dominated", frontier.dominated & ~knee, {"marker": "o", "color": GREY, "markerfacecolor": "white"}),
    )
    for name, rows, style in kinds:
        for number in numbers[rows]:
            for arm in _arms(frontier, number, x, y):
                panel.plot(*arm.T, color=style["color"], zorder=1, **_INTERVAL)
        if rows.any():
            points = frontier.means[rows]
            panel.plot(points[:, x], points[:, y], linestyle="", markersize=6.5, zorder=4, label=name, **style)
    panel.plot([], [], color=BLUE, label=f"{100 * frontier.evaluation.level:g}% interval", **_INTERVAL)
    panel.margins(0.1)
    light_grid(panel)
