"""ListNet, SoftmaxCE and XE-NDCG: pencil cases, LightGBM's own numbers, the tight gamma, weights of documents."""

import itertools
import warnings

import lightgbm as lgb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rankwise as rw
from rankwise.objectives.softmax.cpu import cross_entropy
from tests.refusals import refusal, refuses

SCORES = st.lists(st.floats(-30, 30), min_size=2, max_size=8)


def softmax(x):
    e = np.exp(x - np.max(x))
    return e / e.sum()


def gamma_one_half(scores, labels, gamma):
    """XE-NDCG written down for any gamma: value, gradient."""
    phi = 2.0 ** np.asarray(labels) - gamma
    phi /= phi.sum()
    return -(phi * np.log(softmax(scores))).sum(), softmax(scores) - phi


def test_pencil_cases():
    # Two documents at equal scores: rho = 1/2 each. Targets: (3/4, 1/4), (1, 0), (2/3, 1/3).
    labels = np.array([np.log(3.0), 0.0])
    actual = rw.objectives.ListNet(newton="diagonal")([0, 0], labels, [0, 2])
    np.testing.assert_allclose(actual.gradient, [-1 / 4, 1 / 4])
    np.testing.assert_allclose(actual.value, np.log(2))
    np.testing.assert_allclose(actual.hessian, 1 / 4)
    np.testing.assert_allclose(rw.objectives.SoftmaxCE()([0, 0], [1, 0], [0, 2]).gradient, [-1 / 2, 1 / 2])
    np.testing.assert_allclose(
        rw.objectives.XENDCG(gamma="zero")([0, 0], [1, 0], [0, 2]).gradient, [1 / 2 - 2 / 3, 1 / 2 - 1 / 3]
    )
    np.testing.assert_allclose(rw.objectives.XENDCG(gamma="one")([0, 0], [1, 0], [0, 2]).gradient, [-1 / 2, 1 / 2])


def test_equation_14_adds_epsilon_to_the_denominator():
    # e^0 + e^0 + 2 = 4: each document has a quarter, the rest is nobody's.
    actual = rw.objectives.SoftmaxCE(epsilon=2.0)([0, 0], [1, 0], [0, 2])
    np.testing.assert_allclose(actual.gradient, [1 / 4 - 1, 1 / 4])
    np.testing.assert_allclose(actual.value, np.log(4))
    np.testing.assert_allclose(actual.hessian, 3 / 16)


@given(SCORES, st.data())
def test_tight_gamma_beats_every_corner(scores, data):
    labels = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(scores), max_size=len(scores))), float)
    actual = rw.objectives.XENDCG(gamma="tight")(scores, labels, [0, len(scores)])
    # The bound is a ratio of functions linear in gamma, so its best value is at a corner of the cube.
    best = np.inf
    for corner in itertools.product((0.0, 1.0), repeat=len(scores)):
        if (2.0**labels - corner).sum() > 0:
            best = min(best, gamma_one_half(scores, labels, np.array(corner))[0])
    np.testing.assert_allclose(actual.value[0], best, atol=1e-9)


def test_uniform_gamma_lies_between_the_corners_and_differs_by_round():
    scores, labels = np.zeros(4), np.array([2.0, 1.0, 0.0, 0.0])
    phis = np.array(
        [0.25 - rw.objectives.XENDCG()(scores, labels, [0, 4], rw.Stream(0, r)).gradient for r in range(300)]
    )
    assert (phis >= 0).all()
    ratio = phis[:, 0] / phis.sum(axis=1)
    assert 3 / (3 + 2 + 1 + 1) < ratio.min() < ratio.max() < 4 / (4 + 1)
    # Means of (4 - g)/(total) over uniform gammas, by simulation with NumPy's own generator.
    rng = np.random.default_rng(0)
    drawn = 2.0**labels - rng.random((20_000, 4))
    drawn /= drawn.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(phis.mean(axis=0), drawn.mean(axis=0), atol=4 * drawn.std(axis=0).max() / np.sqrt(300))


def test_shares_of_two_to_the_label_minus_gamma_are_xendcg():
    """So any distribution of gamma can be tried with SoftmaxCE, as benchmarks/quality/gamma.py does."""
    rng = np.random.default_rng(4)
    offsets, stream = np.array([0, 4, 5, 12]), rw.Stream(3, 7)
    scores, labels = rng.normal(size=12), rng.integers(0, 4, 12).astype(float)
    ours = rw.objectives.XENDCG()(scores, labels, offsets, stream)
    shares = rw.objectives.SoftmaxCE()(scores, 2.0**labels - stream.documents(offsets), offsets)
    for one, other in zip(ours, shares, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-15)


