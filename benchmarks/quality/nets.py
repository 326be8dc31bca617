"""How well nets rank beside trees, and which piece of a net does it: transforms, noise, averages, members, attention.

    python -m benchmarks.quality.nets FOLDER [--data mq2008 mq2007] [--seeds 3] [--methods trees default members]
                              [--processes 2] [--device cpu] [--out nets.csv]
    python -m benchmarks.quality.nets --tables nets.csv

FOLDER is that of `benchmarks/README.md`, and so are the five folds of both sets. Trees are LightGBM's with lambdarank,
extra_trees and 50 documents a leaf. Everyone stops by NDCG@10 on the validation part, smoothed over five rounds.
`default` is the net of ``NeuralRanker()``, and `before` that of older versions, on logarithms of features; `before,
quantile` is the same on quantiles. Those after it are the default with one piece more or less, or another loss. `tabm`,
a preset, is for a GPU, and trained where it is named. `bag` is ``rw.bagged`` of five. `light` is a net that a CPU
trains nearly as fast as trees, and `default trees` is ``LightGBMRanker()``. Seconds are those of the CPU, or of the
clock beside another device.

A net is chosen by its validation column: the mean over folds and seeds of the highest smoothed NDCG@10 there; that of a
bag is NDCG@10 out of fold, on training and validation queries. Test queries decide nothing. Their column is the mean of
NDCG@10 over all queries with relevant documents, and beside it the difference from trees with its 95% interval by
query, each query averaged over seeds first.

A line of the file is one model, written as soon as it is trained; what is in the file is not trained again. After a
change of the code, write to another ``--out``.
"""

import concurrent.futures
import csv
import itertools
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import rankwise as rw
from benchmarks import harness
from benchmarks.harness import FOLDS, parts
from rankwise.base.pools import processes as pool_of

METRIC = "ndcg@10"
WINDOW = 5
TREES = "trees"
GPU = "tabm"  # which takes hours on a CPU
TITLES = {"mq2008": "MQ2008", "mq2007": "MQ2007, partial"}
BEFORE = {"hidden": (256, 128, 64), "dropout": 0.1, "averaging": 0.0, "transform": "log1p+standardize"}
QUERY = {"transform": "quantile+query"}
BAG = "bag of "
METHODS: dict[str, dict[str, Any]] = {
    TREES: {
        "objective": "lambdarank",
        "patience": 60,
        "learning_rate": 0.05,
        "leaves": 15,
        "min_documents": 50,
        "extra_trees": True,
        "rounds": 600,
    },
    "default": {},
    "before": {"objective": "softmax_ce"} | BEFORE,
    "before, quantile": {"objective": "softmax_ce"} | BEFORE | {"transform": "quantile"},
    "softmax_ce": {"objective": "softmax_ce"},
    "xendcg": {"objective": "xendcg"},
    "listnet": {"objective": "listnet"},
    "ranknet": {"objective": "ranknet"},
    "log1p": {"transform": "log1p+standardize"},
    "query": QUERY,
    "query, xendcg": {"objective": "xendcg"} | QUERY,
    "noise": {"feature_noise": 0.2},
    "members": {"members": 8},
    "attention": {"attention": 4},
    GPU: {"preset": "tabm"},
    "default trees": {"smoothing": 10},
    "light": QUERY
    | {"hidden": (64,), "epochs": 30, "learning_rate": 0.005, "batch_queries": 64, "averaging": 0.98}
    | {"patience": 5, "smoothing": 3},
}
BAGGED = (TREES, "default", "softmax_ce", "xendcg", "query", "query, xendcg", "default trees", "light")
METHODS |= {BAG + name: METHODS[name] for name in BAGGED}


class Job(NamedTuple):
    """One model."""

    data: str
    method: str
    seed: int
    fold: int


class Row(NamedTuple):
    """What is known of it; the values of its test queries are in their order, NaN where nothing is relevant."""

    job: Job
    valid: float
    rounds: int
    seconds: float
    values: tuple[float, ...]


def measure(folder: str, device: str, job: Job) -> Row:
    """Train and test a model."""
    train, valid, test = parts(folder, job.data, job.fold)
    common: dict[str, Any] = {"metrics": (METRIC,), "seed": job.seed, "threads": 1, "progress": False}
    settings = {"smoothing": WINDOW, **METHODS[job.method], **common}
    if job.method.endswith(TREES):
        ranker: Any = rw.LightGBMRanker(**settings)
    else:
        ranker = rw.NeuralRanker(device=device, **settings)
    if job.method.startswith(BAG):
        ranker = rw.bagged(ranker, 5)
    clock = time.process_time if device == "cpu" else time.perf_counter
    start = clock()
    ranker.fit(train, valid)
    seconds = clock() - start
    if job.method.startswith(BAG):
        both = rw.concatenate([train, valid])
        highest = float(np.nanmean(rw.metric(METRIC)(ranker.oof_scores_, both.labels, both.offsets)))
    else:
        curve = np.array(ranker.history_[METRIC])
        window = min(WINDOW, curve.size)
        highest = float(np.convolve(curve, np.full(window, 1.0 / window), "valid").max())
    values = rw.evaluate(ranker, test, [METRIC])[METRIC]
    return Row(job, highest, ranker.best_round_, seconds, tuple(map(float, values)))


