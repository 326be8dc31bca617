"""How long training takes with our objectives, beside each library trained alone with its own.

    python -m benchmarks.speed.trees [--quick] [--libraries lightgbm xgboost catboost] [--threads 2]

Everyone trains on the same MSLR-like lists of 136 features, with the same number of rounds and leaves. Ours is ``fit``
of a ranker; theirs is ``lightgbm.train``, ``xgboost.train`` and ``CatBoost.fit`` with nothing of ours around it. Both
start from the same arrays and sort features into bins. Runs take turns, so that a busy machine slows all alike, and
medians are compared. Beside them stand the quickest runs and the CPU time of the least busy run, which tell more
where the machine has other work to do; with ``--threads 1`` no thread waits for another, and CPU time is exact.

A round is the median of all rounds of all turns, in CPU time, between one call of our objective and the next or
one callback of the library and the next. Our objective is timed inside the training; theirs cannot be, and is what its
round takes longer than the rest of ours, so a difference of two noisy numbers.

CatBoost takes no objective that sees whole queries, so ours grow its trees one by one from outside.
"""

import argparse
import importlib.util
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import rankwise as rw
from benchmarks.harness import MISSED, Times, Verdicts

FEATURES = 136
LEAVES = 32
RATE = 0.05
LEAST = 20  # documents in a leaf


class Rounds:
    """What rounds take: the CPU time between marks, one of which every round sets."""

    def __init__(self) -> None:
        self.taken: list[float] = []
        self.last = np.nan

    def start(self) -> None:
        self.last = np.nan

    def mark(self) -> None:
        now = time.process_time()
        if not np.isnan(self.last):
            self.taken.append(now - self.last)
        self.last = now

    def after_iteration(self, *_: Any) -> bool:
        """As CatBoost calls it."""
        self.mark()
        return True

    def median(self) -> float:
        return 1e3 * float(np.median(self.taken))


@dataclass(frozen=True, repr=False)
class Timed(rw.Objective):
    """An objective that knows how long its calls took, and the rounds between them."""

    inner: rw.Objective
    rounds: Rounds = field(compare=False)
    taken: list[float] = field(default_factory=list, compare=False)

    @property
    def children(self) -> tuple[rw.Objective, ...]:
        return (self.inner,)

    def prepare(self, labels: Any, offsets: Any, **documents: Any) -> rw.objectives.Prepared:
        inner = self.inner.prepare(labels, offsets, **documents)
        return TimedPrepared(lists=inner.lists, objective=self, inner=inner)


@dataclass(frozen=True, kw_only=True, eq=False)
class TimedPrepared(rw.objectives.Prepared):
    objective: Timed
    inner: rw.objectives.Prepared

    def fill(self, scores: Any, stream: Any, out: rw.objectives.Derivatives) -> None:
        self.objective.rounds.mark()
        start = time.process_time()
        self.inner.fill(scores, stream, out)
        self.objective.taken.append(time.process_time() - start)


@dataclass(frozen=True)
class Match:
    """Ours against theirs in one library."""

    library: str
    ours: str
    theirs: str
    most: float | None
    """The ratio ours / theirs that is wanted; None: it is what it is."""


MATCHES = (
    Match("lightgbm", "xendcg", "rank_xendcg", 1.0),
    Match("lightgbm", "lambdarank", "lambdarank", 1.0),
    Match("xgboost", "lambdarank", "rank:ndcg", None),
    Match("catboost", "xendcg", "YetiRank", None),
)


def train_lightgbm(data: rw.RankingDataset, objective: str, rounds: int, threads: int, each: Rounds) -> float:
    import lightgbm

    parameters = {
        "objective": objective,
        "learning_rate": RATE,
        "num_leaves": LEAVES,
        "min_data_in_leaf": LEAST,
        "num_threads": threads,
        "force_col_wise": True,
        "verbosity": -1,
    }
    matrix = lightgbm.Dataset(data.features, data.labels, group=data.sizes, params=parameters)
    return leaves_of_lightgbm(lightgbm.train(parameters, matrix, rounds, callbacks=[lambda _: each.mark()]))


def leaves_of_lightgbm(booster: Any) -> float:
    text = booster.model_to_string()
    return float(np.mean([int(line[11:]) for line in text.split("\n") if line.startswith("num_leaves=")]))


def train_xgboost(data: rw.RankingDataset, objective: str, rounds: int, threads: int, each: Rounds) -> float:
    import xgboost

    parameters = {
        "objective": objective,
        "learning_rate": RATE,
        "tree_method": "hist",
        "grow_policy": "lossguide",
        "max_depth": 0,
        "max_leaves": LEAVES,
        "nthread": threads,
        "disable_default_eval_metric": 1,
        "verbosity": 0,
    }
    matrix = xgboost.QuantileDMatrix(data.features, data.labels, group=data.sizes, nthread=threads)

    class Mark(xgboost.callback.TrainingCallback):
        def after_iteration(self, *_: Any) -> bool:
            each.mark()
            return False

    return leaves_of_xgboost(xgboost.train(parameters, matrix, rounds, callbacks=[Mark()]))


def leaves_of_xgboost(booster: Any) -> float:
    return float(np.mean([tree.count("leaf=") for tree in booster.get_dump()]))


