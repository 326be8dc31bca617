"""What is a ranker worth that chooses itself within a time, beside tuned models and bags, on the same minutes?

    python -m benchmarks.quality.auto FOLDER [--data mq2008 mq2007] [--seeds 3] [--minutes 3] [--processes 8]
        [--threads 2]

FOLDER holds the data as in benchmarks/README.md: MQ2008 with its five folds, and MQ2007 in part, cut into five. It is
nested: every method sees training and validation queries of an outer fold and is tested on its test queries, once. Each
cell (a method, a seed, a fold) has the same minutes and threads:

- ``auto``: ``rw.AutoRanker``, which is given the training and the validation queries.
- ``tuned lightgbm``, ``tuned xgboost``, ``tuned catboost``: a single model with the library's own ranking objectives,
  each searched by ``rw.tune`` for its share of the minutes; the best on validation queries is trained again and tested.
- ``yetirank bag``: a bag of five models with CatBoost's YetiRank, however long it takes.
- ``default`` and ``default bag``: ``rw.LightGBMRanker()`` and a bag of five of it, however long they take.

Seeds after the first also shuffle the documents of each training query, as in benchmarks/README.md. Differences are
paired by query: values of a query are averaged over seeds first, then pooled over all data sets; z is the mean
difference over its standard error. That takes models as given; how much seeds move a method, its column says.

Every cell is kept in a file of its own beside ``--out``, and a benchmark that was interrupted is resumed.
"""

import functools
import json
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import rankwise as rw
from benchmarks import harness
from benchmarks.harness import FOLDS, parts, say, shuffled, versions, write

METRIC = "ndcg@10"
METRICS = ("ndcg@5", "ndcg@10")
OWN = {
    "lightgbm": ("native:lambdarank", "native:rank_xendcg"),
    "xgboost": ("native:rank:ndcg", "native:rank:pairwise"),
    "catboost": ("native:YetiRank",),
}
METHODS = ("auto", *(f"tuned {library}" for library in OWN), "yetirank bag", "default", "default bag")


@dataclass(frozen=True)
class Cell:
    """One ranker: a method with one seed on one outer fold."""

    folder: str
    data: str
    method: str
    seed: int
    fold: int
    minutes: float
    threads: int


def trained(cell: Cell, train: rw.RankingDataset, valid: rw.RankingDataset) -> tuple[Any, str]:
    """The ranker of a cell, and what it is."""
    usual: dict[str, Any] = {"seed": cell.seed, "threads": cell.threads, "metrics": (METRIC,), "progress": False}
    if cell.method == "auto":
        model = rw.AutoRanker(cell.minutes, METRIC, seed=cell.seed, threads=cell.threads, progress=False)
        model.fit(train, valid)
        return model, model.leaderboard_.chosen.recipe
    if cell.method == "default":
        return rw.LightGBMRanker(**usual).fit(train, valid), "lightgbm(lambdarank)"
    if cell.method == "default bag":
        return rw.bagged(rw.LightGBMRanker(**usual), 5).fit(train, valid), "bag of lightgbm(lambdarank)"
    if cell.method == "yetirank bag":
        return rw.bagged(rw.CatBoostRanker("native:YetiRank", **usual), 5).fit(train, valid), "bag of YetiRank"
    library = cell.method.removeprefix("tuned ")
    found = []
    for objective in OWN[library]:
        share = cell.minutes / len(OWN[library])
        about: dict[str, Any] = {"ranker": library, "metric": METRIC, "minutes": share, "progress": False}
        found.append(rw.tune(train, valid, objective, seed=cell.seed, threads=cell.threads, **about))
    best = max(found, key=lambda tuning: tuning.value)
    ranker = best.ranker(threads=cell.threads, seed=cell.seed, progress=False).fit(train, valid)
    return ranker, f"{best.parameters['objective']}, best of {sum(len(one.trials) for one in found)} trials"


def measure(cell: Cell) -> dict[str, Any]:
    train, valid, test = parts(cell.folder, cell.data, cell.fold)
    began = time.perf_counter()
    model, about = trained(cell, shuffled(train, cell.seed), valid)
    seconds = time.perf_counter() - began
    evaluation = rw.evaluate(model, test, METRICS)
    queries = test.qids()[test.offsets[:-1]].tolist()
    values = harness.by_query(evaluation, METRICS)
    return {**asdict(cell), "about": about, "seconds": seconds, "queries": queries, "values": values}


