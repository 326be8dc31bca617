import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankwise.objectives import BPR, ListMLE, RankNet
from tests.refusals import refusal, refuses


def brute_bpr(scores, labels):
    columns = scores[labels == 0]
    if not columns.size:
        return 0.0
    return sum(np.logaddexp(0.0, -(score - columns)).mean() for score in scores[labels > 0])


def brute_ranknet(scores, labels, sigma):
    pairs = [(i, j) for i, j in itertools.permutations(range(len(scores)), 2) if labels[i] > labels[j]]
    return sum(np.logaddexp(0.0, -sigma * (scores[i] - scores[j])) for i, j in pairs)


def brute_listmle(scores, labels, ties):
    if min(labels) == max(labels):
        return 0.0
    rows, value = range(len(scores)), 0.0
    for i in rows:
        after = [j for j in rows if labels[j] < labels[i] or (ties == "row" and labels[j] == labels[i] and j > i)]
        value += np.logaddexp.reduce([0.0, *(scores[j] - scores[i] for j in after)])
    return value


def differences(loss, scores, step=1e-3):
    gradient, hessian = np.empty(scores.size), np.empty(scores.size)
    for i in range(scores.size):
        a, b, c, e, f = (loss(scores + k * step * (np.arange(scores.size) == i)) for k in (-2, -1, 0, 1, 2))
        gradient[i] = (a - 8 * b + 8 * e - f) / (12 * step)
        hessian[i] = (-a + 16 * b - 30 * c + 16 * e - f) / (12 * step**2)
    return gradient, hessian


CASES = [
    (RankNet(), lambda s, y: brute_ranknet(s, y, 1.0)),
    (BPR(), brute_bpr),
    (RankNet(sigma=0.3), lambda s, y: brute_ranknet(s, y, 0.3)),
    (ListMLE(), lambda s, y: brute_listmle(s, y, "apart")),
    (ListMLE(ties="row"), lambda s, y: brute_listmle(s, y, "row")),
]


@pytest.mark.parametrize(("objective", "loss"), CASES, ids=[repr(o) for o, _ in CASES])
@pytest.mark.parametrize("n", [2, 3, 11, 26])
def test_value_and_derivatives_against_the_definition(objective, loss, n):
    rng = np.random.default_rng(n)
    scores, labels = rng.normal(size=n).round(1), rng.integers(0, 4, n)
    labels[0], labels[1] = 0, 2.5
    d = objective(scores, labels, [0, n])
    gradient, hessian = differences(lambda s: loss(s, labels), scores)
    np.testing.assert_allclose(d.value, [loss(scores, labels)], rtol=1e-13)
    np.testing.assert_allclose(d.gradient, gradient, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(d.hessian, hessian, rtol=1e-6, atol=1e-7)
    assert objective.exact_hessian


@pytest.mark.parametrize(("objective", "loss"), CASES, ids=[repr(o) for o, _ in CASES])
def test_far_scores_in_any_order(objective, loss):
    labels = np.tile([0, 1, 2, 3], 5)
    ideal = np.argsort(np.argsort(labels, kind="stable"))
    for places in (ideal, -ideal, np.random.default_rng(0).permutation(20)):
        for spread in (30.0, 4000.0):
            scores = (places - places.mean()) / 10 * spread
            d = objective(scores, labels, [0, 20])
            np.testing.assert_allclose(d.value, [loss(scores, labels)], rtol=1e-12)
            assert np.isfinite(d.gradient).all()
            assert (d.hessian >= 0).all()
            np.testing.assert_allclose(d.gradient.sum(), 0.0, atol=1e-10 * (1 + np.abs(d.gradient).max()))


def test_right_and_wrong_order_of_two_far_documents():
    right, wrong = ListMLE()([40.0, 0.0], [1, 0], [0, 2]), ListMLE()([0.0, 4000.0], [1, 0], [0, 2])
    np.testing.assert_allclose(right.value, [np.exp(-40.0)], rtol=1e-14)
    np.testing.assert_allclose(right.gradient, [-np.exp(-40.0), np.exp(-40.0)], rtol=1e-12)
    np.testing.assert_allclose(wrong.value, [4000.0])
    np.testing.assert_allclose(wrong.gradient, [-1.0, 1.0])


@pytest.mark.parametrize("objective", [RankNet(), ListMLE(), ListMLE(ties="row")], ids=repr)
def test_lists_without_information_give_zeros(objective):
    d = objective([3.0, 1.0, 2.0, 0.0], [4, 1, 1, 1], [0, 1, 4])
    assert all((part == 0).all() for part in d)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_the_order_of_rows_does_not_matter(data):
    n = data.draw(st.integers(2, 9))
    scores = np.array(data.draw(st.lists(st.integers(-12, 12), min_size=n, max_size=n))) / 4
    labels = np.array(data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)))
    turn = np.array(data.draw(st.permutations(range(n))))
    for objective in (RankNet(), ListMLE()):
        one, two = objective(scores, labels, [0, n]), objective(scores[turn], labels[turn], [0, n])
        np.testing.assert_allclose(one.value, two.value, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(one.gradient[turn], two.gradient, rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(one.hessian[turn], two.hessian, rtol=1e-11, atol=1e-13)


def test_listmle_is_the_likelihood_of_the_ideal_order():
    scores, labels = np.array([0.3, -1.0, 0.8, 0.1]), [1, 3, 0, 2]
    ideal = np.argsort(labels)[::-1]
    likelihood = 1.0
    for k in range(4):
        likelihood *= np.exp(scores[ideal[k]]) / np.exp(scores[ideal[k:]]).sum()
    for ties in ("apart", "row"):
        np.testing.assert_allclose(np.exp(-ListMLE(ties=ties)(scores, labels, [0, 4]).value), [likelihood], rtol=1e-14)


def test_errors():
    refuses(lambda: RankNet(sigma=-1), what="sigma must be a number in (0, inf)", got="-1")
    with refusal(what="unknown way to treat ties", got="'average'", hint="choose one of apart, row"):
        ListMLE(ties="average")
    for objective in (RankNet(), ListMLE()):
        with refusal(what="…document_weights"):
            objective([0.0, 1.0], [0, 1], [0, 2], document_weights=[1.0, 1.0])
