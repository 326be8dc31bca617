"""What is AutoRanker worth beside a bag of the default and beside tuned models, in the same time?

    python -m benchmarks.quality.auto FOLDER [--sets mq2008 mq2007 …] [--methods …] [--seeds 3] [--folds 5]
        [--seconds 30 90] [--processes 8] [--threads 1] [--clock cpu]

FOLDER holds the data as in benchmarks/README.md; synthetic kinds are made. It is nested: every method sees training and
validation queries of an outer fold and is tested on its test queries, once. Each cell (a method, a seed, a fold) has
the same seconds and threads. ``--clock cpu`` counts the CPU time of the cell's process instead of the time on the wall,
so that other work on the machine does not matter; with one thread both are the same on an idle machine. Methods:

- ``auto``: ``rw.AutoRanker``, which is given the training and the validation queries.
- ``tuned lightgbm``, ``tuned xgboost``, ``tuned catboost``: a single model with the library's own ranking objectives,
  each searched by ``rw.tune`` for its share of the time; the best on validation queries is trained again and tested.
  ``best tuned`` is, fold by fold, that of the three that is best on validation queries.
- ``default`` and ``default bag``: ``rw.LightGBMRanker()`` and a bag of five of it, however long they take. One bag
  draws at random, and may be lucky by as much as a search is worth: ``--bag-seeds`` measures more of them.

Seeds after the first also shuffle the documents of each training query, as in benchmarks/README.md. Differences are
paired by query: values of a query are averaged over seeds first, then pooled over all data sets; z is the mean
difference over its standard error. In the mean of sets, each set counts the same. That takes models as given; how much
seeds move a method, its column says.

A cell of ``auto`` also keeps out-of-fold values and test scores of every bag, so that other rules than the one that
AutoRanker has are compared on the same bags (the table of rules), and so are recipes (the table of recipes).

Every cell is kept in a file of its own beside ``--out``, and a benchmark that was interrupted is resumed.
"""

import contextlib
import functools
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any
from unittest import mock

import numpy as np

import rankwise as rw
from benchmarks import harness
from benchmarks.harness import FOLDS, KINDS, LARGE, REAL, parts, say, shuffled, versions, write
from rankwise.rankers.ensembles.blend_members import member_kind
from rankwise.rankers.ensembles.blend_weights import centred, score_deviation
from rankwise.wings.tuning.auto.choice import averages

METRIC = "ndcg@10"
OWN = {
    "lightgbm": ("native:lambdarank", "native:rank_xendcg"),
    "xgboost": ("native:rank:ndcg", "native:rank:pairwise"),
    "catboost": ("native:YetiRank",),
}
SETS = (*REAL, "tmdb")
UNTIMED = ("default", "default bag")
METHODS = ("auto", *(f"tuned {library}" for library in OWN), *UNTIMED)
BEST = "best tuned"


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
    clock: str


CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def trained(cell: Cell, train: rw.RankingDataset, valid: rw.RankingDataset) -> tuple[Any, dict[str, Any]]:
    """Return the ranker of a cell, and what is said of it."""
    usual: dict[str, Any] = {"seed": cell.seed, "threads": cell.threads, "metrics": (METRIC,), "progress": False}
    if cell.method == "auto":
        model = rw.AutoRanker(cell.minutes, METRIC, seed=cell.seed, threads=cell.threads, progress=False)
        model.fit(train, valid)
        board = model.leaderboard_
        return model, {"about": board.chosen.recipe, "stopped": board.stopped, "gain": board.chosen.gain}
    if cell.method == "default":
        return rw.LightGBMRanker(**usual).fit(train, valid), {}
    if cell.method == "default bag":
        return rw.bagged(rw.LightGBMRanker(**usual), 5).fit(train, valid), {}
    library = cell.method.removeprefix("tuned ")
    tunings = []
    for objective in OWN[library]:
        share = cell.minutes / len(OWN[library])
        about: dict[str, Any] = {"ranker": library, "metric": METRIC, "minutes": share, "progress": False}
        tunings.append(rw.tune(train, valid, objective, seed=cell.seed, threads=cell.threads, **about))
    best = max(tunings, key=lambda tuning: tuning.value)
    ranker = best.ranker(threads=cell.threads, seed=cell.seed, progress=False).fit(train, valid)
    trials = sum(len(one.trials) for one in tunings)
    return ranker, {"about": f"{best.parameters['objective']}, best of {trials} trials", "valid": best.value}


