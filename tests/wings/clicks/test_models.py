"""Click models: patterns by listing every hidden state, optima, recovery of parameters, priors, errors."""

import contextlib
import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import optimize

import rankwise as rw
from rankwise.base import threads
from rankwise.wings.clicks.logs.log import Log
from rankwise.wings.clicks.models.click_models import MODELS
from tests.refusals import refusal, refuses

EVERY = tuple(MODELS)


def log_of(lists, clicks, weights, query="q"):
    """A log of impressions: documents, clicks and weight of each."""
    rows = [
        (query, document, number, position, clicked, weight)
        for number, (shown, pattern, weight) in enumerate(zip(lists, clicks, weights, strict=True))
        for position, (document, clicked) in enumerate(zip(shown, pattern, strict=True), 1)
    ]
    names = ("query", "document", "impression", "position", "clicked", "weight")
    return Log.from_rows(pl.LazyFrame(rows, schema=names, orient="row"))


def fit(log, model, **options: Any) -> Any:
    return rw.clicks.click_model(log, model, **options)


def model_of(model, log, seed=0, **parameters):
    """A click model with random parameters."""
    draw = np.random.default_rng(seed)
    n, depth = log.n_pairs, log.n_positions
    if model in ("pbm", "ubm"):
        table = draw.uniform(0.2, 0.9, (depth, depth))
        table[0, 0] = 1.0
        parameters = {"examination": table[:, 0] if model == "pbm" else table} | parameters
    elif model == "dcm":
        parameters = {"continuation": draw.uniform(0.2, 0.9, depth)} | parameters
    else:
        continuation = np.full(depth, 0.8 if model == "dbn" else 1.0)
        parameters = {"satisfaction": draw.uniform(0.1, 0.8, n), "continuation": continuation} | parameters
    ids = {"query_ids": log.query_ids, "offsets": log.offsets, "document_ids": log.document_ids}
    attractiveness = parameters.pop("attractiveness", draw.uniform(0.1, 0.9, n))
    return MODELS[model](**ids, attractiveness=attractiveness, impressions=np.ones(n), **parameters)


def every_pattern(depth, lists=None):
    """Every click pattern of every list, with weight 1."""
    lists = [range(depth)] if lists is None else lists
    patterns = list(itertools.product((0, 1), repeat=depth))
    pairs = list(itertools.product(lists, patterns))
    return log_of([one for one, _ in pairs], [pattern for _, pattern in pairs], np.ones(len(pairs)))


def by_listing(users, clicks):
    """The probability of clicks on documents 0, 1, … by listing what is hidden: where the user is present."""
    if users.model in ("pbm", "ubm"):
        chance, above = 1.0, 0
        for k, clicked in enumerate(clicks):
            examined = users.examination[k] if users.model == "pbm" else users.examination[k, above]
            click = examined * users.attractiveness[k]
            chance *= click if clicked else 1 - click
            above = k + 1 if clicked else above
        return chance
    total = 0.0
    for depth in range(1, len(clicks) + 1):  # examined are exactly the first ``depth``
        if any(clicks[depth:]):
            continue
        chance = 1.0
        for k in range(depth):
            a = users.attractiveness[k]
            chance *= a if clicks[k] else 1 - a
            if users.model == "dcm":
                stays = users.continuation[k] if clicks[k] else 1.0
            else:
                stays = users.continuation[k] * (1 - users.satisfaction[k] if clicks[k] else 1.0)
            if k < depth - 1:
                chance *= stays
            elif depth < len(clicks):
                chance *= 1 - stays
        total += chance
    return total


@pytest.mark.parametrize("model", EVERY)
def test_patterns_sum_to_one_and_equal_the_listing_of_hidden_states(model):
    log = every_pattern(5)
    users = model_of(model, log)
    chances = np.exp(users.session_log_likelihoods(log))
    assert chances.sum() == pytest.approx(1.0, abs=1e-12)
    patterns = log.sessions.clicked.reshape(-1, 5)
    np.testing.assert_allclose(chances, [by_listing(users, pattern) for pattern in patterns.tolist()], rtol=1e-12)


