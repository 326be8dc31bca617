"""Which objective for which data: the default LightGBMRanker with each objective on real and synthetic sets.

    python -m benchmarks.quality.which FOLDER [OBJECTIVE …] [--data mq2008 few many …] [--folds 5] [--processes 2]

FOLDER is that of `benchmarks/README.md`; synthetic kinds are made (`benchmarks/harness.py` has them). Training stops by
the validation part of each fold. The tables hold NDCG@10 of test queries, and the differences to lambdarank, paired by
query, with 95% t-intervals. Objectives are those that rank by NDCG, with their defaults.
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


@dataclass(frozen=True)
class Cell:
    """One model: an objective on one fold."""

    folder: str
    objective: str
    data: str
    fold: int


def measure(cell: Cell) -> list[float | None]:
    """Train a model, and return NDCG@10 of its test queries."""
    train, valid, test = parts(cell.folder, cell.data, cell.fold)
    ranker = rw.LightGBMRanker(cell.objective, metrics=(METRIC,), threads=1, progress=False).fit(train, valid)
    return harness.by_query(rw.evaluate(ranker, test, [METRIC]), [METRIC])[METRIC]


def main() -> None:
    parser = harness.arguments(__doc__, out="results/which.json")
    parser.add_argument("folder")
    parser.add_argument("objectives", nargs="*", default=OBJECTIVES)
    parser.add_argument("--data", nargs="+", choices=(*REAL, *KINDS), default=[*REAL, *KINDS])
    parser.add_argument("--folds", type=int, default=harness.FOLDS, help="of the five outer ones, the first so many")
    options = parser.parse_args()
    wanted = [
        Cell(options.folder, objective, data, fold)
        for data in options.data
        for fold in range(1, options.folds + 1)
        for objective in options.objectives
    ]
    values: dict[tuple[str, str], list[np.ndarray]] = {}
    for cell, outcome in harness.Cells[Cell](options.out).measure(wanted, measure, options.processes).items():
        values.setdefault((cell.objective, cell.data), []).append(np.array(outcome, float))
    print(harness.tables_by_data({key: np.concatenate(folds) for key, folds in values.items()}, options.objectives[0]))


if __name__ == "__main__":
    main()
