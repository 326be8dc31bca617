"""Figures of training: metrics by round with bands over trials, and a loss's bound beside the metric it bounds."""

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rankwise.base.arrays import Keywords
from rankwise.statistics import FEWEST
from rankwise.wings.lab.experiments.running.store import slug
from rankwise.wings.lab.papers.claims import claims
from rankwise.wings.lab.report import figure_style
from rankwise.wings.lab.report.blocks import Plot
from rankwise.wings.lab.report.view import View, student

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_POINTS = 300  # more cannot be seen
_MOST_BANDS = 6  # more would hide the lines
_BOUND, _TRAIN, _VALID = "bound ", "train ", "valid "
_LOSS = "loss"
_LABELS = {_BOUND: "bound", _TRAIN: "training"}
_DASHES = {"bound": ":", "train": "--"}
_EARLY, _ROOM = 0.05, 0.4  # the first share of rounds is cut off where it leaves the others less than this of the axis


def learning_curves(view: View) -> list[Plot]:
    """One figure per series (loss, validation metric, …), one panel per data set."""
    return [
        _losses(view)
        if series == _LOSS
        else _curves(view, [series], f"curve-{slug(series)}", _title(series), _axis(series))
        for series in view.results.curves["series"].unique(maintain_order=True).to_list()
        if not series.startswith(_BOUND)
    ]


def both_parts(view: View) -> list[Plot]:
    """The metric on training and on validation queries in one figure: methods that a paper pairs have a panel each."""
    series = view.results.curves["series"].unique(maintain_order=True).to_list()
    plots = []
    for one in series:
        metric = one.removeprefix(_TRAIN)
        if not one.startswith(_TRAIN) or f"{_VALID}{metric}" not in series:
            continue
        shown = [f"{_VALID}{metric}", one]
        frame = curve_means(view, shown)
        panels = [(data, pair) for data in frame["data"].unique(maintain_order=True) for pair in paired_methods(view)]
        plots.append(_both(view, frame, shown, panels, metric))
    return plots


def _both(view: View, frame: pl.DataFrame, shown: list[str], panels: list[tuple[str, list[str]]], metric: str) -> Plot:
    title = f"{metric} by round, training and validation data"

    def named(data: str, pair: list[str]) -> str:
        names = [data] if len(view.datasets) > 1 or len(panels) == 1 else []
        return ", ".join([*names, *([pair[0]] if len(pair) < len(view.methods) else [])])

    def draw(drawing: "Figure") -> None:
        axes = figure_style.laid_out(drawing, [named(*one) for one in panels], "round", metric)
        for panel, (data, pair) in zip(axes, panels, strict=True):
            rows = frame.filter(pl.col("method").is_in(pair), data=data)
            _panel(panel, view, rows, shown)
        figure_style.legend(drawing, *axes, paired=True)

    return Plot(
        name=f"curve-train-and-valid-{slug(metric)}", title=title,
        caption=f"{_caption(view, frame)} Solid: validation queries. Dashed: training queries.",
        alt=f"{title}. After the last round: {_ends(frame)}.", size=figure_style.size(len(panels)), draw=draw,
        frame=frame,
    )  # fmt: skip


def paired_methods(view: View) -> list[list[str]]:
    """Pairs of methods that the paper compares, and two that are left; all together if others are, or pairs overlap."""
    published = claims(str(view.results.spec.get("published", "")))
    pairs = {frozenset((one.better, one.worse)) for one in published if {one.better, one.worse} <= set(view.methods)}
    left = set(view.methods).difference(*pairs)
    if pairs and len(left) == 2:
        pairs.add(frozenset(left))
    ordered = sorted(
        (sorted(pair, key=view.methods.index) for pair in pairs), key=lambda one: view.methods.index(one[0])
    )
    complete = sorted(name for pair in ordered for name in pair) == sorted(view.methods)
    return ordered if complete else [view.methods]


def bounds(view: View) -> list[Plot]:
    """The bound on a metric that the loss guarantees, beside the metric itself."""
    series = view.results.curves["series"].unique(maintain_order=True).to_list()
    plots = []
    for one in series:
        name = one.removeprefix(_BOUND)
        metric = next((f"{part} {name}" for part in ("test", "valid", "train") if f"{part} {name}" in series), None)
        if one.startswith(_BOUND) and metric:
            title = f"What the loss guarantees of {name}, and what is reached"
            plots.append(_curves(view, [metric, one], f"bound-{slug(name)}", title, name))
    return plots


def _losses(view: View) -> Plot:
    """The loss that each method minimises, in a panel of its own: losses of different methods do not compare."""
    frame = curve_means(view, [_LOSS])
    places = frame.select("data", "method").unique(maintain_order=True).rows()
    caption = (
        f"{_caption(view, frame)} Losses of different methods do not compare, so that each has its own axis; where "
    )
    caption += (
        "pairs are weighed by the ranking of the round, as in LambdaRank, a loss may rise while the method learns."
    )

    def draw(drawing: "Figure") -> None:
        titles = [f"{method}, {data}" if len(view.datasets) > 1 else method for data, method in places]
        for panel, (data, method) in zip(figure_style.laid_out(drawing, titles, "round"), places, strict=True):
            curve = frame.filter(data=data, method=method)
            _panel(panel, view, curve, [_LOSS])

    title = "Loss by round, mean per query"
    return Plot(
        name="curve-loss", title=title, caption=caption, alt=f"{title}. After the last round: {_ends(frame)}.",
        size=figure_style.size(len(places), 2.6, 0.1), draw=draw, frame=frame,
    )  # fmt: skip