def read(path: Path) -> list[Row]:
    """The models of a file; a line that was cut short is left out."""
    if not path.exists():
        return []
    rows = []
    with path.open(newline="") as file:
        for cells in csv.reader(file):
            if len(cells) == 9 and cells[-1] == "end":
                data, method, seed, fold, valid, rounds, seconds, values = cells[:-1]
                job, each = Job(data, method, int(seed), int(fold)), tuple(map(float, values.split()))
                rows.append(Row(job, float(valid), int(rounds), float(seconds), each))
    return rows


def train_all(jobs: Iterable[Job], folder: str, device: str, processes: int, out: Path) -> None:
    """Train what is not in the file yet."""
    done = {row.job for row in read(out)}
    missing = [job for job in jobs if job not in done]
    print(f"{len(missing)} models to train, {len(done)} in {out}", flush=True)
    with out.open("a", newline="") as file, pool_of(processes) as pool:
        file.write("\n")  # after a line that was cut short
        writer = csv.writer(file)
        running = [pool.submit(measure, folder, device, job) for job in missing]
        for number, future in enumerate(concurrent.futures.as_completed(running), 1):
            row = future.result()
            values = " ".join(f"{value:.6f}" for value in row.values)
            writer.writerow([*row.job, f"{row.valid:.6f}", row.rounds, f"{row.seconds:.1f}", values, "end"])
            file.flush()
            print(f"{number} of {len(missing)}: {row.job.method}, {row.seconds:.0f} s", flush=True)


def table(rows: Iterable[Row], baseline: str = TREES) -> str:
    """Every method of a set beside trees, or another baseline."""
    by_data: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        by_data[row.job.data][row.job.method].append(row)
    texts = []
    for data, by_method in by_data.items():
        lines = [
            f"| {TITLES[data]} | models | validation | test | less {baseline} | 95% by query | rounds | seconds |",
            "|:--|--:|--:|--:|--:|--:|--:|--:|",
        ]
        evaluations = {method: evaluation(own) for method, own in by_method.items()}
        for method, own in by_method.items():
            gap = against(evaluations, method, baseline)
            figures = [f"{np.mean([row.valid for row in own]):.4f}", f"{evaluations[method].mean[METRIC]:.4f}", *gap]
            figures += [f"{np.mean([row.rounds for row in own]):.0f}", f"{np.median([row.seconds for row in own]):.1f}"]
            lines.append(f"| {method} | {len(own)} | " + " | ".join(figures) + " |")
        texts.append("\n".join(lines))
    return "\n\n".join(texts)


def evaluation(rows: Iterable[Row]) -> rw.Evaluation:
    """The values of all test queries, averaged over seeds."""
    by_fold: dict[int, list[tuple[float, ...]]] = defaultdict(list)
    for row in rows:
        by_fold[row.job.fold].append(row.values)
    means = {fold: np.mean(values, axis=0) for fold, values in sorted(by_fold.items())}
    queries = [f"{fold}/{number}" for fold, values in means.items() for number in range(values.size)]
    return rw.Evaluation({METRIC: np.concatenate(list(means.values()))}, queries)


def against(evaluations: dict[str, rw.Evaluation], method: str, baseline: str) -> list[str]:
    """The difference from the baseline on the same queries, and its interval."""
    if method == baseline or baseline not in evaluations:
        return ["", ""]
    both = {baseline: evaluations[baseline], method: evaluations[method]}
    if both[baseline].query_ids.tolist() != both[method].query_ids.tolist():
        return ["other folds", ""]
    (pair,) = rw.compare(both, baseline=baseline).pairs
    return [f"{pair.difference:+.4f}", f"{pair.low:+.4f} to {pair.high:+.4f}"]


def main() -> None:
    parser = harness.arguments(__doc__, out="nets.csv")
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--data", nargs="+", default=["mq2008", "mq2007"], choices=["mq2008", "mq2007"])
    parser.add_argument(
        "--methods",
        nargs="+",
        default=[name for name in METHODS if name != GPU and not name.startswith(BAG)],
        choices=list(METHODS),
        metavar="METHOD",
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folds", nargs="+", type=int, default=list(range(1, FOLDS + 1)), choices=range(1, FOLDS + 1))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tables", type=Path, help="print the tables of measurements that were made before")
    parser.add_argument("--against", default=TREES, choices=list(METHODS), metavar="METHOD", help="the baseline")
    args = parser.parse_args()
    if args.tables is None:
        if args.folder is None:
            parser.error("FOLDER is needed, where the data are")
        every = itertools.product(args.data, range(args.seeds), args.folds, args.methods)
        jobs = [Job(data, method, seed, fold) for data, seed, fold, method in every]
        train_all(jobs, args.folder, args.device, args.processes, args.out)
    print(table(read(args.tables or args.out), args.against))


if __name__ == "__main__":
    main()
