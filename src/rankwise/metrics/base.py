"""Metrics as values that parse, print and are called: the contract, metrics of kernels, and custom functions."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.base.arrays import Array, Column, Keywords, Offsets, read_only, rows_of
from rankwise.base.threads import Kernel, over_queries
from rankwise.check.docstrings import PlainSignature
from rankwise.check.parameters import AtLeast, OneOf, Within, check_declared
from rankwise.data import columns as table
from rankwise.data.dataset import RankingDataset
from rankwise.language import grammar, registry
from rankwise.metrics.gains import NO_CUTOFF, label_error, longest
from rankwise.metrics.sorting import TIES

KernelCall = tuple[Kernel, *tuple[object, ...]]
"""A kernel and its arguments."""
MetricFunction = Callable[[Array, Array, Offsets], ArrayLike]
"""From scores, labels and offsets to one number per query."""

_LOSS = "loss"  # the entry of a training history beside metrics


class Metric(ABC):
    """A metric: a value that prints as its name and is called with scores; larger is better.

    ``metric.of(scores, data)`` returns one number per query of a data set, and ``metric(scores, labels, offsets)`` of
    arrays; NaN for a query that is skipped, which means leave out. A score of −inf marks a document that was not
    retrieved: it has no rank, but belongs to its query.

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

    A subclass declares the columns of the data that it :attr:`reads`, and those that it :attr:`accepts`. ``values``
    gets them by name, beside labels and offsets. A metric that needs a column is refused on data without it.

    >>> class Expected(rw.Metric):
    ...     name = "expected"
    ...     reads = ("labels", "relevance_probabilities")
    ...
    ...     def values(self, scores, labels, offsets, relevance_probabilities):
    ...         first = [start + np.argmax(scores[start:end]) for start, end in pairwise(offsets)]
    ...         return relevance_probabilities[first]
    >>> judged = data.with_(relevance_probabilities=[0.9, 0.1, 0.2, 0.7, 0.0])
    >>> Expected().of(judged.features[:, 0], judged)
    array([0.1, 0.7, 0. ])
    >>> Expected()([2.0, 1.0], [1, 0], [0, 2], relevance_probabilities=[0.3, 0.4])
    array([0.3])

    A saved model holds the name and no code: to resume its training, pass the metric again, or register it
    (:func:`rankwise.register`).
    """

    name: ClassVar[str]
    """The name in expressions, tables and files."""
    counts: ClassVar[bool] = False
    """Whether it counts something, so that the total over all queries is reported rather than the mean."""
    bounds: ClassVar[tuple[float, float]] = (-math.inf, math.inf)
    """The lowest and the highest possible value."""
    reads: ClassVar[tuple[str, ...]] = ("labels",)
    """The columns of the data that it measures by and needs, ``more_labels.purchase`` for labels by name."""
    accepts: ClassVar[tuple[str, ...]] = ()
    """The columns that change something where the data have them; in :meth:`values` they have a default."""
    source: ClassVar[str] = ""
    """How data get the columns that it reads: the hint of an error."""

    def __init_subclass__(cls, **others: Any) -> None:
        """Refuse a class whose own ``__call__`` would be passed by: measurements call :meth:`values`."""
        super().__init_subclass__(**others)
        if "__call__" in vars(cls):
            hint = "define values(self, scores, labels, offsets) instead"
            raise check.error("a metric is measured by its method values", got=f"{cls.__name__}.__call__", hint=hint)

    def __call__(
        self,
        scores: ArrayLike,
        labels: ArrayLike,
        offsets: ArrayLike,
        judged: ArrayLike | None = None,
        document_rewards: ArrayLike | None = None,
        strata: ArrayLike | None = None,
        **columns: ArrayLike | Mapping[str, ArrayLike] | None,
    ) -> Array:
        """Return one number per query.

        ``columns`` are those of a data set (see :class:`rankwise.RankingDataset`); columns that the metric neither
        reads nor accepts change nothing. Most metrics treat unjudged documents (``judged``) as not relevant.
        """
        for name in columns:
            if name not in table.names():
                raise check.unexpected(str(self), name, check.suggestion(name, table.names()))
        given: Keywords = {"judged": judged, "document_rewards": document_rewards, "strata": strata, **columns}
        read = {name: given[name] for name in given.keys() & _columns_of(self)}
        return self.of(scores, RankingDataset(np.empty((np.asarray(labels).size, 0)), labels, offsets, **read))

    def of(self, scores: ArrayLike, data: RankingDataset) -> Array:
        """Return one number per query of a data set, from all columns that the metric reads."""
        columns: Keywords = {}
        for name in (*self.reads, *self.accepts):
            column = table.column_of(data, name)
            if column is not None:
                columns[name] = column
            elif name in self.reads:
                hint = "; or ".join(filter(None, (self.source, f"`set {name}=…`")))
                raise check.error(f"{self} reads {name}", got=f"data without {name}", hint=hint)
        columns.pop("labels", None)  # which every metric gets
        checked = read_only(check.scores(scores, data.offsets, data.query_ids))
        values = self.values(checked, data.labels, data.offsets, **table.nested(columns))
        return check.metric_values(self, values, data.n_queries, data.query_ids)

    @abstractmethod
    def values(self, scores: Array, labels: Array, offsets: Offsets, *args: Any, **columns: Any) -> ArrayLike:
        """Return one number per query, larger is better, NaN for those that are skipped.

        ``columns`` are those that it reads, and those that it accepts and the data have; labels by name are the mapping
        ``more_labels``.
        """

    def __str__(self) -> str:
        options = grammar.arguments(self) if is_dataclass(self) else ""
        return self.name + (f"({options})" if options else "")


@dataclass(frozen=True, kw_only=True, repr=False)
class RankMetric(Metric):
    """A metric of this package, computed by a kernel; it prints as its expression.

    A document with a score of −inf was not retrieved: it has no rank, but its label counts in totals and in the ideal.
    """

    __signature__: ClassVar[object] = PlainSignature()
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
    of_every_query: ClassVar[bool] = False
    """Whether it is defined for queries without relevant documents too; ``empty`` cannot be set then."""
    fixed: ClassVar[tuple[str, ...]] = ()
    """Options that its definition leaves no choice of: they cannot be set."""

    cutoff: Annotated[int | None, AtLeast(1)] = None
    """The last rank that counts; None for all ranks."""
    ties: Annotated[str, OneOf(TIES, "way to treat ties")] = "average"
    """Equal scores: the exact "average" over all orders, the "row" order, or the "worst" or "best" order."""
    empty: str | int = "skip"
    """Value of a query without relevant documents: "skip" (NaN, left out of means), 0 or 1."""
    label: str | None = None
    """Name of the labels in ``more_labels`` of a data set that it reads; None for ``labels``."""
    judged_only: Annotated[bool, "Rank judged documents alone."] = False
    """Whether documents that were never judged are taken out of the ranking, by the column ``judged``."""

    def __post_init__(self) -> None:
        check_declared(self)
        if self.cutoff is not None:
            object.__setattr__(self, "cutoff", int(self.cutoff))
        if isinstance(self.empty, bool) or self.empty not in ("skip", 0, 1):
            raise check.error("empty must be skip, 0 or 1", got=repr(self.empty))
        if self.of_every_query and self.empty != "skip":
            what = f"{self.name} is defined for every query, with relevant documents or without"
            raise check.error(what, got=f"empty={self.empty!r}", hint="leave empty out")
        for one in fields(self):
            if one.name in self.fixed and (value := getattr(self, one.name)) != one.default:
                got = f"@{value}" if one.name == "cutoff" else f"{one.name}={value}"
                raise check.error(f"{self.name} has no {one.name}", got=got, hint="leave it out")
        if self.label is not None:
            table.check_name("more_labels", self.label)
            if "labels" not in self.reads:
                raise check.error(f"{self.name} reads no labels", got=f"label={self.label}", hint="leave label out")
            # Who judged labels, and how documents were drawn for that, says nothing about labels by name.
            named = tuple(f"more_labels.{self.label}" if name == "labels" else name for name in self.reads)
            object.__setattr__(self, "reads", named)
            object.__setattr__(self, "accepts", ())
        if self.judged_only:
            if self.label is not None or not {"labels", "more_labels"} & {*self.reads}:
                what, hint = f"nobody says who judged what {self.name} reads", "leave judged_only out"
                raise check.error(what, got=", ".join(self.reads), hint=hint)
            object.__setattr__(self, "accepts", tuple(dict.fromkeys((*self.accepts, "judged"))))

    def values(self, scores: Array, labels: Array, offsets: Offsets, *args: Any, **columns: Any) -> Array:
        """Return one number per query, computed by the kernel."""
        if self.label is not None:
            labels = columns.pop("more_labels")[self.label]
        if self.judged_only:
            scores = self._of_judged(scores, columns)
        out = np.empty(offsets.size - 1)
        cutoff = NO_CUTOFF if self.cutoff is None else self.cutoff
        empty = 0.0 if self.of_every_query else np.nan if self.empty == "skip" else float(self.empty)
        kernel, *settings = self._kernel(longest(offsets))
        settings += self._columns(offsets, **columns)
        arguments = (scores, labels, cutoff, TIES[self.ties], *settings)
        arrays = (read_only(value) if isinstance(value, np.ndarray) else value for value in arguments)
        over_queries(kernel, read_only(offsets), *arrays, empty, out)
        if np.isposinf(out).any():
            raise self._label_error(labels, offsets)
        return out

    def _of_judged(self, scores: Array, columns: Keywords) -> Array:
        """Return scores that retrieve no document without a judgement; the column stays for kernels that read it."""
        judged = columns.get("judged") if "judged" in type(self).accepts else columns.pop("judged", None)
        return scores if judged is None else np.where(judged == 1, scores, -np.inf)

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

    def _columns(self, offsets: Offsets, **columns: Any) -> tuple[Column, ...]:
        """Return the arguments of the kernel after those of :meth:`_kernel`: the columns that the metric reads."""
        return tuple(columns.values())

    def _label_error(self, labels: Array, offsets: Offsets) -> ValueError:
        """Return the error that names a label without a gain."""
        return label_error(labels, offsets, getattr(self, "gain", "linear"))


@dataclass(frozen=True, kw_only=True, repr=False)
class BinaryMetric(RankMetric):
    """A metric for which a document is either relevant or not."""

    relevant: Annotated[float, Within(0.0, 1e300, open=True)] = 1
    """The lowest label that counts as relevant."""


@dataclass(frozen=True, repr=False)
class FunctionMetric(Metric):
    """A function as a metric."""

    name: ClassVar[str] = "function"
    function: MetricFunction

    def values(self, scores: Array, labels: Array, offsets: Offsets, *args: Any, **columns: Any) -> ArrayLike:
        """Call the function."""
        return self.function(scores, labels, offsets)

    def __str__(self) -> str:
        name = registry.name_of(self.function) or getattr(self.function, "name", None)
        return str(name or getattr(self.function, "__name__", ""))

    __repr__ = __str__


def lists_for(
    metrics: Iterable[Metric], data: RankingDataset, queries: NDArray[np.int64] | None = None
) -> RankingDataset:
    """Return the columns that metrics read, of these queries, which may be repeated: data without features."""
    read = {"labels"}.union(*map(_columns_of, metrics))
    numbers = np.arange(data.n_queries) if queries is None else queries
    rows, offsets = rows_of(numbers, data.offsets)
    columns = table.take(data, rows, numbers, leave_out=set(table.names()) - read)
    return RankingDataset(np.empty((offsets[-1], 0)), offsets=offsets, **columns)


def _columns_of(metric: Metric) -> set[str]:
    """Return the names of the columns that a metric reads or accepts."""
    return {name.partition(".")[0] for name in (*metric.reads, *metric.accepts)} - {"labels"}


def checked_name(metric: Metric, lookup: Callable[[str], Metric | None]) -> Metric:
    """Raise if a custom metric has no name, or the name of another metric: files and tables identify metrics by name.

    ``lookup`` returns the metric that has a name already.
    """
    for name in ("reads", "accepts"):
        if isinstance(columns := getattr(metric, name), str):
            what, hint = f"{name} of a metric must be a tuple of names", f'write {name} = ("{columns}",)'
            raise check.error(what, got=repr(columns), hint=hint)
    for column in _columns_of(metric) - {*table.names()}:
        hint = check.suggestion(column, table.names())
        raise check.error("a metric reads columns of a data set", got=repr(column), hint=hint)
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
