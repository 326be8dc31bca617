"""How well models rank that learn smooth ranks of the Laplace kernel, beside those of the sigmoid.

    python -m benchmarks.quality.laplace FOLDER [--seeds 2] [--curvature floored] [--processes 2] [--out laplace.csv]
    python -m benchmarks.quality.laplace --tables laplace.csv

FOLDER is that of `benchmarks/README.md`: the five folds of MQ2008. Beside them stand synthetic sets, of lists of about
100 documents, another for each seed and fold. Trees (LightGBM) and nets learn `approx_ndcg` with either kernel and with
each of the steepnesses ETAS, which mean different things to the two. Everyone stops by NDCG@10 on the validation part,
and the steepness is chosen there too, for each kernel and fold by the mean over seeds. Test queries decide nothing:
shown is their mean NDCG@10, and the difference of Laplace from sigmoid with its 95% interval by query, each query
averaged over seeds first; with the chosen steepness, and with the default. Trees divide by the Hessian, which the two
kernels differ in most: ``--curvature`` is what stands for it.

A line of the file is one model: its settings, its validation NDCG@10, and the NDCG@10 of every test query.
"""

import csv
import itertools
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import rankwise as rw
from benchmarks import harness
from benchmarks.harness import FOLDS, parts

METRIC = "ndcg@10"
KERNELS = ("sigmoid", "laplace")
ETAS = (1.0, 3.0, 10.0, 30.0)
DEFAULT = 10.0
FLOORED = "floored"
TREES: dict[str, Any] = {"rounds": 300, "patience": 40, "learning_rate": 0.08, "leaves": 15, "min_documents": 50}
NETS: dict[str, Any] = {"hidden": (64, 32), "epochs": 60, "patience": 10}
Job = tuple[str, str, str, int, int, str, float, str]
Models = dict[tuple[str, str], dict[tuple[str, float], dict[tuple[int, int], tuple[float, np.ndarray]]]]


def measure(job: Job) -> tuple[float, ...]:
    """Train a model; give its NDCG on the validation part, and that of each test query."""
    data, family, curvature, seed, fold, kernel, eta, folder = job
    if data == "synthetic":
        made = rw.synthetic(n_queries=600, n_features=20, seed=1_000 + 10 * fold + seed)
        train, valid, test = rw.split(made, (1 / 3, 1 / 6, 1 / 2), seed=seed)
    else:
        train, valid, test = parts(folder, data, fold)
    loss = rw.objectives.ApproxNDCG(eta=eta, kernel=kernel, curvature=curvature)
    common: dict[str, Any] = {"metrics": [METRIC], "seed": seed, "threads": 1, "progress": False}
    model = rw.LightGBMRanker(loss, **TREES, **common) if family == "trees" else rw.NeuralRanker(loss, **NETS, **common)
    model.fit(train, valid)
    return float(rw.evaluate(model, valid, [METRIC]).mean[METRIC]), *rw.evaluate(model, test, [METRIC])[METRIC]


def read(paths: Sequence[Path]) -> Models:
    """By data and family: by kernel and steepness: by seed and fold: validation NDCG, and that of each test query."""
    models: Models = defaultdict(lambda: defaultdict(dict))
    for path in paths:
        for data, family, curvature, seed, fold, kernel, eta, _, valid, *queries in csv.reader(
            path.read_text().splitlines()
        ):
            found = float(valid), np.array(queries, np.float64)
            model = family if curvature == FLOORED else f"{family}, {curvature}"
            models[data, model][kernel, float(eta)][int(seed), int(fold)] = found
    return models


def by_query(trials: dict[tuple[int, int], tuple[float, np.ndarray]], fold: int, own_queries: bool) -> np.ndarray:
    """The NDCG of every test query of a fold: averaged over seeds, or each as it is where seeds have their own."""
    found = [queries for (_, number), (_, queries) in sorted(trials.items()) if number == fold]
    return np.concatenate(found) if own_queries else np.mean(found, 0)


def tables(models: Models) -> str:
    titles = ["data", "model", "sigmoid", "Laplace", "difference", "at η = 10", "η of sigmoid", "η of Laplace"]
    lines = ["| " + " | ".join(titles) + " |", "|---|---|--:|--:|--:|--:|---|---|"]
    for (data, family), by_method in models.items():
        own = data == "synthetic"
        folds = sorted({fold for _, fold in next(iter(by_method.values()))})
        chosen: dict[str, list[float]] = {kernel: [] for kernel in KERNELS}
        tested: dict[str, list[np.ndarray]] = {kernel: [] for kernel in KERNELS}
        default: dict[str, list[np.ndarray]] = {kernel: [] for kernel in KERNELS}
        for fold, kernel in itertools.product(folds, KERNELS):
            means = {
                eta: np.mean([valid for (_, number), (valid, _) in by_method[kernel, eta].items() if number == fold])
                for of, eta in by_method
                if of == kernel
            }
            chosen[kernel].append(max(means, key=means.__getitem__))
            tested[kernel].append(by_query(by_method[kernel, chosen[kernel][-1]], fold, own))
            default[kernel].append(by_query(by_method[kernel, DEFAULT], fold, own))
        sums = {kernel: np.concatenate(values) for kernel, values in tested.items()}
        ends = {kernel: np.concatenate(values) for kernel, values in default.items()}
        cells = [data, family, *(f"{np.nanmean(sums[kernel]):.4f}" for kernel in KERNELS)]
        cells += [harness.difference(values["laplace"] - values["sigmoid"]) for values in (sums, ends)]
        cells += [
            ", ".join(f"{eta:g} ({n})" for eta, n in sorted(Counter(chosen[kernel]).items())) for kernel in KERNELS
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = harness.arguments(__doc__, out="laplace.csv")
    parser.add_argument("folder", nargs="?", default="")
    parser.add_argument("--data", nargs="+", default=["mq2008", "synthetic"])
    parser.add_argument("--families", nargs="+", default=["trees", "nets"])
    parser.add_argument("--curvature", default=FLOORED)
    parser.add_argument("--etas", type=float, nargs="+", default=ETAS)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--folds", type=int, default=FOLDS)
    parser.add_argument("--tables", type=Path, nargs="+", help="print the table of such files instead")
    args = parser.parse_args()
    if args.tables is None:
        runs = itertools.product(
            args.data, args.families, [args.curvature], range(args.seeds), range(1, args.folds + 1), KERNELS, args.etas,
            [args.folder],
        )  # fmt: skip
        for _ in harness.measured(list(runs), measure, args.processes, args.out):
            pass
    print(tables(read(args.tables or [args.out])))


if __name__ == "__main__":
    main()
