r"""What fair exposure costs: expected NDCG@10 against the disparity of exposure, as its weight grows.

    python -m benchmarks.quality.fairness FOLDER [--trials 10] [--processes 2] [--out fairness.csv] [--quick]
    python -m benchmarks.quality.fairness --draw docs/results/trials/fairness.csv --page docs/benchmarks/fairness.md \
        --figure docs/results/img/fairness.svg                     # of what was measured before

FOLDER is that of `benchmarks/README.md`, of which MQ2008 is used. Its documents have no groups, so that these are
drawn: document d is in the protected group with probability 1 / (1 + exp(6 (u_d − 1/2))), where u_d in (0, 1) is the
place of its feature 40 (LMIR.JM of the whole document) among the documents of its list that have the same label. So
protected documents are as relevant as others, and look worse. Groups are no feature, but features tell of them.

Each trial splits the queries anew (60/20/20), draws groups, and trains ``fair(plrank, weight=λ, merit=…)`` for every λ:
trees of LightGBM and a net, with fixed settings, without early stopping. All is measured on test queries: expected
NDCG@10, the disparity of both kinds and the protected group's share of the exposure under rankings drawn from the
scores, and the same of the ranking by score. The disparity that was penalised is measured on the training queries too.

Flatter scores share exposure more equally, too, with no regard to groups. So the model without a penalty is measured
with its scores times a factor below 1 as well: ``flattened``, with the factor in the place of λ.
"""

import csv
import functools
import itertools
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

import rankwise as rw
from benchmarks import harness
from benchmarks.harness import parts
from rankwise.base.tables import number
from rankwise.statistics.figures.drawing import COLOURS, figure

FEATURE = 39  # the column of feature 40: the score of a language model, LMIR.JM, of the whole document
MERITS = ("equal", "proportional")
FLATTENED = "flattened"
WEIGHTS = (0.0, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
FACTORS = (0.5, 0.25, 0.12, 0.06, 0.03, 0.0)
RANKERS: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "trees": (rw.LightGBMRanker, {"rounds": 100, "learning_rate": 0.1, "leaves": 15, "min_documents": 20}),
    "net": (rw.NeuralRanker, {"epochs": 30, "hidden": (64,), "learning_rate": 0.01}),
}
QUICK: dict[str, dict[str, Any]] = {"trees": {"rounds": 10}, "net": {"epochs": 3}}
METRIC, CUTOFF, SAMPLES = "ndcg@10", 10, 256
MEASURES = (
    *("ndcg", "equal", "proportional", "protected"),
    *("ranked_ndcg", "ranked_equal", "ranked_proportional", "ranked_protected"),
    *("protected_merit", "trained_equal", "trained_proportional"),
)
COLUMNS = ("trial", "ranker", "method", "weight", *MEASURES)
FIGURE = "../results/img/fairness.svg"  # as pages in docs/benchmarks/ see it
ALT = "Expected NDCG@10 against the disparity of exposure, by weight of the penalty, for trees and a net"
MARKS = re.compile(r"(<!-- fairness:begin -->).*(<!-- fairness:end -->)", re.DOTALL)
Job = tuple[int, str, str, float]
Found = dict[tuple[str, str, float], np.ndarray[Any, Any]]


def grouped(data: rw.RankingDataset, seed: int) -> rw.RankingDataset:
    """Draw the group of every document."""
    place = np.empty(data.n_docs)
    labels = np.unique(data.labels)
    for (first, last), label in itertools.product(itertools.pairwise(data.offsets), labels):
        rows = first + np.flatnonzero(data.labels[first:last] == label)
        values = data.features[rows, FEATURE]
        below, up_to = (np.sort(values).searchsorted(values, side) for side in ("left", "right"))
        place[rows] = (below + up_to) / (2.0 * max(rows.size, 1))
    chance = 1.0 / (1.0 + np.exp(6.0 * (place - 0.5)))
    protected = np.random.default_rng(seed).uniform(size=data.n_docs) < chance
    return data.with_(groups=np.where(protected, "protected", "other"))


