"""Models of CatBoost: ``CatBoost`` and the estimators that derive from it."""

import json
import sys
from typing import Any

import numpy as np

from rankwise.rankers.foreign.model import FUNCTION, ONE_SCORE, ForeignModel, refused, untrained
from rankwise.rankers.schema import Schema
from rankwise.rankers.trees.catboost_model import content_of, strip


def read(model: object) -> ForeignModel | None:
    """Give a model of CatBoost; None if it is none."""
    library = sys.modules.get("catboost")
    if library is None or not isinstance(model, library.CatBoost):
        return None
    kind = type(model).__name__
    if not model.is_fitted() or not model.tree_count_:
        raise untrained(kind)
    for what, columns in (
        ("categories, of which CatBoost keeps hashes and not the values", model.get_cat_feature_indices()),
        ("texts", model.get_text_feature_indices()),
        ("embeddings", model.get_embedding_feature_indices()),
    ):
        if columns:
            raise refused(kind, why=f"features that are {what}", hint=FUNCTION)
    scores = np.size(model.get_scale_and_bias()[1])
    if scores > 1:
        raise refused(kind, why=f"{scores} scores of each document (multiclass or several targets)", hint=ONE_SCORE)
    names, numbers = list(model.feature_names_), list(map(str, range(len(model.feature_names_))))
    kept: Any = model.copy()
    if names == numbers:
        kept.set_feature_names(numbers)  # without, the file has none at all
    return ForeignModel(
        ranker="catboost",
        content=content_of(strip(kept)),
        schema=Schema(len(names), None if names == numbers else tuple(names)),
        objective=_loss(model),
    )


def _loss(model: Any) -> str:
    """What it was trained with, if the model says so."""
    notes = model.get_metadata()
    text = notes["params"] if "params" in notes.keys() else ""  # noqa: SIM118 (not a dictionary)
    about = json.loads(text or "{}")  # it may be empty
    return str(about.get("loss_function", {}).get("type", "custom"))
