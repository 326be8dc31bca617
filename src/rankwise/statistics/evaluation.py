"""The values of metrics on every query, their means, and how sure the means are."""

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check, moved
from rankwise.base import tables
from rankwise.base.arrays import Ids, Json, read_only
from rankwise.metrics import Metric, MetricLike, metric
from rankwise.metrics.base import require_scored, weighted_mean
from rankwise.statistics import significance
from rankwise.statistics.judgements import Digests, Judgements
from rankwise.statistics.result import Result, plain
from rankwise.statistics.titles import Titles, bounds_of, canonical, find, titles_of

if TYPE_CHECKING:
    import polars as pl

    from rankwise.data.segments import Labels, Segment
    from rankwise.statistics.reliability import Event, Reliability
    from rankwise.statistics.segments import SegmentMean

SEGMENT = "segment "
"""How columns of segments begin in tables of queries."""
WEIGHTED = "Means are weighted by the weights of queries."


class Ranked(NamedTuple):
    """The documents that were evaluated, query after query, with their scores: for reports."""

    scores: NDArray[np.float64]
    """−inf where a document was not retrieved."""
    labels: NDArray[np.float64]
    offsets: NDArray[np.int64]
    document_ids: Ids | None
    judged: NDArray[np.int8] | None
    """1 where a document was judged; None: all were."""
    more_labels: Mapping[str, NDArray[np.float64]] | None = None
    predicts: "Event | None" = None
    """What the scores are probabilities of, where the model says so."""


class JudgedShare(NamedTuple):
    """How many of the documents that a ranking shows first were judged."""

    cutoff: int
    mean: float
    """The mean over queries of the share of judged documents among the first ``cutoff``."""

    @property
    def title(self) -> str:
        """The metric that it is the mean of."""
        return f"judged@{self.cutoff}"

    @property
    def note(self) -> str:
        """What the column says."""
        about = f"the share of judged documents among the first {self.cutoff}; others count as not relevant"
        return f"{self.title}: {about}."


