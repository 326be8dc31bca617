"""Are scores probabilities, and what does that cost: the objective ``calibrated`` beside calibration after training.

    python -m benchmarks.quality.calibration simulated [--seeds 5] [--processes 2]
    python -m benchmarks.quality.calibration mq2007 FOLDER [--repeats 3] [--processes 2]
    python -m benchmarks.quality.calibration intervals [--draws 300]

``simulated`` draws labels from known probabilities: the features of ``rw.synthetic``, log odds of a document −2.5 + 1.2
times its utility, and in the second setting 1.5 times a feature of its query more, so that levels differ between
queries. LightGBM is trained on 1,200 queries of about 20 documents with each objective, stops by NDCG@10 of 400 others,
to which curves are fitted too, and 4,000 more are the test. The error is the mean over 15 bins of equal size of
|mean prediction − mean known probability|; the one by labels (ECE) is beside it, with what chance alone makes of it.

``mq2007`` compares NDCG@10 of test queries with ``softmax_ce``, paired by query, in five folds, cut anew ``--repeats``
times. ``alpha`` and ``max_label`` are chosen in each fold by NDCG@10 of the validation queries. FOLDER is that of
`benchmarks/README.md`.

``intervals`` counts how often the 95% interval of the calibration error holds the error of four million documents:
probabilities p from Beta(1, 4), predictions p and p^1.3.
"""

import argparse
import dataclasses
import itertools
from typing import Any

import numpy as np

import rankwise as rw
from benchmarks import harness
from rankwise.statistics.calibration import sigmoid

METRIC = "ndcg@10"
SETTINGS = ("one level", "levels by query")
OBJECTIVES = ("calibrated", "calibrated(alpha=0.0)", "calibrated(alpha=0.9)", "lambdarank", "softmax_ce")
METHODS = ("sigmoid", "platt", "isotonic")
ALPHAS, TOPS = (0.1, 0.25, 0.5, 0.75, 0.9), (1.0, 2.0)
BASELINE = "softmax_ce"
SIZES = (1200, 400, 4000)


@dataclasses.dataclass(frozen=True)
class Cell:
    """One training: on simulated data of a setting, or on a fold."""

    folder: str
    data: str
    objective: str
    seed: int
    fold: int = 0


def simulated(setting: str, seed: int) -> tuple[rw.RankingDataset, np.ndarray]:
    """Return data with Bernoulli labels, and their probabilities."""
    data = rw.synthetic(n_queries=sum(SIZES), n_docs=20, seed=seed)
    log_odds = -2.5 + 1.2 * rw.synthetic_ideal(data, seed=seed)
    if setting == SETTINGS[1]:
        column = data.features[:, 8]  # a feature of queries
        log_odds = log_odds + 1.5 * (column - column.mean()) / column.std()
    chances = sigmoid(log_odds)
    labels = np.random.default_rng([seed, 1]).random(data.n_docs) < chances
    return data.with_(labels=labels.astype(float)), chances


def errors(cell: Cell) -> dict[str, list[float]]:
    """Return NDCG@10, the error, ECE, ECE by chance and the mean error of documents, for every method."""
    data, chances = simulated(cell.data, cell.seed)
    cuts = np.cumsum((0, *SIZES))
    train, valid, test = (data.take(np.arange(a, b)) for a, b in itertools.pairwise(cuts))
    model = rw.LightGBMRanker(cell.objective, threads=1, progress=False).fit(train, valid)
    known, outcome = chances[data.offsets[cuts[2]] :], {}
    for method in METHODS if cell.objective.startswith("calibrated") else METHODS[1:]:
        calibrated = rw.calibrate(model, valid, method)
        evaluation = rw.evaluate(calibrated, test, METRIC, resamples=200)
        reliability, predicted = evaluation.reliability(), calibrated.predict(test)
        order = np.array_split(np.argsort(predicted), 15)
        error = np.mean([abs(predicted[part].mean() - known[part].mean()) for part in order])
        documents = np.abs(predicted - known).mean()
        numbers = (evaluation.mean[METRIC], error, reliability.error, reliability.by_chance, documents)
        outcome[method] = [float(number) for number in numbers]
    return outcome


