"""MMR and xQuAD against greedy choices written out in Python; threads and other queries change nothing."""

import itertools

import numpy as np
import pytest

import rankwise as rw
from tests.refusals import refuses


def lists(seed: int, n_queries: int = 30, most: int = 9):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, most + 1, n_queries)
    offsets = np.r_[0, np.cumsum(sizes)]
    n_docs = offsets[-1]
    scores = rng.integers(0, 6, n_docs) / 2.0  # ties
    scores[rng.random(n_docs) < 0.15] = -np.inf
    vectors = rng.normal(size=(n_docs, 3)).astype(np.float32)
    covered = (rng.random((n_docs, 4)) * (rng.random((n_docs, 4)) < 0.5)).astype(float)
    return scores, offsets, vectors, covered


def greedy(scores: np.ndarray, value, weight: float, cutoff: int) -> list[int]:
    """Rows in the order of the greedy choice; ``value`` is of a row after those that were chosen."""
    left = sorted((i for i in range(scores.size) if scores[i] > -np.inf), key=lambda i: -scores[i])
    if not left:
        return []
    low, high = scores[left[-1]], scores[left[0]]
    chosen: list[int] = []
    while left and len(chosen) < cutoff:
        relevance = {i: (scores[i] - low) / (high - low or 1.0) for i in left}
        best = max(left, key=lambda i: round((1 - weight) * relevance[i] + weight * value(i, chosen), 12))
        chosen.append(best)
        left.remove(best)
    return chosen + left


def held_against(value_of, found, scores, offsets, weight, cutoff) -> None:
    for start, stop in itertools.pairwise(offsets):
        rows = greedy(scores[start:stop], value_of(start, stop), weight, cutoff)
        expected = np.full(stop - start, -np.inf)
        expected[rows] = -np.arange(1.0, len(rows) + 1)
        np.testing.assert_array_equal(found[start:stop], expected)


@pytest.mark.parametrize("weight", [0.0, 0.3, 0.8, 1.0])
@pytest.mark.parametrize("cutoff", [None, 3])
def test_mmr(weight: float, cutoff: int | None) -> None:
    scores, offsets, vectors, _ = lists(1)
    unit = vectors.astype(float) / np.linalg.norm(vectors.astype(float), axis=1)[:, None]

    def value_of(start, stop):
        cosines = unit[start:stop] @ unit[start:stop].T
        return lambda i, chosen: -max((cosines[i, j] for j in chosen), default=0.0)

    found = rw.diversify(scores, offsets, similarity=vectors, weight=weight, cutoff=cutoff)
    held_against(value_of, found, scores, offsets, weight, cutoff or 99)
    by_matrix = rw.diversify(
        scores, offsets, similarity=lambda rows: unit[rows] @ unit[rows].T, weight=weight, cutoff=cutoff
    )
    np.testing.assert_array_equal(by_matrix, found)


@pytest.mark.parametrize("weight", [0.0, 0.3, 0.8, 1.0])
@pytest.mark.parametrize("weights", [None, [4.0, 1.0, 0.0, 2.0]])
def test_xquad(weight: float, weights: list[float] | None) -> None:
    scores, offsets, _, covered = lists(2)

    def value_of(start, stop):
        part = covered[start:stop]
        shares = part.any(axis=0).astype(float) if weights is None else np.array(weights)
        shares = shares / max(shares.sum(), 1e-300)
        return lambda i, chosen: float((shares * part[i] * np.prod(1 - part[chosen], axis=0)).sum())

    found = rw.diversify(scores, offsets, aspects=covered, weight=weight, aspect_weights=weights)
    held_against(value_of, found, scores, offsets, weight, 99)
    named = {f"a{a}": covered[:, a] for a in range(4)}
    np.testing.assert_array_equal(
        rw.diversify(scores, offsets, aspects=named, weight=weight, aspect_weights=weights), found
    )
    each = None if weights is None else np.tile(weights, (offsets.size - 1, 1))
    np.testing.assert_array_equal(
        rw.diversify(scores, offsets, aspects=covered, weight=weight, aspect_weights=each), found
    )


def test_queries_are_ranked_each_on_its_own_and_in_any_number_of_threads() -> None:
    scores, offsets, vectors, covered = lists(3, n_queries=12_000)
    for how in ({"similarity": vectors}, {"aspects": covered}):
        with rw.use_threads(3):
            whole = rw.diversify(scores, offsets, **how)
        start, stop = offsets[5000], offsets[5001]
        alone = rw.diversify(
            scores[start:stop], [0, stop - start], **{name: value[start:stop] for name, value in how.items()}
        )
        np.testing.assert_array_equal(whole[start:stop], alone)


def test_aspects_of_a_data_set_gain_diversity_and_no_weight_changes_nothing() -> None:
    scores, offsets, _, covered = lists(4, n_queries=200, most=20)
    scores += np.random.default_rng(0).random(scores.size) / 10
    relevant = {f"a{a}": (covered[:, a] > 0).astype(float) for a in range(4)}
    data = rw.RankingDataset(np.empty((scores.size, 0)), np.zeros(scores.size), offsets, more_labels=relevant)
    systems = {f"{weight}": rw.diversify(scores, data, aspects=relevant, weight=weight) for weight in (0.0, 0.5, 1.0)}
    mean = {name: rw.evaluate(one, data, ["alpha_ndcg@5"]).mean["alpha_ndcg@5"] for name, one in systems.items()}
    assert mean["0.0"] == rw.evaluate(scores, data, ["alpha_ndcg@5"]).mean["alpha_ndcg@5"]
    assert mean["0.0"] + 0.05 < mean["0.5"] < mean["1.0"]


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        ({}, {"what": "rankings are diversified by similarity or by aspects", "got": "neither"}),
        ({"similarity": [[1.0]] * 3, "aspects": [[1.0]] * 3}, {"got": "both"}),
        ({"similarity": [[1.0]] * 3, "aspect_weights": [1.0]}, {"what": "aspect_weights need aspects"}),
        ({"similarity": [[1.0]] * 2}, {"what": "…one vector for each document", "got": "2 for 3 documents"}),
        (
            {"similarity": [[1.0], [np.nan], [1.0]]},
            {"what": "vectors of documents must be finite", "got": "nan", "where": "row 1…"},
        ),
        (
            {"similarity": lambda rows: np.ones((2, 3))},
            {"what": "similarity must return 3 × 3 finite numbers for these documents", "got": "shape (2, 3), or nan"},
        ),
        (
            {"aspects": [[2.0]] * 3},
            {"what": "aspect 0 must be at most 1", "got": "2", "hint": "divide grades by the highest…"},
        ),
        ({"aspects": {"cat": [1, -1, 0]}}, {"what": "aspect 'cat' must be at least 0"}),
        ({"aspects": [1.0, 0.0, 0.0]}, {"what": "aspects must be a matrix…", "hint": "reshape one aspect…"}),
        ({"aspects": {}}, {"what": "aspects must have at least one column"}),
        ({"aspects": [[1.0]] * 3, "aspect_weights": [1.0, 2.0]}, {"what": "aspect_weights must be finite…"}),
        ({"aspects": [[1.0]] * 3, "weight": 1.5}, {"what": "weight must be a number in [0, 1]"}),
        ({"aspects": [[1.0]] * 3, "cutoff": 0}, {"what": "cutoff must be a whole number of at least 1"}),
    ],
)
def test_wrong_arguments(arguments, fields: dict[str, str]) -> None:
    refuses(lambda: rw.diversify([3.0, 2.0, 1.0], [0, 3], **arguments), **fields)
