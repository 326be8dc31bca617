"""Which documents to judge so that a difference of systems becomes known: a sample with its probabilities."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankwise import Stream, check
from rankwise.base import tables
from rankwise.base.arrays import Array
from rankwise.base.stream import hashed_ids
from rankwise.check.docstrings import plain_signature
from rankwise.check.parameters import AtLeast, Option
from rankwise.evaluation import Run, trec
from rankwise.metrics import MetricLike
from rankwise.metrics import metric as find_metric
from rankwise.statistics import Result
from rankwise.wings.judging.evaluation import (
    PROBABILITY,
    JudgedRuns,
    join_runs,
    of_every_query,
    read_judgements,
    table_of,
)
from rankwise.wings.judging.sampled import discounted, discounts_of, judge_errors


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Plan(Result):
    """Documents to judge, with the probability that each of them had; made by :func:`plan`."""

    documents: pl.DataFrame
    """Columns query, document, grade (null: to be judged) and probability (1: judged before), or importance: without a
    judge, the most informative documents come first, and those judged before are left out."""
    metric: str
    candidates: int
    """Documents that the systems rank differently: all others need no judgement."""
    judged: int
    """Documents that were judged before."""
    spreads: Mapping[str, float]
    """The judge's grade -> spread of its errors, from the documents judged before; 1 where nothing is known."""

    def to_frame(self) -> pl.DataFrame:
        """Return the documents; fill in the grades, and keep the probabilities: estimates need them."""
        return self.documents

    def write(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the documents to a .csv file."""
        return self.save(path, force=force)

    def table(self) -> tables.Table:
        """Return the spread of the judge's errors by its grade, with the numbers of documents below."""
        if not self.spreads:
            counts = (self.documents.height, self.documents["query"].n_unique(), self.candidates, self.judged)
            header: tuple[str, ...] = ("to judge", "queries", "ranked differently", "judged before")
            return tables.Table(header=header, rows=(tuple(f"{count:,}" for count in counts),), align="rrrr")
        rows = tuple((grade, tables.number(spread, 2)) for grade, spread in self.spreads.items())
        header = ("the judge's grade", "spread of its errors")
        return tables.Table(header=header, rows=rows, align="rr", notes=tuple(self.sentence.splitlines()))

    def to_text(self, **_: Any) -> str:
        """Return the sentence."""
        return self.sentence

    @property
    def sentence(self) -> str:
        """How many documents are to be judged, and what is known of the judge."""
        new = self.documents.filter(pl.col("grade").is_null())
        queries = tables.count(new["query"].n_unique(), "query", "queries")
        first = "" if self.spreads else ", the most informative first"
        spreads = ", ".join(f"{grade}: {spread:.2f}" for grade, spread in self.spreads.items())
        return (
            f"{new.height:,} documents of {queries} to be judged{first}, of {self.candidates:,} that the systems rank "
            f"differently by {self.metric}.\n{self.judged:,} were judged before."
        ) + f" Spread of the judge's errors by its grade: {spreads}." * bool(spreads)


@plain_signature
def plan(
    systems: Mapping[str, Run],
    *,
    judge: Run | None = None,
    judgements: Annotated[int, AtLeast(1), "Number of documents to draw."] = 500,
    metric: Annotated[
        MetricLike, "Metric of the comparison: dcg@10, precision@10, rbp or ndcg@10.", Option(metavar="METRIC")
    ] = "dcg@10",
    seed: Annotated[int, AtLeast(0), "Seed of every draw.", Option(group="Running")] = 0,
    previous: Annotated[
        Run | None, "An earlier plan with its grades; without a judge, any qrels.", Option(metavar="FILE")
    ] = None,
) -> Plan:
    """Draw the documents whose human judgements tell most about the difference of systems.

    The probability of a document is proportional to the difference of its discounts (their standard deviation, of more
    than two systems) times the spread of the judge's errors at its grade. Documents that all systems rank alike are
    never drawn. ``systems`` are runs and ``judge`` qrels: files, tables or dictionaries. Exactly ``judgements``
    documents are drawn; the same seed and ids give the same documents on any machine.

    Begin with a pilot of about 100. Its table, with grades, is ``previous`` for the second plan, which knows the spread
    and adds ``judgements`` documents. Those judged before stay in the table with probability 1: they stand for
    themselves, and only what is drawn now for the rest. So let the last batch be the largest. ``rw.compare`` with
    ``sampled="probability"`` estimates from the table.

    Without a judge nothing is drawn: the table has the documents that are not in ``previous``, any qrels, and that the
    systems have at different places of their first ones, up to the metric's cutoff; those whose discounts differ most
    come first. Their grades, added to the qrels, fill the holes of the comparison.

    >>> import rankwise as rw
    >>> new, old = {"q": {"a": 3.0, "b": 2.0, "c": 1.0}}, {"q": {"a": 3.0, "c": 2.0, "b": 1.0}}
    >>> drawn = rw.judging.plan({"new": new, "old": old}, judge={"q": {"a": 2, "b": 1, "c": 0}}, judgements=1)
    >>> drawn.to_frame().select("document", "probability").rows()  # a is ranked alike
    [('b', 0.5)]
    >>> plan({"new": new, "old": old}, previous={"q": {"b": 1}}).to_frame().select("document", "grade").rows()
    [('c', None)]
    """
    check.integer("judgements", judgements, least=1)
    if len(systems) < 2:
        raise check.error("a plan needs at least two systems by name", got=len(systems))
    if judge is None:
        return _holes(systems, previous, judgements, metric, seed)
    before = None if previous is None else read_judgements(previous, PROBABILITY)
    joined = join_runs(systems, judge, before)
    grades = np.nan_to_num(joined.human), np.nan_to_num(joined.judge)
    sums = discounted(of_every_query(find_metric(metric)), joined.scores, *grades, joined.offsets)
    importance = importance_of(sums.discounts)
    judged_before = ~np.isnan(joined.human)
    levels, places, _, spreads = judge_errors(joined.judge, sums.human - sums.judge, judged_before & (importance > 0.0))
    rows = np.flatnonzero((importance > 0.0) & ~judged_before)
    number = 0 if before is None else before.height  # a second batch must not repeat the draws of the first
    queries, keys = _keys(joined, rows, seed, number)
    # Documents of a query are neighbours, so that a systematic sample has some of as many queries as possible.
    rows = rows[np.lexsort((keys, hashed_ids(joined.query_ids)[queries[rows]]))]
    chances = inclusion(importance[rows] * spreads[places[rows]], judgements)
    drawn = systematic(chances, float(Stream(seed).child("plan", number).per_query(1)[0, 0]))
    ids = {"query": joined.query_ids[queries[rows[drawn]]], "document": joined.document_ids[rows[drawn]]}
    new = pl.DataFrame(ids | {PROBABILITY: chances[drawn]}).sort("query", "document")
    documents = new.select("query", "document", pl.lit(None, pl.Float64).alias("grade"), PROBABILITY)
    if before is not None:
        documents = pl.concat([before.with_columns(pl.lit(1.0).alias(PROBABILITY)), documents])
    by_grade = {"none" if grade < 0.0 else f"{grade:g}": float(one) for grade, one in zip(levels, spreads, strict=True)}
    candidates = int((importance > 0.0).sum())
    return Plan(documents=documents, metric=sums.title, candidates=candidates, judged=number, spreads=by_grade)


def importance_of(discounts: Array) -> Array:
    """Return how far the systems' discounts of each document are apart: exactly 0 where they are equal."""
    return np.where(np.ptp(discounts, axis=0) > 0.0, discounts.std(axis=0), 0.0)


def _keys(joined: JudgedRuns, rows: NDArray[np.int64], seed: int, number: int) -> tuple[NDArray[np.int64], Array]:
    """Return the query of each document, and a random number for each of ``rows``, by its ids."""
    if not rows.size:
        raise check.error("there is no document to judge: the systems rank all alike, or all are judged")
    queries = np.repeat(np.arange(joined.query_ids.size), np.diff(joined.offsets))
    names = np.char.add(np.char.add(joined.query_ids[queries[rows]], "\t"), joined.document_ids[rows])
    return queries, Stream(seed, query_ids=names).child("documents", number).per_query(rows.size)[:, 0]


def _holes(systems: Mapping[str, Run], previous: Run | None, judgements: int, metric: MetricLike, seed: int) -> Plan:
    """Return the unjudged documents whose discounts differ most, equal ones in random order."""
    before = None
    if previous is not None:
        before = trec.qrels_frame(table_of(previous).drop_nulls("grade")).select("query", "document", "grade")
    joined, measured = join_runs(systems, None, before), of_every_query(find_metric(metric))
    importance = importance_of(discounts_of(measured, joined.scores, joined.offsets))
    judged = ~np.isnan(joined.human)
    rows = np.flatnonzero((importance > 0.0) & ~judged)
    queries, keys = _keys(joined, rows, seed, 0)
    rows = rows[np.lexsort((keys, -importance[rows]))[:judgements]]
    ids = {"query": joined.query_ids[queries[rows]], "document": joined.document_ids[rows]}
    documents = pl.DataFrame(
        ids | {"grade": None, "importance": importance[rows]}, schema_overrides={"grade": pl.Float64}
    )
    counts = {"candidates": int((importance > 0.0).sum()), "judged": int(((importance > 0.0) & judged).sum())}
    return Plan(documents=documents, metric=str(measured), spreads={}, **counts)


def inclusion(sizes: Array, count: int) -> Array:
    """Return probabilities of at most 1 that are proportional to ``sizes`` below 1 and add up to ``count``.

    >>> inclusion(np.array([6.0, 2.0, 1.0, 1.0]), 2)
    array([1.  , 0.5 , 0.25, 0.25])
    """
    if count >= sizes.size:
        return np.ones(sizes.size)
    descending = np.sort(sizes)[::-1]
    scales = (count - np.arange(sizes.size)) / np.cumsum(descending[::-1])[::-1]  # where so many have probability 1
    return np.asarray(np.minimum(scales[np.argmax(scales * descending <= 1.0)] * sizes, 1.0))


def systematic(chances: Array, start: float) -> NDArray[np.int64]:
    """Draw a sample of fixed size: where the running sum of probabilities passes start, start + 1 and so on.

    >>> systematic(np.array([1.0, 0.5, 0.25, 0.25]), 0.4)
    array([0, 1])
    """
    sums = np.cumsum(chances)
    ends = np.floor(sums * (np.rint(sums[-1]) / sums[-1]) + (1.0 - start))
    return np.flatnonzero(np.diff(ends, prepend=0.0))
