"""How well recommenders find held-out items, and how long they learn, on MovieLens or on your ratings.

    python -m benchmarks.quality.recommend RATINGS [--seeds 3] [--models ease als …] [--output recommend.json]

RATINGS is a table or a folder that ``rankwise recommend`` takes. The protocol, for every seed:

1. Ratings of 4 and more are relevant; users with fewer than 5 relevant items are left out.
2. A fifth of each user's relevant items, drawn by the seed, is the test. It is looked at once, at the end.
3. Of the rest, a tenth is validation data, on which each model's one setting is chosen by NDCG@10 from the values in
   ``rankwise.wings.recommend.choice.GRIDS``. Everything else about a model is as the library has it.
4. The model learns from training and validation data together, and ranks for each user the full catalogue without what
   the user has rated there. NDCG@10 and recall@20 are means over users.

The table holds means over seeds and, after ±, the standard deviation between seeds, which holds both the split and what
a model draws. "learning" is the CPU time of the last fit alone, "choosing" that of all fits and evaluations on
validation data; both on all threads together, so that a busy machine changes them little.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import rankwise as rw
from rankwise.base.tables import Table, number
from rankwise.wings.recommend.choice import Candidate, choose_recommender
from rankwise.wings.recommend.data.sources import read_interactions

METRICS = ("ndcg@10", "recall@20")
# name -> (model, settings): a factorization with its usual settings, and what other objectives and negatives do.
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "popularity": ("popularity", {}),
    "knn": ("knn", {}),
    "ease": ("ease", {}),
    "als": ("als", {}),
    "factorization": ("factorization", {}),
    "factorization, all users alike": ("factorization", {"objective": "softmax_ce", "regularization": 0.1}),
    "factorization, no regularization": ("factorization", {"regularization": 0.0}),
    "factorization, bpr": (
        "factorization",
        {"objective": "bpr", "negatives": 4, "resample": True, "item_bias": True, "learning_rate": 0.01},
    ),
}


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("ratings")
    words.add_argument("--seeds", type=int, default=3)
    words.add_argument("--models", nargs="*", default=list(METHODS), choices=list(METHODS), metavar="NAME")
    words.add_argument("--threads", type=int, default=2)
    words.add_argument("--output", type=Path, help="keep every figure as JSON")
    given = words.parse_args()
    whole = read_interactions(given.ratings).active(5)
    print(whole, flush=True)
    rows = list(measured(whole, given.models, given.seeds, given.threads))
    print(table(rows).markdown())
    if given.output:
        given.output.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def measured(whole: rw.recommend.Interactions, models: list[str], seeds: int, threads: int) -> Iterator[dict[str, Any]]:
    for method in models:
        model, settings = METHODS[method]
        for seed in range(seeds):
            train, test = whole.split((0.8, 0.2), seed=seed, spare_held_out=False)
            start = time.process_time()
            choice = choose_recommender(
                train, model, metrics=METRICS, settings=settings, share=0.1, seed=seed, threads=threads
            )
            chosen = time.process_time()
            ranker: Any = choice.best.make(unknown="popular")
            ranker.fit(train)
            learned = time.process_time()
            found = rw.recommend.evaluate_interactions(ranker, test, METRICS, exclude=train, resamples=10)
            row = {"method": method, "seed": seed, "setting": setting(choice.best), **found.mean}
            yield row | {"choosing": chosen - start, "learning": learned - chosen}
            print(row, flush=True)


def setting(best: Candidate) -> str:
    named = ("regularization", "shrinkage")
    return ", ".join(f"{name} {best.settings[name]:g}" for name in named if name in best.settings)


def table(rows: list[dict[str, Any]]) -> Table:
    lines = []
    for method in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == method]
        means = [
            f"{number(np.mean([row[name] for row in own]))} ± {np.std([row[name] for row in own], ddof=1):.4f}"
            for name in METRICS
        ]
        seconds = [f"{np.mean([row[name] for row in own]):.1f}" for name in ("learning", "choosing")]
        settings = " / ".join(dict.fromkeys(row["setting"] for row in own if row["setting"]))
        lines.append((method, *means, settings, *seconds))
    header = ("model", *METRICS, "chosen", "learning, CPU s", "choosing, CPU s")
    return Table(header=header, rows=tuple(lines), align="lrrlrr")


if __name__ == "__main__":
    main()