def ranked(cell: Cell) -> dict[str, Any]:
    """Return NDCG@10 of the validation queries, and of every test query by its id."""
    train, valid, test = list(rw.folds(harness.whole(cell.folder), harness.FOLDS, seed=cell.seed))[cell.fold]
    model = rw.LightGBMRanker(cell.objective, threads=1, progress=False).fit(train, valid)
    evaluation = rw.evaluate(model, test, METRIC)
    values = harness.by_query(evaluation, [METRIC])[METRIC]
    by_id = dict(zip(map(str, evaluation.query_ids), values, strict=True))
    return {"valid": rw.evaluate(model, valid, METRIC).mean[METRIC], "test": by_id, "rounds": model.best_round_}


def simulation(options: argparse.Namespace) -> str:
    wanted = [
        Cell("", setting, objective, seed)
        for setting in SETTINGS
        for seed in range(options.seeds)
        for objective in OBJECTIVES
    ]
    cells = harness.Cells[Cell](options.out).measure(wanted, errors, options.processes)
    rows: dict[tuple[str, str, str], list[list[float]]] = {}
    for cell, outcome in cells.items():
        for method, numbers in outcome.items():
            rows.setdefault((cell.data, cell.objective, method), []).append(numbers)
    header = ["setting", "objective", "curve", METRIC, "error", "by labels (ECE)", "ECE by chance", "by document"]
    lines = []
    for key, numbers in rows.items():
        columns = np.array(numbers).T
        lines.append([*key, *(f"{column.mean():.4f} ± {harness.half_width(column):.4f}" for column in columns)])
    return harness.markdown(header, lines)


def folds(options: argparse.Namespace) -> str:
    grid = {f"calibrated(alpha={a}, max_label={top})": (a, top) for a, top in itertools.product(ALPHAS, TOPS)}
    objectives = (BASELINE, "lambdarank", *grid)
    places = list(itertools.product(range(options.repeats), range(harness.FOLDS)))
    wanted = [Cell(options.folder, "mq2007", one, seed, fold) for seed, fold in places for one in objectives]
    cells = harness.Cells[Cell](options.out).measure(wanted, ranked, options.processes)
    values: dict[str, dict[str, list[float]]] = {name: {} for name in ("calibrated, chosen", *objectives)}
    chosen = []
    for seed, fold in places:
        outcomes = {one: cells[Cell(options.folder, "mq2007", one, seed, fold)] for one in objectives}
        best = max(grid, key=lambda one, outcomes=outcomes: outcomes[one]["valid"])  # type: ignore[misc]
        chosen.append(best)
        for name in values:
            for query, value in outcomes[best if name.endswith("chosen") else name]["test"].items():
                values[name].setdefault(query, []).append(np.nan if value is None else value)
    means = {name: np.array([np.mean(by_id[query]) for query in sorted(by_id)]) for name, by_id in values.items()}
    table = harness.tables_by_data({(name, "mq2007"): column for name, column in means.items()}, BASELINE)
    counts = ", ".join(f"{one}: {chosen.count(one)}" for one in grid if one in chosen)
    return f"{table}\n\nChosen on validation queries: {counts}."


def intervals(options: argparse.Namespace) -> str:
    rng = np.random.default_rng(0)
    rows = []
    for n_queries, power in itertools.product((100, 1000), (1.0, 1.3)):
        chances = rng.beta(1, 4, 4_000_000)
        order = np.array_split(np.argsort(chances), 15)
        known = np.mean([abs((chances[part] ** power).mean() - chances[part].mean()) for part in order])
        measured = []
        for seed in range(options.draws):
            p = rng.beta(1, 4, 20 * n_queries)
            data = rw.RankingDataset(np.zeros((p.size, 1)), rng.random(p.size) < p, np.arange(0, p.size + 1, 20))
            one = rw.evaluate(p**power, data, resamples=400, seed=seed).reliability()
            measured.append((one.error, one.by_chance, one.interval[0] <= known <= one.interval[1]))
        numbers = (known, *np.mean(measured, axis=0))
        rows.append([n_queries, f"p^{power:g}", *(f"{number:.4f}" for number in numbers)])
    return harness.markdown(
        ["queries", "prediction", "known error", "ECE", "by chance", "intervals that hold it"], rows
    )


def main() -> None:
    parser = harness.arguments(__doc__, out="results/calibration.json")
    parser.add_argument("part", choices=("simulated", "mq2007", "intervals"))
    parser.add_argument("folder", nargs="?", default="")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--draws", type=int, default=300)
    options = parser.parse_args()
    print({"simulated": simulation, "mq2007": folds, "intervals": intervals}[options.part](options))


if __name__ == "__main__":
    main()
