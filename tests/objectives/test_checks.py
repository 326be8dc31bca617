"""The contract's checks for an objective of one's own: they pass what is right and name what is wrong."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import rankwise as rw
from tests.objectives.test_objectives import ALL


@pytest.mark.parametrize("text", ALL)
def test_every_objective_passes(text):
    found = rw.check_objective(text)
    assert found.passed, str(found)


def right(scores, labels, offsets):
    gradient = scores - labels
    return np.add.reduceat(0.5 * gradient**2, offsets[:-1]), gradient, np.ones_like(scores)


def wrong_gradient(scores, labels, offsets):
    value, gradient, hessian = right(scores, labels, offsets)
    return value, 1.01 * gradient, hessian


def sees_others(scores, labels, offsets):
    gradient = scores - labels - scores.mean()
    return gradient, np.ones_like(scores)


def overflows(scores, labels, offsets):
    return np.exp(np.float32(1.0) * scores.astype(np.float32)).astype(float), np.ones_like(scores)


def forgets_the_stream(scores, labels, offsets, stream=None):
    return np.random.default_rng().normal(size=scores.size), np.ones_like(scores)


def wrong_shape(scores, labels, offsets):
    return scores[1:], scores


@dataclass(frozen=True, kw_only=True, repr=False)
class WrongHessian(rw.ListNet):
    name: ClassVar[str] = "wrong_hessian"

    def __call__(self, *arguments, **documents):
        found = super().__call__(*arguments, **documents)
        return found._replace(hessian=2.0 * found.hessian)


@pytest.mark.parametrize(
    ("objective", "check"),
    [
        (wrong_gradient, "gradient = d value / d score"),
        (WrongHessian(), "Hessian = d gradient / d score"),
        (sees_others, "queries do not see each other"),
        (overflows, "extreme scores stay finite"),
        (forgets_the_stream, "the same call gives the same"),
        (wrong_shape, "shapes and finite numbers"),
    ],
)
def test_what_is_wrong_is_named(objective, check):
    with np.errstate(over="ignore"):
        found = rw.check_objective(objective)
    assert not found.passed
    assert check in [one.name for one in found.checks if one.outcome == "FAILED"]
    assert "does not keep the contract" in str(found)


def test_what_is_right_passes():
    assert rw.check_objective(right).passed
    assert str(rw.check_objective(right)).splitlines()[0] == "right keeps the contract"
