"""Are scores probabilities, and what does that cost: the objective ``calibrated`` beside calibration after training.

    python -m benchmarks.quality.calibration simulated [--seeds 5] [--processes 2]
    python -m benchmarks.quality.calibration mq2007 FOLDER [--repeats 3] [--processes 2]
    python -m benchmarks.quality.calibration intervals [--draws 200]
    python -m benchmarks.quality.calibration ensembles [--seeds 5]
    python -m benchmarks.quality.calibration rare

``simulated`` draws labels from known probabilities: the features of ``rw.synthetic``, log odds of a document −2.5 + 1.2
times its utility, and in the second setting 1.5 times a feature of its query more, so that levels differ between
queries. LightGBM is trained on 1,200 queries of about 20 documents with each objective, stops by NDCG@10 of 400 others,
to which curves are fitted too, and 4,000 more are the test. The error is the mean over 15 bins of equal size of
|mean prediction − mean known probability|; the one by labels (ECE) is beside it, with what chance alone makes of it.

``mq2007`` compares NDCG@10 of test queries with ``softmax_ce``, paired by query, in five folds, cut anew ``--repeats``
times. ``alpha`` and ``max_label`` are chosen in each fold by NDCG@10 of the validation queries. FOLDER is that of
`benchmarks/README.md`.

``intervals`` counts how often the 95% interval of the calibration error holds the known one, that of two million
documents: probabilities are .1 + .8 Beta(1, 4), 20 documents of a query, and predictions are too large by the error
("shift"), or too large above .26 and too small below ("spread"). Documents of a query may be dependent: their labels
come from normal variables with a common part of so many standard deviations.

``ensembles`` fits curves of a bag and a blend, trained on 400 queries, to the scores of these queries, to their
out-of-fold scores, which ``calibrate(bagged(…))`` takes, and to 2,000 new queries. The error is that of ``simulated``.

``rare`` trains ``calibrated`` where 1% of documents are relevant, for 20, 100 and 300 rounds (nets: epochs, a
fifteenth), on 600 queries, and prints the mean probability of 600 others, the known one, and the error by bins.
"""

import argparse
import dataclasses
import itertools
from typing import Any

import numpy as np
from scipy.special import ndtri

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


@dataclasses.dataclass(frozen=True)
class Draws:
    """Samples of queries with a known error."""

    queries: int
    error: float
    dependence: float
    shape: str
    draws: int


def simulated(setting: str, seed: int) -> tuple[rw.RankingDataset, np.ndarray]:
    """Return data with Bernoulli labels, and their probabilities."""
    data = rw.synthetic(n_queries=sum(SIZES), n_docs=20, seed=seed)
    log_odds = -2.5 + 1.2 * rw.data.synthetic_ideal(data, seed=seed)
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


