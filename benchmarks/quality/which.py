"""Which objective for which data: the default LightGBMRanker with each objective on real and synthetic sets.

    python -m benchmarks.quality.which FOLDER [OBJECTIVE …] [--data mq2008 few many …] [--folds 5] [--seeds 1]
        [--processes 2]
    python -m benchmarks.quality.which FOLDER lightgbm "lightgbm(transform='raw+query')" --data mq2008 tmdb …

FOLDER is that of `benchmarks/README.md`; synthetic kinds are made (`benchmarks/harness.py` has them). Training stops by
the validation part of each fold. The tables hold NDCG@10 of test queries, and the differences to lambdarank, paired by
query, with 95% t-intervals; values of a query are averaged over seeds first, and seeds after the first also shuffle
its documents in training. Objectives are those that rank by NDCG, with their defaults; any ranker may stand there.
"""

from dataclasses import dataclass

import numpy as np

import rankwise as rw
from benchmarks import harness
from benchmarks.harness import KINDS, REAL, parts

OBJECTIVES = (
    "lambdarank",
    "xendcg",
    "listnet",
    "softmax_ce",
    "ranknet",
    "yeti",
    "yeti(metric=classic)",
    "plrank",
    "plrank + softmax_ce",
    "approx_ndcg",
    "stochastic(lambdarank, scale=0.25)",
)
METRIC = "ndcg@10"
OTHER = ("tmdb", "numpy-scipy")


@dataclass(frozen=True)
class Cell:
    """One model: an objective, or a ranker, on one fold."""

    folder: str
    objective: str
    data: str
    fold: int
    seed: int = 0


def measure(cell: Cell) -> list[float | None]:
    """Train a model, and return NDCG@10 of its test queries."""
    train, valid, test = parts(cell.folder, cell.data, cell.fold)
    ranker = rw.ranker(cell.objective).set_params(metrics=(METRIC,), seed=cell.seed, threads=1, progress=False)
    ranker.fit(harness.shuffled(train, cell.seed), valid)
    return harness.by_query(rw.evaluate(ranker, test, [METRIC]), [METRIC])[METRIC]


def main() -> None:
    parser = harness.arguments(__doc__, out="results/which.json")
    parser.add_argument("folder")
    parser.add_argument("objectives", nargs="*", default=OBJECTIVES)
    parser.add_argument("--data", nargs="+", choices=(*REAL, *OTHER, *KINDS), default=[*REAL, *KINDS])
    parser.add_argument("--folds", type=int, default=harness.FOLDS, help="of the five outer ones, the first so many")
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    wanted = [
        Cell(options.folder, objective, data, fold, seed)
        for data in options.data
        for fold in range(1, options.folds + 1)
        for objective in options.objectives
        for seed in range(options.seeds)
    ]
    found: dict[tuple[str, str], dict[int, list[np.ndarray]]] = {}
    for cell, outcome in harness.Cells[Cell](options.out).measure(wanted, measure, options.processes).items():
        seeds = found.setdefault((cell.objective, cell.data), {})
        seeds.setdefault(cell.fold, []).append(np.array(outcome, float))
    values = {key: np.concatenate([np.mean(one, axis=0) for one in folds.values()]) for key, folds in found.items()}
    print(harness.tables_by_data(values, options.objectives[0]))


if __name__ == "__main__":
    main()
