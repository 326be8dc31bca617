"""Figures of position bias."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rankwise.statistics import tables
from rankwise.statistics.figures.comparisons import BLUE, COLOURS, DASHES, GREY, VERMILLION, figure

if TYPE_CHECKING:
    from rankwise.clicks.bias import Bias


def plot_bias(bias: "Bias", path: str | Path, *, force: bool = False) -> Path:
    """Draw alpha by position with its interval; beta, segments and the curve without trust where there are any."""
    positions = np.arange(1, bias.n_positions + 1)
    with figure(path, 7.2, 4.0, force=force) as drawing:
        panel = drawing.subplots()
        curves = [("alpha", bias.alpha, bias.alpha_low, bias.alpha_high, BLUE, "-")]
        if bias.beta.any():
            curves.append(("beta", bias.beta, bias.beta_low, bias.beta_high, VERMILLION, DASHES[1]))
        for name, curve, low, high, colour, dash in curves:
            panel.fill_between(positions, low, high, color=colour, alpha=0.18, linewidth=0)
            panel.plot(positions, curve, "o", linestyle=dash, color=colour, markersize=4, linewidth=1.5, label=name)
        if bias.pbm is not None:
            panel.plot(positions, bias.pbm.alpha, color=GREY, linestyle=DASHES[2], label="alpha without trust")
        for i, row in enumerate(() if bias.by_segment is None else bias.by_segment):
            colour, dash = COLOURS[(i + 2) % len(COLOURS)], DASHES[(i + 1) % len(DASHES)]
            panel.plot(
                positions,
                row,
                color=colour,
                linestyle=dash,
                linewidth=1.1,
                label=tables.shortened(bias.segment_names[i]),
            )
        panel.locator_params(axis="x", integer=True)
        panel.set_xlabel("position")
        panel.set_ylabel("clicks of one document, first position = 1")
        panel.set_ylim(bottom=min(0.0, float(np.nanmin(bias.beta_low, initial=0.0)) * 1.1))
        panel.set_title(f"Position bias ({bias.method}), {bias.level:.0%} intervals", loc="left", fontweight="bold")
        panel.grid(color="#E4E4E4", linewidth=0.6)
        panel.set_axisbelow(True)
        if len(panel.get_legend_handles_labels()[0]) > 1:
            panel.legend(loc="upper right")
    return Path(path)
