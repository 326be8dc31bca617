"""Diversity metrics: how well the first ranks cover the aspects of a query, as TREC's ndeval computes them.

An aspect (intent, subtopic) of a query is a named label for which the query has a relevant document. The metrics are
means over aspects of a metric of one label, so that averaged ties are exact as they are there. alpha-NDCG, nERR-IA and
nNRBP divide by the value of the best ranking. Since that is NP-hard to find, it is the greedy one, as in ndeval: each
rank gets the document that adds most, and of equal ones that with the last id, or the first row of data without ids.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from rankwise import check
from rankwise.base.arrays import Array, Column, Ids, Offsets, read_only
from rankwise.base.compiling import kernel
from rankwise.base.threads import over_queries
from rankwise.check.parameters import Within
from rankwise.metrics import AP, Hit, Precision, RankMetric
from rankwise.metrics.base import BinaryMetric, KernelCall
from rankwise.metrics.err import cascade
from rankwise.metrics.gains import NO_CUTOFF, discounts, longest, relevance_rule

_NOTHING = 1e-18
_GOALS = (
    *("basket", "booking", "bookings", "buy", "buys", "cart", "dwell", "gain", "gains", "margin", "order", "orders"),
    *("price", "profit", "profits", "purchases", "rating", "ratings", "revenue", "reward", "rewards", "sale", "sales"),
)  # names of labels that are no aspects, beside those of answers
_GREEDY = (0.0, math.e / (math.e - 1.0))  # what a greedy choice of a submodular gain guarantees


@dataclass(frozen=True, kw_only=True, repr=False)
class AspectMetric(BinaryMetric):
    """The mean over the aspects of a query of a metric of one label.

    >>> from rankwise.data.dataset import RankingDataset
    >>> aspects = {"cat": [1, 1, 0], "car": [0, 0, 1]}
    >>> data = RankingDataset([[3.0], [2.0], [1.0]], [0, 0, 0], [0, 3], more_labels=aspects)
    >>> metrics = PrecisionIA(cutoff=2), APIA(), AlphaNDCG(cutoff=2), ERRIA(cutoff=2), NoveltyRBP()
    >>> {str(metric): metric.of([3.0, 2.0, 1.0], data).round(4).item() for metric in metrics}
    {'precision_ia@2': 0.5, 'ap_ia': 0.6667, 'alpha_ndcg@2': 0.8066, 'err_ia@2': 0.5, 'nrbp_ia': 0.5625}
    >>> PrecisionIA(cutoff=1)([3.0, 2.0, 1.0], [0, 0, 0], [0, 3], more_labels=aspects)
    array([0.5])
    """

    reads: ClassVar[tuple[str, ...]] = ("more_labels",)
    accepts: ClassVar[tuple[str, ...]] = ("document_ids",)
    source: ClassVar[str] = "name the labels of each aspect where the data are read"
    aspects: tuple[str, ...] | None = None
    """Names of the labels that are aspects; None for all named labels."""

    def __post_init__(self) -> None:
        if self.label is not None:
            what, hint = f"{self.name} reads several labels", f"set aspects={self.label}"
            raise check.error(what, got=f"label={self.label}", hint=hint)
        super().__post_init__()
        check.choice(f"way to treat ties of {self.name}", self.ties, ("average", "row"))
        if self.aspects is not None:
            names: object = self.aspects  # an expression has a bare word for one aspect
            chosen = (names,) if isinstance(names, str) else tuple(dict.fromkeys(self.aspects))
            object.__setattr__(self, "aspects", chosen)
            object.__setattr__(self, "reads", tuple(f"more_labels.{name}" for name in chosen))

    def values(
        self,
        scores: Array,
        labels: Array,
        offsets: Offsets,
        more_labels: Mapping[str, Array],
        document_ids: Ids | None = None,
        **columns: Any,
    ) -> Array:
        """Return one number per query, of labels by name."""
        if self.aspects is None:
            self._warn_of_goals(tuple(more_labels))
        of_aspects = [*more_labels.values()]
        single = replace(self, empty="skip")  # NaN of an aspect for which the query has nothing relevant
        values = np.stack([RankMetric.values(single, scores, column, offsets, **columns) for column in of_aspects])
        n_aspects = (~np.isnan(values)).sum(axis=0)
        divisors = np.where(n_aspects > 0, self._divisors(n_aspects, of_aspects, offsets, document_ids), 1.0)
        empty = np.nan if self.empty == "skip" else float(self.empty)
        return np.where(n_aspects > 0, np.nansum(values, axis=0) / divisors, empty)

    def _warn_of_goals(self, names: tuple[str, ...]) -> None:
        """Warn of labels that are taken for aspects and are probably goals, by their names."""
        goals = [name for name in names if is_goal(name)]
        if goals:
            aspects = ", ".join(name for name in names if name not in goals) or "…"
            what = f"{self} takes every named label for an aspect of the query, also {', '.join(goals)}"
            check.warn(what, hint=f"name those that are: aspects=({aspects})", stacklevel=5)

    def _divisors(self, n_aspects: Offsets, columns: list[Array], offsets: Offsets, ids: Ids | None) -> Column:
        """Return what the sum over aspects is divided by."""
        return n_aspects


@dataclass(frozen=True, kw_only=True, repr=False)
class PrecisionIA(AspectMetric, Precision):
    """Intent-aware precision: the mean over aspects (ndeval's P-IA)."""

    name: ClassVar[str] = "precision_ia"


@dataclass(frozen=True, kw_only=True, repr=False)
class APIA(AspectMetric, AP):
    """Intent-aware average precision: the mean over aspects (ndeval's MAP-IA)."""

    name: ClassVar[str] = "ap_ia"


@dataclass(frozen=True, kw_only=True, repr=False)
class SubtopicRecall(AspectMetric, Hit):
    """The share of a query's aspects that have a relevant document up to the cutoff (ndeval's strec)."""

    name: ClassVar[str] = "strec"


@dataclass(frozen=True, kw_only=True, repr=False)
class NoveltyMetric(AspectMetric):
    """Σ_r w_r·Σ_a (1 − alpha)^(documents of aspect a above), over the aspects a of the document at rank r."""

    by_ideal: ClassVar[bool] = False
    """Whether it divides by the greedy ranking of the query, or by documents that have every aspect."""
    alpha: Annotated[float, Within(0.0, 1.0, open=True)] = 0.5
    """How much of the gain of an aspect each further document of it loses."""

    def _weights(self, longest: int) -> Array:
        return discounts(longest)

    def _kernel(self, longest: int) -> KernelCall:
        return cascade, relevance_rule(self.relevant), 1.0 / self.alpha, self._weights(longest)

    def _divisors(self, n_aspects: Offsets, columns: list[Array], offsets: Offsets, ids: Ids | None) -> Column:
        if not self.by_ideal:
            depth = self.cutoff or int(np.log(_NOTHING) / np.log1p(-self.alpha)) + 1  # later terms vanish
            return n_aspects * self.alpha * float(self._weights(depth) @ (1.0 - self.alpha) ** np.arange(depth))
        relevant = np.stack([column >= self.relevant for column in columns], axis=1)
        rows = np.flatnonzero(relevant.any(axis=1))
        starts = np.searchsorted(rows, offsets)
        if ids is not None:  # in each query the last id first
            _, places = np.unique(ids[rows].astype(np.str_), return_inverse=True)
            rows = rows[np.lexsort((-places, np.repeat(np.arange(offsets.size - 1), np.diff(starts))))]
        best, weights = np.zeros(offsets.size - 1), self._weights(longest(starts))
        cutoff = NO_CUTOFF if self.cutoff is None else self.cutoff
        arguments = read_only(relevant[rows]), read_only(weights), 1.0 - self.alpha, cutoff
        over_queries(_greedy, read_only(starts), *arguments, best)
        return self.alpha * best


@dataclass(frozen=True, kw_only=True, repr=False)
class AlphaDCG(NoveltyMetric):
    """DCG whose gains are aspects, over that of documents that have every aspect of the query (Clarke et al. 2008)."""

    name: ClassVar[str] = "alpha_dcg"


@dataclass(frozen=True, kw_only=True, repr=False)
class AlphaNDCG(AlphaDCG):
    """DCG whose gains are aspects, over that of the greedy ranking; it may exceed 1, which is not the optimum."""

    name: ClassVar[str] = "alpha_ndcg"
    bounds: ClassVar[tuple[float, float]] = _GREEDY
    by_ideal: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True, repr=False)
