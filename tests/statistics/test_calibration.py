"""Curves from scores to probabilities, and reliability, beside scikit-learn's and numbers by hand."""

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

import rankwise as rw
from rankwise.statistics.calibration import Curve, fitted, sigmoid
from tests.refusals import refusal, refuses


def drawn(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    scores = np.round(rng.normal(size=n), 2)  # ties
    return scores, (rng.random(n) < sigmoid(1.5 * scores - 1)).astype(float), rng.uniform(0.5, 2.0, n)


def test_platt_is_logistic_regression_of_platts_targets():
    scores, relevant, weights = drawn()
    curve = fitted("platt", scores, relevant, weights)
    assert curve is not None
    positive, negative = weights @ relevant, weights @ (1 - relevant)
    high, low = (positive + 1) / (positive + 2), 1 / (negative + 2)
    targets = np.where(relevant > 0, high, low)
    # A document with the target t is t of a relevant and 1 - t of another one.
    peer = LogisticRegression(C=np.inf, tol=1e-10).fit(
        np.tile(scores, 2)[:, None],
        np.repeat([1, 0], scores.size),
        np.append(weights * targets, weights * (1 - targets)),
    )
    places = np.linspace(-5, 5, 50)
    np.testing.assert_allclose(curve(places), peer.predict_proba(places[:, None])[:, 1], atol=1e-5)


def test_isotonic_passes_through_the_blocks_of_isotonic_regression():
    scores, relevant, weights = drawn()
    curve = fitted("isotonic", scores, relevant, weights)
    assert curve is not None
    peer = IsotonicRegression().fit(scores, relevant, weights).predict(scores)
    for value in np.unique(peer)[1:-1]:  # the outer blocks are drawn away from 0 and 1
        block = peer == value
        np.testing.assert_allclose(
            curve(float(np.average(scores[block], weights=weights[block]))), float(value), atol=1e-9
        )
    places = np.unique(scores)
    assert (np.diff(curve(places)) > 0).all()
    assert (np.diff(curve(np.linspace(-50, 50, 999))) > 0).all()
    assert np.average(curve(scores), weights=weights) == pytest.approx(np.average(relevant, weights=weights), abs=0.01)


def test_blocks_of_0_and_1_by_hand():
    # Blocks of 4 documents at 0, none relevant; 2 at 1, one of them; 3 at 2, all: 0.1, 1/2 and 7/8.
    scores, relevant = np.repeat([0.0, 1.0, 2.0], [4, 2, 3]), np.array([0, 0, 0, 0, 1, 0, 1, 1, 1.0])
    curve = fitted("isotonic", scores, relevant, np.ones(9))
    assert curve is not None
    np.testing.assert_allclose(curve([0.0, 0.5, 1.0, 2.0]), [0.1, float(sigmoid(np.log(1 / 9) / 2)), 0.5, 0.875])


def test_rates_that_differ_by_rounding_are_one_block():
    # A third is relevant at every score from 0 to 11, whatever the weight: 0.1/0.3 and 0.7/2.1 differ by rounding.
    scores = np.append(np.repeat(np.arange(12.0), 3), [-1.0, 20.0])
    relevant = np.append(np.tile([1.0, 0.0, 0.0], 12), [0.0, 1.0])
    for seed in range(20):
        weights = np.random.default_rng(seed).choice([0.1, 0.3, 0.7, 0.9], 12)
        curve = fitted("isotonic", scores, relevant, np.append(np.repeat(weights, 3), [1.0, 1.0]))
        assert curve is not None
        assert curve.scores.size == 3
        assert (np.diff(curve(np.linspace(-1, 20, 500))) > 0).all()


@pytest.mark.parametrize("method", ["platt", "isotonic"])
def test_scores_that_mean_nothing_have_no_curve(method):
    relevant = np.array([1.0, 1, 0, 0])
    for scores in (np.arange(4.0), np.zeros(4)):
        assert fitted(method, scores, relevant, np.ones(4)) is None


def test_a_curve_that_does_not_rise_is_refused():
    for scores, log_odds in (
        ([0, 0], [0, 1]),
        ([0, 1], [1, 0]),
        ([0], [1]),
        ([0, 1], [0, np.nan]),
        ([0, 1], [0, 1, 2]),
    ):
        with refusal(what="…curve…"):
            Curve(np.array(scores, float), np.array(log_odds, float))


def evaluation(p, labels, size, **settings):
    data = rw.RankingDataset(np.zeros((p.size, 1)), labels, np.arange(0, p.size + 1, size))
    return rw.evaluate(p, data, **settings)


def test_reliability_by_hand():
    # Eight documents at 0.2, of which 2 are relevant, and eight at 0.7, of which 4 are: half of 0.05 and of 0.2.
    p, labels = np.tile([0.2, 0.7], 8), np.zeros(16)
    labels[[0, 2, 1, 3, 5, 7]] = 2
    reliability = evaluation(p, labels, 2).reliability(bins=2, relevant=2)
    np.testing.assert_allclose(reliability.predicted, [0.2, 0.7])
    np.testing.assert_allclose(reliability.observed, [0.25, 0.5])
    assert reliability.documents.tolist() == [8, 8]
    assert reliability.error == pytest.approx(0.125)
    brier = (2 * 0.8**2 + 6 * 0.2**2 + 4 * 0.3**2 + 4 * 0.7**2) / 16
    assert reliability.brier == pytest.approx(brier)
    assert evaluation(p, labels, 2).reliability(relevant=3).observed.max() == 0


def test_weights_of_queries_count():
    p, labels = np.array([0.2, 0.4, 0.2, 0.4]), np.array([1.0, 0, 0, 1])
    data = rw.RankingDataset(np.zeros((4, 1)), labels, [0, 2, 4], weights=[3.0, 1.0])
    reliability = rw.evaluate(p, data).reliability(bins=2)
    np.testing.assert_allclose(reliability.observed, [0.75, 0.25])
    assert reliability.error == pytest.approx((0.55 + 0.15) / 2)


def test_queries_without_weight_do_not_count():
    p, labels = np.tile([0.2, 0.4], 10), np.tile([0.0, 1.0, 1.0, 0.0], 5)
    data = rw.RankingDataset(np.zeros((20, 1)), labels, np.arange(0, 21, 2))
    weights = np.append(np.ones(10), 0.0)
    both = rw.RankingDataset(np.zeros((24, 1)), np.append(labels, [0, 0, 1, 0]), [*data.offsets, 24], weights=weights)
    one = rw.evaluate(p, data).reliability(bins=3)
    other = rw.evaluate(np.append(p, [0.7, 0.8, 0.9, 0.95]), both).reliability(bins=3)
    assert (other.error, other.brier, other.documents.tolist()) == (one.error, one.brier, [10, 10])


def test_the_interval_of_a_bin_that_few_queries_have():
    # One query has all documents at 0.9, and all are relevant: one query tells next to nothing.
    p, labels = np.r_[np.full(18, 0.1), 0.9, 0.9], np.r_[np.zeros(18), 1.0, 1.0]
    reliability = evaluation(p, labels, 2).reliability(bins=10)
    assert reliability.low[-1] < 0.05
    assert reliability.high[-1] == 1.0
    # Nine queries without relevant documents: Wilson's interval, t² / (9 + t²), with Student's quantile of 8 degrees.
    assert (reliability.low[0], reliability.high[0]) == (0.0, pytest.approx(2.3060**2 / (9 + 2.3060**2), rel=1e-4))


def test_intervals_of_bins_are_wilsons_where_documents_are_queries():
    labels = np.r_[np.ones(3), np.zeros(17)]
    reliability = evaluation(np.full(20, 0.3), labels, 1).reliability(bins=2)
    z, n = 2.0930**2, 20 * 19 / 20  # Student's quantile of 19 degrees; the variance is 20/19 of the binomial one
    middle, half = 0.15 + z / n / 2, np.sqrt(z / n * 0.15 * 0.85 + (z / n) ** 2 / 4)
    expected = (middle + np.array([-half, half])) / (1 + z / n)
    np.testing.assert_allclose([reliability.low[0], reliability.high[0]], expected, rtol=1e-4)


def test_squared_gaps_without_chance_by_hand():
    # Queries of one document at 0.5, of which 15 of 20 are relevant: 0.25² less the variance of the mean.
    reliability = evaluation(np.full(20, 0.5), np.r_[np.ones(15), np.zeros(5)], 1).reliability(bins=2)
    assert reliability.error == pytest.approx(0.25)
    variance = max(0.75 * 0.25 / 19, 0.5 * 0.5 / 20)
    assert reliability.root_mean_square == pytest.approx(np.sqrt(0.25**2 - variance))
    assert evaluation(np.full(20, 0.5), np.tile([0.0, 1.0], 10), 1).reliability(bins=2).root_mean_square == 0.0


@pytest.mark.parametrize(("relevant", "holds"), [(10, 0.0), (13, 0.0), (16, 0.3)])
def test_the_interval_inverts_the_test_of_one_bin(relevant, holds):
    # One bin of independent documents: |gap| with Student's noise, as in a two-sided t-test of its mean.
    reliability = evaluation(np.full(20, 0.5), np.r_[np.ones(relevant), np.zeros(20 - relevant)], 1, resamples=40_000)
    low, high = reliability.reliability(bins=2).interval
    rate = relevant / 20
    error = np.sqrt(max(rate * (1 - rate) / 19, 0.25 / 20))
    most = 2.4334 * error  # |noise| is less in 97.5%: Student's quantile .9875 of 19 degrees
    assert low == pytest.approx(max(abs(rate - 0.5) - most, 0.0), abs=0.004)
    assert low <= holds <= high
    if rate > 0.7:  # far from 0 the interval is Student's
        assert high == pytest.approx(abs(rate - 0.5) + 2.0930 * error, abs=0.01)
    assert high > 0.1  # never [0, 0], however well the rates agree


def test_an_error_that_chance_could_explain_is_not_denied():
    # 40 queries of 20 documents with a known error of .05 everywhere: most tests of "no error" do not reject it.
    held, without = 0, 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        p = 0.1 + 0.8 * rng.beta(1, 4, 800)
        one = evaluation(p + 0.05, rng.random(800) < p, 20, resamples=400).reliability()
        held += one.interval[0] <= 0.05 <= one.interval[1]
        without += one.interval[0] == 0.0
        assert ("Chance may be all of it" in repr(one)) == (one.interval[0] == 0.0)
    assert held >= 19
    assert without > 5


def test_few_relevant_documents_are_no_certainty():
    # Nothing relevant where 1% are predicted: chance in 1 of 3 cases, though nothing varies.
    one = evaluation(np.tile([0.005, 0.015], 50), np.ones(100), 2).reliability(bins=2, relevant=2)
    assert one.interval[0] == 0.0
    assert one.interval[1] > 0.01
    assert one.by_chance > 0.005


def test_fewer_than_three_queries_have_no_interval():
    one = evaluation(np.tile([0.2, 0.4], 4), np.tile([0.0, 1.0], 4), 4).reliability(bins=2)
    assert np.isnan(one.interval).all()
    assert "no interval" in repr(one)
    assert one.to_dict()["interval"] == [None, None]


def test_labels_by_name_and_what_was_observed_is_said():
    p, bought = np.tile([0.2, 0.7], 8), np.tile([0.0, 1.0], 8)
    data = rw.RankingDataset(np.zeros((16, 1)), 1 - bought, np.arange(0, 17, 2), more_labels={"purchase": 2 * bought})
    evaluated = rw.evaluate(p, data)
    assert evaluated.reliability(bins=2).observed.tolist() == [1.0, 0.0]
    named = evaluated.reliability(bins=2, label="purchase", relevant=2)
    assert named.observed.tolist() == [0.0, 1.0]
    assert "Observed: purchase of at least 2." in repr(named)
    assert named.to_dict()["label"] == "purchase"
    with refusal(what="the data have no labels called 'purchas'", hint="did you mean 'purchase'"):
        evaluated.reliability(label="purchas")


def test_the_error_of_calibrated_probabilities_is_chance():
    rng = np.random.default_rng(3)
    p = rng.beta(1, 4, 12_000)
    labels = rng.random(p.size) < p
    right = evaluation(p, labels, 20, resamples=300).reliability()
    assert right.interval[0] == 0.0
    assert right.error < 2 * right.by_chance
    # The known error of the square root, in population: the mean of sqrt(p) - p.
    wrong = evaluation(np.sqrt(p), labels, 20, resamples=300).reliability()
    known = (np.sqrt(p) - p).mean()
    assert wrong.interval[0] < known < wrong.interval[1]
    assert wrong.interval[1] - wrong.interval[0] < 0.05


def test_intervals_do_not_depend_on_the_order_of_queries():
    rng = np.random.default_rng(4)
    p = rng.random(400)
    labels, ids = (rng.random(400) < p).astype(float), np.array([f"q{k}" for k in range(40)])
    data = rw.RankingDataset(p[:, None], labels, np.arange(0, 401, 10), query_ids=ids)
    turned = data.take(rng.permutation(40))
    one, other = (rw.evaluate(each.features[:, 0], each).reliability(bins=5) for each in (data, turned))
    assert one.interval == pytest.approx(other.interval, rel=1e-9)
    np.testing.assert_allclose(one.low, other.low)


def test_scores_that_are_no_probabilities_are_refused():
    with refusal(what="reliability is that of probabilities", got="scores from 0.1 to 1.5", hint="…calibrate…"):
        evaluation(np.array([0.1, 1.5]), np.array([0, 1.0]), 2).reliability()
    by_hand = rw.Evaluation({"ndcg": [0.5]}, [1])
    refuses(by_hand.reliability, what="documents are not kept in this evaluation")


def test_tables_frames_and_pictures(tmp_path):
    rng = np.random.default_rng(5)
    p = rng.random(600)
    reliability = evaluation(p, rng.random(600) < p, 10).reliability(bins=4)
    assert "Calibration error" in repr(reliability)
    assert reliability.to_frame().columns == ["predicted", "observed", "low", "high", "documents"]
    assert len(reliability.to_dict()["bins"]) == 4
    assert reliability.plot(tmp_path / "curve.png", title="model").stat().st_size > 10_000
    with pytest.raises(FileExistsError):
        reliability.plot(tmp_path / "curve.png")
