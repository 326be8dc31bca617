"""Relevance and position bias fitted together: regression EM (Wang et al. 2018), with trust (Agarwal et al. 2019).

Clicks have the likelihood Σ c log p + (n − c) log(1 − p) with p = α_k R + β_k, where α = 1 and β = 0 at the first
position. EM climbs it slowly where clicks are rare, since most of what it completes is missing, so it is climbed
directly: with one relevance per document, the best one is computed for every document at each step of the curves; with
features, a tree is added and the curves take a Newton step in turn.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit, logit, xlog1py, xlogy
from scipy.stats import norm

from rankwise import check
from rankwise.arrays import Array, Keywords, read_only
from rankwise.clicks.bias import Bias
from rankwise.clicks.harvest import Numbers, Swaps, poisson_counts, spans, sums_by
from rankwise.clicks.log import Log
from rankwise.compiling import kernel
from rankwise.data.dataset import RankingDataset
from rankwise.rankers.trees.lightgbm.model import lightgbm, threads
from rankwise.sparse import for_library
from rankwise.stream import Stream

_ROUNDS, _PASSES = 80, 15  # trees that began with wrong curves do not forget them: in each pass they are fitted anew
_TREES: Keywords = {
    "learning_rate": 0.15,
    "num_leaves": 15,
    "min_data_in_leaf": 20,
    "min_sum_hessian_in_leaf": 1e-3,
    "lambda_l2": 1.0,
    "verbosity": -1,
    "deterministic": True,
    "force_row_wise": True,
}
_REFITS = 20  # samples of queries at most, where each is a training
_SMALLEST = 1e-9  # of the rates of clicks and of missing ones
_LONGEST = 0.5  # step of curves
_AGREEMENT = 0.02  # between curves that are the same, on the log scale
_SINGULAR = 1e-10
_PBM = "clicks are examination times relevance: no trust, and no memory of the documents above"
_TRUST = (
    "clicks are alpha times relevance plus beta; relevance is the click rate at the first position, trust there "
    "included, so that beta is 0 there and relative to it elsewhere"
)
_DOCUMENTS = "every document of a query has a relevance of its own"
_FEATURES = "relevance is a function of the features that trees learn"

Curves = tuple[Array, Array]
"""log α and β by position."""


@dataclass(frozen=True, eq=False)
class _Fit:
    logs: Array
    beta: Array
    value: float
    """The log-likelihood."""

    def bias(self, errors: Array, method: str, level: float, words: tuple[str, ...], pbm: Bias | None = None) -> Bias:
        """Return the curves, with intervals from standard errors of log α and of β, one after the other."""
        of_logs, of_beta = np.split(norm.ppf(0.5 + level / 2.0) * errors, 2)
        columns = {
            "alpha": np.exp(self.logs),
            "alpha_low": np.exp(self.logs - of_logs),
            "alpha_high": np.exp(self.logs + of_logs),
            "beta": self.beta,
            "beta_low": self.beta - of_beta,
            "beta_high": self.beta + of_beta,
        }
        columns = {name: read_only(column) for name, column in columns.items()}
        return Bias(**columns, method=method, level=level, assumptions=words, pbm=pbm)


@dataclass(frozen=True, eq=False)
class Counts:
    """Impressions and clicks by document and position, over all rankers."""

    units: Numbers
    """The document of each row, sorted."""
    offsets: Numbers
    """Where the rows of each document begin."""
    positions: Numbers
    """From 0."""
    shown: Array
    clicks: Array
    pairs: Numbers
    """The pair of each document in the log; in two segments it is two documents, as in harvesting."""
    queries: Numbers
    """The query of each document."""
    n_positions: int

    @classmethod
    def of(cls, log: Log) -> Self:
        """Add up the cells of a log."""
        seen = log.impressions > 0
        keys = (log.pairs * len(log.segment_names) + log.segments) * log.n_positions + log.positions - 1
        cells, number = np.unique(keys[seen], return_inverse=True)
        shown, clicks = (sums_by(number, column[seen]) for column in (log.impressions, log.clicks))
        documents, units = np.unique(cells // log.n_positions, return_inverse=True)
        pairs = documents // len(log.segment_names)
        queries = np.repeat(np.arange(log.n_queries), np.diff(log.offsets))[pairs]
        offsets = np.append(np.flatnonzero(np.diff(units, prepend=-1)), units.size)
        return cls(units, offsets, cells % log.n_positions, shown, clicks, pairs, queries, log.n_positions)

    def rates(self, logs: Array, beta: Array, relevance: Array) -> tuple[Array, Array, Array]:
        """Return click rates of rows, and derivatives of the likelihood by them: the first, and the information."""
        rate = np.exp(logs)[self.positions] * relevance[self.units] + beta[self.positions]
        rate = rate.clip(_SMALLEST, 1.0 - _SMALLEST)
        variance = rate * (1.0 - rate)
        return rate, (self.clicks - self.shown * rate) / variance, self.shown / variance


def estimate(
    log: Log, features: RankingDataset | None, *, trust: bool, samples: int, level: float, stream: Stream
) -> Bias:
    """Return the bias with one relevance per document, or with one that is a function of features."""
    counts = Counts.of(log)
    if features is None:
        Swaps.of(log, log.pairs).check_connected("a document")
        pbm = _by_document(counts, _starts(counts.n_positions), "em", level, (_PBM, _DOCUMENTS))
        return with_trust(log, pbm) if trust else pbm
    if np.unique(log.rankers).size == 1 and counts.units.size == counts.pairs.size:
        raise check.error(
            "position bias is not identified: nothing tells position from relevance",
            got="one ranker that shows every document at one position, which is a function of its features",
            hint="log several rankers on the same queries, or shuffle a part of the traffic",
        )
    forest = _Forest.of(counts, features, log.rows_in(features)[counts.pairs], stream)
    fits = [forest.fit(start) for start in _starts(counts.n_positions)]
    best, errors = forest.checked(fits, samples, log)
    pbm = best.bias(errors, "em", level, (_PBM, _FEATURES))
    if not trust:
        return pbm
    fits = [forest.fit(start, trust=True) for start in _trusting(counts, best.logs)]
    best, errors = forest.checked(fits, samples, log, trust=True)
    return best.bias(errors, "em", level, (_TRUST, _FEATURES), pbm)


def with_trust(log: Log, pbm: Bias) -> Bias:
    """Return the bias with trust beside one without it; every document has a relevance of its own."""
    counts = Counts.of(log)
    return _by_document(counts, _trusting(counts, np.log(pbm.alpha)), pbm.method, pbm.level, (_TRUST, _DOCUMENTS), pbm)


def _starts(n_positions: int) -> list[Curves]:
    places = np.log(np.arange(1, n_positions + 1))
    return [(-power * places, np.zeros(n_positions)) for power in (0.0, 1.0, 2.0)]


def _trusting(counts: Counts, logs: Array) -> list[Curves]:
    """Return curves that explain a part of all clicks below the first position by trust."""
    clicks, shown = (sums_by(counts.positions, column) for column in (counts.clicks, counts.shown))
    below = np.arange(logs.size) > 0
    return [(logs + below * np.log1p(-part), part * below * clicks / shown) for part in (0.0, 0.2, 0.4)]


def _by_document(
    counts: Counts,
    starts: Sequence[Curves],
    method: str,
    level: float,
    words: tuple[str, ...],
    pbm: Bias | None = None,
) -> Bias:
    """Return the curves that make the clicks most likely, with errors from the spread between queries."""
    relevance = np.full(counts.pairs.size, 0.5)
    columns = counts.offsets, counts.positions, counts.shown, counts.clicks
    n_free, trust = counts.n_positions - 1, pbm is not None
    scale = 1.0 / max(float(counts.clicks.sum()), 1.0)

    def curves(free: Array) -> Curves:
        beta = free[n_free:] if trust else np.zeros(n_free)
        return np.append(0.0, free[:n_free]), np.append(0.0, beta)

    def loss(free: Array) -> tuple[float, Array]:
        logs, beta = curves(free)
        gradient = np.zeros((2, counts.n_positions))
        value = _profile(*columns, np.exp(logs), beta, relevance, gradient)
        by_logs = gradient[0, 1:] * np.exp(logs[1:])
        return -scale * value, -scale * (np.append(by_logs, gradient[1, 1:]) if trust else by_logs)

    fits = []
    ends = [(-20.0, 5.0)] * n_free + [(-0.5, 0.99)] * (n_free if trust else 0)
    options = {"gtol": 1e-10, "ftol": 1e-16, "maxiter": 2000, "maxcor": 30}
    for logs, beta in starts:
        begin = np.append(logs[1:], beta[1:]) if trust else logs[1:]
        solution = minimize(loss, begin, jac=True, method="L-BFGS-B", bounds=ends, options=options)
        fits.append(_Fit(*curves(solution.x), -float(solution.fun) / scale))
    best = max(fits, key=lambda fit: fit.value)
    loss(np.append(best.logs[1:], best.beta[1:]) if trust else best.logs[1:])  # for the relevance there
    errors = _errors(counts, best, relevance, trust=trust)
    _check_agreement(fits, best, errors)
    return best.bias(errors, method, level, words, pbm)


@kernel
def _profile(offsets, positions, shown, clicks, alpha, beta, relevance, gradient):  # type: ignore[no-untyped-def]
    """Fill the best relevance of each document in [0, 1], add the gradient by α and β, and return the likelihood."""
    value = 0.0
    for u in range(offsets.size - 1):
        low, high, point = 0.0, 1.0, min(max(relevance[u], 1e-3), 0.999)
        for _ in range(100):  # Newton's method, or halving where it leaves the bracket
            slope = curvature = 0.0
            for i in range(offsets[u], offsets[u + 1]):
                a = alpha[positions[i]]
                rate = min(max(a * point + beta[positions[i]], _SMALLEST), 1.0 - _SMALLEST)
                missed = shown[i] - clicks[i]
                slope += a * (clicks[i] / rate - missed / (1.0 - rate))
                curvature += a * a * (clicks[i] / rate**2 + missed / (1.0 - rate) ** 2)
            if slope > 0.0:
                low = point
            else:
                high = point
            following = point + slope / curvature if curvature > 0.0 else point
            if not low < following < high:
                following = 0.5 * (low + high)
            change = abs(following - point)
            point = following
            if change < 1e-13 or high < 1e-12:
                break
        if high < 1e-12:
            point = 0.0
        relevance[u] = point
        for i in range(offsets[u], offsets[u + 1]):
            k = positions[i]
            rate = min(max(alpha[k] * point + beta[k], _SMALLEST), 1.0 - _SMALLEST)
            missed = shown[i] - clicks[i]
            value += clicks[i] * np.log(rate) + missed * np.log1p(-rate)
            by_rate = clicks[i] / rate - missed / (1.0 - rate)
            gradient[0, k] += by_rate * point
            gradient[1, k] += by_rate
    return value


def _errors(counts: Counts, fit: _Fit, relevance: Array, *, trust: bool) -> Array:
    """Return standard errors of log α and β: the sandwich of scores by query around the profile's information.

    Raise an error if the information is singular.
    """
    size, n_units = counts.n_positions, counts.pairs.size
    rate, score, information = counts.rates(fit.logs, fit.beta, relevance)
    alpha = np.exp(fit.logs)[counts.positions]
    parts = [alpha * relevance[counts.units], np.ones(rate.size)][: 2 if trust else 1]
    places = np.concatenate([counts.positions + size * part for part in range(len(parts))])
    rows, width = np.tile(np.arange(rate.size), len(parts)), size * len(parts)
    slopes = sparse.csr_array((np.concatenate(parts), (rows, places)), shape=(rate.size, width))
    by_unit = sparse.csr_array((np.ones(rate.size), (counts.units, np.arange(rate.size))), shape=(n_units, rate.size))
    inside = (relevance > _SMALLEST) & (relevance < 1.0 - _SMALLEST)
    own = by_unit @ (information * alpha**2)
    crossed = by_unit @ (slopes * (information * alpha)[:, None])
    total = slopes.T @ (slopes * information[:, None]) - crossed.T @ (crossed * (inside / own)[:, None])
    free = np.delete(np.arange(width), np.arange(0, width, size))  # α and β of the first position are fixed
    matrix = np.asarray(total.todense())[np.ix_(free, free)]
    spread = np.sqrt(np.maximum(np.diag(matrix), 1e-300))
    if not np.linalg.eigvalsh(matrix / np.outer(spread, spread))[0] > _SINGULAR:
        raise _unidentified("alpha and beta" if trust else "alpha", "any of several curves makes the clicks as likely")
    by_query = sparse.csr_array((np.ones(n_units), (counts.queries, np.arange(n_units))))
    scores = np.asarray((by_query @ (by_unit @ (slopes * score[:, None]))).todense())[:, free]
    inverse = np.linalg.inv(matrix)
    n_queries = max(len(scores), 2)
    covariance = inverse @ (scores.T @ scores) @ inverse * n_queries / (n_queries - 1)
    errors = np.zeros(2 * size)
    errors[free] = np.sqrt(np.diag(covariance))
    return errors


def _check_agreement(fits: Sequence[_Fit], best: _Fit, errors: Array) -> None:
    """Raise an error where several starts end in curves that differ by more than their intervals."""
    size = best.logs.size
    for fit in fits:
        gaps = np.abs(np.append(fit.logs - best.logs, (fit.beta - best.beta) / np.exp(best.logs)))
        wrong = gaps > np.maximum(_AGREEMENT, 2.0 * np.append(errors[:size], errors[size:] / np.exp(best.logs)))
        if wrong.any():
            where = spans(np.unique(np.flatnonzero(wrong) % size) + 1)
            raise _unidentified(
                "alpha and beta" if best.beta.any() else "alpha",
                f"several starts end in other curves at positions {where}",
            )


def _unidentified(what: str, got: str) -> ValueError:
    both = what == "alpha and beta"
    return check.error(
        f"{what} of positions are not identified by this log",
        got=got,
        hint="documents of very different relevance have to be shown at every position, each at several"
        + (
            " (trust=False needs the latter only)"
            if both
            else ": log several rankers, or shuffle a part of the traffic"
        ),
    )


@dataclass(frozen=True, eq=False)
class _Forest:
    """Relevance as a function of features: boosted trees, with a step of the curves after each."""

    counts: Counts
    data: Any
    """LightGBM's bins of the features, a row per document."""
    parameters: Keywords
    stream: Stream

    @classmethod
    def of(cls, counts: Counts, features: RankingDataset, rows: Numbers, stream: Stream) -> Self:
        """Bin the features of the documents."""
        parameters = {**_TREES, "num_threads": threads(), "seed": stream.seed % 2**31}
        options: Keywords = {"categorical_feature": list(features.categorical), "params": parameters}
        data = lightgbm().Dataset(for_library(features.features[rows]), np.zeros(rows.size), **options)
        return cls(counts, data, parameters, stream)

    def fit(self, start: Curves, times: Array | None = None, *, trust: bool = False) -> _Fit:
        """Fit trees and curves; ``times`` says how often each query counts."""
        counts = self.counts
        of_row = np.ones(counts.units.size) if times is None else times[counts.queries][counts.units]
        logs, beta = (curve.copy() for curve in start)
        for _ in range(_PASSES):
            before = logs
            logs, beta, relevance = self._pass(logs, beta, of_row, trust=trust)
            if np.abs(logs - before).max() < 0.1 * _AGREEMENT:
                break
        rate, _, _ = counts.rates(logs, beta, relevance)
        missed = counts.shown - counts.clicks
        return _Fit(logs, beta, float(of_row @ (xlogy(counts.clicks, rate) + xlog1py(missed, -rate))))

    def _pass(self, logs: Array, beta: Array, of_row: Array, *, trust: bool) -> tuple[Array, Array, Array]:
        """Return curves and relevance after new trees; the curves move once half of them are there."""
        counts, trees = self.counts, 0
        clicks = float(of_row @ (counts.clicks - counts.shown * beta[counts.positions]))
        exposure = float(of_row @ (counts.shown * np.exp(logs)[counts.positions]))
        base = logit(min(max(clicks / max(exposure, 1e-12), 1e-4), 0.9))
        relevance = np.full(counts.pairs.size, expit(base))

        def derivatives(scores: Array, _: object) -> tuple[Array, Array]:
            nonlocal logs, beta, relevance, trees
            relevance = expit(base + scores)
            if trees >= _ROUNDS // 2:
                logs, beta = self._step(logs, beta, relevance, of_row, trust=trust)
            trees += 1
            _, score, information = counts.rates(logs, beta, relevance)
            slope = np.exp(logs)[counts.positions] * (relevance * (1.0 - relevance))[counts.units]
            sums = (of_row * score * slope, of_row * information * slope**2)
            gradient, hessian = (sums_by(counts.units, column, relevance.size) for column in sums)
            return -gradient, hessian

        lightgbm().train({**self.parameters, "objective": derivatives}, self.data, _ROUNDS)
        return logs, beta, relevance

    def _step(self, logs: Array, beta: Array, relevance: Array, of_row: Array, *, trust: bool) -> Curves:
        """Return curves after a step of Newton's method with the expected information, position by position."""
        counts = self.counts
        _, score, information = counts.rates(logs, beta, relevance)
        slope = np.exp(logs)[counts.positions] * relevance[counts.units]

        def sums(column: Array) -> Array:
            return sums_by(counts.positions, of_row * column, logs.size)

        by_logs, own = sums(score * slope), sums(information * slope**2) + 1e-9
        below = np.arange(logs.size) > 0
        if not trust:
            return logs + below * (by_logs / own).clip(-_LONGEST, _LONGEST), beta
        by_beta, other, both = sums(score), sums(information) * (1.0 + 1e-9), sums(information * slope)
        determinant = np.maximum(own * other - both**2, 1e-12 * own * other)
        of_logs = ((by_logs * other - by_beta * both) / determinant).clip(-_LONGEST, _LONGEST)
        of_beta = ((by_beta * own - by_logs * both) / determinant).clip(-0.1, 0.1)
        return logs + below * of_logs, (beta + below * of_beta).clip(-0.5, 0.9)

    def checked(self, fits: Sequence[_Fit], samples: int, log: Log, *, trust: bool = False) -> tuple[_Fit, Array]:
        """Return the most likely fit, after comparison with the others, and errors from samples of queries."""
        best = max(fits, key=lambda fit: fit.value)
        names = Stream(self.stream.seed, query_ids=log.query_ids, path=self.stream.path)
        times = poisson_counts(names.per_query(log.n_queries, min(samples, _REFITS)))
        refits = [self.fit((best.logs, best.beta), column, trust=trust) for column in times.T]
        errors = np.std([np.append(fit.logs, fit.beta) for fit in refits], axis=0, ddof=1)
        _check_agreement(fits, best, errors)
        return best, errors
