"""Figures of a comparison: sorted differences per query, and means with their intervals."""

from typing import TYPE_CHECKING

import numpy as np

from rankwise import check
from rankwise.base import tables
from rankwise.base.arrays import Keywords
from rankwise.statistics.figures.drawing import COLOURS, GREY, canvas
from rankwise.statistics.significance import RESAMPLED, wins_ties_losses
from rankwise.statistics.verdict import p_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from rankwise.statistics.comparison import Comparison

_MOST_PANELS = 12
_MEANS_BESIDE = 3  # panels of means in a row
_LONGEST = 40  # letters of a system's name beside a panel
_LONGEST_OF_PAIR = 27  # letters of each name above a panel
_MOST_BARS = 60  # more than that touch each other
_SHORT = {"fisher": "Fisher", "t": "t-test", "wilcoxon": "Wilcoxon", "corrected_t": "corrected t-test"}


def differences_figure(
    comparison: "Comparison", *, metric: str | None = None, system: str | None = None, against: str | None = None
) -> "Figure":
    """Draw the figure of :meth:`Comparison.figure`, with 12 panels at most."""
    name = comparison.metrics[0] if metric is None else check.choice("metric", metric, comparison.metrics)
    shown = chosen_pairs(comparison, name, system, against)
    with canvas(*differences_size(len(shown))) as drawing:
        draw_differences(drawing, comparison, name, shown)
    return drawing


