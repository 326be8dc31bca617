"""Few human labels and a judge on MQ2007: coverage and width of intervals, and what sampled documents save.

    python -m benchmarks.quality.judges FOLDER [--draws 2000] [--processes 1] [--out results/judges.md]

FOLDER holds ``mq2007.partial.txt``: 1,692 queries, whose labels are the humans'. Systems are single features. A judge
is made of the labels: it is right with some probability, and else names another grade. "Queries" draws labelled queries
and estimates by PPI++; "documents" draws 2,000 documents, a pilot of 100 among them, whose errors by grade give the
probabilities of the others, in a quarter of the draws. Whole queries are judged where the two systems differ, for as
many documents in all.

"Equal lists": both systems have the same list for 90% of the queries. "Copies": every query is there three times, and
labels are for all of its copies. Draws with fewer than ten labelled queries whose lists differ are refused.

The interval for a sample of queries is tried on queries drawn from the 1,692 with replacement, labelled or not; that
for exactly these queries on the 1,692 themselves.
"""

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

import rankwise as rw
from benchmarks import harness
from rankwise.base.arrays import rows_of
from rankwise.statistics.significance import t_test
from rankwise.wings.judging.plan import inclusion, systematic
from rankwise.wings.judging.prediction_powered import JudgedMean, prediction_powered
from rankwise.wings.judging.sampled import discounted, judge_errors, sampled_difference

SYSTEMS = {"close": (38, 36), "far": (36, 14)}
"""Two features as systems, numbered from 0: rankings that agree more, and less."""
LABELLED, PILOT = (20, 30, 50, 100, 200), 100


def graded(judge: str, labels: np.ndarray, favoured: np.ndarray) -> np.ndarray:
    """Return the grades of a judge; ``favoured`` are the first documents of a system."""
    rng = np.random.default_rng(7)
    other = (labels + rng.integers(1, 3, labels.size)) % 3
    if judge == "favours a system":
        return np.where(favoured & (rng.random(labels.size) < 0.5), 2.0, labels)
    if judge == "60% right, lenient":
        return np.where(rng.random(labels.size) < 0.6, labels, np.minimum(labels + 1, 2))
    if judge == "random":
        return rng.permutation(labels)
    return np.where(rng.random(labels.size) < float(judge.partition("%")[0]) / 100, labels, other)


@functools.cache
def values(folder: str, judge: str, quantity: str) -> tuple[np.ndarray, np.ndarray]:
    """Return NDCG@10 of every query, or its difference between two systems, by labels and by the judge."""
    data = harness.whole(folder)
    metric = rw.metric("ndcg(empty=0)@10")
    scores = [data.features[:, number].astype(float) for number in SYSTEMS["close"]]
    first = metric_weights("dcg@3", scores[0], data) > 0
    grades = graded(judge, data.labels, first)
    by = [[metric(one, labels, data.offsets) for one in scores] for labels in (data.labels, grades)]
    return tuple(one[0] if quantity == "mean" else one[0] - one[1] for one in by)  # type: ignore[return-value]


def metric_weights(metric: str, scores: np.ndarray, data: rw.RankingDataset) -> np.ndarray:
    return np.asarray(discounted(rw.metric(metric), scores[None], data.labels, data.labels, data.offsets).discounts[0])


@dataclass(frozen=True)
class Cell:
    part: str
    judge: str
    setting: str
    """The quantity, or the two systems."""
    size: int
    draws: int
    folder: str


def measure(cell: Cell) -> dict[str, Any]:
    return {"queries": by_query, "documents": by_document}.get(cell.part, uninformative)(cell)


def uninformative(cell: Cell) -> dict[str, Any]:
    """Return how often intervals hold where queries are copies of others, or most lists are equal; and before."""
    human, judge = values(cell.folder, cell.judge, cell.setting)
    differs, times = np.ones(human.size, bool), 3 if cell.part == "copies" else 1
    if cell.part == "equal lists":
        differs = np.random.default_rng(5).random(human.size) < 0.1
        human, judge = human * differs, judge * differs
    truth, rng, rows = human.mean(), np.random.default_rng(cell.size), []
    for _ in range(cell.draws):
        drawn = np.repeat(rng.integers(human.size, size=human.size), times)
        y, f, counts = human[drawn], judge[drawn], differs[drawn]
        labelled = np.arange(drawn.size) < cell.size * times
        plain = prediction_powered(y[labelled], f[labelled], f[~labelled])
        known, others = labelled & counts, ~labelled & counts
        held = np.nan
        if known.sum() >= 10 * times:
            copies = None if times == 1 else np.flatnonzero(counts) // times
            mean = prediction_powered(y[known], f[known], f[others], copies).over(counts.mean(), counts.size)
            held = holds(mean, truth, fixed=False)
        rows.append([holds(plain, truth, fixed=False), held])
    plain, kept = np.array(rows, float).T
    return {"plain": plain.mean(), "held": np.nanmean(kept), "refused": np.isnan(kept).mean()}


