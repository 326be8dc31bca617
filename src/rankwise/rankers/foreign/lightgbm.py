"""Models of LightGBM: ``Booster`` and the estimators around it.

Whatever a model was trained for, its raw scores are sums of leaves, and the text that is kept says so: its objective is
one that ranks. What the text says about training is dropped; it may name files.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence

from rankwise.data.categories import Values
from rankwise.rankers.foreign.model import FUNCTION, ONE_SCORE, ForeignModel, refused, untrained
from rankwise.rankers.schema import Schema
from rankwise.rankers.trees.lightgbm import LightGBM, with_objective


def read(model: object) -> ForeignModel | None:
    """Give a model of LightGBM, cut after its best round as its own ``predict`` is; None if it is none."""
    library = sys.modules.get("lightgbm")
    if library is None or not isinstance(model, library.Booster | library.LGBMModel):
        return None
    kind = type(model).__name__
    LightGBM().threads()  # trees are written in parallel
    try:
        booster = model.booster_ if isinstance(model, library.LGBMModel) else model
    except library.sklearn.LGBMNotFittedError:
        raise untrained(kind) from None
    if booster.num_model_per_iteration() != 1:
        why = f"{booster.num_model_per_iteration()} scores of each document (multiclass)"
        raise refused(kind, why=why, hint=ONE_SCORE)
    if not booster.num_trees():
        raise untrained(kind)
    text = booster.model_to_string()
    head, trees, rest = text.partition("\ntree_sizes=")
    fields = dict(line.partition("=")[::2] for line in head.splitlines())
    names, codes = fields["feature_names"].split(), _codes(fields["feature_infos"].split(), rest)
    objective = fields.get("objective", "custom").split(" ")[0]
    if objective not in LightGBM.builtins:
        head = re.sub(r"\nobjective=[^\n]*", "", head)
    body, _, values = (trees + rest).rpartition("\npandas_categorical:")
    categories = _categories(kind, json.loads(values) or [], codes)
    body = re.sub(r"\nparameters:\n.*?\nend of parameters\n", "\n", body, flags=re.DOTALL)
    return ForeignModel(
        ranker="lightgbm",
        content=with_objective(f"{head}{body}\npandas_categorical:null\n").encode(),
        schema=Schema(
            len(names),
            None if names == [f"Column_{column}" for column in range(len(names))] else tuple(names),
            tuple(codes),
            categories,
        ),
        objective=objective,
    )


def _codes(infos: Sequence[str], text: str) -> dict[int, list[int]]:
    """The codes of each categorical column that training saw; none of one that LightGBM dropped as constant.

    The last is named by the parameters alone.
    """
    told = re.search(r"^\[categorical_feature: ([\d,]+)\]$", text, flags=re.MULTILINE)
    columns = set() if told is None else {int(column) for column in told[1].split(",")}
    columns |= {column for column, info in enumerate(infos) if info != "none" and not info.startswith("[")}
    return {
        column: [] if infos[column] == "none" else [int(code) for code in infos[column].split(":")]
        for column in sorted(columns & set(range(len(infos))))
    }


def _categories(kind: str, listed: list[list[str | float]], codes: Mapping[int, list[int]]) -> dict[int, Values]:
    """The categories of columns; LightGBM keeps the lists of a table's columns in their order, and not whose they are.

    A list belongs to a column whose codes are places in it. Columns that held plain codes have none.
    """
    first = _first_fit(listed, codes)
    last = _first_fit(listed[::-1], dict(reversed(list(codes.items()))))
    if first is None or last is None or first != last[::-1]:
        why = f"categories of {len(listed)} columns of a table, and {len(codes)} categorical columns"
        how = (
            "ordered categories and plain codes are not told apart" if first is None else "whose they are is not known"
        )
        raise refused(kind, why=f"{why}: {how}", hint=f"train it on unordered categories alone, or {FUNCTION}")
    return {column: tuple(values) for column, values in zip(first, listed, strict=True)}


def _first_fit(listed: list[list[str | float]], codes: Mapping[int, list[int]]) -> list[int] | None:
    """The first column for each list, in order, that may be its own; None where there is none."""
    columns = iter(codes)
    found = [
        next((column for column in columns if max(codes[column], default=0) < len(values)), -1) for values in listed
    ]
    return None if -1 in found else found
