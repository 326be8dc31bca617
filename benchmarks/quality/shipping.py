"""Whether `rw.clicks.compare` ships what is better and nothing that is worse, on simulated logs.

    python -m benchmarks.quality.shipping [--logs 200] [--processes 2] [--out shipping.csv]

Each log has 200 queries with about 25 documents, 40,000 impressions (queries differ in traffic) by production and two
other rankers, and users with Baidu's examination of ten positions. Rankers are linear, trained on a few queries. The
candidate is worse or better than production: production with noise, production mixed with the truth, or trained on
fewer or more queries. Settings:

- right: users with trust, α and β are known
- wrong: the same log, α = 1/rank and no trust; with the check, and unchecked
- harvest: users without trust, α estimated from the log
- cascade: users who leave after their first click, or who read on (DBN); a position model is estimated and assumed
- new documents: rankers of the log leave out documents that nobody clicks, by a signal that the features lack; the
  candidate is production with the best of these by the features at rank 1, 2 or 3, and no blend is tested
- seldom shown: the same, but a fourth ranker with a fiftieth of the traffic shows that document at the tenth rank
- personalised: two kinds of users click different documents, production knows them, and its scores are those of no user

What is shipped is worse where its true clicks an impression are below production's, the blend counting that is
recommended. Better by two standard errors are candidates whose true difference is twice the error of the estimate; of
these, "shipped" counts blends, which are tested before the candidate, and "passed alone" the candidate by its own
interval, as with `blends=[1.0]`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

import rankwise as rw
from benchmarks import harness

SETTINGS = ("right", "wrong", "wrong, unchecked", "harvest", "cascade", "new documents", "seldom shown", "personalised")
CHECKS = ("production's own clicks", "the independence of clicks")
NEW = ("new documents", "seldom shown")
CURVE = (1.0, 0.68, 0.44, 0.32, 0.22, 0.18, 0.14, 0.12, 0.08, 0.05)
TRUST = (0.95, tuple(0.2 / rank for rank in range(1, 11)))
QUERIES, DOCUMENTS, IMPRESSIONS = 200, 25, 200


@dataclass(frozen=True)
class Cell:
    """One log."""

    setting: str
    seed: int
    folder: str = ""


def linear(data: rw.RankingDataset, queries: np.ndarray) -> np.ndarray:
    """Return scores of a ridge regression of the labels of some queries."""
    features = np.nan_to_num((data.features - data.features.mean(0)) / (data.features.std(0) + 1e-9))
    rows = np.isin(np.repeat(np.arange(data.n_queries), data.sizes), queries)
    few, labels = features[rows], data.labels[rows] - data.labels[rows].mean()
    return np.asarray(features @ np.linalg.solve(few.T @ few + 10.0 * np.eye(few.shape[1]), few.T @ labels))


def candidate(data: rw.RankingDataset, production: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the scores of a candidate that is worse or better than production."""
    spread = production.std()
    kind = rng.integers(3)
    if kind == 0:
        return np.asarray(production + spread * rng.uniform(0.1, 1.5) * rng.normal(size=data.n_docs))
    if kind == 1:
        return np.asarray(production + spread * rng.uniform(0.02, 0.6) * data.labels)
    return linear(data, rng.choice(data.n_queries, rng.choice([3, 5, 10, 40, 100]), replace=False))


def hiding(data: rw.RankingDataset, rankers: dict[str, np.ndarray], rng: np.random.Generator, rank: int) -> Any:
    """Return data some of whose documents nobody clicks, rankers that hide these, and production with one of them.

    The last two are production with the best of the hidden documents by features, at a ``rank`` and at the tenth.
    """
    hidden = rng.random(data.n_docs) < 0.45
    queries = np.repeat(np.arange(data.n_queries), data.sizes)
    noise = rng.normal(size=(len(rankers), data.n_docs))
    rankers = {n: 0.1 * s + s.std() * (e - 8.0 * hidden) for (n, s), e in zip(rankers.items(), noise, strict=True)}

    def ranks(scores: np.ndarray) -> np.ndarray:
        numbers = np.empty(data.n_docs, np.int64)
        numbers[np.lexsort((-scores, queries))] = np.arange(data.n_docs) - data.offsets[queries]
        return numbers

    best = hidden & (ranks(linear(data, np.arange(QUERIES)) + 100.0 * hidden) == 0)
    new, tenth = (-np.where(best, place - 1.5, ranks(rankers["production"])) for place in (rank, 10))
    return data.with_(labels=np.where(hidden, 0.0, data.labels)), rankers, new, tenth


