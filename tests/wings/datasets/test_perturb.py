"""Perturbed data: the right number of the right documents, at random, and nothing else touched."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import rankwise as rw
from rankwise.base import threads
from tests.refusals import refuses


def make(sizes, labels=None, ids=None, **columns):
    """Documents whose first feature is their row and whose second is their query."""
    n = int(np.sum(sizes))
    features = np.stack([np.arange(n), np.repeat(np.arange(len(sizes)), sizes)], axis=1)
    labels = np.ones(n) if labels is None else labels
    return rw.RankingDataset.from_sizes(features, labels, sizes, query_ids=ids, **columns)


def lists(data):
    """What each query holds, by its id."""
    ids = np.arange(data.n_queries) if data.query_ids is None else data.query_ids
    bounds = zip(data.offsets[:-1], data.offsets[1:], strict=True)
    return {
        name: (data.features[a:b].tolist(), data.labels[a:b].tolist())
        for name, (a, b) in zip(ids.tolist(), bounds, strict=True)
    }


def test_binarize():
    data = make([5], [0, 0.5, 1, 2, 4])
    assert rw.data.binarize(data).labels.tolist() == [0, 0, 1, 1, 1]
    assert rw.data.binarize(data, relevant=2).labels.tolist() == [0, 0, 0, 1, 1]
    assert rw.data.binarize(data, relevant=0.5).labels.tolist() == [0, 1, 1, 1, 1]
    refuses(lambda: rw.data.binarize(data, relevant=0), what="relevant must be a number in (0, inf)", got="0")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 12), min_size=2, max_size=8),
    st.floats(0, 6, allow_nan=False),
    st.integers(0, 3),
)
def test_negatives_are_other_queries_documents_and_come_last(sizes, fraction, seed):
    data = make(sizes, weights=np.arange(1.0, len(sizes) + 1), document_ids=np.arange(100, 100 + sum(sizes)))
    longer = rw.data.add_negatives(data, fraction, seed=seed)
    assert longer.query_ids is None
    np.testing.assert_array_equal(longer.weights, data.weights)
    np.testing.assert_array_equal(longer.document_ids, longer.features[:, 0] + 100)
    for q, size in enumerate(sizes):
        rows = slice(longer.offsets[q], longer.offsets[q + 1])
        features, labels = longer.features[rows], longer.labels[rows]
        np.testing.assert_array_equal(features[:size], data.features[data.offsets[q] : data.offsets[q + 1]])
        assert labels.tolist() == [1.0] * size + [0.0] * (labels.size - size)
        assert (features[size:, 1] != q).all()
        assert abs(labels.size - size - fraction * size) < 1
        # No document twice before all the others were taken.
        times = np.bincount(features[size:, 0].astype(int), minlength=sum(sizes))
        others = np.delete(times, np.arange(data.offsets[q], data.offsets[q + 1]))
        assert others.max() - others.min() <= 1


def test_a_whole_number_of_documents_is_met_exactly_and_others_on_average():
    sizes = np.full(3000, 5)
    assert (np.diff(rw.data.add_negatives(make(sizes), 0.4).offsets) == 7).all()
    extra = np.diff(rw.data.add_negatives(make(sizes), 0.5).offsets) - 5
    assert set(extra.tolist()) == {2, 3}
    assert abs(extra.mean() - 2.5) < 5 * 0.5 / np.sqrt(3000)
    # .145 · 200 is 28.999999999999996 in floats.
    assert np.diff(rw.data.add_negatives(make([200] * 50), 0.145).offsets).tolist() == [229] * 50
    assert lists(rw.data.add_negatives(make([3, 2]), 0.0)) == lists(make([3, 2]))


def test_every_other_document_is_equally_likely():
    data = make([3, 4, 5, 8])
    counts = np.zeros(20)
    trials = 3000
    for seed in range(trials):
        longer = rw.data.add_negatives(data, 1.0, seed=seed)
        drawn = longer.features[longer.offsets[1] + 4 : longer.offsets[2], 0].astype(int)
        counts[drawn] += 1
    assert counts[3:7].sum() == 0
    others = np.delete(counts, range(3, 7))
    # Without replacement: 4 of 16, so each has variance n p (1 - p) with p = 1/4; correlated, hence a plain limit.
    assert abs(others - trials / 4).max() < 5 * np.sqrt(trials * 0.25 * 0.75)
    assert others.std() > 5


def test_flips_change_the_right_number_of_labels():
    data = make([40, 10, 7], np.full(57, 4.0))
    flipped = rw.data.flip_labels(data, 0.5, (1.0, 0.0, 0.0, 0.0, 0.0))
    zeros = np.add.reduceat(flipped.labels == 0, flipped.offsets[:-1])
    assert zeros[:2].tolist() == [20, 5]
    assert zeros[2] in (3, 4)
    assert set(flipped.labels) == {0.0, 4.0}
    assert (rw.data.flip_labels(data, 1.0, (1.0, 0.0, 0.0, 0.0, 0.0)).labels == 0).all()
    assert (rw.data.flip_labels(data, 0.0, (1.0, 0.0, 0.0, 0.0, 0.0)).labels == 4).all()
    np.testing.assert_array_equal(flipped.features, data.features)


def test_short_lists_are_flipped_as_often_as_long_ones():
    data = make([5] * 4000, np.full(20_000, 4.0))
    zeros = np.add.reduceat(rw.data.flip_labels(data, 0.1, (1.0, 0, 0, 0, 0)).labels == 0, data.offsets[:-1])
    assert set(zeros.tolist()) == {0, 1}
    assert abs(zeros.mean() - 0.5) < 5 * 0.5 / np.sqrt(4000)


@pytest.mark.parametrize(
    ("largest", "expected"),
    [(4, (0.5, 0.2, 0.15, 0.1, 0.05)), (2, (0.5 / 0.85, 0.2 / 0.85, 0.15 / 0.85)), (1, (5 / 7, 2 / 7))],
)
def test_new_labels_follow_the_paper_or_its_first_grades(largest, expected):
    labels = np.arange(30_000) % (largest + 1)
    flipped = rw.data.flip_labels(make([100] * 300, labels), 1.0, seed=4).labels.astype(int)
    counts = np.bincount(flipped, minlength=len(expected))
    assert stats.chisquare(counts, np.array(expected) * 30_000).pvalue > 1e-3
    # The new label has nothing to do with the old one, nor with its neighbour's.
    assert abs(np.corrcoef(labels, flipped)[0, 1]) < 5 / np.sqrt(30_000)
    assert abs(np.corrcoef(flipped[1:], flipped[:-1])[0, 1]) < 5 / np.sqrt(30_000)


def test_grades_can_be_named_where_the_largest_is_missing():
    data = make([1000], np.zeros(1000))
    assert (rw.data.flip_labels(data, 1.0).labels == 0).all()
    assert set(rw.data.flip_labels(data, 1.0, grades=5).labels) == {0.0, 1.0, 2.0, 3.0, 4.0}


def test_every_document_of_a_list_is_equally_likely_to_be_flipped():
    data = make([6] * 5000, np.full(30_000, 4.0))
    flipped = rw.data.flip_labels(data, 1 / 3, (1.0, 0, 0, 0, 0)).labels.reshape(-1, 6) == 0
    assert (flipped.sum(1) == 2).all()
    pairs = np.flatnonzero(np.triu(np.ones((6, 6)), 1))
    seen = (flipped[:, :, None] & flipped[:, None, :]).sum(0).ravel()[pairs]
    assert stats.chisquare(seen).pvalue > 1e-3  # all 15 pairs alike


@pytest.mark.parametrize(
    "perturb", [lambda data: rw.data.add_negatives(data, 0.7, seed=1), lambda d: rw.data.flip_labels(d, 0.7)]
)
def test_order_of_queries_and_threads_change_nothing(perturb, monkeypatch):
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 30, 80)
    ids = np.array([f"q{number}" for number in range(80)])
    data = make(sizes, rng.integers(0, 5, sizes.sum()), ids)
    expected = lists(perturb(data))
    turned = data.take(rng.permutation(80))
    assert lists(perturb(turned)) == expected
    monkeypatch.setattr(threads, "_WORTH_THREADS", 0)
    for count in (1, 2, 3):
        with rw.use_threads(count):
            assert lists(perturb(data)) == expected
            assert lists(perturb(turned)) == expected
    assert lists(rw.data.add_negatives(data, 0.7, seed=2)) != lists(rw.data.add_negatives(data, 0.7, seed=1))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: rw.data.add_negatives(make([3]), 0.5),
            "negatives are documents of other queries, and there is only one query. Hint: give data of more queries.",
        ),
        (
            lambda: rw.data.add_negatives(make([1, 1], positions=[1, 1]), 0.5),
            "negatives cannot join lists that were displayed to a user: they have no position. "
            "Hint: add negatives before clicks are simulated, or to data without positions and propensities.",
        ),
        (lambda: rw.data.add_negatives(make([1, 1]), -0.5), "fraction must be a number in [0, 1000]: got -0.5."),
        (lambda: rw.data.flip_labels(make([2]), 1.5), "fraction must be a number in [0, 1]: got 1.5."),
        (
            lambda: rw.data.flip_labels(make([2]), 0.5, (0.5, 0.4)),
            "the flip probabilities must add up to 1: got (0.5, 0.4) with a sum of 0.9.",
        ),
        (
            lambda: rw.data.flip_labels(make([2]), 0.5, (1.2, -0.2)),
            "each of the flip probabilities must be a number in [0, 1]: got 1.2.",
        ),
        (
            lambda: rw.data.flip_labels(make([2]), 0.5, ()),
            "there must be at least one of the flip probabilities: got ().",
        ),
        (
            lambda: rw.data.flip_labels(make([2, 1], [1, 0, 2], ["a", "b"]), 0.5, (0.5, 0.5)),
            "labels must be the grades 0 to 1, as there are 2 flip probabilities: got 2 at row 2 (query 'b'). "
            "Hint: give one probability for each grade; make real-valued labels grades first, or use binarize.",
        ),
        (
            lambda: rw.data.flip_labels(make([2], [0, 0.5]), 0.5),
            "labels must be the grades 0 to 4, as there are 5 flip probabilities: got 0.5 at row 1 (query number 0). "
            "Hint: give one probability for each grade; make real-valued labels grades first, or use binarize.",
        ),
        (
            lambda: rw.data.flip_labels(make([2]), 0.5, grades=6),
            "there must be a flip probability for every grade: got 5 probabilities for 6 grades. "
            "Hint: pass one probability for each grade.",
        ),
        (
            lambda: rw.data.flip_labels(make([2]), 0.5, grades=1),
            "grades must be a whole number of at least 2: got 1.",
        ),
        (
            lambda: rw.data.flip_labels(make([2]), 0.5, (0.0, 0.0, 1.0)),
            "the first 2 flip probabilities must not all be zero: got (0.0, 0.0, 1.0). "
            "Hint: labels here are the grades 0 to 1: make one of them likely.",
        ),
    ],
)
def test_errors(call, sentence):
    with pytest.raises(ValueError) as caught:
        call()
    assert str(caught.value) == sentence


def test_negatives_were_judged_for_other_queries_only():
    data = make([2, 3]).with_(labels=[1, 0, 2, 1, 0], judged=[1, 1, 1, 1, -1])
    longer = rw.data.add_negatives(data, 1.0, seed=3)
    assert longer.judged is not None
    added = np.concatenate([longer.offsets[q] + np.arange(data.sizes[q], longer.sizes[q]) for q in range(2)])
    assert (longer.judged[added] == 0).all()
    assert np.delete(longer.judged, added).tolist() == [1, 1, 1, 1, -1]
