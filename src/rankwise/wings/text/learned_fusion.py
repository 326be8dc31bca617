"""A ranker of what several runs, and texts, say about a document."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from rankwise import LightGBMRanker, LinearRanker, RankingDataset, bagged, check, load
from rankwise.evaluation import Run, qrels_frame, ranked
from rankwise.wings.text.dataset import dataset
from rankwise.wings.text.documents import Documents
from rankwise.wings.text.features import check_origin
from rankwise.wings.text.fusion import Found

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class LearnedFusion:
    """A trained ranker of the scores of runs, and of texts where it was trained with documents."""

    ranker: Any
    documents: Documents | None = None

    def __post_init__(self) -> None:
        """Check that the documents are read as those of the training."""
        if self.documents is not None:
            check_origin(self.documents, self.ranker)

    def fuse(self, runs: Mapping[str, Run], queries: Any = None) -> "pl.DataFrame":
        """Fuse runs of new queries, which have the same names; ``queries`` are their texts, beside documents."""
        import polars as pl

        data = _data(runs, self.documents, queries)
        query = np.repeat(np.asarray(data.query_ids), data.sizes)
        ids = {"query": query.astype(str), "document": np.asarray(data.document_ids)}
        return ranked(pl.DataFrame({**ids, "score": self.ranker.predict(data)}))

    def save(self, folder: str | Path, *, force: bool = False) -> Path:
        """Write the ranker to a folder, which ``rankwise.load`` reads too; no pickle. Save the documents apart."""
        return Path(self.ranker.save(folder, force=force))

    @classmethod
    def load(cls, folder: str | Path, documents: Documents | None = None) -> Self:
        """Read what :meth:`save` wrote."""
        return cls(load(folder), documents)


def learn_fusion(
    runs: Mapping[str, Run],
    qrels: Run,
    ranker: Any = None,
    *,
    documents: Documents | None = None,
    queries: Any = None,
) -> LearnedFusion:
    """Train a ranker on what runs say about documents.

    Its features are the scores of each run, scaled by min-max within the query, 0 where a run lacks the document. With
    ``documents``, and the texts of ``queries``, they are those of :func:`rankwise.text.dataset`. By default it is a
    :class:`rankwise.LinearRanker`, and with documents a bag of small trees. Documents that nobody judged count as not
    relevant. New runs have to be as deep as those of the training.

    >>> import rankwise as rw
    >>> runs = {"one": {"q": {"a": 3.0, "b": 2.0}}, "two": {"q": {"b": 0.9, "c": 0.5, "a": 0.1}}}
    >>> learned = rw.text.learn_fusion(runs, {"q": {"b": 1}}, rw.LinearRanker(l2=0.1, threads=1))
    >>> learned.fuse(runs)["document"][0]
    'b'
    """
    data = _data(runs, documents, queries, qrels)
    if ranker is None and documents is None:
        ranker = LinearRanker()
    elif ranker is None:
        ranker = bagged(LightGBMRanker("xendcg", learning_rate=0.05, leaves=7, rounds=300, patience=40))
    return LearnedFusion(ranker.fit(data), documents)


def _data(
    runs: Mapping[str, Run], documents: Documents | None, queries: Any, qrels: Run | None = None
) -> RankingDataset:
    if documents is not None:
        if queries is None:
            raise check.error("features of texts need queries", hint="pass texts by id as `queries=…`")
        return dataset(documents, queries, runs, qrels, unjudged="irrelevant")
    found = Found.of(runs)
    pairs, known = found.pairs, np.ones(found.offsets.size - 1, bool)
    labels = np.zeros(pairs.height)
    if qrels is not None:
        judged = qrels_frame(qrels)
        grades = pairs.join(judged, on=["query", "document"], how="left", maintain_order="left")["grade"]
        labels = grades.fill_null(0.0).clip(0.0).to_numpy()
        known = pairs["query"].is_in(judged["query"].unique().to_list()).to_numpy()[found.offsets[:-1]]
        if not known.any():
            hint = "check that both spell their ids alike"
            raise check.error("runs and qrels have no query in common", got=f"{known.size} queries", hint=hint)
    ids = {name: pairs[name].to_numpy().astype(np.str_) for name in ("query", "document")}
    data = RankingDataset(
        found.scaled("min-max").astype(np.float32),
        labels,
        found.offsets,
        feature_names=found.names,
        query_ids=ids["query"][found.offsets[:-1]],
        document_ids=ids["document"],
    )
    return data.take(known)
