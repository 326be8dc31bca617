"""Which kinds of rankers to average on small data: members are trained once, and all averages of them are compared.

    python -m benchmarks.quality.kinds FOLDER [--sets cisi cranfield …] [--folds 5] [--processes 2]

FOLDER is that of `benchmarks/README.md`; it needs CISI, Cranfield, MovieLens and samples of MSLR-WEB30K. By these sets
AutoRanker's kinds were chosen, and by none of those that `benchmarks.quality.auto` measures it with. Every member is a
bag of five, of training and validation queries of an outer fold, on a division of its own. Averages give kinds equal
weights, in units of their spread out of fold; those of test queries are held against the mean of two default bags, by
query, with standard errors. In the mean of sets each counts the same.
"""

import csv
import functools
import gzip
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

import rankwise as rw
from benchmarks import harness
from rankwise.rankers.ensembles.blend_weights import centred, score_deviation

METRIC = "ndcg@10"
MEMBERS = {
    "default": ("lightgbm", "lightgbm"),
    "within": ("lightgbm(transform='raw+query')",),
    "sum": ("lightgbm(0.5*lambdarank + 0.5*softmax_ce)",),
    "xendcg": ("lightgbm(xendcg)",),
    "calibrated": ("lightgbm(calibrated(max_label={}))",),
    "linear": ("linear",),
}
"""Kinds, and their bags; the one of calibrated losses knows the greatest label."""
SEEDS = {"default": (0, 1), "within": (10,), "sum": (20,), "xendcg": (30,), "calibrated": (40,), "linear": (0,)}
RATINGS = {5.0: 4, 4.5: 3, 4.0: 2, 3.5: 1}


# ---- data ------------------------------------------------------------------------------------------------------------


def found(folder: str, pattern: str) -> list[Path]:
    """Return the files of a pattern below the folder."""
    if paths := sorted(Path(folder).rglob(pattern)):
        return paths
    raise FileNotFoundError(f"no {pattern} below {folder}")


def lines(path: Path) -> list[str]:
    """Return the lines of a compressed file."""
    return gzip.decompress(path.read_bytes()).decode().splitlines()


def ids(data: rw.RankingDataset) -> list[str]:
    """Return the ids of queries as texts."""
    return [] if data.query_ids is None else [str(one) for one in data.query_ids.tolist()]


def texts(folder: str, name: str, depth: int) -> rw.RankingDataset:
    """Return text features of the first documents by BM25."""
    place = found(folder, f"{name}/qrels.txt.gz")[0].parent
    rows = {part: [json.loads(line) for line in lines(place / f"{part}.jsonl.gz")] for part in ("documents", "queries")}
    qrels: dict[str, dict[str, int]] = {}
    for line in lines(place / "qrels.txt.gz"):
        query, _, document, grade = line.split()
        qrels.setdefault(query, {})[document] = int(grade)
    documents = [
        {"id": str(row["id"]), "title": row.get("title") or "", "text": row.get("text") or ""}
        for row in rows["documents"]
    ]
    queries = {str(row["id"]): row["text"] for row in rows["queries"] if str(row["id"]) in qrels}
    pages = rw.text.Documents(documents, analyzer=rw.text.Analyzer(), progress=False)
    return rw.text.dataset(pages, queries, {"bm25": pages.search(queries, k=depth)}, qrels, unjudged="irrelevant")


def pages(queries: int, documents: int, seed: int) -> rw.RankingDataset:
    """Return some queries of the documentation of NumPy and SciPy, and some documents of each."""
    rng, whole = np.random.default_rng(seed), rw.text.numpy_scipy(progress=False).dataset()
    some = whole.take(np.sort(rng.permutation(whole.n_queries)[:queries]))
    rows = [np.arange(first, last) for first, last in zip(some.offsets[:-1], some.offsets[1:], strict=True)]
    rows = [np.sort(rng.permutation(one)[:documents]) if one.size > documents else one for one in rows]
    offsets = np.cumsum([0, *(one.size for one in rows)])
    taken = np.concatenate(rows)
    return rw.RankingDataset(some.features[taken], some.labels[taken], offsets, query_ids=some.query_ids)