@moved.renamed("rw.Evaluation")
@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Result):
    """The values of metrics on every query. Made by :func:`evaluate`, or by hand from values computed elsewhere.

    >>> evaluation = Evaluation({"ndcg@10": [0.5, 1.0, float("nan")]}, ["a", "b", "c"])
    >>> evaluation.mean, evaluation.scored
    ({'ndcg@10': 0.75}, {'ndcg@10': 2})
    """

    values: Mapping[str, NDArray[np.float64]]
    """Metric -> (n_queries,) values; NaN where the metric skips the query."""
    query_ids: Ids
    """(n_queries,) integers or strings; pairing and resampling go by them."""
    weights: NDArray[np.float64] | None = None
    """(n_queries,) how much each query counts; None: all the same."""
    _: KW_ONLY
    seed: int = 0
    level: float = 0.95
    resamples: int = 2000
    candidates: str = ""
    """Which documents were ranked, where that is not just the lists of the data; said under the table."""
    ranked: Ranked | None = None
    """The documents, where they are known, which a report shows."""
    judged: JudgedShare | None = None
    """How many of the documents ranked first were judged; None where all are, as in data sets of judged documents."""
    segments: "Labels" = field(default_factory=dict)
    """Kind, such as "device" -> the segment of each query; also whatever ``segment`` may be that needs no data."""
    judgements: Judgements | None = None
    """Digests of the labels of every query, so that evaluations by other labels are not compared; empty where a file
    does not have them, None where values were computed elsewhere."""

    if TYPE_CHECKING:  # lists and the like are taken too; they become arrays

        def __init__(
            self,
            values: Mapping[str, ArrayLike],
            query_ids: ArrayLike,
            weights: ArrayLike | None = None,
            *,
            seed: int = 0,
            level: float = 0.95,
            resamples: int = 2000,
            candidates: str = "",
            ranked: Ranked | None = None,
            judged: JudgedShare | None = None,
            segments: "Segment | None" = None,
            judgements: Judgements | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        ids = np.asarray(self.query_ids)
        ids = check.query_ids(ids, ids.size)
        values = {name: check.metric_values(name, column, ids.size, ids) for name, column in self.values.items()}
        if not values:
            raise check.error("an evaluation needs at least one metric", hint="for example `metrics='ndcg@10'`")
        weights = None if self.weights is None else check.query_weights(self.weights, ids.size)
        for name, column in values.items():
            require_scored(name, column, weights)
        check.integer("seed", self.seed, least=0)
        check.number("level", self.level, least=0.0, most=1.0, open_ends=True)
        check.integer("resamples", self.resamples, least=1)
        values = {name: read_only(column, contiguous=False) for name, column in values.items()}
        segments = self._segments(ids, weights) if len(self.segments) else {}
        checked = {"values": values, "query_ids": ids, "weights": weights, "segments": segments}
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def _segments(self, ids: Ids, weights: NDArray[np.float64] | None) -> "Labels":
        from rankwise.data.segments import segments_of

        return segments_of(self.segments, ids, weights=weights)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The expressions of the metrics, in the order asked for."""
        return tuple(self.values)

    @property
    def query_weights(self) -> NDArray[np.float64]:
        """(n_queries,) how much each query counts: the weights, or ones."""
        return np.ones(self.query_ids.size) if self.weights is None else self.weights

    def __getitem__(self, name: MetricLike) -> NDArray[np.float64]:
        """One value per query; the metric may be spelled in any way that means the same."""
        column = find(name, self.values)
        if column is not None:
            return self.values[column]
        hint = check.suggestion(str(name), self.values)
        raise KeyError(f"this evaluation has no metric {str(name)!r}: {hint}")

    @cached_property
    def label_digests(self) -> Digests:
        """Name of labels -> a digest of those of each query (computed on first use); empty where they are not known."""
        return self.judgements() if callable(self.judgements) else self.judgements or {}

    @cached_property
    def mean(self) -> dict[str, float]:
        """Metric -> Σwv / Σw over the queries that it scores."""
        return {name: weighted_mean(column, self.weights) for name, column in self.values.items()}

    @cached_property
    def total(self) -> dict[str, float]:
        """Metric -> Σwv, of those that count: num_q, num_ret, num_rel and num_rel_ret."""
        counts = [name for name in self.values if any(metric(text).counts for text in canonical(name))]
        return {name: math.fsum(self.query_weights * self.values[name]) for name in counts}

    @cached_property
    def scored(self) -> dict[str, int]:
        """Metric -> how many queries it scores; the others have no relevant document and are skipped."""
        return {name: int((~np.isnan(column)).sum()) for name, column in self.values.items()}

    @cached_property
    def interval(self) -> dict[str, tuple[float, float]]:
        """Metric -> confidence interval of its mean, by bootstrap over queries (computed on first use).

        Each resample counts each query Poisson(1) times, drawn from a stream keyed by query id: the interval depends
        on the values and the seed, and not on threads or on the order of queries. More than 20,000 queries are
        resampled in 20,000 random groups. Of fewer than ten queries that would be too narrow, and the interval is
        Student's; of fewer than three there is none, and its ends are NaN. Values that are all 0 or 1 have the interval
        of Clopper and Pearson, and values that are all the same one that allows for others that were not seen
        (:func:`rankwise.statistics.significance.interval_of_same`).
        """
        tail = (1.0 - self.level) / 2.0
        low, high = np.quantile(self.resampled(), [tail, 1.0 - tail], axis=0).tolist()
        intervals = dict(zip(self.values, zip(low, high, strict=True), strict=True))
        return intervals | self._without_spread | {name: self._of_few(name) for name in self._few}

    @cached_property
    def _without_spread(self) -> dict[str, tuple[float, float]]:
        """Intervals of metrics whose values, all 0 or 1 or all the same, have no spread to resample."""
        found = {}
        for name in self.values:
            values, weights = self._counted(name)
            if values.size >= significance.FEWEST:
                bounds = bounds_of(name)
                found[name] = significance.interval_of_same(values, weights, bounds=bounds, level=self.level)
                if found[name] is None and bounds in ((0.0, 1.0), Metric.bounds):  # not of counts, of DCG and the like
                    found[name] = significance.interval_of_share(values, weights, level=self.level)
        return {name: interval for name, interval in found.items() if interval is not None}

    @cached_property
    def _few(self) -> dict[str, int]:
        """How many queries count, of the metrics of which they are too few to resample."""
        counts = {name: self._counted(name)[0].size for name in self.values if name not in self._without_spread}
        return {name: count for name, count in counts.items() if count < significance.RESAMPLED}

    def _of_few(self, name: str) -> tuple[float, float]:
        """Student's interval of the mean of few queries, within what the metric can be."""
        if self._few[name] < significance.FEWEST:
            return math.nan, math.nan
        low, high = significance.t_test(*self._counted(name)).interval(self.level)
        lowest, highest = bounds_of(name)
        return max(low, lowest), min(high, highest)

    def _counted(self, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Values of a metric and weights of the queries that it scores and that count."""
        counted = self.counted(name)
        return self.values[name][counted], self.query_weights[counted]

    def counted(self, name: str) -> NDArray[np.bool_]:
        """Whether the metric scores each query, and the query has weight."""
        return ~np.isnan(self.values[name]) & (self.query_weights > 0.0)

    @cached_property
    def by_segment(self) -> "tuple[SegmentMean, ...]":
        """The mean of each metric on each segment, with its interval and how many queries it has."""
        from rankwise.statistics.segments import means_of

        return means_of(self)

    def resampled(self) -> NDArray[np.float64]:
        """(resamples, n_metrics) means of the bootstrap; where a resample drew no scored query, the mean itself."""
        from rankwise.statistics.bootstrap import resampled

        return resampled(self)

    def reliability(self, *, label: str | None = None, relevant: float | None = None, bins: int = 15) -> "Reliability":
        """Return how well probabilities agree with labels: the calibration error, by bins, with intervals.

        The scores that were evaluated must be probabilities, of a ranker that :func:`calibrate` made for example. They
        are compared with labels of at least ``relevant``: with those called ``label`` in ``more_labels`` of the data,
        or with ``"labels"``. By default both are what the model was calibrated for, or labels of at least 1.
        """
        from rankwise.statistics.reliability import Reliability

        return Reliability.of(self, label=label, relevant=relevant, bins=bins)

    @property
    def sentence(self) -> str:
        """The mean of the first metric, with its interval."""
        name = self.metrics[0]
        queries = tables.count(self.scored[name], "query", "queries")
        return f"{name} {tables.number(self.mean[name])} {tables.interval(*self.interval[name])} over {queries}."

    def to_frame(self) -> "pl.DataFrame":
        """One row per query: its id, its weight, and one column per metric (null where it is skipped)."""
        import polars as pl

        kinds = {SEGMENT + name: pl.Series(labels, dtype=pl.String) for name, labels in self.segments.items()}
        frame = pl.DataFrame({"query": self.query_ids, "weight": self.query_weights, **kinds, **self.values})
        return frame.with_columns(pl.col(self.metrics).fill_nan(None))

    def summary(self) -> "pl.DataFrame":
        """One row per metric: mean, ends of the interval, if there is one, how many queries are scored and skipped.

        Where not all documents are judged, ``judged`` is the share of those that are.
        """
        import polars as pl

        judged = {} if self.judged is None else {"judged": self.judged.mean}
        rows = [{"metric": name, **row, **judged} for name, row in self._rows().items()]
        return pl.DataFrame(rows, schema_overrides={"low": pl.Float64, "high": pl.Float64})

    def to_dict(self) -> Json:
        """Return the :meth:`summary` as JSON-serializable data."""
        facts: Json = {"candidates": self.candidates} if self.candidates else {}
        facts |= {"total": self.total} if self.total else {}
        facts |= {"weighted": True} if varies(self.weights) else {}
        facts |= {"judged": self.judged._asdict()} if self.judged is not None else {}
        facts |= {"segments": plain([asdict(one) for one in self.by_segment])} if self.segments else {}
        return {"queries": self.query_ids.size, "confidence": self.level, **facts, "metrics": self._rows()}

    def _rows(self) -> dict[str, Json]:
        rows: dict[str, Json] = {}
        for name, scored in self.scored.items():
            low, high = (None if math.isnan(end) else end for end in self.interval[name])
            skipped = self.query_ids.size - scored
            rows[name] = {"mean": self.mean[name], "low": low, "high": high, "scored": scored, "skipped": skipped}
        return rows

    def table(self, *, titles: Titles | None = None) -> tables.Table:
        """Return the summary as a table that prints as text, Markdown, LaTeX or HTML; ``titles`` name the metrics."""
        n = self.query_ids.size
        shown = titles_of(self.metrics, titles)
        share = None if self.judged is None or self.judged.title in self.values else self.judged  # a metric asked for
        judged = () if share is None else (tables.number(share.mean),)
        rows = []
        for (name, mean), scored in zip(self.mean.items(), self.scored.values(), strict=True):
            counts = f"{scored:,}", f"{n - scored:,}", *judged
            rows.append((shown[name], tables.number(mean), tables.interval(*self.interval[name]), *counts))
        title = "weighted mean" if varies(self.weights) else "mean"
        header: tuple[str, ...] = ("metric", title, f"{100 * self.level:g}% interval", "scored", "skipped")
        notes = [f"Candidates: {self.candidates}."] if self.candidates else []
        if share is not None:
            header = (*header, share.title)
            notes.append(share.note)
        if self._few:
            least, few = significance.FEWEST, significance.RESAMPLED
            student = f"Fewer than {few} queries: the interval is Student's, as resampling so few is too narrow."
            none = f"Fewer than {least} queries: no interval."
            notes += [student if max(self._few.values()) >= least else none]
        notes += self._spread_notes(shown)
        if self.total:
            notes.append(f"In all: {', '.join(f'{shown[name]} {total:,.10g}' for name, total in self.total.items())}.")
        return tables.Table(header=header, rows=tuple(rows), align="lrlrr" + "r" * len(judged), notes=tuple(notes))

    def _spread_notes(self, shown: Mapping[str, str]) -> list[str]:
        """What is said of metrics that have the same value on every query."""
        said: dict[str, list[str]] = {
            "the interval allows for other values, not seen in so few": [],
            "no interval, as the metric has no range": [],
        }
        bounded, unbounded = said.values()
        for name, (low, _) in self._without_spread.items():
            values = self.values[name]
            if name not in self.total and np.ptp(values[~np.isnan(values)]) < 1e-9:
                (unbounded if math.isnan(low) else bounded).append(shown[name])
        return [f"The same value on every query ({', '.join(names)}): {note}." for note, names in said.items() if names]

    def tables(self, *, titles: Titles | None = None) -> list[tables.Table]:
        """Return the summary as a table, and where there are segments a table of these."""
        from rankwise.statistics.segments import means_table

        return [self.table(titles=titles), *([means_table(self, titles)] if self.segments else [])]


def varies(weights: NDArray[np.float64] | None) -> bool:
    """Whether some queries count more than others, so that a mean is a weighted one."""
    return weights is not None and bool(np.ptp(weights) > 0.0)
