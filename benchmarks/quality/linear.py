"""The linear ranker beside other linear models: NDCG@10 on test folds, and seconds of training with every choice.

    python -m benchmarks.quality.linear [FOLDER] [--data mq2008 …] [--folds 5] [--restarts 5]

Every model has the same features, quantiles beside values within the query, but "standard", whose features are only
standardised, as search engines take them. Strengths of penalties are chosen by validation data, out of eight by each.
Peers: scikit-learn's logistic regression of relevant documents; RankSVM, LIBLINEAR on differences of pairs of a query
(at most 20,000, drawn); coordinate ascent on the NDCG@10 of training queries, one weight after another with steps that
double, as in RankLib, whose defaults are 5 restarts of 25 rounds. Differences are paired by query, over all folds.
FOLDER is that of `benchmarks/README.md`; "tmdb" is the second set of `tmdb-judgments` there.
"""

import csv
import functools
import gzip
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import rankwise as rw
from benchmarks import harness
from rankwise.base import tables
from rankwise.base.threads import use_threads
from rankwise.models.linear import LinearTransform

NDCG = rw.metric("ndcg@10")
Lists = rw.RankingDataset
STRENGTHS = 10.0 ** np.linspace(-3.0, 0.5, 8)


def tmdb(folder: str) -> Lists:
    """Return films with three features of their titles, by 40 queries."""
    path = next(iter(sorted(Path(folder).rglob("title_features.csv.gz"))), None)
    if path is None:
        raise FileNotFoundError(f"no title_features.csv.gz below {folder}")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = sorted(csv.DictReader(lines), key=lambda row: int(row["qid"]))
    features = [[float(row[f"features{number}"]) for number in range(3)] for row in rows]
    queries = np.array([int(row["qid"]) for row in rows])
    ids, starts = np.unique(queries, return_index=True)
    labels = [float(row["grade"]) for row in rows]
    return Lists(features, labels, np.append(starts, len(rows)), query_ids=ids)


def parts(folder: str, data: str, fold: int) -> tuple[Lists, ...]:
    """Return training, validation and test data."""
    if data == "tmdb":
        return list(rw.folds(tmdb(folder), 5, seed=0))[fold - 1]
    return harness.parts(folder, data, fold)


def best(valid: Lists, rows: list[np.ndarray], weights: Callable[[float], np.ndarray]) -> np.ndarray:
    """Return the weights at the strength that is best on validation data."""
    tried = [weights(strength) for strength in STRENGTHS]
    return tried[int(np.argmax([np.nanmean(NDCG.of(rows[1] @ one, valid)) for one in tried]))]


def logistic(train: Lists, valid: Lists, rows: list[np.ndarray]) -> np.ndarray:
    """Logistic regression of whether a document is relevant."""
    relevant = train.labels > 0

    def fit(strength: float) -> np.ndarray:
        model = LogisticRegression(C=1.0 / (strength * train.n_queries), solver="newton-cholesky")
        return np.asarray(model.fit(rows[0], relevant).coef_[0])

    return best(valid, rows, fit)


def rank_svm(train: Lists, valid: Lists, rows: list[np.ndarray]) -> np.ndarray:
    """A support vector machine on differences of pairs."""
    pairs = []
    for start, end in zip(train.offsets[:-1], train.offsets[1:], strict=True):
        better = np.argwhere(train.labels[start:end, None] > train.labels[None, start:end])
        pairs.append(better + start)
    chosen = np.concatenate(pairs)
    rng = np.random.default_rng(0)
    chosen = chosen[rng.permutation(len(chosen))[:20_000]]
    signs = np.where(np.arange(len(chosen)) % 2, 1.0, -1.0)
    apart = (rows[0][chosen[:, 0]] - rows[0][chosen[:, 1]]) * signs[:, None]

    def fit(strength: float) -> np.ndarray:
        model = LinearSVC(C=1.0 / (strength * len(chosen)), fit_intercept=False, max_iter=300).fit(apart, signs)
        return np.asarray(model.coef_[0])

    return best(valid, rows, fit)


