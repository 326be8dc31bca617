"""Scores with noise, and the rankings that they make, held against the distributions that they are drawn from."""

from itertools import permutations

import numpy as np
import pytest
from scipy import special, stats

import rankwise as rw
from rankwise.base.arrays import Keywords

SCORES = np.array([1.0, 0.2, -0.5, 0.4])
ONE = [0, 4]
ORDERS = list(permutations(range(4)))


def plackett_luce(scores):
    """The probability of each of the 24 orders of four documents: one softmax after another."""
    weights = np.exp(scores)
    actual = []
    for order in ORDERS:
        left = weights[list(order)]
        actual.append(np.prod(left / np.cumsum(left[::-1])[::-1]))
    return np.array(actual)


def counted(rankings):
    return np.array([(rankings == order).all(axis=1).sum() for order in ORDERS])


@pytest.mark.parametrize("scale", [0.4, 1.0, 3.0])
def test_gumbel_noise_of_a_scale_makes_plackett_luce_rankings_of_scores_over_it(scale):
    drawn = 20_000
    expected = plackett_luce(SCORES / scale)
    assert expected.sum() == pytest.approx(1.0)
    noisy = rw.objectives.sample_scores(SCORES, ONE, rw.Stream(seed=3), drawn, scale=scale, temperature=0.3)
    for rankings in (
        np.argsort(-noisy, axis=1),
        rw.objectives.sample_rankings(SCORES, ONE, rw.Stream(seed=4), drawn, scale=scale),
    ):
        counts = counted(rankings)
        assert counts.sum() == drawn
        error = np.sqrt(drawn * expected * (1.0 - expected))
        assert (np.abs(counts - drawn * expected) < 4.5 * error + 1.0).all()
        rare = drawn * expected >= 5
        assert stats.chisquare(counts[rare], expected[rare] / expected[rare].sum() * counts[rare].sum()).pvalue > 1e-4


@pytest.mark.parametrize(
    ("noise", "chance"),
    [
        ("gumbel", lambda gap: 1.0 / (1.0 + np.exp(-gap))),
        ("gaussian", lambda gap: stats.norm.cdf(gap / np.sqrt(2.0))),
        # Of the difference of two logistic variables: 1 − (1 + (x − 1) e^x) / (e^x − 1)².
        ("logistic", lambda gap: 1.0 - (1.0 + (gap - 1.0) * np.exp(gap)) / np.expm1(gap) ** 2),
    ],
)
def test_two_documents_are_swapped_with_the_probability_of_the_noise(noise, chance):
    drawn, scale = 40_000, 0.5
    scores = np.array([0.3, 1.0])
    rankings = rw.objectives.sample_rankings(scores, [0, 2], rw.Stream(seed=1), drawn, scale=scale, noise=noise)
    expected = chance((scores[1] - scores[0]) / scale)
    assert (rankings[:, 0] == 1).mean() == pytest.approx(expected, abs=4.0 * np.sqrt(0.25 / drawn))
    if noise != "gumbel":  # which are drawn as Plackett-Luce's
        noisy = rw.objectives.sample_scores(scores, [0, 2], rw.Stream(seed=1), drawn, scale=scale, noise=noise)
        assert np.array_equal(np.argsort(-noisy, axis=1), rankings)


def test_scores_are_logarithms_of_samples_of_the_concrete_distribution():
    scores, offsets = np.array([2.0, 1.0, 0.0, 300.0, -400.0, 7.0]), np.array([0, 3, 5, 6])
    stream = rw.Stream(seed=5)
    noisy = rw.objectives.sample_scores(scores, offsets, stream, 50, scale=0.7, temperature=0.5)
    totals = np.add.reduceat(np.exp(noisy), [0, 3, 5], axis=1)
    assert totals == pytest.approx(np.ones((50, 3)))
    assert (noisy[:, 5] == 0.0).all()
    # By hand: the noise of scale 1 and no scores, times the scale, over the temperature, up to a constant of each list.
    noise = rw.objectives.sample_scores(np.zeros(3), [0, 3], stream, 50)
    plain = (scores[:3] + 0.7 * noise) / 0.5
    by_hand = plain - np.log(np.exp(plain - plain.max(axis=1, keepdims=True)).sum(axis=1, keepdims=True))
    by_hand -= plain.max(axis=1, keepdims=True)
    assert noisy[:, :3] == pytest.approx(by_hand, abs=1e-9)
    # A low temperature leaves the first document alone; a high one makes all alike. Neither changes an order.
    cold, hot = (
        np.exp(rw.objectives.sample_scores(scores[:3], [0, 3], stream, 50, temperature=t)) for t in (1e-3, 1e3)
    )
    assert (cold.max(axis=1) > 0.95).mean() > 0.95
    assert hot == pytest.approx(np.full((50, 3), 1 / 3), abs=0.01)
    assert np.array_equal(np.argsort(-cold[:, :2], axis=1), np.argsort(-hot[:, :2], axis=1))


