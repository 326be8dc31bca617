"""How much of the gain of a bag or a blend a student keeps, and how long the three take to score a query.

    python -m benchmarks.quality.distil FOLDER [--data mq2008 mq2007] [--labelled 1.0 0.25] [--folds 5] [--seeds 2]
        [--part test] [--students NAME …] [--processes 2] [--out distil.json] [--quick]

FOLDER and folds are those of `benchmarks/README.md`. ``single`` is one LightGBM model with `xendcg`, stopped early on
the validation queries; ``bag`` is `rw.bagged(single, folds=5)`, and ``blend`` joins that bag and one of `lambdarank`.
A student is one model of `TREES` trees with as many leaves, which learns the scores of a bag or a blend. With
``--labelled 0.25``, labels are those of a quarter of the training queries; the rest is unlabelled, and only students
learn there, from their teacher's scores.

The gain of a method is its NDCG@10 less that of ``single``, paired by query; values of a query are averaged over seeds
first, since seeds are no new queries. *kept* is the student's gain over its teacher's, with a 95% interval of 10,000
samples of the queries: wide, where the teacher gains little. *agrees* is the correlation of a model's scores with its
teacher's within lists (of ``single``: with the bag's), which says more surely how near a student is. *time* is CPU time
of one thread per query with ``scorer()``, over that of ``single``: methods take turns, query by query, each is called
twice and the second call counts, and sums are divided.

``--part valid`` is for choosing how students learn: four fifths of a fold's training queries train, one fifth stops,
and the validation part measures; test queries are not looked at. Cells are kept beside ``--out``, and a benchmark that
was interrupted is resumed; after a change of the code, write to another ``--out``.
"""

import itertools
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import rankwise as rw
from benchmarks import harness
from benchmarks.harness import FOLDS, parts, shuffled, write
from rankwise.rankers.ensembles.distilled import standardized_scores, with_unlabelled

SETTINGS: dict[str, Any] = {
    "rounds": 500, "learning_rate": 0.05, "leaves": 15, "min_documents": 50, "extra_trees": True,
    "patience": 50, "smoothing": 5, "threads": 1, "progress": False,
}  # fmt: skip
TREES = 100
STUDENT = SETTINGS | {
    "rounds": TREES,
    "learning_rate": 0.15,
    "min_documents": 20,
    "extra_trees": False,
    "patience": None,
}
SINGLE, BAG, BLEND = "single", "bag", "blend"
METRIC = "ndcg@10"
STUDENTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {  # arguments of rw.distilled, and of the student
    "student": ({}, {}),
    "labels too": ({"weight": 0.5}, {}),
    "distil": ({"loss": "distil"}, {}),
    "extra_trees": ({}, {"extra_trees": True}),
    "shorter steps": ({}, {"learning_rate": 0.1}),
    "31 leaves": ({}, {"leaves": 31}),
    "out of fold": ({}, {}),
}


@dataclass(frozen=True)
class Cell:
    """All methods with one seed on one fold."""

    folder: str
    data: str
    labelled: float
    fold: int
    seed: int
    part: str
    students: tuple[str, ...]
    quick: bool


def measure(cell: Cell) -> dict[str, Any]:
    """Train single model, teachers and students; give their NDCG of every query, time to score, and trees."""
    train, valid, test = parts(cell.folder, cell.data, cell.fold)
    train = shuffled(train, cell.seed)
    if cell.part == "valid":
        test, (train, valid) = valid, rw.split(train, (0.8, 0.2), seed=cell.seed)
    unlabelled = None
    if cell.labelled < 1.0:
        train, unlabelled = rw.split(train, (cell.labelled, 1.0 - cell.labelled), seed=cell.seed)
    few = {"rounds": 10} if cell.quick else {}
    plain, other = (rw.LightGBMRanker(name, seed=cell.seed, **SETTINGS | few) for name in ("xendcg", "lambdarank"))
    models: dict[str, Any] = {SINGLE: rw.LightGBMRanker(**plain.get_params()).fit(train, valid)}
    bags = [rw.bagged(ranker, folds=5).fit(train, valid) for ranker in (plain, other)]
    models |= {BAG: bags[0], BLEND: rw.blended.of_fitted(bags, train, valid, metrics=METRIC)}
    everything = rw.concatenate([train, valid])
    for name, teacher in itertools.product(cell.students, (BAG, BLEND)):
        how, settings = STUDENTS[name]
        student = rw.LightGBMRanker("xendcg", seed=cell.seed, **STUDENT | settings | few)
        if name == "out of fold":
            models[f"{name} of {teacher}"] = taught_out_of_fold(models[teacher], student, everything, unlabelled)
        else:
            taught = rw.distilled(models[teacher], student, unlabelled=unlabelled, **how)
            models[f"{name} of {teacher}"] = taught.fit(everything)
    return {
        "values": {name: values(model, test) for name, model in models.items()},
        "agreement": {
            name: agreement(model, models[BLEND if name.endswith(BLEND) else BAG], test)
            for name, model in models.items()
        },
        "microseconds": microseconds({name: model.scorer() for name, model in models.items()}, test),
        "rounds": {SINGLE: models[SINGLE].best_round_, BAG: models[BAG].best_round_},
    }


