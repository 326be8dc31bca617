"""Fusion of BM25 with vectors on Cranfield and CISI: what tuning, learning and weights of each query are worth.

    python -m benchmarks.quality.fusion [FOLDER] [--data cranfield cisi] [--seeds 3] [--divisions 100] [--vectors auto]

FOLDER has cranfield/ and cisi/, each documents.jsonl.gz, queries.jsonl.gz and qrels.txt.gz. Runs are BM25, latent
semantic analysis of the same words (150 singular vectors, by SciPy), and mean vectors of words by `wordllama` 0.3.9, if
that is installed; later versions download them. NDCG@10 of each query is the mean over seeds, each of which cuts the
queries into five folds anew. "per query" are weights as a linear function of the query (length and idf, the curve of
each run's scores, what the runs share), "learned, texts" a bag of trees over features of texts and runs; the oracle
takes the best weights of the grid for each query, by its labels. The gap is that between tuned weights and the oracle.

Divisions cut the queries into halves: one half tunes, the other says what the weights gain there. Covered is the share
of divisions whose 95% interval of (reported − held-out gain over rrf) has 0; a plain grid reports the gain of its
best weights on the queries that chose them. With `ranx` installed its fusion of the same runs is compared, and timed.
"""

import gzip
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import svds

import rankwise as rw
from benchmarks import harness
from rankwise.base import tables
from rankwise.base.threads import use_threads
from rankwise.wings.text.fusion import Found
from rankwise.wings.text.tuned_fusion import simplex

Runs = dict[str, pl.DataFrame]
METRIC, FOLDS = "ndcg@10", 5


class Collection:
    """Texts, judgements and runs."""

    def __init__(self, folder: Path, vectors: str) -> None:
        rows, asked = (
            [json.loads(one) for one in gzip.decompress((folder / f"{name}.jsonl.gz").read_bytes()).splitlines()]
            for name in ("documents", "queries")
        )
        self.qrels = rw.trec.read_qrels(folder / "qrels.txt.gz")
        judged = set(self.qrels.filter(pl.col("grade") > 0)["query"])
        self.queries = {row["id"]: row["text"] for row in asked if row["id"] in judged}
        self.pages = rw.text.Documents(rows, analyzer=rw.text.Analyzer(stem="english", stop="english"), progress=False)
        self.runs = {"BM25": self.pages.search(self.queries), "LSA": self.pages.nearest(self.queries, self.lsa())}
        if vectors != "lsa" and (encode := word_vectors(required=vectors == "wordllama")):
            self.runs["vectors"] = self.pages.nearest(self.queries, encode)

    def lsa(self) -> Callable[[list[str]], Any]:
        """Return an encoder by the singular vectors of the documents' tf-idf."""
        shape = len(self.pages), len(self.pages.words)

        def counts(texts: list[str]) -> csr_matrix:
            words = self.pages.numbers_of(texts)
            weights = 1.0 + np.log(words.counts)
            return csr_matrix((weights, words.distinct, words.distinct_offsets), shape=(len(texts), shape[1]))

        all_texts = counts([" ".join(self.pages.text(one).values()) for one in self.pages.ids])
        idf = np.log(shape[0] / np.maximum(np.bincount(all_texts.indices, minlength=shape[1]), 1))
        singular = svds(all_texts.multiply(idf).tocsr(), k=min(150, min(shape) - 1), rng=0)[2].T
        return lambda texts: counts(texts).multiply(idf).tocsr() @ singular

    def values(self, run: pl.DataFrame) -> np.ndarray:
        """NDCG@10 of the queries in their order."""
        found = rw.evaluate(run, self.qrels, METRIC)
        of = dict(zip(map(str, found.query_ids), found[METRIC].tolist(), strict=True))
        return np.array([of.get(one, np.nan) for one in self.queries])

    def part(self, ids: set[str]) -> tuple[Runs, pl.DataFrame]:
        """Return runs and judgements of some queries."""
        chosen = pl.col("query").is_in(list(ids))
        return {name: run.filter(chosen) for name, run in self.runs.items()}, self.qrels.filter(chosen)


def word_vectors(*, required: bool) -> Callable[[list[str]], Any] | None:
    """Return the encoder of wordllama with the vectors that come with the package."""
    try:
        import wordllama  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        if required:
            raise
        return None
    model = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    return lambda texts: model.embed(list(texts))


