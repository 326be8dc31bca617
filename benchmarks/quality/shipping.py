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

What is shipped is worse where its true clicks an impression are below production's, the blend counting that is
recommended. Better by two standard errors are candidates whose true difference is twice the error of the estimate; of
these, "shipped" counts blends, which are tested before the candidate, and "passed alone" the candidate by its own
interval, as with `blends=[1.0]`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

import rankwise as rw
from benchmarks import harness

SETTINGS = ("right", "wrong", "wrong, unchecked", "harvest", "cascade")
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


def true_clicks(users: Any, data: rw.RankingDataset, scores: np.ndarray, traffic: np.ndarray) -> float:
    """Return expected clicks an impression."""
    return float(np.average(users.expected_clicks(data, scores, 10), weights=traffic))


def measure(cell: Cell) -> dict[str, Any]:
    """Simulate a log and decide; return the decision and the truth."""
    rw.use_threads(1)
    rng = np.random.default_rng(cell.seed)
    data = rw.synthetic(n_queries=QUERIES, n_docs=DOCUMENTS, seed=cell.seed)
    data = data.with_(query_ids=np.arange(QUERIES), document_ids=np.arange(data.n_docs))
    production, second, third = (linear(data, rng.choice(QUERIES, 8, replace=False)) for _ in range(3))
    new = candidate(data, production, rng)
    traffic = np.maximum(1, IMPRESSIONS * rng.lognormal(-0.5, 1.0, QUERIES)).astype(int)
    of_users: dict[str, Any] = {"curve": CURVE}
    if cell.setting == "cascade":
        of_users = {"model": "cascade" if cell.seed % 2 else "dbn"}
    elif cell.setting != "harvest":
        of_users["trust"] = TRUST
    users = rw.clicks.Users(**of_users)
    rankers = {"production": production, "second": second, "third": third}
    log = rw.clicks.simulate(data, rankers=rankers, impressions=traffic, cutoff=10, seed=cell.seed, **of_users)
    if cell.setting == "right":
        bias = rw.clicks.Bias.known(*users.bias(10))
    elif cell.setting in ("harvest", "cascade"):
        bias = rw.clicks.propensities(log, "harvest", samples=50, seed=cell.seed)
    else:
        bias = rw.clicks.Bias.known(1.0 / np.arange(1, 11))
    unchecked = cell.setting.endswith("unchecked")
    result = rw.clicks.compare({"new": new, "production": production}, log, bias, data, unchecked=unchecked)
    share = result.recommended
    blended = (1.0 - share) * production + share * result.scale * new
    old = true_clicks(users, data, production, traffic)
    weighted = data.with_(weights=traffic)
    ndcg = [rw.evaluate(scores, weighted, ["ndcg@10"]).mean["ndcg@10"] for scores in (blended, production)]
    return {
        "verdict": result.verdict,
        "share": share,
        "alone": not result.blends[-1].failure,
        "reason": result.reason,
        "alarm": result.bias_check is not None and result.bias_check.alarm,
        "difference": result.difference,
        "error": (result.high - result.low) / 4.0,
        "truth": true_clicks(users, data, new, traffic) - old,
        "low": result.low,
        "high": result.high,
        "gain": true_clicks(users, data, blended, traffic) - old,
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
    header = ["", "alarms", "intervals hold", "shipped", "of these worse", "better by 2 SE: shipped", "passed alone"]
    header += ["worse: do not ship", "shipped with alarm", "least gain: clicks", "least gain: NDCG@10"]
    by_setting = {name: [outcomes[cell] for cell in cells if cell.setting == name] for name in args.settings}
    print(harness.markdown(header, [row(name, part) for name, part in by_setting.items()]))


if __name__ == "__main__":
    main()
