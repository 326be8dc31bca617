"""Relevance and position bias fitted together, with one relevance per document or one that is a function of features.

With features it is regression EM (Wang et al. 2018; with trust, Agarwal et al. 2019), see ``em_trees``. With one
relevance per document, its clicks are compared with each other and the relevance drops out: given how often a document
was clicked in all, clicks at position k have a share proportional to impressions · α_k, whatever the relevance. With
trust, clicks at k are regressed on an estimate of the relevance from the other positions; its noise, which would
flatten the slope, is known and subtracted.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize, root
from scipy.stats import norm

from rankwise import check
from rankwise.arrays import Array, read_only
from rankwise.clicks.bias import Bias
from rankwise.clicks.harvest import Numbers, Swaps, spans, sums_by
from rankwise.clicks.log import Log
from rankwise.statistics.significance import RESAMPLED

PBM = "clicks are examination times relevance: no trust, and no memory of the documents above"
TRUST = (
    "clicks are alpha times relevance plus beta; relevance is the click rate at the first position, trust there "
    "included, so that beta is 0 there and relative to it elsewhere"
)
_DOCUMENTS = "every document of a query has a relevance of its own"
_AGREEMENT = 0.02  # between curves that are the same, on the log scale
_WIDEST = 0.5  # standard error of a logarithm that still says something


@dataclass(frozen=True, eq=False)
class Curves:
    """log α and β by position, with their standard errors."""

    logs: Array
    beta: Array
    logs_error: Array
    beta_error: Array
    value: float = 0.0
    """The log-likelihood."""

    def bias(self, method: str, level: float, assumptions: tuple[str, ...], pbm: Bias | None = None) -> Bias:
        """Return the bias, with intervals of α that are symmetric on the log scale."""
        width = norm.ppf(0.5 + level / 2.0)
        columns = {
            "alpha": np.exp(self.logs),
            "alpha_low": np.exp(self.logs - width * self.logs_error),
            "alpha_high": np.exp(self.logs + width * self.logs_error),
            "beta": self.beta,
            "beta_low": self.beta - width * self.beta_error,
            "beta_high": self.beta + width * self.beta_error,
        }
        columns = {name: read_only(column) for name, column in columns.items()}
        return Bias(**columns, method=method, level=level, assumptions=assumptions, pbm=pbm)

    def check_agreement(self, fits: Sequence["Curves"]) -> None:
        """Raise an error where other starts ended in curves that differ by more than their intervals."""
        for other in fits:
            scale = np.exp(-self.logs)
            gaps = np.maximum(np.abs(other.logs - self.logs), np.abs(other.beta - self.beta) * scale)
            wrong = gaps > _AGREEMENT + 2.0 * np.maximum(self.logs_error, self.beta_error * scale)
            if wrong.any():
                got = f"several starts end in different curves at positions {spans(np.flatnonzero(wrong) + 1)}"
                raise unidentified(got, trust=bool(self.beta.any()))


@dataclass(frozen=True, eq=False)
class Counts:
    """Impressions and clicks by document and position, over all rankers."""

    units: Numbers
    """The document of each row, sorted."""
    positions: Numbers
    """From 0."""
    shown: Array
    clicks: Array
    pairs: Numbers
    """The pair of each document in the log; in two segments it is two documents, as in harvesting."""
    queries: Numbers
    """The query of each document."""
    n_positions: int
    n_queries: int

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
        positions = cells % log.n_positions
        return cls(units, positions, shown, clicks, pairs, queries, log.n_positions, log.n_queries)

    def part(self, rows: NDArray[np.bool_]) -> Self:
        """Return some rows of the same documents."""
        columns = {name: getattr(self, name)[rows] for name in ("units", "positions", "shown", "clicks")}
        return replace(self, **columns)

    def by_query(self, column: Array) -> Array:
        """Return sums by query and position."""
        places = self.queries[self.units] * self.n_positions + self.positions
        return sums_by(places, column, self.n_queries * self.n_positions).reshape(-1, self.n_positions)

    def by_unit(self, column: Array) -> Array:
        """Return sums by document, for each row."""
        return sums_by(self.units, column)[self.units]


def by_document(log: Log, level: float) -> Bias:
    """Return the bias without trust, with one relevance per document."""
    Swaps.of(log, log.pairs).check_connected("a document")
    counts = Counts.of(log)
    clicks = counts.by_unit(counts.clicks)
    scale = 1.0 / max(float(counts.clicks.sum()), 1.0)

    def expected(logs: Array) -> tuple[Array, Array]:
        exposure = counts.shown * np.exp(logs)[counts.positions]
        total = counts.by_unit(exposure)
        return clicks * exposure / total, total

    def loss(free: Array) -> tuple[float, Array]:
        logs = np.append(0.0, free)
        mean, total = expected(logs)
        gradient = sums_by(counts.positions, mean - counts.clicks)
        return float(scale * (counts.clicks @ (np.log(total) - logs[counts.positions]))), scale * gradient[1:]

    options = {"gtol": 1e-11, "ftol": 1e-16, "maxiter": 1000, "maxcor": 20}
    solution = minimize(loss, np.zeros(counts.n_positions - 1), jac=True, method="L-BFGS-B", options=options)
    logs = np.append(0.0, solution.x)
    mean, _ = expected(logs)
    share = sparse.csr_array((mean / np.sqrt(np.maximum(clicks, 1e-300)), (counts.units, counts.positions)))
    information = np.diag(sums_by(counts.positions, mean)) - (share.T @ share).todense()
    errors = _sandwich(np.asarray(information)[1:, 1:], counts.by_query(counts.clicks - mean)[:, 1:])
    none = np.zeros(logs.size)
    return Curves(logs, none, np.append(0.0, errors), none).bias("em", level, (PBM, _DOCUMENTS))


def trusting_starts(counts: Counts, logs: Array) -> list[tuple[Array, Array]]:
    """Return curves that explain a part of all clicks below the first position by trust."""
    clicks, shown = (sums_by(counts.positions, column) for column in (counts.clicks, counts.shown))
    below = np.arange(logs.size) > 0
    return [(logs + below * np.log1p(-part), part * below * clicks / shown) for part in (0.0, 0.3)]


def with_trust(log: Log, pbm: Bias) -> Bias:
    """Return the bias with trust beside one without it, with one relevance per document."""
    counts = Counts.of(log)
    measured = (counts.shown > 1.0).astype(np.float64)  # noise needs two impressions to be known
    counts = counts.part((measured > 0) & (counts.by_unit(measured) > 1.0))
    missing = np.setdiff1d(np.arange(counts.n_positions), counts.positions)
    if missing.size:
        got = f"no document with two impressions there and two elsewhere at positions {spans(missing + 1)}"
        raise unidentified(got, trust=True)
    equations = _Trust.of(counts, np.log(pbm.alpha))
    fits = [fit for start in trusting_starts(counts, np.log(pbm.alpha)) if (fit := equations.solved(*start))]
    if not fits:
        raise unidentified("no curves that agree with all clicks", trust=True)
    best = min(fits, key=lambda fit: float(np.abs(fit.logs - np.log(pbm.alpha)).max()))
    if (best.logs_error > _WIDEST).any():
        where = spans(np.flatnonzero(best.logs_error > _WIDEST) + 1)
        raise unidentified(f"alpha that may be several times larger or smaller at positions {where}", trust=True)
    best.check_agreement(fits)
    return best.bias(pbm.method, pbm.level, (TRUST, _DOCUMENTS), pbm)


@dataclass(frozen=True, eq=False)
class _Trust:
    """Regressions of clicks at each position on relevance estimated from the others, as equations of the curves."""

    counts: Counts
    """Of documents at several positions."""
    weights: Array

    @classmethod
    def of(cls, counts: Counts, logs: Array) -> Self:
        """Weigh rows by the inverse variance of what the equations compare, up to relevance."""
        exposure = counts.shown * np.exp(logs)[counts.positions]
        total = counts.by_unit(exposure)
        weights = counts.shown * (total - exposure) / total
        return cls(counts, weights / sums_by(counts.positions, weights)[counts.positions])

    def terms(self, logs: Array, beta: Array) -> Array:
        """Return what has mean 0 at the right curves: residuals, and their products with relevance less its noise."""
        counts, place = self.counts, self.counts.positions
        alpha = np.exp(logs)[place]
        noise = counts.clicks * (counts.shown - counts.clicks) / (counts.shown - 1.0)
        columns = counts.shown * alpha, counts.clicks - counts.shown * beta[place], noise
        exposure, excess, noise = (counts.by_unit(column) - column for column in columns)
        relevance = excess / exposure
        residual = counts.clicks / counts.shown - alpha * relevance - beta[place]
        product = residual * relevance + alpha * noise / exposure**2
        return np.array([self.weights * residual, self.weights * product])

    def solved(self, logs: Array, beta: Array) -> Curves | None:
        """Return the curves at which all terms add up to 0, from a start; None without any."""
        size = logs.size

        def sums(free: Array) -> Array:
            terms = self.terms(np.append(0.0, free[: size - 1]), np.append(0.0, free[size - 1 :]))
            return np.concatenate([sums_by(self.counts.positions, term, size)[1:] for term in terms])

        solution = root(sums, np.append(logs[1:], beta[1:]), method="hybr", options={"xtol": 1e-12})
        free: Array = solution.x
        if not solution.success and not np.abs(solution.fun).max() < 1e-10:
            return None
        steps = 1e-5 * np.eye(free.size)
        slopes = np.array([(sums(free + step) - sums(free - step)) / 2e-5 for step in steps]).T
        logs, beta = np.append(0.0, free[: size - 1]), np.append(0.0, free[size - 1 :])
        scores = np.hstack([self.counts.by_query(term)[:, 1:] for term in self.terms(logs, beta)])
        errors = _sandwich(slopes, scores)
        return Curves(logs, beta, np.append(0.0, errors[: size - 1]), np.append(0.0, errors[size - 1 :]))


def _sandwich(slopes: Array, scores: Array) -> Array:
    """Return standard errors of the solution of equations, from their slopes and their terms by query.

    They are NaN with too few queries.
    """
    if len(scores) < RESAMPLED:
        return np.full(len(slopes), np.nan)
    try:
        inverse = np.linalg.inv(slopes)
    except np.linalg.LinAlgError:
        return np.full(len(slopes), np.inf)
    covariance = inverse @ (scores.T @ scores) @ inverse.T * len(scores) / (len(scores) - 1)
    return np.sqrt(np.diag(covariance))


def unidentified(got: str, *, trust: bool) -> ValueError:
    """Build the error of curves that several explanations of the clicks share."""
    several = "log several rankers on the same queries, or shuffle a part of the traffic"
    levels = (
        "documents of very different relevance have to be shown at every position, each at several, or set trust=False"
    )
    what = "alpha and beta" if trust else "alpha"
    return check.error(
        f"{what} of positions are not identified by this log", got=got, hint=levels if trust else several
    )
