"""The demonstration: BM25 and learned rankers search the documentation of the installed NumPy and SciPy."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import rankwise as rw
from rankwise import RankingDataset, __version__, check
from rankwise.base.arrays import Array, Json
from rankwise.base.files import check_writable_folder, replacing
from rankwise.base.tables import Table
from rankwise.statistics import Result, alpha, gain

if TYPE_CHECKING:
    import polars as pl

    from rankwise import Comparison

METRICS, HEADLINE = ("ndcg@10", "ap", "rr"), "ndcg@10"
BASELINES = {
    "BM25 of the summary": ["bm25(summary)"],
    "BM25 of all fields": ["score(bm25)"],
    "BM25 of four fields": [f"bm25({field})" for field in ("name", "module", "summary", "text")],
}
"""Of four, as the text has parameters, returns and notes too: nearly the best sum."""
# One thread: so small a set gains little from more, and the numbers repeat everywhere.
TREES = "lightgbm({}, rounds=200, learning_rate=0.1, patience=20, threads=1, progress=False)"
RANKERS = {name: TREES.format(name) for name in ("xendcg", "approx_ndcg", "softmax_ce", "lambdarank")}
RANKERS[BAG := "bag of lambdarank"] = f"bagged({RANKERS['lambdarank']}, folds=3)"
SEED = 7
"""Of the split: numpy.median is one of its test queries."""
EXPLAINED = ("numpy.median", "numpy.mean", "numpy.sort", "numpy.linalg.norm", "scipy.stats.ttest_ind")
STEPS = 5 + len(RANKERS)
MARK = ".rankwise-demo"


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Demonstration(Result):
    """Rankers compared on the documentation, and why one ranks a page above another."""

    data: str
    """The data in words."""
    parts: Mapping[str, RankingDataset]
    """train, valid and test."""
    comparison: "Comparison"
    query: str
    why: str
    """Why the bag ranks a page that its authors listed above one that BM25 prefers."""
    folder: Path

    def table(self) -> Table:
        """Return the comparison's table."""
        return self.comparison.table()

    def to_frame(self) -> "pl.DataFrame":
        """Return one row per pair of rankers and metric, as the comparison does."""
        return self.comparison.to_frame()

    @property
    def sentence(self) -> str:
        """In how many pairs a learned ranker is ahead of BM25 by more than chance."""
        gains = [gain(self.comparison, HEADLINE, one, other) for one in RANKERS for other in BASELINES]
        ahead = sum(one.p < alpha(self.comparison.level) and one.low > 0.0 for one in gains)
        if ahead == len(gains):
            return "Every learned ranker is ahead of every BM25, by more than chance."
        return f"In {ahead} of {len(gains)} pairs the learned ranker is ahead of the BM25 by more than chance."

    def to_dict(self) -> Json:
        """Return everything as plain data."""
        return {
            "made_by": "rankwise demo", "version": __version__, "data": self.data, "sentence": self.sentence,
            "queries": {name: part.n_queries for name, part in self.parts.items()}, "rankers": RANKERS,
            "comparison": self.comparison.to_dict(), "folder": str(self.folder),
            "query": self.query, "why": self.why,
        }  # fmt: skip

    def next_commands(self) -> list[str]:
        """Return commands to continue with."""
        search, models = self.folder / "search", self.folder / "models"
        return [
            f"rankwise text search {search} 'median ignoring nan' --explain",
            f"rankwise serve {search}",
            f"rankwise explain {models / _key(BAG)} {self.folder / 'test.parquet'} --id {self.query}",
        ]


