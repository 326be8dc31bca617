"""Models that CatBoost trained, read as those of our ranker."""

import json
from typing import Any

import numpy as np

from rankwise.models.forests.catboost import catboost, content_of, strip
from rankwise.models.schema import Schema
from rankwise.rankers.trees.protocol import ONE_SCORE, ForeignModel, cannot_wrap, untrained


def read_foreign(model: Any) -> ForeignModel | None:
    """Read a model; None if it is of another library."""
    if not isinstance(model, catboost().CatBoost):
        return None
    if not model.is_fitted() or not model.tree_count_:
        raise untrained(model)
    for what, columns in (
        ("categories, of which CatBoost keeps hashes and not the values", model.get_cat_feature_indices()),
        ("texts", model.get_text_feature_indices()),
        ("embeddings", model.get_embedding_feature_indices()),
    ):
        if columns:
            raise cannot_wrap(model, f"features that are {what}")
    scores = np.size(model.get_scale_and_bias()[1])
    if scores > 1:
        raise cannot_wrap(model, f"{scores} scores of each document (multiclass or several targets)", ONE_SCORE)
    names, numbers = list(model.feature_names_), list(map(str, range(len(model.feature_names_))))
    copy: Any = model.copy()
    if names == numbers:
        copy.set_feature_names(numbers)  # without, the file has none at all
    schema = Schema(len(names), None if names == numbers else tuple(names))
    return ForeignModel(content_of(strip(copy)), schema, _loss(model))


def _loss(model: Any) -> str:
    """What it was trained with, if the model holds it."""
    notes = model.get_metadata()
    text = notes["params"] if "params" in notes.keys() else ""  # noqa: SIM118 (not a dictionary)
    parameters = json.loads(text or "{}")  # it may be empty
    return str(parameters.get("loss_function", {}).get("type", "custom"))
