"""CatBoost's finished models, and its pools of documents."""

import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise import check
from rankwise.arrays import Array, Floats, Json
from rankwise.rankers.trees.protocol import numbers
from rankwise.sparse import for_library, is_sparse
from rankwise.threads import thread_count

if TYPE_CHECKING:
    from catboost import CatBoost, Pool

_MISSING = -(2**31) - 1  # the code of a category that is missing: float32 has no such number


class CatBoostForest:
    """A finished model."""

    def __init__(self, booster: "CatBoost", content: bytes) -> None:
        self.booster, self._content = booster, content
        self.n_trees = int(booster.tree_count_)

    def content(self) -> bytes:
        """Give the model in CatBoost's binary format."""
        return self._content

    def cut(self, n_trees: int) -> "CatBoostForest":
        """Give the model of the first ``n_trees`` trees."""
        if n_trees >= self.n_trees:
            return self
        part: CatBoost = self.booster.copy()
        try:
            part.shrink(n_trees)
        except catboost().CatBoostError:  # it cuts symmetric trees alone; in its JSON the others can be cut too
            text = self._text()
            text["trees"] = text["trees"][:n_trees]
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "model.json")
                path.write_text(json.dumps(text), encoding="utf-8")
                part = catboost().CatBoost()
                part.load_model(str(path), format="json")
        return forest(content_of(strip(part)))

    def predict(self, features: Floats) -> Array:
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

    def importances(self, kind: str) -> Array:
        """Give one number per feature: how much scores change with it, out of 100, or how many splits there are."""
        if kind == "gain":
            return numbers(self.booster.get_feature_importance(type="PredictionValuesChange"))
        text = self._text()
        owners = _owners(text["features_info"])
        counts = np.zeros(len(self.booster.feature_names_))
        for split in _splits(text.get("oblivious_trees") or text["trees"]):
            counts[owners[split]] += 1
        return counts

    def has_statistics(self) -> bool:
        """Whether splits ask for statistics of categories, which the training data gave."""
        return bool(self.booster.get_cat_feature_indices()) and bool(self._text()["features_info"].get("ctrs"))

    def _pool(self, features: Floats) -> "Pool":
        model = self.booster
        return make_pool(features, model.get_cat_feature_indices(), list(model.feature_names_), thread_count())

    def _text(self) -> Json:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.json")
            self.booster.save_model(str(path), format="json")
            found: Json = json.loads(path.read_bytes())
        return found


def catboost() -> ModuleType:
    """Give the library, or say which extra brings it."""
    return check.optional("catboost", "catboost")


def forest(content: bytes) -> CatBoostForest:
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
    return CatBoostForest(model, content)


def make_pool(features: Floats, categorical: Sequence[int], names: list[str], threads: int, **columns: Any) -> "Pool":
    """Hand documents to CatBoost; categories must be whole numbers there, not floats."""
    given: Any = for_library(features).copy() if is_sparse(features) else features  # which may be written
    if categorical:
        import polars as pl

        given = pl.DataFrame(
            {name: _codes(features[:, j]) if j in categorical else features[:, j] for j, name in enumerate(names)}
        )
        columns["cat_features"] = list(categorical)
    else:
        columns["feature_names"] = names
    pool: Pool = catboost().Pool(given, thread_count=threads, **columns)
    return pool


def scores_of(model: "CatBoost", pool: "Pool") -> Array:
    """Give the sums of leaves."""
    return numbers(model.predict(pool, prediction_type="RawFormulaVal", thread_count=thread_count()))


def content_of(model: "CatBoost") -> bytes:
    """Give a model in CatBoost's binary format, which it writes to files alone."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.cbm")
        model.save_model(str(path))
        return path.read_bytes()


def strip(model: "CatBoost") -> "CatBoost":
    """Take off clocks, ids and parameters: a sum of models would hold those of each, many times what its trees take."""
    notes = model.get_metadata()
    for name in list(notes.keys()):
        if name != "loss_function":
            del notes[name]
    return model


def first_line(failed: Exception) -> str:
    """What CatBoost says, without its place in the source."""
    return str(failed).partition("\n")[0].rpartition(".cpp:")[2].lstrip("0123456789: ")


def _codes(column: Floats) -> Any:
    return np.where(np.isnan(column), _MISSING, column).astype(np.int64)


def _owners(features: Json) -> list[list[int]]:
    """The columns behind each split: CatBoost numbers borders of numbers, then categories, then their statistics."""
    categories = [one["flat_feature_index"] for one in features.get("categorical_features", [])]
    owners = [[one["flat_feature_index"]] for one in features.get("float_features", []) for _ in one["borders"] or ()]
    owners += [
        [one["flat_feature_index"]] for one in features.get("categorical_features", []) for _ in one.get("values") or ()
    ]
    for statistic in features.get("ctrs") or ():
        columns = [categories[one["cat_feature_index"]] for one in statistic["elements"] if "cat_feature_index" in one]
        owners += [columns] * len(statistic["borders"])
    return owners


def _splits(node: object) -> Iterator[int]:
    """The number of every split in a tree, however deep."""
    for inside in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _splits(inside)
    if isinstance(node, dict) and "split_index" in node:
        yield node["split_index"]
