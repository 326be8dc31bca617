"""Values of categorical columns: a code is an index into a list of values, and has a meaning only with that list.

Lists are compared, joined and translated by value, so that the order in which a table happens to list its categories,
or which of them it has, makes no difference. A value that is not in a list is missing (NaN) for those who use it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from rankwise import check

Values = tuple[str | float, ...]
"""The categories of one column, all text or all numbers: code k is the k-th."""


def values(categories: Iterable[object], where: str) -> Values:
    """Check a list of categories: different values, all text or all numbers; other values are converted to text.

    >>> values(["b", "a"], "column 'kind'")
    ('b', 'a')
    >>> values(np.array([3, 1]), "column 'kind'")
    (3, 1)
    """
    raw = [value.item() if isinstance(value, np.generic) else value for value in categories]
    plain: Values = tuple(cast("list[float]", raw) if is_numeric(raw) else map(str, raw))
    if len(set(plain)) < len(plain):
        again = next(value for place, value in enumerate(plain) if value in plain[:place])
        raise check.error("categories must all be different", got=f"{again!r} again", where=where)
    return plain


def is_numeric(listed: Sequence[object]) -> bool:
    """Whether all categories are numbers, or true and false."""
    return bool(listed) and all(isinstance(value, bool | int | float) for value in listed)


def lists(categories: Mapping[int, Sequence[object]] | None, categorical: tuple[int, ...]) -> dict[int, Values]:
    """Check the categories of some of the categorical columns."""
    checked = {}
    for column, listed in (categories or {}).items():
        if column not in categorical:
            raise check.error(
                "categories belong to categorical columns",
                got=f"those of column {column!r}",
                hint=f"`set categorical=(…, {column!r})`, or leave them out",
            )
        checked[int(column)] = values(listed, f"column {column}")
    return checked


def join(lists_of_values: Iterable[Values], where: str) -> Values:
    """Join lists: the first one unchanged, then the new values of later ones.

    >>> join([("b", "a"), ("a", "c")], "column 'kind'")
    ('b', 'a', 'c')
    """
    joined: dict[str | float, None] = {}
    kinds: Values = ()
    for listed in lists_of_values:
        _same_kind(kinds, listed, where)
        kinds = kinds or listed
        joined |= dict.fromkeys(listed)
    return tuple(joined)


def translation(old: Values, new: Values, where: str) -> NDArray[np.float32] | None:
    """Return the code in another list for each code of one, NaN for a value that it lacks; None: codes stay.

    >>> translation(("a", "b", "z"), ("b", "a"), "column 'kind'")
    array([ 1.,  0., nan], dtype=float32)
    """
    if old == new[: len(old)]:
        return None
    _same_kind(old, new, where)
    places = {value: place for place, value in enumerate(new)}
    return np.array([places.get(value, np.nan) for value in old], np.float32)


def translated(codes: NDArray[np.float32], table: NDArray[np.float32], where: str) -> NDArray[np.float32]:
    """Return the codes of another list, by a table of :func:`translation`; NaN stays."""
    present = ~np.isnan(codes)
    outside = present & ~((codes >= 0) & (codes < table.size) & (codes == np.floor(codes)))
    if outside.any():
        raise unknown_code_error(codes[int(np.argmax(outside))], table.size, where)
    result = np.full(codes.size, np.nan, np.float32)
    result[present] = table[codes[present].astype(np.int64)]
    return result


def unknown_code_error(code: float, count: int, where: str) -> ValueError:
    """Build the error of a code that is no index into its list."""
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
