"""When inverse propensities help: NDCG@10 of rankers trained on simulated clicks, beside clicks as they are given.

    python benchmarks/clicks.py FOLDER [--data mq2008 mq2007] [--trials 10] [--processes 2] [--out clicks.csv]

FOLDER is that of `benchmarks/quality.py`. Each trial splits the queries anew (60/20/20). The ranker that shows the
lists is trained on judgements of 10 queries; users look at rank r with probability (1/r)^eta, and click what they see:
relevant documents (labels 1, 2) with probability 0.6 and 1, others with the chance of a mistake. Training and
validation have clicks alone; the test queries have their judgements. Shown is the paired difference to the clicks as
given, with a 95% interval over trials.
"""

import argparse
import concurrent.futures
import csv
import functools
import itertools
import multiprocessing
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

import rankwise as rw
from quality import parts

LOSSES = ("lambdarank", "softmax_ce")
ETAS = (0.5, 1.0, 2.0)
MISTAKES = (0.0, 0.1)
# The objective around the loss, and whether its documents are weighed.
METHODS = {
    "as given": ("{}", False),
    "self-normalised": ("{}", True),
    "clickwise": ("clickwise({})", True),
    "clip 10": ("clickwise({}, clip=10.0)", True),
    "clip 3": ("clickwise({}, clip=3.0)", True),
}
SETTINGS: dict[str, Any] = {"learning_rate": 0.05, "leaves": 15, "rounds": 300, "patience": 50, "threads": 1}
METRIC = "ndcg@10"
Job = tuple[str, str, int, float, float, str, str]


@functools.lru_cache(maxsize=2)
def trial(folder: str, data: str, seed: int) -> tuple[Any, ...]:
    """The queries of a trial, and what the old ranker thinks of them."""
    whole = rw.concatenate(parts(folder, data, 1))
    train, valid, test = rw.split(whole, (0.6, 0.2, 0.2), seed=seed)
    old = rw.LightGBMRanker("lambdarank", rounds=20, leaves=4, min_documents=5, threads=1, progress=False)
    old.fit(train.take(np.arange(10)))
    return train, valid, test, old


def measure(job: Job) -> float:
    """Train on the clicks of one setting; give NDCG on judgements."""
    folder, data, seed, eta, mistakes, loss, method = job
    train, valid, test, old = trial(folder, data, seed)
    users: dict[str, Any] = {"model": "position", "probabilities": (mistakes, 0.6, 1.0), "eta": eta, "ranker": old}
    logs = [rw.simulate_clicks(part, impressions=5, seed=seed, **users) for part in (train, valid)]
    expression, debias = METHODS[method]
    ranker = rw.LightGBMRanker(expression.format(loss), debias=debias, seed=seed, progress=False, **SETTINGS)
    return float(rw.evaluate(ranker.fit(*logs), test, [METRIC]).mean[METRIC])


def table(rows: list[tuple[Job, float]]) -> str:
    """One row per setting: NDCG of the clicks as given, and the paired differences of the estimators."""
    values: dict[tuple[Any, ...], dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for (_, data, seed, eta, mistakes, loss, method), value in rows:
        values[data, loss, eta, mistakes][method][seed] = value
    names = [name for name in METHODS if name != "as given"]
    lines = ["| data | loss | eta | mistakes | as given | " + " | ".join(names) + " |", "|---" * (len(names) + 5) + "|"]
    for setting, by_method in values.items():
        plain, cells = by_method["as given"], []
        for name in names:
            gaps = [by_method[name][seed] - plain[seed] for seed in plain if seed in by_method[name]]
            spread = 1.96 * np.std(gaps, ddof=1) / np.sqrt(len(gaps)) if len(gaps) > 1 else np.nan
            cells.append(f"{np.mean(gaps):+.4f} ± {spread:.4f}" if gaps else "")
        shown = " | ".join(f"{one:g}" if isinstance(one, float) else str(one) for one in setting)
        lines.append(f"| {shown} | {np.mean(list(plain.values())):.4f} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--data", nargs="+", default=["mq2008", "mq2007"])
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("clicks.csv"))
    args = parser.parse_args()
    runs = itertools.product(range(args.trials), args.data, ETAS, MISTAKES, LOSSES, METHODS)
    jobs: list[Job] = [(args.folder, data, seed, *rest) for seed, data, *rest in runs]
    rows: list[tuple[Job, float]] = []
    context = multiprocessing.get_context("spawn")
    with (
        args.out.open("w", newline="") as file,
        concurrent.futures.ProcessPoolExecutor(args.processes, mp_context=context) as pool,
    ):
        writer = csv.writer(file)
        for job, value in zip(jobs, pool.map(measure, jobs, chunksize=5), strict=True):
            rows.append((job, value))
            writer.writerow([*job[1:], value])
            file.flush()
            if len(rows) % (len(jobs) // args.trials) == 0:
                print(f"{len(rows)} of {len(jobs)} models", flush=True)
    print(table(rows))


if __name__ == "__main__":
    main()