def coverage(cell: Draws) -> list[float]:
    """Return the known error, and means over draws: ECE, by chance, ends of the interval, whether it holds that."""
    rng = np.random.default_rng([cell.queries, round(1000 * cell.error), round(10 * cell.dependence)])

    def lists(n_queries: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        chances = 0.1 + 0.8 * rng.beta(1, 4, 20 * n_queries)
        common, own = np.repeat(rng.normal(size=n_queries), 20), rng.normal(size=chances.size)
        latent = cell.dependence * common + np.sqrt(1.0 - cell.dependence**2) * own
        wrong = np.sign(chances - 0.26) if cell.shape == "spread" else 1.0
        return chances, chances + cell.error * wrong, latent < ndtri(chances)

    chances, predicted, _ = lists(100_000)
    order = np.array_split(np.argsort(predicted), 15)
    known = float(np.mean([abs(predicted[part].mean() - chances[part].mean()) for part in order]))
    measured = []
    for seed in range(cell.draws):
        _, predicted, labels = lists(cell.queries)
        data = rw.RankingDataset(np.zeros((labels.size, 1)), labels, np.arange(0, labels.size + 1, 20))
        one = rw.evaluate(predicted.clip(0.0, 1.0), data, resamples=1000, seed=seed).reliability()
        low, high = one.interval
        measured.append((one.error, one.by_chance, low, high, low - 1e-9 <= known <= high + 1e-9))
    return [known, *np.mean(measured, axis=0).tolist()]


def intervals(options: argparse.Namespace) -> str:
    kinds = [(0.0, "shift"), (0.5, "shift"), (0.0, "spread")]
    wanted = [
        Draws(n_queries, error, dependence, shape, options.draws)
        for (dependence, shape), n_queries, error in itertools.product(kinds, (40, 100, 400), (0.0, 0.02, 0.05, 0.1))
        if error or shape == "shift"
    ]
    cells = harness.Cells[Draws](options.out).measure(wanted, coverage, options.processes)
    header = [
        "gaps",
        "dependence",
        "queries",
        "known error",
        "ECE",
        "by chance",
        "low",
        "high",
        "intervals that hold it",
    ]
    rows = [
        [one.shape, f"{one.dependence:g}", one.queries, *(f"{number:.4f}" for number in numbers)]
        for one, numbers in cells.items()
    ]
    return harness.markdown(header, rows)


def curves(cell: Cell) -> dict[str, list[float]]:
    """Return the error, and what is predicted too much in the top decile, of curves of an ensemble by what they fit."""
    data, chances = simulated(SETTINGS[0], cell.seed)
    pool, fresh, test = (data.take(np.arange(a, b)) for a, b in itertools.pairwise((0, 400, 2400, 5600)))
    known = chances[data.offsets[2400] : data.offsets[5600]]
    ensemble = rw.ranker(cell.objective).fit(pool)
    fitted = {"queries that members saw": (pool, ensemble.predict(pool))}
    fitted |= {
        "out-of-fold scores": (pool, ensemble.oof_scores_),
        "2,000 new queries": (fresh, ensemble.predict(fresh)),
    }
    outcome = {}
    for (name, (lists, scores)), method in itertools.product(fitted.items(), METHODS[1:]):
        ranker = rw.CalibratedRanker(ensemble.__sklearn_clone__(), method=method)
        predicted = ranker.calibrate(ensemble, lists, scores).predict(test)
        order = np.array_split(np.argsort(predicted), 15)
        error = np.mean([abs(predicted[part].mean() - known[part].mean()) for part in order])
        top = np.argsort(predicted)[-predicted.size // 10 :]
        outcome[f"{name}|{method}"] = [float(error), float(predicted[top].mean() - known[top].mean())]
    return outcome


def ensembles(options: argparse.Namespace) -> str:
    single = "lightgbm(lambdarank, threads=1, rounds=200)"
    kinds = {"bag": f"bagged({single})", "blend": f"blended({single}, lightgbm(xendcg, threads=1, rounds=200))"}
    kinds["bag that overfits"] = "bagged(lightgbm(lambdarank, threads=1, leaves=63, min_documents=2, rounds=60))"
    wanted = [Cell("", name, text, seed) for name, text in kinds.items() for seed in range(options.seeds)]
    rows: dict[tuple[str, ...], list[list[float]]] = {}
    for cell, outcome in harness.Cells[Cell](options.out).measure(wanted, curves, options.processes).items():
        for name, numbers in outcome.items():
            rows.setdefault((cell.data, *name.split("|")), []).append(numbers)
    lines = []
    for key, numbers in rows.items():
        columns = np.array(numbers).T
        lines.append([*key, *(f"{column.mean():.4f} ± {harness.half_width(column):.4f}" for column in columns)])
    return harness.markdown(["ensemble", "fitted to", "curve", "error", "too much in the top decile"], lines)


def rare(_: argparse.Namespace) -> str:
    data = rw.synthetic(n_queries=1200, n_docs=20, seed=0)
    chances = sigmoid(-5.5 + 1.2 * rw.data.synthetic_ideal(data, seed=0))
    labels = np.random.default_rng(0).random(data.n_docs) < chances
    data = data.with_(labels=labels.astype(float))
    train, test, known = data.take(slice(0, 600)), data.take(slice(600, 1200)), chances[data.offsets[600] :]
    lines = []
    for name, rounds in itertools.product(("lightgbm", "xgboost", "catboost", "neural"), (20, 100, 300)):
        length = f"epochs={max(rounds // 15, 1)}, device=cpu" if name == "neural" else f"rounds={rounds}"
        model = rw.ranker(f"{name}(calibrated, {length}, threads=1, progress=False)").fit(train)
        predicted = sigmoid(model.predict(test))
        order = np.array_split(np.argsort(predicted), 15)
        error = np.mean([abs(predicted[part].mean() - known[part].mean()) for part in order])
        lines.append([name, length, *(f"{number:.4f}" for number in (predicted.mean(), known.mean(), error))])
    return harness.markdown(["ranker", "length", "mean probability", "known", "error"], lines)


PARTS = {"simulated": simulation, "mq2007": folds, "intervals": intervals, "ensembles": ensembles, "rare": rare}


def main() -> None:
    parser = harness.arguments(__doc__, out="results/calibration.json")
    parser.add_argument("part", choices=tuple(PARTS))
    parser.add_argument("folder", nargs="?", default="")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--draws", type=int, default=200)
    options = parser.parse_args()
    print(PARTS[options.part](options))


if __name__ == "__main__":
    main()
