"""The picture of the demonstration: how good each ranker is, between a random order and the best possible."""

from pathlib import Path

from rankwise.arrays import Keywords
from rankwise.demo.result import BUILT_IN, HEADLINE, OURS, Demonstration
from rankwise.statistics import tables
from rankwise.statistics.figures.comparisons import BLUE, GREY, VERMILLION, figure
from rankwise.statistics.verdict import gain, p_value

GREEN, DARK = "#009E73", "#555555"
_KINDS = {
    "objectives of rankwise": (BLUE, "D"),
    "objectives of LightGBM itself": (GREEN, "s"),
    "without trees": (DARK, "o"),
}


def draw(result: Demonstration, path: Path) -> None:
    """Draw the headline metric of each ranker with its interval, and how far it is behind the best."""
    upwards = result.verdict.ranked[::-1]
    best, comparison = upwards[-1], result.comparison
    floor, ceiling = result.floor.mean[HEADLINE], result.ceiling.mean[HEADLINE]
    with figure(path, 10.2, 1.5 + 0.42 * len(upwards), force=True) as drawing:
        panel = drawing.subplots()
        points: Keywords = {"textcoords": "offset points", "annotation_clip": False, "fontsize": 9}
        beside: Keywords = {"xycoords": panel.get_yaxis_transform(), "xytext": (10, 0), "va": "center", **points}
        for place, name, side in ((floor, "random order", "left"), (ceiling, "best possible", "right")):
            panel.axvline(place, color=GREY, linewidth=1.2, linestyle="--", zorder=1)
            above: Keywords = {
                "xycoords": ("data", "axes fraction"),
                "xytext": (0, 4),
                "ha": side,
                "va": "bottom",
                **points,
            }
            panel.annotate(f"{name} {place:.3f}", (place, 1.0), color=DARK, **above)
        panel.set_yticks(range(len(upwards)), upwards, fontsize=10)
        for y, (name, label) in enumerate(zip(upwards, panel.get_yticklabels(), strict=True)):
            mean, (low, high) = comparison.mean[HEADLINE][name], comparison.interval[HEADLINE][name]
            kinds = list(_KINDS.values())
            colour, marker = kinds[0] if name in OURS else kinds[1] if name in BUILT_IN else kinds[2]
            label.set(color=colour, fontweight="bold" if name == best else "normal")
            panel.barh(y, mean - floor, 0.62, floor, color=colour, alpha=0.16)
            panel.plot([low, high], [y, y], color=colour, linewidth=2.6, solid_capstyle="butt")
            panel.plot(mean, y, marker, color=colour, markersize=8, markeredgecolor="white")
            value: Keywords = {**points, "xytext": (6, 0), "va": "center", "fontsize": 10, "fontweight": "bold"}
            panel.annotate(f"{mean:.3f}", (high, y), color=colour, **value)
            if name != best:
                behind = gain(comparison, HEADLINE, best, name)
                text = f"{tables.number(-behind.difference, 3, signed=True)}   {p_value(behind.p)}"
                panel.annotate(text, (1, y), color=VERMILLION if behind.p < comparison.alpha else GREY, **beside)
        panel.annotate("behind the best", (1, len(upwards) - 0.1), color=DARK, **beside)
        panel.tick_params(axis="y", length=0)
        panel.spines["left"].set_visible(False)
        panel.set_ylim(-0.6, len(upwards) - 0.4)
        margin = 0.02 * (ceiling - floor)
        panel.set_xlim(floor - margin, ceiling + margin)
        n, confidence = result.floor.scored[HEADLINE], 100 * result.floor.confidence
        panel.set_xlabel(f"{HEADLINE}: mean and {confidence:g}% interval over {n} test queries")
        panel.grid(axis="x", color="#E4E4E4", linewidth=0.6)
        panel.set_axisbelow(True)
        panel.set_title(result.verdict.headline(), loc="left", fontsize=13, fontweight="bold", pad=24)
        for text, (colour, marker) in _KINDS.items():
            panel.plot([], [], marker, color=colour, label=text)
        panel.legend(loc="lower right", bbox_to_anchor=(0.985, 0.0), fontsize=8.5, frameon=True, edgecolor="none")
