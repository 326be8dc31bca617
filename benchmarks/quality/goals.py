"""Several goals: are constraints met on new queries, at what cost, and is a frontier better than blends of models?

    python -m benchmarks.quality.goals [--seeds 50] [--folder …] [--figures docs/img] [--out results/goals.md]
    python -m benchmarks.quality.goals --auto     # two minutes of one core

Constraints: small synthetic sets, 150 queries to train on, 150 to validate, 2,000 to test, with a second label at an
angle to the first. `constraints=` demands a goal of the second label's NDCG@10. Beside it stand the same dual ascent
on the mean instead of its lower bound, and the best of 21 fixed weights: each trained so, its round chosen by the same
rule, and the weight by the first metric on validation among those that are feasible by the same lower bound.

Frontiers: bags of 9 weights on synthetic sets of two angles, and on all 784 queries of MQ2008, out of fold, where the
second label is the PageRank of a document within its query (0 to 2), which is taken out of the features. Beside it
stand blends: the scores of the two bags of one label each, in units of their spread, added up with the same weights. A
blend has twice the models of a point, so there is also a frontier of bags of two repeats, which have as many.

With ``--auto`` instead: what AutoRanker reaches whose metric measures the second label, beside bags of one recipe on
either label; and what a further bag that was stopped after few rounds weighs beside complete bags, and costs.
"""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import rankwise as rw
from benchmarks import harness
from rankwise.metrics.base import weighted_mean
from rankwise.rankers.ensembles.distilled import standardized_scores
from rankwise.rankers.training import validation
from rankwise.rankers.training.constraints import Constraints, UnmetConstraintWarning
from rankwise.statistics.evaluation import Evaluation
from rankwise.wings.tuning.frontier import Frontier, dominated_volume

FIRST, SECOND = "ndcg@10", "ndcg(label=buy)@10"
TASKS = {90.0: 0.62, 120.0: 0.55}
"""Angle of the second label -> goal, about halfway between what the models of one label each reach."""
FRONTIERS = (*(f"{angle:g}" for angle in TASKS), "mq2008")
WEIGHTS = np.linspace(0.0, 1.0, 21)
SETTINGS: dict[str, Any] = {"leaves": 7, "min_documents": 20, "learning_rate": 0.15, "threads": 1, "progress": False}
PAGERANK = 40


@dataclass(frozen=True)
class Cell:
    study: str
    angle: float
    seed: int
    folder: str


def trained(parts: tuple[rw.RankingDataset, ...], goal: float) -> dict[str, float]:
    """Train with a constraint; return the metrics of the round that is kept."""
    train, valid, test = parts
    settings = SETTINGS | {"rounds": 60, "patience": None, "constraints": {SECOND: goal}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnmetConstraintWarning)
        model = rw.LightGBMRanker("xendcg", **settings).fit(train, valid)
    first, second = (weighted_mean(rw.metric(name).of(model.predict(test), test)) for name in (FIRST, SECOND))
    bound, value = (model.history_[name][model.best_round_ - 1] for name in (f"bound {SECOND}", FIRST))
    return {"first": first, "second": second, "bound": bound, "valid": value}


def constrained(cell: Cell) -> dict[str, Any]:
    """Measure the three ways to reach a goal on one set."""
    data = rw.synthetic(n_queries=2300, n_docs=15, n_features=10, goals={"buy": cell.angle}, seed=cell.seed)
    parts, goal = tuple(data.take(slice(*ends)) for ends in ((0, 150), (150, 300), (300, None))), TASKS[cell.angle]
    outcome: dict[str, Any] = {"constraints": trained(parts, goal)}
    with patch.object(validation, "lower_bound", lambda _, *values: weighted_mean(*values)):
        outcome["mean"] = trained(parts, goal)
    grid = []
    for weight in WEIGHTS:
        with patch.object(Constraints, "weights", lambda *_, weight=weight: (1.0 - weight, weight)):
            grid.append(trained(parts, goal))
    feasible = [one for one in grid if one["bound"] >= goal]
    outcome["grid"] = max(feasible, key=lambda one: one["valid"]) if feasible else None
    return outcome