def differences_size(pairs: int) -> tuple[float, float]:
    """Width and height, in inches, of a picture of so many pairs."""
    return (7.2, 3.6) if pairs == 1 else (10.0, 3.6 if pairs == 2 else 3.0 * -(-pairs // 2))


def draw_differences(
    drawing: "Figure",
    comparison: "Comparison",
    metric: str,
    shown: list[tuple[str, str]],
    colours: "Mapping[str, str] | None" = None,
    title: str | None = None,
) -> None:
    """Draw one panel of sorted differences for each pair (system, against), each in the colour of who is better."""
    colours = colours_of(comparison.systems) if colours is None else colours
    columns = 1 if len(shown) == 1 else 2
    rows = -(-len(shown) // columns)
    panels = drawing.subplots(rows, columns, sharey=True, squeeze=False).ravel()
    limit = 0.0
    for panel, (one, other) in zip(panels, shown, strict=False):
        limit = max(limit, _draw_pair(panel, comparison, metric, one, other, (colours[one], colours[other])))
    panels[0].set_ylim(-1.08 * (limit or 1.0), 1.08 * (limit or 1.0))  # of all panels
    for panel in panels[len(shown) :]:
        panel.remove()
    for row in range(rows):
        panels[row * columns].set_ylabel(f"difference in {title or metric}")
    panels[0].legend(loc="lower left", fontsize=8)


def chosen_pairs(
    comparison: "Comparison", metric: str, system: str | None = None, against: str | None = None
) -> list[tuple[str, str]]:
    """Return the pairs that are worth a panel each, as :meth:`Comparison.figure` says."""
    means = comparison.mean[metric]
    ranked = sorted(comparison.systems, key=lambda name: -means[name])
    for name in (system, against):
        if name is not None:
            check.choice("system", name, comparison.systems)
    if system is None and against is None and comparison.baseline is None and len(ranked) > 2:
        system = ranked[0]
    if system is not None:
        rivals = [name for name in ranked if name != system] if against is None else [against]
        return [(system, name) for name in rivals[:_MOST_PANELS]]
    against = against or comparison.baseline or comparison.systems[0]
    return [(name, against) for name in [name for name in ranked if name != against][:_MOST_PANELS]]


def _draw_pair(
    panel: "Axes", comparison: "Comparison", metric: str, system: str, against: str, colours: tuple[str, str]
) -> float:
    """Draw one panel, and return how far from 0 it has something to show: a difference, or an end of the interval."""
    values = np.sort(comparison.differences(system, against, metric))[::-1]
    n = values.size
    for sign, colour in zip((values > 0, values < 0), colours, strict=True):
        heights = np.where(sign, values, 0.0)
        if n <= _MOST_BARS:
            panel.bar(np.arange(n) + 1, heights, 0.8, color=colour, linewidth=0)
        else:
            panel.stairs(heights, np.arange(n + 1) + 0.5, fill=True, color=colour, linewidth=0)
    panel.axhline(0.0, color="#444444", linewidth=0.8)
    mean = comparison.mean[metric][system] - comparison.mean[metric][against]
    low = high = 0.0
    details = "(not tested)"
    units = {"query": "queries"}.get(comparison.paired.unit, f"{comparison.paired.unit}s")
    for pair in comparison.pairs:
        if pair.metric != metric or {pair.system, pair.against} != {system, against}:
            continue
        mean, low, high = pair.difference, pair.low, pair.high
        if pair.system == against:
            mean, low, high = -mean, -high, -low
        sure = f"{100 * comparison.level:g}% interval"
        panel.axhspan(low, high, color="black", alpha=0.18, linewidth=0, label=sure)
        adjusted = ", Holm" if comparison.correction == "holm" and len(comparison.systems) > 2 else ""
        p = p_value(pair.p_adjusted)
        details = f"{tables.interval(low, high, signed=True)}, {p} ({_SHORT[comparison.test]}{adjusted})"
    panel.axhline(mean, color="black", linewidth=1.2, linestyle="--", label="mean")
    names = " − ".join(tables.shortened(name, _LONGEST_OF_PAIR) for name in (system, against))
    panel.set_title(names, loc="left", fontweight="bold", pad=17)
    place: Keywords = {"xycoords": "axes fraction", "xytext": (0, 5), "textcoords": "offset points"}
    panel.annotate(f"mean {tables.number(mean, signed=True)} {details}", (0, 1), **place, fontsize=8.5)
    wins, ties, losses = wins_ties_losses(values)
    lines = [("better", wins, colours[0]), ("worse", losses, colours[1])] + [("equal", ties, "#555555")] * bool(ties)
    for i, (word, amount, colour) in enumerate(lines):
        text = f"{word} on {amount:,} {units} ({100 * amount / n:.0f}%)"
        style: Keywords = {"ha": "right", "va": "top", "color": colour, "fontsize": 8.5}
        blank = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
        panel.text(0.985, 0.97 - 0.09 * i, text, transform=panel.transAxes, **style, bbox=blank)
    panel.set_xlim(0.5, n + 0.5)
    panel.locator_params(axis="x", integer=True)
    panel.set_xlabel(f"{units}, sorted by difference (n = {n:,})")
    panel.grid(axis="y", color="#DDDDDD", linewidth=0.6)
    panel.set_axisbelow(True)
    return float(np.abs([*values, low, high]).max())


def means_figure(comparison: "Comparison") -> "Figure":
    """Draw the mean of each system with its interval, one panel per metric, the best system of the first metric on top.

    The raised letters are those of the table: the systems that this one is significantly better than.
    """
    with canvas(*means_size(comparison)) as drawing:
        draw_means(drawing, comparison)
    return drawing


def means_size(comparison: "Comparison") -> tuple[float, float]:
    """Width and height, in inches, of the picture of a comparison's means."""
    rows, columns = _grid(comparison)
    return 2.0 + 3.0 * columns, rows * (1.3 + 0.3 * len(comparison.systems))


def _grid(comparison: "Comparison") -> tuple[int, int]:
    columns = min(len(comparison.metrics), _MEANS_BESIDE)
    return -(-len(comparison.metrics) // columns), columns


def draw_means(
    drawing: "Figure",
    comparison: "Comparison",
    colours: "Mapping[str, str] | None" = None,
    titles: "Mapping[str, str] | None" = None,
) -> None:
    """Draw what :func:`means_figure` says; ``titles`` name the metrics."""
    metrics, systems = comparison.metrics, comparison.systems
    colours = colours_of(systems) if colours is None else colours
    ranked = sorted(systems, key=lambda name: comparison.mean[metrics[0]][name])
    cells = {row[1]: row[2:] for row in comparison.table().rows}
    short = dict(zip(systems, comparison.labels, strict=True))
    panels = drawing.subplots(*_grid(comparison), sharey=True, squeeze=False, gridspec_kw={"hspace": 0.08}).ravel()
    for panel in panels[len(metrics) :]:
        panel.remove()
    for j, (panel, metric) in enumerate(zip(panels, metrics, strict=False)):
        means = comparison.mean[metric]
        best = max(means.values())
        for y, name in enumerate(ranked):
            low, high = comparison.interval[metric][name]
            top = means[name] == best
            colour = colours[name]
            panel.plot([low, high], [y, y], "|-", color=colour, linewidth=1.8, markersize=7, markeredgewidth=1.4)
            panel.plot(means[name], y, "D" if top else "o", color=colour, markersize=4.5)
            cell = cells[name][j]
            marks = rf"$^{{\mathrm{{{cell.marks}}}}}$" if isinstance(cell, tables.TableCell) and cell.marks else ""
            place = {"xycoords": panel.get_yaxis_transform(), "xytext": (4, 0), "textcoords": "offset points"}
            style = {"va": "center", "fontsize": 8, "fontweight": "bold" if top else "normal"}
            text = tables.number(means[name]) + marks
            panel.annotate(text, (1, y), **place, **style, annotation_clip=False)
        panel.axvline(best, color=GREY, linewidth=0.8, linestyle=":", zorder=0)
        panel.set_title((titles or {}).get(metric, metric), loc="left", fontweight="bold")
        panel.set_xlabel(_of_means(comparison), fontsize=8)
        panel.grid(axis="x", color="#DDDDDD", linewidth=0.6)
        panel.set_axisbelow(True)
        panel.margins(x=0.05)
        panel.tick_params(axis="y", length=0)
    named = [f"{tables.shortened(name, _LONGEST)}  ({short[name]})" for name in ranked]
    panels[0].set_yticks(range(len(ranked)), named)
    panels[0].set_ylim(-0.6, len(ranked) - 0.4)


def colours_of(systems: "Sequence[str]") -> dict[str, str]:
    """A colour for each system by its place; they repeat where there are more systems than colours."""
    return {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(systems)}


def _of_means(comparison: "Comparison") -> str:
    """Return the legend of what is drawn for each system."""
    ends = [end for one in comparison.interval.values() for both in one.values() for end in both]
    if np.isnan(ends).all():
        return f"mean over {tables.count(comparison.paired.ids.size, comparison.paired.unit)}"
    unit = "resampled queries" if comparison.paired.ids.size >= RESAMPLED else "queries"
    unit = unit if comparison.paired.unit == "query" else "trials"
    levels = [evaluation.level for evaluation in comparison.paired.evaluations.values()]
    return f"mean, {100 * (levels or [comparison.level])[0]:g}% interval over {unit}"
