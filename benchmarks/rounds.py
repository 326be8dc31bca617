"""How far methods are apart while trees are few, from the learning curves of an experiment.

    python benchmarks/rounds.py RESULTS/2021-figure1

Validation data choose nothing where every tree is grown, so that they are as good as test data at a fixed number of
trees. Intervals are of one minus the experiment's alpha, over trials, with the correction of Nadeau and Bengio.
"""

import argparse
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

import rankwise as rw
from rankwise.evaluation import tables
from rankwise.evaluation.significance import t_test

ROUNDS = (5, 10, 25, 50, 100, 200, 500)


def by_round(results: rw.Results, rounds: Sequence[int] = ROUNDS) -> str:
    """The deciding metric after some numbers of rounds, the differences, and by how much each exceeds the last one."""
    spec = results.spec
    series = f"valid {spec['decide']}"
    kept = results.curves.filter((pl.col("series") == series) & pl.col("round").is_in(list(rounds)))
    rows = []
    for data in kept["data"].unique(maintain_order=True):
        curves = {name: values(kept, data, name) for name in results.methods}
        there = [number for number in rounds if all(number in curve for curve in curves.values())]
        for number in there:
            for low, high in combinations(results.methods, 2):
                gaps, last = (curves[high][one] - curves[low][one] for one in (number, there[-1]))
                means = [tables.number(float(curves[name][number].mean())) for name in (low, high)]
                more = tested(gaps - last, spec) if number != there[-1] else ["", ""]
                rows.append((data, str(number), low, high, *means, *tested(gaps, spec), *more))
    level = f"{100 * (1 - spec['alpha']):g}% interval"
    header = ("data", "trees", "a", "b", "a's " + series, "b's", "b − a", level, "more than at the last", level)
    return tables.Table(header=header, rows=tuple(rows), align="lrllrrrlrl", notes=()).markdown()


def values(curves: pl.DataFrame, data: str, method: str) -> dict[int, np.ndarray]:
    """Round to the values of all trials, in their order."""
    mine = curves.filter((pl.col("data") == data) & (pl.col("method") == method)).sort("trial")
    return {number: mine.filter(pl.col("round") == number)["value"].to_numpy() for number in mine["round"].unique()}


def tested(gaps: np.ndarray, spec: dict[str, Any]) -> list[str]:
    """A mean difference and its interval, if there are several trials."""
    mean = tables.number(float(gaps.mean()), signed=True)
    if gaps.size < 2:
        return [mean, ""]
    test = t_test(gaps, overlap=spec["split"][1] / spec["split"][0])
    return [mean, tables.interval(*test.interval(1.0 - spec["alpha"]), signed=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results")
    print(by_round(rw.Results.read(parser.parse_args().results)))


if __name__ == "__main__":
    main()
