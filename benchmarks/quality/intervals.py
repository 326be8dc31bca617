"""How often the 95% interval of a mean holds the truth when queries are few: resampled, and as it is reported.

    python -m benchmarks.quality.intervals [--repeats 2000] [--queries 3 5 9 10 20 50]

The population is 3,000 queries of the synthetic set, ranked by one feature with noise and, in the last rows, by the
labels with noise: a good ranking, of which most samples have the same value on every query. Some queries are drawn
again and again and evaluated: does the mean of all 3,000 lie in the interval? Of fewer than ten queries
`Evaluation.interval` is Student's, of values 0 or 1 that of Clopper and Pearson, and of values that are all the same it
allows for others; the percentile bootstrap stands beside it for comparison.
"""

from collections.abc import Sequence

import numpy as np

import rankwise as rw
from benchmarks import harness
from rankwise.base import tables

METRICS = ("ndcg@10", "ap", "precision@5", "rr", "hit@1")
SAME = ("rr", "hit@1")
RESAMPLES = 1000


def population() -> dict[tuple[str, str], np.ndarray]:
    """The values of all queries, by metric and ranking."""
    data = rw.synthetic(n_queries=3000, n_docs=20, seed=1)
    noise = np.random.default_rng(0).normal(scale=0.5, size=data.n_docs)
    values: dict[tuple[str, str], np.ndarray] = {}
    for scores, ranking, names in (
        (data.features[:, 0] + noise, "", METRICS),
        (data.labels + 1.6 * noise, "a good ranking", SAME),
    ):
        found = rw.evaluate(scores, data, names)
        values |= {(name, ranking): found[name][~np.isnan(found[name])] for name in names}
    return values


def coverage(name: str, values: np.ndarray, queries: int, repeats: int) -> tuple[float, float]:
    """The shares of draws whose resampled and whose reported interval holds the mean."""
    rng, mean, held = np.random.default_rng(queries), values.mean(), np.zeros(2)
    for seed in range(repeats):
        drawn = rw.Evaluation({name: rng.choice(values, queries)}, range(queries), seed=seed, resamples=RESAMPLES)
        resampled = np.quantile(drawn.resampled()[:, 0], [0.025, 0.975])
        held += [low <= mean <= high for low, high in (resampled, drawn.interval[name])]
    return held[0] / repeats, held[1] / repeats


def table(queries: Sequence[int], repeats: int) -> tables.Table:
    """One row for each metric, one column for each number of queries."""
    rows = []
    for (name, ranking), values in population().items():
        pairs = [coverage(name, values, count, repeats) for count in queries]
        rows.append(
            (", ".join(filter(None, (name, ranking))), *(f"{before:.2f} → {after:.2f}" for before, after in pairs))
        )
        print(*rows[-1], flush=True)
    return tables.Table(header=("metric", *map(str, queries)), rows=tuple(rows), align="l" + "r" * len(queries))


def main() -> None:
    """Measure and print."""
    parser = harness.arguments(__doc__)
    parser.add_argument("--repeats", type=int, default=2000)
    parser.add_argument("--queries", type=int, nargs="+", default=[3, 5, 9, 10, 20, 50])
    args = parser.parse_args()
    print(table(args.queries, args.repeats).markdown())


if __name__ == "__main__":
    main()
