"""Models that LightGBM trained, read as those of our ranker."""

import json
import re
import sys
from collections.abc import Mapping
from typing import Any

from rankwise.data.categories import Values
from rankwise.models.forests.lightgbm import threads
from rankwise.models.formats.lightgbm import PANDAS, LightGBMText
from rankwise.models.schema import Schema
from rankwise.rankers.trees.protocol import AS_A_FUNCTION, ONE_SCORE, ForeignModel, cannot_wrap, untrained


def read_foreign(model: Any) -> ForeignModel | None:
    """Read a model, cut after its best round as its own ``predict`` is; None if it is of another library.

    Whatever it was trained for, raw scores are sums of leaves, and the text names an objective that ranks.
    """
    library: Any = sys.modules["lightgbm"]  # as it is, without a logger of ours
    if not isinstance(model, library.Booster | library.LGBMModel):
        return None
    threads()  # trees are written in parallel
    try:
        booster = model.booster_ if isinstance(model, library.LGBMModel) else model
    except library.sklearn.LGBMNotFittedError:
        raise untrained(model) from None
    if booster.num_model_per_iteration() != 1:
        raise cannot_wrap(model, f"{booster.num_model_per_iteration()} scores of each document (multiclass)", ONE_SCORE)
    if not booster.num_trees():
        raise untrained(model)
    text = LightGBMText(booster.model_to_string().encode())
    codes, names = _codes(text), text.head[b"feature_names"].decode().split()
    unnamed = names == [f"Column_{column}" for column in range(len(names))]
    categories = _categories(model, json.loads(text.tail.rpartition(PANDAS)[2]) or [], codes)
    schema = Schema(len(names), None if unnamed else tuple(names), tuple(codes), categories)
    return ForeignModel(text.for_ranking(), schema, text.objective)


def _codes(text: LightGBMText) -> dict[int, list[int]]:
    """Return the codes of each categorical column that training saw.

    There are none of a column that LightGBM dropped as constant; the parameters alone name it.
    """
    infos = text.head[b"feature_infos"].split()
    parameter = re.search(rb"^\[categorical_feature: ([\d,]+)\]$", text.tail, flags=re.MULTILINE)
    columns = set() if parameter is None else {int(column) for column in parameter[1].split(b",")}
    columns |= {column for column, info in enumerate(infos) if info != b"none" and not info.startswith(b"[")}
    return {
        column: [] if infos[column] == b"none" else [int(code) for code in infos[column].split(b":")]
        for column in sorted(columns & set(range(len(infos))))
    }


def _categories(model: object, listed: list[list[str | float]], codes: Mapping[int, list[int]]) -> dict[int, Values]:
    """The categories of columns; LightGBM keeps the lists of a table's columns in their order, and not whose they are.

    A list belongs to a column whose codes are places in it. Columns that held plain codes have none.
    """
    first = _first_fit(listed, codes)
    last = _first_fit(listed[::-1], dict(reversed(list(codes.items()))))
    if first is None or last is None or first != last[::-1]:
        why = f"categories of {len(listed)} columns of a table, and {len(codes)} categorical columns"
        how = (
            "whose they are is not known"
            if first is not None
            else "ordered categories and plain codes are not told apart"
        )
        raise cannot_wrap(model, f"{why}: {how}", f"train it on unordered categories alone, or {AS_A_FUNCTION}")
    return {column: tuple(values) for column, values in zip(first, listed, strict=True)}


def _first_fit(listed: list[list[str | float]], codes: Mapping[int, list[int]]) -> list[int] | None:
    """The first column for each list, in order, that may be its own; None where there is none."""
    columns = iter(codes)
    owners = [
        next((column for column in columns if max(codes[column], default=0) < len(values)), -1) for values in listed
    ]
    return None if -1 in owners else owners
