"""The contract's checks for an objective of one's own: they pass what is right and name what is wrong."""

import itertools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import rankwise as rw
from tests.objectives.test_objectives import ALL
from tests.refusals import refuses


@pytest.mark.parametrize("text", ALL)
def test_every_objective_passes(text):
    actual = rw.objectives.check_objective(text)
    assert actual.passed, str(actual)


def right(scores, labels, offsets):
    gradient = scores - labels
    return np.add.reduceat(0.5 * gradient**2, offsets[:-1]), gradient, np.ones_like(scores)


def wrong_gradient(scores, labels, offsets):
    value, gradient, hessian = right(scores, labels, offsets)
    return value, 1.01 * gradient, hessian


def depends_on_other_queries(scores, labels, offsets):
    gradient = scores - labels - scores.mean()
    return gradient, np.ones_like(scores)


def overflows(scores, labels, offsets):
    return np.exp(np.float32(1.0) * scores.astype(np.float32)).astype(float), np.ones_like(scores)


def ignores_the_stream(scores, labels, offsets, stream=None):
    return np.random.default_rng().normal(size=scores.size), np.ones_like(scores)


def wrong_shape(scores, labels, offsets):
    return scores[1:], scores


def turned_hessian(scores, labels, offsets):
    value, gradient, hessian = right(scores, labels, offsets)
    return value, gradient, -hessian


def turned_at_some(scores, labels, offsets):
    return softened(scores, labels, offsets, lambda hessian: -hessian)


def claims_to_be_exact(scores, labels, offsets):
    return softened(scores, labels, offsets, lambda hessian: 1.1 * hessian)


claims_to_be_exact.exact_hessian = True  # type: ignore[attr-defined]


def softened(scores, labels, offsets, change=lambda hessian: hessian):
    """Half the squared sine of the distance to the labels: the second derivative has either sign."""
    gap = scores - labels
    value, gradient, hessian = np.sin(gap) ** 2 / 2, np.sin(2.0 * gap) / 2, np.cos(2.0 * gap)
    return np.add.reduceat(value, offsets[:-1]), gradient, change(hessian)


def without_hessian(scores, labels, offsets):
    return right(scores, labels, offsets)[:2]


@dataclass(frozen=True, kw_only=True, repr=False)
class WrongHessian(rw.objectives.ListNet):
    name: ClassVar[str] = "wrong_hessian"

    def __call__(self, *arguments, **documents):
        actual = super().__call__(*arguments, **documents)
        return actual._replace(hessian=2.0 * actual.hessian)


@pytest.mark.parametrize(
    ("objective", "check"),
    [
        (wrong_gradient, "gradient = d value / d score"),
        (WrongHessian(), "Hessian = d gradient / d score"),
        (turned_hessian, "Hessian = d gradient / d score"),
        (turned_hessian, "Hessian not negative"),
        (turned_at_some, "Hessian = d gradient / d score"),
        (claims_to_be_exact, "Hessian = d gradient / d score"),
        (without_hessian, "shapes and finite numbers"),
        (depends_on_other_queries, "queries do not see each other"),
        (overflows, "extreme scores stay finite"),
        (ignores_the_stream, "the same call gives the same"),
        (wrong_shape, "shapes and finite numbers"),
    ],
)
def test_each_failed_check_is_named(objective, check):
    with np.errstate(over="ignore"):
        actual = rw.objectives.check_objective(objective)
    assert not actual.passed
    assert check in [one.name for one in actual.checks if one.outcome == "FAILED"]
    assert "does not keep the contract" in str(actual)


def test_a_hessian_that_replaces_the_second_derivative_is_noted():
    for change in (np.abs, np.ones_like, lambda hessian: 2.0 * hessian):
        objective = rw.objective(lambda scores, labels, offsets, _, to=change: softened(scores, labels, offsets, to))
        assert lines(objective)["Hessian = d gradient / d score"].outcome == "noted"


