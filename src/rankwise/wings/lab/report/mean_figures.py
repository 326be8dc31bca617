"""Figures of means: by the level of noise in training with the differences below, and by the cutoff of NDCG."""

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rankwise.base.arrays import offsets_of
from rankwise.metrics import metric
from rankwise.wings.lab.report import figure_style
from rankwise.wings.lab.report.blocks import Plot
from rankwise.wings.lab.report.view import Mean, View, student

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
    datasets = [name for name in view.datasets if frame.filter(data=name)["level"].n_unique() > 1]
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
            rows = frame.filter(data=data)
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
        curve = rows.filter(method=method)
        if curve.height:
            figure_style.band(panel, curve, "level", number, method, marked=True)
    figure_style.light_grid(panel)


def level_means(view: View) -> pl.DataFrame:
    """Data, level, method, against (null for a mean, a name for a difference), mean, low and high."""
    rows = []
    for data in view.datasets:
        levels = view.results.queries.filter(data=data)["level"].unique().sort().to_list()
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
            rows = frame.filter(pl.col("against").is_null(), data=data, method=method)
            if rows.height:
                texts.append(f"{method} on {data} goes from {rows['mean'][0]:.4f} to {rows['mean'][-1]:.4f}")
    return "; ".join(texts) + "."


_ENOUGH = 4  # cutoffs among the metrics that make a curve; with fewer, the documents' scores are evaluated anew
_DEEPEST = 20


def by_cutoff(view: View) -> list[Plot]:
    """NDCG@k by k, one panel per data set, one figure per group of methods that are held against each other."""
    frame, source = cutoff_means(view)
    if not frame.height:
        return []
    plots = []
    groups = {against: [against, *names] for against, names in view.groups.items()} or {"": view.methods}
    datasets = frame["data"].unique(maintain_order=True).to_list()
    for number, names in enumerate(groups.values()):
        rows = frame.filter(pl.col("method").is_in(names))

        def draw(drawing: "Figure", rows: pl.DataFrame = rows) -> None:
            panels = figure_style.laid_out(drawing, datasets, "k, the depth to which a ranking is read", "ndcg@k")
            for panel, data in zip(panels, datasets, strict=True):
                for place, method in enumerate(view.methods):
                    curve = rows.filter(data=data, method=method)
                    if curve.height:
                        figure_style.band(panel, curve, "k", place, method)
                panel.locator_params(axis="x", integer=True)
                figure_style.within(panel)
            figure_style.legend(drawing, panels[0])

        ends = rows.group_by("data", "method", maintain_order=True).agg(pl.first("mean"), pl.last("mean").alias("end"))
        alt = "; ".join(f"{r[1]} on {r[0]} from {r[2]:.4f} to {r[3]:.4f}" for r in ends.iter_rows())
        plots.append(
            Plot(
                name=f"cutoffs-{number + 1}" if len(groups) > 1 else "cutoffs",
                title="How deep does the reader look?",
                caption=f"Mean NDCG of the first k documents, {source}",
                alt=f"NDCG at k by k: {alt}.",
                size=figure_style.size(len(datasets)),
                draw=draw,
                frame=rows,
            )
        )
    return plots


def cutoff_means(view: View) -> tuple[pl.DataFrame, str]:
    """Data, method, k, mean, low, high; and in words where they come from: the metrics, or the documents' scores."""
    cutoffs = sorted({k for name in view.query_metrics if (k := _cutoff(name))})
    rows: list[tuple[str, str, int, Mean]] = []
    if len(cutoffs) >= _ENOUGH:
        for data in view.datasets:
            for method in view.present(data):
                level = view.base(data)
                rows += [(data, method, k, view.mean(data, level, method, f"ndcg@{k}")) for k in cutoffs]
        source = f"all trials. {view.bands(view.datasets[0])}"
    else:
        for (data, method), documents in view.results.documents.group_by("data", "method", maintain_order=True):
            rows += [(str(data), str(method), k, one) for k, one in _evaluated(documents, view.confidence)]
        source = f"first trial. Bands are {view.percent} intervals over queries."
    frame = pl.DataFrame(
        [(data, method, k, one.mean, one.low, one.high) for data, method, k, one in rows],
        schema=["data", "method", "k", "mean", "low", "high"],
        orient="row",
    )
    return frame, source


def _cutoff(name: str) -> int | None:
    """The cutoff of a plain NDCG, and nothing of other metrics."""
    word, at, depth = name.partition("@")
    return int(depth) if word == "ndcg" and at and depth.isdigit() else None


def _evaluated(rows: pl.DataFrame, confidence: float) -> list[tuple[int, Mean]]:
    """Evaluate one method's documents for k = 1, 2, …; rows of a query must lie together."""
    rows = rows.sort("query", "document")
    sizes = rows["query"].rle().struct.field("len").to_numpy()
    offsets = offsets_of(sizes)
    scores, labels = rows["score"].to_numpy(), rows["label"].to_numpy()
    means = []
    for k in range(1, min(_DEEPEST, int(sizes.max(initial=1))) + 1):
        values = metric(f"ndcg@{k}")(scores, labels, offsets)
        means.append((k, student(values[~np.isnan(values)], confidence=confidence)))
    return means