def _caption(view: View, frame: pl.DataFrame) -> str:
    """Return the legend of lines and bands."""
    trials = int(frame["trials"].max() or 1)  # type: ignore[arg-type]
    drawn = f", bands their {view.percent} intervals" if frame["low"].is_finite().any() else "; bands would hide some"
    bands = drawn if trials >= FEWEST else ", too few for bands"
    text = f"Lines are means over {trials} trials{bands}." if trials > 1 else "One trial."
    text += " A trial that stopped early keeps its last value."
    return text + (f" Level {view.levels[0]:g} only." if len(view.levels) > 1 else "")


def _ends(frame: pl.DataFrame) -> str:
    last = frame.group_by("data", "method", "series", maintain_order=True).last()
    return "; ".join(f"{r['method']} {r['series']} {r['mean']:.4f} on {r['data']}" for r in last.iter_rows(named=True))


def _curves(view: View, series: list[str], name: str, title: str, axis: str) -> Plot:
    frame = curve_means(view, series)
    datasets = frame["data"].unique(maintain_order=True).to_list()
    many = frame["method"].n_unique() > _MOST_BANDS
    seen = frame.with_columns(low=pl.lit(float("nan")), high=pl.lit(float("nan"))) if many else frame
    caption = _caption(view, seen)
    if len(series) > 1:
        caption += f" Solid: {series[0]}. Dotted: the lower bound that the loss guarantees."
    floors = {data: floor(seen.filter(data=data)) if len(series) == 1 else None for data in datasets}
    if any(one is not None for one in floors.values()):
        caption += " The lowest values, of the first rounds, lie below the axis."

    def draw(drawing: "Figure") -> None:
        panels = figure_style.laid_out(drawing, datasets, "round", axis)
        for panel, data in zip(panels, datasets, strict=True):
            _panel(panel, view, seen.filter(data=data), series)
            if floors[data] is not None:
                panel.set_ylim(bottom=floors[data])
        figure_style.legend(drawing, panels[0])

    return Plot(
        name=name, title=title, caption=caption, alt=f"{title}. After the last round: {_ends(frame)}.",
        size=figure_style.size(len(datasets)), draw=draw, frame=frame,
    )  # fmt: skip


def _panel(panel: "Axes", view: View, frame: pl.DataFrame, series: list[str]) -> None:
    for number, method in enumerate(view.methods):
        for one in series:
            rows = frame.filter(method=method, series=one)
            if not rows.height:
                continue
            rows = rows.gather_every(max(1, rows.height // _MOST_POINTS))
            if len(series) == 1:
                figure_style.band(panel, rows, "round", number, method)
            else:
                label = next((f"{method}, {word}" for start, word in _LABELS.items() if one.startswith(start)), method)
                colour, dash = figure_style.style(number)["color"], _DASHES.get(one.partition(" ")[0], "-")
                if np.isfinite(rows["low"].to_numpy()).any():
                    panel.fill_between(rows["round"], rows["low"], rows["high"], color=colour, alpha=0.16, linewidth=0)
                look: Keywords = {"color": colour, "linestyle": dash, **figure_style.marks(number, rows.height)}
                panel.plot(rows["round"], rows["mean"], linewidth=1.5, label=label, **look)
    panel.locator_params(axis="x", integer=True)
    panel.margins(x=0.01)
    if all(" " in one for one in series) and float(frame["mean"].max()) <= 1.0:  # type: ignore[arg-type]
        figure_style.within(panel)


def floor(frame: pl.DataFrame) -> float | None:
    """Where the axis of curves begins if they start so low that nothing of what follows could be seen; else None."""
    lows = frame.with_columns(pl.col("low").fill_nan(pl.col("mean")), pl.col("high").fill_nan(pl.col("mean")))
    later = lows.filter(pl.col("round") > pl.max_horizontal(_EARLY * pl.col("round").max(), pl.col("round").min()))
    if not later.height:
        return None
    lowest, low, high = (float(x) for x in (lows["low"].min(), later["low"].min(), lows["high"].max()))  # type: ignore[arg-type]
    return low - 0.1 * (high - low) if high - low < _ROOM * (high - lowest) else None


def curve_means(view: View, series: list[str]) -> pl.DataFrame:
    """Mean and interval by round over trials, at the least level; a trial that stopped early keeps its last value."""
    curves = view.results.curves
    curves = curves.filter(pl.col("series").is_in(series), pl.col("level") == curves["level"].min())
    means = []
    for (data, method, one), rows in curves.group_by("data", "method", "series", maintain_order=True):
        wide = rows.pivot("trial", index="round", values="value", aggregate_function="last").sort("round")
        values = wide.drop("round").select(pl.all().forward_fill())
        numbers = values.fill_null(float("nan")).to_numpy()
        spread = [student(row[row == row], confidence=view.confidence) for row in numbers]
        means.append(
            pl.DataFrame(
                {
                    "data": [str(data)] * wide.height,
                    "method": [str(method)] * wide.height,
                    "series": [str(one)] * wide.height,
                    "round": wide["round"],
                    "mean": [each.mean for each in spread],
                    "low": [each.low for each in spread],
                    "high": [each.high for each in spread],
                    "trials": [each.units for each in spread],
                }
            )
        )
    return pl.concat(means)


def _title(series: str) -> str:
    part, _, metric = series.partition(" ")
    names = {"valid": "validation", "test": "test", "train": "training"}
    return f"{metric} by round, {names[part]} data" if part in names else f"{series.capitalize()} by round"


def _axis(series: str) -> str:
    part, _, metric = series.partition(" ")
    return metric if part in ("valid", "test", "train") and metric else series
