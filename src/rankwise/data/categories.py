"""Values of categorical columns: a code is a place in a list of values, and means something only together with it.

Lists are compared, joined and translated by value, so that the order in which a table happens to list its categories,
or which of them it has, makes no difference. A value that a list does not hold is missing (NaN) to whoever goes by it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from rankwise import check

Values = tuple[str | float, ...]
"""The categories of one column, all text or all numbers: code k is the k-th."""


def values(given: Iterable[object], where: str) -> Values:
    """Check a list of categories: different values, all text or all numbers; others are taken by their text.

    >>> values(["b", "a"], "column 'kind'")
    ('b', 'a')
    >>> values(np.array([3, 1]), "column 'kind'")
    (3, 1)
    """
    raw = [value.item() if isinstance(value, np.generic) else value for value in given]
    plain: Values = tuple(cast("list[float]", raw) if is_numeric(raw) else map(str, raw))
    if len(set(plain)) < len(plain):
        again = next(value for place, value in enumerate(plain) if value in plain[:place])
        raise check.error("categories must all be different", got=f"{again!r} again", where=where)
    return plain


def is_numeric(listed: Sequence[object]) -> bool:
    """Whether all categories are numbers, or true and false."""
    return bool(listed) and all(isinstance(value, bool | int | float) for value in listed)


def lists(given: Mapping[int, Sequence[object]] | None, categorical: tuple[int, ...]) -> dict[int, Values]:
    """Check the categories of some of the categorical columns."""
    found = {}
    for column, listed in (given or {}).items():
        if column not in categorical:
            raise check.error(
                "categories belong to categorical columns",
                got=f"those of column {column!r}",
                hint=f"set categorical=(…, {column!r}), or leave them out",
            )
        found[int(column)] = values(listed, f"column {column}")
    return found


def join(several: Iterable[Values], where: str) -> Values:
    """Put lists together: the first as it is, then what later ones add.

    >>> join([("b", "a"), ("a", "c")], "column 'kind'")
    ('b', 'a', 'c')
    """
    found: dict[str | float, None] = {}
    kinds: Values = ()
    for listed in several:
        _same_kind(kinds, listed, where)
        kinds = kinds or listed
        found |= dict.fromkeys(listed)
    return tuple(found)


def translation(own: Values, wanted: Values, where: str) -> NDArray[np.float32] | None:
    """Give for each code of one list the code of the same value in another, NaN if it is not there; None: no change.

    >>> translation(("a", "b", "z"), ("b", "a"), "column 'kind'")
    array([ 1.,  0., nan], dtype=float32)
    """
    if own == wanted[: len(own)]:
        return None
    _same_kind(own, wanted, where)
    places = {value: place for place, value in enumerate(wanted)}
    return np.array([places.get(value, np.nan) for value in own], np.float32)


def translated(codes: NDArray[np.float32], table: NDArray[np.float32], where: str) -> NDArray[np.float32]:
    """Give codes in the terms of another list; NaN stays."""
    known = ~np.isnan(codes)
    wrong = known & ~((codes >= 0) & (codes < table.size) & (codes == np.floor(codes)))
    if wrong.any():
        raise beyond(codes[int(np.argmax(wrong))], table.size, where)
    found = np.full(codes.size, np.nan, np.float32)
    found[known] = table[codes[known].astype(np.int64)]
    return found


def beyond(code: float, count: int, where: str) -> ValueError:
    """Say that a code is not the place of a category."""
    hint = "number the categories from 0 in the order of their list; NaN stands for one that is missing"
    return check.error(f"a code must be one of the {count} categories", got=f"{code:g}", where=where, hint=hint)


def _same_kind(one: Values, other: Values, where: str) -> None:
    if one and other and is_numeric(one) != is_numeric(other):
        texts, numbers = (other, one) if is_numeric(one) else (one, other)
        raise check.error(
            "categories must be text on both sides, or numbers on both",
            got=f"{texts[0]!r} and {numbers[0]!r}",
            where=where,
            hint="cast the column of one of them",
        )
