"""The check of a position bias: exact on expectations, alarmed by wrong curves, silent where it cannot be done."""

from dataclasses import replace

import numpy as np
import pytest

from rankwise.clicks import Bias, propensities
from rankwise.wings.clicks.positions import confounding
from rankwise.wings.clicks.positions.confounding import _change
from tests.refusals import refuses
from tests.wings.clicks.logs import CURVE, exact_log, over_days, rankings

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
    refuses(lambda: outcome.plot("nowhere.png"), what="there is nothing to draw")


def changing(*, follow=True, change=0.5, n_days=4, n_rankers=3, draw=True, alternate=False):
    """Return a log in which documents change their relevance from day to day, and rankers may follow."""
    random = np.random.default_rng(8)
    relevance = first = random.uniform(0.02, 0.9, (60, 6)) ** 2
    logs = []
    for day in range(n_days):
        fresh = random.uniform(0.02, 0.9, relevance.shape) ** 2
        relevance = np.where(random.random(relevance.shape) < (change if day else 0.0), fresh, relevance)
        noise = {"noise": 0.3, "best_first": relevance if follow else first, "seed": day if follow else 1}
        rows, rankers = rankings(60, 6, n_rankers, **noise)
        if alternate:
            rows = [row for row, one in zip(rows, rankers, strict=True) if one == 0]
            rankers = [day % n_rankers] * len(rows)
        options = {"impressions": [400] * len(rows), "draw": random if draw else None}
        logs.append(exact_log(rows, relevance=relevance, rankers=rankers, n_documents=6, **options))
    return over_days(*logs)


def test_relevance_that_changes_while_rankers_follow_it_is_seen_with_times_alone():
    log = changing()
    bias, without = propensities(log, resamples=2), replace(log, days=None)
    assert bias.alpha[-1] < 0.7 * CURVE[-1]
    assert not bias.check(without).off.any()  # all swaps are confounded alike
    assert (
        "This cannot see robots (the log has no users: user=), nor relevance that changes while rankers follow it"
        in (bias.check(without).sentence)
    )
    outcome = bias.check(log)
    assert outcome.alarm
    assert "within 1 day and" in outcome.sentence
    assert "estimate the bias with period=1" in outcome.sentence
    within = propensities(log, resamples=2, period=1)  # the hint is followed
    np.testing.assert_allclose(within.alpha, CURVE, rtol=0.06)
    assert not within.check(log).alarm
    assert "within chance, within 1 day" in within.check(log).sentence


def test_swaps_within_a_period_are_exact():
    log = changing(draw=False)
    np.testing.assert_allclose(propensities(log, resamples=2, period=1).alpha, CURVE, rtol=1e-6)
    whole = propensities(log, resamples=2).alpha
    np.testing.assert_allclose(propensities(log, resamples=2, period=4).alpha, whole, rtol=1e-9)
    outcome = Bias.known(CURVE).check(log)
    np.testing.assert_allclose(outcome.ratio, 1.0, rtol=1e-9)
    assert outcome.period == 1


@pytest.mark.parametrize("options", [{"change": 0.0}, {"follow": False}, {"change": 0.0, "alternate": True}])
def test_times_do_not_alarm_where_relevance_stays_or_rankers_do_not_follow(options):
    log = changing(**options)
    outcome = propensities(log, resamples=2).check(log)
    assert not outcome.alarm
    assert outcome.period == (None if "alternate" in options else 1)
    assert ("relevance that changes within 4 days, but only where documents move" in outcome.sentence) == (
        "alternate" in options
    )


def test_a_curve_that_is_wrong_over_all_time_is_no_sign_of_change():
    outcome = Bias.known(CURVE**0.5).check(changing(change=0.0))
    assert "so that this is not the bias of this log" in outcome.sentence
    assert "relevance changed" not in outcome.sentence


def test_curves_of_very_many_positions_are_not_resampled(monkeypatch):
    log = changing(change=0.0)
    monkeypatch.setattr(confounding, "_MOST_POSITIONS", 5)
    outcome = Bias.known(CURVE).check(log)
    assert outcome.period is None
    assert "This cannot see" in outcome.sentence
    assert "relevance that changes within 4 days" in outcome.sentence


def test_documents_that_did_not_move_tell_where_no_day_has_two_rankers():
    log = changing(alternate=True)
    outcome = propensities(log, resamples=2).check(log)
    assert "click rates of documents that did not move differ by" in outcome.sentence
    assert outcome.alarm


def test_a_change_of_click_rates_by_hand():
    # Half of the documents have rates of .1 and .3, whose variance is .02, the others always .2: √(.02/2) over .2.
    relevance = np.full((80, 1), 0.2)
    up, down = (relevance + np.where(np.arange(80) % 2, sign * 0.1, 0.0)[:, None] for sign in (1, -1))
    rows = [(query, 0, 1) for query in range(80)]
    draw = np.random.default_rng(0)
    days = [
        exact_log(rows, alpha=np.ones(1), relevance=one, impressions=[500] * 80, draw=draw)
        for one in (np.where(np.arange(80)[:, None] % 4 < 2, a, b) for a, b in ((up, down), (down, up)))
    ]
    assert _change(over_days(*days), 1)[0] == pytest.approx(0.5, rel=0.1)
    change, least = _change(over_days(*[days[0]] * 2), 1)
    assert change == 0.0
    assert least < 0.2


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        ({"period": 1}, {"what": "this needs the times of a log"}),
        ({"period": 1, "trust": True}, {"what": "period= works with method='harvest' and without trust"}),
        ({"period": 1, "method": "em"}, {"what": "period= works with method='harvest' and without trust"}),
    ],
)
def test_periods_need_times_and_harvest(arguments, fields):
    refuses(lambda: propensities(logged(), **arguments), **fields)
