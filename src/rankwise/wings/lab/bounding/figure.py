"""Figures that need no training: what a list's orderings can reach, expect and how they are spread (Westerborg 2022).

An instance (N, P) has N documents, P of them relevant; its negative sampling ratio is (N − P)/P.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankwise import objective
from rankwise.base.arrays import Array, Json
from rankwise.wings.lab.bounding.bounded import bounded, metric_orderings
from rankwise.wings.lab.bounding.distributions import Distribution, distribution
from rankwise.wings.lab.bounding.orderings import LINEAR, Orderings
from rankwise.wings.lab.report import figure_style
from rankwise.wings.lab.report.blocks import Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

METRICS = {"nDCG": "approx_ndcg", "AP": "smooth_ap", "nRBP": "smooth_rbp"}
_SAME_RATIO = ((15, 5), (30, 10), (75, 25))
_RATIOS = ((20, 10), (30, 10), (40, 10))
_GAINS = (1, 4, 16, 64)
_FAVOURS = (1, 3, 10, 30)
_DRAWS = 20_000  # orderings that are drawn where they are too many to be listed
_POINTS = 80


class Instance(NamedTuple):
    """How many documents there are, and how many of them are relevant."""

    documents: int
    relevant: int

    def labels(self, copies: int = 1) -> tuple[Array, NDArray[np.int64]]:
        """Labels and offsets of so many lists of this kind."""
        one = np.repeat([1.0, 0.0], [self.relevant, self.documents - self.relevant])
        return np.tile(one, copies), np.arange(copies + 1, dtype=np.int64) * self.documents

    def orderings(self, metric: str) -> Orderings:
        """The list as a metric sees it, whatever its order."""
        return metric_orderings(objective(METRICS[metric]), *self.labels())

    def losses(self, metric: str) -> Array:
        """Losses from the best ordering to the worst; metrics are negated."""
        least, _, most = (float(value[0]) for value in self.orderings(metric).extremes())
        return np.linspace(least, most, _POINTS) if metric == "nRBP" else np.linspace(-most, -least, _POINTS)

    def distribution(self, metric: str, favour: float = 1.0) -> Distribution:
        """The distribution of a metric over the orderings of the list."""
        seen = self.orderings(metric)
        discounts = seen.discounts if seen.kind == LINEAR else np.empty(0)
        return distribution(seen.kind, seen.gains, discounts, orderings=_DRAWS, favour=favour)

    def __str__(self) -> str:
        return f"N = {self.documents}, P = {self.relevant}"


def belong(spec: Json) -> bool:
    """Whether these figures explain something in the experiment: a method that is bounded, or they are asked for.

    >>> belong({"methods": {"a": "neural(bounded(approx_ndcg))"}}), belong({"methods": {"a": "lightgbm(xendcg)"}})
    (True, False)
    """
    texts = (spec.get("methods") or {}).values()
    return "orderings" in (spec.get("figures") or ()) or any("bounded(" in str(text) for text in texts)


def without_training() -> list[Plot]:
    """Every figure of chapter 3, figure 1.1, and what section 6.2 is about."""
    methods = {
        "min_max": "by least and largest value",
        "expectation": "by expectation",
        "expectation_max": "by expectation and largest value",
        "distribution": "by distribution",
    }
    maps = [_bounding(method, words) for method, words in methods.items()]
    return [_lower_bounds(), _expectations(), *maps[:3], _smoothing(), _functions(), maps[3], _favoured()]


def _lower_bounds() -> Plot:
    sizes = (25, 50, 100, 200)
    rows = []
    for metric in ("nDCG", "AP"):
        for n in sizes:
            for p in range(1, n + 1):
                least = Instance(n, p).orderings(metric).extremes().least[0]
                rows.append((metric, f"N = {n}", p / n, float(least)))
    frame = _frame(rows, "share of relevant documents", "least value")
    return _plot(
        "orderings-least", "The worst ordering is not worth nothing",
        "The least value that any ordering of N documents can have, by the share of relevant ones: lists that are half "
        "relevant cannot do badly. (Figure 1.1 of the thesis.)",
        frame, "share of relevant documents", "least value of the metric",
    )  # fmt: skip


def _expectations() -> Plot:
    rows = []
    for metric in METRICS:
        for ratio in (1, 2, 3):
            for p in range(1, 41):
                seen = Instance(p * (1 + ratio), p).orderings(metric).extremes()
                mean = float(seen.mean[0])
                rows.append((metric, f"ratio {ratio}", float(p), mean if metric == "nRBP" else -mean))
    return _plot(
        "orderings-expected", "What a random order can expect",
        "The mean loss over all orderings by the number of relevant documents, with 1, 2 or 3 others for each of them. "
        "nDCG and AP are negated; nRBP counts pairs in the wrong order. (Figure 3.2.)",
        _frame(rows, "relevant documents", "expected loss"), "relevant documents", "expected loss", free=True,
    )  # fmt: skip


def _bounding(method: str, words: str) -> Plot:
    """The bounded loss by the plain one: lists of one ratio above, of one number of relevant documents below."""
    rows = []
    for kind, instances in (("same ratio", _SAME_RATIO), ("ratios 1, 2, 3", _RATIOS)):
        for metric, name in METRICS.items():
            wrapper = bounded(objective(name), method=method, gain="thesis", orderings=_DRAWS)
            for one in map(Instance._make, instances):
                losses = one.losses(metric)
                mapped = wrapper.mapped(losses, *one.labels(losses.size))
                rows += [(f"{metric}, {kind}", str(one), x, y) for x, y in zip(losses, mapped, strict=True)]
    figure = {"min_max": "3.1", "expectation": "3.3", "expectation_max": "3.4", "distribution": "3.7"}[method]
    return _plot(
        f"orderings-{method.replace('_', '-')}", f"Bounding {words}",
        "The bounded loss by the plain one, from the best ordering (left) to the worst. Above: lists with two other "
        f"documents for each relevant one. Below: ten relevant documents, with ratios of 1 to 3. (Figure {figure}.)",
        _frame(rows, "loss", "bounded loss"), "loss", "bounded loss", free=True,
    )  # fmt: skip


def _smoothing() -> Plot:
    rows = []
    for one in (Instance(8, 4), Instance(15, 5)):
        for metric in METRICS:
            distribution = one.distribution(metric)
            x = np.linspace(distribution.values[0], distribution.values[-1], 2 * _POINTS)
            panel = f"{metric}, {one}"
            share = np.cumsum(distribution.chances)[np.searchsorted(distribution.values, x, side="right") - 1]
            rows += [(panel, "exact", a, b) for a, b in zip(x, share, strict=True)]
            for gain in _GAINS:
                rows += [(panel, f"gain {gain}", a, b) for a, b in zip(x, _smooth(distribution, x, gain), strict=True)]
    return _plot(
        "orderings-gains", "A distribution, and sigmoids instead of steps",
        "The share of orderings that do no better than x, and what is left of it when steps become sigmoids of a given "
        "gain: a small gain is smooth but wrong, and which gain is right depends on the list. (Figure 3.5.)",
        _frame(rows, "value", "share"), "value of the metric", "share of orderings up to x", free=True,
    )  # fmt: skip


def _functions() -> Plot:
    rows = []
    for kind, instances in (("same ratio", _SAME_RATIO), ("ratios 1, 2, 3", _RATIOS)):
        for metric in METRICS:
            for one in map(Instance._make, instances):
                distribution = one.distribution(metric)
                x = np.linspace(distribution.values[0], distribution.values[-1], _POINTS)
                share = _smooth(
                    distribution, x, distribution.different / (distribution.values[-1] - distribution.values[0])
                )
                rows += [(f"{metric}, {kind}", str(one), a, b) for a, b in zip(x, share, strict=True)]
    return _plot(
        "orderings-distributions", "How orderings are spread",
        "The smoothed share of orderings that do no better than x, for lists of one ratio (above) and of ten relevant "
        f"documents (below). Exact where there are at most {_DRAWS:,} orderings, and for nRBP; drawn otherwise. "
        "(Figure 3.6.)",
        _frame(rows, "value", "share"), "value of the metric", "share of orderings up to x", free=True,
    )  # fmt: skip


def _favoured() -> Plot:
    rows = []
    for metric in METRICS:
        one = Instance(75, 25)
        for favour in _FAVOURS:
            distribution = one.distribution(metric, favour)
            share = np.cumsum(distribution.chances)
            step = max(1, share.size // (4 * _POINTS))
            pairs = zip(distribution.values[::step], share[::step], strict=True)
            rows += [(f"{metric}, {one}", f"favour {favour}", x, y) for x, y in pairs]
    return _plot(
        "orderings-favoured", "Orderings that favour relevant documents",
        "The share of orderings that do no better than x, where a relevant document is 1, 3, 10 or 30 times likelier "
        f"to come next than another one. {_DRAWS:,} orderings are drawn; that of nRBP with favour 1 is exact. "
        "nRBP counts pairs in the wrong order, fewer are better. (What section 6.2 proposes.)",
        _frame(rows, "value", "share"), "value of the metric", "share of orderings up to x", free=True,
    )  # fmt: skip


def _smooth(distribution: Distribution, x: Array, gain: float) -> Array:
    from scipy.special import expit

    share: Array = expit(gain * (x[:, None] - distribution.values[None, :])) @ distribution.chances
    return share


def _frame(rows: list[tuple[str, str, float, float]], x: str, y: str) -> pl.DataFrame:
    return pl.DataFrame(
        rows, schema={"panel": pl.String, "line": pl.String, x: pl.Float64, y: pl.Float64}, orient="row"
    )


def _plot(name: str, title: str, caption: str, frame: pl.DataFrame, x: str, y: str, *, free: bool = False) -> Plot:
    """Draw one panel for each ``panel`` of the frame and one line for each ``line``, in the order of the frame."""
    names = frame["panel"].unique(maintain_order=True).to_list()

    def draw(drawing: "Figure") -> None:
        panels = figure_style.laid_out(drawing, names, x, y, sharey=not free)
        for panel, one in zip(panels, names, strict=True):
            _lines(panel, frame.filter(panel=one))

    ends = frame.group_by("panel", "line", maintain_order=True).last()
    alt = "; ".join(f"{r[0]}, {r[1]} ends at {r[3]:.3g}" for r in ends.iter_rows())
    return Plot(
        name=name, title=title, caption=caption, alt=f"{title}: {y} by {x}. {alt}.",
        size=figure_style.size(len(names), 2.7, 0.1), draw=draw, frame=frame,
    )  # fmt: skip


def _lines(panel: "Axes", rows: pl.DataFrame) -> None:
    for number, (name, curve) in enumerate(rows.partition_by("line", maintain_order=True, as_dict=True).items()):
        columns = curve.to_numpy()[:, 2:].astype(np.float64).T
        panel.plot(*columns, linewidth=1.4, label=name[0], **figure_style.neutral(number))
    panel.legend(fontsize=7.5)
