"""Which curvature trains trees best: the default LightGBMRanker with every treatment of each objective's Hessian.

    python -m benchmarks.quality.curvature FOLDER [OBJECTIVE …] [--data mq2008 long noisy …] [--folds 5] [--processes 2]

FOLDER is that of `benchmarks/README.md`; synthetic kinds are made. OBJECTIVE is the expression of an objective that
takes ``curvature``, by default plrank and the smooth metrics. Training stops by the validation part of each fold. The
tables hold NDCG@10 of test queries, and the paired differences to ``gradient`` by query with 95% t-intervals.
"""

import dataclasses
from typing import Any

import numpy as np

import rankwise as rw
from benchmarks import harness
from benchmarks.harness import KINDS, REAL, parts

TREATMENTS = ("gradient", "floored", "absolute", "raw")
METRIC = "ndcg@10"


@dataclasses.dataclass(frozen=True)
class Cell:
    """One model: an objective with a treatment on one fold."""

    folder: str
    objective: str
    treatment: str
    data: str
    fold: int


def with_curvature(text: str, treatment: str) -> Any:
    """Return the objective with a treatment; ``raw`` is its own word for none."""
    plain: Any = rw.objective(text)
    word = "estimated" if plain.estimator else "exact"
    return dataclasses.replace(plain, curvature=word if treatment == "raw" else treatment)


def measure(cell: Cell) -> list[float | None]:
    """Train a model, and return NDCG@10 of its test queries."""
    train, valid, test = parts(cell.folder, cell.data, cell.fold)
    objective = with_curvature(cell.objective, cell.treatment)
    ranker = rw.LightGBMRanker(objective, metrics=(METRIC,), threads=1, progress=False).fit(train, valid)
    return harness.by_query(rw.evaluate(ranker, test, [METRIC]), [METRIC])[METRIC]


def main() -> None:
    parser = harness.arguments(__doc__, out="results/curvature.json")
    parser.add_argument("folder")
    parser.add_argument("objectives", nargs="*", default=["plrank", "approx_ndcg", "smooth_ap", "smooth_rbp"])
    parser.add_argument("--data", nargs="+", choices=(*REAL, *KINDS), default=["mq2008", "long", "noisy", "sparse"])
    parser.add_argument("--folds", type=int, default=harness.FOLDS, help="of the five outer ones, the first so many")
    options = parser.parse_args()
    wanted = [
        Cell(options.folder, objective, treatment, data, fold)
        for objective in options.objectives
        for data in options.data
        for fold in range(1, options.folds + 1)
        for treatment in TREATMENTS
    ]
    cells = harness.Cells[Cell](options.out).measure(wanted, measure, options.processes)
    for objective in options.objectives:
        values: dict[tuple[str, str], list[np.ndarray]] = {}
        for cell, outcome in cells.items():
            if cell.objective == objective:
                values.setdefault((cell.treatment, cell.data), []).append(np.array(outcome, float))
        print(f"\n{objective}\n")
        print(harness.tables_by_data({key: np.concatenate(folds) for key, folds in values.items()}, TREATMENTS[0]))


if __name__ == "__main__":
    main()
