"""The picture of the demonstration: how good each ranker is, between a random order and the best possible."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise.arrays import Keywords
from rankwise.demo.rankers import BUILT_IN, OURS
from rankwise.demo.result import HEADLINE, Demonstration
from rankwise.statistics import tables
from rankwise.statistics.figures.comparisons import BLUE, GREY, VERMILLION, figure
from rankwise.statistics.verdict import p_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GREEN = "#009E73"


def draw(result: Demonstration, path: Path) -> Path:
    """Draw the headline metric of each ranker with its interval, and how far it is behind the best."""
    upwards = result.ranked[::-1]
    floor, ceiling = result.floor.mean[HEADLINE], result.ceiling.mean[HEADLINE]
    with figure(path, 10.2, 1.5 + 0.42 * len(upwards), force=True) as drawing:
        panel = drawing.subplots()
        _limit(panel, floor, "random order", "left")
        _limit(panel, ceiling, "best possible", "right")
        for y, name in enumerate(upwards):
            _ranker(panel, result, name, y)
        panel.set_yticks(range(len(upwards)), upwards, fontsize=10)
        for text, name in zip(panel.get_yticklabels(), upwards, strict=True):
            text.set_color(_colour(name))
            text.set_fontweight("bold" if name == result.ranked[0] else "normal")
        panel.tick_params(axis="y", length=0)
        panel.spines["left"].set_visible(False)
        panel.set_ylim(-0.6, len(upwards) - 0.4)
        panel.set_xlim(floor - 0.02 * (ceiling - floor), ceiling + 0.02 * (ceiling - floor))
        n, confidence = result.floor.scored[HEADLINE], 100 * result.floor.confidence
        panel.set_xlabel(f"{HEADLINE}: mean and {confidence:g}% interval over {n} test queries")
        beside: Keywords = {"xycoords": "axes fraction", "annotation_clip": False, "fontsize": 9}
        _say(panel, "behind the best", (1, 1), (10, 9), **beside, color="#555555")
        panel.grid(axis="x", color="#E4E4E4", linewidth=0.6)
        panel.set_axisbelow(True)
        panel.set_title(result.headline, loc="left", fontsize=13, fontweight="bold", pad=24)
        _legend(panel)
    return path


def _colour(name: str) -> str:
    return BLUE if name in OURS else GREEN if name in BUILT_IN else "#555555"


def _ranker(panel: "Axes", result: Demonstration, name: str, y: int) -> None:
    mean, (low, high) = result.comparison.mean[HEADLINE][name], result.comparison.interval[HEADLINE][name]
    floor, colour, best = result.floor.mean[HEADLINE], _colour(name), result.ranked[0]
    panel.barh(y, mean - floor, 0.62, floor, color=colour, alpha=0.16)
    panel.plot([low, high], [y, y], color=colour, linewidth=2.6, solid_capstyle="butt")
    marker = "D" if name in OURS else "s" if name in BUILT_IN else "o"
    panel.plot(mean, y, marker, color=colour, markersize=8, markeredgecolor="white")
    _say(panel, f"{mean:.3f}", (high, y), (6, 0), color=colour, fontsize=10, fontweight="bold")
    if name != best:
        gain = result.gain(best, name)
        sure = gain.p < result.comparison.alpha
        text = f"{tables.number(-gain.difference, 3, signed=True)}   {p_value(gain.p)}"
        beside: Keywords = {"xycoords": panel.get_yaxis_transform(), "annotation_clip": False, "fontsize": 9}
        _say(panel, text, (1.0, y), (10, 0), **beside, color=VERMILLION if sure else GREY)


def _limit(panel: "Axes", place: float, name: str, side: str) -> None:
    panel.axvline(place, color=GREY, linewidth=1.2, linestyle="--", zorder=1)
    panel.annotate(
        f"{name} {place:.3f}", (place, 1.0), xycoords=("data", "axes fraction"), xytext=(0, 4),
        textcoords="offset points", ha=side, va="bottom", color="#555555", fontsize=9,
    )  # fmt: skip


def _legend(panel: "Axes") -> None:
    """Say what the marks mean: colour and shape."""
    for colour, marker, text in (
        (BLUE, "D", "objectives of rankwise"),
        (GREEN, "s", "objectives of LightGBM itself"),
        ("#555555", "o", "without trees"),
    ):
        panel.plot([], [], marker, color=colour, label=text)
    panel.legend(loc="lower right", bbox_to_anchor=(0.985, 0.0), fontsize=8.5, frameon=True, edgecolor="none")


def _say(panel: "Axes", text: str, place: tuple[float, float], shift: tuple[int, int], **style: Any) -> None:
    panel.annotate(text, place, xytext=shift, textcoords="offset points", va="center", **style)