def with_pagerank(folder: str) -> rw.RankingDataset:
    """Return all queries of MQ2008, with PageRank within the query as a second label and not as a feature."""
    data = rw.concatenate(harness.parts(folder, "mq2008", 1))
    queries = np.repeat(np.arange(data.n_queries), data.sizes)
    order = np.lexsort((data.features[:, PAGERANK], queries))
    share = np.empty(data.n_docs)
    share[order] = (np.arange(data.n_docs) - data.offsets[queries[order]] + 1.0) / data.sizes[queries[order]]
    labels = np.searchsorted([0.8, 0.95], share, side="right")
    features = np.delete(data.features, PAGERANK, axis=1)
    return data.with_(features=features, feature_names=None, more_labels={"buy": labels})


def curves(cell: Cell) -> tuple[Frontier, Frontier, Frontier]:
    """Return the frontier of bags, that of bags of two repeats, and that of blends of the first and the last bag."""
    valid = None
    if cell.study == "mq2008":
        train = with_pagerank(cell.folder)
    else:
        goals = {"buy": cell.angle}
        data = rw.synthetic(n_queries=1300, n_docs=15, n_features=10, goals=goals, seed=100 + cell.seed)
        train, valid = data.take(slice(0, 300)), data.take(slice(300, None))
    ranker = rw.LightGBMRanker(rounds=80, smoothing=10, **SETTINGS)
    curve, larger = (
        rw.frontier(rw.bagged(ranker, 5, repeats=n), train, valid, ["xendcg", "on(buy, xendcg)"], progress=False)
        for n in (1, 2)
    )
    ends, data = (curve.models[0], curve.models[-1]), train if valid is None else valid
    alone = [model.held_out_.cross_fitted if valid is None else model.predict(data) for model in ends]
    units = np.stack([standardized_scores(scores, data) for scores in alone], axis=1)
    columns = {
        f"{name}, point {number}": rw.metric(name).of(units @ weights, data)
        for number, weights in enumerate(curve.weights)
        for name in curve.goals
    }
    blends = Evaluation(columns, curve.evaluation.query_ids, data.weights)
    return curve, larger, Frontier(curve.goals, curve.weights, (None,) * len(curve.weights), blends)


def frontiers(cell: Cell, figures: Path) -> dict[str, Any]:
    """Compare volumes above the lowest means of all, paired by query, and draw the frontier."""
    curve, larger, blends = curves(cell)
    reference = np.min([one.reference for one in (curve, larger, blends)], axis=0)
    name = "mq2008" if cell.study == "mq2008" else f"{cell.angle:g}"
    curve.plot(figures / f"frontier-{name}.png", force=True)
    row = [name, f"{blends.hypervolume(reference).value:.4f}"]
    resampled = [
        dominated_volume(one.evaluation.resampled().reshape(-1, *one.means.shape) - reference)
        for one in (curve, larger, blends)
    ]
    for one, volumes in zip((curve, larger), resampled, strict=False):
        low, high = np.quantile(volumes - resampled[-1], [0.025, 0.975])
        gap = one.hypervolume(reference).value - blends.hypervolume(reference).value
        row += [f"{one.hypervolume(reference).value:.4f}", f"{gap:+.4f} [{low:+.4f}, {high:+.4f}]"]
    return {"row": row, "table": curve.table().markdown()}


def constraint_table(outcomes: dict[Cell, Any]) -> str:
    """Return one row for each angle and way."""
    rows = []
    for angle, goal in TASKS.items():
        of_angle = [outcome for cell, outcome in outcomes.items() if cell.angle == angle]
        for way, title in (("constraints", "`constraints=`"), ("mean", "on the mean"), ("grid", "best of 21 weights")):
            runs = [(one[way], one["grid"]) for one in of_angle if one[way] is not None]
            feasible = sum(one["bound"] >= goal for one, _ in runs)
            met = sum(one["second"] >= goal for one, _ in runs)
            first, second = (f"{np.mean([one[name] for one, _ in runs]):.4f}" for name in ("first", "second"))
            gaps = np.array([one["first"] - best["first"] for one, best in runs if best is not None])
            gap = harness.difference(gaps) if way != "grid" else ""
            rows.append(
                [
                    f"{angle:g}°, {goal}",
                    title,
                    f"{feasible} of {len(runs)}",
                    f"{met} of {len(runs)}",
                    first,
                    second,
                    gap,
                ]
            )
    header = ("angle, goal", "", "reached on validation", "met by the test mean", FIRST, SECOND, "first − grid's")
    return harness.markdown(header, rows)


