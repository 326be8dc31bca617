"""Feature selection: does noise go, does one of duplicates stay, and does the interval hold the loss on new queries?

    python -m benchmarks.quality.features [--queries 100 200] [--sets 16] [--processes 2]

A set has the 8 features of `rw.synthetic`, some of which say little, a copy of the first, a noisy copy of the second,
and 20 columns of noise. `rw.select_features` sees so many queries; then the ranker is trained on all features and on
those that stay, and both are measured on 2,000 new queries: the loss in truth.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

import rankwise as rw
from benchmarks import harness

RANKERS = {
    "trees": "lightgbm(rounds=40, leaves=7, min_documents=20, patience=None, threads=1)",
    "linear": "linear(softmax_ce, transform=standard, l2=0.03, threads=1)",
}
METRIC, NEW, NOISE = "ndcg@10", 2000, 20


@dataclass(frozen=True)
class Cell:
    """One set."""

    ranker: str
    queries: int
    seed: int


def made(cell: Cell) -> rw.RankingDataset:
    """Return a set with copies and noise, the queries to select by first."""
    data = rw.synthetic(n_queries=cell.queries + NEW, n_docs=20, n_features=8, seed=1000 + cell.seed)
    rng, real = np.random.default_rng(cell.seed), data.features
    near = real[:, [1]] + 0.05 * real[:, [1]].std() * rng.normal(size=(data.n_docs, 1))
    features = np.hstack([real, real[:, [0]], near, rng.normal(size=(data.n_docs, NOISE))])
    names = [*(f"real {k}" for k in range(8)), "copy", "near", *(f"noise {k}" for k in range(NOISE))]
    return data.with_(features=features, feature_names=names)


def measure(cell: Cell) -> dict[str, Any]:
    """Select, and compare the loss with the truth."""
    data = made(cell)
    train, new = data.take(slice(0, cell.queries)), data.take(slice(cell.queries, None))
    ranker = RANKERS[cell.ranker]
    chosen = rw.select_features(ranker, train, seed=cell.seed, progress=False)
    every, few = (
        rw.evaluate(rw.ranker(ranker).set_params(progress=False).fit(part), other, METRIC).mean[METRIC]
        for part, other in ((train, new), (chosen.take(train), chosen.take(new)))
    )
    noise = sum(name.startswith("noise") for name in chosen.features)
    doubled = {"real 0", "copy"} <= set(chosen.features)
    facts = {"loss": chosen.loss, "interval": chosen.interval, "truth": every - few}
    return {"stay": len(chosen.features), "noise": noise, "doubled": doubled, **facts}


def main() -> None:
    """Measure and print."""
    parser = harness.arguments(__doc__, out="results/features.json")
    parser.add_argument("--rankers", nargs="+", choices=RANKERS, default=["trees"])
    parser.add_argument("--queries", nargs="+", type=int, default=[100, 200])
    parser.add_argument("--sets", type=int, default=16)
    args = parser.parse_args()
    cells = [Cell(one, n, seed) for one in args.rankers for n in args.queries for seed in range(args.sets)]
    outcomes = harness.Cells[Cell](args.out).measure(cells, measure, args.processes)
    rows = []
    for ranker in args.rankers:
        for queries in args.queries:
            found = [one for cell, one in outcomes.items() if (cell.ranker, cell.queries) == (ranker, queries)]
            held = [one["interval"][0] <= one["truth"] <= one["interval"][1] for one in found]
            stay, noise, lost, truth = (
                float(np.mean([one[name] for one in found])) for name in ("stay", "noise", "loss", "truth")
            )
            widths = np.mean([one["interval"][1] - one["interval"][0] for one in found]) / 2.0
            doubled = sum(one["doubled"] for one in found)
            said, held_of = f"{lost:+.4f} ± {widths:.4f}", f"{sum(held)} of {len(held)}"
            rows.append((ranker, queries, f"{stay:.1f}", f"{noise:.1f}", doubled, said, f"{truth:+.4f}", held_of))
    header = ("ranker", "queries", "stay of 30", "of 20 of noise", "sets with both copies", "loss", "in truth", "held")
    print(harness.markdown(header, rows))


if __name__ == "__main__":
    main()