class ERRIA(NoveltyMetric):
    """Intent-aware expected reciprocal rank, over that of documents that have every aspect (Chapelle et al. 2009).

    A relevant document satisfies a reader of its aspect with probability ``alpha``.
    """

    name: ClassVar[str] = "err_ia"

    def _weights(self, longest: int) -> Array:
        return 1.0 / np.arange(1.0, longest + 1.0)


@dataclass(frozen=True, kw_only=True, repr=False)
class NERRIA(ERRIA):
    """Intent-aware expected reciprocal rank over that of the greedy ranking; it may exceed 1."""

    name: ClassVar[str] = "nerr_ia"
    bounds: ClassVar[tuple[float, float]] = _GREEDY
    by_ideal: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True, repr=False)
class NoveltyRBP(NoveltyMetric):
    """Novelty- and rank-biased precision, over that of documents that have every aspect (Clarke et al. 2009).

    ndeval and ir_measures call it NRBP; ``nrbp`` here is rank-biased precision of one label, normalised.
    """

    name: ClassVar[str] = "nrbp_ia"
    beta: Annotated[float, Within(0.0, 1.0, open=True)] = 0.5
    """Probability that a reader continues to the next rank."""

    def _weights(self, longest: int) -> Array:
        weights: Array = self.beta ** np.arange(float(longest))
        return weights


