"""Models that XGBoost trained, read as those of our ranker."""

from typing import Any

import numpy as np

from rankwise import check
from rankwise.models.forests.xgboost import threads, xgboost
from rankwise.models.formats.xgboost import XGBoostDocument
from rankwise.models.schema import Schema
from rankwise.rankers.trees.protocol import ONE_SCORE, ForeignModel, cannot_wrap, untrained


def read_foreign(model: Any) -> ForeignModel | None:
    """Read a model, with the trees that its own ``predict`` uses; None if it is of another library.

    Margins are a base score and sums of leaves. What the base score means depends on the objective (of
    ``binary:logistic`` it is a probability), so that of a model which was not trained to rank becomes its margin.
    """
    library = xgboost()
    if not isinstance(model, library.Booster | library.XGBModel):
        return None
    threads()  # trees are written in parallel
    booster = _booster(library, model)
    document = XGBoostDocument(bytes(booster.save_raw("ubj")))
    if document.booster["name"] == "gblinear":
        raise cannot_wrap(model, "booster=gblinear, a linear model without trees")
    scores = max(int(document.parameters[name]) for name in ("num_class", "num_target"))
    if scores > 1:
        raise cannot_wrap(model, f"{scores} scores of each document (multiclass or several targets)", ONE_SCORE)
    if not document.model["trees"]:
        raise untrained(model)
    objective = str(document.learner["objective"]["name"])
    try:
        categories = document.take_categories()
    except UnicodeDecodeError:
        raise cannot_wrap(model, "names of categories that are not whole") from None
    ranks = objective.startswith("rank:")
    if not ranks:
        document.parameters["base_score"] = f"[{_base(library, booster):.9g}]"
        plain = library.Booster({"objective": "rank:ndcg", "num_feature": booster.num_features()})
        document.learner["objective"] = XGBoostDocument(bytes(plain.save_raw("ubj"))).learner["objective"]
    if categories or not ranks:
        booster = library.Booster(model_file=bytearray(document.json()))
    names, types = booster.feature_names, booster.feature_types or []
    categorical = tuple(column for column, kind in enumerate(types) if kind == "c")
    schema = Schema(booster.num_features(), None if names is None else tuple(names), categorical, categories)
    return ForeignModel(bytes(booster.save_raw("ubj")), schema, objective)


def _booster(library: Any, model: Any) -> Any:
    """The trees; an estimator stops at its best round, and a booster of its own does not."""
    if isinstance(model, library.Booster):
        return model
    if not model.__sklearn_is_fitted__():
        raise untrained(model)
    if model.missing is not None and not np.isnan(model.missing):
        hint = "wrap its get_booster(), and put NaN in the place of missing values"
        raise check.error(
            "missing values are NaN here", got=f"a {type(model).__name__} with missing={model.missing!r}", hint=hint
        )
    booster = model.get_booster()
    best = booster.attributes().get("best_iteration")
    return booster if best is None else booster[: int(best) + 1]


def _base(library: Any, booster: Any) -> np.float32:
    """Return what XGBoost adds to the leaves: the margin of the same trees with nothing in their leaves."""
    document = XGBoostDocument(bytes(booster.save_raw("ubj")))
    document.scale(np.float32(0.0))
    empty = library.Booster(model_file=bytearray(document.json()))
    nothing = np.full((1, empty.num_features()), np.nan, np.float32)
    margin: np.float32 = empty.inplace_predict(nothing, predict_type="margin", validate_features=False)[0]
    return margin
