"""Splits: exact sizes, every query once, and the query's id decides where it goes."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rankwise as rw


def make(ids, **columns):
    """One document per query, which carries the query's place in ``ids`` as its feature."""
    n = len(ids)
    features = np.arange(n, dtype=float)[:, None]
    return rw.RankingDataset.from_sizes(features, np.zeros(n), np.ones(n, int), query_ids=ids, **columns)


def names(*parts):
    return [set(part.query_ids.tolist()) for part in parts]


def test_parts_have_the_sizes_of_the_largest_remainders():
    # 7 queries: 4.2, 1.4, 1.4 -> 4, 1, 1 and one left over, for the first of the largest remainders.
    assert [part.n_queries for part in rw.split(make(range(7)))] == [4, 2, 1]
    # 10 queries in sevenths: 1.43, 2.86, 5.71.
    assert [part.n_queries for part in rw.split(make(range(10)), (1 / 7, 2 / 7, 4 / 7))] == [1, 3, 6]
    # 0.1 · 30 is 3.0000000000000004 in floats and 0.7 · 30 is 21 exactly: no query may go astray.
    assert [part.n_queries for part in rw.split(make(range(30)), (0.1, 0.2, 0.7))] == [3, 6, 21]
    assert [part.n_queries for part in rw.split(make(range(5)), (1.0,))] == [5]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 200), st.lists(st.integers(1, 20), min_size=1, max_size=6), st.integers(0, 5))
def test_every_query_is_in_exactly_one_part_of_the_right_size(n, shares, seed):
    fractions = [share / sum(shares) for share in shares]
    data = make(range(n))
    if min(Fraction(share, sum(shares)) * n for share in shares) < 1:
        return  # a part may be empty, which is an error: below
    parts = rw.split(data, fractions, seed=seed)
    together = np.concatenate([part.query_ids for part in parts])
    assert sorted(together.tolist()) == list(range(n))
    for part, share in zip(parts, shares, strict=True):
        assert abs(part.n_queries - Fraction(share, sum(shares)) * n) < 1
        assert part.qids().tolist() == sorted(part.qids().tolist())  # in the order of the data


def test_the_order_of_queries_in_the_data_does_not_matter():
    ids = np.array([f"query {number}" for number in range(50)])
    order = np.random.default_rng(0).permutation(50)
    assert names(*rw.split(make(ids), seed=3)) == names(*rw.split(make(ids[order]), seed=3))
    for one, two in zip(rw.folds(make(ids), seed=3), rw.folds(make(ids[order]), seed=3), strict=True):
        assert names(*one) == names(*two)


def test_seeds_give_different_splits_with_even_chances():
    data = make(range(10))
    counts = np.zeros(10)
    for seed in range(1000):
        counts[rw.split(data, (0.3, 0.7), seed=seed)[0].query_ids] += 1
    # Binomial(1000, .3) has standard deviation 14.5.
    assert abs(counts - 300).max() < 5 * 14.5
    assert counts.std() > 3


def test_rows_weights_and_ids_go_along():
    data = rw.RankingDataset.from_sizes(
        np.arange(12.0).reshape(6, 2),
        [0, 1, 2, 3, 4, 0],
        [1, 2, 3],
        query_ids=["a", "b", "c"],
        weights=[1, 2, 3],
        document_ids=[10, 11, 12, 13, 14, 15],
    )
    rows = {"a": slice(0, 1), "b": slice(1, 3), "c": slice(3, 6)}
    for part in rw.split(data, (1 / 3, 1 / 3, 1 / 3)):
        name = part.qids()[0]
        np.testing.assert_array_equal(part.features, data.features[rows[name]])
        np.testing.assert_array_equal(part.labels, data.labels[rows[name]])
        np.testing.assert_array_equal(part.document_ids, np.arange(10, 16)[rows[name]])
        assert part.weights == ["abc".index(name) + 1]


def test_data_without_ids_splits_by_number_and_keeps_it():
    plain = rw.RankingDataset.from_sizes(np.zeros((20, 1)), np.zeros(20), np.ones(20, int))
    for one, two in zip(rw.split(plain), rw.split(make(range(20))), strict=True):
        np.testing.assert_array_equal(one.query_ids, two.query_ids)


