"""Learning curves: a metric by round, with the best round of each ranker marked."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from rankwise.base import tables
from rankwise.base.arrays import Keywords
from rankwise.statistics.figures.drawing import COLOURS, DASHES, figure, light_grid

_LEAST_GAP = 0.05  # of the height of the picture, between names at the end of curves


def plot_curves(
    curves: Mapping[str, Sequence[float]], path: str | Path, *, metric: str, title: str = "", force: bool = False
) -> Path:
    """Draw one curve per ranker, from its ``history_``; a diamond marks the round that is kept.

    The names stand beside the ends of the curves, the best value first.
    """
    best = {name: int(np.argmax(values)) for name, values in curves.items()}
    ranked = sorted(curves, key=lambda name: -curves[name][best[name]])
    with figure(path, 9.2, 4.6, force=force) as drawing:
        panel = drawing.subplots()
        low, high = _limits(curves)
        longest = max(map(len, curves.values()))
        ends = _spread([curves[name][best[name]] for name in ranked], low, high)
        for i, name in enumerate(ranked):
            colour, dash = COLOURS[i % len(COLOURS)], DASHES[i % len(DASHES)]
            values, round_ = curves[name], best[name]
            panel.plot(np.arange(1, len(values) + 1), values, color=colour, linestyle=dash, linewidth=1.5)
            panel.plot(round_ + 1, values[round_], "D", color=colour, markersize=7, markeredgecolor="white", zorder=4)
            if len(curves) == 1:  # the best value over its mark
                text, share = f"{tables.number(values[round_])} after round {round_ + 1}", (round_ + 1) / longest
                side = "right" if share > 0.7 else "left" if share < 0.3 else "center"
                style: Keywords = {"textcoords": "offset points", "ha": side, "color": colour, "fontweight": "bold"}
                panel.annotate(text, (round_ + 1, values[round_]), xytext=(0, 9), **style)
                title = title or name
            else:  # a name beside the picture, after a piece of its line
                along = panel.get_yaxis_transform()
                panel.plot([1.015, 1.055], [ends[i]] * 2, color=colour, linestyle=dash, transform=along, clip_on=False)
                text = f"{tables.number(values[round_])}  {name}, round {round_ + 1}"
                panel.text(1.065, ends[i], text, transform=along, va="center", color=colour, fontsize=8.5)
        panel.set_ylim(low, high)
        panel.set_xlim(0, longest * 1.02)
        panel.locator_params(axis="x", integer=True)
        panel.set_xlabel("round")
        panel.set_ylabel(f"{metric}, validation")
        if title:
            panel.set_title(title, loc="left", fontsize=12, fontweight="bold")
        light_grid(panel)
    return Path(path)


def _limits(curves: Mapping[str, Sequence[float]]) -> tuple[float, float]:
    """From a little below where the curves spend their time to a little above the best; first rounds may lie below."""
    values = np.concatenate([np.asarray(column, np.float64) for column in curves.values()])
    best, usual = float(values.max()), float(np.quantile(values, 0.03))
    room = best - usual or 0.01 * max(abs(best), 1e-6)
    return usual - 0.05 * room, best + 0.12 * room


def _spread(heights: Sequence[float], low: float, high: float) -> list[float]:
    """Move names, sorted from high to low, apart from each other until they can be read, inside the picture."""
    gap = _LEAST_GAP * (high - low)
    places = list(heights)
    for i in range(1, len(places)):
        places[i] = min(places[i], places[i - 1] - gap)
    floor = low + 0.5 * gap
    for i in range(len(places) - 1, -1, -1):
        places[i] = max(places[i], floor)
        floor = places[i] + gap
    return places
