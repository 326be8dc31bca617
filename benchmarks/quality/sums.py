"""Sums of a pairwise and a listwise loss on small data: bags of the default LightGBMRanker, sets of 40 to 251 queries.

    python -m benchmarks.quality.sums FOLDER [OBJECTIVE …] [--data mq2008 tmdb …] [--draws 3] [--processes 1]

FOLDER is that of `benchmarks/README.md`. MQ2008 and MQ2007 are cut into parts of 200 queries that share none, of which
`--draws` count; the other sets are taken whole. Each is cut into five outer folds: a bag of five trains on four of
them, on one thread, and is measured on the fifth. The tables hold NDCG@10 of test queries, and the differences to the
first objective, paired by query, with 95% t-intervals. The last table chooses for each set the objective that is best
on the mean of the *other* sets, and says what it gains on this one.
"""

from dataclasses import dataclass

import numpy as np

import rankwise as rw
from benchmarks import harness

SUM = "0.5*lambdarank + 0.5*softmax_ce"
OBJECTIVES = (
    "lambdarank",
    "softmax_ce",
    "xendcg",
    "0.25*lambdarank + 0.75*softmax_ce",
    SUM,
    "0.75*lambdarank + 0.25*softmax_ce",
    "0.9*lambdarank + 0.1*softmax_ce",
    "0.5*lambdarank + 0.5*xendcg",
    "0.5*lambdarank + 0.5*listnet",
    "0.5*ranknet + 0.5*softmax_ce",
    "0.5*lambdarank(sigma=2.0) + 0.5*softmax_ce",
    "0.5*lambdarank(norm=False) + 0.5*softmax_ce",
    "0.5*lambdarank + 0.5*softmax_ce(newton=diagonal)",
)
CUT = {"mq2008": 200, "mq2007": 200}
SETS = (*CUT, "web10k", "example", "tmdb")
METRIC = "ndcg@10"


@dataclass(frozen=True)
class Cell:
    """The bags of an objective on all outer folds of a set, or of a part of it."""

    folder: str
    objective: str
    data: str
    draw: int


def queries(cell: Cell) -> rw.RankingDataset:
    """Return the queries of a set, or of one of its parts."""
    if cell.data == "mq2008":
        whole = rw.concatenate(harness.parts(cell.folder, cell.data, 1))
    else:
        whole = harness.whole(cell.folder, cell.data)
    size = CUT.get(cell.data, whole.n_queries)
    order = np.random.default_rng(47).permutation(whole.n_queries)
    return whole.take(np.sort(order[cell.draw * size : (cell.draw + 1) * size]))


def measure(cell: Cell) -> list[float | None]:
    """Train a bag for each outer fold, and return NDCG@10 of all queries, each under the bag that did not see it."""
    ranker = rw.bagged(rw.LightGBMRanker(cell.objective, metrics=(METRIC,), threads=1, progress=False))
    # Outer folds, of which a bag makes inner ones: no part of these is held out to stop by.
    result = rw.cross_validate(ranker, queries(cell), harness.FOLDS, metrics=[METRIC], valid=0.0, progress=False)
    return harness.by_query(result, [METRIC])[METRIC]


def chosen(values: dict[tuple[str, str], np.ndarray], baseline: str) -> str:
    """Return a table of what is gained where the objective is chosen on the other sets."""
    objectives, sets = (list(dict.fromkeys(column)) for column in zip(*values, strict=True))
    rows, gained = [], []
    for data in sets:
        others = [one for one in sets if one != data]
        best = max(objectives, key=lambda one: float(np.mean([np.nanmean(values[one, other]) for other in others])))
        gaps = values[best, data] - values[baseline, data]
        gained.append(gaps)
        rows.append((data, f"`{best}`", harness.difference(gaps)))
    rows.append(("all queries", "", harness.difference(np.concatenate(gained))))
    return harness.markdown(["", "best on the other sets", f"less `{baseline}` here"], rows)


def main() -> None:
    parser = harness.arguments(__doc__, out="results/sums.json", processes=1)
    parser.add_argument("folder")
    parser.add_argument("objectives", nargs="*", default=OBJECTIVES)
    parser.add_argument("--data", nargs="+", choices=(*SETS, *harness.KINDS), default=SETS)
    parser.add_argument("--draws", type=int, default=3, help="parts of 200 queries of MQ2008 and of MQ2007")
    options = parser.parse_args()
    wanted = [
        Cell(options.folder, objective, data, draw)
        for objective in options.objectives
        for data in options.data
        for draw in range(options.draws if data in CUT else 1)
    ]
    values: dict[tuple[str, str], list[np.ndarray]] = {}
    for cell, outcome in harness.Cells[Cell](options.out).measure(wanted, measure, options.processes).items():
        values.setdefault((cell.objective, cell.data), []).append(np.array(outcome, float))
    pooled = {key: np.concatenate(parts) for key, parts in values.items()}
    print(harness.tables_by_data(pooled, options.objectives[0]))
    if len(options.data) > 1:
        print(f"\n{chosen(pooled, options.objectives[0])}")


if __name__ == "__main__":
    main()