def test_trials_are_independent_lazy_and_begin_with_the_split():
    data = make(range(40))
    first, second, third = rw.data.trials(data, 3, seed=9)
    assert names(*first) == names(*rw.split(data, seed=9))
    one, two, three = names(first[0], second[0], third[0])
    assert one != two != three
    # The second trial is the same however many there are, and a billion cost nothing until they are asked for.
    again = next(itertools.islice(rw.data.trials(data, 10**9, seed=9), 1, None))
    assert names(*rw.split(data, seed=9, trial=2)) == names(*third)
    np.testing.assert_array_equal(again[2].query_ids, second[2].query_ids)
    # Overlap of two test parts of 8 out of 40 is hypergeometric with mean 1.6, sd 1.03: 300 pairs have mean 1.6 ± .06.
    tests = [names(*trial)[2] for trial in rw.data.trials(data, 301)]
    overlap = np.mean([len(one & two) for one, two in itertools.pairwise(tests)])
    assert abs(overlap - 1.6) < 5 * 0.06


@pytest.mark.parametrize("n", [3, 5, 7])
def test_folds_turn_the_parts_as_letor_does(n):
    data = make([f"q{number}" for number in range(23)])
    folds = list(rw.folds(data, n, seed=2))
    assert len(folds) == n
    tests = [names(*fold)[2] for fold in folds]
    everything = names(data)[0]
    assert set().union(*tests) == everything
    assert sum(map(len, tests)) == 23
    assert {len(part) for part in tests} <= {23 // n, 23 // n + 1}
    for i, (train, valid, test) in enumerate(folds):
        assert names(valid)[0] == tests[i - 1]  # validated on what the fold before was tested on
        assert names(train)[0] == everything - names(valid)[0] - names(test)[0]
        assert train.n_queries + valid.n_queries + test.n_queries == 23


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda data: rw.split(data, (0.8, 0.1, 0.1)),
            "every part of a split needs at least one query: got 4 queries cut into 3, 1, 0. "
            "Hint: give the part a larger proportion, split into fewer parts, or use more queries.",
        ),
        (
            lambda data: rw.split(data, (0.5, 0.5, 0.0)),
            "every part of a split needs at least one query: got 4 queries cut into 2, 2, 0. "
            "Hint: give the part a larger proportion, split into fewer parts, or use more queries.",
        ),
        (
            lambda data: rw.split(data, (0.5, 0.4)),
            "the proportions of a split must add up to 1: got (0.5, 0.4) with a sum of 0.9.",
        ),
        (
            lambda data: rw.split(data, (1.5, -0.5)),
            "each of the proportions of a split must be a number in [0, 1]: got 1.5.",
        ),
        (
            lambda data: rw.folds(data, 2),
            "folds need at least three parts: to train, to validate and to test: got 2. "
            "Hint: choose n of at least 3, or use split(data, (0.5, 0.5)) for two halves.",
        ),
        (
            lambda data: rw.folds(data, 5),
            "every part of a split needs at least one query: got 4 queries cut into 1, 1, 1, 1, 0. "
            "Hint: give the part a larger proportion, split into fewer parts, or use more queries.",
        ),
        (
            lambda data: rw.folds(data, 2.5),  # type: ignore[arg-type]
            "n, the number of folds, must be a whole number of at least 1: got 2.5.",
        ),
        (
            lambda data: rw.data.trials(data, 0),
            "n, the number of trials, must be a whole number of at least 1: got 0.",
        ),
        (lambda data: rw.data.trials(data, 1, seed=-1), "seed must be a whole number of at least 0: got -1."),
        (lambda data: rw.split(data, seed=-1), "seed must be a whole number of at least 0: got -1."),
    ],
)
def test_errors_are_raised_at_once_with_a_hint(call, sentence):
    with pytest.raises(ValueError) as caught:
        call(make(range(4)))
    assert str(caught.value) == sentence
