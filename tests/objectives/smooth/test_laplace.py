"""Smooth metrics by Laplace's distribution: the sweeps are held against the sums over all pairs that they stand for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rankwise as rw
from tests.refusals import refusal

METRICS = ["approx_ndcg", "smooth_ap", "smooth_rbp"]


def by_hand(name, eta, scores, labels):
    """Value, gradient and Hessian with matrices of pairs, row i for the rank of i."""
    n = scores.size
    x = eta * (scores[None, :] - scores[:, None])
    w = 0.5 * np.exp(-np.abs(x))
    above, t = np.where(x < 0.0, w, 1.0 - w), -np.sign(x) * w
    for matrix in (above, w, t):
        np.fill_diagonal(matrix, 0.0)
    first, second = eta * (w - np.diag(w.sum(1))), eta**2 * (t + np.diag(t.sum(1)))  # d rank_i / d s_k and twice
    rank = 1.0 + above.sum(1)
    relevant = labels >= 1.0
    if name == "approx_ndcg":
        gains = 2.0**labels - 1.0
        log = np.log(1.0 + rank)
        share = gains * np.log(2.0) / (np.sort(gains)[::-1] / np.log2(np.arange(2, n + 2))).sum()
        slope = share / ((1.0 + rank) * log**2)
        bend = -share * (log + 2.0) / ((1.0 + rank) ** 2 * log**3)
        return -(share / log).sum(), slope @ first, slope @ second + bend @ first**2
    inside = w * relevant, t * relevant
    first_among = eta * (inside[0] - np.diag(inside[0].sum(1)))
    second_among = eta**2 * (inside[1] + np.diag(inside[1].sum(1)))
    among = 1.0 + (above * relevant).sum(1)
    if name == "smooth_rbp":
        pick = relevant.astype(float)
        return pick @ (rank - among), pick @ (first - first_among), pick @ (second - second_among)
    pick = -relevant.astype(float) / relevant.sum()
    gradient = pick / rank @ first_among - pick * among / rank**2 @ first
    hessian = pick / rank @ second_among - pick * among / rank**2 @ second
    hessian += 2.0 * (pick * among / rank**3 @ first**2 - pick / rank**2 @ (first * first_among))
    return pick @ (among / rank), gradient, hessian


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("decimals", [15, 1, 0])  # the last two make ties
@pytest.mark.parametrize("n", [2, 3, 17, 200])
def test_sweeps_give_the_sums_over_pairs(name, decimals, n):
    rng = np.random.default_rng(n)
    scores, labels = rng.normal(size=n).round(decimals), rng.integers(0, 4, n).astype(float)
    labels[:2] = 0.0, 2.0
    for eta in (0.3, 1.0, 10.0):
        actual = rw.objective(f"{name}(kernel=laplace, curvature=exact, eta={eta})")(scores, labels, [0, n])
        value, gradient, hessian = by_hand(name, eta, scores, labels)
        np.testing.assert_allclose(actual.value, [value], rtol=1e-12)
        np.testing.assert_allclose(actual.gradient, gradient, rtol=1e-12, atol=1e-13 * np.abs(gradient).max())
        np.testing.assert_allclose(actual.hessian, hessian, rtol=1e-12, atol=1e-13 * max(np.abs(hessian).max(), 1.0))


@given(st.permutations(range(7)), st.lists(st.integers(0, 3), min_size=7, max_size=7))
def test_steep_kernels_give_the_metric_itself(order, labels):
    scores, labels = np.array(order, float), np.array(labels, float)
    sigmoid = [rw.objective(f"{name}(eta=200)")(scores, labels, [0, 7]).value for name in METRICS]
    laplace = [rw.objective(f"{name}(eta=200, kernel=laplace)")(scores, labels, [0, 7]).value for name in METRICS]
    np.testing.assert_allclose(laplace, sigmoid, atol=1e-9)


def test_pencil_cases():
    # Equal scores: every comparison is 1/2, as with the sigmoid, and twice as steep.
    actual = rw.objectives.SmoothRBP(kernel="laplace")([0, 0, 0], [1, 1, 0], [0, 3])
    np.testing.assert_allclose(actual.value, 1.0)
    np.testing.assert_allclose(actual.gradient, [-1 / 2, -1 / 2, 1])
    # A relevant document, log 2 below another one: 1 − 1/4; a quarter is the slope.
    actual = rw.objectives.SmoothRBP(kernel="laplace", curvature="exact")([0.0, np.log(2.0)], [1, 0], [0, 2])
    np.testing.assert_allclose(actual.value, 3 / 4)
    np.testing.assert_allclose(actual.gradient, [-1 / 4, 1 / 4])
    np.testing.assert_allclose(actual.hessian, [-1 / 4, -1 / 4])


@pytest.mark.parametrize("name", METRICS)
def test_far_documents_do_not_disturb_the_others(name):
    rng = np.random.default_rng(1)
    scores, labels = rng.normal(size=8), rng.integers(0, 3, 8).astype(float)
    labels[0] = 2.0
    objective = rw.objective(f"{name}(kernel=laplace, curvature=exact)")
    near = objective(np.append(scores, -50.0), np.append(labels, 0.0), [0, 9])
    far = objective(np.append(scores, -1e9), np.append(labels, 0.0), [0, 9])
    for one, other in zip(near, far, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_lists_with_all_or_no_relevant_documents_have_no_gradient():
    for name, value in zip(METRICS, (-1.0, -1.0, 0.0), strict=True):
        objective = rw.objective(f"{name}(kernel=laplace)")
        one, none = objective([0.3], [1], [0, 1]), objective([0.3, 0.1], [0, 0], [0, 2])
        assert none.value == 0.0
        assert (none.gradient == 0.0).all()
        assert (none.hessian == 0.0).all()
        assert one.gradient == 0.0
        assert one.value == (0.0 if name == "approx_ndcg" else value)
    for name in METRICS[1:]:
        every = rw.objective(f"{name}(kernel=laplace)")([0.3, 0.1, 0.7], [1, 2, 1], [0, 3])
        assert (every.gradient == 0.0).all()
        assert (every.hessian == 0.0).all()


def test_long_lists_take_no_matrix_of_pairs():
    n = 200_000  # with 100,000 relevant documents: 2e10 pairs
    rng = np.random.default_rng(0)
    actual = rw.objectives.ApproxNDCG(kernel="laplace")(rng.normal(size=n), rng.integers(0, 2, n).astype(float), [0, n])
    assert np.isfinite(actual.hessian).all()
    assert abs(actual.gradient.sum()) < 1e-9


def test_the_kernel_is_part_of_the_expression():
    objective = rw.objective("bounded(approx_ndcg(kernel=laplace))")
    assert repr(objective) == "bounded(approx_ndcg(kernel=laplace))"
    with refusal(what="unknown kernel of smooth ranks", got="'gauss'", hint="choose one of sigmoid, laplace"):
        rw.objective("smooth_ap(kernel=gauss)")
