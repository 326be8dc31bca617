"""The figure of a metric by its cutoff: NDCG@k for every k that a reader may look at."""

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rankwise.base.arrays import offsets_of
from rankwise.metrics import metric
from rankwise.wings.lab.report import figure_style
from rankwise.wings.lab.report.blocks import Plot
from rankwise.wings.lab.report.view import Mean, View, student

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
            panels = figure_style.laid_out(drawing, len(datasets))
            for panel, data in zip(panels, datasets, strict=True):
                for place, method in enumerate(view.methods):
                    curve = rows.filter(pl.col("data") == data, pl.col("method") == method)
                    if curve.height:
                        figure_style.band(panel, curve, "k", place, method)
                panel.set_xlabel("k, the depth to which a ranking is read")
                panel.set_ylabel("ndcg@k")
                panel.locator_params(axis="x", integer=True)
                figure_style.within(panel)
                figure_style.heading(panel, data)
                figure_style.light_grid(panel)
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
