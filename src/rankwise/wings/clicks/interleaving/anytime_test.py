"""A test of a mean that may be looked at after every unit: the wealth of bets against it.

Units x are in [−1, 1]. Whoever stakes a share λ of their wealth on x above the mean m has Π (1 + λ(x − m)) after some
units: 1 on average, if m is the mean given all that came before. By Ville's inequality the mean over several shares
reaches 1/α at any time with probability α at most, and the interval has all m for which it has not (Waudby-Smith and
Ramdas 2024).
"""

import math
from statistics import NormalDist
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.base.arrays import Array
from rankwise.base.compiling import kernel

_SHARES = 0.5 ** np.arange(1, 9)  # at most a half: no wealth is negative for any m, and all are convex in m
BETS: Final = np.concatenate([_SHARES, -_SHARES])
_GROWTH = 1.25  # from one look at the interval to the next; the e-value is computed after every unit
_HALVINGS = 12
_BLOCKS = 30  # of each size at least, for a standard error to mean something
_MEETINGS = 5  # in all blocks, of units with a credit: of rare clicks two that meet by chance would be many errors
DEPENDENT: Final = 4.0
"""From which :func:`dependence` on units evidently depend on each other: in at most 2 of 1,000 logs by chance."""


class Sequential(NamedTuple):
    """The logarithm of the e-value after each unit, units until it reached 1/α, and intervals at looks.

    Looks are numbers of units. The intervals hold at all of them at once.
    """

    level: float
    evidence: Array
    decided_after: int | None
    looks: NDArray[np.int64]
    low: Array
    high: Array


def evidence(values: Array) -> Array:
    """Compute the logarithm of the e-value against a mean of 0 after each unit."""
    out = np.empty(values.size)
    _fill_evidence(values, BETS, out)
    return out


def confidence_sequence(values: Array, level: float) -> Sequential:
    """Compute e-values of a mean of 0, and intervals of the mean at looks up to the last unit.

    >>> outcome = confidence_sequence(np.tile([1.0, 0.0, 1.0, -1.0], 500), 0.95)
    >>> outcome.decided_after, outcome.low[-1].round(3).item(), outcome.high[-1].round(3).item()
    (127, 0.187, 0.311)
    """
    threshold = -math.log1p(-check.number("level", level, least=0.0, most=1.0, open_ends=True))
    logs = evidence(values)
    decided = int(np.argmax(logs >= threshold)) + 1 if (logs >= threshold).any() else None
    steps = np.ceil(_GROWTH ** np.arange(math.log(values.size, _GROWTH))).astype(np.int64)
    looks = np.unique([*steps, values.size, decided or values.size])
    ends, intervals = [-1.0, 1.0], []
    for look in looks.tolist():
        mean = float(values[:look].mean())
        if look == decided:
            ends[0 if mean > 0.0 else 1] = 0.0  # rounding must not include what was excluded
        for side, towards in enumerate((1.0, -1.0)):
            if (mean - ends[side]) * towards > 0.0:
                ends[side] = _end(values[:look], mean, ends[side], BETS, threshold)
        intervals.append(tuple(ends))
    return Sequential(level, logs, decided, looks, *np.transpose(intervals))


def dependence(values: Array) -> float:
    """Return by how many standard errors neighbours go together: the most of blocks of 2, 8, 32 and so on.

    In a block the square of the sum, less the sum of squares, is 0 on average if units do not depend on each other,
    whatever their mean. It is above where visitors come several times in a row, or where preferences drift.

    >>> coins = np.where(np.random.default_rng(0).random(1000) < 0.6, 1.0, -1.0)
    >>> dependence(coins) < DEPENDENT, dependence(np.repeat(coins, 3)) > DEPENDENT
    (True, True)
    """
    apart = values - values.mean()
    square, size, largest = float((apart**2).mean()), 2, 0.0
    spread = math.fsum(apart**2) ** 2 / math.fsum(apart**4) if square else 0.0  # of how many units credits are
    while square and values.size // size >= _BLOCKS:
        blocks = apart[: values.size // size * size].reshape(-1, size)
        excess = math.fsum(blocks.sum(axis=1) ** 2) - math.fsum((blocks**2).ravel())
        if spread**2 * (size - 1) / (2 * values.size) >= _MEETINGS:
            largest = max(largest, excess / square / math.sqrt(2 * size * (size - 1) * len(blocks)))
        size *= 4
    return largest


def traffic(effect: float, *, ties: float = 0.0, power: float = 0.8, level: float = 0.95) -> int:
    """Return how many impressions show a preference of ±``effect``, with a probability of ``power`` or more.

    These are impressions whose lists differ, looked at one by one; in a share ``ties`` of them no ranking wins.

    >>> traffic(0.03, ties=0.65), traffic(0.06, ties=0.65)
    (6789, 1697)
    """
    square = 1.0 - check.number("ties", ties, least=0.0, most=1.0)
    quantile = NormalDist().inv_cdf(check.number("power", power, least=0.0, most=1.0, open_ends=True))
    size = abs(check.number("effect", effect))
    if not 0.0 < size < square:
        raise check.error("the effect must be above 0 and below 1 − ties", got=f"{effect:g} with ties of {ties:g}")
    units = 1.005 ** np.arange(0.0, 7000.0)
    total = units * size - quantile * np.sqrt(units * (square - size**2))
    wealth = np.logaddexp.reduce(np.outer(BETS, total) - np.outer(BETS**2, units * square / 2.0)) - math.log(BETS.size)
    return math.ceil(float(units[np.argmax(wealth >= -math.log1p(-level))]))


@kernel
def _fill_evidence(values, bets, out):  # type: ignore[no-untyped-def]
    wealth, scale = np.full(bets.size, 1.0 / bets.size), 0.0
    for i in range(values.size):
        wealth *= 1.0 + bets * values[i]
        total = wealth.sum()
        out[i] = scale + np.log(total)
        if not 1e-100 < total < 1e100:
            wealth /= total
            scale = out[i]


@kernel
def _log_wealth(values, mean, bets):  # type: ignore[no-untyped-def]
    """Compute the logarithm of the mean wealth of bets against a mean."""
    logs, product = np.zeros(bets.size), np.ones(bets.size)
    for i in range(values.size):
        for bet in range(bets.size):
            product[bet] *= 1.0 + bets[bet] * (values[i] - mean)
        if i % 32 == 31 or i == values.size - 1:  # before it underflows
            logs += np.log(product)
            product[:] = 1.0
    return logs.max() + np.log(np.exp(logs - logs.max()).mean())


@kernel
def _end(values, inside, outside, bets, threshold):  # type: ignore[no-untyped-def]
    """Return the end of the interval between a mean inside it and another, rounded to the outside."""
    if _log_wealth(values, outside, bets) < threshold:
        return outside
    for _ in range(_HALVINGS):
        middle = 0.5 * (inside + outside)
        is_inside = _log_wealth(values, middle, bets) < threshold
        inside, outside = (middle, outside) if is_inside else (inside, middle)
    return outside
