"""Our YetiLoss beside CatBoost's YetiRank: how fast one is, and how well models rank that were trained with each.

    python -m benchmarks.quality.yeti speed [--queries 2000] [--iterations 20] [--turns 5] [--threads 1]
    python -m benchmarks.quality.yeti quality FOLDER [--seeds 5] [--folds 5] [--rounds 600] [--processes 2]
        [--out yeti.csv]
        [--data mq2008] [--only METHOD …]

``speed``: one call of the prepared objective, value, gradient and Hessian, against one iteration of CatBoost with
trees of two leaves on a single feature, where little is left but its loss; and against that iteration less one of
RMSE, which grows the same trees. Lists are those of `benchmarks/speed/objectives.py`; CatBoost keeps a matrix of
pairs of each list. Contestants take turns, and only ratios of one run mean something. Times are those of the CPU,
over all threads, which other work on the machine disturbs least.

``quality``: the folds and settings of `benchmarks/README.md`, NDCG@10 of the test queries, with trees of CatBoost, by
levels, and of LightGBM, by leaves. Shown are differences to CatBoost's YetiRank, paired by fold and seed, with a 95%
interval over folds and seeds. CatBoost's own losses grow every tree on a sample of the documents and choose splits with
some noise, which ours do not unless they are told to: ``sampled`` gives ours both, ``all documents`` takes both from
YetiRank. The last columns are the CPU time of a round, trees, validation and the way through Python included, and
within it that of one call of our objective: medians over trainings on one thread.
"""

import argparse
import itertools
import math
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

import rankwise as rw
from benchmarks import harness
from benchmarks.harness import FOLDS, SETTINGS, parts, shuffled
from benchmarks.speed.peers import Lists, make_lists

METRIC = "ndcg@10"
ALL, SOME = {"bootstrap_type": "No", "random_strength": 0.0}, {"subsample": 0.8, "random_strength": 1.0}
METHODS: dict[str, tuple[str, str, dict[str, Any]]] = {  # trees, objective, and how CatBoost samples
    "YetiRank": ("catboost", "native:YetiRank", {}),
    "YetiRank, all documents": ("catboost", "native:YetiRank", ALL),
    "yeti(metric=classic)": ("catboost", "yeti(metric=classic)", {}),
    "yeti(metric=classic), sampled": ("catboost", "yeti(metric=classic)", SOME),
    "YetiRank:mode=NDCG": ("catboost", "native:YetiRank:mode=NDCG", {}),
    "yeti(gain=linear)": ("catboost", "yeti(gain=linear)", {}),
    "yeti": ("catboost", "yeti", {}),
    "yeti, sampled": ("catboost", "yeti", SOME),
    "lambdarank": ("catboost", "lambdarank", {}),
    "LightGBM, lambdarank": ("lightgbm", "lambdarank", {}),
    "LightGBM, yeti": ("lightgbm", "yeti", {}),
    "LightGBM, yeti(gain=linear)": ("lightgbm", "yeti(gain=linear)", {}),
    "LightGBM, yeti(metric=classic)": ("lightgbm", "yeti(metric=classic)", {}),
    "LightGBM, native:lambdarank": ("lightgbm", "native:lambdarank", {}),
}
RANKERS = {"catboost": rw.CatBoostRanker, "lightgbm": rw.LightGBMRanker}
SPEED = {
    "YetiRank": "yeti(metric=classic)",
    "YetiRank:mode=NDCG": "yeti(gain=linear)",
    "YetiRank:mode=MAP": "yeti(metric=map)",
    "YetiRank:mode=MRR": "yeti(metric=mrr)",
}
REFERENCE = "YetiRank"
Job = tuple[str, str, str, int, int, int]