def coordinate_ascent(train: Lists, valid: Lists, rows: list[np.ndarray], restarts: int = 1) -> np.ndarray:
    """Change one weight after another by steps that double, as long as the metric of the training queries rises."""
    rng, found = np.random.default_rng(0), []
    for _ in range(restarts):
        weights = np.full(rows[0].shape[1], 1.0 / rows[0].shape[1])
        scores = rows[0] @ weights
        worth = float(np.nanmean(NDCG.of(scores, train)))
        for _ in range(25):
            before = worth
            for column in rng.permutation(weights.size):
                if not rows[0][:, column].any():
                    continue
                best_change, best_worth = 0.0, worth
                for sign in (1.0, -1.0):
                    step = max(0.05, 0.05 * abs(weights[column])) * sign
                    for _ in range(12):
                        now = float(np.nanmean(NDCG.of(scores + step * rows[0][:, column], train)))
                        if now <= best_worth:
                            break
                        best_change, best_worth, step = step, now, 2.0 * step
                scores = scores + best_change * rows[0][:, column]
                weights[column], worth = weights[column] + best_change, best_worth
            if worth - before < 0.001:
                break
        found.append((float(np.nanmean(NDCG.of(rows[1] @ weights, valid))), weights))
    return max(found, key=lambda one: one[0])[1]


def measure(folder: str, data: str, folds: int, restarts: int) -> dict[str, tuple[np.ndarray, float]]:
    """Return the metric of every test query, and the seconds of a fold, for each model."""
    peers: dict[str, Callable[[Lists, Lists, list[np.ndarray]], np.ndarray]] = {
        "logistic regression": logistic,
        "RankSVM": rank_svm,
        "coordinate ascent": functools.partial(coordinate_ascent, restarts=restarts),
    }
    values: dict[str, list[np.ndarray]] = {}
    seconds: dict[str, float] = {}
    for fold in range(1, folds + 1):
        train, valid, test = parts(folder, data, fold)
        for name, transform in (("LinearRanker", "quantile+query"), ("LinearRanker, standard", "standard")):
            start = time.perf_counter()
            ranker = rw.LinearRanker(transform=transform, threads=1, progress=False).fit(train, valid)
            seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - start
            values.setdefault(name, []).append(NDCG.of(ranker.predict(test), test))
        for name, fit in peers.items():
            start = time.perf_counter()
            learned, _ = LinearTransform.fit("quantile+query", train.features)
            rows = [learned.all(part.features, part.offsets).astype(np.float64) for part in (train, valid, test)]
            weights = fit(train, valid, rows)
            seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - start
            values.setdefault(name, []).append(NDCG.of(rows[2] @ weights, test))
    return {name: (np.concatenate(one), seconds[name] / folds) for name, one in values.items()}


def main() -> None:
    """Measure and print."""
    parser = harness.arguments(__doc__)
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--data", nargs="+", default=["mq2008", "mq2007", "example", "web10k", "tmdb"])
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--restarts", type=int, default=5)
    args = parser.parse_args()
    rows: list[tuple[str, ...]] = []
    warnings.simplefilter("ignore")
    rw.LinearRanker(threads=1).fit(rw.synthetic(n_queries=20, n_docs=10, seed=1))  # what is compiled or loaded once
    with use_threads(1):
        for data in args.data:
            found = measure(harness.data_folder(args.folder), data, args.folds, args.restarts)
            ours = found["LinearRanker"][0]
            for name, (values, seconds) in found.items():
                apart = (ours - values)[~np.isnan(ours)]
                error = float(apart.std(ddof=1) / np.sqrt(apart.size))
                ahead = f"{tables.number(apart.mean(), signed=True)} ± {error:.4f}" if name != "LinearRanker" else ""
                rows.append((data, name, tables.number(float(np.nanmean(values))), ahead, f"{seconds:.2f}"))
                print(*rows[-1], sep="\t", flush=True)
    header = ("data", "model", "NDCG@10", "LinearRanker less this", "seconds")
    print(tables.Table(header=header, rows=tuple(rows), align="llrrr").markdown())


if __name__ == "__main__":
    main()
