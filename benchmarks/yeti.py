"""Our YetiLoss beside CatBoost's YetiRank: how fast one is, and how well models rank that were trained with each.

    python benchmarks/yeti.py speed [--queries 2000] [--iterations 20] [--turns 5] [--threads 1]
    python benchmarks/yeti.py quality FOLDER [--seeds 5] [--folds 5] [--rounds 600] [--processes 2] [--out yeti.csv]

``speed``: one call of the prepared objective, value, gradient and Hessian, against one iteration of CatBoost with trees
of two leaves on a single feature, where little is left but its loss; and against that iteration less one of RMSE, which
grows the same trees. Lists are those of `benchmarks/objectives.py`; CatBoost keeps a matrix of pairs of each list.
Contestants take turns, and only ratios of one run mean something.

``quality``: the folds and settings of `benchmarks/quality.py` on MQ2008, NDCG@10 of the test queries, with trees of
CatBoost and of LightGBM. Shown are differences to the first method of each library, paired by fold and seed, with a 95%
interval over folds and seeds. CatBoost's own YetiRank grows every tree on a sample of the documents, which ours
does not.
"""

import argparse
import itertools
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

import paired
import rankwise as rw
from peers import Lists, make_lists
from quality import FOLDS, SETTINGS, parts, shuffled

METRIC = "ndcg@10"
METHODS = {
    "catboost": (
        "native:YetiRank", "yeti(metric=classic)",
        "native:YetiRank:mode=NDCG", "yeti(gain=linear)", "yeti", "lambdarank",
    ),
    "lightgbm": ("lambdarank", "yeti", "yeti(gain=linear)", "yeti(metric=classic)", "native:lambdarank"),
}  # fmt: skip
RANKERS = {"catboost": rw.CatBoostRanker, "lightgbm": rw.LightGBMRanker}
SPEED = {
    "YetiRank": "yeti(metric=classic)",
    "YetiRank:mode=NDCG": "yeti(gain=linear)",
    "YetiRank:mode=MAP": "yeti(metric=map)",
    "YetiRank:mode=MRR": "yeti(metric=mrr)",
}
Job = tuple[str, str, str, int, int, int]


class Gaps:
    """The seconds between the ends of CatBoost's iterations."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def after_iteration(self, _: Any) -> bool:
        """Note the time; True lets it go on."""
        self.ends.append(time.perf_counter())
        return True

    def median(self) -> float:
        """The typical iteration; the first is no gap."""
        return statistics.median(end - start for start, end in itertools.pairwise(self.ends))


def catboost_iteration(lists: Lists, loss: str, iterations: int, threads: int) -> float:
    """Seconds of an iteration of CatBoost with two leaves."""
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
    """Seconds of a call of the prepared objective."""
    scores, labels, offsets = lists
    prepared = rw.objective(text).prepare(labels, offsets)
    taken = []
    for number in range(calls + 1):
        start = time.perf_counter()
        prepared(scores, rw.Stream(0, number))
        taken.append(time.perf_counter() - start)
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


def measure(job: Job) -> float:
    """Train one model; give its NDCG on the test part."""
    folder, library, method, seed, fold, rounds = job
    train, valid, test = parts(folder, "mq2008", fold)
    settings: dict[str, Any] = {**SETTINGS, "rounds": rounds, "metrics": [METRIC], "seed": seed, "threads": 1}
    model = RANKERS[library](method, progress=False, **settings).fit(shuffled(train, seed), valid)
    return float(rw.evaluate(model, test, [METRIC]).mean[METRIC])


def quality(args: argparse.Namespace) -> None:
    runs = itertools.product(range(args.seeds), range(1, args.folds + 1), METHODS)
    jobs: list[Job] = [
        (args.folder, library, method, seed, fold, args.rounds)
        for seed, fold, library in runs
        for method in METHODS[library]
    ]
    values = list(paired.measured(jobs, measure, args.processes, args.out))
    for library, methods in METHODS.items():
        results: list[paired.Result] = [
            ((library,), method, (seed, fold), value)
            for (_, where, method, seed, fold, _), value in zip(jobs, values, strict=True)
            if where == library
        ]
        print(f"\n{paired.table(results, ('trees of',), methods[0])}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    timed = commands.add_parser("speed")
    timed.add_argument("--queries", type=int, default=2_000)
    timed.add_argument("--iterations", type=int, default=20)
    timed.add_argument("--turns", type=int, default=5)
    timed.add_argument("--threads", type=int, default=1)
    timed.set_defaults(run=speed)
    ranked = commands.add_parser("quality")
    ranked.add_argument("folder")
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
