"""Models of XGBoost: ``Booster`` and the estimators around it.

Margins are a base score and sums of leaves. What the base score means depends on the objective (of ``binary:logistic``
it is a probability), so that of a model which was not trained to rank is put down as the margin that it stands for.
"""

import itertools
import json
import sys
from typing import Any

import numpy as np

from rankwise import check
from rankwise.arrays import Json
from rankwise.data.categories import Values
from rankwise.rankers.foreign.model import FUNCTION, ONE_SCORE, ForeignModel, refused, untrained
from rankwise.rankers.schema import Schema
from rankwise.rankers.trees.xgboost import XGBoost

_RANKING = "rank:ndcg"


def read(model: object) -> ForeignModel | None:
    """Give a model of XGBoost, with the trees that its own ``predict`` uses; None if it is none."""
    library = sys.modules.get("xgboost")
    if library is None or not isinstance(model, library.Booster | library.XGBModel):
        return None
    kind = type(model).__name__
    XGBoost().threads()  # trees are written in parallel
    booster = _booster(library, model, kind)
    document = json.loads(booster.save_raw("json"))
    learner = document["learner"]
    about, inside = learner["learner_model_param"], learner["gradient_booster"]
    if inside["name"] == "gblinear":
        raise refused(kind, why="booster=gblinear, a linear model without trees", hint=FUNCTION)
    scores = max(int(about["num_class"]), int(about["num_target"]))
    if scores > 1:
        raise refused(kind, why=f"{scores} scores of each document (multiclass or several targets)", hint=ONE_SCORE)
    trees = inside.get("gbtree", inside)["model"]
    if not trees["trees"]:
        raise untrained(kind)
    objective = str(learner["objective"]["name"])
    categories = _categories(kind, trees.get("cats", {}).get("enc", []))
    if not objective.startswith("rank:"):
        about["base_score"] = f"[{_base(library, document):.9g}]"
        plain = library.Booster({"objective": _RANKING, "num_feature": booster.num_features()})
        learner["objective"] = json.loads(plain.save_raw("json"))["learner"]["objective"]
    if categories:
        trees["cats"] = {"enc": [], "feature_segments": [], "sorted_idx": []}
    if categories or not objective.startswith("rank:"):
        booster = library.Booster(model_file=bytearray(json.dumps(document, ensure_ascii=False).encode()))
    names, types = booster.feature_names, booster.feature_types or []
    return ForeignModel(
        ranker="xgboost",
        content=bytes(booster.save_raw("ubj")),
        schema=Schema(
            booster.num_features(),
            None if names is None else tuple(names),
            tuple(column for column, one in enumerate(types) if one == "c"),
            categories,
        ),
        objective=objective,
    )


def _booster(library: Any, model: Any, kind: str) -> Any:
    """The trees; an estimator stops at its best round, and a booster of its own does not."""
    if isinstance(model, library.Booster):
        return model
    if not model.__sklearn_is_fitted__():
        raise untrained(kind)
    if model.missing is not None and not np.isnan(model.missing):
        hint = "wrap its get_booster(), and put NaN in the place of missing values"
        raise check.error("missing values are NaN here", got=f"a {kind} with missing={model.missing!r}", hint=hint)
    booster = model.get_booster()
    best = booster.attributes().get("best_iteration")
    return booster if best is None else booster[: int(best) + 1]


def _base(library: Any, document: Json) -> np.float32:
    """What XGBoost adds to the leaves: the margin of the same trees with nothing in their leaves."""
    copy = json.loads(json.dumps(document))
    inside = copy["learner"]["gradient_booster"]
    for tree in inside.get("gbtree", inside)["model"]["trees"]:
        sides = zip(tree["left_children"], tree["split_conditions"], strict=True)
        tree["split_conditions"] = [0.0 if left == -1 else limit for left, limit in sides]
    empty = library.Booster(model_file=bytearray(json.dumps(copy, ensure_ascii=False).encode()))
    nothing = np.full((1, empty.num_features()), np.nan, np.float32)
    margin: np.float32 = empty.inplace_predict(nothing, predict_type="margin", validate_features=False)[0]
    return margin


def _categories(kind: str, columns: list[Json]) -> dict[int, Values]:
    """The values of categories that a table had, by column; codes are their places."""
    found: dict[int, Values] = {}
    for column, one in enumerate(columns):
        if "offsets" not in one:
            found[column] = tuple(one["values"])
        elif one["values"]:
            letters, ends = np.array(one["values"], np.int8).tobytes(), one["offsets"]
            try:
                found[column] = tuple(letters[i:j].decode() for i, j in itertools.pairwise(ends))
            except UnicodeDecodeError:
                why = f"names of categories that are not whole, of column {column}"
                raise refused(kind, why=why, hint=FUNCTION) from None
    return found
