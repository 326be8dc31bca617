"""Documents, queries, runs and judgements as a data set to train on."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rankwise import RankingDataset, check
from rankwise.evaluation import Run, qrels_frame, run_frame
from rankwise.wings.text import features as of_texts
from rankwise.wings.text.documents import Documents
from rankwise.wings.text.source import queries_of


def dataset(
    documents: Documents,
    queries: Any,
    runs: Mapping[str, Run],
    qrels: Run | None = None,
    *,
    features: Sequence[str] | None = None,
    depth: int = 100,
    unjudged: str = "marked",
) -> RankingDataset:
    """Build a data set: the candidates of each query with named features, labels and what was judged.

    Candidates are the first ``depth`` documents of every run together. A candidate that nobody judged has label 0 and
    ``judged`` 0; with ``unjudged="irrelevant"``, for judgements that are complete, all are judged. A relevant document
    that no run found is not there, and counts where runs are evaluated by the qrels. Queries without candidates, or
    not in the qrels, are left out. Without ``qrels`` nothing is judged.

    >>> pages = Documents({"mean": "mean of an array", "median": "median of an array", "sum": "sum"}, fields=("text",))
    >>> queries = {"q1": "median of array", "q2": "array sum"}
    >>> qrels = {"q1": {"median": 2}, "q2": {"sum": 1}}
    >>> data = dataset(pages, queries, {"bm25": pages.search(queries)}, qrels)
    >>> data
    RankingDataset(2 queries, 5 documents, 15 features, labels 0 to 2)
    >>> data.feature_names[:3], data.judged.tolist()
    (('bm25(text)', 'lm(text)', 'tfidf(text)'), [0, 1, 0, 0, 1])
    """
    check.integer("depth", depth, least=1)
    if not isinstance(runs, Mapping) or not runs:
        hint = 'pass a dictionary from names to runs, such as {"bm25": documents.search(queries)}'
        raise check.error("candidates come from runs by name", got=type(runs).__name__, hint=hint)
    check.choice("unjudged", unjudged, ["marked", "irrelevant"])
    names = of_texts.checked_names(features, documents, list(runs))
    ids, texts = queries_of(queries)
    judged = None if qrels is None else qrels_frame(qrels)
    found = {name: run_frame(run) for name, run in runs.items()}
    retrieved = {one for run in found.values() for one in run["query"].unique()}
    wanted = retrieved if judged is None else retrieved & {*judged["query"].unique()}
    kept = [place for place, one in enumerate(ids) if one in wanted]
    if not kept:
        got = f"{len(ids)} queries, {len(retrieved)} in the runs, {len(wanted)} of these in the qrels"
        hint = "check that ids are spelt alike"
        raise check.error("queries, runs and qrels have no query in common", got=got, hint=hint)
    chosen, matrix = of_texts.table(documents, {ids[place]: texts[place] for place in kept}, found, depth, names)
    labels, is_judged = _judgements(chosen, documents, judged)
    return RankingDataset(
        matrix,
        labels,
        chosen.offsets,
        feature_names=names,
        query_ids=np.array(chosen.queries, np.str_),
        document_ids=documents.ids[chosen.places].astype(np.str_),
        judged=is_judged if unjudged == "marked" else None,
        feature_origin=of_texts.origin(documents),
    )


def _judgements(chosen: of_texts.Candidates, documents: Documents, qrels: Any) -> tuple[Any, Any]:
    """Return labels, and what was judged: as :func:`rankwise.trec.join` does."""
    if qrels is None:
        return np.zeros(chosen.places.size), np.zeros(chosen.places.size, np.int8)
    import polars as pl

    query = np.repeat(np.array(chosen.queries, np.str_), np.diff(chosen.offsets))
    pairs = pl.DataFrame({"query": query, "document": documents.ids[chosen.places]})
    grades = pairs.join(qrels, on=["query", "document"], how="left", maintain_order="left")["grade"].to_numpy()
    grades = grades.astype(np.float64)
    judged = np.where(np.isnan(grades), 0, np.where(grades < 0, -1, 1)).astype(np.int8)
    return np.nan_to_num(grades).clip(0.0), judged
