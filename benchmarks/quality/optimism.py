"""Whether what bags and blends report out of fold is too good: on sets of pure noise all of them are worth chance.

    python -m benchmarks.quality.optimism [--sets 40] [--queries 100] [--documents 12] [--rounds 1 5 60]

Labels do not depend on features, so that no ranker is better than a random order on new queries. What a random order is
worth is known exactly: NDCG@10 of equal scores, whose ties are averaged. Shown is by how much the metric of
`oof_scores_`, at the rounds that were chosen on all queries, and `out_of_fold_`, at rounds that were chosen without the
query, are above that: means over sets, with their standard errors.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

import rankwise as rw
from benchmarks import harness
from rankwise.base import tables

METRIC = rw.metric("ndcg@10")
OBJECTIVES = ("xendcg", "lambdarank", "ranknet")
GRADES = (0.5, 0.2, 0.15, 0.1, 0.05)
FEATURES = 10


def noise(seed: int, queries: int, documents: int) -> rw.RankingDataset:
    """Queries whose labels nothing tells."""
    rng = np.random.default_rng(seed)
    n = queries * documents
    labels = rng.choice(len(GRADES), n, p=GRADES).astype(float)
    return rw.RankingDataset(rng.normal(size=(n, FEATURES)), labels, np.arange(0, n + 1, documents))


def mean(scores: np.ndarray, data: rw.RankingDataset) -> float:
    """The mean of the metric."""
    return float(np.nanmean(METRIC(scores, data.labels, data.offsets)))


def above_chance(model: rw.bagged | rw.blended, data: rw.RankingDataset) -> tuple[float, float]:
    """By how much the common rounds and the report are above a random order."""
    model.fit(data)
    chance = mean(np.zeros(data.n_docs), data)
    return mean(model.oof_scores_, data) - chance, model.out_of_fold_.mean[str(METRIC)] - chance


def models(rounds: int, seed: int) -> dict[str, rw.bagged | rw.blended]:
    """A bag and a blend of three."""
    settings: dict[str, Any] = {
        "rounds": rounds,
        "patience": None,
        "smoothing": 1,
        "threads": 1,
        "progress": False,
        "seed": seed,
    }
    rankers = [rw.LightGBMRanker(objective, **settings) for objective in OBJECTIVES]
    return {"bag": rw.bagged(rankers[0]), "blend": rw.blended(rankers, seed=seed)}


def table(sets: int, queries: int, documents: int, rounds: Sequence[int]) -> tables.Table:
    """One row for each kind of ranker and number of rounds."""
    rows = []
    for count in rounds:
        found: dict[str, list[tuple[float, float]]] = {}
        for seed in range(sets):
            data = noise(seed, queries, documents)
            for name, model in models(count, seed).items():
                found.setdefault(name, []).append(above_chance(model, data))
        for name, pairs in found.items():
            values = np.array(pairs)
            errors = values.std(axis=0, ddof=1) / np.sqrt(sets)
            cells = [
                f"{tables.number(m, signed=True)} ± {e:.4f}" for m, e in zip(values.mean(axis=0), errors, strict=True)
            ]
            rows.append((name, str(count), *cells))
            print(*rows[-1], flush=True)
    header = ("ranker", "rounds to choose from", "rounds chosen on all queries", "`out_of_fold_`")
    return tables.Table(header=header, rows=tuple(rows), align="lrrr")


def main() -> None:
    """Measure and print."""
    parser = harness.arguments(__doc__)
    parser.add_argument("--sets", type=int, default=40)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--documents", type=int, default=12)
    parser.add_argument("--rounds", type=int, nargs="+", default=[1, 5, 60])
    args = parser.parse_args()
    print(table(args.sets, args.queries, args.documents, args.rounds).markdown())


if __name__ == "__main__":
    main()