def joined(logs: list[Any]) -> Any:
    """Return one log of several."""
    rows = []
    for number, log in enumerate(logs):
        sessions = log.sessions
        lists = np.repeat(np.arange(sessions.n_impressions), np.diff(sessions.offsets))
        columns = {
            "query": log.query_ids[log.query_of_pair[sessions.pairs]],
            "document": log.document_ids[sessions.pairs],
            "impression": lists * len(logs) + number,
            "position": sessions.positions,
            "clicked": sessions.clicked,
            "ranker": np.array(log.ranker_names)[sessions.rankers[lists]],
        }
        rows.append(pl.DataFrame(columns))
    return rw.clicks.Log.from_rows(pl.concat(rows).lazy())


def true_clicks(users: Any, data: rw.RankingDataset, scores: np.ndarray, traffic: np.ndarray) -> float:
    """Return expected clicks an impression."""
    return float(np.average(users.expected_clicks(data, scores, 10), weights=traffic))


def measure(cell: Cell) -> dict[str, Any]:
    """Simulate a log and decide; return the decision and the truth."""
    rw.use_threads(1)
    rng = np.random.default_rng(cell.seed)
    noise = 0.2 if cell.setting in NEW else 0.8
    data = rw.synthetic(n_queries=QUERIES, n_docs=DOCUMENTS, noise=noise, seed=cell.seed)
    data = data.with_(query_ids=np.arange(QUERIES), document_ids=np.arange(data.n_docs))
    names = ("production", "second", "third")
    rankers = {name: linear(data, rng.choice(QUERIES, 8, replace=False)) for name in names}
    new = candidate(data, rankers["production"], rng)
    traffic = np.maximum(1, IMPRESSIONS * rng.lognormal(-0.5, 1.0, QUERIES)).astype(int)
    of_users: dict[str, Any] = {"curve": CURVE}
    if cell.setting == "cascade":
        of_users = {"model": "cascade" if cell.seed % 2 else "dbn"}
    elif cell.setting in ("right", "wrong", "wrong, unchecked"):
        of_users["trust"] = TRUST
    users = rw.clicks.Users(**of_users)
    if cell.setting in NEW:
        data, rankers, new, tenth = hiding(data, rankers, rng, 1 + cell.seed % 3)
    production, kinds, shown = rankers["production"], [data], [rankers["production"]]
    if cell.setting == "personalised":
        other = np.where(rng.random(data.n_docs) < 0.3, rng.permutation(data.labels), data.labels)
        kinds, taste = [data, data.with_(labels=other)], rng.uniform(0.05, 0.4) * production.std()
        shown = [production + taste * one.labels for one in kinds]
        new = production + rng.uniform(0.0, 0.4) * production.std() * (data.labels + other) / 2.0
    parts = [
        rw.clicks.simulate(
            kind, rankers=rankers | {"production": scores}, impressions=traffic, cutoff=10,
            seed=cell.seed + 1000 * number, **of_users,
        )
        for number, (kind, scores) in enumerate(zip(kinds, shown, strict=True))
    ]  # fmt: skip
    if cell.setting == "seldom shown":
        few = np.maximum(1, traffic // 50)
        parts.append(rw.clicks.simulate(data, rankers={"fourth": tenth}, impressions=few, cutoff=10, **of_users))
    log = parts[0] if len(parts) == 1 else joined(parts)
    if cell.setting == "right":
        bias = rw.clicks.Bias.known(*users.bias(10))
    elif cell.setting.startswith("wrong"):
        bias = rw.clicks.Bias.known(1.0 / np.arange(1, 11))
    else:
        bias = rw.clicks.propensities(log, "harvest", resamples=50, seed=cell.seed)
    unchecked = cell.setting.endswith("unchecked")
    blends = (1.0,) if cell.setting in NEW else (0.25, 0.5, 1.0)
    result: Any = rw.clicks.compare(
        {"new": new, "production": production}, log, bias, data, unchecked=unchecked, blends=blends
    )
    share = result.recommended
    blended = (1.0 - share) * production + share * result.scale * new
    old = np.mean([true_clicks(users, kind, scores, traffic) for kind, scores in zip(kinds, shown, strict=True)])

    def gain(scores: np.ndarray) -> float:
        if share == 0.0 and scores is blended:
            return 0.0
        return float(np.mean([true_clicks(users, kind, scores, traffic) for kind in kinds]) - old)

    weighted = data.with_(weights=traffic)
    ndcg = [rw.evaluate(scores, weighted, ["ndcg@10"]).mean["ndcg@10"] for scores in (blended, production)]
    return {
        "verdict": result.verdict,
        "share": share,
        "alone": result.alone.outcome == "passed",
        "reason": result.reason,
        "alarm": result.bias_check is not None and result.bias_check.alarm,
        "failed": [one.name for one in getattr(result, "assumptions", ()) if one.outcome == "fails"],
        "difference": result.alone.difference,
        "error": (result.alone.high - result.alone.low) / 4.0,
        "truth": gain(new),
        "low": result.alone.low,
        "high": result.alone.high,
        "gain": gain(blended),
        "ndcg": ndcg[0] - ndcg[1],
        "production": old,
    }


def row(setting: str, outcomes: list[dict[str, Any]]) -> list[str]:
    """Return what a setting came to."""
    shipped = [one for one in outcomes if one["verdict"] == "ship"]
    better = [one for one in outcomes if one["truth"] > 2.0 * one["error"]]
    worse = [one for one in outcomes if one["truth"] < 0.0]
    covered = np.mean([one["low"] <= one["truth"] <= one["high"] for one in outcomes])

    def share(part: list[dict[str, Any]], of: list[dict[str, Any]]) -> str:
        return f"{len(part)} of {len(of)} ({len(part) / max(len(of), 1):.1%})"

    return [
        setting,
        share([one for one in outcomes if one["alarm"]], outcomes),
        *(str(sum(name in one["failed"] for one in outcomes)) for name in CHECKS),
        f"{covered:.2f}",
        share(shipped, outcomes),
        share([one for one in shipped if one["gain"] < 0.0], shipped),
        share([one for one in better if one["verdict"] == "ship"], better),
        share([one for one in better if one["alone"]], better),
        share([one for one in worse if one["verdict"] == "do not ship"], worse),
        str(sum(one["alarm"] and one["verdict"] == "ship" for one in outcomes)),
        f"{min(one['gain'] for one in outcomes):+.4f}",
        f"{min(one['ndcg'] for one in outcomes):+.4f}",
    ]


def main() -> None:
    """Measure and print."""
    parser = harness.arguments(__doc__, out="shipping.csv")
    parser.add_argument("--logs", type=int, default=200)
    parser.add_argument("--settings", nargs="+", default=SETTINGS, choices=SETTINGS)
    args = parser.parse_args()
    cells = [Cell(setting, seed) for seed in range(args.logs) for setting in args.settings]
    study: harness.Cells[Cell] = harness.Cells(args.out, [QUERIES, DOCUMENTS, IMPRESSIONS])
    outcomes = study.measure(cells, measure, args.processes)
    header = [
        "",
        "alarms",
        *(f"failed: {name}" for name in CHECKS),
        "intervals hold",
        "shipped",
        "of these worse",
        "better by 2 SE: shipped",
        "passed alone",
    ]
    header += ["worse: do not ship", "shipped with alarm", "least gain: clicks", "least gain: NDCG@10"]
    by_setting = {name: [outcomes[cell] for cell in cells if cell.setting == name] for name in args.settings}
    print(harness.markdown(header, [row(name, part) for name, part in by_setting.items()]))


if __name__ == "__main__":
    main()
