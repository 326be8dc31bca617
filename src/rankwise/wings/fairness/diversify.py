"""Diversification of rankings: greedy re-ranking that trades relevance against redundancy (MMR, xQuAD)."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import ArrayLike

from rankwise import RankingDataset, check
from rankwise.base.arrays import Array, Ids, Offsets, read_only
from rankwise.base.compiling import kernel
from rankwise.base.threads import over_queries
from rankwise.metrics.gains import NO_CUTOFF
from rankwise.metrics.sorting import longest_of, order_in, scratch_for

Similarity = ArrayLike | Callable[[slice], ArrayLike]
"""(n_docs, n) vectors, or a function from the rows of a query to the matrix of their similarities."""


def diversify(
    scores: ArrayLike,
    data: RankingDataset | ArrayLike,
    *,
    similarity: Similarity | None = None,
    aspects: ArrayLike | Mapping[str, ArrayLike] | None = None,
    weight: float = 0.5,
    aspect_weights: ArrayLike | None = None,
    cutoff: int | None = None,
) -> Array:
    """Re-rank every query so that documents add to those above them, and return scores that have the new order.

    ``data`` is a data set or its offsets. One place after another gets the document with the highest

    - (1 − weight)·score − weight·(similarity to the most similar document above), with ``similarity``: maximal marginal
      relevance (Carbonell and Goldstein 1998). It is the cosine of vectors, such as embeddings or features; or a
      function that is called with the rows of a query, a slice, and returns the matrix of their similarities;
    - (1 − weight)·score + weight·Σ_a w_a·p_a·Π(1 − p_a of the documents above), with ``aspects``: xQuAD (Santos et al.
      2010). p_a are the probabilities that a document is relevant to an aspect: (n_docs, n_aspects), or arrays by name
      such as ``more_labels``. The ``aspect_weights`` w, (n_aspects,) or (n_queries, n_aspects), are scaled to a sum of
      1 in each query; by default the aspects that occur in a query weigh the same.

    Scores count as (score − lowest)/(highest − lowest) of their query. Of documents that are equally good that with the
    higher score is next, then the first row. With a ``cutoff`` only so many places are chosen, and the others follow in
    the order of scores. The result is minus the new rank: −1, −2, …; a score of −inf, for a document that was not
    retrieved, stays.

    >>> vectors = [[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]]  # the second document repeats the first
    >>> diversify([0.9, 0.8, 0.5], [0, 3], similarity=vectors)
    array([-1., -3., -2.])
    >>> diversify([0.9, 0.8, 0.5], [0, 3], aspects={"cat": [1, 1, 0], "car": [0, 0, 1]}, weight=0.8)
    array([-1., -3., -2.])
    """
    ids = data.query_ids if isinstance(data, RankingDataset) else None
    offsets = data.offsets if isinstance(data, RankingDataset) else check.offsets(data, np.asarray(scores).size)
    values = check.scores(scores, offsets, ids)
    if (similarity is None) == (aspects is None):
        what = "rankings are diversified by similarity or by aspects"
        hint = "`set similarity=…` (MMR) or `aspects=…` (xQuAD)"
        raise check.error(what, got="neither" if aspects is None else "both", hint=hint)
    if aspect_weights is not None and aspects is None:
        raise check.error("aspect_weights need aspects", got="similarity", hint="leave them out")
    check.number("weight", weight, least=0.0, most=1.0)
    depth = NO_CUTOFF if cutoff is None else check.integer("cutoff", cutoff, least=1)
    out = np.full(values.size, -np.inf)
    settings = read_only(values), float(weight), depth, out
    if aspects is not None:
        covered = _probabilities(aspects, offsets, ids)
        shares = _shares(aspect_weights, covered, offsets)
        over_queries(_by_aspects, offsets, read_only(covered), read_only(shares), *settings)
    elif callable(similarity):
        for start, stop in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            matrix, size = np.asarray(similarity(slice(start, stop)), np.float64), stop - start
            if matrix.shape != (size, size) or not np.isfinite(matrix).all():
                what = f"similarity must return {size} × {size} finite numbers for these documents"
                got, where = f"shape {matrix.shape}, or nan", check.query_of_row(start, offsets, ids)
                raise check.error(what, got=got, where=where)
            rows = read_only(values[start:stop]), float(weight), depth, out[start:stop]
            _by_similarity(0, 1, read_only(np.array([0, size])), read_only(matrix), read_only(np.ones(0)), *rows)
    else:
        vectors = check.features(similarity)
        check.dense_features(vectors, "similarity of vectors", "")
        if vectors.shape[0] != values.size:
            got = f"{vectors.shape[0]} for {values.size} documents"
            raise check.error("similarity must have one vector for each document", got=got)
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
        check.document_values("vectors of documents", lengths, offsets, ids, hint="fill missing values")
        lengths[lengths == 0.0] = 1.0
        over_queries(_by_similarity, offsets, read_only(vectors), read_only(lengths), *settings)
    return out


def _probabilities(aspects: ArrayLike | Mapping[str, ArrayLike], offsets: Offsets, ids: Ids | None) -> Array:
    """Return the probability that each document is relevant to each aspect, (n_docs, n_aspects)."""
    if not isinstance(aspects, Mapping) and np.ndim(aspects) != 2:
        hint = "reshape one aspect to a column with [:, None], or name it: {name: values}"
        raise check.error("aspects must be a matrix, one row per document", got=f"shape {np.shape(aspects)}", hint=hint)
    columns = aspects if isinstance(aspects, Mapping) else dict(enumerate(np.asarray(aspects).T))
    if not columns:
        raise check.error("aspects must have at least one column", got="none")
    hint = "divide grades by the highest: aspects are probabilities"
    checked = []
    for name, column in columns.items():
        what = f"aspect {name!r}"
        checked.append(check.document_values(what, column, offsets, ids, least=0.0, hint=hint))
        if (highest := checked[-1].max(initial=0.0)) > 1.0:
            raise check.error(f"{what} must be at most 1", got=f"{highest:g}", hint=hint)
    return np.stack(checked, axis=1)


def _shares(weights: ArrayLike | None, covered: Array, offsets: Offsets) -> Array:
    """Return the weight of each aspect in each query, with a sum of 1, or 0 where a query has no aspect."""
    shape = offsets.size - 1, covered.shape[1]
    if weights is None:
        chosen = np.add.reduceat(covered, offsets[:-1]) > 0.0
    else:
        chosen = np.asarray(weights, np.float64)
        if chosen.shape not in (shape, shape[1:]) or not (np.isfinite(chosen) & (chosen >= 0.0)).all():
            what = "aspect_weights must be finite and not negative, one for each aspect, or query and aspect"
            raise check.error(what, got=f"shape {chosen.shape}, from {chosen.min(initial=0.0):g}")
    each = np.broadcast_to(chosen, shape).astype(np.float64)
    return np.asarray(each / np.maximum(each.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny))


@kernel
def _by_similarity(first, last, offsets, vectors, lengths, scores, weight, cutoff, out):  # type: ignore[no-untyped-def]
    """Rank by maximal marginal relevance; ``vectors`` are the similarities of one query where there are no lengths."""
    longest = longest_of(first, last, offsets)
    ranked, nearest, scratch = np.empty(longest, np.int64), np.empty(longest), scratch_for(longest)
    for q in range(first, last):
        start, stop = offsets[q], offsets[q + 1]
        relevance, count = _relevance(scores[start:stop], ranked, scratch)
        nearest[:] = 0.0
        for place in range(min(count, cutoff)):
            best, top = place, -np.inf
            for at in range(place, count):
                value = (1.0 - weight) * relevance[ranked[at]] - weight * nearest[ranked[at]]
                if value > top:
                    best, top = at, value
            chosen = _move(ranked, best, place)
            for at in range(place + 1, count):
                i, similarity = ranked[at], 0.0
                if lengths.size == 0:
                    similarity = vectors[i, chosen]
                else:
                    for k in range(vectors.shape[1]):
                        similarity += np.float64(vectors[start + i, k]) * np.float64(vectors[start + chosen, k])
                    similarity /= lengths[start + i] * lengths[start + chosen]
                nearest[i] = max(nearest[i], similarity) if place > 0 else similarity
        for place in range(count):
            out[start + ranked[place]] = -(place + 1.0)


@kernel
def _by_aspects(first, last, offsets, covered, shares, scores, weight, cutoff, out):  # type: ignore[no-untyped-def]
    """Rank by xQuAD."""
    longest = longest_of(first, last, offsets)
    ranked, scratch = np.empty(longest, np.int64), scratch_for(longest)
    for q in range(first, last):
        start, stop = offsets[q], offsets[q + 1]
        relevance, count = _relevance(scores[start:stop], ranked, scratch)
        left = shares[q].copy()  # the weight of each aspect, times the probability that nothing above is relevant to it
        for place in range(min(count, cutoff)):
            best, top = place, -np.inf
            for at in range(place, count):
                value = (1.0 - weight) * relevance[ranked[at]]
                for a in range(left.size):
                    value += weight * left[a] * covered[start + ranked[at], a]
                if value > top:
                    best, top = at, value
            chosen = _move(ranked, best, place)
            for a in range(left.size):
                left[a] *= 1.0 - covered[start + chosen, a]
        for place in range(count):
            out[start + ranked[place]] = -(place + 1.0)


@kernel
def _relevance(scores, ranked, scratch):  # type: ignore[no-untyped-def]
    """Fill the order of scores; return the scores from 0 to 1, and the number of documents that were retrieved."""
    order_in(scores, ranked[: scores.size], scratch)
    count = scores.size
    while count > 0 and scores[ranked[count - 1]] == -np.inf:
        count -= 1
    low, high = (scores[ranked[count - 1]], scores[ranked[0]]) if count > 0 else (0.0, 0.0)
    return (scores - low) / (high - low if high > low else 1.0), count


@kernel(inline=True)
def _move(ranked, best, place):  # type: ignore[no-untyped-def]
    """Move a document up to ``place``, and return it; the others keep their order."""
    chosen = ranked[best]
    for at in range(best, place, -1):
        ranked[at] = ranked[at - 1]
    ranked[place] = chosen
    return chosen
