"""Evaluation with few human labels and a judge: runs, qrels and the judge's grades, joined by query and document.

Whole queries with human labels are used by PPI++ (``prediction_powered``), sampled documents by Horvitz and Thompson
(``sampled``).
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
from rankwise.base import tables
from rankwise.base.arrays import Array, Ids, Offsets, offsets_of
from rankwise.data.io import DiskDataset, as_polars
from rankwise.evaluation import Evaluated, Run, Scored, on_data, scores_of, trec
from rankwise.metrics import Hit, Judged, Metric, MetricLike, Precision, RankMetric, Recall
from rankwise.metrics import metrics as find_metrics
from rankwise.metrics.gains import longest
from rankwise.models import is_frame
from rankwise.quality import leakage
from rankwise.statistics import significance
from rankwise.wings.judging.prediction_powered import NO_DIFFERENCE, JudgedMean, prediction_powered
from rankwise.wings.judging.result import JudgedEvaluation
from rankwise.wings.judging.sampled import discounted, sampled_difference

FEWEST, FEW = 10, 20
"""Labelled queries below which there is no interval, and below which there is a warning."""
PROBABILITY = "probability"
COUNTED = (Precision, Recall, Hit, Judged)
"""Metrics that count documents up to the cutoff, in whatever order."""
_KEYS = ["query", "document"]
_NONE = pl.DataFrame(schema={"query": pl.String, "document": pl.String, "grade": pl.Float64})


class JudgedRuns(NamedTuple):
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
    def copies(self) -> NDArray[np.int64]:
        """(n_queries,) the number of each query among those with other documents or other scores.

        Where documents are named by their place in a list, ids say nothing, and the judge's grades must agree, too.
        """
        columns = {"document": self.document_ids, **{str(at): row for at, row in enumerate(self.scores)}}
        if np.unique(self.document_ids).size <= np.diff(self.offsets).max(initial=0):
            columns["grade"] = self.judge
        hashes = pl.DataFrame(columns).hash_rows().to_numpy()
        return np.unique(np.add.reduceat(hashes, self.offsets[:-1]), return_inverse=True)[1]

    def lists(self, metric: Metric) -> Array:
        """(n_systems, n_docs) numbers that are equal where a metric is equal for two systems, whatever the labels are.

        A document's number is of the ranks that it shares with tied ones. Beyond the cutoff all have the same, and
        within it where a metric counts documents alone.
        """
        if not isinstance(metric, RankMetric):
            return self.scores  # a function may read anything in them
        sizes = np.diff(self.offsets)
        query = np.repeat(np.arange(sizes.size), sizes)
        ranks = np.arange(query.size) - np.repeat(self.offsets[:-1], sizes)
        cutoff = metric.cutoff or longest(self.offsets) + 1
        out = np.empty_like(self.scores)
        for row, scores in zip(out, self.scores, strict=True):
            order = np.lexsort((-scores, query))
            descending = scores[order]
            new = np.append(True, (np.diff(query) != 0) | (descending[1:] != descending[:-1]) | (metric.ties == "row"))
            starts = np.flatnonzero(new)
            group = np.cumsum(new) - 1
            first, last = ranks[starts][group], ranks[np.append(starts[1:], query.size) - 1][group]
            within = (last < cutoff) & isinstance(metric, COUNTED)
            beyond = (first >= cutoff) | (descending == -np.inf)
            row[order] = np.where(beyond, -1.0, np.where(within, 0.0, first * (sizes.max() + 1.0) + last + 1.0))
        return out

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
    level: float = 0.95,
    correction: str = "none",
) -> JudgedEvaluation:
    """Estimate the mean of each system, or the difference of each of ``pairs``, from human labels and a judge."""
    chosen = [of_every_query(one) for one in find_metrics(metrics)]
    check.number("level", level, least=0.0, most=1.0, open_ends=True)
    joined, names = join(systems, data, judge, sampled), list(systems)
    titles, signs = contrasts(names, pairs)
    estimate, notes = (by_query, require_labels(joined, chosen[0])) if sampled is None else (by_document, ())
    means, copies = [], joined.copies
    if number := copies.size - np.unique(copies).size:
        what = tables.count(number, "query has", "queries have")
        notes = (*notes, f"{what} the documents and scores of another: errors count copies as one.")
    for metric in chosen:
        title, estimates = estimate(joined, metric, signs, copies)
        p = np.array([one.test().p for one in estimates])
        adjusted = significance.holm(p) if correction == "holm" else p
        for (system, against), one, p in zip(titles, estimates, adjusted.tolist(), strict=True):
            named = one._replace(metric=title, system=system, against=against, p=None if against is None else p)
            low, high = one.test().interval(level)
            fixed_low, fixed_high = one.test(fixed=True).interval(level)
            means.append(named._replace(low=low, high=high, fixed_low=fixed_low, fixed_high=fixed_high))
    unit, n_queries = "query" if sampled is None else "document", joined.offsets.size - 1
    notes = (*notes, *joined.notes, "A query without relevant documents counts 0.")
    return JudgedEvaluation(means=tuple(means), unit=unit, n_queries=n_queries, level=level, notes=notes)


def contrasts(names: Sequence[str], pairs: Sequence[tuple[str, str]]) -> tuple[list[tuple[str, str | None]], Array]:
    """Return what is estimated, each system or each difference of ``pairs``, and the signs of systems in it."""
    titles: list[tuple[str, str | None]] = [*pairs] or [(name, None) for name in names]
    signs = np.zeros((len(titles), len(names)))
    for row, (system, against) in zip(signs, titles, strict=True):
        row[names.index(system)] = 1.0
        if against is not None:
            row[names.index(against)] = -1.0
    return titles, signs


def of_every_query(metric: Metric) -> Metric:
    """Return a metric that scores queries without relevant documents: which they are is not known without labels."""
    if "labels" not in metric.reads:
        hint = "use a metric of labels, such as ndcg@10, without label"
        raise check.error("a judge grades relevance alone", got=str(metric), hint=hint)
    skips = isinstance(metric, RankMetric) and not metric.of_every_query and metric.empty == "skip"
    return replace(cast("RankMetric", metric), empty=0) if skips else metric


def by_query(
    joined: JudgedRuns, metric: Metric, signs: Array, copies: NDArray[np.int64], more: int = 0
) -> tuple[str, list[JudgedMean]]:
    """Estimate from labelled queries; with ``more``, errors are those with so many more."""
    labelled = joined.labelled
    human, judge = joined.values(metric, joined.human), joined.values(metric, joined.judge)
    if np.isnan(human[:, labelled]).any():
        raise check.error("with a judge every query must count", got=f"labelled queries that {metric} skips")
    human, judge = signs @ np.where(labelled, human, 0.0), signs @ np.nan_to_num(judge)
    estimates = []
    for y, f, counts in zip(human, judge, _informative(joined, metric, signs), strict=True):
        if not counts.any():
            estimates.append(NO_DIFFERENCE)
            continue
        known, others = labelled & counts, ~labelled & counts
        among = np.unique(np.concatenate([copies[known], copies[others]]), return_inverse=True)[1]
        distinct = np.unique(copies[known]).size
        if distinct < FEWEST:
            what = f"with a judge there must be human labels of at least {FEWEST} queries whose lists differ"
            got = f"{distinct} of {np.unique(among).size} that differ by {metric}"
            hint = "label more of these, drawn at random: equal lists differ by exactly 0, and need no labels"
            raise check.error(what, got=got, hint=hint)
        if distinct < FEW:
            which = "queries have" if counts.all() else "queries whose lists differ have"
            warnings.warn(f"only {distinct} {which} human labels: intervals hold from about {FEW} on", stacklevel=5)
        same = None if np.unique(among).size == among.size else among
        estimates.append(
            prediction_powered(y[known], f[known], f[others], same, more=more).over(float(counts.mean()), counts.size)
        )
    return str(metric), estimates


def _informative(joined: JudgedRuns, metric: Metric, signs: Array) -> NDArray[np.bool_]:
    """(n_signs, n_queries) whether a query has something to tell: its lists differ, or it is about one system."""
    lists = joined.lists(metric)
    out = np.ones((len(signs), joined.offsets.size - 1), np.bool_)
    for row, sign in zip(out, signs, strict=True):
        if np.count_nonzero(sign) == 2:
            one, other = lists[sign != 0.0]
            row[:] = np.logical_or.reduceat(one != other, joined.offsets[:-1])
    return out


def by_document(
    joined: JudgedRuns, metric: Metric, signs: Array, copies: NDArray[np.int64]
) -> tuple[str, list[JudgedMean]]:
    """Estimate from sampled documents."""
    grades, offsets = (np.nan_to_num(joined.human), np.nan_to_num(joined.judge)), joined.offsets
    title, discounts, human, judge = discounted(metric, joined.scores, *grades, offsets)
    drawn, estimates = (human, judge, joined.judge, joined.probabilities, offsets, copies), []
    for weights in signs @ discounts:
        n = np.unique(copies[np.logical_or.reduceat(weights != 0.0, offsets[:-1])]).size
        if 0 < n < FEWEST:
            what = f"sampled documents must be of at least {FEWEST} queries whose lists differ"
            raise check.error(what, got=f"{n} that differ by {title}", hint="add queries, or look at the lists")
        estimates.append(sampled_difference(weights, *drawn) if n else NO_DIFFERENCE)
    return title, estimates


def require_labels(joined: JudgedRuns, metric: Metric) -> tuple[str, ...]:
    """Check how many queries have human labels, and return what is assumed of them."""
    labelled = joined.labelled
    n = int(labelled.sum())
    if n == labelled.size:
        hint = "leave `judge` out, or add queries that the judge alone has graded"
        raise check.error("every query has human labels, and the judge can add nothing", got=n, hint=hint)
    if n < FEWEST:
        what = f"with a judge there must be human labels of at least {FEWEST} queries"
        raise check.error(what, got=n, hint="label more, drawn at random, or sample documents with rw.judging.plan")
    cutoff = getattr(metric, "cutoff", None)
    share = float(joined.values(Judged(cutoff=cutoff), joined.human)[:, labelled].mean())
    note = f"Humans judged {share:.0%} of the first {cutoff or 'ranks'} of labelled queries; the rest is not relevant."
    return "The queries with human labels are taken to be drawn at random.", *[note] * (share < 1.0)


def join(
    systems: Mapping[str, Scored], data: Evaluated, judge: Run | ArrayLike, sampled: str | None = None
) -> JudgedRuns:
    """Join systems with human labels and a judge: runs and qrels by ids, or scores on data by rows.

    ``judge`` is qrels, or the name of a column of the table of qrels; for a data set, a grade per document.
    """
    if isinstance(data, str | Path | Mapping) or (is_frame(data) and trec.is_qrels(data)):
        table = table_of(data)
        if isinstance(judge, str) and judge in table.columns:
            judge = table.select(*_KEYS, grade=judge).drop_nulls("grade")
        return join_runs(cast("Mapping[str, Run]", systems), cast("Run", judge), read_judgements(table, sampled))
    lists = on_data(next(iter(systems.values())), data)[1]
    if sampled is not None or (lists.weights is not None and np.ptp(lists.weights) > 0.0):
        got = "query weights" if sampled is None else f"sampled={sampled!r} for {lists!r}"
        raise check.error("a judge goes with queries of equal weight, and sampled documents with runs", got=got)
    scores = np.array([check.scores(scores_of(one, lists), lists.offsets) for one in systems.values()])
    grades = check.labels(cast("ArrayLike", judge), lists.offsets, lists.query_ids)
    human = lists.labels if lists.judged is None else np.where(lists.judged == 1, lists.labels, np.nan)
    in_memory = lists.n_features and not isinstance(lists, DiskDataset)
    documents = leakage.document_hashes(lists) if in_memory else np.arange(lists.n_docs)
    return JudgedRuns(
        query_ids=np.arange(lists.n_queries),
        document_ids=documents,
        offsets=lists.offsets,
        scores=scores,
        judge=grades,
        human=human,
        probabilities=np.full(lists.n_docs, np.nan),
    )


def join_runs(runs: Mapping[str, Run], judge: Run | None, human: pl.DataFrame | None = None) -> JudgedRuns:
    """Join runs with the grades of a judge and, as :func:`read_judgements` returns them, of humans.

    Queries are those of the judge that every run has; without one, those of every run. Documents are ordered as in
    trec_eval, by id, descending.
    """
    frames = [trec.run_frame(run) for run in runs.values()]
    grades = _NONE if judge is None else trec.qrels_frame(table_of(judge))
    human = grades.clear() if human is None else human
    missing = 0 if judge is None else human.join(grades, on="query", how="anti")["query"].n_unique()
    if missing:
        hint = "let the judge grade them too: its errors are seen where both have grades"
        raise check.error("the judge must have graded the queries of human labels", got=f"{missing} not", hint=hint)
    graded = (frames[0] if judge is None else grades).select("query").unique()
    queries = graded
    for name, frame in zip(runs, frames, strict=True):
        queries = queries.join(frame, on="query", how="semi")
        if queries.is_empty():
            hint = "check that both belong to the same topics and spell their ids alike"
            what = "runs have" if judge is None else "runs and judge have"
            raise check.error(f"{what} no query in common", where=f"run {name!r}", hint=hint)
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
    return JudgedRuns(
        query_ids=np.array(rows["query"][ends[:-1]].to_list(), np.str_),
        document_ids=np.array(rows["document"].to_list(), np.str_),
        offsets=ends,
        scores=np.where(np.isnan(scores), -np.inf, scores),
        judge=graded_by_judge,
        human=graded_by_human,
        probabilities=chances,
        notes=(f"Left out: {left_out} of the judge that not every run has.",) * (queries.height < graded.height),
    )


def read_judgements(source: Run, sampled: str | None = None) -> pl.DataFrame:
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
    """Read qrels in any form, also .csv, with the judgements that stand; a table keeps its further columns."""
    if isinstance(source, str | Path) and Path(source).suffix.lower() == ".csv":
        from rankwise.data.io import read_table
        from rankwise.wings.judging import judgements

        if judgements.has_judges(source):
            rows = judgements.read(source)
            if rows.select(_KEYS).is_duplicated().any():
                got = ", ".join(rows["judge"].unique().sort())
                hint = "merge them first: rw.judging.merge, or rankwise judge merge"
                raise check.error("several judges graded the same document", got=got, where=str(source), hint=hint)
            return rows
        return judgements.checked(read_table(Path(source)), source, (*_KEYS, "grade"))
    return as_polars(source)[0].collect() if is_frame(source) else trec.qrels_frame(source)
