"""Finished trees of a library, and the one model of them for all libraries."""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from rankwise import check
from rankwise.base.arrays import Array, Floats, Json, Offsets
from rankwise.models.contributions import Contributions
from rankwise.models.formats.tree_arrays import CannotSplitError, ModelFile, Nodes
from rankwise.models.model import Model, Score
from rankwise.models.schema import Schema

_MODULES = {"model.txt": "lightgbm", "model.ubj": "xgboost", "model.cbm": "catboost"}
"""Name of the model file -> module of the library here; its forests are the subclass of :class:`Forest` there."""


class Forest(ABC):
    """Finished trees, as their library holds them."""

    library: str
    """The name of the library's module."""
    file: str
    """The name of the model file."""
    least_code: float = 0.0
    """The smallest code of a category that the library reads."""
    content: bytes
    """The model in the library's own file format."""
    n_trees: int

    def __init__(self, booster: Any, content: bytes, n_trees: int) -> None:
        self.booster, self.content, self.n_trees = booster, content, n_trees

    @classmethod
    @abstractmethod
    def read(cls, content: bytes) -> Self:
        """Read a model; raises ValueError if it cannot be read."""

    @staticmethod
    @abstractmethod
    def verify(content: bytes, n_features: int) -> ModelFile:
        """Read the file of a model of ``n_features``; an error rejects one that would crash the library."""

    @classmethod
    @abstractmethod
    def sum(cls, forests: Sequence[Self], factors: Sequence[float]) -> Self | None:
        """Return one forest that scores as their weighted sum; None where no file of the library could hold it."""

    @classmethod
    def versions(cls) -> dict[str, str]:
        """Return the version of the library."""
        return {cls.library: str(importlib.import_module(cls.library).__version__)}

    @abstractmethod
    def cut(self, n_trees: int) -> Self:
        """Return the model of the first ``n_trees`` trees."""

    @abstractmethod
    def predict(self, features: Floats) -> Array:
        """Score documents."""

    @abstractmethod
    def explain(self, features: Floats) -> Array:
        """SHAP contributions (n_docs, n_features + 1); the last column is the mean, rows add up to the scores."""

    @abstractmethod
    def importances(self, kind: str) -> Array:
        """Return one number per feature, by ``"gain"`` or ``"split"``."""


class ForestByTree(Forest):
    """A finished model that scores one tree at a time, as training on a cluster needs it."""

    base_score: float = 0.0
    """The score of a model without trees."""

    @abstractmethod
    def tree(self, features: Floats, number: int) -> Array:
        """Return what one tree, counted from 0, adds to the scores."""


class ForestModel(Model):
    """Boosted trees of LightGBM, XGBoost or CatBoost: ``booster`` is the library's own object, with ``n_trees``."""

    def __init__(self, schema: Schema, forest: Forest) -> None:
        self.schema, self.forest, self.kind = schema, forest, f"the trees of {forest.library}"
        self.booster, self.n_trees = forest.booster, forest.n_trees
        self.least_code, self.rounds = forest.least_code, forest.n_trees

    def content(self) -> bytes:
        """Return the trees in the library's own file format."""
        return self.forest.content

    def cut(self, n_trees: int) -> "ForestModel":
        """Return the model of the first ``n_trees`` trees."""
        return ForestModel(self.schema, self.forest.cut(n_trees))

    def nodes(self) -> Nodes:
        """Return the trees as arrays; raises :class:`CannotSplitError` if nodes cannot express them."""
        return self.forest.verify(self.content(), self.schema.count).nodes()

    def scores(self, features: Floats, offsets: Offsets | None = None) -> Array:
        """Return one score per document, as the library computes it."""
        return self.forest.predict(features)

    def contributions(self, features: Floats, offsets: Offsets | None = None) -> Contributions:
        """Return the SHAP values of every document, as the library computes them: exact, without a remainder."""
        parts = self.forest.explain(features)
        return Contributions(
            parts=parts,
            left=np.zeros(len(parts)),
            method=f"SHAP values of {self.forest.library}",
            start="mean score",
            features=features,
            schema=self.schema,
        )

    def serving(self) -> Score:
        """Return trees rearranged for speed, or the library where it must score."""
        from rankwise.models.scoring import quickscorer

        try:
            nodes = self.nodes()
        except CannotSplitError:
            return self.scores
        return self.scores if nodes.scaled else quickscorer.Rearranged(nodes)

    def importances(self, kind: str = "gain") -> Array:
        """Return one number per feature: the total ``"gain"`` of its splits, or how many there are (``"split"``)."""
        return self.forest.importances(kind)

    def files(self) -> dict[str, bytes]:
        """Return the library's own file."""
        return {self.forest.file: self.content()}

    def description(self) -> Json:
        """Return the number of trees, and the library's version."""
        return forest_description(type(self.forest), self.n_trees)

    @classmethod
    def from_files(cls, description: Json, files: dict[str, bytes], schema: Schema) -> Self:
        """Read the library's own file; trees after those that count are cut."""
        kind = forest_of(files)
        kind.verify(files[kind.file], schema.count)
        trees = check.integer("trees", description["trees"], least=1)
        return cls(schema, kind.read(files[kind.file]).cut(trees))


def forest_description(forest: type[Forest], n_trees: int) -> Json:
    """Return what ``rankwise.json`` says of a model of so many trees."""
    return {"trees": n_trees, "versions": forest.versions()}


def forest_of(files: Mapping[str, bytes]) -> type[Forest]:
    """Return the class of forests that reads one of these files."""
    name = next(name for name in files if name in _MODULES)
    module = importlib.import_module(f"rankwise.models.forests.{_MODULES[name]}")
    kind: type[Forest] = next(one for one in vars(module).values() if getattr(one, "file", None) == name)
    return kind


def summed(models: Sequence[Model], factors: Sequence[float]) -> ForestModel | None:
    """Return one model that scores as the weighted sum of forests of one library; None where there is none."""
    forests = [one.forest for one in models if isinstance(one, ForestModel)]
    if len(forests) != len(models) or len({type(one) for one in forests}) != 1:
        return None
    total = type(forests[0]).sum(forests, factors)
    return None if total is None else ForestModel(models[0].schema, total)


def numbers(values: object) -> Array:
    """Return scores as float64."""
    return np.ascontiguousarray(values, np.float64)
