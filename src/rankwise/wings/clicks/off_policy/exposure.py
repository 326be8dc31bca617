"""Exposure of documents in a log: how often users look at them, as displayed and as expected of the logging rankers."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import RankingDataset, check
from rankwise.base.arrays import Array, offsets_of, read_only
from rankwise.base.compiling import kernel
from rankwise.base.threads import over_queries
from rankwise.evaluation import Scored, scores_of
from rankwise.objectives import sample_rankings
from rankwise.wings.clicks.logs.log import Log

Policy = ArrayLike | Mapping[str, Scored]
"""The logging policy: probabilities of pairs by position, or the scores by which rankers, by name, draw rankings."""

ROUNDING = 1e-6
"""Of probabilities that add up to 1."""
_SAMPLES = 200  # drawn rankings; each counts with the probabilities of all documents at each of its positions


def query_impressions(log: Log) -> Array:
    """Return the number of impressions of each query.

    Without sessions these are, for each ranker, the impressions of the position that was shown most often.

    >>> import polars as pl
    >>> rows = {"query": list("aab"), "document": list("xyx"), "impression": [1, 1, 2], "position": [1, 2, 1]}
    >>> query_impressions(Log.from_rows(pl.LazyFrame(rows | {"clicked": [0, 1, 0]})))
    array([1., 1.])
    """
    if (sessions := log.sessions) is not None:
        queries = log.query_of_pair[sessions.pairs[sessions.offsets[:-1]]]
        return np.asarray(np.bincount(queries, sessions.weights, log.n_queries), np.float64)
    rankers = range(len(log.ranker_names))
    return np.asarray(sum(_by_position(log, log.impressions * (log.rankers == one)).max(axis=1) for one in rankers))


def logging_exposure(
    log: Log, data: RankingDataset, rows: NDArray[np.int64], alpha: Array, policy: Policy, seed: int
) -> Array:
    """Return Σ of α over the impressions of each pair's query, as expected before rankings are drawn.

    ``alpha`` is that of each cell. Rankers without a policy count as they displayed the documents.
    """
    weights = log.impressions * alpha
    if not isinstance(policy, Mapping):
        return np.asarray((_checked(policy, log) * _by_position(log, weights)[log.query_of_pair]).sum(axis=1))
    for name in policy:
        check.choice("ranker in the log", name, log.ranker_names)
    numbers = [log.ranker_names.index(name) for name in policy]
    displayed = ~np.isin(log.rankers, numbers)
    exposure = np.asarray(np.bincount(log.pairs, weights * displayed, log.n_pairs), np.float64)
    query_in_data = np.repeat(np.arange(data.n_queries), data.sizes)[rows[log.offsets[:-1]]]
    for number, (name, system) in zip(numbers, policy.items(), strict=True):
        by_position = np.zeros((data.n_queries, log.n_positions))
        by_position[query_in_data] = _by_position(log, weights * (log.rankers == number))
        scores = check.document_values(f"scores of {name!r}", scores_of(system, data), data.offsets)
        ranks = np.minimum(data.sizes, log.n_positions)
        stream = data.stream(seed).child("logging_policy", number)
        rankings = sample_rankings(scores, data.offsets, stream, _SAMPLES, log.n_positions)
        expected, arrays = np.zeros(data.n_docs), (scores, by_position, rankings, offsets_of(ranks))
        work = 4.0 * _SAMPLES * data.sizes * ranks
        over_queries(_add_chances, data.offsets, *map(read_only, arrays), expected, work=work)
        exposure += expected[rows]
    return exposure


def _by_position(log: Log, values: Array) -> Array:
    """Return sums of cells by query and position."""
    shape = log.n_queries, log.n_positions
    keys = log.queries * log.n_positions + log.positions - 1
    return np.asarray(np.bincount(keys, values, shape[0] * shape[1]), np.float64).reshape(shape)


def _checked(policy: ArrayLike, log: Log) -> Array:
    array: Array = np.asarray(policy, np.float64)
    shape = (log.n_pairs, log.n_positions)
    if array.shape != shape:
        raise check.error(
            "probabilities must be an array of pairs and positions, or the scores of rankers by name",
            got=f"shape {array.shape} where the log has {shape[0]:,} pairs and {shape[1]} positions",
        )
    totals = np.add.reduceat(array, log.offsets[:-1])
    if not (array >= 0.0).all() or not (totals <= 1.0 + ROUNDING).all():
        raise check.error(
            "probabilities of documents at a position must be at least 0 and add up to at most 1 in a query",
            got=f"{array.min():g} to {array.max():g}, with sums of up to {totals.max():g}",
            hint="they are those before the ranking is drawn, not given the documents above",
        )
    return array


@kernel
def _add_chances(first, last, offsets, scores, by_position, rankings, rank_offsets, expected):  # type: ignore[no-untyped-def]
    """Add the probability of every document at every position, given the documents above it in drawn rankings."""
    for q in range(first, last):
        ranks = rank_offsets[q + 1] - rank_offsets[q]
        if ranks == 0 or by_position[q].max() <= 0.0:
            continue
        for sample in range(rankings.shape[0]):
            left = scores[offsets[q] : offsets[q + 1]].copy()
            for k in range(ranks):
                chances = np.exp(left - left.max())
                share = by_position[q, k] / (chances.sum() * rankings.shape[0])
                for d in range(left.size):
                    expected[offsets[q] + d] += share * chances[d]
                left[rankings[sample, rank_offsets[q] + k]] = -np.inf
