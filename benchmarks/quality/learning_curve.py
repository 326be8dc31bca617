"""Learning curves: does the forecast of the next doubling hold, on synthetic kinds and resamples of MQ2008 and MQ2007?

    python -m benchmarks.quality.learning_curve [--kinds few …] [--sets 3] [--real 6] [--folder …]
        [--out results/learning_curve.md]

A set is cut at random into N training queries, N more, and test queries. `rw.learning_curve` sees the first N and the
test queries; then one model is trained on all 2N, and `single` must hold the change on the same test queries. The first
set of most synthetic kinds has as many queries as it takes to know the average gain: five pairs of N and N queries,
trained on apart and together, with 600 further test queries (mean, and its standard error over pairs), which `interval`
should hold.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

import rankwise as rw
from benchmarks import harness
from rankwise.quality.learning_curve import RANKER

METRIC, PAIRS, FURTHER = rw.metric("ndcg@10"), 5, 600
SIZES = dict.fromkeys(harness.KINDS, (120, 150)) | {"many": (300, 400), "long": (60, 100)}
"""Training queries N, and test queries, of the synthetic kinds."""


@dataclass(frozen=True)
class Cell:
    kind: str
    seed: int
    folder: str


def whole(cell: Cell, n_queries: int) -> rw.RankingDataset:
    """Return all queries of a set, in random order."""
    if cell.kind == "mq2008":
        data = rw.concatenate(harness.parts(cell.folder, cell.kind, 1))
    elif cell.kind == "mq2007":
        data = harness.whole(cell.folder, cell.kind)
    else:
        data = rw.synthetic(**{**harness.KINDS[cell.kind], "n_queries": n_queries}, seed=200 + cell.seed)
    rng = np.random.default_rng(200 + cell.seed)
    if cell.kind == "useless":
        features = np.hstack([data.features, rng.normal(size=(data.n_docs, 150)).astype(np.float32)])
        data = data.with_(features=features, feature_names=None)
    return data.take(rng.permutation(data.n_queries))


def mean(train: rw.RankingDataset, test: rw.RankingDataset) -> float:
    """Return the mean of the metric on test queries under a model of the default ranker."""
    model = rw.ranker(RANKER).set_params(threads=1, progress=False).fit(train)
    return float(np.nanmean(METRIC.of(model.predict(test), test)))


def measure(cell: Cell) -> dict[str, Any]:
    """Forecast a doubling, and train on it."""
    is_real = cell.kind in ("mq2008", "mq2007")
    pairs = PAIRS if not is_real and cell.kind != "long" and cell.seed == 0 else 1
    n, n_test = SIZES.get(cell.kind, (0, 0))
    data = whole(cell, 2 * pairs * n + n_test + FURTHER * (pairs > 1))
    if is_real:
        n, n_test = int(0.3 * data.n_queries), data.n_queries - 2 * int(0.3 * data.n_queries)
    trained, rest = data.take(slice(0, 2 * pairs * n)), slice(2 * pairs * n, 2 * pairs * n + n_test)
    if cell.kind == "clicks":
        trained = harness.clicked(trained, cell.seed)
    test, first = data.take(rest), trained.take(slice(0, n))
    curve = rw.learning_curve(first, test, RANKER.replace(")", ", threads=1)"), seed=cell.seed, progress=False)
    change = mean(trained.take(slice(0, 2 * n)), test) - float(curve.values[-1].mean())
    gains = []
    if pairs > 1:
        further = data.take(slice(rest.stop, None))
        for start in range(0, 2 * pairs * n, 2 * n):
            cuts = ((start, start + n), (start + n, start + 2 * n), (start, start + 2 * n))
            one, other, both = (mean(trained.take(slice(*cut)), further) for cut in cuts)
            gains.append(both - (one + other) / 2)
    return {"gain": curve.gain, "interval": curve.interval, "single": curve.single, "change": change, "gains": gains}


def page(outcomes: dict[Cell, dict[str, Any]]) -> str:
    """Return a table with a row for each kind, and the share of forecasts that hold."""
    rows, held, average = [], [], []
    for kind in dict.fromkeys(cell.kind for cell in outcomes):
        of_kind = [outcome for cell, outcome in outcomes.items() if cell.kind == kind]
        holds = [one["single"][0] <= one["change"] <= one["single"][1] for one in of_kind]
        known = [one for one in of_kind if one["gains"]]
        means = [float(np.mean(one["gains"])) for one in known]
        right = [one["interval"][0] <= gain <= one["interval"][1] for one, gain in zip(known, means, strict=True)]
        errors = [np.std(one["gains"], ddof=1) / np.sqrt(len(one["gains"])) for one in known]
        widths = [np.mean([(one[name][1] - one[name][0]) / 2 for one in of_kind]) for name in ("interval", "single")]
        rows.append(
            [
                kind,
                len(of_kind),
                f"{np.mean([one['gain'] for one in of_kind]):+.4f} ± {widths[0]:.4f}",
                f"{np.mean(means):+.4f} (se {np.sqrt(np.mean(np.square(errors))):.4f})" if means else "",
                f"{sum(right)} of {len(right)}" if means else "",
                f"{np.mean([one['change'] for one in of_kind]):+.4f}",
                f"± {widths[1]:.4f}",
                f"{sum(holds)} of {len(holds)}",
            ]
        )
        held += holds
        average += right
    header = ("set", "sets", "forecast", "average gain", "held", "change of one training", "`single`", "held")
    lines = [f"`single` held the change in {sum(held)} of {len(held)} sets ({np.mean(held):.0%}; at least 80% wanted)"]
    if average:
        lines.append(f"`interval` held the average gain in {sum(average)} of {len(average)} synthetic sets")
    return "\n\n".join([harness.markdown(header, rows), *lines])


def main() -> None:
    """Measure and print."""
    parser = harness.arguments(__doc__, out="results/learning_curve.md", processes=1)
    parser.add_argument("--folder", help="of the data sets; by default where rw.load_dataset looks")
    parser.add_argument(
        "--kinds", nargs="+", choices=harness.KINDS, default=list(harness.KINDS), help="of synthetic sets"
    )
    parser.add_argument("--sets", type=int, default=3, help="of each synthetic kind")
    parser.add_argument("--real", type=int, default=6, help="resamples of MQ2008 and of MQ2007")
    args = parser.parse_args()
    folder = harness.data_folder(args.folder)
    counts = dict.fromkeys(("mq2008", "mq2007"), args.real) | dict.fromkeys(args.kinds, args.sets)
    seeds = range(max(counts.values()))
    cells = [Cell(kind, seed, folder) for seed in seeds for kind, count in counts.items() if seed < count]
    outcomes = harness.Cells[Cell](args.out).measure(cells, measure, args.processes)
    text = page(outcomes)
    harness.write(args.out, text + "\n")
    print(text)


if __name__ == "__main__":
    main()