LISTS = [np.roll(np.arange(4), shift) for shift in range(4)] + [np.array([2, 0, 3, 1]), np.array([3, 1, 0, 2])]


def exact_log(model, seed, **parameters):
    """A log with the exact probability of every pattern as its weight, and the users who made it."""
    log = every_pattern(4, LISTS)
    users = model_of(model, log, seed, **parameters)
    weights = np.exp(users.session_log_likelihoods(log))
    patterns = [[int(one) for one in pattern] for pattern in log.sessions.clicked.reshape(-1, 4)]
    lists = log.document_ids[log.sessions.pairs].reshape(-1, 4).tolist()
    return log_of(lists, patterns, weights), users


@pytest.mark.parametrize("model", ["pbm", "ubm", "dbn"])
def test_em_recovers_parameters_from_exact_probabilities(model):
    log, users = exact_log(model, 1)
    fitted = fit(log, model, iterations=30_000, tolerance=1e-12)
    np.testing.assert_allclose(fitted.attractiveness, users.attractiveness, atol=1e-6)
    if model == "dbn":
        np.testing.assert_allclose(fitted.satisfaction, users.satisfaction, atol=1e-5)
        np.testing.assert_allclose(fitted.continuation, users.continuation, atol=1e-6)
    elif model == "pbm":
        np.testing.assert_allclose(fitted.examination, users.examination, atol=1e-6)
    else:
        seen = np.tril(np.ones((4, 4), bool))
        np.testing.assert_allclose(fitted.examination[seen], users.examination[seen], atol=1e-6)
        assert np.isnan(fitted.examination[~seen]).all()
    assert fitted.log_likelihood(log) == pytest.approx(users.log_likelihood(log), rel=1e-9)


def test_a_ubm_of_users_of_a_pbm_is_the_pbm():
    log, users = exact_log("pbm", 2)
    options = {"iterations": 20_000, "tolerance": 1e-12}
    pbm, ubm = fit(log, "pbm", **options), fit(log, "ubm", **options)
    np.testing.assert_allclose(ubm.attractiveness, pbm.attractiveness, atol=1e-6)
    for k in range(4):
        np.testing.assert_allclose(ubm.examination[k, : k + 1], users.examination[k], atol=1e-6)
    assert ubm.log_likelihood(log) == pytest.approx(pbm.log_likelihood(log), rel=1e-9)


def random_log(seed=3, n_queries=6, impressions=40, model="dbn"):
    data = rw.synthetic(n_queries=n_queries, n_docs=7, seed=seed)
    return rw.clicks.simulate(
        data, model=model, temperature=1.0, ranker=data.features[:, 0], impressions=impressions, cutoff=5
    )


def objective(fitted, log, prior, strength, rate):
    """Log-likelihood and the logarithm of the prior's density."""
    value = fitted.log_likelihood(log)
    if prior is not None:
        pairs = [(fitted.attractiveness, prior)]
        pairs += [] if fitted.satisfaction is None else [(fitted.satisfaction, rate)]
        value += sum(float((strength * (m * np.log(p) + (1 - m) * np.log1p(-p))).sum()) for p, m in pairs)
    return value


@pytest.mark.parametrize("model", ["pbm", "ubm", "dbn"])
@pytest.mark.parametrize("prior", [None, 0.2])
def test_every_step_of_em_increases_the_likelihood_with_the_prior(model, prior):
    log = random_log()
    lists = log.sessions
    assert lists is not None
    rate = (np.add.reduceat(lists.clicked, lists.offsets[:-1], dtype=float) > 0).sum() / lists.clicked.sum()
    steps = [
        objective(fit(log, model, prior=prior, strength=3.0, iterations=n, tolerance=0.0), log, prior, 3.0, rate)
        for n in (*range(1, 25), 100, 101, 400)
    ]
    assert np.diff(steps).min() > -1e-9 * abs(steps[0])
    assert steps[-1] > steps[0]