def holds(estimate: JudgedMean, truth: float, *, fixed: bool) -> bool:
    low, high = estimate.test(fixed=fixed).interval()
    return low <= truth <= high


def by_query(cell: Cell) -> dict[str, Any]:
    human, judge = values(cell.folder, cell.judge, cell.setting)
    truth, rng, n = human.mean(), np.random.default_rng(cell.size), cell.size
    rows: list[list[float]] = []
    for _ in range(cell.draws):
        order = rng.permutation(human.size)
        exactly = prediction_powered(human[order[:n]], judge[order[:n]], judge[order[n:]])
        drawn = rng.integers(human.size, size=human.size)
        estimate = prediction_powered(human[drawn[:n]], judge[drawn[:n]], judge[drawn[n:]])
        plain = t_test(human[drawn[:n]])
        low, high = t_test(judge[drawn]).interval()
        row: list[float] = [holds(estimate, truth, fixed=False), holds(exactly, truth, fixed=True)]
        row += [plain.interval()[0] <= truth <= plain.interval()[1]]
        row += [estimate.error / plain.error, estimate.worth or np.nan, row[0] and not low <= truth <= high]
        rows.append(row)
    names = ("sample", "fixed", "human", "width", "worth", "both")
    columns = np.array(rows, float)
    # Widths and worths are means over draws; a ratio of mean widths would hide draws in which the judge harms.
    return dict(zip(names, columns.mean(0).tolist(), strict=True)) | {"correlation": np.corrcoef(human, judge)[0, 1]}


def by_document(cell: Cell) -> dict[str, Any]:
    data = harness.whole(cell.folder)
    grades = graded(cell.judge, data.labels, np.zeros(data.n_docs, bool))
    scores = data.features[:, list(SYSTEMS[cell.setting])].T.astype(float)
    sums = discounted(rw.metric("dcg(empty=0)@10"), scores, data.labels, grades, data.offsets)
    weights = sums.discounts[0] - sums.discounts[1]
    query = np.repeat(np.arange(data.n_queries), data.sizes)
    differ = np.flatnonzero(weights)
    columns = [column[differ] for column in (weights, sums.human, sums.judge, grades)]
    offsets = np.searchsorted(query[differ], np.arange(data.n_queries + 1))
    human, judge = (np.add.reduceat(weights * gains, data.offsets[:-1]) for gains in (sums.human, sums.judge))
    n = round(cell.size * data.n_queries / differ.size)
    truth, rng = human.mean(), np.random.default_rng(cell.size)
    rows = []
    for _ in range(cell.draws):
        order = rng.permutation(human.size)
        row = [human[order[:n]].mean(), prediction_powered(human[order[:n]], judge[order[:n]], judge[order[n:]]).value]
        exactly = estimate(columns, offsets, cell.size, rng)
        places, drawn = rows_of(rng.integers(data.n_queries, size=data.n_queries), offsets)
        again = estimate([column[places] for column in columns], drawn, cell.size, rng)
        row += [exactly.value, holds(exactly, truth, fixed=True), holds(again, truth, fixed=False), exactly.worth]
        rows.append(row)
    estimates = np.array(rows, float)
    return {
        "errors": np.sqrt(((estimates[:, :3] - truth) ** 2).mean(0)).tolist(),
        "bias": float((estimates[:, 2] - truth).mean()),
        "held": estimates[:, 3:5].mean(0).tolist(),
        "worth": float(np.nanmedian(estimates[:, 5])),
    }


