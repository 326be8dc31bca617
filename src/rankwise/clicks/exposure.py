"""Exposure of documents in a log: how often users look at them, as displayed and as expected of the logging rankers."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.arrays import Array, offsets_of, read_only
from rankwise.clicks.log import Log
from rankwise.compiling import kernel
from rankwise.data.dataset import RankingDataset
from rankwise.evaluation.systems import Scored, scores_of
from rankwise.objectives.noise import sample_rankings
from rankwise.threads import over_queries

Policy = ArrayLike | Mapping[str, Scored]
"""The logging policy: probabilities of pairs by position, or the scores by which rankers, by name, draw rankings."""

_SAMPLES = 200  # drawn rankings; each counts with the probabilities of all documents at each of its positions
_TINY = 1e-200  # sums of exponentials below lose digits
_ROUNDING = 1e-6  # of probabilities that add up to 1


def added(values: Array, keys: NDArray[np.integer], size: int) -> Array:
    """Return the sums of values by key, from 0 to ``size``."""
    return np.asarray(np.bincount(keys, values, size), np.float64)


def query_impressions(log: Log) -> Array:
    """Return the number of impressions of each query.

    Without sessions these are, for each ranker, the impressions of the position that was shown most often.

    >>> import polars as pl
    >>> rows = {"query": list("aab"), "document": list("xyx"), "impression": [1, 1, 2], "position": [1, 2, 1]}
    >>> query_impressions(Log.from_rows(pl.LazyFrame(rows | {"clicked": [0, 1, 0]})))
    array([1., 1.])
    """
    if log.sessions is not None:
        first = log.sessions.pairs[log.sessions.offsets[:-1]]
        return added(log.sessions.weights, query_of_pair(log)[first], log.n_queries)
    rankers = range(len(log.ranker_names))
    return np.asarray(sum(_by_position(log, log.impressions, log.rankers == one).max(axis=1) for one in rankers))


def query_of_pair(log: Log) -> NDArray[np.int64]:
    """Return the number of each pair's query."""
    queries: NDArray[np.int64] = np.repeat(np.arange(log.n_queries), np.diff(log.offsets))
    return queries


def logging_exposure(
    log: Log,
    data: RankingDataset,
    rows: NDArray[np.int64],
    alpha: Array,
    policy: Policy | None,
    drawn: float,
    seed: int,
) -> Array:
    """Return Σ of α over the impressions of each pair's query, as expected before rankings are drawn.

    ``alpha`` is that of each cell. Rankers without a policy count as they displayed the documents.
    """
    weights = log.impressions * alpha
    if policy is None:
        return added(weights, log.pairs, log.n_pairs)
    queries = query_of_pair(log)
    if not isinstance(policy, Mapping):
        by_position = _by_position(log, weights, np.full(weights.size, fill_value=True))
        return np.asarray((_checked(policy, log, queries) * by_position[queries]).sum(axis=1))
    for name in policy:
        check.choice("ranker in the log", name, log.ranker_names)
    check.number("drawn, the temperature of rankings,", drawn, least=0.0, open_ends=True)
    exposure = np.zeros(log.n_pairs)
    row_queries = np.repeat(np.arange(data.n_queries), data.sizes)
    query_in_data = row_queries[rows[log.offsets[:-1]]]
    for number, name in enumerate(log.ranker_names):
        cells = log.rankers == number
        if name not in policy:
            exposure += added(weights[cells], log.pairs[cells], log.n_pairs)
            continue
        by_position = np.zeros((data.n_queries, log.n_positions))
        by_position[query_in_data] = _by_position(log, weights, cells)
        scores = check.document_values(f"scores of {name!r}", scores_of(policy[name], data), data.offsets)
        exposure += _expected(data, scores / drawn, by_position, number, seed)[rows]
    return exposure


def _by_position(log: Log, values: Array, cells: NDArray[np.bool_]) -> Array:
    """Return sums of these cells by query and position."""
    shape = (log.n_queries, max(log.n_positions, 1))
    keys = log.queries[cells] * shape[1] + log.positions[cells] - 1
    return added(values[cells], keys, shape[0] * shape[1]).reshape(shape)


def _checked(policy: ArrayLike, log: Log, queries: NDArray[np.int64]) -> Array:
    array: Array = np.asarray(policy, np.float64)
    shape = (log.n_pairs, log.n_positions)
    if array.shape != shape:
        raise check.error(
            "probabilities must be an array of pairs and positions, or the scores of rankers by name",
            got=f"shape {array.shape} where the log has {shape[0]:,} pairs and {shape[1]} positions",
        )
    totals = np.zeros((log.n_queries, log.n_positions))
    np.add.at(totals, queries, array)
    if not (array >= 0.0).all() or not (totals <= 1.0 + _ROUNDING).all():
        raise check.error(
            "probabilities of documents at a position must be at least 0 and add up to at most 1 in a query",
            got=f"{array.min():g} to {array.max():g}, with sums of up to {totals.max():g}",
            hint="they are those before the ranking is drawn, not given the documents above",
        )
    return array


def _expected(data: RankingDataset, scores: Array, by_position: Array, number: int, seed: int) -> Array:
    """Return the expected Σ of ``by_position`` at a document's position in Plackett-Luce rankings of ``scores``."""
    ranks, cutoff = np.minimum(data.sizes, by_position.shape[1]), by_position.shape[1]
    stream = data.stream(seed).child("logging_policy", number)
    rankings = sample_rankings(scores, data.offsets, stream, _SAMPLES, cutoff)
    expected, arrays = np.zeros(data.n_docs), (scores, by_position, rankings, offsets_of(ranks))
    work = 2.0 * _SAMPLES * data.sizes * ranks
    over_queries(_add_chances, data.offsets, *map(read_only, arrays), expected, work=work)
    return expected


@kernel
def _add_chances(first, last, offsets, scores, by_position, rankings, rank_offsets, expected):  # type: ignore[no-untyped-def]
    """Add the probability of every document at every position, given the documents above it in drawn rankings."""
    for q in range(first, last):
        values, out = scores[offsets[q] : offsets[q + 1]], expected[offsets[q] : offsets[q + 1]]
        ranks = rank_offsets[q + 1] - rank_offsets[q]
        if values.size == 0 or by_position[q].max() <= 0.0:
            continue
        start, is_placed = np.exp(values - values.max()), np.empty(values.size, np.bool_)
        for sample in range(rankings.shape[0]):
            left = start.copy()
            is_placed[:] = False
            for k in range(ranks):
                mass = left.sum()
                if mass < _TINY:  # all that are left score far below the first: start from their own largest score
                    top = np.max(np.where(is_placed, -np.inf, values))
                    left[:] = np.where(is_placed, 0.0, np.exp(np.minimum(values - top, 0.0)))
                    mass = left.sum()
                share = by_position[q, k] / (mass * rankings.shape[0])
                for d in range(left.size):
                    out[d] += share * left[d]
                chosen = rankings[sample, rank_offsets[q] + k]
                left[chosen], is_placed[chosen] = 0.0, True
