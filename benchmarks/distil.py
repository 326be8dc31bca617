"""How much of a teacher's gain a student keeps, and how much faster it scores.

    python benchmarks/distil.py FOLDER [--data mq2008 mq2007] [--folds 5] [--seeds 4] [--processes 2] [--out distil.csv]
        [--quick]

FOLDER is that of `benchmarks/quality.py`. The teacher is the average of five models of LightGBM, which differ in their
seeds and see 70% of the documents and of the features per tree; the student is one model with the same settings, by
itself (``alone``) and distilled in several ways. All stop early on the validation queries. With ``labelled`` below 1,
teacher and students see the labels of that share of the training queries, and the rest is unlabelled: distilled
students learn the teacher's scores there.

The first table has the mean NDCG@10 on test queries of the student alone, and what the teacher and every distilled
student gain on it, over folds and seeds. The second has the share of the teacher's gain that is kept (meaningless where
the teacher gains nothing), and the time that a query takes with the student's scorer against the five of the teacher's,
in CPU time of one thread; they take turns.
"""

import argparse
import itertools
import time
from pathlib import Path
from typing import Any

import numpy as np

import paired
import rankwise as rw
from quality import parts

TEACHERS = 5
SETTINGS: dict[str, Any] = {"rounds": 500, "learning_rate": 0.05, "leaves": 15, "patience": 50, "smoothing": 5}
SAMPLED = {"bagging_fraction": 0.7, "bagging_freq": 1, "feature_fraction": 0.7}
STUDENTS: dict[str, dict[str, Any]] = {
    **{f"distil, weight {w:g}": {"weight": w} for w in (0.25, 0.5, 0.75, 1.0)},
    **{f"distil, temperature {t:g}": {"temperature": t} for t in (0.25, 0.5, 2.0, 4.0)},
    **{f"margin_mse, weight {w:g}": {"weight": w, "loss": "margin_mse"} for w in (0.5, 1.0)},
}
ALONE, TEACHER, METHODS = "alone", "teacher", ("alone", "teacher", *STUDENTS)
METRIC = "ndcg@10"
Job = tuple[str, str, float, int, int, bool]


def measure(job: Job) -> tuple[float, ...]:
    """NDCG of every method, and the student's time over the teacher's."""
    folder, data, share, fold, seed, quick = job
    train, valid, test = parts(folder, data, fold)
    unlabelled = None
    if share < 1.0:
        train, unlabelled = rw.split(train, (share, 1.0 - share), seed=seed)
    settings = SETTINGS | SAMPLED | ({"rounds": 10} if quick else {})
    models = [
        rw.LightGBMRanker("lambdarank", seed=1000 * seed + number, threads=1, **settings)
        for number in range(1 + TEACHERS)
    ]
    student, *teachers = models
    alone = rw.LightGBMRanker(**student.get_params()).fit(train, valid)
    for teacher in teachers:
        teacher.fit(train, valid)
    taught = [
        rw.distilled(teachers, student, unlabelled=unlabelled, **how).fit(train, valid) for how in STUDENTS.values()
    ]
    mean = np.mean([teacher.predict(test) for teacher in teachers], axis=0)
    found = [rw.evaluate(system, test, METRIC).mean[METRIC] for system in (alone, mean, *taught)]
    default = list(STUDENTS).index("distil, weight 0.5")
    return (*found, ratio([taught[default]], teachers, test))


def ratio(students: list[Any], teachers: list[Any], data: rw.RankingDataset) -> float:
    """CPU time per query of the ones over that of the others."""
    both = [[model.scorer() for model in models] for models in (students, teachers)]
    spent = [0.0, 0.0]
    for start, end in itertools.pairwise(data.offsets):
        documents = np.ascontiguousarray(data.features[start:end])
        for which, scorers in enumerate(both):
            before = time.thread_time()
            np.mean([scorer(documents) for scorer in scorers], axis=0)
            spent[which] += time.thread_time() - before
    return spent[0] / spent[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--data", nargs="+", default=["mq2008", "mq2007"])
    parser.add_argument("--labelled", nargs="+", type=float, default=[1.0, 0.25])
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("distil.csv"))
    parser.add_argument("--quick", action="store_true", help="ten trees for each model: does it run")
    args = parser.parse_args()
    grid = itertools.product(args.data, args.labelled, range(1, args.folds + 1), range(args.seeds))
    jobs: list[Job] = [(args.folder, *job, args.quick) for job in grid]
    rows = list(paired.measured(jobs, measure, args.processes, args.out))
    results = [
        ((data, share), method, (fold, seed), value)
        for (_, data, share, fold, seed, _), row in zip(jobs, rows, strict=True)
        for method, value in zip(METHODS, row[:-1], strict=True)
    ]
    print(paired.table(results, ("data", "labelled"), ALONE))
    print("\n| data | labelled | " + " | ".join(STUDENTS) + " | time of student / teacher |")
    print("|---" * (3 + len(STUDENTS)) + "|")
    for setting in dict.fromkeys((data, share) for _, data, share, *_ in jobs):
        chosen = [row for (_, data, share, *_), row in zip(jobs, rows, strict=True) if (data, share) == setting]
        alone, teacher, *others, slow = np.mean(chosen, axis=0)
        kept = " | ".join(f"{100 * (value - alone) / (teacher - alone):.0f}%" for value in others)
        print(f"| {setting[0]} | {setting[1]:g} | {kept} | {slow:.2f} |")


if __name__ == "__main__":
    main()
