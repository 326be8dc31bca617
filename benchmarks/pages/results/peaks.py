"""What training on and on does: methods at the round that validation data would choose, and after the last one.

    python -m benchmarks.pages.results.peaks RESULTS/2024-figure3-at10

For experiments without early stopping that keep curves of training, validation and test data. The round is the best of
the mean validation curve over trials, so that test data choose nothing. Intervals are of one minus the experiment's
alpha, over trials; those of runs on one and the same split say nothing about other queries.
"""

import numpy as np
import polars as pl

import rankwise as rw
from benchmarks import harness
from rankwise.base import tables
from rankwise.statistics.significance import FEWEST, t_test

KINDS = ("valid", "test", "train")


def by_peak(results: rw.lab.Results) -> str:
    """The deciding metric of each method at its best round and at the last, and what has changed on test data."""
    spec = results.spec
    named = {kind: f"{kind} {spec['decide']}" for kind in KINDS}
    rows = []
    for data in results.curves["data"].unique(maintain_order=True):
        for method in results.methods:
            mine = results.curves.filter((pl.col("data") == data) & (pl.col("method") == method))
            curves = {kind: matrix(mine.filter(pl.col("series") == series)) for kind, series in named.items()}
            rounds, valid = curves["valid"]
            if not rounds.size:
                continue
            best = int(valid.mean(axis=0).argmax())
            test, train = curves["test"][1], curves["train"][1]
            means = [float(values[:, at].mean()) for values in (test, train) for at in (best, -1)]
            change = test[:, -1] - test[:, best]
            interval = ""
            if change.size >= FEWEST:
                interval = tables.interval(*t_test(change).interval(1.0 - spec["alpha"]), signed=True)
            gap = tables.number(float(change.mean()), signed=True)
            cells = [str(rounds[best]), *map(tables.number, means[:2]), gap, interval, *map(tables.number, means[2:])]
            rows.append((data, method, *cells))
        last = str(rounds[-1]) if rows else ""
    level = f"{100 * (1 - spec['alpha']):g}% interval"
    header = ("data", "method", "best round", "test there", f"after {last}", "change", level, "train there")
    return tables.Table(header=(*header, f"after {last}"), rows=tuple(rows), align="llrrrrlrr", notes=()).markdown()


def matrix(curve: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """The rounds of a curve, and one row of values for each trial; one that ended early keeps its last value."""
    rounds = curve["round"].unique().sort().to_numpy()
    values = []
    for _, one in curve.sort("round").group_by("trial", maintain_order=True):
        at = np.searchsorted(one["round"].to_numpy(), rounds, side="right") - 1
        values.append(one["value"].to_numpy()[at.clip(0)])
    return rounds, np.array(values)


def main() -> None:
    parser = harness.arguments(__doc__)
    parser.add_argument("results")
    print(by_peak(rw.lab.Results.read(parser.parse_args().results)))


if __name__ == "__main__":
    main()
