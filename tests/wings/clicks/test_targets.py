"""Targets from clicks: unbiased by listing all rankings and clicks, biased by known amounts where a model is wrong."""

import dataclasses
from itertools import permutations, product
from typing import Any

import lightgbm as lgb
import numpy as np
import polars as pl
import pytest

import rankwise as rw
from rankwise.wings.clicks import regression
from rankwise.wings.clicks.logs.log import Log
from rankwise.wings.clicks.off_policy import targets as module
from rankwise.wings.clicks.off_policy.log_rows import query_impressions
from rankwise.wings.clicks.positions.bias import Bias
from tests.refusals import refusal, refuses

ALPHA, BETA = np.array([1.0, 0.55, 0.3]), np.array([0.1, 0.08, 0.05])
RELEVANCE = np.array([0.7, 0.1, 0.45, 0.3])
SCORES = np.array([0.5, 0.2, -0.3, 0.9])


def listed(alpha=ALPHA, beta=BETA):
    """Every ranking and pattern of clicks, each as a query with one impression: log, features and probabilities."""
    rows: list[Any] = []
    chances: list[Any] = []
    at = np.zeros((4, 3))
    for ranking in permutations(range(4), 3):
        chance, left = 1.0, np.exp(SCORES)
        for document in ranking:
            chance *= left[document] / left.sum()
            left[document] = 0.0
        for position, document in enumerate(ranking):
            at[document, position] += chance
        for clicks in product((0, 1), repeat=3):
            rate = alpha * RELEVANCE[list(ranking)] + beta
            query = f"{len(chances):03}"
            chances.append(chance * np.prod(np.where(clicks, rate, 1.0 - rate)))
            shown = zip(ranking, (1, 2, 3), clicks, strict=True)
            rows += [(query, f"d{d}", query, position, click) for d, position, click in shown]
    names = ["query", "document", "impression", "position", "clicked"]
    log = rw.clicks.Log.from_rows(pl.LazyFrame(rows, schema=names, orient="row"))
    documents = np.tile(["d0", "d1", "d2", "d3"], len(chances))
    features = rw.RankingDataset(
        np.zeros((documents.size, 1)),
        np.zeros(documents.size),
        np.arange(0, documents.size + 1, 4),
        query_ids=log.query_ids,
        document_ids=documents,
    )
    return log, features, np.array(chances), at


def expected(values, chances):
    return chances @ values.reshape(-1, 4)


def by_pair(log, at):
    return at[[int(name[1]) for name in log.document_ids]]


@pytest.fixture(scope="module")
def case():
    return listed()


def test_the_listing_is_complete(case):
    _, _, chances, at = case
    np.testing.assert_allclose(chances.sum(), 1.0, atol=1e-12)
    np.testing.assert_allclose(at.sum(axis=0), 1.0, atol=1e-12)


def test_ips_is_unbiased(case):
    log, features, chances, at = case
    result = rw.clicks.estimates(
        log,
        features,
        Bias.known(ALPHA, BETA),
        clip=0,
        probabilities=by_pair(log, at),
        regression=np.zeros(features.n_docs),
    )
    np.testing.assert_allclose(expected(result.ips, chances), RELEVANCE, atol=1e-10)
    np.testing.assert_allclose(expected(result.alpha, chances), at @ ALPHA, atol=1e-10)


def test_dr_is_unbiased_with_a_wrong_regression_and_right_propensities(case):
    log, features, chances, at = case
    wrong = np.tile([0.2, 0.9, 0.0, 1.0], chances.size)
    result = rw.clicks.estimates(
        log, features, Bias.known(ALPHA, BETA), clip=0, probabilities=by_pair(log, at), regression=wrong
    )
    np.testing.assert_allclose(expected(result.dr, chances), RELEVANCE, atol=1e-10)
    assert abs(expected(result.regression, chances) - RELEVANCE).max() > 0.5


def test_dr_is_unbiased_with_a_right_regression_and_wrong_propensities(case):
    log, features, chances, _ = case
    wrong, right = np.full((log.n_pairs, 3), 0.25), np.tile(RELEVANCE, chances.size)
    result = rw.clicks.estimates(log, features, Bias.known(ALPHA, BETA), clip=0, probabilities=wrong, regression=right)
    np.testing.assert_allclose(expected(result.dr, chances), RELEVANCE, atol=1e-10)
    assert abs(expected(result.ips, chances) - RELEVANCE).max() > 0.05


