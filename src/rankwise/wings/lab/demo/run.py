"""The demonstration: BM25 and learned rankers search the documentation of the installed NumPy and SciPy."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import rankwise as rw
from rankwise import RankingDataset, __version__, check
from rankwise.base import tables
from rankwise.base.arrays import Json
from rankwise.base.files import check_writable_folder, replacing
from rankwise.statistics import BLUE, GREY, VERMILLION, Result, alpha, draw_means, figure, gain, listed, means_size

if TYPE_CHECKING:
    import polars as pl

    from rankwise import Comparison

METRICS, HEADLINE = ("ndcg@10", "ap", "rr"), "ndcg@10"
BASELINES = {"BM25 of the summary": "bm25(summary)", "BM25 of all fields": "score(bm25)"}
# One thread: so small a set gains little from more, and the numbers repeat everywhere.
TREES = "lightgbm({}, rounds=200, patience=20, learning_rate=0.15, leaves=15, threads=1)"
RANKERS = {name: TREES.format(name) for name in ("softmax_ce", "xendcg", "plrank", "lambdarank")}
RANKERS[BAG := "bag of lambdarank"] = f"bagged({RANKERS['lambdarank']}, folds=5)"
SEED = 7
"""Of the split: numpy.median is one of its test queries."""
EXPLAINED = ("numpy.median", "numpy.mean", "numpy.sort", "numpy.linalg.norm", "scipy.stats.ttest_ind")
STEPS = 5 + len(RANKERS)
MARK = ".rankwise-demo"
FILES = {
    "report.html": "for a browser: what was found, tests, figures, and every query in an explorer",
    "search": "the search with its ranker, for rankwise serve",
    "models": "the rankers",
    **{f"{part}.parquet": f"the {part} data" for part in ("train", "valid", "test")},
    "means.png": "how good each ranker is",
    "results.json": "every number, for programs",
}
_OF = {"names": "how alike the names are spelt", "bm25": "BM25 of all fields", "query": "words of the query"}
"""What a feature tells of; by default the field in its brackets."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Demonstration(Result):
    """Rankers compared on the documentation, and one pair of pages explained."""

    pages: str
    parts: Mapping[str, RankingDataset]
    """train, valid and test."""
    found: float
    """The share of links that are among the candidates."""
    comparison: "Comparison"
    explanation: str
    folder: Path

    def table(self) -> tables.Table:
        """Return the comparison's table."""
        return self.comparison.table()

    def to_frame(self) -> "pl.DataFrame":
        """Return one row per pair of rankers and metric, as the comparison does."""
        return self.comparison.to_frame()

    @property
    def sentence(self) -> str:
        """What the tests say of learned rankers beside BM25."""
        gains = [gain(self.comparison, HEADLINE, one, other) for one in RANKERS for other in BASELINES]
        ahead = sum(one.p < alpha(self.comparison.level) and one.low > 0.0 for one in gains)
        if ahead == len(gains):
            return "Every learned ranker is ahead of every BM25"
        return f"Of {len(gains)} pairs of a learned ranker and a BM25, the learned one is ahead in {ahead}"

    def introduction(self) -> str:
        """Describe the data."""
        train, valid, test = (part.n_queries for part in self.parts.values())
        return (
            f"{self.pages}. A query is the name and the first sentence of a page; relevant is what its authors listed "
            f'under "See Also", of which {self.found:.0%} are among the candidates. {train} queries to train on, {valid} '
            f"to know when to stop, {test} to compare."
        )

    def to_dict(self) -> Json:
        """Return everything as plain data that JSON can hold."""
        return {
            "made_by": "rankwise demo", "version": __version__, "pages": self.pages, "links_found": self.found,
            "queries": {name: part.n_queries for name, part in self.parts.items()}, "sentence": self.sentence,
            "comparison": self.comparison.to_dict(), "explanation": self.explanation, "rankers": RANKERS,
            "folder": str(self.folder), "files": FILES,
        }  # fmt: skip

    def next_commands(self) -> list[str]:
        """Return commands to continue with."""
        folder, query = self.folder, self.explanation.split()[1].rstrip(",")
        return [
            f"rankwise serve {folder / 'search'}",
            f"rankwise explain {folder / 'models' / _key(BAG)} {folder / 'test.parquet'} --id {query}",
            f"rankwise auto {folder / 'train.parquet'} --minutes 3 --output {folder / 'models' / 'auto'}",
        ]


def demonstrate(
    folder: str | Path = "results/demo", *, force: bool = False, progress: Callable[[str], object] = str
) -> Demonstration:
    """Run the demonstration and write its results into ``folder``; ``progress`` is called with what happens next.

    A folder that the demonstration made before is used again. One that holds anything else is refused unless
    ``force``; even then only files of the demonstration's own names are replaced.
    """
    folder = _prepare(Path(folder), force)
    progress("Reading the documentation")
    docs = rw.text.numpy_scipy(progress=False)
    pages, names = docs.index(), docs.names()
    progress("Searching it")
    data = docs.dataset(pages, names)
    parts = dict(zip(("train", "valid", "test"), rw.split(data, (0.6, 0.2, 0.2), seed=SEED), strict=True))
    train, valid, test = parts.values()
    rankers = {}
    for name, expression in RANKERS.items():
        progress(f"Training {name}")
        rankers[name] = rw.ranker(expression).set_params(progress=False).fit(train, valid)
    progress("Comparing")
    scores = {name: test.features[:, test.feature_names.index(one)] for name, one in BASELINES.items()}
    scores |= {name: one.predict(test) for name, one in rankers.items()}
    result = Demonstration(
        pages=repr(docs),
        parts=parts,
        found=float(data.labels.sum()) / sum(map(len, docs.qrels.values())),
        comparison=rw.compare(scores, test, METRICS),
        explanation=explained(rankers[BAG], test),
        folder=folder,
    )
    progress("Writing")
    for name, part in parts.items():
        rw.write_data(part, folder / f"{name}.parquet", force=True)
    for name, one in rankers.items():
        one.save(folder / "models" / _key(name), force=True)
    rw.text.Search(pages, rankers[BAG], {"bm25": pages, "names": names}, depth=50).save(folder / "search", force=True)
    _write(folder / "results.json", json.dumps(result.to_dict(), indent=2) + "\n")
    with figure(folder / "means.png", *means_size(result.comparison), force=True) as drawing:
        colours = {name: GREY if name in BASELINES else VERMILLION if name == BAG else BLUE for name in scores}
        draw_means(drawing, result.comparison, colours)
    progress("Writing the report")
    about = {"Data": result.introduction(), "Why": result.explanation}
    result.comparison.to_report(folder / "report.html", about=about, force=True)
    return result


def explained(ranker: rw.Ranker, test: RankingDataset) -> str:
    """Say in plain words why the ranker puts a linked page above one that BM25 prefers."""
    ids = test.query_ids.tolist()
    ...