def demonstrate(
    folder: str | Path = "results/demo", *, force: bool = False, progress: Callable[[str], object] = str
) -> Demonstration:
    """Run the demonstration and write its results into ``folder``; ``progress`` is called with what happens next.

    A folder that the demonstration made before is used again. One that holds anything else is refused unless
    ``force``; even then only files of the demonstration's own names are replaced.
    """
    folder = _prepare(Path(folder), force)
    progress("Reading the documentation of NumPy and SciPy")
    docs = rw.text.numpy_scipy(progress=False)
    pages, names = docs.index(), docs.names()
    progress("Finding candidates")
    data = rw.text.dataset(pages, docs.queries, docs.runs(pages), docs.qrels, unjudged="irrelevant")
    found = data.labels.sum() / sum(map(len, docs.qrels.values()))
    train, valid, test = rw.split(data, (0.6, 0.2, 0.2), seed=SEED)
    scores = {name: baseline(test, features) for name, features in BASELINES.items()}
    rankers = {}
    for name, expression in RANKERS.items():
        progress(f"Training {name}")
        rankers[name] = rw.ranker(expression).fit(train, valid)
        scores[name] = rankers[name].predict(test)
    progress("Comparing and explaining")
    comparison = rw.compare(scores, test, METRICS)
    search = rw.text.Search(pages, rankers[BAG], {"bm25": pages, "names": names}, depth=50)
    query = next((one for one in EXPLAINED if one in test.qids()), str(test.qids()[0]))
    words = (
        f"{docs!r}. A query is the name and the first sentence of a page; relevant are the pages that its authors "
        f'listed under "See Also", {found:.0%} of which are candidates. The rankers saw {train.n_queries} queries in '
        f"training and {valid.n_queries} to know when to stop, and are compared on {test.n_queries} others."
    )
    parts, why = {"train": train, "valid": valid, "test": test}, explained(search, docs, query)
    result = Demonstration(data=words, parts=parts, comparison=comparison, query=query, why=why, folder=folder)
    progress("Writing")
    for name, part in parts.items():
        rw.write_data(part, folder / f"{name}.parquet", force=True)
    for name, one in rankers.items():
        one.save(folder / "models" / _key(name), force=True)
    search.save(folder / "search", force=True)
    result.save(folder / "results.json", force=True)
    comparison.plot_means(folder / "means.png", force=True)
    progress("Writing the report")
    comparison.to_report(folder / "report.html", about={"Data": words, "Example": why.partition("\n")[0]}, force=True)
    return result


def baseline(data: RankingDataset, features: Sequence[str]) -> Array:
    """Return the sum of some features."""
    places = [(data.feature_names or ()).index(name) for name in features]
    return np.asarray(data.features[:, places].sum(1), np.float64)


def explained(search: rw.text.Search, docs: rw.text.Pages, query: str) -> str:
    """Explain why the first page that its authors listed is above one that they did not, of these BM25's first."""
    found, listed = search(docs.queries[query]), docs.qrels[query]
    ids, ranks = found.documents.tolist(), np.where(found.run_ranks["bm25"] > 0, found.run_ranks["bm25"], np.inf)
    first = next(place for place, name in enumerate(ids) if name in listed)
    below = [place for place in range(first + 1, len(ids)) if ids[place] not in listed]
    other = min(below, key=lambda place: ranks[place])
    before = f"BM25 has them at ranks {ranks[first]:g} and {ranks[other]:g}."
    return f"For {query} its authors listed {ids[first]} and not {ids[other]}; {before}\n" + repr(
        found.explain(ids[first], ids[other])
    )


def _key(ranker: str) -> str:
    return ranker.replace(" ", "_")


def _prepare(folder: Path, force: bool) -> Path:
    """Make the folder, or make sure that it is ours to write into."""
    ours = not folder.exists() or (folder.is_dir() and ((folder / MARK).exists() or not any(folder.iterdir())))
    if not ours and not (force and folder.is_dir()):
        hint = "choose another folder with --output, or add files to this one with --force"
        raise FileExistsError(check.Message(f"{folder} exists already and was not made by rankwise demo", hint=hint))
    check_writable_folder(folder)
    (folder / "models").mkdir(parents=True, exist_ok=True)
    check_writable_folder(folder / "models")
    with replacing(folder / MARK, force=True) as new:
        text = "rankwise demo made this folder. Running it again replaces the files that it wrote.\n"
        new.write_text(text, encoding="utf-8")
    return folder
