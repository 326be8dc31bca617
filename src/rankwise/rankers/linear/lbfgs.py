"""L-BFGS whose line search looks at slopes alone, for fields of gradients that are nearly those of one function."""

from collections.abc import Callable

import numpy as np

from rankwise.base.arrays import Array

Inverse = Callable[[Array], Array]
_MEMORY, _TRIALS = 20, 20
_SURE = 3  # steps that say one after another that this is the end: each tells curvature where ``inverse`` may be wrong
_STEEP = 0.9  # a step is long enough where the slope along it is below this share of what it was


def minimise(
    function: Callable[[Array], tuple[float, Array]],
    start: Array,
    inverse: Inverse | None,
    tolerance: float,
    steps: int = 500,
) -> tuple[Array, bool]:
    """Return where the gradient is 0, and whether that was reached; ``function`` returns a value and the gradient.

    ``inverse`` multiplies by about that of the Hessian. Values only set the scale of ``tolerance``: gradients of
    LambdaRank and its like are those of no function, and differences of values are lost in rounding long before slopes.

    >>> minimise(lambda at: (float(at @ at), 2 * at - 1), np.zeros(2), None, 1e-12)
    (array([0.5, 0.5]), True)
    """
    at, (value, gradient) = start, function(start)
    enough = tolerance * max(abs(value), 1e-12)
    changes: list[tuple[Array, Array, float]] = []
    ends = 0
    for _ in range(steps):
        direction = -_product(gradient, changes, inverse)
        slope = float(gradient @ direction)
        if slope > 0.0:
            changes, direction = [], -_product(gradient, [], inverse)
            slope = float(gradient @ direction)
        ends = ends + 1 if -slope <= enough else 0  # twice the height above the least value, if the Hessian is right
        if ends == _SURE or not slope:
            return at, True
        step, low, high = 1.0, 0.0, np.inf
        for _ in range(1 if ends else _TRIALS):
            there = at + step * direction
            _, found = function(there)
            rise = float(found @ direction)
            if abs(rise) <= -_STEEP * slope:
                break
            low, high = (low, step) if rise > 0 else (step, high)
            step = 2.0 * step if high == np.inf else 0.5 * (low + high)
        moved, turned = there - at, found - gradient
        if (bend := float(moved @ turned)) > 0.0:
            changes = [*changes[1 - _MEMORY :], (moved, turned, bend)]
        at, gradient = there, found
    return at, False


def _product(gradient: Array, changes: list[tuple[Array, Array, float]], inverse: Inverse | None) -> Array:
    """Return the product of a gradient with the inverse Hessian, as the last steps and ``inverse`` tell it."""
    rest, shares = gradient.copy(), []
    for moved, turned, bend in reversed(changes):
        shares.append(float(moved @ rest) / bend)
        rest -= shares[-1] * turned
    if inverse is not None:
        rest = inverse(rest)
    elif changes:
        _, turned, bend = changes[-1]
        rest *= bend / float(turned @ turned)
    for (moved, turned, bend), share in zip(changes, reversed(shares), strict=True):
        rest += (share - float(turned @ rest) / bend) * moved
    return np.asarray(rest)