def test_dr_is_biased_by_the_product_where_both_are_wrong(case):
    log, features, chances, at = case
    wrong, guess = np.full((log.n_pairs, 3), 0.25), np.array([0.2, 0.9, 0.0, 1.0])
    result = rw.clicks.estimates(
        log, features, Bias.known(ALPHA, BETA), clip=0.6, probabilities=wrong, regression=np.tile(guess, chances.size)
    )
    ratio = at @ ALPHA / max(0.25 * ALPHA.sum(), 0.6)
    np.testing.assert_allclose(expected(result.dr, chances) - RELEVANCE, (1 - ratio) * (guess - RELEVANCE), atol=1e-10)


def test_trust_that_is_ignored_biases_by_the_clicks_that_it_brings(case):
    log, features, chances, at = case
    guess = np.tile([0.2, 0.9, 0.0, 1.0], chances.size)
    result = rw.clicks.estimates(
        log, features, Bias.known(ALPHA), clip=0, probabilities=by_pair(log, at), regression=guess
    )
    bias = at @ BETA / (at @ ALPHA)
    np.testing.assert_allclose(expected(result.ips, chances) - RELEVANCE, bias, atol=1e-10)
    np.testing.assert_allclose(expected(result.dr, chances) - RELEVANCE, bias, atol=1e-10)


def test_the_regression_counts_like_impressions_that_were_examined():
    log, features, _ = simulated(n_queries=12, impressions=6)
    guess = np.random.default_rng(0).uniform(size=features.n_docs)
    same = {"clip": 0.0, "regression": guess}
    result = rw.clicks.estimates(log, features, Bias.known(ALPHA, BETA), **same)
    seen = result.alpha > 0
    # With displayed frequencies an estimate is (n·α·IPS + strength·R̂) / (n·α + strength).
    examined = (result.impressions * result.alpha)[seen]
    mixed = (examined * result.ips[seen] + 7.0 * guess[seen]) / (examined + 7.0)
    rewards = rw.clicks.targets(log, features, Bias.known(ALPHA, BETA), strength=7.0, **same).document_rewards
    assert rewards is not None
    np.testing.assert_allclose(rewards[seen], mixed, atol=1e-12)
    np.testing.assert_array_equal(rewards[~seen], guess[~seen])
    unchanged = rw.clicks.targets(log, features, Bias.known(ALPHA, BETA), strength=0.0, **same)
    np.testing.assert_array_equal(unchanged.document_rewards, result.dr)


def test_with_displayed_frequencies_dr_is_ips_but_for_the_clip(case):
    log, features, _, _ = case
    guess = np.random.default_rng(0).uniform(size=features.n_docs)
    result = rw.clicks.estimates(log, features, Bias.known(ALPHA, BETA), clip=0.5, regression=guess)
    np.testing.assert_array_equal(result.rho, result.alpha)
    above = result.alpha >= 0.5
    np.testing.assert_allclose(result.dr[above], result.ips[above], atol=1e-12)
    assert (abs(result.dr - result.ips)[~above] > 1e-3).any()


def test_propensities_of_drawn_rankings():
    log, features, _, at = listed()
    result = rw.clicks.estimates(
        log,
        features,
        Bias.known(ALPHA, BETA),
        probabilities={"": np.tile(SCORES, features.n_queries)},
        regression=np.zeros(features.n_docs),
    )
    shown = result.alpha.reshape(-1, 4) > 0
    drawn = (result.rho.reshape(-1, 4) * shown).sum(axis=0) / shown.sum(axis=0)
    np.testing.assert_allclose(drawn, at @ ALPHA, atol=2e-3)  # 192 · 200 rankings