def measure(cell: Cell) -> dict[str, Any]:
    train, valid, test = parts(cell.folder, cell.data, cell.fold)
    bags: list[Any] = []

    def noted(candidates: list[Any], *rest: Any) -> Any:
        bags.extend(candidates)
        return averages(candidates, *rest)

    clock = CLOCKS[cell.clock]
    began = clock()
    with contextlib.ExitStack() as patches:
        patches.enter_context(mock.patch("rankwise.wings.tuning.auto.ranker.averages", noted))
        for module in ("auto.budget", "tune"):
            patches.enter_context(mock.patch(f"rankwise.wings.tuning.{module}.clock", clock))
        model, words = trained(cell, shuffled(train, cell.seed), valid)
    seconds = clock() - began
    values = harness.by_query(rw.evaluate(model, test, [METRIC]), [METRIC])[METRIC]
    offsets = rw.concatenate([train, valid]).offsets
    about = [_bag(one, offsets, test) for one in bags]
    return {**asdict(cell), **words, "seconds": seconds, "values": values, "bags": about}


def _bag(one: Any, offsets: np.ndarray, test: rw.RankingDataset) -> dict[str, Any]:
    """Return what the table of rules needs of a bag: values out of fold, and scores of test documents in their unit."""
    known = one.evaluation[one.metric]
    unit = score_deviation(one.ranker.oof_scores_, offsets) or np.inf
    scores = centred(one.ranker.predict(test), test.offsets) / unit
    return {
        "recipe": one.name,
        "library": one.library,
        "kind": str(member_kind(one.ranker)),
        "floor": one.floor,
        "values": [None if np.isnan(value) else round(float(value), 6) for value in known],
        "scores": [round(float(score), 4) for score in scores],
    }


# ---- rules -----------------------------------------------------------------------------------------------------------

Rule = Callable[[np.ndarray, list[dict[str, Any]]], np.ndarray]


def within(errors: float) -> Rule:
    """Equal weights of all bags that are behind the best by no more than so many standard errors."""

    def weights(values: np.ndarray, _: list[dict[str, Any]]) -> np.ndarray:
        best = values[np.argmax(values.mean(axis=1))]
        gaps = best - values
        kept = gaps.mean(axis=1) <= errors * gaps.std(axis=1, ddof=1) / np.sqrt(values.shape[1])
        return np.asarray(kept / kept.sum())

    return weights


def by_family(values: np.ndarray, bags: list[dict[str, Any]]) -> np.ndarray:
    """Three parts trees and one part nets, without what is surely worse."""
    kept = within(2.0)(values, bags) > 0.0
    nets = np.array([bag["library"] == "neural" for bag in bags])
    sums = [(kept & ~nets).sum(), (kept & nets).sum()]
    if not all(sums):
        return np.asarray(kept / kept.sum())
    return np.asarray(np.where(nets, 0.25 / sums[1], 0.75 / sums[0]) * kept)


def by_kind(_: np.ndarray, bags: list[dict[str, Any]], *, floor: bool = False) -> np.ndarray:
    """Equal weights of kinds, and within each of its bags."""
    kinds = np.array([bag["kind"] if bag["floor"] or not floor else "" for bag in bags])
    counts = {kind: (kinds == kind).sum() for kind in kinds}
    weights = np.array([1.0 / counts[kind] if kind else 0.0 for kind in kinds])
    return np.asarray(weights / weights.sum())


def by_library(values: np.ndarray, bags: list[dict[str, Any]]) -> np.ndarray:
    """Equal weights of libraries, and within each of its bags, without what is surely worse."""
    kept = within(2.0)(values, bags) > 0.0
    names = np.array([bag["library"] for bag in bags])
    counts = {name: (kept & (names == name)).sum() for name in names}
    weights = np.array([keep / counts[name] if keep else 0.0 for keep, name in zip(kept, names, strict=True)])
    return np.asarray(weights / weights.sum())


def posterior(values: np.ndarray, _: list[dict[str, Any]]) -> np.ndarray:
    """The share of bootstrap samples of queries in which a bag is the best, shrunk halfway to equal weights."""
    draws = np.random.default_rng(0).multinomial(values.shape[1], np.full(values.shape[1], 1 / values.shape[1]), 1000)
    wins = np.bincount(np.argmax(values @ draws.T, axis=0), minlength=len(values)) / 1000
    return 0.5 * wins + 0.5 / len(values)


RULES: dict[str, Rule] = {
    "within two standard errors": within(2.0),
    "within one standard error": within(1.0),
    "all": within(1e9),
    "the best": within(0.0),
    "three parts trees, one part nets": by_family,
    "equal parts of libraries": by_library,
    "equal parts of kinds, all": by_kind,
    "equal parts of kinds, without what must prove itself": functools.partial(by_kind, floor=True),
    "posterior of being best, shrunk": posterior,
}