@given(st.lists(st.integers(0, 4), min_size=2, max_size=8), st.integers(0, 1000))
def test_the_best_scores_rank_by_grade_whatever_gamma_is(labels, number):
    """Claim 1 of the 2021 paper for graded labels: 2^(y + 1) − 1 is never below 2^y."""
    n = len(labels)
    loss = rw.objectives.XENDCG().prepare(labels, [0, n])
    target = 1.0 / n - loss(np.zeros(n), rw.Stream(0, number)).gradient
    order = np.argsort(labels, kind="stable")
    grades, sorted_targets = np.array(labels)[order], target[order]
    for low, high in itertools.pairwise(sorted(set(labels))):
        assert sorted_targets[grades == low].max() <= sorted_targets[grades == high].min()
    best = loss(np.log(target), rw.Stream(0, number))
    np.testing.assert_allclose(best.gradient, 0.0, atol=1e-12)


def expected_target(chances, target):
    """The mean target of a list with one click, where a click is as likely as ``chances`` say."""
    return sum(chance * target(np.eye(len(chances))[clicked]) for clicked, chance in enumerate(chances))


def test_with_one_click_the_best_scores_rank_by_chance_if_gamma_is_drawn_alike():
    """Claim 1 for clicks: the ideal DCG is 1, so NDCG is best in the order of the chances of a click."""
    chances = np.array([0.4, 0.35, 0.25])

    def drawn(labels):
        loss = rw.objectives.XENDCG().prepare(labels, [0, 3])
        return np.mean([1 / 3 - loss(np.zeros(3), rw.Stream(0, number)).gradient for number in range(4000)], axis=0)

    actual = expected_target(chances, drawn)
    assert (np.diff(actual) < 0.0).all()


def test_with_one_click_a_gamma_for_each_document_reverses_the_order():
    """By pencil: γ = (1, 0). A click on the first gives (1, 1)/2, on the second (0, 2)/2: .55, .45 give .275, .725."""

    def fixed(labels):
        return 0.5 - rw.objectives.SoftmaxCE()(np.zeros(2), 2.0**labels - np.array([1.0, 0.0]), [0, 2]).gradient

    np.testing.assert_allclose(expected_target([0.55, 0.45], fixed), [0.275, 0.725])


def test_the_gradient_is_two_lipschitz():
    rng = np.random.default_rng(1)
    for _ in range(100):
        n = int(rng.integers(2, 30))
        actual = rw.objectives.XENDCG()(rng.normal(size=n) * 5, rng.integers(0, 5, n), [0, n], rw.Stream(2))
        assert np.abs(actual.gradient).sum() <= 2.0


def test_equation_14_is_positive_definite_and_its_series_converges():
    rng = np.random.default_rng(2)
    for _ in range(50):
        n = int(rng.integers(2, 12))
        scores = rng.normal(size=n)
        actual = rw.objectives.SoftmaxCE(epsilon=0.5)(scores, np.ones(n), [0, n])
        rho = actual.gradient + 1.0 / n
        hessian = np.diag(actual.hessian) - (np.outer(rho, rho) - np.diag(rho**2))
        assert np.linalg.eigvalsh(hessian).min() > 0
        series = rho[None, :] / (1.0 - rho[:, None])
        np.fill_diagonal(series, 0.0)
        assert np.abs(np.linalg.eigvals(series)).max() < 1


def test_neumann_numerator_is_three_terms_of_the_series():
    rng = np.random.default_rng(3)
    n = 9
    scores, labels = rng.normal(size=n), rng.integers(0, 4, n)
    actual = rw.objectives.ListNet()(scores, labels, [0, n])
    rho = softmax(scores)
    # H = D(I - S) with D = diag(rho(1 - rho)) and S_ij = rho_j/(1 - rho_i): H^-1 g is about (I + S + S^2) D^-1 g.
    series = np.tile(rho, (n, 1)) / (1 - rho)[:, None]
    np.fill_diagonal(series, 0.0)
    step = actual.gradient / actual.hessian
    expected = actual.hessian * (step + series @ step + series @ series @ step)
    np.testing.assert_allclose(actual.numerator, expected, atol=1e-13)
    assert rw.objectives.ListNet(newton="diagonal")(scores, labels, [0, n]).numerator is not None


def test_inverse_propensities_multiply_gains():
    scores, labels = np.array([0.3, -0.2, 0.9]), np.array([1.0, 0.0, 1.0])
    weights = np.array([2.0, 5.0, 1.0])
    actual = rw.objectives.SoftmaxCE()(scores, labels, [0, 3], document_weights=weights)
    np.testing.assert_allclose(actual.gradient, softmax(scores) - np.array([2, 0, 1]) / 3)
    actual = rw.objectives.XENDCG(gamma="zero")(scores, labels, [0, 3], document_weights=weights)
    phi = weights * (2.0**labels - 1) + 1  # the mass 1 - gamma stays unweighted
    np.testing.assert_allclose(actual.gradient, softmax(scores) - phi / phi.sum())
    with refusal(what="listnet takes no document_weights"):
        rw.objectives.ListNet()(scores, labels, [0, 3], document_weights=weights)
    with refusal(what="document weights must be at least 0"):
        rw.objectives.SoftmaxCE()(scores, labels, [0, 3], document_weights=-weights)


