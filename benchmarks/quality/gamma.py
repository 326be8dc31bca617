"""Which γ of XE-NDCG ranks best: distributions by mean, spread and change over rounds, chosen without test queries.

    python -m benchmarks.quality.gamma FOLDER [--data mq2008 mq2007] [--splits 10] [--inner 5] [--processes 2]
        [--out gamma.csv]
    python -m benchmarks.quality.gamma FOLDER --gammas tight "always 1"
    python -m benchmarks.quality.gamma --tables gamma.csv

FOLDER is that of `benchmarks/README.md`. A split holds out a fifth of the queries for testing. The others are divided
anew several times: 70% train a model, 15% stop it, 15% choose γ, by the mean NDCG@5 over those divisions. The chosen γ
is then held against uniform draws, the paper's choice, on the test queries. Trees have the settings of `2021-table1`.

Intervals are of 95% over splits, with the correction of Nadeau and Bengio for splits that share their queries.
"""

import csv
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import special

import rankwise as rw
from benchmarks import harness
from benchmarks.harness import whole
from rankwise.base import tables
from rankwise.statistics.significance import t_test
from rankwise.wings.lab.experiments.spec import find_spec

Floats = NDArray[np.float64]
Quantiles = Callable[[Floats, int], Floats]
"""Uniform draws and the number of a round to γ."""

RECIPE = find_spec("2021-table1")
TESTED = 0.2
MOVED = 100  # rounds
BASELINE = "uniform"
TITLES = {"mq2007": "mq2007-partial"}
METRICS = ("ndcg@5", "ndcg@10")


def constant(value: float) -> Quantiles:
    return lambda draws, _: np.full(draws.shape, value)


def beta(a: float, b: float) -> Quantiles:
    at = np.linspace(0.0, 1.0, 4097)
    quantiles = special.betaincinv(a, b, at)
    return lambda draws, _: np.interp(draws, at, quantiles)


def annealed(start: Quantiles, end: Quantiles) -> Quantiles:
    """Move the quantiles from one distribution to another over the first rounds."""

    def moved(draws: Floats, number: int) -> Floats:
        share = min(number / MOVED, 1.0)
        return (1.0 - share) * start(draws, number) + share * end(draws, number)

    return moved


@dataclass(frozen=True)
class Drawn:
    """XE-NDCG with γ of any distribution: the cross entropy with 2^label − γ over their sum."""

    gamma: Quantiles
    per: str = "document"
    once: bool = False
    exact_hessian: ClassVar[bool] = True

    def __call__(
        self, scores: Floats, labels: Floats, offsets: NDArray[np.int64], stream: rw.Stream
    ) -> rw.objectives.Derivatives:
        drawn = stream.at(0) if self.once else stream
        if self.per == "document":
            draws = drawn.documents(offsets)
        else:
            draws = np.repeat(drawn.per_query(offsets.size - 1)[:, 0], np.diff(offsets))
        return rw.objectives.SoftmaxCE()(scores, 2.0**labels - self.gamma(draws, stream.round), offsets)


GAMMAS: dict[str, Drawn | rw.Objective] = {
    BASELINE: Drawn(beta(1.0, 1.0)),
    **{f"always {value:g}": Drawn(constant(value)) for value in (0.0, 0.25, 0.5, 0.75, 1.0)},
    "Beta(0.3, 0.3): near 0 or 1": Drawn(beta(0.3, 0.3)),
    "Beta(4, 4): near 0.5": Drawn(beta(4.0, 4.0)),
    "Beta(1, 4): mostly low": Drawn(beta(1.0, 4.0)),
    "Beta(4, 1): mostly high": Drawn(beta(4.0, 1.0)),
    f"high to low in {MOVED} rounds": Drawn(annealed(beta(4.0, 1.0), beta(1.0, 4.0))),
    f"low to high in {MOVED} rounds": Drawn(annealed(beta(1.0, 4.0), beta(4.0, 1.0))),
    "uniform, one draw a list": Drawn(beta(1.0, 1.0), per="list"),
    "uniform, the same in every round": Drawn(beta(1.0, 1.0), once=True),
    "half the loss uniform, half tight": 0.5 * rw.objectives.XENDCG() + 0.5 * rw.objectives.XENDCG(gamma="tight"),
    "tight": rw.objectives.XENDCG(gamma="tight"),
}

Job = tuple[str, int, int, str]
Row = tuple[str, int, int, str, float, float, float, float]


