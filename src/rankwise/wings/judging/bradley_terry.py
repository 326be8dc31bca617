"""Strengths of documents from preferences of pairs: Bradley and Terry's model with a bias for the position.

The log-odds that the document shown first is preferred are θ_first − θ_second + b. With many small sets of documents
the maximum of the likelihood is far from the truth: of two documents shown in both orders, b comes out twice as large.
So the likelihood has Firth's penalty, half the log-determinant of the information, which removes most of that bias and
is finite also where a document has won every comparison; and a small ridge.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.base import threads
from rankwise.base.arrays import Array, Offsets
from rankwise.base.compiling import kernel

MOST = 2000
"""Documents that can be compared with each other, directly or through others."""
_ITERATIONS, _TOLERANCE, _LARGEST_STEP, _NEAR = 2000, 1e-10, 2.0, 0.5


class Fit(NamedTuple):
    """Strengths, of mean 0 in each part, and the position bias, with their standard errors."""

    strengths: Array
    errors: Array
    bias: float
    bias_error: float


def fit(parts: Offsets, pairs: Offsets, first: NDArray[np.int64], second: NDArray[np.int64], won: Array,
        *, ridge: float) -> Fit:  # fmt: skip
    """Maximise log-likelihood + ½ log det(information + ridge) − ½ ridge (Σ θ² + b²).

    Documents ``parts[c]`` to ``parts[c + 1]`` were compared with each other, in the comparisons ``pairs[c]`` to
    ``pairs[c + 1]``. ``first`` and ``second`` are places of documents, ``won`` is 1 where the first was preferred, 0
    where the second was, and ½ of a tie. Errors are from the inverse of information + ridge.

    >>> first, second, won = np.array([0, 1, 0, 1]), np.array([1, 0, 1, 0]), np.array([1.0, 0.0, 1.0, 1.0])
    >>> found = fit(np.array([0, 2]), np.array([0, 4]), first, second, won, ridge=0.01)
    >>> found.strengths.round(3), round(found.bias, 3)
    (array([ 0.402, -0.402]), 0.801)
    """
    sizes = np.diff(parts)
    if sizes.max() > MOST:
        hint = "compare fewer documents of a query, such as the first 50 of each system"
        raise check.error(
            f"at most {MOST:,} documents can be compared with each other", got=int(sizes.max()), hint=hint
        )
    strengths, bias, variance = np.zeros(int(parts[-1])), 0.0, 0.0
    vectors, sums, leverages = np.empty((5, strengths.size)), np.empty((sizes.size, 4)), np.zeros(won.size)
    settled, work = np.zeros(sizes.size, np.bool_), 2.0 * sizes**3 + 30.0 * np.diff(pairs)
    moved, last = np.zeros_like(strengths), np.zeros_like(strengths)
    for number in range(_ITERATIONS):
        now = ridge, bias, variance, strengths, settled
        threads.over_queries(_step, parts, pairs, first, second, won, *now, leverages, vectors, sums, work=work)
        information, curvature, score, of_variance = sums.sum(axis=0)
        variance = 1.0 / (ridge + information)
        change = float((score + variance * of_variance - ridge * bias) / (ridge + curvature))
        step = vectors[2] + variance * vectors[3] - change * vectors[4]
        largest = np.maximum.reduceat(np.abs(step), parts[:-1])
        if max(float(largest.max()), abs(change)) < _TOLERANCE:
            break
        # Curvatures are not exact: Anderson's acceleration of each part by its last step, which alone might cycle.
        near = _NEAR if number < 30 or number % 2 else 0.0
        step *= np.repeat(_LARGEST_STEP / np.maximum(largest, _LARGEST_STEP), sizes)
        turned = step - last
        lengths = np.add.reduceat(turned**2, parts[:-1])
        shares = np.add.reduceat(step * turned, parts[:-1]) / np.where(lengths > 0.0, lengths, np.inf)
        last, back = step, np.repeat(np.where(largest < near, shares.clip(-5.0, 0.9), 0.0), sizes)
        moved = np.where(np.repeat(settled, sizes), 0.0, step - back * (moved + turned))
        strengths += moved
        bias += min(max(change, -_LARGEST_STEP), _LARGEST_STEP)
        # What they add to the equation of the bias is not renewed: it must have come to rest.
        settled = (largest < _TOLERANCE) & (abs(change) < _TOLERANCE / 100.0)
    else:
        hint = "set a larger ridge, such as 0.1"
        raise check.error("strengths did not settle", got=f"{_ITERATIONS:,} steps", hint=hint)
    # The mean of a part is 0 and has no error; in the kernel it has this one.
    squares = vectors[0] + variance * vectors[1] ** 2 - np.repeat(1.0 / (sizes * (1.0 + ridge)), sizes)
    return Fit(strengths, np.sqrt(squares), bias, float(np.sqrt(variance)))


@kernel
def _step(  # type: ignore[no-untyped-def]
    first_part, last_part, parts, pairs, first, second, won, ridge, bias, variance, strengths, settled, leverages,
    vectors, sums,
):  # fmt: skip
    """Solve the equations of a step for each part, up to the bias, which all parts share.

    The information has the weight chance·(1 − chance) for each comparison; the curvature, with the penalty, about
    1 + leverage times as much. Leverages are those of the last step, in which the bias had this ``variance``.
    Rows of ``vectors``: the diagonal of the inverse information, its product with the information of the bias, and the
    steps by the score, by what the score has for each unit of the new variance, and by the curvature of the bias.
    """
    for part in range(first_part, last_part):
        if settled[part]:
            continue
        begin, end = parts[part], parts[part + 1]
        size = end - begin
        # The constant in every cell holds the mean, which no comparison knows.
        information, curvature = np.full((size, size), 1.0 / size), np.full((size, size), 1.0 / size)
        crossed, right = np.zeros(size), np.zeros((size, 3))
        total, curved, score, penalty = 0.0, 0.0, 0.0, 0.0
        for i in range(size):
            information[i, i] += ridge
            curvature[i, i] += ridge
            right[i, 0] = -ridge * strengths[begin + i]
        for k in range(pairs[part], pairs[part + 1]):
            i, j = first[k] - begin, second[k] - begin
            chance = 1.0 / (1.0 + np.exp(strengths[second[k]] - strengths[first[k]] - bias))
            weight = chance * (1.0 - chance)
            information[i, i] += weight
            information[j, j] += weight
            information[i, j] -= weight
            information[j, i] -= weight
            crossed[i] += weight
            crossed[j] -= weight
            total += weight
            weight *= 1.0 + leverages[k]
            curvature[i, i] += weight
            curvature[j, j] += weight
            curvature[i, j] -= weight
            curvature[j, i] -= weight
            right[i, 2] += weight
            right[j, 2] -= weight
            curved += weight
        inverse = np.linalg.inv(information)
        by_bias = inverse @ crossed
        for k in range(pairs[part], pairs[part + 1]):
            i, j = first[k] - begin, second[k] - begin
            chance = 1.0 / (1.0 + np.exp(strengths[second[k]] - strengths[first[k]] - bias))
            weight = chance * (1.0 - chance)
            alone = weight * (inverse[i, i] + inverse[j, j] - 2.0 * inverse[i, j])
            shared = weight * (1.0 - by_bias[i] + by_bias[j]) ** 2
            leverages[k] = alone + variance * shared
            alone = won[k] - chance + alone * (0.5 - chance)
            shared *= 0.5 - chance
            right[i, 0] += alone
            right[j, 0] -= alone
            right[i, 1] += shared
            right[j, 1] -= shared
            score += alone
            penalty += shared
        steps = np.linalg.solve(curvature, right)
        for i in range(size):
            vectors[0, begin + i] = inverse[i, i]
            vectors[1, begin + i] = by_bias[i]
            total -= crossed[i] * by_bias[i]
            curved -= right[i, 2] * steps[i, 2]
            score -= right[i, 2] * steps[i, 0]
            penalty -= right[i, 2] * steps[i, 1]
            for row in range(3):
                vectors[2 + row, begin + i] = steps[i, row]
        sums[part, 0] = total
        sums[part, 1] = curved
        sums[part, 2] = score
        sums[part, 3] = penalty
