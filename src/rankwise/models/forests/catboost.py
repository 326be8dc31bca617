"""Finished models of CatBoost, and its pools of documents."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from rankwise import check
from rankwise.base.arrays import Array, Floats, Offsets
from rankwise.base.sparse import for_library, is_sparse
from rankwise.base.threads import thread_count
from rankwise.models.forests.forest import ForestModel, numbers
from rankwise.models.forests.library_errors import first_line
from rankwise.models.formats.catboost import CatBoostModel
from rankwise.models.schema import Schema

if TYPE_CHECKING:
    from catboost import CatBoost, Pool

_MISSING = -(2**31) - 1  # the code of a category that is missing: float32 has no such number


class CatBoostForest(ForestModel):
    """A finished model."""

    library, file, least_code = "catboost", "model.cbm", -np.inf
    reader = CatBoostModel
    booster: "CatBoost"

    @classmethod
    def read(cls, content: bytes, schema: Schema) -> Self:
        """Read a model."""
        model: CatBoost = catboost().CatBoost()
        try:
            if not content.startswith(b"CBM1"):
                raise ValueError("a file that does not begin as a model")
            with tempfile.TemporaryDirectory() as folder:  # bytes would be read in place, even by sums of models
                path = Path(folder, "model.cbm")
                path.write_bytes(content)
                model.load_model(str(path))
        except (ValueError, catboost().CatBoostError) as broken:
            raise check.error("cannot read as a CatBoost model", got=first_line(broken)) from None
        return cls(schema, model, content, int(model.tree_count_))

    @classmethod
    def sum(cls, models: Sequence[Self], factors: Sequence[float]) -> Self | None:
        """Return one model that scores as their weighted sum; None if they hold statistics of categories, each its own.

        CatBoost keeps one table for a statistic, whichever model it came from.
        """
        if any(one.parsed().statistics for one in models):  # splits ask for them; the training data gave them
            return None
        total = catboost().sum_models([one.booster for one in models], weights=list(factors))
        return cls.read(content_of(strip(total)), models[0].schema)

    def cut(self, n_trees: int) -> Self:
        """Return the model of the first ``n_trees`` trees."""
        if n_trees >= self.n_trees:
            return self
        part: CatBoost = self.booster.copy()
        try:
            part.shrink(n_trees)
        except catboost().CatBoostError:  # it cuts symmetric trees alone; in its JSON the others can be cut too
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "model.json")
                self.booster.save_model(str(path), format="json")
                text = json.loads(path.read_bytes())
                text["trees"] = text["trees"][:n_trees]
                path.write_text(json.dumps(text), encoding="utf-8")
                part = catboost().CatBoost()
                part.load_model(str(path), format="json")
        return self.read(content_of(strip(part)), self.schema)

    def scores(self, features: Floats, offsets: Offsets | None = None) -> Array:
        """Score documents."""
        return scores_of(self.booster, self._pool(features))

    def explain(self, features: Floats) -> Array:
        """SHAP contributions."""
        pool = self._pool(features)
        if not self.importances("split").any():  # which would end CatBoost, and the process
            parts = np.zeros((pool.num_row(), pool.num_col() + 1))
            parts[:, -1] = scores_of(self.booster, pool)
            return parts
        parts = numbers(self.booster.get_feature_importance(pool, "ShapValues", thread_count=thread_count()))
        if not np.allclose(parts.sum(axis=1), scores_of(self.booster, pool), atol=1e-6):  # seen with other trees
            what = "CatBoost's contributions do not add up to the scores of these trees"
            raise check.error(what, hint="train symmetric trees: leave out grow_policy")
        return parts

    def importances(self, kind: str = "gain") -> Array:
        """Return one number per feature: how much scores change with it, out of 100, or how many splits there are."""
        if kind == "gain":
            return numbers(self.booster.get_feature_importance(type="PredictionValuesChange"))
        return np.asarray(self.parsed().split_counts(), np.float64)

    def _pool(self, features: Floats) -> "Pool":
        model = self.booster
        return make_pool(features, model.get_cat_feature_indices(), list(model.feature_names_), thread_count())


def catboost() -> ModuleType:
    """Return the library, or raise an error that names its extra."""
    return check.optional("catboost", "catboost")


def make_pool(features: Floats, categorical: Sequence[int], names: list[str], threads: int, **columns: Any) -> "Pool":
    """Hand documents to CatBoost; categories must be whole numbers there, not floats."""
    rows: Any = for_library(features).copy() if is_sparse(features) else features  # which may be written
    if categorical:
        import polars as pl

        rows = pl.DataFrame(
            {name: _codes(features[:, j]) if j in categorical else features[:, j] for j, name in enumerate(names)}
        )
        columns["cat_features"] = list(categorical)
    else:
        columns["feature_names"] = names
    pool: Pool = catboost().Pool(rows, thread_count=threads, **columns)
    return pool


def scores_of(model: "CatBoost", pool: "Pool") -> Array:
    """Return the sums of leaves."""
    return numbers(model.predict(pool, prediction_type="RawFormulaVal", thread_count=thread_count()))


def content_of(model: "CatBoost") -> bytes:
    """Return a model in CatBoost's binary format, which it writes to files alone."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.cbm")
        model.save_model(str(path))
        return path.read_bytes()


def strip(model: "CatBoost") -> "CatBoost":
    """Remove clocks, ids and parameters: a sum of models would hold those of each, many times what its trees take."""
    notes = model.get_metadata()
    for name in list(notes.keys()):
        if name != "loss_function":
            del notes[name]
    return model


def _codes(column: Floats) -> Any:
    return np.where(np.isnan(column), _MISSING, column).astype(np.int64)