def ruled(cell: dict[str, Any], rule: Rule, test: rw.RankingDataset) -> np.ndarray:
    """Return the metric of each test query under a rule."""
    bags = cell["bags"]
    values = np.array([bag["values"] for bag in bags], float)
    weights = rule(values[:, ~np.isnan(values[0])], bags)
    scores = weights @ np.array([bag["scores"] for bag in bags])
    return rw.metric(METRIC)(scores, test.labels, test.offsets)


# ---- tables ----------------------------------------------------------------------------------------------------------


def titled(cell: Cell, longest: float) -> str:
    """Return what a method is called: by its seconds where they are not the most."""
    return cell.method if cell.minutes in (0.0, longest) else f"{cell.method}, {60 * cell.minutes:g} s"


class Results:
    """What was measured, by method, data set and seed."""

    def __init__(self, cells: dict[Cell, Any]) -> None:
        self.values: dict[tuple[str, str], list[np.ndarray]] = {}
        self.seconds: dict[str, list[float]] = {}
        groups: dict[tuple[str, str, int], list[np.ndarray]] = {}
        longest = max(cell.minutes for cell in cells)
        for cell, outcome in cells.items():
            method = titled(cell, longest)
            self.seconds.setdefault(method, []).append(outcome["seconds"])
            groups.setdefault((method, cell.data, cell.seed), []).append(np.array(outcome["values"], float))
            if method == "auto":
                test = parts(cell.folder, cell.data, cell.fold)[2]
                for name, rule in RULES.items():
                    found = ruled(outcome, rule, test)
                    groups.setdefault((f"rule: {name}", cell.data, cell.seed), []).append(found)
        tuned: dict[tuple[str, int, int], list[tuple[float, np.ndarray]]] = {}
        for cell, outcome in cells.items():
            if cell.method.startswith("tuned") and cell.minutes == longest:
                values = np.array(outcome["values"], float)
                tuned.setdefault((cell.data, cell.seed, cell.fold), []).append((outcome["valid"], values))
        for (data, seed, _), choices in tuned.items():
            groups.setdefault((BEST, data, seed), []).append(max(choices, key=lambda choice: choice[0])[1])
        for (method, data, _), folds in groups.items():
            self.values.setdefault((method, data), []).append(np.concatenate(folds))

    def of(self, method: str, data: str) -> np.ndarray:
        """Return the values of all test queries of a data set, the mean over seeds."""
        return np.asarray(np.mean(self.values[method, data], axis=0))

    def gap(self, one: str, other: str, sets: list[str]) -> tuple[float, float, int]:
        """Return how far one method is ahead of another, paired by query: mean, standard error, queries."""
        gaps = np.concatenate([self.of(one, name) - self.of(other, name) for name in sets])
        gaps = gaps[~np.isnan(gaps)]
        return float(gaps.mean()), float(gaps.std(ddof=1) / np.sqrt(gaps.size)), gaps.size

    def mean_of_sets(self, one: str, other: str, sets: list[str]) -> tuple[float, float, int]:
        """Return the same as the mean of sets, which all count the same."""
        gaps = [self.gap(one, other, [name]) for name in sets]
        error = np.sqrt(sum(error**2 for _, error, _ in gaps)) / len(gaps)
        return float(np.mean([mean for mean, _, _ in gaps])), float(error), sum(count for *_, count in gaps)

    def spread(self, method: str, sets: list[str]) -> str:
        """Return the means of single seeds."""
        seeds = min(len(self.values[method, name]) for name in sets)
        means = [
            np.nanmean(np.concatenate([self.values[method, name][seed] for name in sets])) for seed in range(seeds)
        ]
        return f"{min(means):.4f} to {max(means):.4f}"


def _cell(gap: tuple[float, float, int]) -> str:
    mean, error, _ = gap
    return f"{mean:+.4f} ± {error:.4f}, {mean / error if error else 0.0:+.1f}"