class Results:
    """What was measured, by method, data set and seed."""

    def __init__(self, cells: dict[Cell, Any]) -> None:
        self.cells = cells

    def values(self, method: str, metric: str, data: str, seed: int) -> np.ndarray:
        """Of all test queries of a data set."""
        own = [
            found for cell, found in self.cells.items() if (cell.method, cell.data, cell.seed) == (method, data, seed)
        ]
        return np.concatenate([np.array(found["values"][metric], float) for found in own])

    def pooled(self, method: str, metric: str, data: list[str], seeds: int) -> np.ndarray:
        """Averaged over seeds, one data set after the other; queries that are skipped are NaN."""
        return np.concatenate(
            [np.mean([self.values(method, metric, name, seed) for seed in range(seeds)], axis=0) for name in data]
        )

    def seconds(self, method: str) -> float:
        return float(np.median([found["seconds"] for cell, found in self.cells.items() if cell.method == method]))


def difference(results: Results, one: str, other: str, data: list[str], seeds: int) -> dict[str, float]:
    """How far one method is ahead of another, paired by query."""
    gaps = results.pooled(one, METRIC, data, seeds) - results.pooled(other, METRIC, data, seeds)
    gaps = gaps[~np.isnan(gaps)]
    mean, error = float(gaps.mean()), float(gaps.std(ddof=1) / np.sqrt(gaps.size))
    return {"queries": gaps.size, "mean": mean, "error": error, "z": mean / error if error else 0.0}


def show(results: Results, methods: list[str], data: list[str], seeds: int) -> dict[str, Any]:
    """Print means by data set, and differences of the first method to all others, of all queries and by data set."""
    rows: dict[str, Any] = {"means": [], "differences": []}
    names = [f"{name} {metric.upper()}" for name in data for metric in METRICS]
    print("\n" + harness.markdown(["method", *names, f"{METRIC.upper()} by seed", "seconds"], []))
    for method in methods:
        means = [
            float(np.nanmean(results.pooled(method, metric, [name], seeds))) for name in data for metric in METRICS
        ]
        by_seed = [
            np.nanmean(np.concatenate([results.values(method, METRIC, name, seed) for name in data]))
            for seed in range(seeds)
        ]
        spread, seconds = f"{min(by_seed):.4f} to {max(by_seed):.4f}", results.seconds(method)
        print(f"| {method} | {' | '.join(f'{mean:.4f}' for mean in means)} | {spread} | {seconds:.0f} |")
        rows["means"].append({"method": method, **dict(zip(names, means, strict=True)), "seconds": seconds})
    pairs = [(methods[0], other) for other in methods[1:]]
    pairs += [pair for pair in [("default bag", "default")] if set(pair) <= set(methods) and pair not in pairs]
    where = {"all": data} | ({name: [name] for name in data} if len(data) > 1 else {})
    print("\n" + harness.markdown([METRIC.upper(), *(f"{name}, z" for name in where)], []))
    for one, other in pairs:
        found = {name: difference(results, one, other, sets, seeds) for name, sets in where.items()}
        cells = [f"{gap['mean']:+.4f} ± {gap['error']:.4f}, {gap['z']:+.1f}" for gap in found.values()]
        print(f"| {one} − {other} | " + " | ".join(cells) + " |")
        rows["differences"] += [{"one": one, "other": other, "data": name, **gap} for name, gap in found.items()]
    return rows


def main() -> int:
    parser = harness.arguments(__doc__, out="results/auto.json", processes=1)
    parser.add_argument("folder", nargs="?", help="where the data are; by default where rw.load_dataset looks")
    parser.add_argument("--data", nargs="+", choices=("mq2008", "mq2007"), default=["mq2008", "mq2007"])
    parser.add_argument(
        "--methods", nargs="+", choices=METHODS, default=METHODS, help="the first is held against the rest"
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folds", type=int, default=FOLDS, help="of the five outer ones, the first so many")
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--threads", type=int, default=2, help="of each cell")
    options = parser.parse_args()
    folder = harness.data_folder(options.folder)
    if (missing := harness.missing_data(folder, options.data)) is not None:
        print(missing)
        return 2 if options.folder else 0  # without a folder there is nothing to measure, and nothing is wrong
    make = functools.partial(Cell, folder, minutes=options.minutes, threads=options.threads)
    wanted = [
        make(data=data, method=method, seed=seed, fold=fold)
        for seed in range(options.seeds)
        for data in options.data
        for fold in range(1, options.folds + 1)
        for method in options.methods
    ]
    cells = harness.Cells[Cell](options.out).measure(wanted, measure, options.processes)
    print(f"{', '.join(options.data)}; {options.folds} folds, {options.seeds} seeds, {options.minutes:g} minutes on "
          f"{options.threads} threads; {', '.join(f'{name} {text}' for name, text in versions().items())}")  # fmt: skip
    rows = show(Results(cells), list(options.methods), options.data, options.seeds)
    write(options.out, json.dumps({"minutes": options.minutes, "versions": versions(), **rows}, indent=1))
    say(f"\nwritten: {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