@pytest.mark.parametrize("model", ["sdbn", "dcm"])
def test_counts_maximise_the_likelihood_in_which_reading_ends_with_the_last_click(model):
    log, _ = exact_log("dbn", 3)
    lists, counted = log.sessions, fit(log, model)
    assert lists is not None
    patterns, documents = lists.clicked.reshape(-1, 4), lists.pairs.reshape(-1, 4)

    def loss(logits):
        chances = 1 / (1 + np.exp(-logits))
        value = 0.0
        for clicks, pairs, weight in zip(patterns, documents, lists.weights, strict=True):
            last = np.flatnonzero(clicks)[-1] if clicks.any() else 3
            for k in range(last + 1):
                attractive, leaving = chances[pairs[k]], chances[4 + (pairs[k] if model == "sdbn" else k)]
                value += weight * np.log(
                    attractive * (leaving if k == last else 1 - leaving) if clicks[k] else 1 - attractive
                )
        return -value

    leaving = counted.satisfaction if model == "sdbn" else 1 - counted.continuation[:3]  # nobody goes on after the last
    size = 4 + leaving.size
    best = optimize.minimize(
        lambda logits: loss(np.append(logits, [30.0] * (8 - size))),
        np.zeros(size),
        jac="3-point",
        options={"gtol": 1e-9},
    )
    np.testing.assert_allclose(1 / (1 + np.exp(-best.x)), np.append(counted.attractiveness, leaving), atol=1e-6)
    if model == "dcm":
        assert counted.continuation[3] == 0.0


def test_counts_by_hand():
    log = log_of(["abc", "abc", "bac"], [(1, 0, 1), (0, 0, 0), (0, 1, 0)], [1.0, 2.0, 1.0])
    sdbn, dcm = fit(log, "sdbn"), fit(log, "dcm")
    # a: shown 1 + 2 + 1, clicked 1 + 1; b: examined 1 + 2 + 1; c: 1 + 2, not below the last click of the third list.
    np.testing.assert_allclose(sdbn.attractiveness, [2 / 4, 0.0, 1 / 3])
    np.testing.assert_allclose(sdbn.satisfaction, [1 / 2, np.nan, 1.0])
    assert sdbn.notes == ()
    below = fit(log_of(["ab"], [(1, 0)], [1.0]), "sdbn")
    np.testing.assert_array_equal(below.attractiveness, [1.0, np.nan])
    assert below.notes == ("1 of 2 pairs without an estimate (NaN): set a prior.",)
    np.testing.assert_array_equal(dcm.attractiveness, sdbn.attractiveness)
    np.testing.assert_allclose(dcm.continuation, [1.0, 0.0, 0.0])
    # A prior of mean .5 and strength 2 adds a click and a skip; satisfaction is drawn to 2 of 3 clicks.
    prior = fit(log, "sdbn", prior=0.5, strength=2.0)
    np.testing.assert_allclose(prior.attractiveness, [3 / 6, 1 / 6, 2 / 5])
    np.testing.assert_allclose(prior.satisfaction, [(1 + 4 / 3) / 4, 2 / 3, (1 + 4 / 3) / 3])
    means = fit(log, "dcm", prior=[0.0, 0.5, 1.0], strength=4.0)
    np.testing.assert_allclose(means.attractiveness, [2 / 8, 2 / 8, 5 / 7])
    frame = sdbn.to_frame()
    assert frame.columns == ["query", "document", "attractiveness", "satisfaction", "impressions"]
    assert frame["document"].to_list() == ["a", "b", "c"]
    assert frame["impressions"].to_list() == [4.0, 4.0, 4.0]