@dataclass(frozen=True, kw_only=True, repr=False)
class NoveltyNRBP(NoveltyRBP):
    """Novelty- and rank-biased precision over that of the greedy ranking; it may exceed 1."""

    name: ClassVar[str] = "nnrbp_ia"
    bounds: ClassVar[tuple[float, float]] = _GREEDY
    by_ideal: ClassVar[bool] = True


def is_goal(name: str) -> bool:
    """Whether labels of this name are probably a goal of its own, and no aspect of queries.

    >>> [name for name in ("cat", "purchase", "is_clicked", "margin", "aspect_2") if is_goal(name)]
    ['purchase', 'is_clicked', 'margin']
    """
    from rankwise.quality.leakage import suspects  # which only these metrics ask, and few of them

    return bool(suspects([name])) or name.lower() in _GOALS


@kernel
def _greedy(first, last, offsets, relevant, weights, passing, cutoff, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with the value of each query's greedy ranking; of documents that add the same, the first is next."""
    for q in range(first, last):
        rows = relevant[offsets[q] : offsets[q + 1]]
        gains, limits = np.ones(rows.shape[1]), np.full(rows.shape[0], np.inf)
        out[q] = 0.0
        for rank in range(min(rows.shape[0], cutoff)):
            best, added = 0, -1.0
            for i in range(rows.shape[0]):
                if limits[i] > added:  # what a document adds only falls, so that others need not be looked at
                    limits[i] = 0.0
                    for a in range(gains.size):
                        limits[i] += gains[a] * rows[i, a]
                    if limits[i] > added:
                        best, added = i, limits[i]
            out[q] += weights[rank] * added
            limits[best] = -np.inf
            for a in range(gains.size):
                gains[a] *= passing if rows[best, a] else 1.0