def simulated(n_queries=60, impressions=40, seed=0, n_docs=8):
    """A log of drawn rankings whose clicks depend on the first feature, and the features."""
    rng = np.random.default_rng(seed)
    matrix = rng.uniform(size=(n_queries * n_docs, 3)).astype(np.float32)
    truth = np.where(matrix[:, 0] > 0.5, 0.8, 0.2)
    query = np.repeat(np.arange(n_queries * impressions), 3)
    order = rng.gumbel(size=(n_queries * impressions, n_docs)).argsort(axis=1)[:, :3]
    row = (order + np.repeat(np.arange(n_queries), impressions)[:, None] * n_docs).ravel()
    position = np.tile([0, 1, 2], n_queries * impressions)
    rows = {
        "query": row // n_docs,
        "document": row,
        "impression": query,
        "position": position + 1,
        "clicked": rng.uniform(size=row.size) < ALPHA[position] * truth[row] + BETA[position],
    }
    offsets = np.arange(0, n_queries * n_docs + 1, n_docs)
    ids: Any = {"query_ids": np.arange(n_queries), "document_ids": np.arange(n_queries * n_docs)}
    features = rw.RankingDataset(matrix, np.zeros(truth.size), offsets, **ids)
    return rw.clicks.Log.from_rows(pl.LazyFrame(rows)), features, truth


def test_the_regression_learns_from_other_queries_alone():
    log, features, truth = simulated(n_queries=40)
    result = rw.clicks.estimates(log, features, Bias.known(ALPHA, BETA))
    assert abs(result.regression - truth).mean() < 0.15  # of 0.2 and 0.8; their mean is 0.3 off
    # Clicks of a query that are turned around change R̂ of others, and never its own.
    first = log.queries == 0
    turned = dataclasses.replace(log, clicks=np.where(first, log.impressions - log.clicks, log.clicks))
    again = rw.clicks.estimates(turned, features, Bias.known(ALPHA, BETA))
    own = features.qids() == 0
    np.testing.assert_array_equal(again.regression[own], result.regression[own])
    assert (again.regression[~own] != result.regression[~own]).any()
    assert (again.dr[own] != result.dr[own]).any()


def test_sums_of_cells_stand_for_impressions_one_by_one():
    log, features, _ = simulated(n_queries=12, impressions=6)
    without = dataclasses.replace(log, sessions=None)
    np.testing.assert_array_equal(query_impressions(log), np.full(12, 6.0))
    np.testing.assert_array_equal(query_impressions(without), np.full(12, 6.0))
    arguments: Any = {"regression": np.zeros(features.n_docs)}
    both = [rw.clicks.estimates(one, features, Bias.known(ALPHA, BETA), **arguments).ips for one in (log, without)]
    np.testing.assert_array_equal(both[0], both[1])
    assert rw.clicks.estimates(log, features, Bias.known(ALPHA, BETA), **arguments).clip == 1.0  # 72 impressions


def test_documents_without_features_and_queries_without_impressions():
    log, features, _ = simulated(n_queries=12, impressions=6)
    alone = rw.clicks.estimates(log, None, Bias.known(ALPHA, BETA))
    assert alone.data.n_docs == log.n_pairs
    assert np.unique(alone.regression).size <= 5  # a mean for each fold
    more = rw.concatenate([features, features.with_(query_ids=np.arange(100, 112))])
    result = rw.clicks.estimates(log, more, Bias.known(ALPHA, BETA))
    new = slice(features.n_docs, None)
    assert not result.impressions[new].any()
    np.testing.assert_array_equal(result.dr[new], result.regression[new])
    np.testing.assert_array_equal(result.ips[new], 0.0)


def test_errors_of_estimates():
    log, features, _ = simulated(n_queries=4, impressions=6)
    bias = Bias.known(ALPHA, BETA)
    refuses(lambda: rw.clicks.estimates(log, features, bias), what="…as many queries as folds", got="4 queries…")
    with refusal(what="…array of pairs and positions…", got="shape (2, 3)…"):
        rw.clicks.estimates(log, features, bias, probabilities=np.zeros((2, 3)))
    with refusal(what="probabilities of documents at a position must be at least 0 and add up to at most 1 in a query"):
        rw.clicks.estimates(log, features, bias, probabilities=np.ones((log.n_pairs, 3)))
    with refusal(what="…must allow what was shown", got="probability 0", where="row 0 (query 0)"):
        rw.clicks.estimates(log, features, bias, probabilities=np.zeros((log.n_pairs, 3)))
    with refusal(what="…all positions with clicks…", got="2 positions for clicks at up to 3"):
        rw.clicks.estimates(log, features, Bias.known(ALPHA[:2]), regression=np.zeros(features.n_docs))
    with refusal(what="unknown ranker in the log"):
        rw.clicks.estimates(log, features, bias, probabilities={"new": np.zeros(features.n_docs)})