@pytest.mark.parametrize("model", EVERY)
def test_threads_change_nothing(model, monkeypatch):
    log = random_log(seed=6, n_queries=30, impressions=60)
    fitted = fit(log, model, iterations=20)
    monkeypatch.setattr(threads, "_WORTH_THREADS", 0)
    with rw.use_threads(3):
        np.testing.assert_array_equal(fit(log, model, iterations=20).attractiveness, fitted.attractiveness)


def test_a_dbn_whose_clicks_are_all_at_the_end():
    log = log_of(["ab", "ba"], [(0, 1), (0, 1)], [1.0, 1.0])
    fitted = fit(log, "dbn", iterations=50)
    np.testing.assert_allclose(fitted.attractiveness, [0.5, 0.5])
    assert np.isnan(fitted.satisfaction).all()
    assert fitted.continuation.tolist() == [1.0, 1.0]
    assert fitted.log_likelihood(log) == pytest.approx(np.log(0.25) * 2)
    with refusal(what="a DBN needs lists", got="one document in every impression"):
        fit(log_of(["a", "b"], [(1,), (0,)], [1.0, 1.0]), "dbn")
    assert fit(log_of(["a", "b"], [(1,), (0,)], [1.0, 1.0]), "pbm").examination.tolist() == [1.0]  # as the hint says


def test_a_pbm_needs_no_sessions_and_its_likelihood_is_that_of_the_sessions():
    log = random_log(model="position", impressions=300)
    alone = replace(log, sessions=None)
    fitted = fit(alone, "pbm")
    np.testing.assert_array_equal(fitted.attractiveness, fit(log, "pbm").attractiveness)
    assert fitted.log_likelihood(alone) == pytest.approx(fitted.session_log_likelihoods(log).sum(), rel=1e-12)


def test_pairs_of_another_log_are_found_by_their_ids():
    log = log_of(["abc", "bac", "bca", "cab"], [(1, 0, 1), (0, 1, 0), (1, 0, 0), (1, 0, 1)], [3.0, 2.0, 2.0, 2.0])
    other = log_of(["cz", "zc"], [(0, 1), (1, 0)], [1.0, 1.0])
    fitted = fit(log, "pbm", prior=0.3)
    z, c = np.average(fitted.attractiveness, weights=fitted.impressions), fitted.attractiveness[2]
    theta = fitted.examination[1]
    expected = np.log([(1 - c) * theta * z, z * (1 - theta * c)])
    np.testing.assert_allclose(fitted.session_log_likelihoods(other), expected, rtol=1e-12)
    deep = log_of(["abcd"], [(1, 0, 0, 0)], [1.0])
    refuses(lambda: fitted.log_likelihood(deep), what="the click model knows positions 1 to 3", got="position 4")


def test_one_deterministic_ranker_identifies_nothing_unless_means_are_known():
    lists = log_of(["abc"] * 4, [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0)], [5.0, 2.0, 1.0, 1.0])
    for model in ("pbm", "ubm"):
        with refusal(what="position bias is not identified: a document at two positions, and clicks on it, are needed"):
            fit(lists, model, prior=0.3)
    # A document that is never clicked tells nothing of the positions where it stands.
    swapped = log_of(["ab", "zb", "az"], [(1, 1), (0, 1), (1, 0)], [1.0, 1.0, 1.0])
    refuses(lambda: fit(swapped, "pbm"), what="position bias is not identified: positions 1 and 2 exchange no click")
    fitted = fit(lists, "pbm", prior=[0.5, 0.5, 0.5], strength=1000.0)
    # With known attractiveness .5, examination is the click-through rate over it.
    np.testing.assert_allclose(fitted.examination, [1.0, 2 * 3 / 9, 2 * 1 / 9], rtol=0.02)


