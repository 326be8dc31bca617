"""How well models rank that were trained with our objectives, beside LightGBM's own, on real data.

    python -m benchmarks.quality.objectives FOLDER [--data mq2008|mq2007] [--seeds 5]
        [--methods lambdarank native:lambdarank]

FOLDER holds the data: MQ2008 as its archive unpacks, with its five folds; MQ2007 as one file ``mq2007.partial.txt.gz``,
which is cut at random into five folds, so that every query is tested once. All methods have the same folds and the same
settings. NDCG has gains 2^y − 1; queries without relevant documents are skipped.

Seed 0 trains on the documents in the order of the files. LambdaRank draws nothing, and more seeds would give the same
model again, so every other seed also shuffles the documents of each training query, for all methods alike. Ties are
broken by that order, the first trees differ, and the models with them.

Differences are paired twice. By query: the values of a query are averaged over seeds first, since seeds are no new
queries and must not make a test surer than its queries can. That takes the models as given, so with few seeds it is too
sure of what the next model would do. By run: the mean differences of all seeds and folds, which vary with the models
too. Two methods are within noise of each other if the 95% intervals of both lie inside ±0.01.

Each run is kept in a file of its own beside ``--out``, and a benchmark that was interrupted is resumed. A run is known
by its settings and by versions of packages: after a change of the code, write to another ``--out``.
"""

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import rankwise as rw
from benchmarks import harness
from benchmarks.harness import FOLDS, SETTINGS, parts, say, shuffled, versions, write

METRICS = ("ndcg@5", "ndcg@10")
NATIVE = ("native:lambdarank", "native:rank_xendcg")
COUNTERPARTS = {"lambdarank": "native:lambdarank", "xendcg": "native:rank_xendcg"}
OTHERS = ("listnet", "plrank", "stochastic(lambdarank, scale=0.25)")
METHODS = (*(one for pair in COUNTERPARTS.items() for one in reversed(pair)), *OTHERS)
NOISE = 0.01
ENOUGH = 5  # seeds


@dataclass(frozen=True)
class Run:
    """One model: trained on one fold, with one seed."""

    folder: str
    data: str
    method: str
    seed: int
    fold: int
    threads: int


def measure(run: Run) -> dict[str, Any]:
    """Train and test one model."""
    train, valid, test = parts(run.folder, run.data, run.fold)
    train = shuffled(train, run.seed)
    ranker = rw.LightGBMRanker(run.method, metrics=METRICS, seed=run.seed, threads=run.threads, **SETTINGS)  # type: ignore[arg-type]
    start = time.perf_counter()
    ranker.fit(train, valid)
    seconds = time.perf_counter() - start
    evaluation = rw.evaluate(ranker, test, METRICS)
    queries, values = evaluation.query_ids.tolist(), harness.by_query(evaluation, METRICS)
    return {**asdict(run), "rounds": ranker.best_round_, "seconds": seconds, "queries": queries, "values": values}


class Results:
    """Everything that was measured on one data set."""

    def __init__(self, outcomes: dict[Run, Any]) -> None:
        self.runs = {(run.method, run.seed, run.fold): outcome for run, outcome in outcomes.items()}
        self.methods = list(dict.fromkeys(method for method, _, _ in self.runs))

    def seeds(self, *methods: str) -> list[int]:
        """Those that all of these methods have."""
        each = [{seed for name, seed, _ in self.runs if name == method} for method in methods]
        return sorted(set.intersection(*each))

    def evaluation(self, method: str, seeds: Iterable[int]) -> rw.Evaluation:
        """The values of all test queries, averaged over seeds."""
        columns: dict[str, list[Any]] = {name: [] for name in METRICS}
        queries: list[int] = []
        for fold in range(1, FOLDS + 1):
            runs = [self.runs[method, seed, fold] for seed in seeds]
            queries += runs[0]["queries"]
            for name in METRICS:
                columns[name].append(np.mean([np.array(run["values"][name], float) for run in runs], axis=0))
        return rw.Evaluation({name: np.concatenate(column) for name, column in columns.items()}, queries)

    def by_run(self, method: str, seeds: Iterable[int]) -> Iterator[dict[str, float]]:
        """The means of every seed and fold."""
        for seed in seeds:
            for fold in range(1, FOLDS + 1):
                values = self.runs[method, seed, fold]["values"]
                yield {name: float(np.nanmean(np.array(values[name], float))) for name in METRICS}

    def means(self) -> Iterator[dict[str, Any]]:
        for method in self.methods:
            seeds = self.seeds(method)
            own = [run for (name, _, _), run in self.runs.items() if name == method]
            spread = [self.evaluation(method, [seed]).mean for seed in seeds]
            yield {
                "method": method,
                "seeds": len(seeds),
                **self.evaluation(method, seeds).mean,
                **{f"{name} by seed": [one[name] for one in spread] for name in METRICS},
                "rounds": float(np.mean([run["rounds"] for run in own])),
                "seconds": float(np.median([run["seconds"] for run in own])),
            }

    def pairs(self) -> Iterator[dict[str, Any]]:
        """Each of ours against each native one."""
        natives = [method for method in self.methods if method.startswith("native:")]
        for method in self.methods:
            for native in natives if method not in natives else ():
                seeds = self.seeds(method, native)
                both = {native: self.evaluation(native, seeds), method: self.evaluation(method, seeds)}
                trials = {one: list(self.by_run(one, seeds)) for one in (native, method)}
                by_run = {pair.metric: pair for pair in rw.compare(trials, baseline=native).pairs}
                for pair in rw.compare(both, baseline=native).pairs:
                    runs = by_run[pair.metric]
                    yield {
                        **asdict(pair),
                        "low by run": runs.low,
                        "high by run": runs.high,
                        "seeds": len(seeds),
                        "counterparts": COUNTERPARTS.get(method) == native,
                        "by seed": [self._gap(method, native, seed, pair.metric) for seed in seeds],
                        "same": sum(self._same(method, native, seed, pair.metric) for seed in seeds),
                    }

    def _gap(self, one: str, other: str, seed: int, metric: str) -> float:
        return self.evaluation(one, [seed]).mean[metric] - self.evaluation(other, [seed]).mean[metric]

    def _same(self, one: str, other: str, seed: int, metric: str) -> int:
        """In how many folds both models give every test query the same value."""
        folds = range(1, FOLDS + 1)
        values = [[self.runs[method, seed, fold]["values"][metric] for fold in folds] for method in (one, other)]
        return sum(first == second for first, second in zip(*values, strict=True))


