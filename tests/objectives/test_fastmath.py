from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest

from rankwise.objectives import fastmath

RNG = np.random.default_rng(0)
EVERYWHERE = np.concatenate((RNG.normal(scale=5, size=20_000), RNG.uniform(-700, 700, 20_000), [0.0, -0.0, 1e-300]))
TINY = np.concatenate((RNG.uniform(0, 1, 20_000), 10 ** RNG.uniform(-300, 0, 20_000), [0.0, 1.0]))
POSITIVE = np.concatenate((RNG.uniform(0.5, 4, 20_000), 10 ** RNG.uniform(-300, 300, 20_000), [1.0, np.sqrt(2)]))

CASES: dict[str, tuple[Callable[..., Any], Any]] = {
    "exp": (np.exp, EVERYWHERE),
    "log1p_unit": (np.log1p, TINY),
    "log": (np.log, POSITIVE),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), EVERYWHERE),
    "atanh_ratio": (lambda x: np.arctanh(np.sqrt(x)) / np.sqrt(x), RNG.uniform(1e-4, 1 / 9, 20_000)),
}


def loop_over(function, fastmath_flags):
    @numba.njit(fastmath=fastmath_flags)
    def run(x, out):
        total = 0.0
        for i in range(x.size):
            out[i] = function(x[i])
            total += out[i]
        return total

    return run


@pytest.mark.parametrize("name", CASES)
def test_accuracy_also_inside_loops_that_reorder(name):
    reference, x = CASES[name]
    out = np.empty_like(x)
    loop_over(getattr(fastmath, name), {"reassoc", "contract", "nsz", "arcp"})(x, out)
    # Twice as many digits where the platform has them, so that the reference itself is right.
    expected = reference(x.astype(np.longdouble))
    error = np.abs((out - expected) / np.where(expected == 0, 1, expected))
    assert error.max() < 2e-15


def test_ends():
    assert fastmath.exp(0.0) == 1.0
    assert fastmath.exp(710.0) == fastmath.exp(np.inf) == np.inf
    assert fastmath.exp(-709.0) == fastmath.exp(-np.inf) == 0.0
    np.testing.assert_allclose(fastmath.exp(709.78), np.exp(709.78), rtol=1e-15)
    np.testing.assert_allclose(fastmath.exp(-708.3), np.exp(-708.3), rtol=1e-15)
    assert np.isnan(fastmath.exp(np.nan))
    assert fastmath.sigmoid(-np.inf) == 0.0
    assert fastmath.sigmoid(np.inf) == fastmath.sigmoid(4000.0) == 1.0
