"""Figures of single queries: differences, distributions of values, one method against another, gains by relevance."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankwise import Comparison, compare
from rankwise.statistics import GREY, chosen_pairs, differences_size, draw_differences, wins_ties_losses
from rankwise.wings.lab.experiments.running.store import slug
from rankwise.wings.lab.report import figure_style
from rankwise.wings.lab.report.blocks import Plot
from rankwise.wings.lab.report.view import View

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MANY = 1500  # points that are drawn as pixels rather than as shapes
_GRID = 60  # places at which a smooth curve is computed
_MOST_PAIRS = 6
_Draw = Callable[["Axes", View, str, str, str], None]


def differences(view: View, comparisons: Mapping[str, Comparison]) -> list[Plot]:
    """One figure per data set: the difference between paired methods on every query, sorted."""
    plots = []
    for data, tested in comparisons.items():
        by_query = tested if tested.paired.unit == "query" else _untested(view, data)
        shown = [(one, other) for one, other in view.pairs.items() if {one, other} <= set(by_query.systems)]
        shown = (shown or chosen_pairs(by_query, view.main))[:_MOST_PAIRS]
        if not all(by_query.differences(*one, view.main).size > 1 for one in shown):
            continue
        frame = _side_by_side(view, [(data, *one) for one in shown]).drop("data")
        alt = "; ".join(
            f"{one} is better than {other} on {wins}, equal on {ties} and worse on {losses} of {wins + ties + losses} "
            "queries"
            for one, other in shown
            for wins, ties, losses in [wins_ties_losses(by_query.differences(one, other, view.main))]
        )
        caption = (
            "Every query is a bar in the colour of who is better, sorted by difference; the dashed line is the mean."
        )
        if tested.paired.unit == "trial":
            caption += " A query that several trials tested counts once, with its mean; the test is that of the table."

        def draw(drawing: "Figure", by_query: Comparison = by_query, shown: list[tuple[str, str]] = shown) -> None:
            draw_differences(drawing, by_query, view.main, shown, view.colours)

        plots.append(
            Plot(
                name=f"differences-{slug(data)}", title=f"Query by query, {data}", caption=caption,
                alt=f"{alt}.", size=differences_size(len(shown)), draw=draw, frame=frame,
            )
        )  # fmt: skip
    return plots


def _untested(view: View, data: str) -> Comparison:
    """The values by query side by side; tests belong to the trials."""
    level = view.base(data)
    evaluations = {name: view.evaluation(data, level, name) for name in view.present(data, level)}
    common = set.intersection(*(set(evaluation.query_ids.tolist()) for evaluation in evaluations.values()))
    if any(len(common) < evaluation.query_ids.size for evaluation in evaluations.values()):
        evaluations = {name: view.evaluation(data, level, name, common) for name in evaluations}
    return replace(compare(evaluations, test="t", level=view.confidence), pairs=())


def distributions(view: View) -> list[Plot]:
    """The share of queries that reach no more than a value, for a method and the one it is held against."""
    return _by_group(
        view,
        "distributions",
        "How values are spread over queries",
        f"The share of queries whose {view.main} is at most x: the lower a line, the better. Shaded where the method "
        "has fewer queries below x than the one it is held against.",
        _draw_distributions,
    )


def scatters(view: View) -> list[Plot]:
    """One point per query: the value of a method against that of the one it is held against."""
    return _by_group(
        view,
        "scatter",
        "Which queries gain",
        f"One point per query: {view.main} of the method against that of the one it is held against. Points above the "
        "line are better.",
        _draw_scatter,
        square=True,
    )


def gains(view: View) -> list[Plot]:
    """The difference on each query by its number of relevant documents."""
    return _by_group(
        view,
        "gains",
        "Who gains: by number of relevant documents",
        f"One point per query: the difference in {view.main} by its number of relevant documents, with a "
        f"kernel-smoothed mean and its pointwise {view.percent} band.",
        _draw_gains,
    )


def _by_group(view: View, name: str, title: str, caption: str, draw_one: _Draw, *, square: bool = False) -> list[Plot]:
    """One figure for each method that others are held against; a panel for each of them and each data set."""
    groups = []
    columns = len(view.datasets) if len(view.datasets) in (2, 3, 4) else 0  # a row for each method
    for number, (against, methods) in enumerate(view.groups.items()):
        places = [
            place
            for place in _places(view, against, methods[:_MOST_PAIRS])
            if view.paired(place[1], place[0], against).height
        ]
        if not places:
            continue
        frame = _side_by_side(view, [(data, method, against) for method, data in places])

        def draw(drawing: "Figure", places: list[tuple[str, str]] = places, against: str = against) -> None:
            titles = [f"{method}" + (f", {data}" if len(view.datasets) > 1 else "") for method, data in places]
            panels = figure_style.laid_out(drawing, titles, columns=columns, sharex=True, sharey=True)
            wide = figure_style.shape(len(places), columns)[1]
            for place, (panel, (method, data)) in enumerate(zip(panels, places, strict=True)):
                draw_one(panel, view, data, method, against)
                if place % wide:
                    panel.set_ylabel("")

        groups.append(
            Plot(
                name=f"{name}-{number + 1}" if len(view.groups) > 1 else name,
                title=f"{title}: against {against}",
                caption=caption,
                alt=f"{title}. {_said(view, places, against)}",
                size=figure_style.size(len(places), 3.6 if square else 2.9, 0.1, columns),
                draw=draw,
                frame=frame,
            )
        )
    return groups


def _side_by_side(view: View, places: list[tuple[str, str, str]]) -> pl.DataFrame:
    """The values of two methods on every query, by data set, method and the one that it is held against."""
    return pl.concat(
        [
            view.paired(data, method, against).select(
                pl.lit(data).alias("data"), pl.lit(method).alias("method"), pl.lit(against).alias("against"), pl.all()
            )
            for data, method, against in places
        ]
    )


def _places(view: View, against: str, methods: list[str]) -> Iterator[tuple[str, str]]:
    for method in methods:
        for data in view.datasets:
            if {method, against} <= set(view.present(data, view.base(data))):
                yield method, data


def _said(view: View, places: list[tuple[str, str]], against: str) -> str:
    texts = []
    for method, data in places:
        both = view.paired(data, method, against)
        middle, other = np.median(both["value"].to_numpy()), np.median(both["other"].to_numpy())
        texts.append(f"Median {view.main} on {data}: {method} {middle:.3f}, {against} {other:.3f}")
    return "; ".join(texts) + "."


def _draw_distributions(panel: "Axes", view: View, data: str, method: str, against: str) -> None:
    both = view.paired(data, method, against)
    values, other_values = np.sort(both["value"].to_numpy()), np.sort(both["other"].to_numpy())
    x = np.unique(np.concatenate((values, other_values)))
    if x.size > 400:
        x = np.quantile(x, np.linspace(0.0, 1.0, 400))
    share = np.searchsorted(values, x, side="right") / values.size
    other = np.searchsorted(other_values, x, side="right") / other_values.size
    panel.fill_between(x, share, other, where=share < other, step="post", color="#8C8C8C", alpha=0.35, linewidth=0)
    for values_up_to, name in ((other, against), (share, method)):
        panel.step(
            x, values_up_to, where="post", linewidth=1.4, label=name, **figure_style.style(view.methods.index(name))
        )
    panel.set_xlabel(f"{view.main} of a query")
    panel.set_ylabel("share of queries up to x")
    panel.legend(loc="upper left", fontsize=8)


def _draw_scatter(panel: "Axes", view: View, data: str, method: str, against: str) -> None:
    both = view.paired(data, method, against)
    x, y = both["other"].to_numpy(), both["value"].to_numpy()
    _points(panel, x, y, view.colours[method])
    lowest = float(min(x.min(), y.min()))  # not 0, which may be far from every point
    panel.axline((lowest, lowest), slope=1.0, color="#444444", linewidth=0.8)
    correlation = np.corrcoef(x, y)[0, 1] if x.size > 1 and x.std() * y.std() > 0 else np.nan
    note = f"n = {x.size:,}" + (f", r = {correlation:.2f}" if np.isfinite(correlation) else "")
    panel.annotate(note, (0.97, 0.04), xycoords="axes fraction", ha="right", fontsize=8, color="#555555")
    panel.set_xlabel(f"{view.main} of {against}")
    panel.set_ylabel(f"{view.main} of the method")


def _draw_gains(panel: "Axes", view: View, data: str, method: str, against: str) -> None:
    both = view.paired(data, method, against)
    x, y = both["relevant"].to_numpy().astype(np.float64), both["difference"].to_numpy()
    _points(panel, x, y, view.colours[method])
    panel.axhline(0.0, color="#444444", linewidth=0.8)
    if np.unique(x).size > 2:
        places, mean, half = smoothed(x, y, view.confidence)
        panel.fill_between(places, mean - half, mean + half, color=GREY, alpha=0.3, linewidth=0)
        panel.plot(places, mean, color="#262626", linewidth=1.8)
    panel.set_xlabel("relevant documents of a query")
    panel.set_ylabel(f"difference in {view.main}")
    panel.locator_params(axis="x", integer=True)


def _points(panel: "Axes", x: NDArray[np.float64], y: NDArray[np.float64], colour: str) -> None:
    many = x.size > _MANY
    panel.plot(x, y, "o", color=colour, markersize=2.2 if many else 3.5, alpha=0.3 if many else 0.6,
               markeredgewidth=0, rasterized=many)  # fmt: skip


def smoothed(
    x: NDArray[np.float64], y: NDArray[np.float64], confidence: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """A mean of ``y`` that glides along ``x``, weighted by a Gaussian kernel, and half the width of its band.

    The kernel is somewhat wider than Silverman's rule says, and at least half a document; the ends are left out.

    >>> places, mean, half = smoothed(np.array([0.0, 1.0, 2.0, 3.0]), np.full(4, 0.25))
    >>> mean.round(12).min(), mean.max().round(12), half.max().round(12)
    (np.float64(0.25), np.float64(0.25), np.float64(0.0))
    """
    from scipy.special import ndtri

    quarter = np.subtract(*np.percentile(x, [75, 25])) / 1.349
    spread = min(x.std(), quarter) if quarter > 0 else x.std()
    wide = max(1.5 * spread * x.size**-0.2, 0.5)
    places = np.linspace(np.quantile(x, 0.01), np.quantile(x, 0.98), _GRID)
    weights = np.exp(-0.5 * ((places[:, None] - x[None, :]) / wide) ** 2)
    weights /= weights.sum(axis=1, keepdims=True)
    mean = weights @ y
    error = np.sqrt((weights**2 * (y[None, :] - mean[:, None]) ** 2).sum(axis=1))
    return places, mean, float(ndtri(0.5 + confidence / 2.0)) * error
