"""Synthetic data: like MSLR in its outward form, repeatable, and a task at which better rankers do better."""

import gzip
import itertools

import lightgbm
import numpy as np
import pytest

import rankwise as rw
from rankwise.base import threads
from rankwise.wings.datasets.synthetic import MSLR_GRADES
from tests import shared
from tests.refusals import refusal


def ndcg(scores, data):
    """NDCG@10 once more, in plain NumPy: 2^y − 1, queries without relevant documents skipped."""
    values = []
    for a, b in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        gains = 2.0 ** data.labels[a:b] - 1.0
        discounts = 1.0 / np.log2(np.arange(2, min(10, b - a) + 2))
        best = np.sort(gains)[::-1][: discounts.size] @ discounts
        if best > 0.0:
            values.append(gains[np.argsort(-scores[a:b], kind="stable")][: discounts.size] @ discounts / best)
    return np.array(values)


def linear_scorer(train):
    """Ridge regression of gains on logarithms of features, both centred within queries."""

    def view(data):
        return np.sign(data.features) * np.log1p(np.abs(data.features.astype(float)))

    def centre(values, data):
        means = np.add.reduceat(values, data.offsets[:-1]) / (data.sizes if values.ndim == 1 else data.sizes[:, None])
        return values - np.repeat(means, data.sizes, axis=0)

    scale = view(train).std(0) + 1e-9
    x, y = centre(view(train) / scale, train), centre(2.0**train.labels - 1.0, train)
    weights = np.linalg.solve(x.T @ x + 10.0 * np.eye(x.shape[1]), x.T @ y)
    return lambda data: view(data) / scale @ weights


@pytest.fixture(scope="module")
def large():
    return rw.synthetic(n_queries=6000, n_features=3, seed=11)


def test_lists_are_as_long_as_those_of_mslr(large):
    logs = np.log(large.sizes)
    assert abs(large.sizes.mean() - 120) < 5 * 79 / np.sqrt(6000)  # the standard deviation of this log-normal is 79
    assert abs(logs.std() - 0.6) < 0.02
    assert abs(np.mean((logs - logs.mean()) ** 3)) / logs.std() ** 3 < 0.1  # symmetric in the logarithm
    assert large.sizes.max() > 600
    assert large.sizes.min() >= 2
    assert (rw.synthetic(n_queries=500, n_docs=2).sizes >= 2).all()


def test_grades_come_in_the_shares_of_mslr(large):
    shares = np.bincount(large.labels.astype(int), minlength=5) / large.n_docs
    np.testing.assert_allclose(shares, MSLR_GRADES, atol=0.01)
    assert abs(shares[3] - 0.018) < 0.002
    assert abs(shares[4] - 0.008) < 0.0015
    # Queries differ: about 3% find nothing (MSLR-WEB30K: 982 of 31,531), and the share of relevant documents varies.
    relevant = np.add.reduceat(large.labels > 0, large.offsets[:-1]) / large.sizes
    assert 0.02 < (relevant == 0).mean() < 0.045
    assert 0.15 < relevant.std() < 0.25


@pytest.mark.slow
def test_the_shares_and_lengths_are_those_of_the_real_samples():
    folder = shared.data("mslr-sample")
    rows = []
    for name in ("train.5k", "test.5k", "vali.a", "vali.b"):
        with gzip.open(folder / f"web10k.fold1.{name}.txt.gz", "rt") as lines:
            rows += [line.split(maxsplit=2)[:2] for line in lines]
    labels, qids = zip(*rows, strict=True)
    shares = np.bincount(np.array(labels, int)) / len(labels)
    np.testing.assert_allclose(MSLR_GRADES, shares, atol=0.03)
    sizes = np.unique(qids, return_counts=True)[1]
    assert abs(np.log(sizes).std() - 0.6) < 0.1
    assert abs(sizes.mean() - 120) < 3 * 79 / np.sqrt(sizes.size)


@pytest.mark.parametrize("grades", [(0.9, 0.1), (0.25, 0.25, 0.25, 0.25), (0.5, 0.0, 0.5)])
def test_other_shares_can_be_asked_for(grades):
    data = rw.synthetic(n_queries=2000, n_features=1, n_docs=30, grades=grades, seed=5)
    shares = np.bincount(data.labels.astype(int), minlength=len(grades)) / data.n_docs
    np.testing.assert_allclose(shares, grades, atol=0.025)


