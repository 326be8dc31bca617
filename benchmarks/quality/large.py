"""Which settings for large data: single models of trees and nets on synthetic sets of 180,000 documents and more.

    python -m benchmarks.quality.large [RANKER …] [--data large larger largest] [--folds 1] [--processes 2]

A RANKER is an expression, such as ``lightgbm(xendcg, leaves=255)``; by default leaves, learning rate and sampling are
varied around the recipe that AutoRanker has for large data. Training stops by the validation part of each fold, by
which settings are to be chosen; the table has its NDCG@10 and that of test queries, the difference to the first ranker
with a 95% t-interval over test queries, rounds, and CPU seconds of one thread.
"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

import rankwise as rw
from benchmarks import harness
from benchmarks.harness import LARGE, parts

METRIC = "ndcg@10"
_BASE = "rounds=1000, min_documents=50, smoothing=5"
_SAMPLED = "feature_fraction=0.5, bagging_fraction=0.7, bagging_freq=1"
RANKERS = (
    "lightgbm(lambdarank)",
    *(
        f"lightgbm(lambdarank, {_BASE}, learning_rate={rate}, leaves={leaves})"
        for rate, leaves in ((0.1, 31), (0.1, 63), (0.1, 127), (0.1, 255), (0.05, 63), (0.05, 127), (0.05, 255))
    ),
    f"lightgbm(lambdarank, {_BASE}, learning_rate=0.1, leaves=63, {_SAMPLED})",
    f"lightgbm(lambdarank, {_BASE}, learning_rate=0.1, leaves=63, {_SAMPLED}, extra_trees=True)",
    f"lightgbm(xendcg, {_BASE}, learning_rate=0.1, leaves=63)",
    f"lightgbm(xendcg, {_BASE}, learning_rate=0.1, leaves=63, {_SAMPLED})",
    f"lightgbm(xendcg, {_BASE}, learning_rate=0.05, leaves=63)",
    f"lightgbm(xendcg, {_BASE}, learning_rate=0.1, leaves=255)",
    f"lightgbm(softmax_ce, {_BASE}, learning_rate=0.1, leaves=63)",
    f"xgboost(lambdarank, {_BASE}, learning_rate=0.1, leaves=63)",
    f"xgboost(lambdarank, {_BASE}, learning_rate=0.05, leaves=127)",
    f"xgboost(xendcg, {_BASE}, learning_rate=0.1, leaves=63)",
    'neural(lambdarank, transform="quantile+query")',
)


@dataclass(frozen=True)
class Cell:
    """One model: a ranker on one fold."""

    ranker: str
    data: str
    fold: int


def measure(cell: Cell) -> dict[str, Any]:
    """Train a model, and return its values, rounds and seconds."""
    train, valid, test = parts("", cell.data, cell.fold)
    began = time.process_time()
    ranker: Any = rw.ranker(cell.ranker).set_params(metrics=(METRIC,), threads=1, progress=False)
    ranker.fit(train, valid)
    seconds = time.process_time() - began
    values = harness.by_query(rw.evaluate(ranker, test, [METRIC]), [METRIC])[METRIC]
    return {"valid": ranker.score(valid), "test": values, "rounds": ranker.best_round_, "seconds": seconds}


def table(outcomes: dict[Cell, Any], rankers: list[str], data: str) -> str:
    """Return the rows of one data set."""

    def of(ranker: str, key: str) -> list[Any]:
        return [outcome[key] for cell, outcome in outcomes.items() if (cell.ranker, cell.data) == (ranker, data)]

    tests = {ranker: np.concatenate(of(ranker, "test")).astype(float) for ranker in rankers}
    rows = [
        [
            f"`{ranker}`",
            f"{np.mean(of(ranker, 'valid')):.4f}",
            f"{np.nanmean(tests[ranker]):.4f}",
            "" if ranker == rankers[0] else harness.difference(tests[ranker] - tests[rankers[0]]),
            f"{np.mean(of(ranker, 'rounds')):.0f}",
            f"{np.mean(of(ranker, 'seconds')):.0f}",
        ]
        for ranker in rankers
    ]
    return harness.markdown([data, "validation", "test", "less the first", "rounds", "CPU seconds"], rows)


def main() -> None:
    parser = harness.arguments(__doc__, out="results/large.json")
    parser.add_argument("rankers", nargs="*", default=list(RANKERS))
    parser.add_argument("--data", nargs="+", choices=LARGE, default=["large"])
    parser.add_argument("--folds", type=int, default=1, help="of five, the first so many")
    options = parser.parse_args()
    cells = [
        Cell(ranker, data, fold)
        for data in options.data
        for fold in range(1, options.folds + 1)
        for ranker in options.rankers
    ]
    outcomes = harness.Cells[Cell](options.out).measure(cells, measure, options.processes)
    for data in options.data:
        print("\n" + table(outcomes, options.rankers, data))


if __name__ == "__main__":
    main()
