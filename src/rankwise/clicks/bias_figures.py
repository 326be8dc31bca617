"""Figures of position bias."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rankwise.arrays import Keywords
from rankwise.clicks.check import TOLERANCE
from rankwise.statistics import tables
from rankwise.statistics.figures.comparisons import BLUE, COLOURS, DASHES, GREY, VERMILLION, figure

if TYPE_CHECKING:
    from rankwise.clicks.bias import Bias
    from rankwise.clicks.check import BiasCheck


def plot_bias(bias: "Bias", path: str | Path, *, force: bool = False) -> Path:
    """Draw alpha by position with its interval; beta, segments and the curve without trust where there are any."""
    positions = np.arange(1, bias.n_positions + 1)
    with figure(path, 7.2, 4.0, force=force) as drawing:
        panel = drawing.subplots()
        for name, colour, dash in (("alpha", BLUE, DASHES[0]), ("beta", VERMILLION, DASHES[1])):
            if (curve := getattr(bias, name)).any():
                low, high = getattr(bias, f"{name}_low"), getattr(bias, f"{name}_high")
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


def plot_check(outcome: "BiasCheck", path: str | Path, *, force: bool = False) -> Path:
    """Draw observed over predicted clicks by position, a colour and a mark for each held-out ranker."""
    from matplotlib import ticker

    n_rankers, n_positions = outcome.ratio.shape
    with figure(path, 7.2, 4.0, force=force) as drawing:
        panel = drawing.subplots()
        panel.axhspan(1.0 - TOLERANCE, 1.0 + TOLERANCE, color=GREY, alpha=0.15, linewidth=0)
        panel.axhline(1.0, color=GREY, linewidth=0.8)
        for i, name in enumerate(outcome.names):
            places = np.arange(1, n_positions + 1) + 0.5 * ((i + 0.5) / n_rankers - 0.5)
            ends = np.abs(np.array([outcome.low[i], outcome.high[i]]) - outcome.ratio[i])
            style: Keywords = {"color": COLOURS[i % len(COLOURS)], "fmt": "osD^v"[i % 5], "markersize": 4}
            panel.errorbar(places, outcome.ratio[i], ends, linewidth=1.0, label=tables.shortened(name), **style)
        panel.set_yscale("log")
        low, high = np.nanmin(outcome.low, initial=0.8), np.nanmax(outcome.high, initial=1.25)
        panel.set_ylim(max(0.95 * low, 0.1), min(1.05 * high, 10.0))
        panel.yaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0)))
        panel.yaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
        panel.yaxis.set_minor_locator(ticker.NullLocator())
        panel.locator_params(axis="x", integer=True)
        panel.set_xlabel("position")
        panel.set_ylabel("observed / predicted clicks")
        title = "ALARM: off by more than a tenth" if outcome.alarm else "No alarm"
        panel.set_title(f"Rankers held out in turn: {title}", loc="left", fontweight="bold")
        panel.legend(loc="best")
    return Path(path)
