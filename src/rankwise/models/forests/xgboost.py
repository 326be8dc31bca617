"""Finished models of XGBoost."""

import functools
import json
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from rankwise import check
from rankwise.base.arrays import Array, Floats, Offsets
from rankwise.base.sparse import dense
from rankwise.base.threads import openmp
from rankwise.data.io.disk import mapped as disk
from rankwise.models.forests.forest import ForestModel, numbers
from rankwise.models.forests.library_errors import first_line
from rankwise.models.formats import xgboost as ubj_format
from rankwise.models.schema import Schema

if TYPE_CHECKING:
    from xgboost import Booster


def xgboost() -> ModuleType:
    """Return the library, or raise an error that names its extra."""
    return check.optional("xgboost", "xgboost")


def threads() -> int:
    """Return the number of threads that XGBoost may use."""
    return openmp(_one_thread)


def _one_thread() -> None:
    """Make XGBoost use one thread, also where no number is set."""
    xgboost().set_config(nthread=1)


class XGBoostForest(ForestModel):
    """A finished booster."""

    library, file = "xgboost", "model.ubj"
    reader = ubj_format.XGBoostModel
    booster: "Booster"

    @classmethod
    def read(cls, content: bytes, schema: Schema) -> Self:
        """Read a model."""
        threads()  # trees are read in parallel
        try:
            if not content.startswith(b"{"):
                raise ValueError("a file that does not begin as a model")
            booster = xgboost().Booster(model_file=bytearray(content))
            return cls(schema, booster, bytes(content), int(booster.num_boosted_rounds()))
        except (ValueError, xgboost().core.XGBoostError) as broken:
            raise check.error("cannot read as an XGBoost model", got=first_line(broken)) from None

    @classmethod
    def sum(cls, models: Sequence[Self], factors: Sequence[float]) -> Self:
        """Return one model that scores as their weighted sum."""
        threads()  # trees are written in parallel
        joined = ubj_format.join_models([one.content() for one in models], factors)
        return cls.read(bytes(xgboost().Booster(model_file=bytearray(joined)).save_raw("ubj")), models[0].schema)

    def cut(self, n_trees: int) -> Self:
        """Return the model of the first ``n_trees`` trees."""
        return self if n_trees >= self.n_trees else self.read(content_of(self.booster, n_trees), self.schema)

    def scores(self, features: Floats, offsets: Offsets | None = None, trees: tuple[int, int] = (0, 0)) -> Array:
        """Score documents, by all trees or by some; XGBoost adds up in float32."""
        self.booster.set_param({"nthread": threads()})
        return numbers(margins(self.booster, features, trees))

    def tree(self, features: Floats, number: int) -> Array:
        """Return what one tree, counted from 0, adds to the scores."""
        return self.scores(features, trees=(number, number + 1)) - self.base_score

    @functools.cached_property
    def base_score(self) -> float:  # type: ignore[override]
        """The score of a model without trees."""
        parameters = json.loads(self.booster.save_config())["learner"]["learner_model_param"]
        return float(parameters["base_score"].strip("[]"))

    def explain(self, features: Floats) -> Array:
        """SHAP contributions, in float32."""
        self.booster.set_param({"nthread": threads()})
        matrix = xgboost().DMatrix(
            dense(features),
            feature_names=self.booster.feature_names,
            feature_types=self.booster.feature_types,
            enable_categorical=True,
            nthread=threads(),
        )
        try:
            return numbers(self.booster.predict(matrix, pred_contribs=True))
        except xgboost().core.XGBoostError as failed:
            raise check.error("XGBoost cannot explain these trees", got=first_line(failed)) from None

    def importances(self, kind: str = "gain") -> Array:
        """Return one number per feature: total gain of its splits, or how many there are."""
        scores: Any = self.booster.get_score(importance_type={"gain": "total_gain", "split": "weight"}[kind])
        names = self.booster.feature_names or [f"f{j}" for j in range(self.booster.num_features())]
        return np.array([scores.get(name, 0.0) for name in names], np.float64)


def margins(booster: "Booster", features: Floats, trees: tuple[int, int] = (0, 0)) -> Any:
    """Return the sums of leaves, of all trees or of some."""
    options = {"iteration_range": trees, "predict_type": "margin", "validate_features": False}
    return np.concatenate([booster.inplace_predict(block, **options) for block in disk.blocks(features)])


def content_of(booster: "Booster", n_trees: int) -> bytes:
    """Return the first trees of a booster as XGBoost's binary JSON."""
    threads()  # trees are written in parallel
    part = booster if n_trees == booster.num_boosted_rounds() else booster[:n_trees]
    return bytes(part.save_raw("ubj"))