def test_targets_are_one_list_a_query_with_rewards_of_all_documents(case):
    log, features, _, at = case
    options = {"clip": 0.1, "probabilities": by_pair(log, at), "regression": np.full(features.n_docs, 0.5)}
    result = rw.clicks.estimates(log, features, Bias.known(ALPHA, BETA), **options)
    for method in ("dr", "regression", "ips"):
        data = rw.clicks.targets(log, features, Bias.known(ALPHA, BETA), method, strength=0.0, **options)
        np.testing.assert_array_equal(data.document_rewards, getattr(result, method))
        assert (data.n_queries, data.n_docs, data.weights) == (features.n_queries, features.n_docs, None)
    never_shown = result.alpha == 0.0
    assert never_shown.sum() == features.n_queries  # one of four documents
    np.testing.assert_array_equal(result.dr[never_shown], 0.5)
    np.testing.assert_array_equal(result.ips[never_shown], 0.0)
    assert (result.ips < 0.0).any()


def test_labels_instead_of_rewards():
    log, features, _ = simulated(n_queries=12, impressions=6)
    bias = Bias.known(ALPHA, BETA)
    result = rw.clicks.estimates(log, features, bias)
    data = rw.clicks.targets(log, features, bias, labels="regression")
    np.testing.assert_array_equal(data.labels, result.regression)
    assert data.document_rewards is None
    data = rw.clicks.targets(log, features, bias, strength=0.0, labels="offset")
    least = result.dr.reshape(12, -1).min(axis=1, keepdims=True)
    np.testing.assert_allclose(data.labels.reshape(12, -1), result.dr.reshape(12, -1) - least, atol=1e-15)
    rw.LightGBMRanker("lambdarank(gain=linear)", rounds=2, threads=1).fit(data)
    refuses(lambda: rw.clicks.targets(log, features, bias, labels="clicks"), what="unknown labels")  # type: ignore[arg-type]
    refuses(lambda: rw.clicks.targets(log, features, bias, "dm"), what="unknown method")  # type: ignore[arg-type]


def test_queries_count_by_their_impressions_and_those_without_are_left_out():
    log, features, _ = simulated(n_queries=12, impressions=6)
    more = rw.concatenate([features, features.with_(query_ids=np.arange(100, 112))])
    with pytest.warns(UserWarning, match="12 of 24 queries were never shown, and are left out"):
        data: Any = rw.clicks.targets(log, more, Bias.known(ALPHA, BETA), "ips")
    assert data.query_ids.tolist() == list(range(12))
    np.testing.assert_array_equal(data.weights, 1.0)
    twice = np.where(log.queries < 6, 2.0, 1.0)
    sums = {"impressions": log.impressions * twice, "clicks": log.clicks * twice, "sessions": None}
    data = rw.clicks.targets(dataclasses.replace(log, **sums), features, Bias.known(ALPHA, BETA), "ips", clip=0.2)
    np.testing.assert_allclose(data.weights, np.repeat([4 / 3, 2 / 3], 6), rtol=1e-12)
    once: Any = rw.clicks.targets(log, features, Bias.known(ALPHA, BETA), "ips", clip=0.2)
    np.testing.assert_allclose(data.document_rewards, once.document_rewards, atol=1e-15)


def test_a_ranker_that_always_shows_the_same_has_its_displayed_exposure():
    rows = {"query": ["q"] * 8, "document": list("abab") + list("baab"), "position": [1, 2] * 4, "clicked": [1, 0] * 4}
    rows |= {"impression": [1, 1, 2, 2, 3, 3, 4, 4], "ranker": ["fixed"] * 4 + ["drawn"] * 4}
    log = rw.clicks.Log.from_rows(pl.LazyFrame(rows))
    ids: Any = {"query_ids": ["q"], "document_ids": ["a", "b"]}
    features = rw.RankingDataset([[0.0], [1.0]], [0, 0], [0, 2], **ids)
    scores = np.array([np.log(3.0), 0.0])  # a comes first with probability 3/4
    result = rw.clicks.estimates(
        log, features, Bias.known([1.0, 0.5]), probabilities={"drawn": scores}, regression=[0.0, 0.0]
    )
    of_drawn = np.array([0.75 + 0.25 * 0.5, 0.25 + 0.75 * 0.5])
    np.testing.assert_allclose(result.rho, (np.array([1.0, 0.5]) + of_drawn) / 2, atol=0.03)  # 200 rankings
    np.testing.assert_allclose(result.alpha, [(2 * 1.0 + 0.5 + 1.0) / 4, (2 * 0.5 + 1.0 + 0.5) / 4])


