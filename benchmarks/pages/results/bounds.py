"""What a loss guarantees of a metric beside the metric itself, during training, from the curves of an experiment.

python -m benchmarks.pages.results.bounds RESULTS/2019-bound
"""

import numpy as np
import polars as pl
from scipy.stats import spearmanr

import rankwise as rw
from benchmarks import harness
from rankwise.base import tables

KEYS = ["data", "method", "trial", "round"]


def by_bound(results: rw.lab.Results) -> str:
    """How often a bound is above its metric, both at the first and the last round, and how they go together."""
    curves = results.curves
    rows = []
    for metric in [one.removeprefix("bound ") for one in curves["series"].unique().sort() if one.startswith("bound ")]:
        sides = [
            curves.filter(series=f"{side} {metric}").select(*KEYS, side=pl.col("value")) for side in ("test", "bound")
        ]
        both = sides[0].rename({"side": "reached"}).join(sides[1].rename({"side": "bound"}), on=KEYS).sort(KEYS)
        for (data, method), own in both.group_by("data", "method", maintain_order=True):
            trials = [one for _, one in own.group_by("trial", maintain_order=True)]
            ends = [
                " ≥ ".join(
                    tables.number(float(np.mean([one[side][at] for one in trials]))) for side in ("reached", "bound")
                )
                for at in (0, -1)
            ]
            along = [float(spearmanr(one["reached"], one["bound"]).statistic) for one in trials]
            above = int((own["bound"] > own["reached"]).sum())
            spread = f"{min(along):+.2f} to {max(along):+.2f}".replace("-", "−")
            rows.append((str(data), metric, str(method), f"{own.height:,}", str(above), *ends, spread))
    header = (
        "data",
        "metric",
        "trained with",
        "points",
        "bound above metric",
        "first round",
        "last round",
        "correlation",
    )
    notes = (
        "Points: rounds of all trials that were measured. First and last round: mean over trials of the metric, and of "
        "its bound. Correlation: Spearman's, over the rounds of a trial; the least and the greatest of the trials.",
    )
    return tables.Table(header=header, rows=tuple(rows), align="lllrrllr", notes=notes).markdown()


def main() -> None:
    parser = harness.arguments(__doc__)
    parser.add_argument("results")
    print(by_bound(rw.lab.Results.read(parser.parse_args().results)))


if __name__ == "__main__":
    main()