def searched(seed: int) -> list[str]:
    """Return the second metric on test queries: of AutoRanker with recipes of trees, and of bags on either label."""
    data = rw.synthetic(n_queries=1300, n_docs=15, n_features=10, goals={"buy": 90.0}, seed=seed)
    train, test = data.take(slice(0, 300)), data.take(slice(300, None))
    auto = rw.AutoRanker(None, SECOND, max_recipes=2, threads=1, progress=False)
    bags = [
        rw.bagged(rw.LightGBMRanker(loss, metrics=SECOND, threads=1, progress=False))
        for loss in ("lambdarank", "on(buy, lambdarank)")
    ]
    with patch.object(rw.NeuralRanker, "portfolio", ()):  # nets take most of the time, and show nothing more
        return [f"{rw.evaluate(one.fit(train), test, [SECOND]).mean[SECOND]:.4f}" for one in (auto, *bags)]


def with_a_cut_bag(seed: int, rounds: int) -> list[str]:
    """Return what a bag of few rounds weighs beside complete ones, and the metric of the average with and without."""
    data = rw.synthetic(n_queries=1300, n_docs=15, n_features=10, seed=100 + seed)
    train, test = data.take(slice(0, 300)), data.take(slice(300, None))

    def stop(round: int, _: object) -> None:
        if round == rounds:
            raise rw.errors.StopTraining("minutes")

    def bag(loss: str, number: int, **options: Any) -> Any:
        ranker = rw.LightGBMRanker(loss, rounds=80, bagging_fraction=0.7, bagging_freq=1, **SETTINGS | {"seed": number})
        return rw.bagged(ranker, 5, fold_seed=0).fit(train, **options)

    complete = [bag("xendcg", 0), bag("lambdarank", 0)]
    cut = bag("xendcg", 1, callback=stop)
    kept = rw.blended.of_fitted(complete, train, weights="average")
    blend = rw.blended.of_fitted([*complete, cut], train, weights="average")
    alone, other = (one.out_of_fold_.mean[FIRST] for one in (complete[0], cut))
    tested = [rw.evaluate(one, test, [FIRST]).mean[FIRST] for one in (blend, kept)]
    weights = (f"{blend.weights_[number]:.2f}" for number in (0, 2))
    return [f"{alone:.4f}", f"{other:.4f}", *weights, *(f"{value:.4f}" for value in tested)]


def main() -> None:
    """Measure and print."""
    parser = harness.arguments(__doc__, out="results/goals.md", processes=1)
    parser.add_argument("--folder", help="of the data sets; by default where rw.load_dataset looks")
    parser.add_argument("--figures", type=Path, default=Path("results"))
    parser.add_argument("--seeds", type=int, default=50, help="of the constraints")
    parser.add_argument(
        "--frontiers", nargs="*", default=FRONTIERS, choices=FRONTIERS, help="their sets; none: no frontier"
    )
    parser.add_argument("--auto", action="store_true", help="what AutoRanker learns, and what it weighs")
    args = parser.parse_args()
    if args.auto:
        columns = ("seed", f"AutoRanker({SECOND})", "bag of lambdarank", "bag of on(buy, lambdarank)")
        print(harness.markdown(columns, [[str(seed), *searched(seed)] for seed in range(3)]))
        titles = (
            "stopped, seed",
            "complete",
            "stopped",
            "weight",
            "weight of stopped",
            "average on test",
            "without it",
        )
        stopped = [(rounds, seed) for rounds in (3, 12) for seed in range(3)]
        rows = [[f"{rounds} rounds, {seed}", *with_a_cut_bag(seed, rounds)] for rounds, seed in stopped]
        print(harness.markdown(titles, rows))
        return
    folder = harness.data_folder(args.folder)
    cells = [Cell("constraints", angle, seed, folder) for seed in range(args.seeds) for angle in TASKS]
    text = constraint_table(harness.Cells[Cell](args.out).measure(cells, constrained, args.processes))
    rows, tables = [], []
    for name in args.frontiers:
        cell = Cell("mq2008", 0.0, 0, folder) if name == "mq2008" else Cell("synthetic", float(name), 0, folder)
        one = frontiers(cell, args.figures)
        rows.append(one["row"])
        tables.append(f"{one['row'][0]}\n\n{one['table']}")
    header = ("set", "blends", "frontier", "difference, 95% interval", "of two repeats", "difference, 95% interval")
    volumes = harness.markdown(header, rows)
    text = "\n\n".join([text, volumes, *tables])
    harness.write(args.out, text + "\n")
    print(text)


if __name__ == "__main__":
    main()
