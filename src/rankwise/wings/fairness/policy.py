"""How good are scores that are served at random? Expected metrics and exposure under Plackett-Luce rankings.

Where documents of about the same worth should be seen about as often, rankings are drawn anew for every visitor: each
next document by the softmax of the scores that are left. What such a policy is worth is an expectation over rankings,
estimated here from draws, with the standard error that the draws leave.
"""

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import Evaluation, RankingDataset, Stream, check, moved
from rankwise.base.arrays import Array, Json, Keywords, offsets_of
from rankwise.base.tables import Table
from rankwise.metrics import Metric
from rankwise.metrics.gains import discounts
from rankwise.objectives import sample_rankings
from rankwise.statistics import Titles, judgements_of
from rankwise.wings.fairness.groups import GroupExposure, GroupMoments, Moments

if TYPE_CHECKING:
    import polars as pl


POLICIES = ("plackett_luce", "deterministic")
_APART = 1000.0  # scores whose order is certain, e^1000 to 1
_AT_ONCE = 32  # rankings that are held in memory; a fixed number, so that draws do not depend on the data's size


@moved.renamed("rw.results.PolicyEvaluation")
@dataclass(frozen=True, eq=False, repr=False)
class PolicyEvaluation(Evaluation):
    """The expected values of metrics on every query, and how much each document is seen, under random rankings.

    The interval of a mean resamples queries, as that of a fixed ranking does, and so holds the noise of the draws too.
    """

    _: KW_ONLY
    policy: str
    samples: int
    """How many rankings of each query were drawn."""
    exposure_cutoff: int | None = None
    """Only documents among the first so many ranks are exposed; None: all are."""
    errors: dict[str, Array]
    """Metric -> (n_queries,) standard errors of the values, from the draws."""
    exposure: Array
    """(n_docs,) the expected 1/log2(1 + rank) of each document: 1 if it always comes first, 0 if it is never shown."""
    exposure_error: Array
    """(n_docs,) standard errors of the exposure, from the draws."""
    data: RankingDataset
    groups: GroupExposure | None = None
    """What each group gets of the exposure, and how unfair that is, where the data have groups."""

    @cached_property
    def exposure_interval(self) -> tuple[Array, Array]:
        """(n_docs,) lower and upper ends of each document's confidence interval."""
        from scipy.special import ndtri

        reach = float(ndtri(0.5 + self.level / 2.0)) * self.exposure_error
        return np.maximum(self.exposure - reach, 0.0), np.minimum(self.exposure + reach, 1.0)

    def exposure_frame(self) -> "pl.DataFrame":
        """One row per document: query, document (its id, or its number within the query), label, exposure, interval."""
        import polars as pl

        data = self.data
        numbers = np.arange(data.n_docs) - np.repeat(data.offsets[:-1], data.sizes)
        low, high = self.exposure_interval
        return pl.DataFrame(
            {
                "query": data.qids(),
                "document": numbers if data.document_ids is None else data.document_ids,
                "label": data.labels,
                "exposure": self.exposure,
                "error": self.exposure_error,
                "low": low,
                "high": high,
            }
        )

    def to_dict(self) -> Json:
        """Return the :meth:`summary` and the policy as JSON-serializable data."""
        facts = {"policy": self.policy, "samples": self.samples, "exposure_cutoff": self.exposure_cutoff}
        return {**super().to_dict(), **facts, **({} if self.groups is None else self.groups.to_dict())}

    def tables(self, *, titles: Titles | None = None) -> list[Table]:
        """Return the table of metrics, that of segments, and of data with groups those of shares and disparity."""
        return super().tables(titles=titles) + ([] if self.groups is None else self.groups.tables())


def evaluate_policy(
    scores: ArrayLike,
    data: RankingDataset,
    metrics: Sequence[Metric],
    policy: str,
    samples: int | None,
    exposure_cutoff: int | None,
    settings: Keywords,
) -> PolicyEvaluation:
    """Draw rankings from the scores and average metrics and exposure over them; see :func:`rankwise.evaluate`.

    ``settings`` are those of intervals: seed, level and resamples.
    """
    check.choice("policy", policy, POLICIES)
    samples = check.integer("samples", 256 if samples is None else samples, least=2)
    values = check.scores(scores, data.offsets, data.query_ids)
    exposure, columns = Moments(data.n_docs), {str(one): Moments(data.n_queries) for one in metrics}
    groups = GroupMoments(data)
    discount = discounts(int(data.sizes.max(initial=0)))
    if exposure_cutoff is not None:
        shown_ranks = np.arange(discount.size) < check.integer("exposure_cutoff", exposure_cutoff, least=1)
        discount = np.where(shown_ranks, discount, 0.0)
    if policy == "deterministic":
        values = _far_apart(values, data)
    for ranks in _rankings(values, data, Stream(settings["seed"], query_ids=data.query_ids).child("rankings"), samples):
        shown = ranks > 0
        seen = np.where(shown, discount[ranks - shown], 0.0)
        exposure.add(seen)
        groups.add(seen)
        order = np.where(shown, -ranks.astype(np.float64), -np.inf)
        for one, column in zip(metrics, columns.values(), strict=True):
            column.add(one.of(order, data))
    return PolicyEvaluation(
        {name: column.mean() for name, column in columns.items()},
        np.arange(data.n_queries) if data.query_ids is None else data.query_ids,
        data.weights,
        **settings,
        policy=policy,
        samples=samples,
        errors={name: column.error() for name, column in columns.items()},
        exposure=exposure.mean(),
        exposure_error=exposure.error(),
        exposure_cutoff=exposure_cutoff,
        data=data,
        judgements=judgements_of(data, metrics),
        groups=groups.finish(exposure.mean(), settings),
        candidates=getattr(data, "candidates", ""),  # of lists of texts
    )


def _far_apart(scores: Array, data: RankingDataset) -> Array:
    """Scores of the same order, so far apart that draws from them are that order, with equal ones at random."""
    queries = np.repeat(np.arange(data.n_queries), data.sizes)
    order = np.lexsort((scores, queries))
    ranked = scores[order]
    level = np.cumsum(np.concatenate(([False], ranked[1:] != ranked[:-1])))
    spread = np.full(scores.size, -np.inf)
    spread[order] = _APART * level
    return np.where(scores > -np.inf, spread, -np.inf)


def _rankings(scores: Array, data: RankingDataset, stream: Stream, samples: int) -> Iterable[NDArray[np.int64]]:
    """Draw rankings: the rank of every document from 1, or 0 for one with score −inf, which is never shown."""
    rows = np.flatnonzero(scores > -np.inf)
    queries = np.repeat(np.arange(data.n_queries), data.sizes)[rows]
    query_numbers, sizes = np.unique(queries, return_counts=True)
    offsets = offsets_of(sizes)
    starts = np.repeat(offsets[:-1], sizes)
    places = np.arange(rows.size) - starts + 1
    drawn_stream = stream.take(query_numbers, data.n_queries)
    for block in range(0, samples, _AT_ONCE):
        count = min(_AT_ONCE, samples - block)
        block_stream = drawn_stream.child("block", block // _AT_ONCE)
        rankings = sample_rankings(scores[rows], offsets, block_stream, count) if rows.size else [rows] * count
        for drawn in rankings:
            ranks = np.zeros(data.n_docs, np.int64)
            ranks[rows[starts + drawn]] = places
            yield ranks
