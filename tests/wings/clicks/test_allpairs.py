"""AllPairs on exact moments, what it refuses, its gradient, and what intervals depend on."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from rankwise.base.stream import Stream
from rankwise.clicks import propensities
from rankwise.wings.clicks.positions.allpairs import PositionSwaps, poisson_counts
from tests.refusals import refusal, refuses
from tests.wings.clicks.logs import CURVE, exact_log, rankings

RELEVANCE = np.random.default_rng(5).uniform(0.02, 0.95, (30, 6))


def confounded(seed=1, **more):
    rows, rankers = rankings(30, 6, 3, seed=seed, noise=0.15, best_first=RELEVANCE)
    random = np.random.default_rng(seed)
    impressions = random.integers(1, 200, len(rows))
    return exact_log(rows, relevance=RELEVANCE, rankers=rankers, **({"impressions": impressions} | more))


def test_exact_moments_recover_the_curve():
    bias = propensities(confounded())
    np.testing.assert_allclose(bias.alpha, CURVE, rtol=1e-6)
    assert (bias.beta == 0).all()
    log = confounded()
    ratio = np.bincount(log.positions, log.clicks)[1:] / np.bincount(log.positions, log.impressions)[1:]
    assert abs(ratio[-1] / ratio[0] / CURVE[-1] - 1) > 0.3  # rates by position are far off: the log is confounded


def test_positions_of_equal_product_have_their_own_relevance():
    # With one parameter for 1 and 6, and for 2 and 3, the curve would be off.
    shown = [(0, 0, 1), (0, 0, 6), (1, 0, 2), (1, 0, 3), (2, 0, 1), (2, 0, 2), (3, 0, 3), (3, 0, 4), (4, 0, 4)]
    shown += [(4, 0, 5), (5, 0, 5), (5, 0, 6), (6, 0, 1), (6, 0, 3)]
    relevance = np.array([[0.9], [0.1], [0.5], [0.4], [0.7], [0.3], [0.8]])
    log = exact_log(shown, relevance=relevance)
    np.testing.assert_allclose(propensities(log).alpha, CURVE, rtol=1e-6)


def test_documents_count_by_their_impressions():
    # One document with many impressions tells the truth, another with one impression at each position does not.
    shown = [(0, 0, 1), (0, 0, 2), (1, 0, 1), (1, 0, 2)]
    log = exact_log(shown, relevance=np.array([[0.5], [0.5]]), impressions=[1000, 1000, 1, 1])
    clicks = log.clicks.copy()
    clicks[2:] = 0.0, 1.0
    assert propensities(replace(log, clicks=clicks)).alpha[1] == pytest.approx(CURVE[1], rel=0.01)


def test_the_gradient_is_that_of_the_likelihood():
    swaps = PositionSwaps.of(confounded(draw=np.random.default_rng(2)), confounded().pairs)
    sums = swaps.sums.sum((0, 1))
    point = np.random.default_rng(0).normal(size=6)
    gradient = swaps.likelihood(point, sums)[1]
    numeric = approx_fprime(point, lambda x: swaps.likelihood(x, sums)[0], 1e-6)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-3)


def test_the_relevance_of_a_pair_is_the_best_one():
    sums = np.array([[50.0, 30.0, 10.0]])
    logs = np.log([1.0, 0.6])
    best = PositionSwaps.of(exact_log([(0, 0, 1), (0, 0, 2)]), np.zeros(2, np.int64)).likelihood(logs, sums)[0]
    rates = np.linspace(0.01, 0.99, 981)[:, None] * np.exp(logs)
    listed = (np.array([30, 10]) * np.log(rates) + np.array([20, 40]) * np.log1p(-rates)).sum(1)
    assert listed.max() <= best < listed.max() + 1e-3


def test_samples_are_fitted_as_the_log_is():
    log = confounded(draw=np.random.default_rng(7))
    swaps = PositionSwaps.of(log, log.pairs)
    times = poisson_counts(swaps.words, 3, Stream(5))
    assert np.unique(times).size > 2
    fitted = [swaps.fit(np.einsum("g,gpc->pc", row, swaps.sums[0])) for row in times]
    for start in (swaps.fit(swaps.sums.sum((0, 1))), np.zeros(6)):
        np.testing.assert_allclose(swaps.resampled(start, 3, Stream(5)), fitted, atol=1e-6)


def test_positions_that_exchange_nothing_are_named():
    shown = [(0, 0, 1), (0, 0, 2), (1, 0, 2), (1, 0, 3), (2, 0, 4), (2, 0, 5), (3, 0, 5), (3, 0, 6)]
    with refusal(what="position bias is not identified: positions 1 to 3 and 4 to 6 never exchange a document"):
        propensities(exact_log(shown))
    log = exact_log([*shown, (4, 0, 3), (4, 0, 4)], relevance=np.array([[0.5], [0.5], [0.5], [0.5], [0.0]]))
    with refusal(what="position bias is not identified: positions 1 to 3 and 4 to 6 exchange no click"):
        propensities(log)


def test_one_ranking_identifies_nothing():
    rows, rankers = rankings(30, 6, 1)
    refuses(lambda: propensities(exact_log(rows, rankers=rankers)), what="…not identified…", got="one position each…")


def test_a_position_without_clicks_is_named():
    log = exact_log([(0, 0, 1), (0, 0, 2), (1, 0, 2), (1, 0, 3)], alpha=np.array([1.0, 0.5, 0.0]))
    refuses(lambda: propensities(log), what="position bias needs clicks at every position", got="none at 3…")


def test_segments_with_other_click_rates_do_not_confound():
    # The second segment clicks a third as often, and sees documents at other positions.
    rows = [(query, 0, position) for query in range(20) for position in (1, 2, 3)]
    half = [place % 3 for place in range(len(rows))]
    log = exact_log(
        rows * 2,
        alpha=np.array([[1.0, 0.5, 0.2], [0.3, 0.15, 0.06]]),
        segments=[0] * len(rows) + [1] * len(rows),
        impressions=[[10.0, 100.0, 1.0][one] for one in half] + [[100.0, 1.0, 50.0][one] for one in half],
    )
    np.testing.assert_allclose(propensities(log).alpha, [1.0, 0.5, 0.2], rtol=1e-6)


def test_intervals_do_not_depend_on_the_order_of_queries_and_come_back():
    log = confounded(draw=np.random.default_rng(7))
    bias = propensities(log, resamples=20, seed=3)
    turned = np.argsort(log.query_ids)[::-1]
    start, size = log.offsets[:-1], np.diff(log.offsets)
    rows = np.concatenate([np.arange(start[q], start[q] + size[q]) for q in turned])
    number = np.empty(rows.size, np.int64)
    number[rows] = np.arange(rows.size)
    other = replace(
        log,
        query_ids=log.query_ids[turned],
        offsets=np.append(0, np.cumsum(size[turned])),
        document_ids=log.document_ids[rows],
        pairs=number[log.pairs],
    )
    np.testing.assert_allclose(propensities(other, resamples=20, seed=3).alpha_low, bias.alpha_low, rtol=1e-6)
    assert not np.allclose(propensities(log, resamples=20, seed=4).alpha_low[1:], bias.alpha_low[1:], rtol=1e-6)
    assert (bias.alpha_low[1:] < bias.alpha[1:]).all()
    assert (bias.alpha_high[1:] > bias.alpha[1:]).all()
    assert bias.alpha_low[0] == bias.alpha_high[0] == 1.0


def test_intervals_shrink_with_more_queries_and_need_some():
    few = propensities(exact_log([(0, 0, 1), (0, 0, 2), (1, 0, 1), (1, 0, 2)]))
    assert np.isnan(few.alpha_low).all()
    assert "2 queries are too few for intervals" in few.assumptions
    widths = []
    for n_queries in (40, 640):
        rows = [(query, 0, position) for query in range(n_queries) for position in (1, 2)]
        bias = propensities(exact_log(rows, draw=np.random.default_rng(0)))
        widths.append(np.log(bias.alpha_high[1] / bias.alpha_low[1]))
    assert 2.5 < widths[0] / widths[1] < 6.5  # four times narrower


def test_many_queries_are_resampled_in_groups(monkeypatch):
    rows = [(query, 0, position) for query in range(640) for position in (1, 2)]
    log = exact_log(rows, draw=np.random.default_rng(0))
    one_by_one = propensities(log)
    monkeypatch.setattr("rankwise.wings.clicks.positions.allpairs._MOST_GROUPS", 256)
    monkeypatch.setattr("rankwise.wings.clicks.positions.allpairs._MOST_SUMS", 1)
    grouped = propensities(log)
    np.testing.assert_allclose(grouped.alpha, one_by_one.alpha, rtol=1e-9)
    np.testing.assert_allclose(
        grouped.alpha_high - grouped.alpha_low, one_by_one.alpha_high - one_by_one.alpha_low, rtol=0.3
    )