def taught_out_of_fold(
    teacher: Any, student: rw.LightGBMRanker, train: rw.RankingDataset, unlabelled: rw.RankingDataset | None
) -> rw.LightGBMRanker:
    """The student as by default, but of each query with labels it learns scores by members that have not seen it."""
    scores = teacher.oof_scores_
    if unlabelled is not None:
        train, scores = with_unlabelled(train, unlabelled), np.concatenate([scores, teacher.predict(unlabelled)])
    taught = train.with_(teacher_scores=standardized_scores(scores, train))
    return student.set_params(objective="margin_mse").fit(taught)


def agreement(model: Any, teacher: Any, data: rw.RankingDataset) -> float:
    """The correlation of two models' scores, less the mean of each list."""
    one, two = (standardized_scores(each.predict(data), data) for each in (model, teacher))
    return float(np.mean(one * two))


def values(model: Any, data: rw.RankingDataset) -> list[float | None]:
    return [None if np.isnan(value) else value for value in rw.evaluate(model, data, METRIC)[METRIC].tolist()]


def microseconds(scorers: dict[str, Callable[[np.ndarray], np.ndarray]], data: rw.RankingDataset) -> dict[str, float]:
    """CPU time per query."""
    spent = dict.fromkeys(scorers, 0.0)
    for start, end in itertools.pairwise(data.offsets):
        documents = np.ascontiguousarray(data.features[start:end])
        for name, score in scorers.items():
            score(documents)  # after a large model caches hold nothing of a small one, and who serves it has no other
            before = time.thread_time()
            score(documents)
            spent[name] += time.thread_time() - before
    return {name: 1e6 * seconds / data.n_queries for name, seconds in spent.items()}


def pooled(found: dict[Cell, Any], method: str, data: Sequence[str], labelled: float) -> np.ndarray:
    """One value for each query that has relevant documents, the mean over seeds."""
    by_fold: dict[tuple[str, int], list[np.ndarray]] = {}
    for cell, one in found.items():
        if cell.data in data and cell.labelled == labelled:
            by_fold.setdefault((cell.data, cell.fold), []).append(np.array(one["values"][method], float))
    queries = np.concatenate([np.mean(seeds, axis=0) for seeds in by_fold.values()])
    return np.asarray(queries[~np.isnan(queries)])


def interval_of_share(part: np.ndarray, whole: np.ndarray) -> tuple[float, float]:
    """95% of what the mean of one over that of the other is in samples of the queries."""
    rng = np.random.default_rng(0)
    counts = rng.multinomial(part.size, np.full(part.size, 1.0 / part.size), size=10_000)
    low, high = np.percentile((counts @ part) / (counts @ whole), (2.5, 97.5))
    return float(low), float(high)


def table(found: dict[Cell, Any], data: Sequence[str], labelled: float, students: Sequence[str]) -> list[str]:
    """Rows of one setting."""
    own = [one for cell, one in found.items() if cell.data in data and cell.labelled == labelled]
    times = {name: sum(one["microseconds"][name] for one in own) for name in own[0]["microseconds"]}
    single = pooled(found, SINGLE, data, labelled)
    setting = f"| {' + '.join(data)} | {labelled:g} |"
    agreed = {name: float(np.mean([one["agreement"][name] for one in own])) for name in times}
    lines = [f"{setting} {SINGLE} | {single.mean():.4f} | | | {agreed[SINGLE]:.4f} | 1.00 |"]
    for teacher in (BAG, BLEND):
        gain = pooled(found, teacher, data, labelled) - single
        for name in (teacher, *(f"{student} of {teacher}" for student in students)):
            own_gain = pooled(found, name, data, labelled) - single
            low, high = interval_of_share(own_gain, gain)
            kept = "" if name == teacher else f"{own_gain.mean() / gain.mean():.0%} ({low:.0%} to {high:.0%})"
            cells = [f"{single.mean() + own_gain.mean():.4f}", harness.difference(own_gain), kept]
            cells += [f"{agreed[name]:.4f}", f"{times[name] / times[SINGLE]:.2f}"]
            lines.append(f"{setting} {name} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    parser = harness.arguments(__doc__, out="distil.json")
    parser.add_argument("folder")
    parser.add_argument("--data", nargs="+", default=["mq2008", "mq2007"])
    parser.add_argument("--labelled", nargs="+", type=float, default=[1.0, 0.25])
    parser.add_argument("--folds", type=int, default=FOLDS)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--part", default="test", choices=["test", "valid"])
    parser.add_argument("--students", nargs="+", default=list(STUDENTS)[:1], choices=list(STUDENTS))
    parser.add_argument("--quick", action="store_true", help="ten trees for each model: does it run")
    args = parser.parse_args()
    grid = itertools.product(range(args.seeds), args.labelled, range(1, args.folds + 1), args.data)
    wanted = [
        Cell(args.folder, data, labelled, fold, seed, args.part, tuple(args.students), args.quick)
        for seed, labelled, fold, data in grid
    ]
    cells = harness.Cells[Cell](args.out, (SETTINGS, STUDENT, STUDENTS))
    found = cells.measure(wanted, measure, args.processes)
    print("| data | labelled | method | NDCG@10 | gain | kept | agrees | time |\n" + "|---" * 8 + "|")
    for labelled in args.labelled:
        for data in [[one] for one in args.data] + ([args.data] if len(args.data) > 1 else []):
            print("\n".join(table(found, data, labelled, args.students)))
    write(args.out, json.dumps([{**asdict(cell), **one} for cell, one in found.items()]))


if __name__ == "__main__":
    main()
