"""The check of a position bias: exact on expectations, alarmed by wrong curves, silent where it cannot be done."""

from dataclasses import replace

import numpy as np
import pytest

from rankwise.clicks import Bias
from tests.clicks.logs import CURVE, exact_log, rankings

RELEVANCE = np.random.default_rng(5).uniform(0.02, 0.9, (40, 6))
BETA = np.array([0.0, 0.05, 0.04, 0.03, 0.02, 0.02])


def logged(n_rankers=3, **more):
    rows, rankers = rankings(40, 6, n_rankers, seed=1, noise=0.3, best_first=RELEVANCE)
    impressions = np.random.default_rng(1).integers(1, 5000, len(rows))
    return exact_log(rows, relevance=RELEVANCE, rankers=rankers, **({"impressions": impressions} | more))


@pytest.mark.parametrize("beta", [np.zeros(6), BETA])
def test_the_right_bias_predicts_expected_clicks_exactly(beta):
    outcome = Bias.known(CURVE, beta).check(logged(beta=beta))
    assert outcome.possible
    assert not outcome.alarm
    np.testing.assert_allclose(outcome.ratio, 1.0, rtol=1e-9)
    assert "No alarm" in str(outcome)


@pytest.mark.parametrize(
    ("bias", "beta"),
    [
        (Bias.known(CURVE**0.5), np.zeros(6)),
        (Bias.known(CURVE**1.5), np.zeros(6)),
        (Bias.known(np.ones(6)), np.zeros(6)),
        (Bias.known(CURVE), 2 * BETA),
    ],
)
def test_wrong_curves_raise_the_alarm(bias, beta):
    outcome = bias.check(logged(beta=beta))
    assert outcome.alarm
    assert "ALARM" in str(outcome)
    assert outcome.to_frame().filter("off").height == outcome.off.sum() > 0


def test_a_prediction_by_hand():
    # Relevance from position 2 of the other ranker; at position 1 both show document 0 in query 0, which tells nothing.
    rows = [(q, d, p) for q in range(12) for d, p in ((0, 1), (1, 2))]
    rows += [(q, d, p) for q in range(12) for d, p in (((0, 1), (1, 2)) if q == 0 else ((0, 2), (1, 1)))]
    log = exact_log(rows, alpha=np.array([1.0, 0.5]), rankers=[0] * 24 + [1] * 24)
    clicks = log.clicks.copy()
    outcome = Bias.known([1.0, 0.25]).check(log)
    np.testing.assert_allclose(outcome.ratio, [[0.5, 2.0], [0.5, 2.0]])
    np.testing.assert_allclose(outcome.shared, [22 / 24, 22 / 24])
    first = (log.rankers == 0) & (log.positions == 1) & (log.queries > 0)
    weight = 25 / (25 + 100)  # what the other's 100 impressions at position 2 are worth beside 100 at position 1
    np.testing.assert_allclose(outcome.observed[0, 0], weight * clicks[first].sum())


def test_predictions_below_zero_and_clicks_that_are_missing_raise_the_alarm():
    log = logged()
    too_trusting = Bias.known(CURVE, np.full(6, 0.9)).check(log)
    assert np.isinf(too_trusting.ratio).any()
    assert too_trusting.alarm
    unclicked = replace(log, clicks=np.where(log.positions == 6, 0.0, log.clicks))
    outcome = Bias.known(CURVE).check(unclicked)
    assert (outcome.ratio[:, 5] == 0).all()
    assert outcome.off[:, 5].all()


def test_few_clicks_cannot_be_checked():
    rows, rankers = rankings(12, 6, 2, seed=1, noise=0.3, best_first=RELEVANCE[:12])
    log = exact_log(
        rows, relevance=RELEVANCE, rankers=rankers, impressions=[3] * len(rows), draw=np.random.default_rng(0)
    )
    outcome = Bias.known(CURVE).check(log)
    assert not outcome.possible
    assert "too few clicks" in str(outcome)


def test_noise_alone_does_not_raise_the_alarm():
    few = np.random.default_rng(2).integers(1, 40, 720)
    alarms = [
        Bias.known(CURVE).check(logged(impressions=few, draw=np.random.default_rng(seed))).alarm for seed in range(40)
    ]
    assert sum(alarms) <= 6


def test_intervals_hold():
    # At the level of one comparison instead of all of them, so that misses can be counted.
    few = np.random.default_rng(2).integers(20, 400, 720)
    level = 1 - 0.05 * 18
    misses = []
    for seed in range(60):
        outcome = Bias.known(CURVE).check(logged(impressions=few, draw=np.random.default_rng(seed)), level=level)
        misses.append((outcome.low > 1) | (outcome.high < 1))
    assert 0.01 < np.mean(misses) < 0.1


def test_one_ranker_cannot_be_checked_but_two_times_can():
    before = logged(1)
    outcome = Bias.known(CURVE).check(before)
    assert not outcome.possible
    assert not outcome.alarm
    assert "cannot be checked: the log has one ranker" in str(outcome)
    rows, _ = rankings(40, 6, 1, seed=9, noise=0.3, best_first=RELEVANCE)
    after = exact_log(rows, relevance=RELEVANCE)
    right, wrong = Bias.known(CURVE).check(before, after), Bias.known(CURVE**0.5).check(before, after)
    assert right.possible
    assert not right.alarm
    np.testing.assert_allclose(right.ratio, 1.0)
    assert wrong.alarm
    assert wrong.names == ("the first log", "the second log")


def test_rankers_that_agree_cannot_be_checked():
    rows, _ = rankings(40, 6, 1)
    outcome = Bias.known(CURVE).check(exact_log(rows * 2, rankers=[0] * len(rows) + [1] * len(rows)))
    assert not outcome.possible
    assert "no document was shown at different positions" in outcome.reason
    with pytest.raises(ValueError, match="nothing to draw"):
        outcome.plot("nowhere.png")


def test_the_figure_is_written(tmp_path):
    outcome = Bias.known(CURVE**0.5).check(logged(draw=np.random.default_rng(0)))
    assert outcome.plot(tmp_path / "check.png").stat().st_size > 1000