def cross_entropy(scores, labels, offsets):
    import torch

    lists = itertools.pairwise(offsets.tolist())
    return torch.stack([-(labels[a:b].softmax(0) * torch.log_softmax(scores[a:b], 0)).sum() for a, b in lists])


def test_a_function_of_torch_is_an_objective_by_autograd():
    rng = np.random.default_rng(0)
    columns = rng.normal(size=9), rng.integers(0, 3, 9).astype(float), np.array([0, 4, 9])
    actual, expected = rw.objective(cross_entropy)(*columns), rw.objectives.ListNet()(*columns)
    np.testing.assert_allclose(actual.value, expected.value)
    np.testing.assert_allclose(actual.gradient, expected.gradient, atol=1e-12)
    np.testing.assert_array_equal(actual.hessian, np.abs(actual.gradient))
    assert rw.objectives.check_objective(cross_entropy).passed
    train = rw.synthetic(n_queries=30, n_docs=8, seed=0)
    ranker = rw.LightGBMRanker(
        rw.objectives.stochastic(rw.objective(cross_entropy), samples=2, scale=0.1), rounds=2, threads=1
    )
    assert np.isfinite(ranker.fit(train).predict(train)).all()


@pytest.mark.parametrize(
    ("returned", "fields"),
    [
        (
            lambda scores, labels, offsets: cross_entropy(scores, labels, offsets).mean(),
            {"got": "…shape () where 2 losses…"},
        ),
        (
            lambda scores, labels, offsets: (cross_entropy(scores, labels, offsets), scores),
            {"got": "tuple where 2 losses…"},
        ),
        (
            lambda scores, labels, offsets: cross_entropy(scores.detach(), labels, offsets),
            {"got": "…computed from scores"},
        ),
        (without_hessian, {"what": "…returned no Hessian", "hint": "return (value, gradient, hessian)…"}),
    ],
)
def test_what_is_no_objective_says_what_to_return(returned, fields):
    refuses(lambda: rw.objective(returned)(np.arange(5.0), np.array([0.0, 1, 0, 1, 2]), np.array([0, 3, 5])), **fields)


def test_a_correct_objective_passes():
    assert rw.objectives.check_objective(right).passed
    assert str(rw.objectives.check_objective(right)).splitlines()[0] == "right keeps the contract"


def lines(objective) -> dict:
    return {one.name: one for one in rw.objectives.check_objective(objective).checks}


def test_a_hessian_that_is_negative_at_large_scores_alone_is_reported():
    def bent(scores, labels, offsets):
        return scores - labels, np.where(np.abs(np.abs(scores) - 5.0) < 0.5, -0.0007, 1.0)

    detail = lines(bent)["Hessian not negative"].detail
    assert "least -0.0007 at scores of ±5" in detail or "least -0.0007 at tied scores of ±5" in detail


def test_the_report_lists_the_scores_tried_for_a_negative_hessian():
    assert lines(right)["Hessian not negative"].detail == (
        "nowhere in 272 lists with ±1, ±5, ±50, tied and equal scores"
    )


@pytest.mark.parametrize("at", [1.0, 5.0, 50.0])
def test_a_gradient_that_is_wrong_at_one_scale_of_scores_fails(at):
    def wrong(scores, labels, offsets):
        value, gradient, hessian = right(scores, labels, offsets)
        largest = np.abs(scores).max()
        return value, gradient * (1.01 if 0.6 * at < largest <= 1.1 * at else 1.0), hessian

    actual = lines(wrong)["gradient = d value / d score"]
    assert actual.outcome == "FAILED"
    assert actual.detail.endswith(f"at scores of ±{at:g}")


def test_a_nan_value_at_large_scores_fails():
    def lost(scores, labels, offsets):
        value, gradient, hessian = right(scores, labels, offsets)
        return np.where(np.abs(scores).max() > 10.0, np.nan, value), gradient, hessian

    assert lines(lost)["gradient = d value / d score"].outcome == "FAILED"
