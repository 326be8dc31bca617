"""Smooth metrics: the metric itself when steep, pencil cases, treatments of the curvature."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rankwise as rw
from tests.refusals import refusal, refuses


@given(st.permutations(range(7)), st.lists(st.integers(0, 3), min_size=7, max_size=7))
def test_steep_sigmoids_give_the_metric_itself(order, labels):
    scores, labels = np.array(order, float), np.array(labels, float)
    relevant = labels >= 1
    ndcg, ap = (rw.metric(name)(scores, labels, [0, 7])[0] for name in ("ndcg(empty=0)", "ap(empty=0)"))
    assert rw.objectives.ApproxNDCG(eta=200.0)(scores, labels, [0, 7]).value[0] == pytest.approx(-ndcg, abs=1e-9)
    assert rw.objectives.SmoothAP(eta=200.0)(scores, labels, [0, 7]).value[0] == pytest.approx(-ap, abs=1e-9)
    pairs = sum(scores[j] > scores[i] for i in np.flatnonzero(relevant) for j in np.flatnonzero(~relevant))
    assert rw.objectives.SmoothRBP(eta=200.0)(scores, labels, [0, 7]).value[0] == pytest.approx(pairs, abs=1e-9)


def test_pencil_cases():
    # Three documents at equal scores: every smooth rank is 1 + 1/2 + 1/2 = 2.
    actual = rw.objectives.ApproxNDCG(eta=1.0)([0, 0, 0], [1, 0, 0], [0, 3])
    np.testing.assert_allclose(actual.value, -1 / np.log2(3))
    # Two relevant ones: A = 1 + 1/2, R = 2, so AP = 3/4.
    np.testing.assert_allclose(rw.objectives.SmoothAP()([0, 0, 0], [1, 1, 0], [0, 3]).value, -3 / 4)
    # Eq. 2.12: (2 - 1) + (2 - 1) - 1 = 1, which is half of the 2 mixed pairs.
    actual = rw.objectives.SmoothRBP()([0, 0, 0], [1, 1, 0], [0, 3])
    np.testing.assert_allclose(actual.value, 1.0)
    np.testing.assert_allclose(actual.gradient, [-1 / 4, -1 / 4, 1 / 2])


def test_equation_2_12_with_its_constant():
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=9), np.array([1, 0, 1, 1, 0, 0, 1, 0, 0.0])
    above = 1 / (1 + np.exp(-(scores[None, :] - scores[:, None])))
    np.fill_diagonal(above, 0.0)
    ranks = 1 + above.sum(axis=1)
    expected = (labels * (ranks - 1)).sum() - 4 * 3 / 2
    np.testing.assert_allclose(rw.objectives.SmoothRBP()(scores, labels, [0, 9]).value, expected)


def test_wide_and_narrow_lists_give_the_same_numbers():
    # A far outlier forces the path that does not take e^(ηs) of every document; it must not disturb the others.
    rng = np.random.default_rng(1)
    scores, labels = rng.normal(size=8), rng.integers(0, 3, 8).astype(float)
    labels[0] = 2.0
    for objective in (
        rw.objectives.ApproxNDCG(curvature="exact"),
        rw.objectives.SmoothAP(curvature="exact"),
        rw.objectives.SmoothRBP(curvature="exact"),
    ):
        near = objective(np.append(scores, -50.0), np.append(labels, 0.0), [0, 9])
        far = objective(np.append(scores, -5000.0), np.append(labels, 0.0), [0, 9])
        np.testing.assert_allclose(near.value, far.value, rtol=1e-12)
        np.testing.assert_allclose(near.gradient, far.gradient, atol=1e-12)
        np.testing.assert_allclose(near.hessian, far.hessian, atol=1e-12)


@pytest.mark.parametrize("name", ["approx_ndcg", "smooth_ap", "smooth_rbp"])
def test_curvature_treatments(name):
    rng = np.random.default_rng(2)
    scores, labels, offsets = rng.normal(size=20), rng.integers(0, 2, 20).astype(float), np.array([0, 12, 17, 20])
    labels[17:] = 0.0
    actual = {
        word: rw.objective(f"{name}(curvature={word})")(scores, labels, offsets)
        for word in ("exact", "absolute", "floored", "ones", "gradient")
    }
    exact = actual["exact"]
    assert (exact.hessian < 0).any(), "the exact diagonal is indefinite, or there would be nothing to treat"
    for derivatives in actual.values():
        np.testing.assert_array_equal(derivatives.gradient, exact.gradient)
        np.testing.assert_array_equal(derivatives.value, exact.value)
        np.testing.assert_array_equal(derivatives.hessian[17:], 0.0)  # nothing relevant: nothing to learn
    np.testing.assert_array_equal(actual["absolute"].hessian, np.abs(exact.hessian))
    np.testing.assert_array_equal(actual["gradient"].hessian, np.abs(exact.gradient))
    np.testing.assert_array_equal(actual["ones"].hessian[:17], 1.0)
    for start, end in ((0, 12), (12, 17)):
        own = exact.hessian[start:end]
        np.testing.assert_allclose(actual["floored"].hessian[start:end], np.maximum(own, np.abs(own).max() / 4) + 1e-6)
    assert rw.objective(f"{name}(curvature=exact)").exact_hessian
    assert not rw.objective(name).exact_hessian
    with refusal(what="unknown curvature", got="'estimated'", hint="choose one of exact, absolute…"):
        rw.objective(f"{name}(curvature=estimated)")


def test_relevance_threshold_and_gain():
    scores = [0.1, 0.5, 0.2]
    np.testing.assert_array_equal(
        rw.objectives.SmoothAP(relevant=2)(scores, [2, 1, 0], [0, 3]).value,
        rw.objectives.SmoothAP()(scores, [1, 0, 0], [0, 3]).value,
    )
    np.testing.assert_allclose(
        rw.objectives.ApproxNDCG(gain="linear")(scores, [3, 1, 0], [0, 3]).value,
        rw.objectives.ApproxNDCG(gain=(0, 1, 2, 3))(scores, [3, 1, 0], [0, 3]).value,
    )
    with refusal(what="a label is beyond the gain table, which ends at 1"):
        rw.objectives.ApproxNDCG(gain=(0, 1))(scores, [3, 1, 0], [0, 3])
    refuses(lambda: rw.objectives.SmoothAP(eta=0), what="eta must be a number in (0, inf)", got="0")