# LightGBM's own random numbers: a linear congruential generator per query, seeded with objective_seed + query number.
def lightgbm_gammas(sizes, seed=5):
    gammas = []
    for q, size in enumerate(sizes):
        x = (seed + q) & 0xFFFFFFFF
        for _ in range(size):
            x = (214013 * x + 2531011) & 0xFFFFFFFF
            gammas.append(((x >> 16) & 0x7FFF) / 32768.0)
    return np.array(gammas)


def lightgbm_derivatives(scores, labels, sizes):
    """LightGBM's own numerator and Hessian of each document: the leaf −G/(H + penalty) that it has alone, twice."""
    n = scores.size
    settings = {
        "objective": "rank_xendcg", "num_leaves": 2, "min_data_in_leaf": 0, "min_sum_hessian_in_leaf": 0.0,
        "learning_rate": 1.0, "verbosity": -1, "num_threads": 1, "min_data_in_bin": 1, "feature_pre_filter": False,
    }  # fmt: skip
    actual = []
    for i in range(n):
        alone = (np.arange(n) == i).astype(float)[:, None]
        data = lgb.Dataset(alone, labels, group=sizes, init_score=scores, params=settings, free_raw_data=False)
        one, two = (lgb.train({**settings, "lambda_l2": x}, data, 1).predict(alone)[i] for x in (0.01, 0.1))
        if one == two:  # splitting this document off gains nothing, so there is no leaf to read
            actual.append((np.nan, np.nan))
            continue
        hessian = (0.1 * two - 0.01 * one) / (one - two)
        actual.append((-one * (hessian + 0.01), hessian))
    return np.array(actual).T


def test_derivatives_are_lightgbms_own():
    rng = np.random.default_rng(5)
    sizes = [7, 5, 9]
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    scores, labels = rng.normal(size=21), rng.integers(0, 4, 21).astype(float)
    numerator, hessian = lightgbm_derivatives(scores, labels, sizes)
    gammas = lightgbm_gammas(sizes)
    seen = np.isfinite(hessian)
    assert seen.sum() >= 10
    for q in range(3):
        part = slice(offsets[q], offsets[q + 1])
        phi = 2.0 ** labels[part] - gammas[part]
        phi /= phi.sum()
        own_hessian, own_numerator = np.empty(sizes[q]), np.empty(sizes[q])
        cross_entropy(scores[part], 0.0, True, phi, own_hessian, own_numerator)
        np.testing.assert_allclose(own_numerator[seen[part]], numerator[part][seen[part]], atol=1e-5)
        np.testing.assert_allclose(own_hessian[seen[part]], hessian[part][seen[part]], atol=1e-5)


@pytest.mark.parametrize("gap", [37.0, 4000.0])
def test_trains_where_lightgbms_own_turns_to_nan(gap):
    rng = np.random.default_rng(6)
    n, sizes = 400, [20] * 20
    features = rng.normal(size=(n, 3))
    labels = rng.integers(0, 3, n).astype(float)
    features[:, 0] += labels
    start = np.zeros(n)
    start[0] = gap  # one document of one query far ahead
    offsets = np.arange(0, n + 1, 20)
    objective = rw.objectives.XENDCG()

    def trained(name):
        data = lgb.Dataset(features, labels, group=sizes, init_score=start)
        settings = {"verbosity": -1, "num_threads": 1, "learning_rate": 0.1, "objective": name}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return lgb.train(settings, data, 10).predict(features, raw_score=True)

    def ours(scores, data):
        actual = objective(scores, data.get_label(), offsets, rw.Stream(0))
        assert all(np.isfinite(part).all() for part in actual)
        return actual.numerator, np.maximum(actual.hessian, 1e-6)

    assert np.ptp(trained("rank_xendcg")) == 0.0  # an empty model, without a word
    learned = trained(ours)
    fixed = rw.objectives.XENDCG(gamma="zero")
    before, after = (fixed(start + s, labels, offsets).value.mean() for s in (0.0, learned))
    assert after < before


def test_large_labels_stay_finite():
    actual = rw.objectives.XENDCG(gamma="zero")([0.0, 1.0, 2.0], [3000.0, 2999.0, 0.0], [0, 3])
    np.testing.assert_allclose(actual.gradient, softmax([0, 1, 2]) - np.array([2 / 3, 1 / 3, 0]), atol=1e-12)


def test_bad_settings():
    with refusal(what="unknown newton", got="'neuman'", hint="did you mean 'neumann'"):
        rw.objectives.ListNet(newton="neuman")
    refuses(lambda: rw.objectives.XENDCG(epsilon=-1), what="epsilon must be a number in [0, inf)", got="-1")
