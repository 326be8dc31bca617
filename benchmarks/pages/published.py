"""rankwise beside published numbers on MQ2008: LETOR's measures on its five official folds, CatBoost's on the first.

    python -m benchmarks.pages.published FOLDER [--seconds 30] [--folds 5] [--out results/published.json]

FOLDER holds MQ2008 as its archive unpacks. As LETOR asks, the test part decides nothing, and only the training part is
learned from: the default is stopped by the validation part, bags by their own folds, and AutoRanker chooses within the
training part. Each method and fold is a cell, with one thread; AutoRanker has ``--seconds`` of CPU time for each fold.

Values are those of ``rw.metric(…, conventions="letor")``; means are over all queries, as LETOR's are over folds of as
many queries. CatBoost's measure has ties in the worst order, and 1 for queries without relevant documents.
"""

import time
from argparse import Namespace
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np

import rankwise as rw
from benchmarks import harness
from benchmarks.harness import (
    FOLDS,
    Cells,
    data_folder,
    difference,
    half_width,
    heading,
    markdown,
    missing_data,
    parts,
)

LETOR = ("ap", "ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10", "mean_ndcg", "precision@1", "precision@10")
TITLES = ("MAP", "NDCG@1", "NDCG@3", "NDCG@5", "NDCG@10", "MeanNDCG", "P@1", "P@10")
CATBOOST = "ndcg(ties=worst, empty=1)@10"
METHODS = {
    "default": "`LightGBMRanker()`",
    "bag": "a bag of it",
    "xendcg": "a bag of `xendcg`",
    "auto": "`AutoRanker`, {seconds:g} s",
}


@dataclass(frozen=True)
class Cell:
    """A method on a fold."""

    folder: str
    method: str
    fold: int
    seconds: float


def trained(cell: Cell, train: rw.RankingDataset, valid: rw.RankingDataset) -> Any:
    usual: dict[str, Any] = {"seed": 1, "threads": 1, "progress": False}
    if cell.method == "default":
        return rw.LightGBMRanker(**usual).fit(train, valid)
    if cell.method == "auto":
        with mock.patch("rankwise.wings.tuning.auto.budget.clock", time.process_time):
            return rw.AutoRanker(cell.seconds / 60, "ndcg@10", **usual).fit(train)
    objective = "lambdarank" if cell.method == "bag" else cell.method
    return rw.bagged(rw.LightGBMRanker(objective, **usual), FOLDS).fit(train)


def measure(cell: Cell) -> dict[str, Any]:
    train, valid, test = parts(cell.folder, "mq2008", cell.fold)
    began = time.process_time()
    scores = trained(cell, train, valid).predict(test)
    values = {name: rw.metric(name, conventions="letor").of(scores, test).tolist() for name in LETOR}
    catboost = rw.metric(CATBOOST).of(scores, test).tolist()
    return {"letor": values, "catboost": catboost, "seconds": time.process_time() - began}


def main(options: Namespace) -> None:
    cells = {
        (method, fold): Cell(data_folder(options.folder), method, fold, options.seconds if method == "auto" else 0.0)
        for method in METHODS
        for fold in range(1, options.folds + 1)
    }
    found = Cells[Cell](options.out).measure([*cells.values()], measure, options.processes)
    heading("LETOR's measures over the test queries of all folds")
    rows, small, default = [], [], None
    for method, title in METHODS.items():
        outcomes = [found[cells[method, fold]] for fold in range(1, options.folds + 1)]
        values = {name: np.concatenate([one["letor"][name] for one in outcomes]) for name in LETOR}
        title = title.format(seconds=options.seconds)
        means = [f"{values[name].mean():.4f}" for name in LETOR]
        default = values["ap"] if default is None else default
        less = "" if method == "default" else difference(values["ap"] - default)
        rows.append([title, f"{means[0]} ± {half_width(values['ap']):.4f}", less, *means[1:]])
        seconds = sum(one["seconds"] for one in outcomes) / len(outcomes)
        small.append([title, f"{np.mean(outcomes[0]['catboost']):.4f}", f"{seconds:.1f}"])
    print(markdown(["", TITLES[0], "less the default", *TITLES[1:]], rows))
    heading("CatBoost's measure over the test queries of fold 1, and CPU seconds of a fold")
    print(markdown(["", CATBOOST, "seconds"], small))


if __name__ == "__main__":
    parser = harness.arguments(__doc__, out="results/published.json", processes=1)
    parser.add_argument("folder", nargs="?", help="the data; by default where rw.load_dataset looks")
    parser.add_argument("--seconds", type=float, default=30.0, help="CPU seconds of AutoRanker for each fold")
    parser.add_argument("--folds", type=int, default=FOLDS, help="how many of the five folds")
    chosen = parser.parse_args()
    if problem := missing_data(data_folder(chosen.folder), ["mq2008"]):
        parser.error(problem)
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    main(chosen)
