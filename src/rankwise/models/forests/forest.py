"""Boosted trees as models: what all libraries share."""

import importlib
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self, cast

import numpy as np

from rankwise import check
from rankwise.base.arrays import Array, Floats, Json, Offsets
from rankwise.models import storage
from rankwise.models.formats.tree_arrays import CannotSplitError, Nodes
from rankwise.models.model import Contributions, Model, Score
from rankwise.models.schema import Schema

TRANSFORMS = ("raw+query",)
"""What rankers of trees do to features, if anything; then the model is a ``QueryForest``."""


class ForestModel(Model):
    """Boosted trees of LightGBM, XGBoost or CatBoost: ``booster`` is the library's own object, with ``n_trees``."""

    library: str
    """The name of the library's module."""
    file: str
    """The name of the model file."""
    reader: type[Any]
    """Reads that file for so many features, and checks all that the library looks up by number."""
    base_score: float = 0.0
    """The score of a model without trees."""

    def __new__(cls, *_: Any) -> Self:
        """Make an object; pickles of older versions make one of this class itself, for ``__setstate__``."""
        return super().__new__(cast("type[Self]", _Pickled) if cls is ForestModel else cls)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore what was pickled, where older versions had the trees as an object in ``forest``."""
        if "forest" in state:
            trees = state["forest"]
            self.__class__ = type(trees)
            self.__init__(state["schema"], trees.booster, vars(trees)["content"], trees.n_trees)  # type: ignore[misc]
        else:
            vars(self).update(state)

    def __init__(self, schema: Schema, booster: Any, content: bytes, n_trees: int) -> None:
        self.schema, self.booster, self.n_trees, self.rounds = schema, booster, n_trees, n_trees
        self.kind, self._content = f"the trees of {self.library}", content

    @classmethod
    @abstractmethod
    def read(cls, content: bytes, schema: Schema) -> Self:
        """Read the library's own file, which was verified; raises ValueError if it cannot be read."""

    @classmethod
    def verify(cls, content: bytes, n_features: int) -> Any:
        """Read the file of a model of ``n_features``; an error rejects one that would crash the library."""
        with storage.rejecting():
            return cls.reader(content, n_features)

    @classmethod
    @abstractmethod
    def sum(cls, models: Sequence[Self], factors: Sequence[float]) -> Self | None:
        """Return one model that scores as their weighted sum; None where no file of the library could hold it."""

    @abstractmethod
    def cut(self, n_trees: int) -> Self:
        """Return the model of the first ``n_trees`` trees."""

    @abstractmethod
    def explain(self, features: Floats) -> Array:
        """SHAP contributions (n_docs, n_features + 1); the last column is the mean, rows add up to the scores."""

    @abstractmethod
    def importances(self, kind: str = "gain") -> Array:
        """Return one number per feature: the total ``"gain"`` of its splits, or how many there are (``"split"``)."""

    def tree(self, features: Floats, number: int) -> Array:
        """Return what one tree, counted from 0, adds to the scores, as training on a cluster needs it."""
        raise NotImplementedError

    def content(self) -> bytes:
        """Return the trees in the library's own file format."""
        return self._content

    def nodes(self) -> Nodes:
        """Return the trees as arrays; raises :class:`CannotSplitError` if nodes cannot express them."""
        nodes: Nodes = self.parsed().nodes()
        return nodes

    def parsed(self) -> Any:
        """Return the content of the file, checked."""
        return self.verify(self._content, self.schema.count)

    def contributions(self, features: Floats, offsets: Offsets | None = None) -> Contributions:
        """Return the SHAP values of every document, as the library computes them: exact, without a remainder."""
        method, start = f"SHAP values of {self.library}", "mean score"
        return Contributions.exact(self.explain(features), features, self.schema, method=method, start=start)

    def serving(self) -> Score:
        """Return trees rearranged for speed, or the library where it must score."""
        from rankwise.models.scoring import quickscorer

        try:
            nodes = self.nodes()
        except CannotSplitError:
            return self.scores
        return self.scores if nodes.scaled else quickscorer.Rearranged(nodes)

    def files(self) -> dict[str, bytes]:
        """Return the library's own file."""
        return {self.file: self._content}

    def description(self) -> Json:
        """Return the number of trees, and the library's version."""
        return self.described(self.n_trees)

    @classmethod
    def described(cls, n_trees: int) -> Json:
        """Return the description of a model of so many trees."""
        return {"trees": n_trees, "versions": {cls.library: str(importlib.import_module(cls.library).__version__)}}

    @classmethod
    def from_files(cls, description: Json, files: dict[str, bytes], schema: Schema) -> Self:
        """Read the library's own file; trees after those that count are cut."""
        cls.verify(files[cls.file], schema.count)
        trees = check.integer("trees", description["trees"], least=1)
        return cls.read(files[cls.file], schema).cut(trees)


class _Pickled(ForestModel):
    """What a pickle of an older version is, until it has its trees."""


_Pickled.__abstractmethods__ = frozenset()


def summed(models: Sequence[Model], factors: Sequence[float]) -> ForestModel | None:
    """Return one model that scores as the weighted sum of forests of one library; None where there is none."""
    forests = [one for one in models if isinstance(one, ForestModel)]
    if len(forests) != len(models) or len({type(one) for one in forests}) != 1:
        return None
    return type(forests[0]).sum(forests, factors)


def numbers(values: object) -> Array:
    """Return scores as float64."""
    return np.ascontiguousarray(values, np.float64)