def test_scores_far_apart_leave_no_document_without_exposure():
    log, features, _, _ = listed()
    scores = {"": np.tile([3000.0, 0.0, -3000.0, -6000.0], features.n_queries)}
    options: Any = {"probabilities": scores, "regression": np.zeros(features.n_docs)}
    # the last was shown, which never happens
    refuses(lambda: rw.clicks.estimates(log, features, Bias.known(ALPHA), **options), what="…must allow what was shown")
    rows = log.queries < 8  # the first ranking alone: 0, 1, 2
    cells = {name: getattr(log, name)[rows] for name in ("pairs", "positions", "rankers", "segments", "clicks")}
    cells |= {"impressions": log.impressions[rows], "offsets": log.offsets[:9], "query_ids": log.query_ids[:8]}
    first = dataclasses.replace(log, document_ids=log.document_ids[: log.offsets[8]], sessions=None, **cells)
    result = rw.clicks.estimates(first, features, Bias.known(ALPHA), **options)
    np.testing.assert_allclose(result.rho[:4], [*ALPHA, 0.0])


# Training and comparing by different queries.


@pytest.fixture(scope="module")
def logged():
    data = rw.synthetic(n_queries=120, n_docs=8, seed=3)
    data = data.with_(query_ids=range(1000, 1120), document_ids=range(data.n_docs))
    rankers = {"old": data.features[:, 0], "second": data.features[:, 1]}
    log = rw.clicks.simulate(data, rankers=rankers, curve=[1.0, 0.6, 0.4, 0.3, 0.2], impressions=20, seed=1)
    return data, log, Bias.known([1.0, 0.6, 0.4, 0.3, 0.2])


def trained(targets, objective="plrank(samples=2)"):
    return rw.LightGBMRanker(objective, rounds=3, leaves=3, threads=1).fit(targets)


def test_a_query_is_on_the_same_side_of_the_split_whatever_else_the_log_holds(logged):
    data, log, bias = logged
    train, rest = rw.clicks.split(log, 0.3, seed=5)
    assert {*train.query_ids, *rest.query_ids} == {*log.query_ids}
    assert train.n_queries + rest.n_queries == log.n_queries
    assert 20 < rest.n_queries < 55
    half = log.only(queries=np.arange(120) % 2 == 0)
    assert {*rw.clicks.split(half, 0.3, seed=5)[1].query_ids} == {*rest.query_ids} & {*half.query_ids}
    assert {*rw.clicks.split(log, 0.3, seed=6)[1].query_ids} != {*rest.query_ids}
    assert rw.clicks.targets(train, data, bias).n_queries == train.n_queries  # without a warning: it was asked for
    for holdout in (0.0, 1.0, -0.1):
        with refusal(what="holdout must be a number in (0, 1)"):
            rw.clicks.split(log, holdout)


def compared(*of: Any) -> rw.clicks.OffPolicyComparison:
    result = rw.clicks.compare(*of)
    assert isinstance(result, rw.clicks.OffPolicyComparison)
    return result


@pytest.mark.parametrize("names", [("new", "production"), ("production", "new"), ("production", "other")])
def test_queries_by_whose_clicks_a_system_was_trained_do_not_compare_it(logged, names, tmp_path):
    data, log, bias = logged
    train, rest = rw.clicks.split(log, 0.4, seed=0)
    model = rw.load(trained(rw.clicks.targets(train, data, bias)).save(tmp_path / "model"))
    systems = dict(zip(names, (model, data.features[:, 0]), strict=True))
    whole, held_out = (compared(systems, part, bias, data) for part in (log, rest))
    assert (whole.left_out, held_out.left_out) == (train.n_queries, 0)
    assert (whole.n_units, whole.alone, whole.reason) == (held_out.n_units, held_out.alone, held_out.reason)
    clicks = whole.assumptions[0]
    left_out = f"{train.n_queries} of 120 queries are left out: a system learned from them."
    assert clicks.sentence == f"{left_out} Whether {names[1]} learned from these clicks is not known."
    assert clicks.outcome == "not checked"
    assert left_out in repr(whole)


