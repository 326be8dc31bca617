"""Metrics as values that parse, print and are called: the contract, metrics of kernels, and custom functions."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from rankwise import check, grammar, registry
from rankwise.arrays import Array, Offsets, codes_in_queries, read_only
from rankwise.data.columns import check_name
from rankwise.metrics.gains import NO_CUTOFF, label_error, longest
from rankwise.metrics.order import TIES
from rankwise.threads import Kernel, over_queries

if TYPE_CHECKING:
    from rankwise.data.dataset import RankingDataset

KernelCall = tuple[Kernel, *tuple[object, ...]]
"""A kernel and its arguments."""
MetricFunction = Callable[[Array, Array, Offsets], ArrayLike]
"""From scores, labels and offsets to one number per query."""

_LOSS = "loss"  # the entry of a training history beside metrics


class Metric(ABC):
    """A metric: a value that prints as its name and is called with scores; larger is better.

    ``metric(scores, labels, offsets)`` returns one number per query; NaN for a query that is skipped, which means leave
    out. A score of −inf marks a document that was not retrieved: it has no rank, but belongs to its query.

    A custom metric is a function with these arguments and this result. It is accepted wherever a metric is named: by
    ``evaluate``, ``compare``, ``tune``, ``AutoRanker``, ``Spec``, ``metrics=`` of rankers (where the first one decides
    when training stops), ``lightgbm_metric`` and ``xgboost_metric``. Its name is its attribute ``name``, else that of
    the function. Arguments are checked before the call, arrays are read-only, and query q is ``offsets[q]`` to
    ``offsets[q + 1]``.

    >>> import numpy as np, rankwise as rw
    >>> from itertools import pairwise
    >>> def satisfied(scores, labels, offsets):
    ...     \"\"\"1 if the best document comes first; skips queries without a relevant one.\"\"\"
    ...     lists = [slice(start, end) for start, end in pairwise(offsets)]
    ...     found = [labels[q][np.argmax(scores[q])] == labels[q].max() for q in lists]
    ...     return [hit if labels[q].any() else np.nan for hit, q in zip(found, lists)]
    >>> data = rw.RankingDataset([[0.1], [0.2], [0.3], [0.4], [0.5]], [1, 0, 0, 2, 0], [0, 2, 4, 5])
    >>> rw.evaluate(data.features[:, 0], data, [satisfied, "rr"])
    metric       mean  95% interval  scored  skipped
    satisfied  0.5000  –                  2        1
    rr         0.7500  –                  2        1
    <BLANKLINE>
    Fewer than 3 queries: no interval.

    A custom metric with settings is a subclass that has a ``name`` and defines :meth:`values`. As a dataclass it
    compares by its settings, and prints them.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Found(rw.Metric):
    ...     name = "found"
    ...     depth: int = 1
    ...
    ...     def values(self, scores, labels, offsets):
    ...         lists = [slice(start, end) for start, end in pairwise(offsets)]
    ...         return [labels[q][np.argsort(-scores[q])[: self.depth]].any() for q in lists]
    >>> rw.evaluate(data.features[:, 0], data, [Found(), Found(depth=2)]).mean
    {'found': 0.3333333333333333, 'found(depth=2)': 0.6666666666666666}

    A saved model holds the name and no code: to resume its training, pass the metric again, or register it
    (:func:`rankwise.register`).
    """

    name: ClassVar[str]
    """The name in expressions, tables and files."""
    counts: ClassVar[bool] = False
    """Whether it counts something, so that the total over all queries is reported rather than the mean."""
    bounds: ClassVar[tuple[float, float]] = (-math.inf, math.inf)
    """The lowest and the highest possible value."""

    def __call__(
        self,
        scores: ArrayLike,
        labels: ArrayLike,
        offsets: ArrayLike,
        judged: ArrayLike | None = None,
        document_rewards: ArrayLike | None = None,
    ) -> Array:
        """Return one number per query.

        ``judged`` is 1 for a judged document, 0 for one that was not judged, and −1 for one that was pooled but not
        judged; by default all were judged. Most metrics treat unjudged documents as not relevant.
        ``document_rewards`` are those of :class:`rankwise.metrics.Reward`, which reads them instead of labels.
        """
        checked = read_only(check.offsets(offsets, np.asarray(labels).size))
        columns = read_only(check.scores(scores, checked)), read_only(check.labels(labels, checked))
        return check.metric_values(f"values of the metric {self}", self.values(*columns, checked), checked.size - 1)

    def of(self, scores: ArrayLike, data: "RankingDataset") -> Array:
        """Return one number per query of a data set, from all columns that the metric reads."""
        return self(scores, data.labels, data.offsets, data.judged, data.document_rewards)

    @abstractmethod
    def values(self, scores: Array, labels: Array, offsets: Offsets) -> ArrayLike:
        """Return one number per query, larger is better, NaN for those that are skipped."""

    def __str__(self) -> str:
        options = grammar.arguments(self) if is_dataclass(self) else ""
        return self.name + (f"({options})" if options else "")


@dataclass(frozen=True, kw_only=True, repr=False)
class RankMetric(Metric):
    """A metric of this package, computed by a kernel; it prints as its expression.

    A document with a score of −inf was not retrieved: it has no rank, but its label counts in totals and in the ideal.
    """

    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
    of_every_query: ClassVar[bool] = False
    """Whether it is defined for queries without relevant documents too; ``empty`` cannot be set then."""
    sees_judged: ClassVar[bool] = False
    """Whether unjudged documents differ from those that are not relevant."""
    sees_strata: ClassVar[bool] = False
    """Whether a judged document stands for others of its stratum."""
    reads_rewards: ClassVar[bool] = False
    """Whether it measures rewards of documents instead of labels."""
    reads_aspects: ClassVar[bool] = False
    """Whether it measures labels by name, one for each aspect of a query, instead of labels."""

    cutoff: int | None = None
    """The last rank that counts; None for all ranks."""
    ties: str = "average"
    """Equal scores: the exact "average" over all orders, the "row" order, or the "worst" or "best" order."""
    empty: str | int = "skip"
    """Value of a query without relevant documents: "skip" (NaN, left out of means), 0 or 1."""
    label: str | None = None
    """Name of the labels in ``more_labels`` of a data set that it reads; None for ``labels``."""

    def __post_init__(self) -> None:
        if self.cutoff is not None:
            object.__setattr__(self, "cutoff", check.integer("cutoff", self.cutoff, least=1))
        check.choice("way to treat ties", self.ties, TIES)
        if isinstance(self.empty, bool) or self.empty not in ("skip", 0, 1):
            raise check.error("empty must be skip, 0 or 1", got=repr(self.empty))
        if self.of_every_query and self.empty != "skip":
            what = f"{self.name} is defined for every query, with relevant documents or without"
            raise check.error(what, got=f"empty={self.empty!r}", hint="leave empty out")
        if self.label is not None:
            check_name("more_labels", self.label)
            if self.reads_rewards:
                raise check.error(f"{self.name} reads no labels", got=f"label={self.label}", hint="leave label out")

    def __call__(
        self,
        scores: ArrayLike,
        labels: ArrayLike,
        offsets: ArrayLike,
        judged: ArrayLike | None = None,
        document_rewards: ArrayLike | None = None,
        strata: ArrayLike | None = None,
    ) -> Array:
        """Return one number per query; arrays of the right type are checked by the kernel alone."""
        if self.label is not None:
            hint = f"use metric.of(scores, data), or `leave label={self.label} out`"
            raise check.error(f"{self} reads labels by name, from a data set", got="an array of labels", hint=hint)
        n_docs = np.asarray(labels).size
        checked = read_only(check.offsets(offsets, n_docs))
        columns = _column(scores, checked, check.scores), _column(labels, checked, check.labels)
        out = np.empty(checked.size - 1)
        cutoff = NO_CUTOFF if self.cutoff is None else self.cutoff
        empty = 0.0 if self.of_every_query else np.nan if self.empty == "skip" else float(self.empty)
        kernel, *arguments = self._kernel(longest(checked))
        if self.sees_judged:
            arguments.append(np.ones(n_docs, np.int8) if judged is None else check.judged(judged, columns[1], checked))
        if self.sees_strata:
            ids = None if strata is None else check.identifiers("strata", strata, n_docs, "document")
            arguments.append(np.zeros(n_docs, np.int64) if ids is None else codes_in_queries(ids, checked))
        if self.reads_rewards:
            if document_rewards is None:
                hint = "measure data that have them, as rw.clicks.targets makes, or pass document_rewards=…"
                raise check.error(f"{self} adds up document_rewards", got="documents without rewards", hint=hint)
            arguments.append(check.document_rewards(document_rewards, checked))
        settings = (read_only(value) if isinstance(value, np.ndarray) else value for value in arguments)
        over_queries(kernel, checked, *columns, cutoff, TIES[self.ties], *settings, empty, out)
        if np.isposinf(out).any():
            check.scores(columns[0], checked)
            raise self._label_error(columns[1], checked)
        return out

    def of(self, scores: ArrayLike, data: "RankingDataset") -> Array:
        """Return one number per query of a data set, from all columns that the metric reads."""
        if self.label is not None:  # every document has a label of that name: all were judged
            metric, labels = with_labels(self, data)
            return metric(scores, labels, data.offsets)
        if self.sees_strata and data.strata is None and data.inclusion_probabilities is not None:
            what, hint = f"{self} needs the strata of a sample", "set strata=…; documents of one were drawn alike"
            raise check.error(what, got="inclusion probabilities alone", hint=hint)
        return self(scores, data.labels, data.offsets, data.judged, data.document_rewards, data.strata)

    def values(self, scores: Array, labels: Array, offsets: Offsets) -> Array:
        """Return one number per query."""
        return self(scores, labels, offsets)

    def __matmul__(self, cutoff: int) -> Self:
        """``metric @ 10`` is the metric with a cutoff of 10."""
        return replace(self, cutoff=cutoff)

    def __str__(self) -> str:
        shared = {field.name for field in fields(RankMetric)}
        values = {one.name: getattr(self, one.name) for one in fields(self) if getattr(self, one.name) != one.default}
        names = sorted((name for name in values if name != "cutoff"), key=shared.__contains__)  # its own come first
        options = ", ".join(f"{name}={grammar.word(values[name])}" for name in names)
        return self.name + (f"({options})" if options else "") + (f"@{self.cutoff}" if self.cutoff else "")

    __repr__ = __str__

    @abstractmethod
    def _kernel(self, longest: int) -> KernelCall:
        """Return the kernel, and its further arguments for queries of up to ``longest`` documents."""

    def _label_error(self, labels: Array, offsets: Offsets) -> ValueError:
        """Return the error that names a label without a gain."""
        return label_error(labels, offsets, getattr(self, "gain", "linear"))


@dataclass(frozen=True, kw_only=True, repr=False)
class BinaryMetric(RankMetric):
    """A metric for which a document is either relevant or not."""

    relevant: float = 1
    """The lowest label that counts as relevant."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check.number("relevant", self.relevant, least=0.0, most=1e300, open_ends=True)


