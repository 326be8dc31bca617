"""Which curvature trains trees best: LightGBM on MQ2008's five folds, with every treatment of each objective.

    python -m benchmarks.quality.curvature FOLDER [OBJECTIVE …] [--seeds 3] [--processes 2] [--out curvature.csv]

FOLDER is that of `benchmarks/README.md`. OBJECTIVE is the expression of an objective that takes ``curvature``, by
default plrank and the smooth metrics. Two learning rates are tried for each treatment and the better one on the
validation parts is shown; test figures decide nothing. Training stops by the validation parts, too.

The second table holds the paired differences to ``gradient`` in validation NDCG@5, with 95% t-intervals over seeds and
folds, which share queries.
"""

import dataclasses
import itertools
from typing import Any

import numpy as np

import rankwise as rw
from benchmarks import harness
from benchmarks.harness import FOLDS, parts

TREATMENTS = ("gradient", "floored", "absolute", "ones", "raw")
METRICS = ("ndcg@5", "ndcg@10")
Job = tuple[str, int, int, int, str, str, float]
Found = tuple[float, float, float, float]


def rates(treatment: str) -> tuple[float, float]:
    return (1.0, 3.0) if treatment == "ones" else (0.05, 0.15)


def with_curvature(text: str, treatment: str) -> Any:
    """The objective with a treatment; ``raw`` is its own word for none."""
    plain: Any = rw.objective(text)
    word = "estimated" if plain.estimator else "exact"
    return dataclasses.replace(plain, curvature=word if treatment == "raw" else treatment)


def measure(job: Job) -> Found:
    """Train a model; give its validation NDCG@5, its test NDCG@5 and @10, and its number of trees."""
    folder, rounds, seed, fold, text, treatment, rate = job
    train, valid, test = parts(folder, "mq2008", fold)
    ranker = rw.LightGBMRanker(
        with_curvature(text, treatment), rounds=rounds, learning_rate=rate, leaves=15, min_documents=20, patience=40,
        metrics=METRICS[:1], seed=seed, threads=1, progress=False, min_sum_hessian_in_leaf=1e-6,
    ).fit(train, valid)  # fmt: skip
    found = rw.evaluate(ranker, test, METRICS).mean
    return ranker.history_["ndcg@5"][ranker.best_round_ - 1], found["ndcg@5"], found["ndcg@10"], ranker.best_round_


def main() -> None:
    parser = harness.arguments(__doc__, out="curvature.csv")
    parser.add_argument("folder")
    parser.add_argument("objectives", nargs="*", default=["plrank", "approx_ndcg", "smooth_ap", "smooth_rbp"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=300)
    args = parser.parse_args()
    trials = list(itertools.product(range(args.seeds), range(1, FOLDS + 1)))
    settings = [(text, how, rate) for text in args.objectives for how in TREATMENTS for rate in rates(how)]
    jobs: list[Job] = [(args.folder, args.rounds, *trial, *setting) for trial in trials for setting in settings]
    rows = zip(jobs, harness.measured(jobs, measure, args.processes, args.out), strict=True)
    found: dict[tuple[str, str, float], list[Found]] = {setting: [] for setting in settings}
    for job, values in rows:
        found[job[4:]].append(values)
    measures = ("validation NDCG@5", "test NDCG@5", "test NDCG@10", "trees")
    print("\n" + harness.markdown(["objective", "curvature", "rate", *measures], []))
    differences: list[harness.Result] = []
    for text, how in itertools.product(args.objectives, TREATMENTS):
        rate = max(rates(how), key=lambda rate: np.mean([one[0] for one in found[text, how, rate]]))
        means = np.mean(found[text, how, rate], axis=0)
        print(f"| `{text}` | {how} | {rate:g} | {' | '.join(f'{mean:.4f}' for mean in means[:3])} | {means[3]:.0f} |")
        valid = [one[0] for one in found[text, how, rate]]
        differences += [((f"`{text}`",), how, trial, value) for trial, value in zip(trials, valid, strict=True)]
    print("\n" + harness.paired_table(differences, ("objective",), "gradient"))


if __name__ == "__main__":
    main()
