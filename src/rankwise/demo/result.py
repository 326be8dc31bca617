"""What the demonstration found: which ranker is best, by how much, and how sure that is, in words and numbers."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rankwise._version import __version__
from rankwise.arrays import Json
from rankwise.data.dataset import RankingDataset
from rankwise.statistics import tables
from rankwise.statistics.verdict import Gain, Verdict, gain, listed

if TYPE_CHECKING:
    from rankwise.demo.search import Search
    from rankwise.statistics.comparison import Comparison
    from rankwise.statistics.evaluation import Evaluation

METRICS = ("ndcg@5", "ndcg@10", "ap", "rr")
HEADLINE = "ndcg@10"


@dataclass(frozen=True, eq=False, kw_only=True)
class Demonstration:
    """The rankers compared, the limits between which they lie, and the files that say so."""

    parts: dict[str, RankingDataset]
    """train, valid and test."""
    comparison: "Comparison"
    floor: "Evaluation"
    """A random order, which no ranker should fall below."""
    ceiling: "Evaluation"
    """The order by true utility, which on average no ranker can beat: the judges' noise is left."""
    search: "Search"
    """What a search without any choice found, on the same data."""
    curves: dict[str, list[float]]
    """Trained ranker -> the headline metric of the validation part after every round."""
    folder: Path
    files: dict[str, str]
    """File name -> what is in it."""

    @property
    def verdict(self) -> Verdict:
        """Which ranker is best by the headline metric, and which are close behind."""
        return Verdict.of(self.comparison, HEADLINE)

    @property
    def ranked(self) -> list[str]:
        """The rankers, the best by the headline metric first."""
        return self.verdict.ranked

    @property
    def headline(self) -> str:
        """What the tests bear out, in one line."""
        return self.verdict.headline()

    def gain(self, better: str, worse: str) -> Gain:
        """Give the difference between two rankers by the headline metric."""
        return gain(self.comparison, HEADLINE, better, worse)

    def close(self) -> list[str]:
        """The rankers that the best one does not beat by more than chance, the better first."""
        return self.verdict.close

    def table(self) -> tables.Table:
        """Give the comparison's table, with the two limits as last rows."""
        table = self.comparison.table()
        limits = {"(random order)": self.floor, "(best possible)": self.ceiling}
        rows = (("", name, *(tables.number(one.mean[m]) for m in METRICS)) for name, one in limits.items())
        return replace(table, rows=(*table.rows, *rows))

    def introduction(self) -> str:
        """Say what was done."""
        train, valid, test = self.parts.values()
        n_queries, n_docs = (
            sum(getattr(part, name) for part in self.parts.values()) for name in ("n_queries", "n_docs")
        )
        return (
            f"Synthetic web search: {n_queries:,} queries, {n_docs:,} documents, {test.n_features} features. "
            f"The rankers saw {train.n_queries} queries in training and {valid.n_queries} to know when to stop; "
            f"they are judged on {test.n_queries} others."
        )

    def conclusion(self) -> str:
        """Say which ranker is best, by how much, and how sure that is."""
        _, (best, *_), close, beaten = self.verdict
        mean, floor, ceiling = (
            self.comparison.mean[HEADLINE][best],
            self.floor.mean[HEADLINE],
            self.ceiling.mean[HEADLINE],
        )
        text = f"{best} ranks best: {HEADLINE} {mean:.3f}"
        if close:
            text = f"{best} has the highest {HEADLINE}, {mean:.3f}, but not by more than chance over {listed(close)}"
        if beaten:
            text += f". {'It is significantly better than' if close else 'That is significantly better than'} "
            text += f"{listed(beaten)} (against {beaten[0]}: {self.gain(best, beaten[0])})"
        return (
            f"{text}. It goes {(mean - floor) / (ceiling - floor):.0%} of the way from a random order to the best "
            "possible one."
        )

    def beside(self) -> str:
        """Say what the search's ranker is worth beside the best of the others."""
        best = self.ranked[0]
        return self.search.conclusion(best, self.comparison.mean[HEADLINE][best])

    def to_dict(self) -> Json:
        """Give everything as plain data that JSON can hold."""
        return {
            "made_by": "rankwise demo",
            "version": __version__,
            "queries": {name: part.n_queries for name, part in self.parts.items()},
            "documents": {name: part.n_docs for name, part in self.parts.items()},
            "ranked": self.ranked,
            "close_to_the_best": self.close(),
            "rounds": {name: int(np.argmax(curve)) + 1 for name, curve in self.curves.items()},
            "curves": self.curves,
            "random_order": self.floor.to_dict(),
            "best_possible": self.ceiling.to_dict(),
            "comparison": self.comparison.to_dict(),
            "search": self.search.to_dict(),
            "folder": str(self.folder),
            "files": self.files,
        }
