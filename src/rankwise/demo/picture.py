"""The picture of the demonstration: how good each ranker is, between a random order and the best possible."""

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise.demo.result import HEADLINE, Demonstration
from rankwise.evaluation.plots import BLUE, GREY, VERMILLION, figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(result: Demonstration, path: Path) -> Path:
    """Draw the headline metric of each ranker with its interval, and what each gains over the next."""
    upwards = result.ranked[::-1]
    floor, ceiling = result.floor.mean[HEADLINE], result.ceiling.mean[HEADLINE]
    with figure(path, 8.6, 1.5 + 0.8 * len(upwards), force=True) as drawing:
        panel = drawing.subplots()
        _limit(panel, floor, "random order", 1)
        _limit(panel, ceiling, "best possible", -1)
        for y, name in enumerate(upwards):
            _ranker(panel, result, name, y)
        for y, (worse, better) in enumerate(pairwise(upwards)):
            text = f"▲ {result.gain(better, worse)}"
            _say(panel, text, (floor, y + 0.5), (8, 0), color="#444444", fontsize=8.5, backgroundcolor="white")
        panel.set_yticks(range(len(upwards)), [name.replace(" (", "\n(") for name in upwards], fontsize=10)
        panel.tick_params(axis="y", length=0)
        panel.spines["left"].set_visible(False)
        panel.set_ylim(-0.5, len(upwards) - 0.55)
        panel.set_xlim(floor - 0.03 * (ceiling - floor), ceiling + 0.03 * (ceiling - floor))
        n, confidence = result.floor.scored[HEADLINE], 100 * result.floor.confidence
        panel.set_xlabel(f"{HEADLINE}: mean and {confidence:g}% interval over {n} test queries")
        panel.grid(axis="x", color="#E4E4E4", linewidth=0.6)
        panel.set_axisbelow(True)
        panel.set_title(f"{result.ranked[0]} ranks best", loc="left", fontsize=13, fontweight="bold", pad=24)
    return path


def _ranker(panel: "Axes", result: Demonstration, name: str, y: int) -> None:
    mean, (low, high) = result.comparison.mean[HEADLINE][name], result.comparison.interval[HEADLINE][name]
    best = name == result.ranked[0]
    colour = VERMILLION if best else BLUE
    panel.barh(y, mean - result.floor.mean[HEADLINE], 0.36, result.floor.mean[HEADLINE], color=colour, alpha=0.18)
    panel.plot([low, high], [y, y], color=colour, linewidth=3.0, solid_capstyle="butt")
    panel.plot(mean, y, "D" if best else "o", color=colour, markersize=9, markeredgecolor="white")
    _say(panel, f"{mean:.3f}", (high, y), (7, 0), color=colour, fontsize=11, fontweight="bold")


def _limit(panel: "Axes", place: float, name: str, side: int) -> None:
    panel.axvline(place, color=GREY, linewidth=1.2, linestyle="--", zorder=1)
    text, align = f"{name} {place:.3f}", "left" if side > 0 else "right"
    panel.annotate(
        text, (place, 1.0), xycoords=("data", "axes fraction"), xytext=(0, 4), textcoords="offset points", ha=align,
        va="bottom", color="#555555", fontsize=9,
    )  # fmt: skip


def _say(panel: "Axes", text: str, place: tuple[float, float], shift: tuple[int, int], **style: Any) -> None:
    panel.annotate(text, place, xytext=shift, textcoords="offset points", va="center", **style)