def test_features_have_the_distributions_of_a_search_engine():
    data = rw.synthetic(n_queries=200, n_features=136, seed=1)
    columns = dict(zip(data.feature_names or (), data.features.T, strict=True))
    assert len(columns) == 136
    for name, column in columns.items():
        assert np.isfinite(column).all(), name
        if "_count" in name:
            assert (column == np.floor(column)).all()
            assert 0.2 < (column == 0).mean() < 0.8
        if "_flag" in name:
            assert set(column.tolist()) == {0.0, 1.0}
        if "_heavy" in name:
            assert column.max() > 30 * np.median(column) > 0
        if "_ratio" in name:
            assert 0.0 <= column.min() < column.max() <= 1.0
        if name.startswith("query_"):
            starts = data.offsets[:-1]
            np.testing.assert_array_equal(column, np.repeat(column[starts], data.sizes))
    kinds = {name.split("_")[-2] for name in list(columns)[10:] if not name.startswith("query")}
    assert kinds == {"count", "heavy", "tfidf", "bm25", "ratio", "flag", "lm"}
    # A third of the columns shows nothing at all: its rank correlation with the labels is noise.
    nothing = [column for name, column in columns.items() if name.startswith("nothing")]
    assert 30 < len(nothing) < 65
    for column in nothing:
        within = column - np.repeat(np.add.reduceat(column, data.offsets[:-1]) / data.sizes, data.sizes)
        assert abs(np.corrcoef(np.sign(within), data.labels)[0, 1]) < 5 / np.sqrt(data.n_docs)


def test_a_query_and_a_column_are_the_same_in_larger_data():
    small = rw.synthetic(n_queries=20, n_features=7, seed=3)
    larger = rw.synthetic(n_queries=50, n_features=40, seed=3)
    part = larger.take(range(20))
    np.testing.assert_array_equal(small.offsets, part.offsets)
    np.testing.assert_array_equal(small.labels, part.labels)
    np.testing.assert_array_equal(small.features, part.features[:, :7])
    assert small.feature_names == (larger.feature_names or ())[:7]
    other = rw.synthetic(n_queries=20, n_features=7, seed=4)
    assert other.n_docs != small.n_docs
    assert not np.isin(other.features[:, 0], small.features[:, 0]).all()


def test_threads_change_nothing(monkeypatch):
    expected = rw.synthetic(n_queries=30, seed=6)
    monkeypatch.setattr(threads, "_WORTH_THREADS", 0)
    for count in (1, 2, 3):
        with rw.use_threads(count):
            got = rw.synthetic(n_queries=30, seed=6)
            np.testing.assert_array_equal(got.features, expected.features)
            np.testing.assert_array_equal(got.labels, expected.labels)
            np.testing.assert_array_equal(
                rw.data.synthetic_ideal(got, seed=6), rw.data.synthetic_ideal(expected, seed=6)
            )


def test_the_ideal_is_perfect_without_noise_and_falls_with_it():
    quality = []
    for noise in (0.0, 0.4, 0.8, 1.6):
        data = rw.synthetic(n_queries=300, n_features=1, noise=noise, seed=2)
        quality.append(ndcg(rw.data.synthetic_ideal(data, seed=2), data).mean())
    assert quality[0] == pytest.approx(1.0, abs=1e-12)
    assert quality == sorted(quality, reverse=True)
    assert 0.7 < quality[2] < 0.9


def test_absurd_sizes_are_rejected_before_memory_is_allocated():
    for wanted in ({"n_queries": 10**10}, {"n_features": 10**12}, {"n_queries": 10**8, "n_docs": 1000.0}):
        with refusal(what="synthetic data may have 1e+11 numbers at most", hint="set n_queries=…"):
            rw.synthetic(**wanted)
    with refusal(what="synthetic ratings may have 1e+11 numbers at most"):
        rw.recommend.synthetic_ratings(n_users=10**7, n_items=10**7)


def test_the_ideal_knows_parts_and_refuses_other_data():
    data = rw.synthetic(n_queries=40, seed=8)
    whole = rw.data.synthetic_ideal(data, seed=8)
    for part in rw.split(data, seed=1):
        rows = np.isin(data.qids(), part.qids())
        np.testing.assert_array_equal(rw.data.synthetic_ideal(part, seed=8), whole[rows])
    sentence = (
        "the ideal scores are known only for documents that synthetic made, in their order: got other documents than "
        "those of seed 9 at RankingDataset\\(40 queries, .*\\). Hint: pass the seed that made the data, and the data "
        "before documents or the first feature are changed."
    )
    with pytest.raises(ValueError, match=sentence):
        rw.data.synthetic_ideal(data, seed=9)
    for changed in (rw.data.add_negatives(data, 0.1), rw.clicks.simulate_clicks(data), data.with_(query_ids=None)):
        with refusal(what="the ideal scores are known only for documents that synthetic made, in their order"):
            rw.data.synthetic_ideal(changed, seed=8)


