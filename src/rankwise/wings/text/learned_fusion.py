"""A ranker of what several runs say about a document."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from rankwise import LinearRanker, RankingDataset, check, load
from rankwise.evaluation import Run, qrels_frame
from rankwise.wings.text.fusion import Found

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class LearnedFusion:
    """A trained ranker, whose features are the scaled scores of runs."""

    ranker: Any

    def fuse(self, runs: Mapping[str, Run]) -> "pl.DataFrame":
        """Fuse runs of new queries, which have the same names."""
        found = Found.of(runs)
        return found.run(self.ranker.predict(_data(found, np.zeros(found.pairs.height)))[:, None], np.ones(1))

    def save(self, folder: str | Path, *, force: bool = False) -> Path:
        """Write the ranker to a folder, which ``rankwise.load`` reads too; no pickle."""
        return Path(self.ranker.save(folder, force=force))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read what :meth:`save` wrote."""
        return cls(load(folder))


def learn_fusion(runs: Mapping[str, Run], qrels: Run, ranker: Any = None) -> LearnedFusion:
    """Train a ranker on what runs say about documents: by default a :class:`rankwise.LinearRanker`.

    Its features are the scores of each run, scaled by min-max within the query, 0 where a run lacks the document;
    documents that nobody judged count as not relevant. New runs have to be as deep as those of the training. Look at
    :func:`tune_fusion` first, which has fewer weights.

    >>> import rankwise as rw
    >>> runs = {"one": {"q": {"a": 3.0, "b": 2.0}}, "two": {"q": {"b": 0.9, "c": 0.5, "a": 0.1}}}
    >>> learned = rw.text.learn_fusion(runs, {"q": {"b": 1}}, rw.LinearRanker(l2=0.1, threads=1))
    >>> learned.fuse(runs)["document"][0]
    'b'
    """
    found, judged = Found.of(runs), qrels_frame(qrels)
    pairs = found.pairs.join(judged, on=["query", "document"], how="left", maintain_order="left")
    labels = pairs["grade"].fill_null(0.0).clip(0.0).to_numpy()
    data = _data(found, labels)
    known = np.isin(np.asarray(data.query_ids), judged["query"].unique().to_numpy().astype(np.str_))
    if not known.any():
        hint = "check that both spell their ids alike"
        raise check.error("runs and qrels have no query in common", got=f"{known.size} queries", hint=hint)
    return LearnedFusion((LinearRanker() if ranker is None else ranker).fit(data.take(known)))


def _data(found: Found, labels: Any) -> RankingDataset:
    return RankingDataset(
        found.scaled("min-max").astype(np.float32),
        labels,
        found.offsets,
        feature_names=found.names,
        query_ids=found.pairs["query"].to_numpy()[found.offsets[:-1]].astype(np.str_),
        document_ids=found.pairs["document"].to_numpy().astype(np.str_),
    )