def test_too_few_queries_that_no_system_was_trained_on_are_refused(logged):
    data, log, bias = logged
    train, rest = rw.clicks.split(log, 0.2, seed=0)
    model, other = (trained(rw.clicks.targets(part, data, bias)) for part in (train, rest))
    for systems, left in (({"new": model, "production": data.labels}, rest.n_queries), ({"a": model, "b": other}, 0)):
        with pytest.raises(ValueError, match=rf"got {left} of 120 queries, of at least 30\. Hint: .*rw\.clicks\.split"):
            rw.clicks.compare(systems, log, bias, data)


def test_labels_made_from_clicks_are_told_by_the_features_of_queries(logged):
    data, log, bias = logged
    train, rest = rw.clicks.split(log, 0.4, seed=0)
    model = trained(rw.clicks.targets(train, data, bias, labels="offset"), "xendcg")
    systems = {"new": model, "production": trained(data, "xendcg")}
    result = compared(systems, rest, bias, data)
    told = f"production was trained on labels of {rest.n_queries} of these {rest.n_queries} queries: "
    assert result.assumptions[0].caveat.startswith(told)
    assert told in result.reason
    assert "new was trained on labels" in compared(systems, log, bias, data).reason


def test_folds_are_fitted_side_by_side_with_one_thread_each(logged, monkeypatch):
    data, log, bias = logged
    used: list[Any] = []
    train = lgb.train
    monkeypatch.setattr(regression, "_SMALL", 0)  # as if there were many documents

    def noted(given, *more, **how):
        used.append(given)
        return train(given, *more, **how)

    monkeypatch.setattr(lgb, "train", noted)
    found = []
    for count in (1, 2):
        with rw.use_threads(count):
            found.append(rw.clicks.estimates(log, data, bias).regression)
    assert {one["num_threads"] for one in used} == {1}
    np.testing.assert_array_equal(found[0], found[1])


def test_the_low_regression_by_hand():
    """Two queries of 100 impressions at a position with α = 1; d5 was shown 5 times, and d6 never."""
    clicks = np.array([50.0, 30.0, 20.0, 90.0, 10.0, 5.0])
    shows = np.array([100.0, 100.0, 100.0, 100.0, 100.0, 5.0])
    data = rw.RankingDataset(np.zeros((7, 1)), np.zeros(7), [0, 4, 7])
    rho, zeros = np.append(shows, 0.0) / 100.0, np.zeros(7)
    predicted = np.array([0.5, 0.4, 0.5, 0.6, 0.2, 0.25, 0.75])
    given: Any = {"ctr": np.append(clicks, 0.0) / 100.0, "alpha": rho, "beta": zeros, "rho": rho, "clip": 0.0}
    given |= {"impressions": np.full(7, 100.0), "regression": predicted}
    result = module.Estimates(data=data, rows=np.arange(6), **given)
    # Beyond R̂: 0, -0.1, -0.3, 0.3, -0.1, of equal exposure; the lowest fifth, and so the decile, is -0.3.
    np.testing.assert_allclose(result.low_regression, [0.2, 0.1, 0.2, 0.3, 0.0, 0.0, 0.45])
    # Clicks that are all beyond it do not make it higher; and without enough impressions, nothing is known.
    above = dataclasses.replace(result, regression=np.full(7, 0.05))
    np.testing.assert_array_equal(above.low_regression, above.regression)
    few = dataclasses.replace(result, impressions=np.full(7, 9.0))
    assert not few.low_regression.any()


@pytest.mark.parametrize(("holdout", "words"), [(1e-9, "got 0 of "), (1.0 - 1e-9, "queries held out")])
def test_both_parts_of_a_split_have_queries(holdout: float, words: str) -> None:
    rows = {"query": [1, 2], "document": ["a", "b"], "impression": [1, 2], "position": [1, 1], "clicked": [1, 0]}
    with pytest.raises(ValueError, match=f"both parts of a split need queries: .*{words}"):
        rw.clicks.split(Log.from_rows(pl.LazyFrame(rows)), holdout)
