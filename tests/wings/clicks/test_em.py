"""Relevance and position fitted together: exact moments, trust, features, and what is not identified."""

import numpy as np
import pytest
from scipy import stats

import rankwise as rw
from rankwise.clicks import propensities
from rankwise.wings.clicks.positions import joint
from tests.refusals import refusal, refuses
from tests.wings.clicks.logs import CURVE, exact_log, rankings

RELEVANCE = np.random.default_rng(5).uniform(0.05, 0.9, (30, 6))
N = 60  # queries with features
BETA = np.array([0.0, 0.08, 0.06, 0.05, 0.03, 0.02])


def logged(n_rankers=3, **more):
    rows, rankers = rankings(30, 6, n_rankers, seed=1, noise=0.4, best_first=RELEVANCE)
    impressions = np.random.default_rng(1).integers(50, 500, len(rows))
    return exact_log(rows, relevance=RELEVANCE, rankers=rankers, **({"impressions": impressions} | more))


def test_exact_moments_recover_the_curve():
    bias = propensities(logged(), "em")
    np.testing.assert_allclose(bias.alpha, CURVE, rtol=1e-6)
    assert bias.pbm is None


@pytest.mark.parametrize("method", ["em", "harvest"])
def test_exact_moments_recover_trust(method):
    bias = propensities(logged(beta=BETA, impressions=[1e9] * 540), method, trust=True)
    np.testing.assert_allclose(bias.alpha, CURVE, rtol=1e-5)
    np.testing.assert_allclose(bias.beta, BETA, atol=1e-6)
    assert bias.pbm is not None
    assert (bias.pbm.alpha[1:] > CURVE[1:] * 1.05).all()  # without trust, its clicks count as examination
    assert "alpha without trust" in str(bias)


def test_trust_at_the_first_position_is_a_part_of_relevance():
    alpha, beta = 0.6 * CURVE, BETA + 0.2 * CURVE
    bias = propensities(logged(alpha=alpha, beta=beta, impressions=[1e9] * 540), "em", trust=True)
    np.testing.assert_allclose(bias.alpha, CURVE, rtol=1e-5)
    np.testing.assert_allclose(bias.beta, BETA, atol=1e-6)


def test_few_impressions_do_not_bias_trust():
    # Relevance is known with a standard error of a tenth; a plain regression on it would double beta.
    relevance = np.random.default_rng(5).uniform(0.02, 0.9, (200, 6)) ** 2
    fits = []
    for seed in range(8):
        rows, rankers = rankings(200, 6, 3, seed=seed, noise=0.3, best_first=relevance)
        options = {"relevance": relevance, "rankers": rankers, "beta": BETA, "impressions": [30] * len(rows)}
        fits.append(propensities(exact_log(rows, **options, draw=np.random.default_rng(seed)), trust=True, resamples=2))
    np.testing.assert_allclose(np.mean([fit.beta for fit in fits], 0), BETA, atol=0.02)
    np.testing.assert_allclose(np.mean([fit.alpha for fit in fits], 0), CURVE, rtol=0.1)


def test_intervals_hold():
    inside = []
    for seed in range(30):
        bias = propensities(logged(draw=np.random.default_rng(seed)), "em")
        inside.append((bias.alpha_low <= CURVE) & (bias.alpha_high >= CURVE))
    assert 0.85 < np.mean(np.array(inside)[:, 1:]) < 0.995


def test_errors_with_trust_are_those_of_leaving_each_query_out():
    log = logged(beta=BETA, impressions=[20_000] * 540, draw=np.random.default_rng(2))
    log = log.only(queries=np.arange(30) < 12)
    plain = np.log(propensities(log).alpha)
    whole = joint.with_trust(log, plain)
    fits = [joint.with_trust(log.only(queries=np.arange(12) != query), plain) for query in range(12)]
    for name in ("logs", "beta"):
        parts = np.array([getattr(fit, name) for fit in fits])
        errors = np.sqrt(11 / 12 * ((parts - parts.mean(0)) ** 2).sum(0))
        np.testing.assert_allclose(getattr(whole, f"{name}_error"), errors, rtol=0.05)
        freedom = getattr(whole, f"{name}_freedom")[1:]
        assert ((freedom >= 1) & (freedom <= 11)).all()
    wide, narrow = (
        np.diff(np.log([bias.alpha_low[1], bias.alpha_high[1]]))
        for bias in (propensities(log, trust=True), propensities(log, trust=True, level=0.5))
    )
    assert wide / narrow > 1.02 * stats.norm.ppf(0.975) / stats.norm.ppf(0.75)  # few queries: Student's quantiles


def test_one_ranking_identifies_nothing():
    with refusal(what="position bias is not identified: a document at two positions, and clicks on it, are needed"):
        propensities(logged(1), "em")


def test_documents_of_one_relevance_do_not_tell_trust_from_examination():
    rows, rankers = rankings(30, 6, 3, seed=1)
    log = exact_log(rows, relevance=np.full((30, 6), 0.4), rankers=rankers)
    refuses(lambda: propensities(log, "em", trust=True), what="position bias is not identified by this log")


@pytest.fixture(scope="module")
def features():
    matrix = np.random.default_rng(0).normal(size=(N, 8, 3)).astype(np.float32)
    relevance = 0.8 / (1 + np.exp(-(1.5 * matrix[..., 0] - matrix[..., 1] - 1.0)))
    ids = [f"q{one:05d}" for one in range(N)]
    documents = [f"d{one:05d}" for _ in range(N) for one in range(8)]
    data = rw.RankingDataset(
        matrix.reshape(-1, 3), np.zeros(8 * N), np.arange(0, 8 * N + 1, 8), query_ids=ids, document_ids=documents
    )
    return data, relevance


def shown_to(relevance, n_rankers, seed=2):
    rows, rankers = rankings(N, 8, n_rankers, seed=seed, noise=0.1, best_first=relevance)
    keep = [row[2] <= 6 for row in rows]
    rows = [row for row, top in zip(rows, keep, strict=True) if top]
    return rows, [ranker for ranker, top in zip(rankers, keep, strict=True) if top]


def test_features_stand_in_for_documents_that_never_move(features):
    data, relevance = features
    rows, rankers = shown_to(relevance, 3)
    first: dict = {}
    rows, rankers = zip(  # every document at the first of its positions only: harvesting has nothing
        *[(row, who) for row, who in zip(rows, rankers, strict=True) if first.setdefault(row[:2], row[2]) == row[2]],
        strict=True,
    )
    log = exact_log(rows, relevance=relevance, rankers=rankers, impressions=[1000] * len(rows))
    refuses(lambda: propensities(log), got="one position each…")
    bias = propensities(log, "em", features=data, resamples=2)
    np.testing.assert_allclose(bias.alpha, CURVE, rtol=0.05)
    clicks, shown = (np.bincount(log.positions, column)[1:] for column in (log.clicks, log.impressions))
    assert clicks[-1] / shown[-1] < 0.7 * CURVE[-1] * clicks[0] / shown[0]


def test_one_ranker_by_features_identifies_nothing(features):
    data, relevance = features
    rows, _ = shown_to(relevance, 1)
    with refusal(got="one ranker that shows every document at one position…"):
        propensities(exact_log(rows, relevance=relevance), "em", features=data)
