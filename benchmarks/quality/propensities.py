"""Position bias from simulated click logs: errors, coverage of intervals, and alarms of the check.

    python -m benchmarks.quality.propensities [--logs 200] [--queries 2000] [--impressions 1000000] [--out FILE]
    python -m benchmarks.quality.propensities --study times [--logs 20]     # relevance that changes from day to day
    python -m benchmarks.quality.propensities --study robots [--logs 20]    # users who click 97% of what they see

Every log has 2,000 queries (``--queries 15 --impressions 3e5``: intervals from few) with 20 documents, three rankers
that sort by relevance with noise of their own, and ten positions, examined as in the adjacent chain of Baidu-ULTR's
propensities (published with ultr-bias-toolkit, MIT). Query
number i is asked in proportion to 1/√i. A cell of the log, which is one document at one position by one ranker, has
clicks with the binomial distribution: what single impressions without memory add up to. Two logs have the same seed:
one without trust, and one with that of Vardasbi et al. (2020): at position k, .65/k of all examinations of a document
that is not relevant end in a click.

Studies of what held-out rankers cannot tell have 500 queries and 400,000 impressions in 8 days (times), or 20,000 by
2,000 users, of whom each clicks more or less often, some are heavy, and some more may be robots (robots).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from benchmarks import harness
from rankwise.clicks import Bias, Log, propensities

# Ranks 1 to 10 of adjacent_chain.csv.
BAIDU = np.array([1.0, 0.68406, 0.44489, 0.32147, 0.22286, 0.17742, 0.13612, 0.11723, 0.08297, 0.04946])
RANKS = np.arange(1, BAIDU.size + 1)
TRUST = (BAIDU * (0.98 - RANKS / 100 - 0.65 / RANKS), BAIDU * 0.65 / RANKS)
GRADES, SHARES = (0.05, 0.3, 0.5, 0.7, 0.9), (0.45, 0.25, 0.15, 0.1, 0.05)
DOCUMENTS, RANKERS, NOISE = 20, 3, 0.25


def simulated(seed: int, impressions: float, alpha: np.ndarray, beta: np.ndarray, queries: int = 2000) -> Log:
    """Return a log of three rankers."""
    rng = np.random.default_rng(seed)
    relevance = rng.choice(GRADES, (queries, DOCUMENTS), p=SHARES) * rng.uniform(0.8, 1.1, (queries, DOCUMENTS))
    frequency = rng.permutation(1.0 / np.sqrt(np.arange(1, queries + 1)))
    shown = rng.multinomial(int(impressions), np.repeat(frequency / frequency.sum() / RANKERS, RANKERS))
    size = (queries, RANKERS, DOCUMENTS)
    order = np.argsort(-(relevance[:, None] + NOISE * rng.normal(size=size)), axis=2)[:, :, : BAIDU.size]
    query, ranker, position = (column.ravel() for column in np.indices(order.shape))
    times = shown.reshape(queries, RANKERS)[query, ranker]
    clicks = rng.binomial(times, alpha[position] * relevance[query, order.ravel()] + beta[position])
    keys, pairs = np.unique(query * DOCUMENTS + order.ravel(), return_inverse=True)
    cells = np.lexsort((ranker, position, pairs))
    return Log(
        query_ids=np.arange(queries),
        offsets=np.append(0, np.cumsum(np.bincount(keys // DOCUMENTS, minlength=queries))),
        document_ids=keys % DOCUMENTS,
        pairs=pairs[cells],
        positions=position[cells] + 1,
        rankers=ranker[cells],
        segments=np.zeros(cells.size, np.int64),
        impressions=times[cells].astype(float),
        clicks=clicks[cells].astype(float),
        ranker_names=("a", "b", "c"),
    )


@dataclass(frozen=True)
class Cell:
    seed: int
    impressions: float
    queries: int = 2000
    folder: str = ""


def measure(cell: Cell) -> dict[str, Any]:
    """Estimate and check the bias of the two logs of a seed."""
    plain = simulated(cell.seed, cell.impressions, BAIDU, np.zeros(BAIDU.size), cell.queries)
    bias = propensities(plain, seed=cell.seed)
    rates = [np.bincount(plain.positions, column)[1:] for column in (plain.clicks, plain.impressions)]
    ctr = rates[0] / rates[1]
    log = simulated(cell.seed, cell.impressions, *TRUST, cell.queries)
    trusting = propensities(log, trust=True, seed=cell.seed)
    untrusting = trusting.pbm or trusting
    alpha, beta = TRUST[0] / TRUST[0][0], TRUST[1] - TRUST[0] * TRUST[1][0] / TRUST[0][0]
    curves = {
        "estimated by harvest": bias.check(plain),
        "true curve": Bias.known(BAIDU).check(plain),
        "1/rank": Bias.known(1.0 / RANKS).check(plain),
        "square root of the true curve": Bias.known(BAIDU**0.5).check(plain),
        "with trust: estimated by harvest, trust=True": trusting.check(log),
        "with trust: true curves": Bias.known(alpha, beta).check(log),
        "with trust: alpha right, beta left out": Bias.known(alpha).check(log),
        "with trust: estimated by harvest, without trust": untrusting.check(log),
    }
    return {
        "error": (bias.alpha / BAIDU - 1).tolist(),
        "held": ((bias.alpha_low <= BAIDU) & (bias.alpha_high >= BAIDU)).tolist(),
        "ctr": (ctr / ctr[0] / BAIDU - 1).tolist(),
        "trust_error": [(trusting.alpha / alpha - 1).tolist(), (trusting.beta - beta).tolist()],
        "trust_held": [
            ((trusting.alpha_low <= alpha) & (trusting.alpha_high >= alpha)).tolist(),
            ((trusting.beta_low <= beta) & (trusting.beta_high >= beta)).tolist(),
        ],
        "alarms": {name: outcome.alarm for name, outcome in curves.items()},
        "worst": {name: float(np.nanmax(np.abs(np.log(outcome.ratio)))) for name, outcome in curves.items()},
    }


TIMES: dict[str, dict[str, Any]] = {
    "relevance stays": {"change": 0.0},
    "half of the documents change every day, rankers do not follow": {"follow": False},
    "half of the documents change every day, rankers follow": {},
    "the same, log without times": {"times": False},
    "the same, one ranker a day": {"alternate": True},
    "relevance stays, one ranker a day": {"alternate": True, "change": 0.0},
}
ROBOTS: dict[str, dict[str, Any]] = {
    "no robots": {"robots": 0},
    "5 robots, 1% of the impressions": {"robots": 5},
    "50 robots, 5% of the impressions": {"robots": 50, "share": 0.05},
}


def over_time(
    seed: int, *, change: float = 0.5, follow: bool = True, times: bool = True, alternate: bool = False
) -> Log:
    """Return a log of eight days in which documents change their relevance."""
    rng, queries, days = np.random.default_rng(seed), 500, 8

    def drawn() -> np.ndarray:
        size = (queries, DOCUMENTS)
        return rng.choice(GRADES, size, p=SHARES) * rng.uniform(0.8, 1.1, size)

    relevance = first = drawn()
    frequency = rng.permutation(1.0 / np.sqrt(np.arange(1, queries + 1)))
    tables = []
    for day in range(days):
        relevance = np.where(rng.random(relevance.shape) < (change if day else 0.0), drawn(), relevance)
        for ranker in [day % RANKERS] if alternate else range(RANKERS):
            noise = (rng if follow else np.random.default_rng([seed, ranker])).normal(size=relevance.shape)
            order = np.argsort(-((relevance if follow else first) + NOISE * noise), axis=1)[:, : BAIDU.size]
            lists = rng.multinomial(400_000 // days // (1 if alternate else RANKERS), frequency / frequency.sum())
            query, place = np.indices(order.shape)
            shown = lists[query]
            clicks = rng.binomial(shown, BAIDU[place] * np.take_along_axis(relevance, order, 1))
            for clicked, weight in ((1, clicks), (0, shown - clicks)):
                columns = {"query": query, "document": order, "position": place + 1, "weight": weight}
                table = pl.DataFrame({name: column.ravel() for name, column in columns.items()})
                tables.append(
                    table.with_columns(clicked=clicked, ranker=pl.lit("abc"[ranker]), day=pl.lit(20_000 + day))
                )
    rows = pl.concat(tables).filter(pl.col("weight") > 0).lazy()
    return Log.from_rows(rows if times else rows.drop("day"), sessions=False)


def with_robots(seed: int, *, robots: int, share: float = 0.01) -> Log:
    """Return a log of users, some of them robots."""
    rng, queries, users, lists = np.random.default_rng(seed), 500, 2000, 20_000
    relevance = rng.choice(GRADES, (queries, DOCUMENTS), p=SHARES)
    theirs = int(lists * share) if robots else 0
    often = rng.pareto(1.2, users) + 0.2
    user = np.append(
        rng.choice(users, lists - theirs, p=often / often.sum()), users + np.arange(theirs) % max(robots, 1)
    )
    eager = np.append(rng.beta(4, 4, users), np.ones(robots))
    query, ranker = rng.integers(0, queries, lists), rng.integers(0, RANKERS, lists)
    orders = np.argsort(-(relevance[:, None] + NOISE * rng.normal(size=(queries, RANKERS, DOCUMENTS))), axis=2)
    shown = orders[query, ranker, : BAIDU.size]
    chance = eager[user][:, None] * BAIDU * relevance[query[:, None], shown]
    clicked = rng.random(shown.shape) < np.where(user[:, None] < users, chance, 0.97)
    repeated = {"query": query, "impression": np.arange(lists), "user": user, "ranker": np.array([*"abc"])[ranker]}
    columns = {name: np.repeat(column, BAIDU.size) for name, column in repeated.items()}
    columns |= {"document": shown.ravel(), "position": np.tile(RANKS, lists), "clicked": clicked.ravel().astype(int)}
    return Log.from_rows(pl.LazyFrame(columns))


@dataclass(frozen=True)
class Blind:
    study: str
    name: str
    seed: int
    folder: str = ""


def measure_blind(cell: Blind) -> dict[str, Any]:
    """Estimate and check the bias as it comes, and after the repair that the check names."""
    if cell.study == "times":
        log = over_time(cell.seed, **TIMES[cell.name])
        repaired = None if log.days is None else log
    else:
        log = with_robots(cell.seed, **ROBOTS[cell.name])
        repaired = log.only(users=~log.robots)
    bias = propensities(log, resamples=20, seed=cell.seed)
    outcome: dict[str, Any] = {"alpha": bias.alpha[-1] / BAIDU[-1], "alarm": bias.check(log).alarm}
    if log.sessions is not None and log.sessions.user_ids is not None:
        is_robot = log.sessions.user_ids >= 2000
        outcome |= {"found": int(log.robots[is_robot].sum()), "false": int(log.robots[~is_robot].sum())}
    if repaired is not None:
        try:
            period = 1 if cell.study == "times" else None
            better = propensities(repaired, resamples=20, seed=cell.seed, period=period)
            outcome |= {"repaired": better.alpha[-1] / BAIDU[-1], "still": better.check(repaired).alarm}
        except ValueError:  # one ranker a day exchanges nothing within a day
            pass
    return outcome


def page_blind(names: list[str], outcomes: list[list[dict[str, Any]]]) -> str:
    """Return a table with a row for each kind of log."""

    def cells(group: list[dict[str, Any]], alpha: str, alarm: str) -> list[str]:
        known = [one for one in group if alpha in one]
        if not known:
            return ["–", "–"]
        values = [one[alpha] for one in known]
        alarms = sum(one[alarm] for one in known)
        return [f"{np.mean(values):.2f} ± {np.std(values):.2f}", f"{alarms} of {len(known)}"]

    rows = [
        [
            name,
            *cells(group, "alpha", "alarm"),
            *cells(group, "repaired", "still"),
            *(sum(one.get(key, 0) for one in group) for key in ("found", "false")),
        ]
        for name, group in zip(names, outcomes, strict=True)
    ]
    header = ["log", "α at position 10 over the truth", "alarms", "repaired", "alarms", "robots found", "others marked"]
    return harness.markdown(header, rows)


def page(outcomes: list[dict[str, Any]]) -> str:
    """Return tables of errors by position and of alarms."""
    columns = {name: np.array([one[name] for one in outcomes]) for name in ("error", "held", "ctr")}
    error, ctr = np.abs(columns["error"]), np.abs(columns["ctr"])
    alpha, beta = (np.array([one["trust_error"][i] for one in outcomes]) for i in (0, 1))
    held = [np.array([one["trust_held"][i] for one in outcomes])[:, 1:] for i in (0, 1)]
    rows = [
        [
            k + 1,
            f"{BAIDU[k]:.4f}",
            f"{columns['error'][:, k].mean():+.2%}",
            f"{columns['error'][:, k].std():.2%}",
            f"{error[:, k].max():.2%}",
            f"{columns['held'][:, k].mean():.3f}",
            f"{columns['ctr'][:, k].mean():+.0%}",
            f"{alpha[:, k].mean():+.2%} ± {alpha[:, k].std():.2%}",
            f"{beta[:, k].mean():+.4f} ± {beta[:, k].std():.4f}",
        ]
        for k in range(BAIDU.size)
    ]
    names = (
        "position",
        "θ",
        "mean error",
        "sd",
        "largest",
        "interval holds",
        "click-through ratio",
        "α with trust",
        "β",
    )
    lines = [
        f"{len(outcomes)} logs",
        f"largest relative error of θ in a log: mean {error.max(1).mean():.2%}, in 95% of logs at most "
        f"{np.quantile(error.max(1), 0.95):.2%}, in any {error.max():.2%}; largest absolute error in any log "
        f"{(error * BAIDU).max():.4f}",
        f"coverage pooled over positions 2 to 10: {columns['held'][:, 1:].mean():.3f}; "
        f"with trust: α {held[0].mean():.3f}, β {held[1].mean():.3f}",
        f"click-through ratios: largest error in a log {ctr.max(1).min():.0%} to {ctr.max(1).max():.0%}",
    ]
    alarms = [
        [
            name,
            f"{np.mean([one['alarms'][name] for one in outcomes]):.1%}",
            f"{np.expm1(np.median([one['worst'][name] for one in outcomes])):.0%}",
        ]
        for name in outcomes[0]["alarms"]
    ]
    errors = harness.markdown(names, rows)
    return "\n\n".join([*lines, errors, harness.markdown(["bias", "alarms", "worst position, median"], alarms)])


def main() -> None:
    """Measure and print."""
    parser = harness.arguments(__doc__, out="results/propensities.md", processes=1)
    parser.add_argument("--logs", type=int, default=200)
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--impressions", type=float, default=1e6)
    parser.add_argument("--study", choices=("curves", "times", "robots"), default="curves")
    args = parser.parse_args()
    if args.study != "curves":
        names = list(TIMES if args.study == "times" else ROBOTS)
        groups = [[Blind(args.study, name, seed) for seed in range(args.logs)] for name in names]
        found = harness.Cells[Blind](args.out).measure(
            [cell for group in groups for cell in group], measure_blind, args.processes
        )
        text = page_blind(names, [[found[cell] for cell in group] for group in groups])
        harness.write(args.out, text + "\n")
        print(text)
        return
    cells = [Cell(seed, args.impressions, args.queries) for seed in range(args.logs)]
    outcomes = harness.Cells[Cell](args.out).measure(cells, measure, args.processes)
    text = page([outcomes[cell] for cell in cells])
    harness.write(args.out, text + "\n")
    print(text)


if __name__ == "__main__":
    main()
