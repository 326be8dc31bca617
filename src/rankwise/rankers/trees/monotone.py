"""Monotone constraints: features with which scores only rise or only fall, in one form for every library."""

from collections.abc import Mapping, Sequence

import numpy as np

from rankwise import check
from rankwise.models.schema import Schema

NAME = "monotone_constraints"
"""What the parameter is called, here and in every library."""
_HINT = f"write {NAME}={{'price': -1}}: by feature, 1 where scores rise with it, -1 where they fall"


def by_column(constraints: object, schema: Schema) -> tuple[int, ...]:
    """Return 1, −1 or 0 for each column, from signs by feature (its name, or its number) or one for each column.

    >>> by_column({"price": -1}, Schema(2, ("price", "age")))
    (-1, 0)
    """
    signs = [0] * schema.count
    for column, sign in _pairs(constraints, schema):
        if isinstance(sign, bool) or not isinstance(sign, int | np.integer) or sign not in (-1, 0, 1):
            raise check.error(f"{NAME} must be 1, -1 or 0", got=repr(sign), where=schema.name(column), hint=_HINT)
        if sign and column in schema.categorical:
            hint = "leave it out, or make the column a number"
            raise check.error("categories have no order", got=NAME, where=schema.name(column), hint=hint)
        signs[column] = int(sign)
    return tuple(signs)


def check_continued(constraints: Sequence[int], older: object, schema: Schema) -> None:
    """Raise unless the model that is continued was trained with these constraints: its trees stay."""
    for column, (sign, before) in enumerate(zip(constraints, by_column(older, schema), strict=True)):
        if sign not in (0, before):
            raise check.error(
                f"the model that is continued was trained without this one of {NAME}",
                where=schema.name(column),
                hint="leave it out, or train anew",
            )


def _pairs(constraints: object, schema: Schema) -> list[tuple[int, object]]:
    """Columns and their signs."""
    if constraints is None:
        return []
    if isinstance(constraints, Mapping):
        return [(_column(feature, schema), sign) for feature, sign in constraints.items()]
    if isinstance(constraints, str) or not isinstance(constraints, Sequence | np.ndarray):
        raise check.error(f"{NAME} must be signs by feature", got=repr(constraints), hint=_HINT)
    if len(constraints) != schema.count:
        got = f"{len(constraints)} for {schema.count} features"
        raise check.error(f"a list of {NAME} has one for each feature", got=got, hint=_HINT)
    return list(enumerate(constraints))


def _column(feature: object, schema: Schema) -> int:
    """The number of a feature."""
    if isinstance(feature, str) and schema.names is not None:
        return schema.names.index(check.choice(f"feature in {NAME}", feature, schema.names))
    if isinstance(feature, str) and not feature.isdecimal():
        hint = "name the features of the data, or write the number of the feature, from 0"
        raise check.error("the features of these data have no names", got=f"{NAME} of {feature!r}", hint=hint)
    number = int(feature) if isinstance(feature, str) else feature  # keys are text in files
    return check.columns(NAME, [number], schema.count)[0]  # type: ignore[list-item]