def verdict(pair: dict[str, Any]) -> str:
    if not pair["counterparts"]:
        return ""
    lowest, highest = min(pair["low"], pair["low by run"]), max(pair["high"], pair["high by run"])
    if pair["seeds"] < ENOUGH:
        return f"too few seeds to tell: {ENOUGH} are needed"
    return "within noise" if lowest > -NOISE and highest < NOISE else "NOT WITHIN NOISE"


def show(means: list[dict[str, Any]], pairs: list[dict[str, Any]], queries: int) -> None:
    """Print the tables of docs/quality.md."""
    print(f"\n{queries} queries with relevant documents\n")
    print("| objective | seeds | NDCG@5 | NDCG@10 | NDCG@5 by seed | rounds |\n|---|---|---|---|---|---|")
    for one in means:
        spread = f"{min(one['ndcg@5 by seed']):.4f} to {max(one['ndcg@5 by seed']):.4f}" if one["seeds"] > 1 else ""
        figures = f"{one['ndcg@5']:.4f} | {one['ndcg@10']:.4f} | {spread} | {one['rounds']:.0f}"
        print(f"| `{one['method']}` | {one['seeds']} | {figures} |")
    print("\n| ours | against | metric | seeds | difference | 95% by query | p | 95% by run | |\n" + "|---" * 9 + "|")
    for pair in pairs:
        by_query, by_run = (f"{pair[f'low{how}']:+.4f} to {pair[f'high{how}']:+.4f}" for how in ("", " by run"))
        names = f"`{pair['system']}` | `{pair['against']}` | {pair['metric'].upper()} | {pair['seeds']}"
        figures = f"{pair['difference']:+.4f} | {by_query} | {pair['p_fisher']:.3f} | {by_run}"
        print(f"| {names} | {figures} | {verdict(pair)} |")
    print("\np: Fisher's randomization test by query, two-sided, no correction for many comparisons\n")
    for pair in pairs:
        if pair["counterparts"]:
            names = f"{pair['system']} less {pair['against']}, {pair['metric'].upper()}"
            print(f"{names}, seed by seed: {', '.join(f'{gap:+.4f}' for gap in pair['by seed'])};", end=" ")
            print(f"the same for every test query in {pair['same']} of {FOLDS * pair['seeds']} runs")


def main() -> int:
    parser = harness.arguments(__doc__, out="results/quality.json", processes=min(2, os.cpu_count() or 1))
    parser.add_argument("folder", nargs="?", help="where the data are; by default where rw.load_dataset looks")
    parser.add_argument("--data", choices=("mq2008", "mq2007"), default="mq2008")
    parser.add_argument("--seeds", type=int, default=5, help="of counterparts: ours and the native one of its name")
    parser.add_argument("--other-seeds", type=int, default=1, help="of all other methods")
    parser.add_argument("--methods", nargs="+", default=METHODS, help="expressions of objectives, or native:…")
    parser.add_argument("--threads", type=int, default=1, help="of each process; more processes are quicker than these")
    options = parser.parse_args()
    folder = harness.data_folder(options.folder)
    if (missing := harness.missing_data(folder, [options.data])) is not None:
        print(missing)
        return 2 if options.folder else 0  # without a folder there is nothing to measure, and nothing is wrong
    paired = {*COUNTERPARTS, *COUNTERPARTS.values()}
    counts = {method: options.seeds if method in paired else options.other_seeds for method in options.methods}
    wanted = [
        Run(folder, options.data, method, seed, fold, options.threads)
        for seed in range(max(counts.values()))
        for fold in range(1, FOLDS + 1)
        for method, count in counts.items()
        if seed < count
    ]
    results = Results(harness.Cells[Run](options.out, SETTINGS).measure(wanted, measure, options.processes))
    means, pairs = list(results.means()), list(results.pairs())
    scored = results.evaluation(options.methods[0], [0]).scored[METRICS[0]]
    about = ", ".join(f"{name} {text}" for name, text in versions().items())
    print(f"{options.data}, {FOLDS} folds, {', '.join(f'{k} {v}' for k, v in SETTINGS.items())}\n{about}")
    show(means, pairs, scored)
    summary = {"data": options.data, "settings": SETTINGS, "versions": versions(), "means": means, "pairs": pairs}
    write(options.out, json.dumps(summary, indent=1))
    say(f"\nwritten: {options.out}")
    missed = [pair for pair in pairs if verdict(pair).startswith("NOT")]
    return harness.MISSED if missed else 0


if __name__ == "__main__":
    sys.exit(main())
