"""How far methods are apart while rounds are few, and how many they need, from the curves of an experiment.

    python -m benchmarks.pages.results.rounds RESULTS/2021-figure1

Validation data choose nothing where every round is trained, so that they are as good as test data at a fixed number of
rounds. Intervals are of one minus the experiment's alpha, over trials, with the correction of Nadeau and Bengio.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

import rankwise as rw
from benchmarks import harness
from rankwise.base import tables
from rankwise.statistics.significance import t_test
from rankwise.wings.lab.papers.claims import claims

ROUNDS = (5, 10, 25, 50, 100, 200, 500, 1000)


def by_round(results: rw.lab.Results, rounds: Sequence[int] = ROUNDS) -> str:
    """The deciding metric after some numbers of rounds, the differences, and by how much each exceeds the last one.

    Shown are rounds that every trial of every method has reached. Where a curve was thinned, the round before stands
    for one that was left out.
    """
    spec = results.spec
    series = f"valid {spec['decide']}"
    kept = results.curves.filter(pl.col("series") == series).sort("round")
    rows = []
    for data in kept["data"].unique(maintain_order=True):
        here = kept.filter(pl.col("data") == data)
        paths = {name: paths_of(here.filter(pl.col("method") == name)) for name in results.methods}
        both = sorted(set.intersection(*map(set, paths.values())))
        reached = min(path[trial][0][-1] for path in paths.values() for trial in both)
        there = [number for number in rounds if number <= reached]
        curves = {
            name: {number: np.array([after(path[trial], number) for trial in both]) for number in there}
            for name, path in paths.items()
        }
        for low, high in compared(results):
            for number in there:
                gaps, last = (curves[high][one] - curves[low][one] for one in (number, there[-1]))
                means = [tables.number(float(curves[name][number].mean())) for name in (low, high)]
                more = gap_of(gaps - last, spec) if number != there[-1] else ["", ""]
                rows.append((data, str(number), low, high, *means, *gap_of(gaps, spec), *more))
    level = f"{100 * (1 - spec['alpha']):g}% interval"
    header = ("data", "rounds", "a", "b", "a's " + series, "b's", "b − a", level, "more than at the last", level)
    return tables.Table(header=header, rows=tuple(rows), align="lrllrrrlrl", notes=()).markdown()


def by_reach(results: rw.lab.Results) -> str:
    """How far each of two methods gets on validation queries, and after how many rounds both have got equally far.

    Of a trial, both reach the lower one of their two best values, each after some number of rounds.
    """
    spec = results.spec
    series = f"valid {spec['decide']}"
    rows = []
    for data in results.curves["data"].unique(maintain_order=True):
        here = results.curves.filter((pl.col("data") == data) & (pl.col("series") == series)).sort("round")
        for low, high in compared(results):
            paths = {name: paths_of(here.filter(pl.col("method") == name)) for name in (low, high)}
            both = sorted(set(paths[low]) & set(paths[high]))
            tops = {name: np.array([path[trial][1].max() for trial in both]) for name, path in paths.items()}
            goal = np.minimum(tops[low], tops[high])
            needed = {
                name: np.array([rounds_to(path[trial], top) for trial, top in zip(both, goal, strict=True)])
                for name, path in paths.items()
            }
            best = [tables.number(float(tops[name].mean())) for name in (low, high)]
            steps = [f"{needed[name].mean():.1f}" for name in (low, high)]
            apart = gap_of(needed[high] - needed[low], spec, digits=1)
            rows.append((data, low, high, *best, *gap_of(tops[high] - tops[low], spec), *steps, *apart))
    level = f"{100 * (1 - spec['alpha']):g}% interval"
    header = (
        *("data", "a", "b", f"a's best {series}", "b's", "b − a", level),
        *("rounds of a until both are level", "of b", "b − a", level),
    )
    return tables.Table(header=header, rows=tuple(rows), align="lllrrrlrrrl", notes=()).markdown()


def compared(results: rw.lab.Results) -> list[tuple[str, str]]:
    """The pairs of methods that the paper compares, or all of them where it compares none."""
    said = claims(results.spec.get("published", ""))
    about = {frozenset((one.better, one.worse)) for one in said}
    pairs = list(combinations(results.methods, 2))
    return [pair for pair in pairs if frozenset(pair) in about] or pairs


def paths_of(curves: pl.DataFrame) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Rounds and values of each trial."""
    return {
        int(trial): (one["round"].to_numpy(), one["value"].to_numpy()) for (trial,), one in curves.group_by("trial")
    }


def rounds_to(path: tuple[np.ndarray, np.ndarray], goal: float) -> int:
    """The first round that is as good as the goal."""
    rounds, reached = path
    return int(rounds[np.argmax(reached >= goal)])


def after(path: tuple[np.ndarray, np.ndarray], number: int) -> float:
    """The value after a number of rounds."""
    rounds, reached = path
    return float(reached[np.searchsorted(rounds, number, side="right") - 1])


def gap_of(gaps: np.ndarray, spec: dict[str, Any], digits: int = 4) -> list[str]:
    """A mean difference and its interval, if there are several trials."""
    mean = tables.number(float(gaps.mean()), digits, signed=True)
    if gaps.size < 2:
        return [mean, ""]
    test = t_test(gaps, overlap=spec["split"][1] / spec["split"][0])
    return [mean, tables.interval(*test.interval(1.0 - spec["alpha"]), digits, signed=True)]


def main() -> None:
    parser = harness.arguments(__doc__)
    parser.add_argument("results")
    results = rw.lab.Results.read(parser.parse_args().results)
    print(f"{by_round(results)}\n\n{by_reach(results)}")


if __name__ == "__main__":
    main()
