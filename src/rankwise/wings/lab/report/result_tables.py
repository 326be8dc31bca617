"""Tables of a report: means with tests and published figures, every pair, means by level, and what the paper says."""

import math

import polars as pl

from rankwise import Comparison
from rankwise.statistics import draw_means, means_size
from rankwise.wings.lab.experiments.running.store import slug
from rankwise.wings.lab.experiments.summary import levels_table, means_table, verdict_table
from rankwise.wings.lab.experiments.verdicts import verdicts
from rankwise.wings.lab.report.blocks import Plot, Tabled
from rankwise.wings.lab.report.mean_figures import level_means
from rankwise.wings.lab.report.view import View


def comparison_parts(view: View, data: str, level: float, comparison: Comparison | None) -> list[Tabled | Plot]:
    """The table of means with marks, the picture of it, and the table of all pairs."""
    name, title = slug(data), data
    if len(view.tabled_levels(data)) > 1:
        name, title = f"{name}-{slug(f'{level:g}')}", f"{data}, {view.level_name(level)}"
    frame = mean_frame(view, data, level)
    blocks: list[Tabled | Plot] = [
        Tabled(
            name=f"comparison-{name}", title=title, caption="The best of each column is bold.",
            table=means_table(view.results, data, level), frame=frame,
        )
    ]  # fmt: skip
    if comparison is None:
        return blocks
    best = {metric: max(values, key=lambda one: values[one]) for metric, values in comparison.mean.items()}
    alt = "; ".join(f"{metric}: {system} {comparison.mean[metric][system]:.4f}" for metric, system in best.items())
    few = all(math.isnan(low) for low, _ in comparison.interval[view.main].values())
    caption = (
        f"Means{'' if few else f' with their {view.percent} intervals'}, the best on top; letters as in the table. "
    )
    caption += (
        f"{comparison.paired.ids.size} trials are too few for intervals."
        if few
        else "Intervals of single methods may overlap where paired tests tell them apart."
    )
    return [
        *blocks,
        Plot(
            name=f"means-{name}", title=f"Means on {title}", caption=caption, size=means_size(comparison),
            alt=f"Means with intervals on {title}. Best by {alt}.",
            draw=lambda drawing: draw_means(drawing, comparison, view.colours), frame=frame,
        ),
        Tabled(
            name=f"pairs-{name}", title=f"Every pair on {title}",
            caption="A positive difference: the method is better than the one it is held against.",
            table=comparison.pairs_table(), frame=comparison.to_frame(),
        ),
    ]  # fmt: skip


def mean_frame(view: View, data: str, level: float) -> pl.DataFrame:
    """Method, metric, mean with its interval, and what the paper published."""
    rows = [
        (data, level, method, metric, *view.mean(data, level, method, metric)[:3])
        for method in view.present(data, level)
        for metric in view.metrics
    ]
    keys = ["data", "level", "method", "metric"]
    frame = pl.DataFrame(rows, schema=[*keys, "mean", "low", "high"], orient="row")
    published = view.results.published.select(*keys, published="value", source="source")
    return frame.join(published, on=keys, how="left", maintain_order="left")


def level_tables(view: View) -> list[Tabled]:
    """Means by level of noise, one table per data set."""
    if not view.by_level:
        return []
    frame = level_means(view)
    return [
        Tabled(
            name=f"levels-{slug(data)}", title=f"{view.main} by level, {data}", caption="",
            table=levels_table(view.results, data), frame=frame.filter(data=data),
        )
        for data in view.datasets
    ]  # fmt: skip


def agreement(view: View) -> list[Tabled]:
    """The paper's claims beside what was found here, and whether they hold."""
    table = verdict_table(view.results)
    if table is None:
        return []
    frame = pl.DataFrame(verdicts(view.results), infer_schema_length=None)
    frame = frame.with_columns(
        pl.col("levels", "rounds").cast(pl.List(pl.String)).list.join(" ")
    )  # for files of plain columns
    caption = (
        "What the paper says of two methods, and what was found here. Data sets of the paper are held against the "
        "claim about themselves, others against every claim. Agrees and disagrees: that is sure."
    )
    return [Tabled(name="agreement", title="Claim by claim", caption=caption, table=table, frame=frame)]
