"""Regression EM: relevance is a function of features, learned by trees, and curves of position bias beside it.

Clicks have the likelihood Σ c log p + (n − c) log(1 − p) with p = α_k R(x) + β_k, where α = 1 and β = 0 at the first
position. EM climbs it slowly where clicks are rare, since most of what it completes is missing, so it is climbed
directly: a tree is added to R with the gradient of the likelihood, and the curves take a Newton step, in turn.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.special import expit, logit, xlog1py, xlogy

from rankwise import check
from rankwise.arrays import Array, Keywords
from rankwise.clicks.bias import Bias
from rankwise.clicks.em import PBM, TRUST, Counts, Curves, trusting_starts
from rankwise.clicks.harvest import Numbers, poisson_counts, sums_by
from rankwise.clicks.log import Log
from rankwise.data.dataset import RankingDataset
from rankwise.rankers.trees.lightgbm.model import lightgbm, threads
from rankwise.sparse import for_library
from rankwise.stream import Stream

_ROUNDS, _PASSES = 80, 15  # trees that began with wrong curves do not forget them: in each pass they are fitted anew
_CHANGE = 0.002  # of curves by a pass, on the log scale, that is the last one
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
_REFITS = 20  # samples of queries at most: each is a training
_SMALLEST = 1e-9  # of the rates of clicks and of missing ones
_LONGEST = 0.5  # step of a logarithm
_FEATURES = "relevance is a function of the features that trees learn"


def by_features(log: Log, features: RankingDataset, *, trust: bool, samples: int, level: float, stream: Stream) -> Bias:
    """Return the bias with relevance as a function of features; several starts have to end in the same curves."""
    counts = Counts.of(log)
    if np.unique(log.rankers).size == 1 and counts.units.size == counts.pairs.size:
        raise check.error(
            "position bias is not identified: nothing tells position from relevance",
            got="one ranker that shows every document at one position, which is a function of its features",
            hint="log several rankers on the same queries, or shuffle a part of the traffic",
        )
    forest = _Forest.of(counts, features, log.rows_in(features)[counts.pairs], stream)
    names = Stream(stream.seed, query_ids=log.query_ids, path=stream.path)
    times = poisson_counts(names.per_query(log.n_queries, min(samples, _REFITS))).T
    places = np.log(np.arange(1, counts.n_positions + 1))
    starts = [(-power * places, np.zeros(places.size)) for power in (0.0, 1.0, 2.0)]
    plain = forest.best(starts, times, trust=False)
    pbm = plain.bias("em", level, (PBM, _FEATURES))
    if not trust:
        return pbm
    trusting = forest.best(trusting_starts(counts, plain.logs), times, trust=True)
    return trusting.bias("em", level, (TRUST, _FEATURES), pbm)


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

    def fit(self, logs: Array, beta: Array, times: Array | None = None, *, trust: bool) -> Curves:
        """Fit trees and curves; ``times`` says how often each query counts."""
        counts = self.counts
        of_row = np.ones(counts.units.size) if times is None else times[counts.queries][counts.units]
        for _ in range(_PASSES):
            before = logs
            logs, beta, relevance = self._pass(logs, beta, of_row, trust=trust)
            if np.abs(logs - before).max() < _CHANGE:
                break
        rate, _, _ = self._rates(logs, beta, relevance)
        value = float(of_row @ (xlogy(counts.clicks, rate) + xlog1py(counts.shown - counts.clicks, -rate)))
        return Curves(logs, beta, np.zeros(logs.size), np.zeros(logs.size), value)

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
            _, score, information = self._rates(logs, beta, relevance)
            slope = np.exp(logs)[counts.positions] * (relevance * (1.0 - relevance))[counts.units]
            sums = (of_row * score * slope, of_row * information * slope**2)
            gradient, hessian = (sums_by(counts.units, column, relevance.size) for column in sums)
            return -gradient, hessian

        lightgbm().train({**self.parameters, "objective": derivatives}, self.data, _ROUNDS)
        return logs, beta, relevance

    def _step(self, logs: Array, beta: Array, relevance: Array, of_row: Array, *, trust: bool) -> tuple[Array, Array]:
        """Return curves after a step of Newton's method with the expected information, position by position."""
        counts = self.counts
        _, score, information = self._rates(logs, beta, relevance)
        slope = np.exp(logs)[counts.positions] * relevance[counts.units]

        def sums(column: Array) -> Array:
            return sums_by(counts.positions, of_row * column, logs.size)

        by_logs, of_logs = sums(score * slope), sums(information * slope**2) + 1e-9
        below = np.arange(logs.size) > 0
        if not trust:
            return logs + below * (by_logs / of_logs).clip(-_LONGEST, _LONGEST), beta
        by_beta, of_beta, of_both = sums(score), sums(information) + 1e-9, sums(information * slope)
        determinant = np.maximum(of_logs * of_beta - of_both**2, 1e-12 * of_logs * of_beta)
        step = ((by_logs * of_beta - by_beta * of_both) / determinant).clip(-_LONGEST, _LONGEST)
        rise = ((by_beta * of_logs - by_logs * of_both) / determinant).clip(-0.1, 0.1)
        return logs + below * step, (beta + below * rise).clip(-0.5, 0.9)

    def best(self, starts: Sequence[tuple[Array, Array]], times: Array, *, trust: bool) -> Curves:
        """Return the most likely curves of several starts, which have to agree, with errors from samples of queries."""
        fits = [self.fit(*start, trust=trust) for start in starts]
        best = max(fits, key=lambda fit: fit.value)
        refits = [self.fit(best.logs, best.beta, row, trust=trust) for row in times]
        spreads = (np.std([getattr(fit, name) for fit in refits], axis=0, ddof=1) for name in ("logs", "beta"))
        best = replace(best, logs_error=next(spreads), beta_error=next(spreads))
        best.check_agreement(fits)
        return best

    def _rates(self, logs: Array, beta: Array, relevance: Array) -> tuple[Array, Array, Array]:
        """Return click rates of rows, the derivative of the likelihood by them, and the information about them."""
        counts = self.counts
        rate = np.exp(logs)[counts.positions] * relevance[counts.units] + beta[counts.positions]
        rate = rate.clip(_SMALLEST, 1.0 - _SMALLEST)
        variance = rate * (1.0 - rate)
        return rate, (counts.clicks - counts.shown * rate) / variance, counts.shown / variance