def small_log(seed):
    """A log of a few impressions, in which all, many or few documents are clicked."""
    draw, rows, number = np.random.default_rng(seed), [], 0
    depth, rate = draw.integers(2, 5), draw.choice([0.1, 0.4, 0.9, 1.0])
    for query in range(draw.integers(1, 4)):
        documents = [*"abcdef"[: depth + draw.integers(0, 2)]]
        for _ in range(draw.integers(1, 6)):
            documents = draw.permutation(documents).tolist() if draw.random() < 0.6 else documents
            clicks = draw.random(depth) < (rate if rate == 1.0 else rate / np.arange(1, depth + 1))
            rows += [(str(query), documents[k], number, k + 1, int(clicks[k])) for k in range(depth)]
            number += 1
    names = ("query", "document", "impression", "position", "clicked")
    return Log.from_rows(pl.LazyFrame(rows, schema=names, orient="row"))


@pytest.mark.filterwarnings("error")
def test_small_and_saturated_logs_have_numbers_or_the_error_of_propensities_and_of_the_examination():
    outcomes: set[bool | str] = set()
    for log in filter(lambda log: log.clicks.any(), map(small_log, range(150))):
        refusals = []
        for estimate in (lambda log: rw.clicks.propensities(log, resamples=2), lambda log: fit(log, "pbm")):
            try:
                estimate(log)
                refusals.append("")
            except ValueError as error:
                refusals.append(str(error))
        refused = any(finding.severity == "error" for finding in log.examine().findings)
        assert refusals[0] == refusals[1]
        assert bool(refusals[0]) == refused
        outcomes.add(refused)
        for model in EVERY:
            with contextlib.suppress(ValueError):
                fitted = fit(log, model)
                assert not np.isnan(fitted.log_likelihood(log))
                assert model in ("sdbn", "dcm") or fitted.notes or not np.isnan(fitted.attractiveness).any()
                if any("set a prior" in note for note in fitted.notes):  # the hint is followed
                    assert not np.isnan(fit(log, model, prior=0.3).attractiveness).any()
        if "range(1, " in refusals[0]:  # the hint is followed
            last = int(refusals[0].split("range(1, ")[1].split(")")[0])
            rw.clicks.propensities(log.only(positions=range(1, last)), resamples=2)
            outcomes.add("hint")
    assert outcomes == {True, False, "hint"}


@pytest.mark.parametrize("model", ["ubm", "dbn", "sdbn", "dcm"])
def test_models_with_memory_need_sessions(model):
    log = replace(random_log(), sessions=None)
    with pytest.raises(ValueError) as caught:
        fit(log, model)
    assert str(caught.value) == (
        f"a {MODELS[model].title} needs the impressions one by one: got a log without sessions. "
        "Hint: keep the sessions of the log, or estimate a PBM."
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"model": "pmb"}, "unknown click model: got 'pmb'. Hint: did you mean 'pbm'."),
        ({"prior": [0.5]}, "a prior is one mean, or one for each pair of the log: got shape (1,) for 2 pairs."),
        (
            {"prior": [0.5, 1.5]},
            "prior means are probabilities of a click: got 1.5. Hint: map scores to the share of clicks first.",
        ),
    ],
)
def test_errors(options, sentence):
    log = log_of(["ab", "ba"], [(1, 0), (0, 1)], [1.0, 1.0])
    with pytest.raises(ValueError) as caught:
        rw.clicks.click_model(log, **options)
    assert str(caught.value) == sentence
    refuses(lambda: fit(log_of(["ab"], [(0, 0)], [1.0]), "sdbn"), what="a click model needs clicks")


def test_printed():
    log = log_of(["abc", "bac", "bca", "cab"], [(1, 0, 1), (0, 1, 0), (1, 0, 0), (1, 0, 1)], [3.0, 2.0, 2.0, 2.0])
    text = repr(fit(log, "ubm", iterations=2))
    assert text.splitlines()[0].startswith("user browsing model: 3 pairs, attractiveness 0.")
    assert text.splitlines()[1].split() == ["position", "no", "click", "after", "1", "after", "2"]
    assert "Not converged: after 2 iterations" in text
    assert repr(fit(log, "dcm")).splitlines()[1].split() == ["position", "continuation"]