def described(collection: Collection, runs: Runs) -> tuple[Found, np.ndarray]:
    """Return what runs found, and numbers of each query: words and idf, curves of scores, what runs share."""
    found = Found.of(runs)
    first, queries = found.offsets[:-1], found.pairs["query"].to_numpy()[found.offsets[:-1]]
    words = collection.pages.numbers_of([collection.queries[one] for one in queries])
    idf = collection.pages.arrays["idf"].reshape(len(collection.pages.fields), -1).min(0)[words.distinct]
    sizes = np.diff(words.distinct_offsets)
    idfs = np.bincount(np.repeat(np.arange(sizes.size), sizes), idf, sizes.size)
    curve = np.add.reduceat(found.scaled("min-max"), first) / np.add.reduceat(np.isfinite(found.ranks), first)
    shared = [np.add.reduceat((found.ranks <= k).all(1), first) / k for k in (10, 50)]
    top = np.fmax.reduceat(found.scores, first)
    return found, np.column_stack([np.log1p(sizes), idfs / np.maximum(sizes, 1), curve, top, *shared])


def per_query(collection: Collection, train: Runs, qrels: pl.DataFrame, test: Runs) -> pl.DataFrame:
    """Fuse with weights that are a linear function of the query."""
    found, about = described(collection, train)
    mean, spread = about.mean(0), np.maximum(about.std(0), 1e-9)

    def data(found: Found, about: np.ndarray, labels: Any) -> rw.RankingDataset:
        each, scores = np.repeat((about - mean) / spread, np.diff(found.offsets), axis=0), found.scaled("min-max")
        crossed = [scores, *(scores * one[:, None] for one in each.T)]
        return rw.RankingDataset(np.hstack(crossed).astype(np.float32), labels, found.offsets)

    labels = found.pairs.join(qrels, on=["query", "document"], how="left", maintain_order="left")["grade"]
    ranker = rw.LinearRanker(transform=None, progress=False)
    ranker.fit(data(found, about, labels.fill_null(0).clip(0).to_numpy()))
    new, about = described(collection, test)
    return new.run(ranker.predict(data(new, about, np.zeros(new.pairs.height)))[:, None], np.ones(1))


def study(collection: Collection, seeds: int) -> dict[str, np.ndarray]:
    """Return the metric of each query by system, the mean over seeds."""
    runs, ids = collection.runs, np.array(list(collection.queries))
    found = {name: collection.values(run) for name, run in runs.items()} | {"rrf": collection.values(rw.fuse(runs))}
    settings: Any = {"learning_rate": 0.05, "leaves": 7, "rounds": 300, "patience": 40, "progress": False}
    texts: Any = {"documents": collection.pages, "queries": collection.queries}
    ranker = rw.LightGBMRanker("xendcg", **settings)
    learned: dict[str, list[np.ndarray]] = {}
    for seed in range(seeds):
        fold = np.random.default_rng(seed).permutation(ids.size) % FOLDS
        fused: dict[str, list[pl.DataFrame]] = {}
        for number in range(FOLDS):
            train, qrels = collection.part(set(ids[fold != number].tolist()))
            test, _ = collection.part(set(ids[fold == number].tolist()))
            for name, run in {
                "tuned": rw.text.tune_fusion(train, qrels, METRIC, progress=False).fuse(test),
                "learned": rw.text.learn_fusion(train, qrels, rw.LinearRanker(progress=False)).fuse(test),
                "per query": per_query(collection, train, qrels, test),
                "learned, texts": rw.text.learn_fusion(train, qrels, rw.bagged(ranker), **texts).fuse(
                    test, collection.queries
                ),
            }.items():
                fused.setdefault(name, []).append(run.select("query", "document", "score"))
        for name, parts in fused.items():
            learned.setdefault(name, []).append(collection.values(pl.concat(parts)))
    found |= {name: np.mean(values, axis=0) for name, values in learned.items()}
    grid = [collection.values(rw.fuse(runs, "convex", weights=list(one))) for one in simplex(len(runs))]
    return found | {"oracle": np.max(grid, axis=0)}


def divided(collection: Collection, divisions: int) -> np.ndarray:
    """Return for each division whether it is covered, reported − held-out gain, and the same of a plain grid."""
    ids, rows = np.array(list(collection.queries)), []
    rrf = collection.values(rw.fuse(collection.runs))
    grid = np.array(
        [
            collection.values(rw.fuse(collection.runs, "convex", weights=list(one)))
            for one in simplex(len(collection.runs))
        ]
    )
    for seed in range(divisions):
        tuning = np.random.default_rng(seed).permutation(ids.size) % 2 == 0
        tuned = rw.text.tune_fusion(*collection.part(set(ids[tuning].tolist())), METRIC, seed=seed, progress=False)
        reported, low, high = tuned.gains["rrf"]
        others = (collection.values(tuned.fuse(collection.runs)) - rrf)[~tuning]
        error = np.hypot((high - low) / 2 / 1.98, others.std(ddof=1) / np.sqrt(others.size))
        best = grid[:, tuning].mean(1).argmax()
        plain = (grid[best] - rrf)[tuning].mean() - (grid[best] - rrf)[~tuning].mean()
        rows.append((abs(reported - others.mean()) <= 1.98 * error, reported - others.mean(), plain))
    return np.array(rows, float)


