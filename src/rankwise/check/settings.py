"""Checks of settings: words, numbers and proportions."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from rankwise.check.errors import error, suggestion

_MOST_NUMBERS = 1e11
_LARGEST = float(np.finfo(np.float64).max)


def choice(what: str, value: object, known: Iterable[str], *, otherwise: str = "") -> str:
    """Return ``value`` if it is one of ``known`` words; ``otherwise`` says what else to do about it."""
    known = list(known)
    if isinstance(value, str) and value in known:
        return value
    hint = suggestion(str(value), known).rstrip("?") + (f"; {otherwise}" if otherwise else "")
    raise error(f"unknown {what}", got=repr(value), hint=hint)


def integer(what: str, value: object, *, least: int) -> int:
    """Return ``value`` as an int that is at least ``least``, and that kernels can count with."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise error(f"{what} must be a whole number of at least {least}", got=repr(value))
    if value >= 2**63:
        raise error(f"{what} must be below 2^63", got=f"a number of {int(value).bit_length()} bits")
    return int(value)


def number(what: str, value: object, *, least: float = -np.inf, most: float = np.inf, open_ends: bool = False) -> float:
    """Return ``value`` as a finite float inside the interval (without its ends if ``open_ends``)."""
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        inside = least < value < most if open_ends else least <= value <= most
        if inside and -_LARGEST <= value <= _LARGEST:
            return float(value)
    left = "(" if open_ends or least == -np.inf else "["
    right = ")" if open_ends or most == np.inf else "]"
    raise error(f"{what} must be a number in {left}{least:g}, {most:g}{right}", got=repr(value))


def affordable(what: str, numbers: float, *, hint: str) -> None:
    """Refuse to make what no machine could hold."""
    if numbers > _MOST_NUMBERS:
        raise error(f"{what} may have {_MOST_NUMBERS:.0e} numbers at most", got=f"{numbers:.0e}", hint=hint)


def fractions(values: Sequence[float]) -> tuple[float, ...]:
    """Check proportions of a split: positive and adding up to one."""
    parts = tuple(number("a proportion of a split", value, least=0.0, most=1.0) for value in values)
    if not parts or abs(sum(parts) - 1.0) > 1e-9:
        raise error("the proportions of a split must add up to 1", got=f"{parts} with a sum of {sum(parts):g}")
    return parts


def probabilities(what: str, values: Sequence[float]) -> NDArray[np.float64]:
    """Check a list of probabilities, at least one."""
    chances = np.array([number(f"each of the {what}", value, least=0.0, most=1.0) for value in values])
    if not chances.size:
        raise error(f"there must be at least one of the {what}", got=repr(values))
    return chances


def distribution(what: str, values: Sequence[float]) -> NDArray[np.float64]:
    """Check probabilities that add up to one."""
    chances = probabilities(what, values)
    if abs(chances.sum() - 1.0) > 1e-9:
        raise error(f"the {what} must add up to 1", got=f"{tuple(values)} with a sum of {chances.sum():g}")
    return chances
