"""The contract's checks for an objective of one's own: they pass what is right and name what is wrong."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import rankwise as rw
from tests.objectives.test_objectives import ALL


@pytest.mark.parametrize("text", ALL)
def test_every_objective_passes(text):
    actual = rw.check_objective(text)
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


@dataclass(frozen=True, kw_only=True, repr=False)
class WrongHessian(rw.ListNet):
    name: ClassVar[str] = "wrong_hessian"

    def __call__(self, *arguments, **documents):
        actual = super().__call__(*arguments, **documents)
        return actual._replace(hessian=2.0 * actual.hessian)


@pytest.mark.parametrize(
    ("objective", "check"),
    [
        (wrong_gradient, "gradient = d value / d score"),
        (WrongHessian(), "Hessian = d gradient / d score"),
        (depends_on_other_queries, "queries do not see each other"),
        (overflows, "extreme scores stay finite"),
        (ignores_the_stream, "the same call gives the same"),
        (wrong_shape, "shapes and finite numbers"),
    ],
)
def test_each_failed_check_is_named(objective, check):
    with np.errstate(over="ignore"):
        actual = rw.check_objective(objective)
    assert not actual.passed
    assert check in [one.name for one in actual.checks if one.outcome == "FAILED"]
    assert "does not keep the contract" in str(actual)


def test_a_correct_objective_passes():
    assert rw.check_objective(right).passed
    assert str(rw.check_objective(right)).splitlines()[0] == "right keeps the contract"


def lines(objective) -> dict:
    return {one.name: one for one in rw.check_objective(objective).checks}


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
