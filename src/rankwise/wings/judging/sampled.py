"""Differences of sums over ranks from judgements of sampled documents: Horvitz and Thompson, a judge as control.

A metric such as DCG is Σ discount·gain over documents, and a difference of two systems Σ w·gain, w the difference of a
document's discounts. The judge's gains ĝ give Σ w·ĝ everywhere; its error is estimated from documents that were drawn
with known probabilities π and judged by humans: Σ w·(g − ĝ)/π. That is unbiased whatever the judge is worth.

Documents of probability 1, such as a pilot, are known before the others are drawn. They tell how far each grade of the
judge is off on average, by which ĝ is shifted first.
"""

import math
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.base.arrays import Array, Offsets
from rankwise.metrics import Metric, RankMetric
from rankwise.metrics.dcg import BY_IDEAL, PLAIN, weighted_sum
from rankwise.metrics.gains import Rule, gains_by_rule, longest
from rankwise.wings.judging.prediction_powered import JudgedMean

Mask = NDArray[np.bool_]
_FARTHEST = 4.0  # standard errors between the documents that a sample stands for and those that there are
_FEW = 30  # drawn documents below which that standard error means nothing
_PRIOR = 2.0  # documents by which a grade's mean error is drawn to 0, and its spread to that of all grades


class Discounted(NamedTuple):
    """A metric as a sum over documents: (n_systems, n_docs) discounts, and gains by human and by the judge's grades."""

    title: str
    discounts: Array
    human: Array
    judge: Array


def discounted(metric: Metric, scores: Array, human: Array, judge: Array, offsets: Offsets) -> Discounted:
    """Write a metric as Σ discount·gain over documents, for each row of scores; refuse metrics that are no such sum.

    NDCG is a ratio, whose ideal would be biased by sampled judgements. It is taken over the judge's ideal, which is
    known, and its title says so.

    >>> from rankwise.metrics import metric
    >>> scores, judge = np.array([[3.0, 2.0, 1.0], [2.0, 2.0, 1.0]]), np.array([0.0, 1.0, 0.0])
    >>> discounted(metric("dcg@2"), scores, judge, judge, np.array([0, 3])).discounts.round(4).tolist()
    [[1.0, 0.6309, 0.0], [0.8155, 0.8155, 0.0]]
    """
    ranked, rule, weights, divide = _terms(metric, offsets)
    human_gains, judge_gains = (gains_by_rule(one, offsets, rule, weights, ranked.cutoff) for one in (human, judge))
    for labels, gains in ((human, human_gains), (judge, judge_gains)):
        if np.isnan(gains.dcg).any():
            raise ranked._label_error(labels, offsets)
    discounts = discounts_of(metric, scores, offsets)
    if divide == PLAIN:
        return Discounted(str(metric), discounts, human_gains.gains, judge_gains.gains)
    ideal = np.repeat(np.where(judge_gains.dcg > 0.0, judge_gains.dcg, np.inf), np.diff(offsets))
    return Discounted(f"{metric} over the judge's ideal", discounts / ideal, human_gains.gains, judge_gains.gains)


def discounts_of(metric: Metric, scores: Array, offsets: Offsets) -> Array:
    """Return (n_systems, n_docs) discounts of a metric that is a sum over documents: 0 beyond its cutoff.

    >>> from rankwise.metrics import metric
    >>> discounts_of(metric("ndcg@2"), np.array([[3.0, 2.0, 1.0]]), np.array([0, 3])).round(4).tolist()
    [[1.0, 0.6309, 0.0]]
    """
    ranked, _, weights, _ = _terms(metric, offsets)
    weights = np.where(np.arange(weights.size) < (ranked.cutoff or weights.size), weights, 0.0)
    return np.array([_discounts(weights, row, offsets, ranked.ties) for row in scores])


def _terms(metric: Metric, offsets: Offsets) -> tuple[RankMetric, Rule, Array, int]:
    """Return the metric, the rule of gains, the weights of ranks, and what a query's sum is divided by."""
    function, *arguments = metric._kernel(longest(offsets)) if isinstance(metric, RankMetric) else (None,)
    if not isinstance(metric, RankMetric) or function is not weighted_sum or arguments[2] not in (PLAIN, BY_IDEAL):
        what = f"{metric} is not a sum over documents, and estimates of it from sampled documents would be biased"
        hint = "use dcg@10, precision@10, rbp or ndcg@10, which is taken over the judge's ideal; or judge whole queries"
        raise check.error(what, hint=hint)
    if metric.judged_only:
        raise check.error("estimates from a sample count all documents", got=str(metric), hint="leave judged_only out")
    if metric.ties not in ("average", "row"):
        what = "ties=worst and ties=best depend on labels that are not known"
        raise check.error(what, got=str(metric), hint="use ties=average")
    return metric, *cast("tuple[Rule, Array, int]", tuple(arguments))


def judge_errors(grades: Array, errors: Array, judged: Mask) -> tuple[Array, Offsets, Array, Array]:
    """Estimate the judge's errors by its grade: grades, each document's place among them, mean errors and spreads.

    Only ``judged`` documents tell. Means are drawn towards 0, and spreads towards that of all grades.

    >>> judged = np.array([True, True, True, False])
    >>> grades, _, means, _ = judge_errors(np.array([0.0, 2, 2, 2]), np.array([0.0, -2, -3, 0]), judged)
    >>> grades, means
    (array([0., 2.]), array([ 0.  , -1.25]))
    """
    values, places = np.unique(np.rint(np.nan_to_num(grades, nan=-1.0)), return_inverse=True)
    counts = np.bincount(places, judged, values.size) + _PRIOR
    means = np.bincount(places, np.where(judged, errors, 0.0), values.size) / counts
    squares = np.where(judged, errors - means[places], 0.0) ** 2
    overall = squares.sum() / judged.sum() if squares.any() else 1.0
    spreads = np.sqrt((np.bincount(places, squares, values.size) + _PRIOR * overall) / counts)
    return values, places, means, spreads