@cache
def queries(folder: str, data: str) -> rw.RankingDataset:
    """All queries of a set."""
    if data != "mq2008":
        return whole(folder)
    parts = rw.load_dataset(data, fold=1, folder=folder, cache=False)
    return rw.concatenate([part for part in parts if part is not None])


def measure(folder: str, job: Job) -> tuple[float, ...]:
    """Train a model; give NDCG@5 where γ is chosen, the metrics on test queries, and the rounds that were kept."""
    data, split, inner, name = job
    others, test = rw.split(queries(folder, data), (1.0 - TESTED, TESTED), seed=0, trial=split)
    train, stopping, choosing = rw.split(others, (0.7, 0.15, 0.15), seed=1 + split, trial=inner)
    settings = RECIPE.settings_of("XE-NDCG", data, 0.0)
    seed = 1000 * split + inner
    common = {"metrics": [RECIPE.decide], "seed": seed, "threads": 1, "progress": False}
    model = rw.LightGBMRanker(GAMMAS[name], **settings, **common).fit(train, stopping)  # type: ignore[arg-type]
    chosen = rw.evaluate(model, choosing, [RECIPE.decide]).mean[str(RECIPE.decide)]
    tested = rw.evaluate(model, test, METRICS).mean
    return (chosen, *(tested[metric] for metric in METRICS), float(model.best_round_))


def read(path: Path) -> list[Row]:
    """The measurements of a file."""
    with path.open(newline="") as file:
        return [
            (data, int(split), int(inner), name, *map(float, values))  # type: ignore[misc]
            for data, split, inner, name, *values in csv.reader(file)
        ]


def corrected(gaps: Floats) -> str:
    """Mean and half of the 95% interval over splits (Nadeau and Bengio)."""
    test = t_test(gaps, overlap=TESTED / (1.0 - TESTED))
    return f"{tables.number(test.mean, signed=True)} ± {tables.number(test.interval()[1] - test.mean)}"


def best(means: dict[str, Floats], split: int) -> str:
    """The γ of the highest mean where it is chosen."""
    return max(means, key=lambda name: float(means[name][split, 0]))


def table(rows: list[Row]) -> str:
    """Every γ against uniform draws, and the one that each split chose."""
    sums: dict[str, dict[str, dict[int, list[tuple[float, ...]]]]]
    sums = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for data, split, _, name, *values in rows:
        sums[data][name][split].append(tuple(values))
    texts = []
    for data, by_name in sums.items():
        means = {
            name: np.array([np.mean(by_split[one], axis=0) for one in sorted(by_split)])
            for name, by_split in by_name.items()
        }  # splits × (choosing, metrics, rounds)
        plain = means[BASELINE]
        header = ["γ", f"{RECIPE.decide}, choosing", *(f"{metric}, test" for metric in METRICS), "trees", "chosen"]
        chosen = [best(means, one) for one in range(len(plain))]
        count = Counter(chosen)
        lines = [" | ".join(header), " | ".join([":--", *["--:"] * (len(header) - 1)])]
        for name, found in means.items():
            if name == BASELINE:
                cells = [f"{mean:.4f}" for mean in plain[:, :-1].mean(axis=0)]
            else:
                cells = [corrected(gap) for gap in (found - plain)[:, :-1].T]
            lines.append(" | ".join([name, *cells, f"{found[:, -1].mean():.0f}", str(count[name])]))
        gaps = np.array([means[name][one] for one, name in enumerate(chosen)]) - plain
        own = [corrected(gap) for gap in gaps[:, :-1].T]
        lines.append(" | ".join(["the chosen one of each split", *own, "", str(len(plain))]))
        texts.append("\n".join([f"**{TITLES.get(data, data)}**", "", *(f"| {line} |" for line in lines)]))
    return "\n\n".join(texts)


def main() -> None:
    parser = harness.arguments(__doc__, out="gamma.csv")
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--data", nargs="+", default=["mq2008", "mq2007"])
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--inner", type=int, default=5)
    parser.add_argument("--gammas", nargs="+", default=list(GAMMAS)[1:], choices=list(GAMMAS)[1:], metavar="GAMMA")
    parser.add_argument("--tables", type=Path, help="print the tables of measurements that were made before")
    args = parser.parse_args()
    if args.tables is None:
        runs = itertools.product(range(args.splits), range(args.inner), args.data, [BASELINE, *args.gammas])
        jobs: list[Job] = [(data, split, inner, name) for split, inner, data, name in runs]
        for _ in harness.measured(jobs, partial(measure, args.folder), args.processes, args.out):
            pass
    print(table(read(args.tables or args.out)))


if __name__ == "__main__":
    main()
