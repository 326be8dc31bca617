"""How alike are the rankings of two systems? Similarities of every query, with means and intervals."""

import itertools
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankwise import check
from rankwise.base.arrays import Array, Ids, Offsets, index_of, offsets_of
from rankwise.evaluation import Evaluated, Run, Scored, on_data, run_frame, scores_of
from rankwise.statistics import Evaluation
from rankwise.wings.similarity.rank_similarity import SimilarityLike, similarity_measures

DEFAULT = ("rbo", "overlap@10", "tau", "tau_ap")
Ranks: TypeAlias = Scored | Evaluation
"""Scores, a model, a TREC run, or an evaluation that knows its documents."""


def similarity(
    one: Ranks,
    other: Ranks,
    data: Evaluated | None = None,
    measures: SimilarityLike | Iterable[SimilarityLike] | None = None,
    *,
    seed: int = 0,
    level: float = 0.95,
    resamples: int = 2000,
) -> Evaluation:
    """Measure how alike two rankings of each query are; relevance does not matter.

    Rankings are whatever :func:`evaluate` takes, of the same ``data``; TREC runs or evaluations without ``data``.
    Measures are ``rbo(p=0.9)`` (:class:`RBO`), ``overlap@10`` (:class:`Overlap`), ``tau`` (:class:`Tau`) and ``tau_ap``
    (:class:`TauAP`), by default all that are defined. ``tau`` and ``tau_ap`` skip a query whose rankings hold other
    documents, and all measures one that only one of them ranks. With ties a value is the mean over all orders of tied
    documents, so that a ranking with ties is less than 1 like itself; ``tau`` is Kendall's τ_b.

    >>> run, changed = {"q": {"a": 3.0, "b": 2.0, "c": 1.0}}, {"q": {"b": 3.0, "a": 2.0, "c": 1.0}}
    >>> similarity(run, changed, measures=["rbo", "overlap@1", "tau"])["rbo"].round(4)
    array([0.9])
    """
    wanted = similarity_measures(DEFAULT if measures is None else measures)
    lists = _aligned(_lists_of(one, data), _lists_of(other, data))
    mine, theirs = lists.scores
    values = {name: measure(mine, theirs, lists.offsets) for name, measure in wanted.items()}
    undefined = [name for name, column in values.items() if np.isnan(column).all()]
    if undefined and (measures is not None or len(undefined) == len(values)):
        what = f"{undefined[0]} is defined for no query of these rankings"
        same = "rank the same documents, or use rbo or overlap@10"
        hint = same if undefined[0].startswith("tau") else "rank the same queries"
        raise check.error(what, got=f"{lists.query_ids.size:,} queries", hint=hint)
    kept = {name: column for name, column in values.items() if name not in undefined}
    return Evaluation(kept, lists.query_ids, lists.weights, seed=seed, level=level, resamples=resamples)


def similarities(
    evaluations: Mapping[str, Evaluation], measures: SimilarityLike | Iterable[SimilarityLike] | None = None
) -> dict[tuple[str, str], Evaluation]:
    """Measure how alike the rankings of each two systems are."""
    pairs = itertools.combinations(evaluations.items(), 2)
    settings = next(iter(evaluations.values()))
    how = {"seed": settings.seed, "resamples": settings.resamples}
    return {
        (name, other): similarity(mine, theirs, None, measures, level=settings.level, **how)
        for (name, mine), (other, theirs) in pairs
    }


class _Lists(NamedTuple):
    """Queries with one or two rows of scores of their documents, −inf where a ranking does not hold one."""

    query_ids: Ids
    scores: NDArray[np.float64]
    offsets: Offsets
    document_ids: Ids | None = None
    weights: Array | None = None

    def frame(self) -> pl.DataFrame:
        """One row per document that is held; ids are text."""
        if self.document_ids is None:
            hint = "give the data document_ids, or rank the same data"
            raise check.error("rankings of other lists are matched by document ids", got="none", hint=hint)
        queries = np.repeat(self.query_ids, np.diff(self.offsets))
        columns = {"query": queries, "document": self.document_ids, "score": self.scores}
        texts = pl.col("query", "document").cast(pl.String)
        frame = pl.DataFrame(columns).with_columns(texts).filter(pl.col("score") > -np.inf)
        if frame.select("query", "document").is_duplicated().any():
            raise check.error("a document may stand only once under a query", hint="give each its own document_id")
        return frame


def _lists_of(ranks: Ranks, data: Evaluated | None) -> _Lists:
    if isinstance(ranks, Evaluation):
        if ranks.ranked is None:
            hint = "evaluate scores or runs; files of results keep values alone"
            raise check.error("the evaluation does not know its documents", got=repr(ranks.metrics), hint=hint)
        known = ranks.ranked
        return _Lists(ranks.query_ids, known.scores, known.offsets, known.document_ids, ranks.weights)
    if data is not None:
        system, lists = on_data(ranks, data)
        scores = check.scores(scores_of(system, lists), lists.offsets, lists.query_ids)
        ids = np.arange(lists.n_queries) if lists.query_ids is None else lists.query_ids
        return _Lists(ids, scores, lists.offsets, lists.document_ids, lists.weights)
    columns = set(getattr(ranks, "columns", ()))
    if not isinstance(ranks, str | Mapping) and not hasattr(ranks, "__fspath__") and "score" not in columns:
        hint = "pass data as the third argument, or TREC runs"
        raise check.error("scores and models need the data that they rank", got=type(ranks).__name__, hint=hint)
    frame = run_frame(cast("Run", ranks))
    sizes = frame.group_by("query", maintain_order=True).len()
    frame = sizes.select("query").join(frame, on="query", maintain_order="left_right")
    queries, documents = (np.array(frame[name].to_list(), np.str_) for name in ("query", "document"))
    offsets = offsets_of(sizes["len"].to_numpy())
    return _Lists(queries[offsets[:-1]], frame["score"].to_numpy(), offsets, documents)


def _aligned(one: _Lists, other: _Lists) -> _Lists:
    """Lay two rankings side by side: by their places where lists are the same, else by ids, over all documents."""
    same = np.array_equal(one.offsets, other.offsets) and np.array_equal(one.query_ids, other.query_ids)
    if same and _equal(one.document_ids, other.document_ids):
        return one._replace(scores=np.stack([one.scores, other.scores]))
    keys = ["query", "document"]
    joined = one.frame().join(other.frame(), on=keys, how="full", coalesce=True, suffix=" of other")
    mine = pl.Series(one.query_ids).cast(pl.String)
    theirs = pl.Series(other.query_ids).cast(pl.String)
    order = pl.DataFrame({"query": pl.concat([mine, theirs])}).unique(maintain_order=True)
    joined = order.join(joined, on="query", how="inner", maintain_order="left")
    sizes = joined.group_by("query", maintain_order=True).len()
    scores = joined.select(pl.col("score", "score of other").fill_null(-np.inf)).to_numpy().T
    ids = np.array(sizes["query"].to_list(), np.str_)
    weights = None
    if one.weights is not None:
        at = index_of(ids, np.array(mine.to_list(), np.str_))
        weights = np.where(at < 0, 1.0, one.weights[at])
    return _Lists(ids, np.ascontiguousarray(scores), offsets_of(sizes["len"].to_numpy()), weights=weights)


def _equal(one: Ids | None, other: Ids | None) -> bool:
    return one is other or (one is not None and other is not None and np.array_equal(one, other))