def test_draws_of_a_query_depend_on_its_id_alone(monkeypatch):
    data = rw.synthetic(n_queries=40, n_docs=15, seed=2)
    scores = np.sin(np.arange(data.n_docs))
    kept = np.array([7, 3, 31])
    some = data.take(kept)
    rows = np.concatenate([np.arange(data.offsets[q], data.offsets[q + 1]) for q in kept])
    for draw in (rw.objectives.sample_scores, rw.objectives.sample_rankings):
        plain: Keywords = {}
        for settings in (plain, {"noise": "gaussian", "scale": 2.0}):
            monkeypatch.setenv("RANKWISE_THREADS", "1")
            full = draw(scores, data.offsets, data.stream(3), 5, **settings)
            monkeypatch.setenv("RANKWISE_THREADS", "2")
            assert np.array_equal(draw(scores, data.offsets, data.stream(3), 5, **settings), full)
            part = draw(scores[rows], some.offsets, some.stream(3), 5, **settings)
            assert np.array_equal(part, full[:, rows])
            assert not np.array_equal(draw(scores, data.offsets, data.stream(4), 5, **settings), full)
            more = draw(scores, data.offsets, data.stream(3), 9, **settings)
            assert np.array_equal(more[:5], full)  # more samples keep the first


def test_the_wrapper_trains_on_these_samples():
    labels = np.array([2.0, 0.0, 1.0, 0.0])
    for noise in ("gumbel", "logistic", "gaussian"):
        settings: Keywords = {"scale": 0.6, "temperature": 0.8, "noise": noise}
        stream = rw.Stream(seed=9, round=4)
        wrapped = rw.objectives.stochastic(rw.objectives.ApproxNDCG(), samples=3, **settings)(
            SCORES, labels, ONE, stream
        )
        drawn = rw.objectives.sample_scores(SCORES, ONE, stream, 3, **settings)
        by_hand = [rw.objectives.ApproxNDCG()(row, labels, ONE) for row in drawn]
        assert wrapped.value == pytest.approx(np.mean([one.value for one in by_hand], axis=0))
        assert wrapped.gradient == pytest.approx(np.mean([one.gradient for one in by_hand], axis=0) / 0.8)
        assert wrapped.hessian == pytest.approx(np.mean([one.hessian for one in by_hand], axis=0) / 0.64)


@pytest.mark.parametrize("scale", [0.2, 0.5, 0.8])
def test_cross_entropy_in_the_mean_over_noise_is_at_most_cross_entropy_and_a_constant(scale):
    """Eq. 10 to 14: E[H] ≤ H − E[G] + log E[exp G]. Of Gumbel noise of a scale β below 1 that is log Γ(1 − β) − β γ."""
    random = np.random.default_rng(1)
    constant, apart = special.loggamma(1.0 - scale) - np.euler_gamma * scale, []
    for _ in range(20):
        scores, labels = 3.0 * random.normal(size=6), random.integers(0, 3, 6).astype(float)
        labels[0] = 1.0
        drawn = [
            rw.objective(f"stochastic(softmax_ce, samples=500, scale={scale})")(scores, labels, [0, 6], rw.Stream(seed))
            for seed in range(8)
        ]
        means = np.array([one.value[0] for one in drawn])
        plain = rw.objectives.SoftmaxCE()(scores, labels, [0, 6])
        assert means.mean() < plain.value[0] + constant + 4.0 * means.std(ddof=1) / np.sqrt(8)
        gradients = np.mean([one.gradient for one in drawn], axis=0)
        apart.append(np.abs(gradients - plain.gradient).max())
    assert max(apart) > 0.02 * scale  # a bound from above makes no equal losses: gradients differ