def sampled_difference(
    discounts: Array,
    human: Array,
    judge: Array,
    grades: Array,
    probabilities: Array,
    offsets: Offsets,
    copies: NDArray[np.int64] | None = None,
) -> JudgedMean:
    """Estimate the mean over queries of Σ w·gain, w being ``discounts``, from documents judged with ``probabilities``.

    ``human`` and ``judge`` are gains, ``grades`` the judge's. A probability is NaN where a document was not judged. The
    variance is that of independent draws, which is a little too large for a sample of fixed size, and at least as large
    as if one of the documents drawn had been graded wrongly by the spread of the judge's gains: that a sample finds no
    error of a good judge does not prove that there is none. Queries with the same number in ``copies`` are copies of
    one.

    >>> w, human, judge = np.array([1.0, -1.0, 0.5, -0.5]), np.array([3.0, 0.0, 1.0, 0.0]), np.array([1.0, 0.0, 1.0, 0])
    >>> probabilities, offsets = np.array([0.5, np.nan, 0.5, 0.5]), np.array([0, 2, 4])
    >>> corrected = sampled_difference(w, human, judge, judge, probabilities, offsets)
    >>> corrected.judge, corrected.value  # the judge's 1.5 and (3 − 1)/.5 more, of two queries
    (0.75, 2.75)
    """
    n_queries = offsets.size - 1
    query = np.repeat(np.arange(n_queries), np.diff(offsets))
    judged = ~np.isnan(probabilities) & (discounts != 0.0)
    chance = np.where(judged, probabilities, 1.0)
    left = np.where(judged, (1.0 - chance) / chance**2, 0.0)
    _require_same_documents(np.abs(discounts), judged / chance, left)
    _, places, means, _ = judge_errors(grades, human - judge, judged & (chance == 1.0))
    shifted = judge + means[places]
    errors = np.where(judged, discounts * (human - shifted), 0.0)
    values = np.bincount(query, discounts * shifted + errors / chance, n_queries)
    fixed = max(math.fsum(errors**2 * left), _unseen(discounts, judge, left)) / n_queries
    total = float(values.var(ddof=1))
    groups = np.arange(n_queries) if copies is None else np.unique(copies, return_inverse=True)[1]
    n_groups = int(groups.max()) + 1
    if n_groups < n_queries:
        sums = np.bincount(groups, values - values.mean())
        total = max(total, math.fsum(sums**2) / n_queries * n_groups / max(n_groups - 1, 1))
    total = max(total, fixed)
    between = max(total - fixed, 0.0) / total if total else 0.0  # the share of the variance that queries have
    return JudgedMean(
        value=float(values.mean()),
        error=math.sqrt(total / n_queries),
        fixed_error=math.sqrt(fixed / n_queries),
        freedom=max(np.unique(groups[query[judged]]).size, 2) - 1,
        judge=math.fsum(discounts * judge) / n_queries,
        labels=int(judged.sum()),
        worth=between * int((discounts != 0.0).sum()) or None,
    )


def _unseen(discounts: Array, judge: Array, left: Array) -> float:
    """Return the variance of one error as large as the spread of the judge's gains, in the documents drawn."""
    gains = judge[discounts != 0.0]
    square = float(gains.var()) or float(gains.max(initial=0.0)) ** 2 or 1.0
    return square / max(int(np.count_nonzero(left)), 1) * math.fsum(discounts**2 * left)


def _require_same_documents(size: Array, weights: Array, left: Array) -> None:
    """Raise where the sample cannot be one of these documents: Σ |w|/π must be near Σ |w|, which is known."""
    total, estimate, error = math.fsum(size), math.fsum(size * weights), math.sqrt(math.fsum(size**2 * left))
    if not 0 < np.count_nonzero(left) < _FEW and abs(estimate - total) > _FARTHEST * error + 1e-9 * total:
        raise check.error(
            "the judged documents are no sample of those that these systems rank differently",
            got=f"documents that stand for {estimate / total:.0%} of them",
            hint="draw one for these systems and this metric with rw.judging.plan, and judge every document of it",
        )


def _discounts(weights: Array, scores: Array, offsets: Offsets, ties: str) -> Array:
    """Return the weight of the rank of each document; tied documents share theirs, and 0 stands for not retrieved."""
    sizes = np.diff(offsets)
    query = np.repeat(np.arange(sizes.size), sizes)
    order = np.lexsort((-scores, query))
    descending = scores[order]
    discounts = weights[np.arange(scores.size) - np.repeat(offsets[:-1], sizes)]
    if ties == "average":
        group = np.cumsum(np.append(True, (np.diff(query) != 0) | (descending[1:] != descending[:-1]))) - 1
        discounts = np.round(np.bincount(group, discounts) / np.bincount(group), 12)[group]  # equal means are equal
    out = np.empty(scores.size)
    out[order] = np.where(descending > -np.inf, discounts, 0.0)
    return out
