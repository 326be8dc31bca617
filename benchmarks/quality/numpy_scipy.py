"""The rankers of the demonstration on the documentation of NumPy and SciPy, over several divisions of its queries.

python -m benchmarks.quality.numpy_scipy [--seeds 5]
"""

import argparse
from itertools import combinations
from statistics import mean, stdev

import numpy as np

import rankwise as rw
from rankwise.statistics import alpha, gain
from rankwise.wings.lab.demo.run import BASELINES, HEADLINE, METRICS, RANKERS, baseline


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="divisions into training, validation and test queries")
    parser.add_argument("--rankers", nargs="*", default=[*RANKERS], choices=[*RANKERS])
    options = parser.parse_args()
    docs = rw.text.numpy_scipy(progress=False)
    data = docs.dataset()
    found: dict[str, list[dict[str, float]]] = {}
    ahead = dict.fromkeys(options.rankers, 0)
    for seed in range(options.seeds):
        train, valid, test = rw.split(data, (0.6, 0.2, 0.2), seed=seed)
        scores = {name: baseline(test, features) for name, features in BASELINES.items()}
        scores |= {name: rw.ranker(RANKERS[name]).fit(train, valid).predict(test) for name in options.rankers}
        comparison = rw.compare(scores, test, METRICS)
        for name in scores:
            found.setdefault(name, []).append({metric: comparison.mean[metric][name] for metric in METRICS})
        for name in options.rankers:
            gains = [gain(comparison, HEADLINE, name, other) for other in BASELINES]
            ahead[name] += all(one.low > 0 and one.p < alpha(comparison.level) for one in gains)
    print(f"{docs!r}\n{options.seeds} divisions: mean, and standard deviation over the divisions\n")
    print("| ranker |", " | ".join(METRICS), "| ahead of BM25 |\n|---|" + "--:|" * (len(METRICS) + 1))
    for name, runs in found.items():
        cells = [f"{mean(one[m] for one in runs):.3f} ± {_spread([one[m] for one in runs])}" for m in METRICS]
        print(f"| {name} |", " | ".join(cells), f"| {ahead[name]} of {len(runs)} |" if name in ahead else "| |")
    print("\nAll sums of BM25 of fields, on all queries:")
    for features, value in _sums(data):
        print(f"{value:.3f} {' + '.join(features)}")


def _sums(data: rw.RankingDataset, shown: int = 3) -> list[tuple[tuple[str, ...], float]]:
    """Return the best sums of BM25 of fields, whatever queries they are the best of."""
    metric, names = rw.metric(HEADLINE), [name for name in data.feature_names or () if name.startswith("bm25(")]
    tried = [some for count in range(1, len(names) + 1) for some in combinations(names, count)]
    values = {some: float(np.nanmean(metric.of(baseline(data, some), data))) for some in tried}
    return sorted(values.items(), key=lambda one: -one[1])[:shown]


def _spread(values: list[float]) -> str:
    return f"{stdev(values):.3f}" if len(values) > 1 else "–"


if __name__ == "__main__":
    main()