@pytest.mark.parametrize(("loss", "steepness"), [("approx_ndcg", "eta"), ("lambdarank", "sigma")])
def test_a_temperature_is_a_steepness_of_the_loss_inside(loss, steepness):
    """ApproxNDCG looks at η (sᵢ − sⱼ) alone: scores over τ with η are scores with η / τ."""
    labels, stream = np.array([2.0, 0.0, 1.0, 0.0]), rw.Stream(seed=2)
    norm = ", norm=False" if loss == "lambdarank" else ", curvature=floored"  # |gradient| is no second derivative
    warm = rw.objective(f"stochastic({loss}({steepness}=4.0{norm}), scale=0.5, temperature=2.0)")
    plain = rw.objective(f"stochastic({loss}({steepness}=2.0{norm}), scale=0.5)")
    for one, other in zip(warm(SCORES, labels, ONE, stream), plain(SCORES, labels, ONE, stream), strict=True):
        assert one == pytest.approx(other, rel=1e-4)  # curvatures are kept a little above 0
    assert repr(warm).endswith("temperature=2.0)")
    assert "temperature" not in repr(plain)
    free = [rw.objective(f"stochastic({loss}({steepness}={a}), temperature={b})") for a, b in ((4.0, 2.0), (2.0, 1.0))]
    assert free[0].noise_scale == free[1].noise_scale == 0.25  # type: ignore[attr-defined]


def test_no_noise_is_the_order_of_the_scores_and_short_lists_are_drawn_too():
    scores, offsets = [1.0, 2.0, 2.0, 5.0], [0, 3, 4]
    assert rw.objectives.sample_rankings(scores, offsets, rw.Stream(1), 2, scale=0.0).tolist() == [[1, 2, 0, 0]] * 2
    assert rw.objectives.sample_rankings(scores, offsets, rw.Stream(1), 1, cutoff=2, scale=0.0).tolist() == [[1, 2, 0]]
    assert rw.objectives.sample_rankings(
        scores, offsets, rw.Stream(1), 1, cutoff=2, noise="logistic", scale=0.0
    ).tolist() == [[1, 2, 0]]
    assert rw.objectives.sample_rankings([1e300, 0.0], [0, 2], rw.Stream(1), 1, scale=1e-300).tolist() == [[0, 1]]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"scale": -1.0}, r"scale must be a number in \[0, inf\): got -1.0"),
        ({"noise": "gumble"}, "unknown noise: got 'gumble'. Hint: did you mean 'gumbel'"),
        ({"samples": 0}, "samples must be a whole number of at least 1"),
        ({"scores": [np.nan, 0.0]}, "scores"),
        ({"offsets": [0, 3]}, "offsets"),
        ({"stream": None}, r"random numbers come from a stream: got None. Hint: pass rw.Stream\(seed=0\)"),
        ({"temperature": 0.0}, "temperature must be a number"),
    ],
)
def test_wrong_settings_are_errors(settings, words):
    about: Keywords = {"scores": [1.0, 0.0], "offsets": [0, 2], "stream": rw.Stream(1), "samples": 2} | settings
    for draw in (rw.objectives.sample_scores, rw.objectives.sample_rankings):
        if draw is rw.objectives.sample_scores or "temperature" not in settings:
            with pytest.raises(ValueError, match=words):
                draw(**about)
    if "temperature" in settings:
        with pytest.raises(ValueError, match=words):
            rw.objectives.stochastic(rw.objectives.XENDCG(), temperature=0.0)


def test_rankers_draw_rankings_of_a_scale_and_of_other_noise():
    train, valid = rw.split(rw.synthetic(n_queries=30, n_docs=8, seed=1), (0.7, 0.3), seed=1)
    model = rw.LightGBMRanker("xendcg", rounds=5, leaves=4, min_documents=3, threads=1).fit(train)
    order = model.sample_rankings(valid, 4, scale=0.0)
    assert (order == order[0]).all()
    stream = valid.stream(2).child("rankings")
    small: Keywords = {"scale": 0.1}
    for settings in (small, {"scale": 2.0, "noise": "gaussian"}):
        expected = rw.objectives.sample_rankings(model.predict(valid), valid.offsets, stream, 6, **settings)
        assert np.array_equal(model.sample_rankings(valid, 6, seed=2, **settings), expected)