def beside_ranx(collection: Collection) -> str:
    """Return how far fusion is from that of ranx, and how many times as long that takes."""
    try:
        import ranx
    except ImportError:
        return "ranx is not installed"
    frames = [run.to_pandas().astype({"query": object, "document": object}) for run in collection.runs.values()]
    theirs = [ranx.Run.from_df(frame, q_id_col="query", doc_id_col="document") for frame in frames]
    equal = [1.0 / len(theirs)] * len(theirs)
    pairs: dict[str, tuple[Callable[[], pl.DataFrame], Any]] = {
        "rrf": (lambda: rw.fuse(collection.runs), {"norm": None, "method": "rrf"}),
        "isr": (lambda: rw.fuse(collection.runs, "isr"), {"norm": None, "method": "isr"}),
        "combmnz": (lambda: rw.fuse(collection.runs, "combmnz"), {"norm": "min-max", "method": "mnz"}),
        "convex": (
            lambda: rw.fuse(collection.runs, "convex"),
            {"norm": "min-max", "method": "wsum", "params": {"weights": equal}},
        ),
    }
    said = []
    for name, (ours, options) in pairs.items():
        times: list[tuple[float, float]] = []
        for _ in range(6):  # the first compiles
            start = time.perf_counter()
            other = ranx.fuse(theirs, **options)
            middle = time.perf_counter()
            rows = ours().rows()
            times.append((middle - start, time.perf_counter() - middle))
        scores, (theirs_took, ours_took) = other.to_dict(), np.median(times[1:], axis=0)
        many = sum(abs(score - scores[query][document]) > 1e-9 for query, document, score in rows)
        said.append(f"{name}: {many} of {len(rows):,} scores differ, {theirs_took / ours_took:.1f} times as long")
    return "; ".join(said)


def line(name: str, values: np.ndarray, rrf: np.ndarray) -> tuple[str, ...]:
    apart = values - rrf
    error = apart.std(ddof=1) / np.sqrt(apart.size)
    above = (tables.number(apart.mean(), signed=True), f"{apart.mean() / error:.1f}") if error else ("", "")
    return (name, tables.number(values.mean()), *above)


def main() -> None:
    """Measure and print."""
    parser = harness.arguments(__doc__)
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--data", nargs="+", default=["cranfield", "cisi"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--divisions", type=int, default=100)
    parser.add_argument("--vectors", choices=["auto", "wordllama", "lsa"], default="auto")
    args = parser.parse_args()
    folder = Path(harness.data_folder(args.folder))
    found: dict[str, list[np.ndarray]] = {}
    halves = []
    with use_threads(1):
        for name in args.data:
            collection = Collection(folder / name, args.vectors)
            harness.heading(f"{name}: {', '.join(collection.runs)}")
            systems = study(collection, args.seeds)
            rows = [line(system, values, systems["rrf"]) for system, values in systems.items()]
            print(tables.Table(header=("system", "NDCG@10", "− rrf", "z"), rows=tuple(rows), align="lrrr").markdown())
            for system, values in systems.items():
                found.setdefault(system, []).append(values)
            halves.append(divided(collection, args.divisions))
            print(beside_ranx(collection), flush=True)
    both = {system: np.concatenate(values) for system, values in found.items()}
    harness.heading("all")
    rows = [line(system, values, both["rrf"]) for system, values in both.items()]
    print(tables.Table(header=("system", "NDCG@10", "− rrf", "z"), rows=tuple(rows), align="lrrr").markdown())
    gap = both["oracle"].mean() - both["tuned"].mean()
    closed = (both["per query"].mean() - both["tuned"].mean()) / gap
    share = f"{100 * closed:.0f}% of the gap of {gap:.4f}"
    print(f"weights of each query close {share} between tuned weights and the oracle")
    covered, reported, plain = np.concatenate(halves).mean(axis=0)
    print(f"covered: {100 * covered:.0f}% of {sum(map(len, halves))} divisions")
    print(f"reported − held-out gain: {reported:+.4f}, of a plain grid {plain:+.4f}")
    missed = both["learned, texts"].mean() - both["rrf"].mean() < 0.015 or covered < 0.9
    raise SystemExit(harness.MISSED if missed else 0)


if __name__ == "__main__":
    main()
