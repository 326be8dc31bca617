"""What the demonstration found: which ranker is best, by how much, and how sure that is, in words and numbers."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rankwise._version import __version__
from rankwise.arrays import Json
from rankwise.data.dataset import RankingDataset
from rankwise.statistics import tables
from rankwise.statistics.verdict import Finding, gain, listed

if TYPE_CHECKING:
    from rankwise.model_selection.auto.leaderboard import Leaderboard
    from rankwise.statistics.comparison import Comparison
    from rankwise.statistics.evaluation import Evaluation

METRICS, HEADLINE = ("ndcg@5", "ndcg@10", "ap", "rr"), "ndcg@10"
OURS = {
    "ListNet": "listnet",
    "LambdaRank": "lambdarank",
    "XE-NDCG": "xendcg",
    "E[LambdaRank]": "stochastic(lambdarank, samples=8, scale=0.25)",
    "PL-Rank": "plrank",
}
BUILT_IN = {"LightGBM lambdarank": "native:lambdarank", "LightGBM rank_xendcg": "native:rank_xendcg"}
OBJECTIVES = OURS | BUILT_IN
MINUTES = 0.2
"""How long the search takes."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Demonstration:
    """The rankers compared, the limits between which they lie, a search on the same data, and the files."""

    parts: dict[str, RankingDataset]
    """train, valid and test."""
    comparison: "Comparison"
    floor: "Evaluation"
    """A random order, which no ranker should fall below."""
    ceiling: "Evaluation"
    """The order by true utility, which on average no ranker can beat: the judges' noise is left."""
    curves: dict[str, list[float]]
    """Trained ranker -> the headline metric of the validation part after every round."""
    leaderboard: "Leaderboard"
    tested: "Evaluation"
    """The ranker of the search on the test part."""
    folder: Path
    files: dict[str, str]
    """File name -> what is in it."""

    @property
    def verdict(self) -> Finding:
        """Which ranker is best by the headline metric, and which are close behind."""
        return Finding.of(self.comparison, HEADLINE)

    def table(self) -> tables.Table:
        """Return the comparison's table, with the two limits as last rows."""
        table = self.comparison.table()
        limits = {"(random order)": self.floor, "(best possible)": self.ceiling}
        rows = (("", name, *(tables.number(one.mean[m]) for m in METRICS)) for name, one in limits.items())
        return replace(table, rows=(*table.rows, *rows))

    def introduction(self) -> str:
        """Describe the data."""
        train, valid, test = self.parts.values()
        queries, documents = (sum(getattr(part, n) for part in self.parts.values()) for n in ("n_queries", "n_docs"))
        return (
            f"Synthetic web search: {queries:,} queries, {documents:,} documents, {test.n_features} features. "
            f"The rankers saw {train.n_queries} queries in training and {valid.n_queries} to know when to stop; "
            f"they are judged on {test.n_queries} others."
        )

    def conclusion(self) -> str:
        """Describe which ranker is best, by how much, and how sure that is."""
        _, (best, *_), close, beaten = self.verdict
        mean, floor, ceiling = (
            one.mean[HEADLINE] for one in (self.comparison.paired.evaluations[best], self.floor, self.ceiling)
        )
        text = f"{best} ranks best: {HEADLINE} {mean:.3f}"
        if close:
            text = f"{best} has the highest {HEADLINE}, {mean:.3f}, but not by more than chance over {listed(close)}"
        if beaten:
            text += f". {'It' if close else 'That'} is significantly better than {listed(beaten)} "
            text += f"(against {beaten[0]}: {gain(self.comparison, HEADLINE, best, beaten[0])})"
        share = (mean - floor) / (ceiling - floor)
        return f"{text}. It goes {share:.0%} of the way from a random order to the best possible one."

    def search_introduction(self) -> str:
        """Describe the search."""
        return (
            f"And with nothing chosen by hand: rw.AutoRanker(minutes={MINUTES:g}) tries recipes of what is installed "
            f"for {tables.duration(60.0 * MINUTES)}, on the training and validation queries."
        )

    def search_conclusion(self) -> str:
        """Compare its ranker with the best of the others, without a test: the clock decides how far it comes."""
        best, mean = self.verdict.ranked[0], tables.number(self.tested.mean[HEADLINE])
        return (
            f"On the test queries what it took has {HEADLINE} {mean} {tables.interval(*self.tested.interval[HEADLINE])}"
            f"; {best}, the best above, has {tables.number(self.comparison.mean[HEADLINE][best])}. "
            "More minutes try more recipes."
        )

    def to_dict(self) -> Json:
        """Return everything as plain data that JSON can hold."""
        return {
            "made_by": "rankwise demo",
            "version": __version__,
            "queries": {name: part.n_queries for name, part in self.parts.items()},
            "documents": {name: part.n_docs for name, part in self.parts.items()},
            "ranked": self.verdict.ranked,
            "close_to_the_best": self.verdict.close,
            "rounds": {name: int(np.argmax(curve)) + 1 for name, curve in self.curves.items()},
            "curves": self.curves,
            "random_order": self.floor.to_dict(),
            "best_possible": self.ceiling.to_dict(),
            "comparison": self.comparison.to_dict(),
            "search": {**self.leaderboard.to_dict(), "test": self.tested.to_dict()},
            "folder": str(self.folder),
            "files": self.files,
        }

    def next_commands(self) -> list[str]:
        """Return commands to continue with: compare two rankers, explain a ranking, train one, search longer."""
        folder, ranked = self.folder, self.verdict.ranked
        rankings = (f"{key(name)}={folder / file(name)}" for name in ranked[1::-1])
        data = f"{folder / 'train.parquet'} --valid {folder / 'valid.parquet'}"
        model = folder / file(next(name for name in ranked if name in OBJECTIVES))
        return [
            f"rankwise compare {folder / 'test.parquet'} {' '.join(rankings)}",
            f"rankwise explain {model} {folder / 'test.parquet'} --query {self.parts['test'].qids()[0]}",
            f"rankwise train {data} --objective approx_ndcg --output {folder / 'models/mine'}",
            f"rankwise auto {data} --minutes 3 --output {folder / 'models/longer'}",
        ]


def key(ranker: str) -> str:
    """Return the name of a ranker in file names and commands: ``E[LambdaRank]`` is ``e_lambdarank``."""
    words = "".join(letter if letter.isalnum() else " " for letter in ranker.replace("-", "").partition(" (")[0])
    return "_".join(words.lower().split())


def file(ranker: str) -> str:
    """Return where a ranker lies: a folder for a model, a file for scores."""
    return f"models/{key(ranker)}" if ranker in OBJECTIVES else f"{key(ranker)}.txt"
