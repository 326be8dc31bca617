"""Relevance and position bias fitted together, with one relevance per document or one that is a function of features.

With one relevance per document, its clicks are compared with each other and the relevance drops out: given how often a
document was clicked in all, clicks at position k have a share proportional to impressions · α_k, whatever the
relevance. With trust, clicks at k are regressed on an estimate of the relevance from the other positions; its noise,
which would flatten the slope, is known and subtracted.

With features this is regression EM (Wang et al. 2018). Clicks have the likelihood Σ c log p + (n − c) log(1 − p) with
p = α_k R(x). EM climbs it slowly where clicks are rare, since most of what it completes is missing, so it is climbed
directly: a tree is added to R with the gradient of the likelihood, and the curve takes a Newton step, in turn.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse
from scipy.optimize import root
from scipy.special import expit, logit, xlog1py, xlogy

from rankwise import RankingDataset, Stream, check
from rankwise.base import tables
from rankwise.base.arrays import Array, Keywords
from rankwise.wings.clicks import em, regression
from rankwise.wings.clicks.logs.log import Log
from rankwise.wings.clicks.positions.allpairs import PositionCounts, groups_of, poisson_counts, sums_by

_AGREEMENT = 0.02  # between curves that are the same, on the log scale
_WIDEST = 0.5  # standard error of a logarithm that still says something
_ROUNDS, _PASSES = 80, 15  # trees that began with wrong curves do not forget them: in each pass they are fitted anew
_CHANGE = 0.002  # of curves by a pass, on the log scale, that is the last one
_REFITS = 20  # samples of queries at most: each is a training
_SMALLEST = 1e-9  # of the rates of clicks and of missing ones
_LONGEST = 0.5  # step of a logarithm
_STEPS, _LAST_STEP = 20_000, 1e-11  # of EM, and of its curve
_FARTHEST = 50.0  # of a logarithm from 0


@dataclass(frozen=True, eq=False)
class Curves:
    """log α and β by position, with their standard errors and the degrees of freedom of these."""

    logs: Array
    beta: Array
    logs_error: Array
    beta_error: Array
    logs_freedom: Array | float = np.inf
    beta_freedom: Array | float = np.inf


def by_document(log: Log) -> Curves:
    """Return curves without trust, with one relevance per document."""
    counts = PositionCounts.of(log, log.pairs)
    if counts.n_positions == 1:
        return Curves(*np.zeros((4, 1)))
    clicks = counts.by_unit(counts.clicks)
    moved = (np.bincount(counts.units) > 1)[counts.units]  # others say nothing of positions
    cells = em.Cells(counts.units, counts.positions, counts.shown, counts.clicks).where(moved)
    size = counts.queries.size, counts.n_positions
    examination, *_ = em.fit(cells, size, rare=True, iterations=_STEPS, tolerance=_LAST_STEP)
    logs = np.log(examination)
    exposure = counts.shown * np.exp(logs)[counts.positions]
    mean = clicks * exposure / counts.by_unit(exposure)
    share = sparse.csr_array((mean / np.sqrt(np.maximum(clicks, 1e-300)), (counts.units, counts.positions)))
    information = np.diag(counts.by_position(mean)) - (share.T @ share).toarray()
    errors, freedom = _jackknife(information[1:, 1:], counts.by_query(counts.clicks - mean)[:, 1:])
    none = np.zeros(logs.size)
    return Curves(logs, none, np.append(0.0, errors), none, np.append(np.inf, freedom))


def with_trust(log: Log, plain: Array) -> Curves:
    """Return curves with trust beside log α without it, with one relevance per document."""
    counts = PositionCounts.of(log, log.pairs)
    measured = counts.shown > 1.0  # noise needs two impressions to be known
    rows = measured & (counts.by_unit(measured.astype(np.float64)) > 1.0)
    names = ("units", "positions", "shown", "clicks")
    groups, words = groups_of(log, (2 * counts.n_positions) ** 2)
    counts = replace(counts, queries=groups[counts.queries], n_queries=words.size)
    counts = replace(counts, **{name: getattr(counts, name)[rows] for name in names})
    if missing := sorted(set(range(counts.n_positions)) - set(counts.positions)):
        where = tables.spans(np.array(missing) + 1)
        raise _unidentified(f"no document with two impressions there and two elsewhere at positions {where}")
    exposure = counts.shown * np.exp(plain)[counts.positions]
    total = counts.by_unit(exposure)
    weights = counts.shown * (total - exposure) / total  # inverse variance of what is compared, up to relevance
    weights /= counts.by_position(weights)[counts.positions]
    rates = counts.by_position(counts.clicks) / counts.by_position(counts.shown)
    below = np.arange(plain.size) > 0
    # The starts explain nothing, and a part of all clicks below the first position, by trust.
    starts = [(plain + below * np.log1p(-part), part * below * rates) for part in (0.0, 0.3)]
    fits = [fit for start in starts if (fit := _solved(counts, weights, *start))]
    if not fits:
        raise _unidentified("no curves that agree with all clicks")
    best = min(fits, key=lambda fit: float(np.abs(fit.logs - plain).max()))
    if (best.logs_error > _WIDEST).any():
        where = tables.spans(np.flatnonzero(best.logs_error > _WIDEST) + 1)
        raise _unidentified(f"alpha that may be several times larger or smaller at positions {where}")
    _check_agreement(best, fits)
    return best


def _solved(counts: PositionCounts, weights: Array, logs: Array, beta: Array) -> Curves | None:
    """Return the curves at which residuals, and their products with relevance, add up to 0; None without any."""
    size, place = logs.size, counts.positions
    noise = counts.clicks * (counts.shown - counts.clicks) / (counts.shown - 1.0)
    noise = counts.by_unit(noise) - noise

    def curves(free: Array) -> tuple[Array, Array]:
        return np.append(0.0, free[: size - 1]), np.append(0.0, free[size - 1 :])

    def terms(free: Array) -> Array:
        logs, beta = curves(free)
        alpha = np.exp(logs.clip(-_FARTHEST, _FARTHEST))[place]  # steps of the search may go anywhere
        columns = counts.shown * alpha, counts.clicks - counts.shown * beta[place]
        exposure, excess = (counts.by_unit(column) - column for column in columns)
        exposure = np.maximum(exposure, _SMALLEST)  # less is rounding
        relevance = excess / exposure
        residual = counts.clicks / counts.shown - alpha * relevance - beta[place]
        product = residual * relevance + alpha * noise / exposure**2
        return np.array([weights * residual, weights * product])

    def sums(free: Array) -> Array:
        return np.concatenate([counts.by_position(term)[1:] for term in terms(free)])

    def by_query(free: Array) -> Array:
        return np.hstack([counts.by_query(term)[:, 1:] for term in terms(free)])

    solution = root(sums, np.append(logs[1:], beta[1:]), method="hybr", options={"xtol": 1e-12})
    free: Array = solution.x
    if not solution.success and not np.abs(solution.fun).max() < 1e-10:
        return None
    steps = 1e-5 * np.eye(free.size)
    slopes = np.stack([(by_query(free + step) - by_query(free - step)) / 2e-5 for step in steps], axis=2)
    errors, freedom = _jackknife(slopes, by_query(free))
    return Curves(*curves(free), *curves(errors), *(np.append(np.inf, part) for part in np.split(freedom, 2)))


def _jackknife(slopes: Array, scores: Array) -> tuple[Array, Array]:
    """Return standard errors of the solution of equations, and their degrees of freedom, by leaving out each query.

    ``slopes`` and ``scores`` are the equations' derivatives and terms, by query; without one query, the solution is a
    Newton step away. Derivatives may also be those of the sum, which is the sandwich formula.
    """
    left = slopes.sum(0) - slopes if slopes.ndim > 2 else slopes
    try:
        gaps = np.linalg.solve(left, scores[:, :, None])[..., 0]
    except np.linalg.LinAlgError:
        return np.full(scores.shape[1], np.inf), np.full(scores.shape[1], np.inf)
    n = len(gaps)
    squares = (gaps - gaps.mean(0)) ** 2
    total = squares.sum(0)
    # Twice the square of the variance over the variance of that: few where a few queries make most of it.
    rest = np.maximum((squares**2).sum(0) - total**2 / n, 1e-300)
    more = (n - 1) / n if slopes.ndim > 2 else n / max(n - 1, 1)
    return np.sqrt(total * more), (2.0 * total**2 / rest).clip(1.0, max(n - 1, 1))


def _check_agreement(best: Curves, fits: Sequence[Curves]) -> None:
    """Raise an error where other starts ended in curves that differ by more than their intervals."""
    scale = np.exp(-best.logs)
    for other in fits:
        gaps = np.maximum(np.abs(other.logs - best.logs), np.abs(other.beta - best.beta) * scale)
        wrong = gaps > _AGREEMENT + 2.0 * np.maximum(best.logs_error, best.beta_error * scale)
        if wrong.any():
            where = tables.spans(np.flatnonzero(wrong) + 1)
            raise _unidentified(f"several starts end in different curves at positions {where}")


def _unidentified(got: str) -> ValueError:
    return check.error(
        "position bias is not identified by this log",
        got=got,
        hint="log several rankers on the same queries, or shuffle a part of the traffic; `trust=True` needs documents "
        "of very different relevance at every position, each at several positions",
    )


def by_features(log: Log, features: RankingDataset, samples: int, stream: Stream) -> Curves:
    """Return curves without trust, with relevance as a function of features; several starts have to agree."""
    counts = PositionCounts.of(log, log.pairs)
    if np.unique(log.rankers).size == 1 and counts.units.size == counts.queries.size:
        raise check.error(
            "position bias is not identified: nothing tells position from relevance",
            got="one ranker that shows every document at one position, which is a function of its features",
            hint="log several rankers on the same queries, or shuffle a part of the traffic",
        )
    rows = log.rows_in(features)[log.pairs[counts.cells]]
    trees: Keywords = {"learning_rate": 0.15, "num_leaves": 15, "min_sum_hessian_in_leaf": 1e-3}
    settings = regression.parameters(stream.seed, **trees)
    data = regression.rows_of(features, rows, np.zeros(rows.size), settings)

    def fit(start: Array, times: Array) -> tuple[Array, float]:
        return _with_trees(counts, data, settings, start, times[counts.queries][counts.units])

    places, none = np.log(np.arange(1, counts.n_positions + 1)), np.zeros(counts.n_positions)
    fits = [fit(-power * places, np.ones(log.n_queries)) for power in (0.0, 1.0, 2.0)]
    logs, _ = max(fits, key=lambda outcome: outcome[1])
    refits = [fit(logs, times)[0] for times in poisson_counts(log.query_ids, min(samples, _REFITS), stream)]
    best = Curves(logs, none, np.std(refits, axis=0, ddof=1), none)
    _check_agreement(best, [replace(best, logs=other) for other, _ in fits])
    return best


def _with_trees(
    counts: PositionCounts, data: object, settings: Keywords, logs: Array, weight: Array
) -> tuple[Array, float]:
    """Return log α and its log-likelihood after boosted trees, with a step of the curve after the later ones."""
    units, place = counts.units, counts.positions
    shown, clicks = weight * counts.shown, weight * counts.clicks
    relevance, below = np.zeros(counts.queries.size), np.arange(logs.size) > 0
    trees, base = 0, 0.0

    def rates() -> tuple[Array, Array, Array]:
        """Return click rates of rows, the derivative of the likelihood by them, and the information about them."""
        rate = (np.exp(logs)[place] * relevance[units]).clip(_SMALLEST, 1.0 - _SMALLEST)
        variance = rate * (1.0 - rate)
        return rate, (clicks - shown * rate) / variance, shown / variance

    def derivatives(scores: Array, _: object) -> tuple[Array, Array]:
        nonlocal logs, relevance, trees
        relevance = expit(base + scores)
        if trees >= _ROUNDS // 2:
            rate, score, information = rates()
            step = counts.by_position(score * rate) / (counts.by_position(information * rate**2) + 1e-9)
            logs = logs + below * step.clip(-_LONGEST, _LONGEST)
        trees += 1
        _, score, information = rates()
        slope = np.exp(logs)[place] * (relevance * (1.0 - relevance))[units]
        return -sums_by(units, score * slope), sums_by(units, information * slope**2)

    for _ in range(_PASSES):
        before, trees = logs, 0
        base = float(logit(np.clip(clicks.sum() / max(shown @ np.exp(logs)[place], 1e-12), 1e-4, 0.9)))
        regression.boost(data, settings, derivatives, _ROUNDS)
        if np.abs(logs - before).max() < _CHANGE:
            break
    rate, _, _ = rates()
    return logs, float((xlogy(clicks, rate) + xlog1py(shown - clicks, -rate)).sum())
