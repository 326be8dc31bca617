"""Which curvature trains trees best: LightGBM on MQ2008's five folds, with every treatment of each objective.

python benchmarks/curvature.py FOLDER_OF_MQ2008 [OBJECTIVE …] [--seed 0] [--rounds 300] [--threads 1]

OBJECTIVE is the expression of an objective that takes ``curvature``, by default plrank and the smooth metrics. Two
learning rates are tried for each treatment and the better one on the validation parts is shown; test figures decide
nothing.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

import rankwise as rw

TREATMENTS = ("gradient", "floored", "absolute", "ones", "raw")
METRICS = ("ndcg@5", "ndcg@10")


def with_curvature(text: str, treatment: str) -> object:
    """The objective with a treatment; ``raw`` is its own word for none."""
    import dataclasses

    plain: Any = rw.objective(text)
    word = "estimated" if plain.estimator else "exact"
    return dataclasses.replace(plain, curvature=word if treatment == "raw" else treatment)


def study(folds: list[Any], objective: Any, rate: float, options: argparse.Namespace) -> Any:
    """Mean over folds of validation ndcg@5, test ndcg@5 and @10, and the number of trees."""
    rows = []
    for train, valid, test in folds:
        ranker = rw.LightGBMRanker(
            objective, rounds=options.rounds, learning_rate=rate, leaves=15, min_documents=20, patience=40,
            metrics=METRICS[:1], seed=options.seed, threads=options.threads, min_sum_hessian_in_leaf=1e-6,
        ).fit(train, valid)  # fmt: skip
        found = rw.evaluate(ranker, test, METRICS).mean
        rows.append([ranker.history_["ndcg@5"][ranker.best_round_ - 1], *found.values(), ranker.best_round_])
    return np.mean(rows, axis=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("objectives", nargs="*", default=["plrank", "approx_ndcg", "smooth_ap", "smooth_rbp"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    folds = [rw.load_dataset("mq2008", fold=k, folder=options.folder) for k in range(1, 6)]
    print(f"{'objective':<14} {'curvature':<10} {'rate':>5}  valid@5  test@5 test@10  trees   seconds")
    for text in options.objectives:
        for treatment in TREATMENTS:
            objective, start = with_curvature(text, treatment), time.perf_counter()
            rates = (1.0, 3.0) if treatment == "ones" else (0.05, 0.15)
            results = [(study(folds, objective, rate, options), rate) for rate in rates]
            best, rate = max(results, key=lambda pair: pair[0][0])
            row = f"{best[0]:.4f}  {best[1]:.4f}  {best[2]:.4f}  {best[3]:5.0f}"
            print(f"{text:<14} {treatment:<10} {rate:5g}   {row}  {time.perf_counter() - start:7.1f}", flush=True)


if __name__ == "__main__":
    main()