def show(results: Results, methods: list[str], data: list[str]) -> None:
    """Print means, differences of the first method to all others, and of rules to the default bag."""
    print("\n" + harness.markdown(["method", *data, "by seed", "seconds"], [
        [
            method,
            *(f"{np.nanmean(results.of(method, name)):.4f}" for name in data),
            results.spread(method, data),
            f"{np.median(results.seconds[method]):.0f}" if method in results.seconds else "",
        ]
        for method in methods
    ]))  # fmt: skip
    real = [name for name in data if name in SETS]
    where = ({"real sets": real} if len(real) > 1 else {}) | {name: [name] for name in data}
    first = methods[0]
    rows = [
        [
            f"{one} − {other}",
            _cell(results.mean_of_sets(one, other, real or data)),
            *(_cell(results.gap(one, other, sets)) for sets in where.values()),
        ]
        for one, other in [(first, other) for other in methods[1:]]
        + [(one, "default bag") for one in methods if one.startswith("auto, ") and "default bag" in methods]
    ]
    print("\n" + harness.markdown([f"{METRIC}, z", "mean of sets", *where], rows))
    if first == "auto" and "default bag" in methods:
        names = [f"rule: {name}" for name in RULES]
        rows = [[name, *(_cell(results.gap(name, "default bag", sets)) for sets in where.values())] for name in names]
        print("\n" + harness.markdown([f"{METRIC} beside a bag of the default, z", *where], rows))


def show_recipes(cells: dict[Cell, Any], data: list[str]) -> None:
    """Print how far the bag of each recipe is ahead of the first one's on test queries."""
    gaps: dict[str, dict[str, list[np.ndarray]]] = {}
    for cell, outcome in cells.items():
        if cell.method == "auto" and cell.minutes == max(cell.minutes for cell in cells):
            test = parts(cell.folder, cell.data, cell.fold)[2]
            metric = functools.partial(rw.metric(METRIC), labels=test.labels, offsets=test.offsets)
            values = [metric(np.array(bag["scores"])) for bag in outcome["bags"]]
            for bag, value in zip(outcome["bags"][1:], values[1:], strict=True):
                gaps.setdefault(bag["recipe"], {}).setdefault(cell.data, []).append(value - values[0])
    rows = []
    for recipe, by_data in gaps.items():
        texts = []
        for name in data:
            found = np.concatenate(by_data.get(name, [np.array([])]))
            found = found[~np.isnan(found)]
            error = found.std(ddof=1) / np.sqrt(found.size) if found.size > 1 else np.nan
            texts.append(f"{found.mean():+.4f} ± {error:.4f}" if found.size > 1 else "–")
        rows.append([recipe, *texts])
    print("\n" + harness.markdown(["bag, beside that of the default", *data], rows))


def main() -> int:
    parser = harness.arguments(__doc__, out="results/auto.json", processes=1)
    parser.add_argument("folder", nargs="?", help="where the data are; by default where rw.load_dataset looks")
    parser.add_argument("--sets", "--data", dest="data", nargs="+", choices=(*SETS, *KINDS, *LARGE), default=list(SETS))
    parser.add_argument(
        "--methods", nargs="+", choices=METHODS, default=METHODS, help="the first is held against the rest"
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folds", type=int, default=FOLDS, help="of the five outer ones, the first so many")
    parser.add_argument("--seconds", type=float, nargs="+", default=[90.0], help="of each cell; rules are of the most")
    parser.add_argument("--threads", type=int, default=2, help="of each cell")
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="what minutes are counted by")
    parser.add_argument("--tuned-seeds", type=int, default=1, help="seeds of tuned models")
    parser.add_argument("--bag-seeds", type=int, help="seeds of the default and its bag; by default as many")
    options = parser.parse_args()
    folder = harness.data_folder(options.folder)
    if (missing := harness.missing_data(folder, options.data)) is not None:
        print(missing)
        return 2 if options.folder else 0  # without a folder there is nothing to measure, and nothing is wrong
    make = functools.partial(Cell, folder, threads=options.threads, clock=options.clock)
    seeds = {"auto": options.seeds, **dict.fromkeys(UNTIMED, options.bag_seeds or options.seeds)}
    budgets = [seconds / 60.0 for seconds in sorted(options.seconds, reverse=True)]
    wanted = [
        make(data=data, method=method, seed=seed, fold=fold, minutes=minutes)
        for method in options.methods
        for minutes in ([0.0] if method in UNTIMED else budgets)
        for seed in range(seeds.get(method, options.tuned_seeds))
        for data in options.data
        for fold in range(1, options.folds + 1)
    ]
    cells = harness.Cells[Cell](options.out).measure(wanted, measure, options.processes)
    print(f"{options.folds} folds, {seeds} seeds, {options.seconds} seconds on {options.threads} threads; "
          f"{', '.join(f'{name} {text}' for name, text in versions().items())}")  # fmt: skip
    methods = [*dict.fromkeys(titled(cell, budgets[0]) for cell in wanted)] + (
        [BEST] if any(name.startswith("tuned") for name in options.methods) else []
    )
    show(Results(cells), methods, options.data)
    if "auto" in methods:
        show_recipes(cells, options.data)
    write(options.out, json.dumps({"seconds": options.seconds, "versions": versions()}, indent=1))
    say(f"\nwritten: {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
