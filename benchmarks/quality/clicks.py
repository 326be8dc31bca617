"""When inverse propensities help: NDCG@10 of rankers trained on simulated clicks, beside clicks as they are given.

    python -m benchmarks.quality.clicks FOLDER [--data mq2008 mq2007] [--trials 10] [--etas 0.5 1 2]
        [--losses lambdarank softmax_ce] [--processes 2] [--out clicks.csv]

FOLDER is that of `benchmarks/README.md`. Each trial splits the queries anew (60/20/20). The ranker that shows the
lists is trained on judgements of 10 queries; users look at rank r with probability (1/r)^eta, and click what they see:
relevant documents (labels 1, 2) with probability 0.6 and 1, others with the chance of a mistake. Training and
validation have clicks alone; the test queries have their judgements. Shown is the paired difference to the clicks as
given, with a 95% interval over trials.
"""

import functools
import itertools
from typing import Any

import numpy as np

import rankwise as rw
from benchmarks import harness
from benchmarks.harness import parts

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
    logs = [rw.clicks.simulate_clicks(part, impressions=5, seed=seed, **users) for part in (train, valid)]
    expression, debias = METHODS[method]
    ranker = rw.LightGBMRanker(expression.format(loss), debias=debias, seed=seed, progress=False, **SETTINGS)
    return float(rw.evaluate(ranker.fit(*logs), test, [METRIC]).mean[METRIC])


def main() -> None:
    parser = harness.arguments(__doc__, out="clicks.csv")
    parser.add_argument("folder")
    parser.add_argument("--data", nargs="+", default=["mq2008", "mq2007"])
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--etas", nargs="+", type=float, default=ETAS)
    parser.add_argument("--losses", nargs="+", default=LOSSES)
    args = parser.parse_args()
    runs = itertools.product(range(args.trials), args.data, args.etas, MISTAKES, args.losses, METHODS)
    jobs: list[Job] = [(args.folder, data, seed, *rest) for seed, data, *rest in runs]
    results = [
        ((data, loss, eta, mistakes), method, seed, value)
        for (_, data, seed, eta, mistakes, loss, method), value in zip(
            jobs, harness.measured(jobs, measure, args.processes, args.out), strict=True
        )
    ]
    print(harness.paired_table(results, ("data", "loss", "eta", "mistakes"), "as given"))


if __name__ == "__main__":
    main()
