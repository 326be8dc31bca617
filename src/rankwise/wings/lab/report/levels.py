"""The figure of noise: a metric by the level of noise in training, and below it the difference between methods."""

from typing import TYPE_CHECKING

import polars as pl

from rankwise.wings.lab.report import figure_style
from rankwise.wings.lab.report.blocks import Plot
from rankwise.wings.lab.report.view import View

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Treatment -> title, axis, and whether a level is a share that is shown in percent.
_TREATMENTS = {
    "negatives": ("More documents without relevance", "added negatives, % of a query's documents", True),
    "flips": ("Labels that are wrong", "labels drawn anew, %", True),
    "clicks": ("Clicks instead of labels", "click probability of a document that is not relevant", False),
    "negative_ratio": ("More negatives for each relevant item", "negatives per relevant item", False),
    "negative_ratio_in_training": ("More negatives in training", "negatives per relevant item, in training", False),
}


def noise_curves(view: View) -> list[Plot]:
    """One figure with a column per data set: means by level above, paired differences below."""
    if not view.by_level:
        return []
    treatment = str(view.results.spec.get("treatment", "none"))
    title, axis, percent = _TREATMENTS.get(treatment, ("By level", "level", False))
    frame = level_means(view)
    datasets = [name for name in view.datasets if frame.filter(pl.col("data") == name)["level"].n_unique() > 1]
    if not datasets:
        return []
    pairs = ", ".join(f"{name} − {against}" for name, against in view.pairs.items())
    caption = f"Above: mean {view.main} on test data. Below: the paired difference, {pairs}. "
    caption += view.bands(datasets[0]) + view.shared
    falls = _falls(view, frame, datasets)

    def draw(drawing: "Figure") -> None:
        panels = drawing.subplots(2, len(datasets), squeeze=False, sharex="col", sharey="row", height_ratios=[1.6, 1.0])
        for column, data in enumerate(datasets):
            upper, lower = panels[:, column]
            rows = frame.filter(pl.col("data") == data)
            _draw(upper, view, rows.filter(pl.col("against").is_null()), percent)
            lower.axhline(0.0, color="#444444", linewidth=0.8)
            _draw(lower, view, rows.filter(pl.col("against").is_not_null()), percent)
            figure_style.heading(upper, data)
            lower.set_xlabel(axis)
        if float(frame["mean"].max()) <= 1.0:  # type: ignore[arg-type]
            figure_style.within(panels[0, 0])  # after all are drawn: limits that are set would cut the others off
        panels[0, 0].set_ylabel(view.main)
        panels[1, 0].set_ylabel("difference")
        figure_style.legend(drawing, panels[0, 0])

    wide = 7.2 if len(datasets) == 1 else 4.6 * len(datasets)
    return [
        Plot(
            name="levels", title=title, caption=caption, alt=f"{title}: {view.main} by {axis}. {falls}",
            size=(wide, 4.6), draw=draw, frame=frame,
        )
    ]  # fmt: skip


def _draw(panel: "Axes", view: View, rows: pl.DataFrame, percent: bool) -> None:
    if percent:
        rows = rows.with_columns(pl.col("level") * 100.0)
    for number, method in enumerate(view.methods):
        curve = rows.filter(pl.col("method") == method)
        if curve.height:
            figure_style.band(panel, curve, "level", number, method, marked=True)
    figure_style.light_grid(panel)


def level_means(view: View) -> pl.DataFrame:
    """Data, level, method, against (null for a mean, a name for a difference), mean, low and high."""
    rows = []
    for data in view.datasets:
        levels = view.results.queries.filter(pl.col("data") == data)["level"].unique().sort().to_list()
        for level in levels:
            names = view.present(data, level)
            pairs = [(name, None) for name in names]
            pairs += [(name, other) for name, other in view.pairs.items() if name in names and other in names]  # type: ignore[misc]
            for name, other in pairs:
                mean = view.mean(data, level, name, view.main, other)
                rows.append((data, level, name, other, mean.mean, mean.low, mean.high, mean.units))
    names = ["data", "level", "method", "against", "mean", "low", "high", "units"]
    return pl.DataFrame(rows, schema=names, schema_overrides={"against": pl.String}, orient="row")


def _falls(view: View, frame: pl.DataFrame, datasets: list[str]) -> str:
    """Return the values of each method at the first and the last level, as text."""
    texts = []
    for data in datasets:
        for method in view.methods:
            rows = frame.filter(pl.col("data") == data, pl.col("method") == method, pl.col("against").is_null())
            if rows.height:
                texts.append(f"{method} on {data} goes from {rows['mean'][0]:.4f} to {rows['mean'][-1]:.4f}")
    return "; ".join(texts) + "."