def train_catboost(data: rw.RankingDataset, objective: str, rounds: int, threads: int, each: Rounds) -> float:
    import catboost

    queries = np.repeat(np.arange(data.n_queries), data.sizes)
    pool = catboost.Pool(data.features, data.labels, group_id=queries, thread_count=threads)
    model = catboost.CatBoost(
        {
            "loss_function": objective,
            "learning_rate": RATE,
            "depth": LEAVES.bit_length() - 1,
            "iterations": rounds,
            "boosting_type": "Plain",
            "thread_count": threads,
            "logging_level": "Silent",
            "allow_writing_files": False,
        }
    )
    return leaves_of_catboost(model.fit(pool, callbacks=[each]))


def leaves_of_catboost(model: Any) -> float:
    return float(np.mean(model.get_tree_leaf_counts()))


THEIRS: dict[str, Callable[[rw.RankingDataset, str, int, int, Rounds], float]] = {
    "lightgbm": train_lightgbm,
    "xgboost": train_xgboost,
    "catboost": train_catboost,
}
COUNTS: dict[str, Callable[[Any], float]] = {
    "lightgbm": leaves_of_lightgbm,
    "xgboost": leaves_of_xgboost,
    "catboost": leaves_of_catboost,
}


def ranker(match: Match, objective: Any, rounds: int, threads: int) -> Any:
    kinds = {"lightgbm": "LightGBMRanker", "xgboost": "XGBoostRanker", "catboost": "CatBoostRanker"}
    settings = {"learning_rate": RATE, "leaves": LEAVES, "min_documents": LEAST}
    return getattr(rw, kinds[match.library])(objective, rounds=rounds, threads=threads, **settings)


def race(match: Match, data: rw.RankingDataset, rounds: int, turns: int, threads: int, verdicts: Verdicts) -> None:
    marks = {"ours": Rounds(), "theirs": Rounds()}
    objective = Timed(rw.objective(match.ours), marks["ours"])
    leaves: dict[str, float] = {}

    def ours(number: int = rounds) -> None:
        marks["ours"].start()
        model = ranker(match, objective, number, threads).fit(data)
        leaves["ours"] = COUNTS[match.library](model.model_.booster)

    def theirs(number: int = rounds) -> None:
        marks["theirs"].start()
        leaves["theirs"] = THEIRS[match.library](data, match.theirs, number, threads, marks["theirs"])

    ours(1)  # what is imported and compiled on first use
    theirs(1)
    objective.taken.clear()
    times = Times({"ours": ours, "theirs": theirs}, turns, warm=0)
    whole = times.ratios("ours", "theirs")
    full, quickest, busy = times.median, times.quickest, times.cpu
    each = {who: kept.median() for who, kept in marks.items()}
    alone = {"ours": 1e3 * float(np.median(objective.taken))}
    alone["theirs"] = each["theirs"] - (each["ours"] - alone["ours"])
    name = f"{match.library}: {match.ours} / {match.theirs}"
    target = "no target" if match.most is None else verdicts.most(name, whole[0], match.most)
    print(f"\n{name}: {rounds} rounds on {data.n_docs:,} documents, {turns} turns")
    head = f"{'':<24}{'training, s':>12}{'quickest':>10}{'CPU':>11}"
    print(f"{head}{'round, ms':>11}{'objective':>11}{'its share':>11}{'leaves':>8}")
    for who, title in (("ours", f"rankwise, {match.ours}"), ("theirs", f"alone, {match.theirs}")):
        about = "~" if who == "theirs" else ""
        part, share = f"{about}{alone[who]:.1f}", f"{about}{alone[who] / each[who]:.0%}"
        print(
            f"{title:<24}{full[who]:>12.2f}{quickest[who]:>10.2f}{busy[who]:>11.2f}{each[who]:>11.1f}"
            f"{part:>11}{share:>11}{leaves[who]:>8.1f}"
        )
    ratios = "".join(f"{one:>{width}.2f}" for one, width in zip(whole, (12, 10, 11), strict=True))
    print(f"{'ratio ours / theirs':<24}{ratios}{each['ours'] / each['theirs']:>11.2f}   {target}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--libraries", nargs="+", choices=tuple(THEIRS), default=tuple(THEIRS))
    parser.add_argument("--queries", type=int, help="1,000 by default, 300 with --quick")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="under a minute: less of everything")
    options = parser.parse_args()
    data = rw.synthetic(options.queries or (300 if options.quick else 1_000), FEATURES, seed=0)
    print(f"{data}, {options.threads} threads, {LEAVES} leaves")
    rounds = {"lightgbm": 30, "xgboost": 20, "catboost": 10}
    turns = {"lightgbm": 5, "xgboost": 3, "catboost": 3}
    verdicts = Verdicts()
    for library in options.libraries:
        if importlib.util.find_spec(library) is None:
            print(f"\n{library} is not installed (pip install 'rankwise[{library}]'), left out")
            continue
        for match in MATCHES:
            if match.library == library:
                few = 3 if options.quick else turns[library]
                race(match, data, rounds[library], few, options.threads, verdicts)
    for missed in verdicts.missed:
        print(f"MISSED {missed}")
    return MISSED if verdicts.missed else 0


if __name__ == "__main__":
    sys.exit(main())
