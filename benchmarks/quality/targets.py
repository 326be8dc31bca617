"""Learning from click logs: NDCG@10 of plrank with targets by several methods, beside true relevance.

    python -m benchmarks.quality.targets [FOLDER] [--data synthetic mq2007] [--impressions 1 5 50]
        [--seeds 10] [--processes 2] [--out DIR]

Of synthetic data 300 queries of about 20 documents have a log, and 500 others are the test. The ranker in production
was trained on 5 queries. Rankings are drawn from its scores (Plackett-Luce), and the first five documents are shown.
Users click with probability α_k R + β_k, R = grade / 4 (the affine model of Oosterhuis 2023, with trust). Of MQ2007, in
FOLDER, the first ten are shown, with the examination that was measured at Baidu and Vardasbi's trust. Targets are made
with these curves, or with wrong ones: 1/k, without trust. All rankers have as many trees: targets of a few dozen
queries are too noisy to choose a round by. Differences are paired by seed, with 95% intervals.
"""

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

import rankwise as rw
from benchmarks import harness
from rankwise.wings.clicks.positions.bias import Bias

IMPRESSIONS = (1, 5, 50)
METHODS = ("production", "naive", "ips", "regression", "dr", "dr, strength 0", "truth")
STRENGTH = 10.0  # of the regression in `rw.clicks.targets`
TRAINING: dict[str, Any] = {"learning_rate": 0.1, "leaves": 15, "min_documents": 20, "rounds": 80}
STEEPNESS = 2.5  # standard deviation of production's scores: at 0 rankings are random
METRIC = "ndcg@10"
FIRST_SEED = 1000  # others were looked at when defaults were chosen
EXAMINED = np.array([1.0, 0.684, 0.445, 0.321, 0.223, 0.177, 0.136, 0.117, 0.083, 0.049])  # Baidu-ULTR, adjacent chain
TRUST = 0.65 / np.arange(1, 11)  # Vardasbi et al. 2020: clicks on documents that are not relevant, where examined
CURVES = {
    "synthetic": (np.array([0.35, 0.53, 0.55, 0.54, 0.52]), np.array([0.65, 0.26, 0.15, 0.11, 0.08])),
    "mq2007": (EXAMINED * (0.98 - TRUST), EXAMINED * TRUST),
}


@dataclass(frozen=True)
class Cell:
    """A log, the curves that targets are made with, and the seed."""

    folder: str
    data: str
    impressions: int
    curves: str
    seed: int


@functools.lru_cache(maxsize=2)
def trial(folder: str, data: str, seed: int) -> tuple[rw.RankingDataset, rw.RankingDataset, np.ndarray, float]:
    """Return queries with a log, test queries, the scores of production for the first, and its NDCG on the second."""
    whole = rw.synthetic(n_queries=805, n_docs=20, seed=seed) if data == "synthetic" else harness.whole(folder, data)
    ids = np.array([f"d{row}" for row in range(whole.n_docs)])
    whole = whole.with_(query_ids=np.arange(whole.n_queries), document_ids=ids)
    shares = (5 / 805, 300 / 805, 500 / 805) if data == "synthetic" else (0.01, 0.59, 0.4)
    first, logged, test = rw.split(whole, shares, seed=seed)
    old = rw.LightGBMRanker("lambdarank", rounds=20, leaves=4, min_documents=5, threads=1, progress=False).fit(first)
    scores = old.predict(logged)
    value = float(rw.evaluate(old, test, METRIC).mean[METRIC])
    return logged, test, STEEPNESS * scores / scores.std(), value


def simulated(data: rw.RankingDataset, scores: np.ndarray, truth: np.ndarray, cell: Cell) -> rw.clicks.Log:
    """Return the log of drawn rankings and affine clicks."""
    alpha, beta = CURVES[cell.data]
    stream, rng = data.stream(cell.seed).child("shown"), np.random.default_rng(cell.seed)
    drawn = rw.objectives.sample_rankings(scores, data.offsets, stream, cell.impressions, alpha.size)
    ranks = np.minimum(data.sizes, alpha.size)
    query = np.repeat(np.arange(data.n_queries), ranks)
    position = np.arange(query.size) - np.repeat(np.cumsum(ranks) - ranks, ranks)
    row = data.offsets[query] + drawn
    chance = alpha[position] * truth[row] + beta[position]
    frame = {
        "query": np.tile(np.asarray(data.query_ids)[query], cell.impressions),
        "document": np.asarray(data.document_ids)[row].ravel(),
        "impression": (np.arange(cell.impressions)[:, None] * data.n_queries + query).ravel(),
        "position": np.tile(position + 1, cell.impressions),
        "clicked": (rng.uniform(size=row.shape) < chance).ravel(),
    }
    return rw.clicks.Log.from_rows(pl.LazyFrame(frame))


def measure(cell: Cell) -> dict[str, float]:
    """Train with the targets of every method; return NDCG on judgements."""
    data, test, scores, production = trial(cell.folder, cell.data, cell.seed)
    truth = data.labels / (4.0 if cell.data == "synthetic" else 2.0)
    log = simulated(data, scores, truth, cell)
    alpha, beta = CURVES[cell.data]
    bias = Bias.known(alpha, beta) if cell.curves == "right" else Bias.known(1.0 / np.arange(1, alpha.size + 1))
    with rw.use_threads(1):
        result = rw.clicks.estimates(log, data, bias, probabilities={"": scores}, seed=cell.seed)
    rewards = {"naive": result.ctr, "truth": truth}
    rewards |= {"ips": result.ips, "regression": result.regression, "dr": result.shrunk(STRENGTH)}
    rewards["dr, strength 0"] = result.dr
    values = {"production": production}
    for name, column in rewards.items():
        train = data.with_(document_rewards=column)
        ranker = rw.LightGBMRanker("plrank", seed=cell.seed, threads=1, progress=False, **TRAINING).fit(train)
        values[name] = float(rw.evaluate(ranker, test, METRIC).mean[METRIC])
    return values


def main() -> None:
    parser = harness.arguments(__doc__, out="targets")
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--data", nargs="+", default=["synthetic", "mq2007"], choices=CURVES)
    parser.add_argument(
        "--impressions", nargs="+", type=int, default=IMPRESSIONS, help="of a query; the last with wrong curves"
    )
    parser.add_argument("--seeds", type=int, default=10)
    args = parser.parse_args()
    folder = harness.data_folder(args.folder)
    settings = [(data, count, "right") for data in args.data for count in args.impressions]
    settings += [(data, args.impressions[-1], "wrong") for data in args.data]
    seeds = range(FIRST_SEED, FIRST_SEED + args.seeds)
    cells = [Cell(folder, *setting, seed) for seed in seeds for setting in settings]
    outcomes = harness.Cells[Cell](args.out, TRAINING).measure(cells, measure, args.processes)
    means, gaps = [], []
    for setting in settings:
        found = [outcomes[Cell(folder, *setting, seed)] for seed in seeds]
        column = {name: np.array([one[name] for one in found]) for name in METHODS}
        means.append([*setting, *(f"{column[name].mean():.4f}" for name in METHODS)])
        others = [name for name in METHODS if name != "dr"]
        gaps.append([*setting, *(harness.difference(column["dr"] - column[name]) for name in others)])
    header = ["data", "impressions", "curves"]
    print(harness.markdown([*header, *METHODS], means))
    print(f"\nDoubly robust targets less others:\n\n{harness.markdown([*header, *others], gaps)}")


if __name__ == "__main__":
    main()