def movies(folder: str, users: int, documents: int, seed: int) -> rw.RankingDataset:
    """Return the later half of users' ratings: features are of other users' ratings and of the user's earlier ones."""
    place = found(folder, "ml-latest-small/ratings.csv.gz")[0].parent
    table = np.array([[float(cell) for cell in row] for row in csv.reader(lines(place / "ratings.csv.gz")[1:])])
    user, movie, rating, when = table.T
    names = {int(row[0]): (row[1], row[2].split("|")) for row in csv.reader(lines(place / "movies.csv.gz")[1:])}
    tags: dict[int, int] = {}
    for row in csv.reader(lines(place / "tags.csv.gz")[1:]):
        tags[int(row[1])] = tags.get(int(row[1]), 0) + 1
    genres = sorted({genre for _, those in names.values() for genre in those})
    kinds = np.array([[genre in names[int(one)][1] for genre in genres] for one in movie], float)
    rng, ids = np.random.default_rng(seed), np.unique(user)
    chosen = rng.permutation([one for one in ids if (user == one).sum() >= 40])[:users]
    rows: list[list[float]] = []
    labels: list[int] = []
    offsets = [0]
    for one in chosen:
        own = np.flatnonzero(user == one)
        own = own[np.argsort(when[own], kind="stable")]
        past, future = own[: own.size // 2], own[own.size // 2 :]
        if future.size > documents:
            future = rng.permutation(future)[:documents]
        likes = (kinds[past] * (rating[past] - rating[past].mean())[:, None]).sum(0) / (kinds[past].sum(0) + 3)
        for item in future:
            others = rating[(user != one) & (movie == movie[item])]
            title, (_, kind) = names[int(movie[item])][0], (item, kinds[item])
            year = float(title[-5:-1]) if title[-5:-1].isdigit() else 1990.0
            liked = float((kind * likes).sum())
            about = [
                (others.sum() + 7.0) / (others.size + 2),
                np.log1p(others.size),
                others.std() if others.size else 0.0,
            ]
            about += [(others >= 4.5).sum(), (others <= 2).sum(), year, tags.get(int(movie[item]), 0), kind.sum()]
            about += [liked, liked / max(kind.sum(), 1.0), rating[past].mean(), past.size, abs(year - 1990.0)]
            rows.append([*about, *kind[:10]])
            labels.append(RATINGS.get(rating[item], 0))
        offsets.append(len(rows))
    return rw.RankingDataset(np.array(rows, np.float32), labels, offsets, query_ids=[f"u{int(one)}" for one in chosen])


def web30k(folder: str) -> rw.RankingDataset:
    """Return samples of MSLR-WEB30K, without queries that are also among those of WEB10K."""
    seen = {query for path in found(folder, "web10k.fold1.*") for query in ids(rw.read_letor(path))}
    both = rw.concatenate([rw.read_letor(found(folder, f"web30k.fold1.{part}.18q.*")[0]) for part in ("test", "vali")])
    return both.take(np.flatnonzero([query not in seen for query in ids(both)]))


def diabetes() -> rw.RankingDataset:
    """Return a table in lists of eight rows that were drawn at random."""
    from sklearn.datasets import load_diabetes

    table = load_diabetes(scaled=False)
    rows = np.random.default_rng(0).permutation(len(table.target))[:440]
    labels = np.digitize(table.target[rows], np.quantile(table.target, [0.4, 0.6, 0.8, 0.93]))
    return rw.RankingDataset(table.data[rows].astype(np.float32), labels, np.arange(0, 441, 8))


SETS: dict[str, Callable[[str], rw.RankingDataset]] = {
    "cisi": lambda folder: texts(folder, "cisi", 100),
    "cranfield": lambda folder: texts(folder, "cranfield", 60),
    "pages120": lambda _: pages(120, 60, 1),
    "movies100": lambda folder: movies(folder, 100, 40, 1),
    "movies600": lambda folder: movies(folder, 600, 30, 2),
    "web30k": web30k,
    "diabetes": lambda _: diabetes(),
}


@functools.cache
def parts(folder: str, data: str, fold: int) -> tuple[rw.RankingDataset, rw.RankingDataset]:
    """Return training and validation queries of an outer fold, and its test queries."""
    train, valid, test = [*rw.folds(whole(folder, data), harness.FOLDS, seed=0)][fold - 1]
    return rw.concatenate([train, valid]), test


@functools.cache
def whole(folder: str, data: str) -> rw.RankingDataset:
    """Return a set; its ids, by which folds are drawn, are texts."""
    made = SETS[data](folder)
    return made if made.query_ids is None else made.with_(query_ids=ids(made))


# ---- members and averages --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """A bag on an outer fold."""

    folder: str
    data: str
    fold: int
    member: str
    seed: int


def measure(cell: Cell) -> list[float]:
    """Train a bag, and return its scores of test documents in units of their spread out of fold."""
    train, test = parts(cell.folder, cell.data, cell.fold)
    expression = cell.member.format(f"{max(1.0, whole(cell.folder, cell.data).labels.max()):g}")
    ranker = rw.ranker(expression).set_params(seed=cell.seed, threads=1, metrics=(METRIC,), progress=False)
    bag = rw.bagged(ranker, 5, fold_seed=cell.seed).fit(train)
    unit = score_deviation(bag.oof_scores_, train.offsets) or np.inf
    return [round(float(score), 5) for score in centred(bag.predict(test), test.offsets) / unit]


def averages() -> Iterator[tuple[str, ...]]:
    """Yield the kinds of each average: single ones, all, and all but one or two."""
    yield from ((kind,) for kind in MEMBERS)
    yield from (some for left_out in range(3) for some in combinations(MEMBERS, len(MEMBERS) - left_out))


def gains(cells: dict[Cell, list[float]], folder: str, data: str, folds: int, kinds: tuple[str, ...]) -> np.ndarray:
    """Return the metric of an average less that of a default bag, of every test query that has one."""
    values = []
    for fold in range(1, folds + 1):
        _, test = parts(folder, data, fold)
        scores = {kind: np.array([cells[cell] for cell in wanted(folder, [data], [fold], (kind,))]) for kind in MEMBERS}
        metric = functools.partial(rw.metric(METRIC).of, data=test)
        baseline = np.mean([metric(row) for row in scores["default"]], axis=0)
        values.append(metric(np.mean([scores[kind].mean(axis=0) for kind in kinds], axis=0)) - baseline)
    every = np.concatenate(values)
    return np.asarray(every[~np.isnan(every)])


def wanted(folder: str, sets: list[str], folds: list[int], kinds: tuple[str, ...] = tuple(MEMBERS)) -> list[Cell]:
    """Return the cells of some sets, folds and kinds."""
    return [
        Cell(folder, data, fold, member, seed)
        for data in sets
        for fold in folds
        for kind in kinds
        for member, seed in zip(MEMBERS[kind], SEEDS[kind], strict=True)
    ]


def main() -> int:
    parser = harness.arguments(__doc__, out="results/kinds.json", processes=1)
    parser.add_argument("folder")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=[*SETS])
    parser.add_argument("--folds", type=int, default=harness.FOLDS, help="of the five outer ones, the first so many")
    options = parser.parse_args()
    folds = [*range(1, options.folds + 1)]
    cells = harness.Cells[Cell](options.out).measure(
        wanted(options.folder, options.sets, folds), measure, options.processes
    )
    rows = []
    for kinds in averages():
        of = [gains(cells, options.folder, data, options.folds, kinds) for data in options.sets]
        means, errors = [one.mean() for one in of], [one.std(ddof=1) / np.sqrt(one.size) for one in of]
        pooled = np.concatenate(of)
        rows.append(
            [
                " + ".join(kinds),
                f"{np.mean(means):+.4f} ± {np.sqrt(np.sum(np.square(errors))) / len(of):.4f}",
                f"{pooled.mean():+.4f} ± {pooled.std(ddof=1) / np.sqrt(pooled.size):.4f}",
                *(f"{mean:+.4f} ± {error:.4f}" for mean, error in zip(means, errors, strict=True)),
            ]
        )
    print(harness.markdown(["kinds, equal weights", "mean of sets", "all queries", *options.sets], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