@functools.lru_cache(maxsize=2)
def trial(folder: str, seed: int) -> list[rw.RankingDataset]:
    """Training and test queries of a trial; the validation queries are left over for choosing settings."""
    whole = grouped(rw.concatenate(parts(folder, "mq2008", 1)), seed)
    return list(rw.split(whole, (0.6, 0.2, 0.2), seed=seed))


def measure(job: Job, folder: str, quick: bool, part: int = 2) -> tuple[float, ...]:
    """Train with one weight; give the MEASURES, on test queries."""
    seed, ranker, method, weight = job
    data = trial(folder, seed)
    if method == FLATTENED:
        factor, plain = weight, trained((seed, ranker, MERITS[0], 0.0), folder, quick)
    else:
        factor, plain = 1.0, trained(job, folder, quick)

    def model(data: rw.RankingDataset) -> Any:
        return factor * plain.predict(data)

    found: list[float] = []
    for policy in ("plackett_luce", "deterministic"):
        seen = exposed(model(data[part]), data[part], policy)
        found += [seen[name] for name in (METRIC, *MERITS, "exposure of protected")]
    known = exposed(model(data[0]), data[0], "plackett_luce")
    return *found, seen["merit of protected"], *(known[kind] for kind in MERITS)


@functools.lru_cache(maxsize=4)
def trained(job: Job, folder: str, quick: bool) -> Any:
    """The model of one weight."""
    seed, ranker, merit, weight = job
    cls, settings = RANKERS[ranker]
    if quick:
        settings = {**settings, **QUICK[ranker]}
    objective = rw.objectives.fair(rw.objectives.PLRank(cutoff=CUTOFF), weight=weight, merit=merit)
    return cls(objective, seed=seed, threads=1, progress=False, **settings).fit(trial(folder, seed)[0])


def exposed(scores: Any, data: rw.RankingDataset, policy: str) -> dict[str, float]:
    """The mean of NDCG, of both disparities and of the shares of groups."""
    seen = rw.evaluate(scores, data, [METRIC], policy=policy, samples=SAMPLES, exposure_cutoff=CUTOFF)
    if seen.groups is None or seen.groups.disparity is None:
        raise SystemExit("the data have no groups")
    return {**seen.mean, **seen.groups.disparity.mean, **seen.groups.shares.mean}


def jobs(trials: int, quick: bool = False) -> list[Job]:
    """Every training: without a weight the merit does not matter, and the model is trained once."""
    weights, factors = (WEIGHTS[::4], FACTORS[::3]) if quick else (WEIGHTS, FACTORS)
    methods = [(merit, weight) for merit in MERITS for weight in weights if weight > 0.0 or merit == MERITS[0]]
    methods += [(FLATTENED, factor) for factor in factors]
    return [(seed, ranker, *method) for seed, ranker, method in itertools.product(range(trials), RANKERS, methods)]


def read(path: Path) -> Found:
    """(ranker, method, weight) -> measures by trial, from the file that was written."""
    found: dict[tuple[str, str, float], list[list[float]]] = defaultdict(list)
    with path.open(newline="") as file:
        for row in csv.DictReader(file, COLUMNS):
            values = [float(row[name]) for name in MEASURES]
            method, weight = row["method"], float(row["weight"])
            found[row["ranker"], method, weight].append(values)
            if (method, weight) == (MERITS[0], 0.0):
                for other, start in ((MERITS[1], 0.0), (FLATTENED, 1.0)):
                    found[row["ranker"], other, start].append(values)
    return {key: np.array(values) for key, values in found.items()}


def reach(values: np.ndarray[Any, Any]) -> float:
    """Half of Student's 95% interval of a mean over trials, which share queries."""
    return harness.half_width(values) if values.size > 1 else 0.0


def table(found: Found) -> str:
    """One row for each ranker, method and weight: NDCG, both disparities, and the protected group's exposure."""
    columns = {"ndcg": "NDCG@10", "equal": "disparity, equal", "proportional": "disparity, proportional"}
    columns |= {"protected": "protected group's exposure", "ranked_ndcg": "NDCG@10 by score"}
    heads = ["ranker", "penalty", "weight", *columns.values(), "disparity in training"]
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    for (ranker, method, weight), values in sorted(found.items(), key=_order):
        picked = [values[:, MEASURES.index(name)] for name in columns]
        if method in MERITS:
            picked.append(values[:, MEASURES.index(f"trained_{method}")])
        cells = [f"{number(one.mean())} ± {number(reach(one))}" for one in picked] + [""] * (method not in MERITS)
        lines.append("| " + " | ".join([ranker, method, f"{weight:g}", *cells]) + " |")
    return "\n".join(lines)


