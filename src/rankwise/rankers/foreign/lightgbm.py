"""Models of LightGBM: ``Booster`` and the estimators around it.

Whatever a model was trained for, its raw scores are sums of leaves, and the text that is kept says so: its objective is
one that ranks. What the text says about training is dropped; it may name files.
"""

import json
import re
import sys

from rankwise.rankers.foreign.model import FUNCTION, ONE_SCORE, ForeignModel, refused, untrained
from rankwise.rankers.schema import Schema
from rankwise.rankers.trees.lightgbm import LightGBM, with_objective


def read(model: object) -> ForeignModel | None:
    """Give a model of LightGBM, cut after its best round as its own ``predict`` is; None if it is none."""
    library = sys.modules.get("lightgbm")
    if library is None or not isinstance(model, library.Booster | library.LGBMModel):
        return None
    kind = type(model).__name__
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
    names = fields["feature_names"].split()
    categorical = tuple(
        column
        for column, known in enumerate(fields["feature_infos"].split())
        if known != "none" and not known.startswith("[")
    )
    objective = fields.get("objective", "custom").split(" ")[0]
    if objective not in LightGBM.builtins:
        head = re.sub(r"\nobjective=[^\n]*", "", head)
    body, _, values = (trees + rest).rpartition("\npandas_categorical:")
    listed = json.loads(values) or []
    if len(listed) not in (0, len(categorical)):
        why = f"categories of {len(listed)} columns of a table, and splits by category of {len(categorical)}"
        raise refused(kind, why=why, hint=FUNCTION)
    body = re.sub(r"\nparameters:\n.*?\nend of parameters\n", "\n", body, flags=re.DOTALL)
    return ForeignModel(
        ranker="lightgbm",
        content=with_objective(f"{head}{body}\npandas_categorical:null\n").encode(),
        schema=Schema(
            len(names),
            None if names == [f"Column_{column}" for column in range(len(names))] else tuple(names),
            categorical,
            {column: tuple(known) for column, known in zip(categorical, listed, strict=False)},
        ),
        objective=objective,
    )