@pytest.mark.parametrize("n_features", [30, pytest.param(136, marks=pytest.mark.slow)])
def test_better_rankers_do_better(n_features):
    data = rw.synthetic(n_queries=300, n_features=n_features, seed=0)
    train, test = rw.split(data, (0.7, 0.3), seed=1)
    dice = np.random.default_rng(0)
    columns = [sign * column for column in range(1, n_features) for sign in (1, -1)]
    some = train.take(range(70))
    best = max(columns, key=lambda c: ndcg(np.sign(c) * some.features[:, abs(c)], some).mean())
    trees = lightgbm.train(
        {"objective": "lambdarank", "verbose": -1, "num_threads": 1, "deterministic": True, "num_leaves": 15},
        lightgbm.Dataset(train.features, train.labels, group=train.sizes),
        100,
    )
    ladder = [
        ndcg(dice.random(test.n_docs), test),
        ndcg(np.sign(best) * test.features[:, abs(best)], test),
        ndcg(linear_scorer(train)(test), test),
        ndcg(trees.predict(test.features), test),
        ndcg(rw.data.synthetic_ideal(test, seed=0), test),
    ]
    for worse, better in itertools.pairwise(ladder):
        difference = better - worse
        assert difference.mean() > 0.04
        assert difference.mean() > 2.5 * difference.std() / np.sqrt(difference.size)
    assert ladder[-1].mean() < 0.9


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"n_queries": 0}, "n_queries must be a whole number of at least 1: got 0."),
        ({"n_features": 0}, "n_features must be a whole number of at least 1: got 0."),
        ({"n_docs": 1}, "n_docs must be a number in [2, 100000]: got 1."),
        ({"noise": -0.1}, "noise must be a number in [0, 1000]: got -0.1."),
        ({"grades": (0.5, 0.6)}, "the shares of the grades must add up to 1: got (0.5, 0.6) with a sum of 1.1."),
        ({"seed": -1}, "seed must be a whole number of at least 0: got -1."),
    ],
)
def test_errors(arguments, sentence):
    with pytest.raises(ValueError) as caught:
        rw.synthetic(**arguments)
    assert str(caught.value) == sentence


def within_queries(values, data):
    """Deviations from the mean of the query."""
    return values - np.repeat(np.add.reduceat(values, data.offsets[:-1]) / data.sizes, data.sizes)


def test_goals_add_labels_and_change_nothing_else():
    plain, more = (
        rw.synthetic(n_queries=60, n_docs=12, seed=4, goals=goals) for goals in (None, {"buy": 60, "fun": 0})
    )
    assert plain.more_labels is None
    np.testing.assert_array_equal(plain.features, more.features)
    np.testing.assert_array_equal(plain.labels, more.labels)
    assert set(more.more_labels or ()) == {"buy", "fun"}
    assert (more.labels_of("fun") != more.labels).any()  # another judge, with noise of their own
    alone = rw.synthetic(n_queries=60, n_docs=12, seed=4, goals={"buy": 60})
    np.testing.assert_array_equal(alone.labels_of("buy"), more.labels_of("buy"))
    exact = rw.synthetic(n_queries=60, n_docs=12, seed=4, noise=0.0, goals={"fun": 0})
    np.testing.assert_array_equal(exact.labels_of("fun"), exact.labels)


def test_goals_conflict_by_their_angle():
    angles = {"same": 0.0, "near": 30.0, "far": 60.0, "right": 90.0, "against": 150.0, "other": -60.0}
    data = rw.synthetic(n_queries=600, n_docs=30, n_features=2, noise=0.0, seed=5, goals=angles)
    ideal = {
        name: within_queries(rw.data.synthetic_ideal(data, angle=angle, seed=5), data) for name, angle in angles.items()
    }
    of_labels = within_queries(data.labels, data)
    correlations = []
    for name, angle in angles.items():
        close = np.corrcoef(ideal["same"], ideal[name])[0, 1]
        assert abs(close - np.cos(np.radians(angle))) < 0.02
        assert abs(ideal[name].std() / ideal["same"].std() - 1.0) < 0.03
        assert ndcg(ideal[name], data.with_(labels=data.labels_of(name))).min() > 1.0 - 1e-9
        correlations.append(np.corrcoef(of_labels, within_queries(data.labels_of(name), data))[0, 1])
    assert (np.diff(correlations[:5]) < -0.1).all()  # labels agree the less, the larger the angle
    assert abs(np.corrcoef(ideal["far"], ideal["other"])[0, 1] - np.cos(np.radians(120.0))) < 0.02  # one plane
    shares = [np.bincount(labels.astype(int), minlength=5) / data.n_docs for labels in map(data.labels_of, angles)]
    np.testing.assert_allclose(shares, np.tile(MSLR_GRADES, (6, 1)), atol=0.03)


def test_goals_with_names_that_no_expression_could_hold_are_refused():
    with refusal(what="a name in goals must be an identifier, of letters, digits and _", got="'net sales'"):
        rw.synthetic(n_queries=5, goals={"net sales": 30})
    with refusal(what="the angle of 'buy' must be a number in (-inf, inf)"):
        rw.synthetic(n_queries=5, goals={"buy": float("nan")})