@dataclass(frozen=True, repr=False)
class FunctionMetric(Metric):
    """A function as a metric."""

    name: ClassVar[str] = "function"
    function: MetricFunction

    def values(self, scores: Array, labels: Array, offsets: Offsets) -> ArrayLike:
        """Call the function."""
        return self.function(scores, labels, offsets)

    def __str__(self) -> str:
        name = registry.name_of(self.function) or getattr(self.function, "name", None)
        return str(name or getattr(self.function, "__name__", ""))

    __repr__ = __str__


def with_labels(metric: Metric, data: "RankingDataset") -> tuple[Metric, Array]:
    """Return the metric as a function of arrays, and the labels of a data set that it reads."""
    if isinstance(metric, RankMetric) and metric.label is not None:
        return replace(metric, label=None), data.labels_of(metric.label)
    if not isinstance(metric, RankMetric) or not metric.reads_aspects:
        return metric, data.labels

    def of_data(scores: Array, labels: Array, offsets: Offsets) -> Array:  # noqa: ARG001
        if not np.array_equal(offsets, data.offsets):
            what, hint = f"{metric} is computed for a whole data set", "choose by another metric, such as ndcg@10"
            raise check.error(what, got="a part of its queries", hint=hint)
        return metric.of(scores, data)

    return FunctionMetric(of_data), data.labels


