"""Evaluation with few human labels and a judge: runs, qrels and the judge's grades, joined by query and document.

Whole queries with human labels are used by PPI++, sampled documents by Horvitz and Thompson; see ``statistics/``.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.arrays import Array, Ids, Offsets, offsets_of
from rankwise.data.tables.polars import as_polars
from rankwise.evaluation import trec
from rankwise.evaluation.systems import Evaluated, Run, Scored, on_data, scores_of
from rankwise.metrics import Metric, MetricLike
from rankwise.metrics import metrics as find_metrics
from rankwise.metrics.base import RankMetric
from rankwise.metrics.judged import Judged
from rankwise.rankers.schema import is_frame
from rankwise.statistics import significance, tables
from rankwise.statistics.judged import JudgedEvaluation
from rankwise.statistics.prediction_powered import JudgedMean, prediction_powered
from rankwise.statistics.sampled import discounted, sampled_difference

FEWEST, FEW = 10, 20
"""Labelled queries below which there is no interval, and below which there is a warning."""
PROBABILITY = "probability"
_KEYS = ["query", "document"]


class Joined(NamedTuple):
    """(n_systems, n_docs) scores; grades of the judge and of humans, and probabilities: NaN where there is none."""

    query_ids: Ids
    document_ids: Ids
    offsets: Offsets
    scores: Array
    judge: Array
    human: Array
    probabilities: Array
    notes: tuple[str, ...] = ()

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """(n_queries,) whether a query has human labels."""
        return np.logical_or.reduceat(~np.isnan(self.human), self.offsets[:-1])

    def values(self, metric: Metric, grades: Array) -> Array:
        """(n_systems, n_queries) values of a metric; documents without a grade are not relevant."""
        labels, has_grade = np.nan_to_num(grades), (~np.isnan(grades)).astype(np.int8)
        return np.array([metric(scores, labels, self.offsets, has_grade) for scores in self.scores])


def evaluate_judged(
    systems: Mapping[str, Scored],
    data: Evaluated,
    metrics: MetricLike | Iterable[MetricLike],
    judge: Run | ArrayLike,
    *,
    pairs: Sequence[tuple[str, str]] = (),
    sampled: str | None = None,
    confidence: float = 0.95,
    correction: str = "none",
) -> JudgedEvaluation:
    """Estimate the mean of each system, or the difference of each of ``pairs``, from human labels and a judge."""
    chosen = [of_every_query(one) for one in find_metrics(metrics)]
    check.number("confidence", confidence, least=0.0, most=1.0, open_ends=True)
    joined, names = join(systems, data, judge, sampled), list(systems)
    titles: list[tuple[str, str | None]] = [*pairs] or [(name, None) for name in names]
    signs = np.zeros((len(titles), len(names)))
    for row, (system, against) in zip(signs, titles, strict=True):
        row[names.index(system)] = 1.0
        if against is not None:
            row[names.index(against)] = -1.0
    estimate, notes = (_by_query, _require_labels(joined, chosen[0])) if sampled is None else (_by_document, ())
    means = []
    for metric in chosen:
        title, estimates = estimate(joined, metric, signs)
        p = np.array([one.test().p for one in estimates])
        adjusted = significance.holm(p) if correction == "holm" else p
        for (system, against), one, level in zip(titles, estimates, adjusted.tolist(), strict=True):
            named = one._replace(metric=title, system=system, against=against, p=None if against is None else level)
            low, high = one.test().interval(confidence)
            fixed_low, fixed_high = one.test(fixed=True).interval(confidence)
            means.append(named._replace(low=low, high=high, fixed_low=fixed_low, fixed_high=fixed_high))
    unit, n_queries = "query" if sampled is None else "document", joined.offsets.size - 1
    notes = (*notes, *joined.notes, "A query without relevant documents counts 0.")
    return JudgedEvaluation(means=tuple(means), unit=unit, n_queries=n_queries, confidence=confidence, notes=notes)


def of_every_query(metric: Metric) -> Metric:
    """Return a metric that scores queries without relevant documents: which they are is not known without labels."""
    if isinstance(metric, RankMetric) and metric.label is not None:
        raise check.error("a judge grades relevance alone", got=str(metric), hint="leave label out")
    skips = isinstance(metric, RankMetric) and not metric.of_every_query and metric.empty == "skip"
    return replace(cast("RankMetric", metric), empty=0) if skips else metric


def _by_query(joined: Joined, metric: Metric, signs: Array) -> tuple[str, list[JudgedMean]]:
    labelled = joined.labelled
    human, judge = joined.values(metric, joined.human), joined.values(metric, joined.judge)
    if np.isnan(human[:, labelled]).any():
        raise check.error("with a judge every query must count", got=f"labelled queries that {metric} skips")
    human, judge = signs @ np.where(labelled, human, 0.0), signs @ np.nan_to_num(judge)
    pairs = zip(human, judge, strict=True)
    return str(metric), [prediction_powered(y[labelled], f[labelled], f[~labelled]) for y, f in pairs]


def _by_document(joined: Joined, metric: Metric, signs: Array) -> tuple[str, list[JudgedMean]]:
    grades, offsets = (np.nan_to_num(joined.human), np.nan_to_num(joined.judge)), joined.offsets
    title, discounts, human, judge = discounted(metric, joined.scores, *grades, offsets)
    drawn = human, judge, joined.judge, joined.probabilities, offsets
    return title, [sampled_difference(one, *drawn) for one in signs @ discounts]


def _require_labels(joined: Joined, metric: Metric) -> tuple[str, ...]:
    """Check how many queries have human labels, and return what is assumed of them."""
    labelled = joined.labelled
    n = int(labelled.sum())
    if n == labelled.size:
        hint = "leave `judge` out, or add queries that the judge alone has graded"
        raise check.error("every query has human labels, and the judge can add nothing", got=n, hint=hint)
    if n < FEWEST:
        what = f"with a judge there must be human labels of at least {FEWEST} queries"
        raise check.error(what, got=n, hint="label more, drawn at random, or sample documents with rw.judging.plan")
    if n < FEW:
        warnings.warn(f"only {n} queries have human labels: intervals hold from about {FEW} on", stacklevel=4)
    cutoff = getattr(metric, "cutoff", None)
    share = float(joined.values(Judged(cutoff=cutoff), joined.human)[:, labelled].mean())
    note = f"Humans judged {share:.0%} of the first {cutoff or 'ranks'} of labelled queries; the rest is not relevant."
    return "The queries with human labels are taken to be drawn at random.", *[note] * (share < 1.0)


def join(systems: Mapping[str, Scored], data: Evaluated, judge: Run | ArrayLike, sampled: str | None = None) -> Joined:
    """Join systems with human labels and a judge: runs and qrels by ids, or scores on data by rows.

    ``judge`` is qrels, or the name of a column of the table of qrels; for a data set, a grade per document.
    """
    if isinstance(data, str | Path | Mapping) or (is_frame(data) and trec.is_qrels(data)):
        table = table_of(data)
        if isinstance(judge, str) and judge in table.columns:
            judge = table.select(*_KEYS, grade=judge).drop_nulls("grade")
        return join_runs(cast("Mapping[str, Run]", systems), cast("Run", judge), judgements(table, sampled))
    lists = on_data(next(iter(systems.values())), data)[1]
    if sampled is not None or (lists.weights is not None and np.ptp(lists.weights) > 0.0):
        got = "query weights" if sampled is None else f"sampled={sampled!r} for {lists!r}"
        raise check.error("a judge goes with queries of equal weight, and sampled documents with runs", got=got)
    scores = np.array([check.scores(scores_of(one, lists), lists.offsets) for one in systems.values()])
    grades = check.labels(cast("ArrayLike", judge), lists.offsets, lists.query_ids)
    human = lists.labels if lists.judged is None else np.where(lists.judged == 1, lists.labels, np.nan)
    ids = np.arange(lists.n_queries), np.arange(lists.n_docs)
    return Joined(*ids, lists.offsets, scores, grades, human, np.full(lists.n_docs, np.nan))


def join_runs(runs: Mapping[str, Run], judge: Run, human: pl.DataFrame | None = None) -> Joined:
    """Join runs with the grades of a judge and, as :func:`judgements` returns them, of humans.

    Queries are those of the judge that every run has. Documents are ordered as in trec_eval, by id, descending.
    """
    grades, frames = trec.qrels_frame(table_of(judge)), [trec.run_frame(run) for run in runs.values()]
    human = grades.clear() if human is None else human
    if missing := human.join(grades, on="query", how="anti")["query"].n_unique():
        hint = "let the judge grade them too: its errors are seen where both have grades"
        raise check.error("the judge must have graded the queries of human labels", got=f"{missing} not", hint=hint)
    graded = grades.select("query").unique()
    queries = graded
    for name, frame in zip(runs, frames, strict=True):
        queries = queries.join(frame, on="query", how="semi")
        if queries.is_empty():
            hint = "check that both belong to the same topics and spell their ids alike"
            raise check.error("runs and judge have no query in common", where=f"run {name!r}", hint=hint)
    rows = pl.concat([one.select(_KEYS) for one in (grades, human, *frames)]).unique()
    rows = rows.join(queries, on="query", how="semi").sort(_KEYS, descending=[False, True])
    columns = [(one, "score") for one in frames] + [(grades, "grade"), (human, "grade")]
    columns += [(human, PROBABILITY)] if PROBABILITY in human.columns else []
    values = np.full((len(frames) + 3, rows.height), np.nan)
    for row, (frame, name) in zip(values, columns, strict=False):
        column = frame.select(*_KEYS, pl.col(name).cast(pl.Float32) if name == "score" else pl.col(name).clip(0))
        row[:] = rows.join(column, on=_KEYS, how="left", maintain_order="left")[name].fill_null(np.nan)
    scores, (graded_by_judge, graded_by_human, chances) = values[:-3], values[-3:]
    ends = offsets_of(rows["query"].rle().struct.field("len").to_numpy())
    left_out = tables.count(graded.height - queries.height, "query", "queries")
    return Joined(
        np.array(rows["query"][ends[:-1]].to_list(), np.str_), np.array(rows["document"].to_list(), np.str_), ends,
        np.where(np.isnan(scores), -np.inf, scores), graded_by_judge, graded_by_human, chances,
        (f"Left out: {left_out} of the judge that not every run has.",) * (queries.height < graded.height),
    )  # fmt: skip


def judgements(source: Run, sampled: str | None = None) -> pl.DataFrame:
    """Read human grades: columns query, document, grade and, of a sample, the probability in the column ``sampled``."""
    table = table_of(source)
    if sampled is None:
        if PROBABILITY in table.columns:
            hint = "`set sampled='probability'`, or drop the column"
            raise check.error("grades of sampled documents are not those of whole queries", hint=hint)
        return trec.qrels_frame(table.drop_nulls("grade"))
    if sampled not in table.columns:
        what = "the table of judged documents needs the probability with which each was drawn"
        hint = "keep the column that rw.judging.plan wrote: without it nothing can be estimated"
        raise check.error(what, got=f"columns {', '.join(table.columns)}", hint=hint)
    if missing := table["grade"].null_count():
        got = f"{missing:,} of {table.height:,} without a grade"
        raise check.error("every document of a sample must be judged", got=got, hint="those left out would be a bias")
    chances = table[sampled].cast(pl.Float64, strict=False).fill_null(0.0)
    if wrong := int((~chances.is_between(0.0, 1.0, closed="right")).sum()):
        raise check.error("probabilities must be above 0 and at most 1", got=f"{wrong:,} that are not")
    return trec.qrels_frame(table).with_columns(chances.alias(PROBABILITY))


def table_of(source: Run) -> pl.DataFrame:
    """Read qrels in any form, also .csv; a table keeps its further columns."""
    if isinstance(source, str | Path) and Path(source).suffix.lower() == ".csv":
        texts = dict.fromkeys(_KEYS, pl.String)
        table = pl.read_csv(check.readable(source), schema_overrides=texts, infer_schema_length=None)
        return table.with_columns(pl.col(pl.String).str.replace(r"^'([=+\-@\t\r])", "$1"))  # as they are written
    return as_polars(source)[0].collect() if is_frame(source) else trec.qrels_frame(source)