def _order(item: tuple[tuple[str, str, float], Any]) -> tuple[int, int, float]:
    ranker, method, weight = item[0]
    place = (*MERITS, FLATTENED).index(method)
    return list(RANKERS).index(ranker), place, -weight if method == FLATTENED else weight


def draw(found: Found, path: Path) -> None:
    """Expected NDCG@10 against disparity: a panel for each merit, a curve for each ranker, a point for each weight."""
    with figure(path, 10.0, 4.4, force=True) as drawing:
        panels = drawing.subplots(1, 2, sharey=True)
        for column, (panel, merit) in enumerate(zip(panels, MERITS, strict=True), 1):
            for colour, ranker in zip(COLOURS, RANKERS, strict=False):
                flat = sorted((key[2], values) for key, values in found.items() if key[:2] == (ranker, FLATTENED))
                points = [[one[:, k].mean() for _, one in flat] for k in (column, 0)]
                panel.plot(*points, color=colour, linestyle=":", linewidth=1.2)
                weights = sorted(key[2] for key in found if key[:2] == (ranker, merit))
                values = [found[ranker, merit, weight] for weight in weights]
                x, y = ([one[:, k].mean() for one in values] for k in (column, 0))
                spread: dict[str, Any] = {
                    "xerr": [reach(one[:, column]) for one in values],
                    "yerr": [reach(one[:, 0]) for one in values],
                }
                panel.errorbar(x, y, **spread, color=colour, marker="o", markersize=4, linewidth=1.4, elinewidth=0.7)
                for place, weight in enumerate(weights):
                    near = {"xytext": (5, -10), "textcoords": "offset points", "fontsize": 7.5, "color": colour}
                    panel.annotate(f"{weight:g}", (x[place], y[place]), **near)
                panel.plot([], [], color=colour, marker="o", markersize=4, label=ranker)
                panel.plot([], [], color=colour, linestyle=":", label=f"{ranker}, flatter scores")
            panel.set_title(f"merit={merit}", loc="left", fontsize=11, fontweight="bold")
            panel.set_xlabel("disparity of exposure on test queries (0 is fair)")
            panel.set_xlim(left=0.0)
            panel.grid(color="#E4E4E4", linewidth=0.6)
            panel.set_axisbelow(True)
        panels[0].set_ylabel("expected NDCG@10 on test queries")
        panels[0].legend(loc="lower right", frameon=False)


def filled(page: str, found: Found) -> str:
    """A page with the figure and the table between its markers."""
    made = f"![{ALT}]({FIGURE})\n\n{table(found)}"
    return MARKS.sub(lambda mark: f"{mark[1]}\n{made}\n{mark[2]}", page)


def main() -> None:
    parser = harness.arguments(__doc__, out="fairness.csv")
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="few trees, epochs and weights, to try it out")
    parser.add_argument("--draw", type=Path, metavar="CSV", help="train nothing: table and figure of a file --out")
    parser.add_argument("--page", type=Path, help="write figure and table between the markers of this page")
    parser.add_argument("--figure", type=Path, help="the figure to write, .svg or .png; by default beside the CSV")
    args = parser.parse_args()
    kept = args.draw or args.out
    if args.draw is None:
        if args.folder is None:
            parser.error("name the FOLDER of the data, or --draw CSV")
        work = functools.partial(measure, folder=args.folder, quick=args.quick)
        for _ in harness.measured(jobs(args.trials, args.quick), work, args.processes, args.out):
            pass
    found = read(kept)
    print(table(found))
    draw(found, args.figure or kept.with_suffix(".svg"))
    if args.page is not None:
        args.page.write_text(filled(args.page.read_text(encoding="utf-8"), found), encoding="utf-8")


if __name__ == "__main__":
    main()