def checked_name(metric: Metric, lookup: Callable[[str], Metric | None]) -> Metric:
    """Raise if a custom metric has no name, or the name of another metric: files and tables identify metrics by name.

    ``lookup`` returns the metric that has a name already.
    """
    name = str(metric) if hasattr(metric, "name") else ""
    if not name.isprintable() or not name or name.startswith("<"):
        raise check.error(
            "a metric needs a name",
            got=repr(getattr(metric, "function", metric)),
            hint="define it with def, or give it an attribute name",
        )
    other = lookup(name)
    is_same = other == metric or (type(other) is type(metric) and bool(registry.name_of(type(metric))))
    if name == _LOSS or (other is not None and not is_same):
        what = "a custom metric has the name of something else"
        raise check.error(what, got=repr(name), hint="rename the function, or give it an attribute name")
    return metric


def weighted_mean(values: Array, weights: Array | None = None) -> float:
    """Return Σwv / Σw over the queries that a metric scores, rounded once, so that the order of queries has no effect.

    >>> weighted_mean(np.array([0.5, np.nan, 1.0]), np.array([1.0, 1.0, 3.0]))
    0.875
    """
    scored = ~np.isnan(values)
    if weights is None:
        return math.fsum(values[scored]) / int(scored.sum())
    return math.fsum(weights[scored] * values[scored]) / math.fsum(weights[scored])


def require_scored(metric: object, values: Array, weights: Array | None = None) -> None:
    """Raise where a metric skips every query: there is no mean."""
    if np.isnan(values if weights is None else values[weights > 0]).all():
        raise check.error(
            f"{metric} scores no query",
            got=f"{values.size:,} queries without a relevant document (or of weight 0)",
            hint="check the labels; or give such queries a value, as in ndcg(empty=0)@10; rewards have reward@10",
        )


def _column(values: ArrayLike, offsets: Offsets, full_check: Callable[..., Array]) -> Array:
    """Return one float64 per document; arrays of the right type are checked by the kernel, others here."""
    array = np.asarray(values)
    if array.dtype != np.float64 or array.shape != (offsets[-1],):
        array = full_check(array, offsets)
    return read_only(array)
