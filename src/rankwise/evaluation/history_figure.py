"""The figure of a history: a line per system over time, with intervals."""

from typing import TYPE_CHECKING

import numpy as np

from rankwise.statistics.figures.drawing import COLOURS, DASHES, canvas, light_grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from rankwise.evaluation.history import History

_MARKS = "osD^vP*X"
_MOST_TICKS = 8
_APART = 0.12  # of the distance between comparisons, between intervals of two systems


def history_figure(history: "History", metric: str | None) -> "Figure":
    """Draw the figure of :meth:`History.figure`: comparisons stand at even distances, whatever the time between."""
    lines = history.lines(metric)
    points = [one for line in lines.values() for one in line]
    times = sorted({one.time for one in points})
    systems = list(dict.fromkeys(one.system for one in points))
    shown = list(dict.fromkeys(data for _, data in lines))
    with canvas(max(6.0, min(12.0, 3.0 + 0.5 * len(times))), 3.6) as drawing:
        panel = drawing.subplots()
        for (system, data), line in lines.items():
            number, which = systems.index(system), shown.index(data)
            shift = (number - 0.5 * (len(systems) - 1)) * min(_APART, 0.6 / len(systems))
            places = [times.index(one.time) + shift for one in line]
            means = np.array([one.mean for one in line])
            ends = np.array([[one.mean - one.low, one.high - one.mean] for one in line]).T
            colour, dash = COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]
            panel.errorbar(
                places, means, np.nan_to_num(np.maximum(ends, 0.0)), color=colour, linewidth=1.4, linestyle=dash,
                elinewidth=0.8, capsize=2, marker=_MARKS[which % len(_MARKS)], markersize=5, markeredgecolor="white",
                label=system if len(shown) == 1 else f"{system}, data {history.data[data]}",
            )  # fmt: skip
        step = -(-len(times) // _MOST_TICKS)
        days = len({f"{one:%Y-%m-%d}" for one in times}) == len(times)
        ticks = range(0, len(times), step)
        panel.set_xticks(ticks, [f"{times[place]:{'%Y-%m-%d' if days else '%m-%d %H:%M'}}" for place in ticks])
        panel.tick_params(axis="x", labelsize=8)
        panel.set_ylabel(points[0].metric)
        panel.set_xlabel("compared (UTC)")
        light_grid(panel)
        panel.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
    return drawing