class Gaps:
    """The CPU seconds between the ends of CatBoost's iterations."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def after_iteration(self, _: Any) -> bool:
        """Note the time; True lets it go on."""
        self.ends.append(time.process_time())
        return True

    def median(self) -> float:
        """The typical iteration; the first is no gap."""
        return statistics.median(end - start for start, end in itertools.pairwise(self.ends))


def catboost_iteration(lists: Lists, loss: str, iterations: int, threads: int) -> float:
    """CPU seconds of an iteration of CatBoost with two leaves."""
    import catboost

    scores, labels, offsets = lists
    queries = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
    pool = catboost.Pool(scores[:, None], labels, group_id=queries, thread_count=threads)
    settings = {"depth": 1, "learning_rate": 0.1, "boosting_type": "Plain", "border_count": 2}
    quiet = {"logging_level": "Silent", "allow_writing_files": False, "thread_count": threads}
    gaps = Gaps()
    catboost.CatBoost({"loss_function": loss, "iterations": iterations, **settings, **quiet}).fit(
        pool, callbacks=[gaps]
    )
    return gaps.median()


def our_call(lists: Lists, text: str, calls: int) -> float:
    """CPU seconds of a call of the prepared objective."""
    scores, labels, offsets = lists
    prepared = rw.objective(text).prepare(labels, offsets)
    taken = []
    for number in range(calls + 1):
        start = time.process_time()
        prepared(scores, rw.Stream(0, number))
        taken.append(time.process_time() - start)
    return statistics.median(taken[1:])


def speed(args: argparse.Namespace) -> None:
    lists = make_lists(args.queries)
    print(
        f"{lists[0].size:,} documents in {args.queries:,} lists, medians of {args.turns} turns, threads: {args.threads}"
    )
    print(f"{'ours':24}{'CatBoost':22}{'ours ms':>9}{'iteration ms':>14}{'times':>8}{'less RMSE':>11}")
    for theirs, ours in SPEED.items():
        turns = []
        for _ in range(args.turns):
            with rw.use_threads(args.threads):
                own = our_call(lists, ours, args.iterations)
            whole, tree = (catboost_iteration(lists, loss, args.iterations, args.threads) for loss in (theirs, "RMSE"))
            turns.append((own, whole, whole / own, (whole - tree) / own))
        own, whole, ratio, alone = (statistics.median(column) for column in zip(*turns, strict=True))
        print(f"{ours:24}{theirs:22}{1e3 * own:9.1f}{1e3 * whole:14.1f}{ratio:8.1f}{alone:11.1f}", flush=True)


def measure(job: Job) -> tuple[float, float, float]:
    """Train one model; give its NDCG on the test part, and CPU milliseconds of a round and of a call of ours in it."""
    folder, data, name, seed, fold, rounds = job
    library, method, native = METHODS[name]
    train, valid, test = parts(folder, data, fold)
    train = shuffled(train, seed)
    settings: dict[str, Any] = {**SETTINGS, "rounds": rounds, "metrics": [METRIC], "seed": seed, "threads": 1, **native}
    model = RANKERS[library](method, progress=False, **settings)
    if not method.startswith("native:"):
        rw.objective(method)([0.0, 1.0], [0, 1], [0, 2], rw.Stream(0))  # compiled before the clock runs
    start = time.process_time()
    model.fit(train, valid)
    whole = (time.process_time() - start) / len(model.history_[METRIC])
    own = math.nan if method.startswith("native:") else our_cpu(model.predict(train), train, method)
    return float(rw.evaluate(model, test, [METRIC]).mean[METRIC]), 1e3 * whole, 1e3 * own


def our_cpu(scores: np.ndarray, data: rw.RankingDataset, text: str, calls: int = 5) -> float:
    """CPU seconds of a call on one thread, at the scores that training ended with."""
    prepared = rw.objective(text).prepare(data.labels, data.offsets)
    with rw.use_threads(1):
        prepared(scores, rw.Stream(0))
        start = time.process_time()
        for number in range(calls):
            prepared(scores, rw.Stream(0, number))
    return (time.process_time() - start) / calls


def quality(args: argparse.Namespace) -> None:
    names = list(dict.fromkeys([REFERENCE, *(args.only or METHODS)]))
    runs = itertools.product(args.data, range(args.seeds), range(1, args.folds + 1), names)
    jobs: list[Job] = [(args.folder, data, name, seed, fold, args.rounds) for data, seed, fold, name in runs]
    values = list(harness.measured(jobs, measure, args.processes, args.out))
    for data in args.data:
        header = ["trees and objective", "NDCG@10", "− YetiRank", "ms per round", "of it ours"]
        print(f"\n{data}\n\n{harness.markdown(header, [])}")
        found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in names}
        for (_, where, name, *_), value in zip(jobs, values, strict=True):
            if where == data:
                found[name].append(value)
        for name, rows in found.items():
            ndcg, whole, own = np.array(rows).T
            gaps = ndcg - np.array(found[REFERENCE])[:, 0]
            gap = "" if name == REFERENCE else harness.difference(gaps)
            calls = "" if np.isnan(own).any() else f"{np.median(own):.1f}"
            print(f"| {name} | {ndcg.mean():.4f} | {gap} | {np.median(whole):.1f} | {calls} |")


def main() -> None:
    parser = harness.arguments(__doc__)
    commands = parser.add_subparsers(required=True)
    timed = commands.add_parser("speed")
    timed.add_argument("--queries", type=int, default=2_000)
    timed.add_argument("--iterations", type=int, default=20)
    timed.add_argument("--turns", type=int, default=5)
    timed.add_argument("--threads", type=int, default=1)
    timed.set_defaults(run=speed)
    ranked = commands.add_parser("quality")
    ranked.add_argument("folder")
    ranked.add_argument("--data", nargs="+", default=["mq2008"], choices=["mq2008", "mq2007"])
    ranked.add_argument("--only", nargs="+", choices=list(METHODS))
    ranked.add_argument("--seeds", type=int, default=5)
    ranked.add_argument("--folds", type=int, default=FOLDS)
    ranked.add_argument("--rounds", type=int, default=SETTINGS["rounds"])
    ranked.add_argument("--processes", type=int, default=2)
    ranked.add_argument("--out", type=Path, default=Path("yeti.csv"))
    ranked.set_defaults(run=quality)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
