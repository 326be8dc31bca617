"""The table of every paired test of a comparison."""

import numpy as np

from rankwise.base import tables
from rankwise.statistics.comparison import FILLED, Comparison
from rankwise.statistics.titles import Titles, titles_of


def pairs_table(comparison: Comparison, titles: Titles | None) -> tables.Table:
    """Return one row per pair and metric, with the readings of unjudged documents where there are any."""
    corrected = any(pair.p_corrected_t is not None for pair in comparison.pairs)
    header = ["metric", "system", "against", "difference", f"{100 * comparison.level:g}% interval", "p t"]
    header += ["p corrected t"] * corrected + ["p Fisher", "p Wilcoxon", "p adjusted", "effect", "win/tie/loss"]
    holes = any(pair.filled_difference is not None for pair in comparison.pairs)
    header += ["holes filled", "p filled", "holes at worst, best", "verdict"] * holes
    shown = titles_of(comparison.metrics, titles)
    rows = []
    for one in comparison.pairs:
        row = [shown[one.metric], one.system, one.against, tables.number(one.difference, signed=True)]
        row += [tables.interval(one.low, one.high, signed=True), tables.probability(one.p_t)]
        row += [tables.probability(np.nan if one.p_corrected_t is None else one.p_corrected_t)] * corrected
        row += [tables.probability(p) for p in (one.p_fisher, one.p_wilcoxon, one.p_adjusted)]
        row += [tables.number(one.effect_size, 2, signed=True), f"{one.wins}/{one.ties}/{one.losses}"]
        if holes:
            filled, _, _, p, low, high = (
                np.nan if getattr(one, name) is None else getattr(one, name) for name in FILLED
            )
            row += [tables.number(filled, signed=True), tables.probability(p)]
            row += [tables.interval(low, high, signed=True), one.verdict]
        rows.append(tuple(row))
    return tables.Table(header=tuple(header), rows=tuple(rows), align="lll" + "r" * (len(header) - 3))