def estimate(columns: list[np.ndarray], offsets: np.ndarray, size: int, rng: np.random.Generator) -> JudgedMean:
    """Draw a pilot, then the others by its spread, and estimate the difference."""
    query = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
    order = np.lexsort((rng.random(query.size), query))  # as a plan does it: documents of a query are neighbours
    weights, human, judge, grades = (column[order] for column in columns)
    chances = inclusion(np.abs(weights), PILOT)
    pilot = np.zeros(weights.size, bool)
    pilot[systematic(chances, rng.random())] = True
    _, places, _, spreads = judge_errors(grades, human - judge, pilot)
    rest = np.flatnonzero(~pilot)
    chances = inclusion(np.abs(weights[rest]) * spreads[places[rest]], size - PILOT)
    drawn = systematic(chances, rng.random())
    probabilities = np.where(pilot, 1.0, np.nan)
    probabilities[rest[drawn]] = chances[drawn]
    return sampled_difference(weights, human, judge, grades, probabilities, offsets)


def page(outcomes: dict[Cell, dict[str, Any]]) -> str:
    """Return the tables of labelled queries, of a judge that favours a system, and of documents."""
    queries = {cell: one for cell, one in outcomes.items() if cell.part == "queries"}
    rows = [
        [
            cell.setting,
            f"{cell.judge} ({one['correlation']:.2f})",
            cell.size,
            *(f"{one[name]:.3f}" for name in ("sample", "fixed", "human", "width")),
            f"{one['worth']:.0f}",
        ]
        for cell, one in queries.items()
        if cell.judge != "favours a system"
    ]
    header = [
        "NDCG@10",
        "judge (correlation)",
        "labelled queries",
        "holds",
        "holds, these queries",
        "human labels alone",
    ]
    first = harness.markdown([*header, "width over human labels alone", "worth"], rows)
    rows = [
        [cell.size, f"{one['sample']:.3f}", f"{one['both']:.3f}"]
        for cell, one in queries.items()
        if cell.judge == "favours a system"
    ]
    second = harness.markdown(
        ["labelled queries", "corrected interval holds", "and that of the judge alone does not"], rows
    )
    rows = [
        [
            cell.setting,
            cell.judge,
            f"{cell.size:,}",
            *(f"{error:.4f}" for error in one["errors"]),
            *(f"{one['errors'][2] / error:.2f}" for error in one["errors"][:2]),
            f"{one['bias']:+.4f}",
            *(f"{share:.3f}" for share in one["held"]),
            f"{one['worth']:,.0f}",
        ]
        for cell, one in outcomes.items()
        if cell.part == "documents"
    ]
    header = [
        "systems",
        "judge",
        "judgements",
        "error, whole queries",
        "PPI++",
        "documents",
        "of whole queries",
        "of PPI++",
    ]
    third = harness.markdown([*header, "bias", "holds, these queries", "holds, a sample of queries", "worth"], rows)
    fourth = harness.markdown(
        ["", "labelled queries", "holds, taken for other queries", "holds", "refused"],
        [
            [cell.part, cell.size, *(f"{one[name]:.3f}" for name in ("plain", "held", "refused"))]
            for cell, one in outcomes.items()
            if cell.part in ("equal lists", "copies")
        ],
    )
    draws = [max(cell.draws for cell in outcomes if cell.part == part) for part in ("queries", "documents")]
    return "\n\n".join([f"{draws[0]:,} draws a row, {draws[1]:,} of documents.", first, second, third, fourth])


def main() -> None:
    """Measure and print."""
    parser = harness.arguments(__doc__, out="results/judges.md", processes=1)
    parser.add_argument("folder")
    parser.add_argument("--draws", type=int, default=2000)
    args = parser.parse_args()
    judges = ("85% right", "60% right, lenient", "random")
    settings = [(judge, quantity) for quantity in ("mean", "difference") for judge in judges]
    settings.append(("favours a system", "difference"))
    cells = [Cell("queries", *setting, n, args.draws, args.folder) for setting in settings for n in LABELLED]
    cells += [
        Cell("documents", "75% right", systems, size, args.draws // 4, args.folder)
        for systems in SYSTEMS
        for size in (500, 2000)
    ]
    cells += [Cell("documents", "99.5% right", "close", size, args.draws // 4, args.folder) for size in (150, 300)]
    cells += [Cell("equal lists", "85% right", "difference", n, args.draws, args.folder) for n in (60, 100, 200, 400)]
    cells += [Cell("copies", "85% right", "difference", n, args.draws, args.folder) for n in LABELLED]
    outcomes = harness.Cells[Cell](args.out).measure(cells, measure, args.processes)
    text = page({cell: outcomes[cell] for cell in cells})
    harness.write(args.out, text + "\n")
    print(text)


if __name__ == "__main__":
    main()
