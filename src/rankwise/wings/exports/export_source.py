"""What is to be exported, seen the same way by every format."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import rankwise as rw
from rankwise import check
from rankwise.base.arrays import Column, Json, Keywords
from rankwise.models import (
    LEAF,
    CalibratedModel,
    DrawnModel,
    ForestModel,
    LinearModel,
    Model,
    Nodes,
    QueryForest,
    SumModel,
)
from rankwise.rankers import check_fitted, wrapped
from rankwise.rankers.expressions import objective_of
from rankwise.statistics import Curve


class ExportedFile(NamedTuple):
    """What becomes of a model."""

    content: bytes
    load: str
    """How the file is loaded where it goes to."""


@dataclass(frozen=True)
class ExportSource:
    """A model on its way out: trees, a net, a linear model, or for some formats a sum of trees and linear models."""

    model: ForestModel | QueryForest | DrawnModel | LinearModel | SumModel
    names: tuple[str, ...] | None
    """What features are called there."""
    path: Path
    """The file that it goes to."""
    notes: dict[str, str]
    """What it was trained with."""
    curve: Curve | None = None
    """The curve from scores to probabilities of a calibrated model."""
    queries: Mapping[str, Json] = field(default_factory=dict)
    """The queries whose scores are features there, by their names."""

    @classmethod
    def of(cls, model: object, names: Sequence[str] | None, path: Path, *, sums: bool = False) -> "ExportSource":
        """Return the source of a ranker, of a model of another library, or of the folder of a ranker."""
        ranker: Any = rw.load(model) if isinstance(model, str | Path) else wrapped(model) or model
        learned: Any = getattr(ranker, "model_", None)
        curve: Curve | None = None
        while isinstance(learned, CalibratedModel):
            if curve is not None:
                raise check.error("a ranker that was calibrated twice has no one curve", hint="calibrate it once")
            learned, curve = learned.model, learned.curve
        parts = list(_parts(learned)) if sums else [learned]
        drawn = isinstance(learned, DrawnModel)
        if not drawn and not all(isinstance(one, ForestModel | QueryForest | LinearModel) for one in parts):
            raise _not_one(ranker, learned)
        if drawn and learned.needs_lists:  # of the others some formats hold all
            raise check.error(
                "exported models score documents one by one, and this net looks at whole lists",
                got=repr(ranker),
                hint="train with `attention=0` and a transform without query, or serve model.scorer()",
            )
        learned.schema.reject_start("exported models")
        checked, trained = check.feature_names(names, learned.schema.count), _became(ranker)
        notes = {"ranker": trained.name, "objective": objective_of(trained)}
        return cls(learned, checked or learned.schema.names, path, notes, curve)

    @property
    def title(self) -> str:
        """What the model is called there."""
        return self.path.name.partition(".")[0]

    @property
    def forest(self) -> ForestModel | None:
        """The trees, if it is made of them; where :attr:`within` is true they have twice as many features."""
        model = self.model.forest if isinstance(self.model, QueryForest) else self.model
        return model if isinstance(model, ForestModel) else None

    @property
    def within(self) -> bool:
        """Whether the trees also see values within the query, as features from ``n_features`` on."""
        return isinstance(self.model, QueryForest)

    @property
    def n_features(self) -> int:
        """How many features documents have."""
        return self.model.schema.count

    @property
    def drawn(self) -> DrawnModel | None:
        """The model, if it knows itself what other systems get of it, as nets do."""
        return self.model if isinstance(self.model, DrawnModel) else None

    @property
    def linear(self) -> LinearModel | None:
        """The linear model, if it is one."""
        return self.model if isinstance(self.model, LinearModel) else None

    def plain(self, system: str) -> LinearModel | None:
        """Return the linear model, if it is one of features that are only shifted and scaled; else raise."""
        linear = self.linear
        if linear is not None and len(linear.transform.knots):
            raise check.error(
                f"{system} takes linear models of features as they are, or standardised",
                got=f"transform={linear.transform.kind!r}",
                hint="train with `transform='standard'`, or export to onnx or sql",
            )
        return linear

    def trees(self, system: str, *, categories: bool = True, within: bool = False) -> Nodes:
        """Return the trees, a constant of the model as one more; an error if there are none, or none for the system.

        ``within`` says that the system computes values within the query.
        """
        if self.within and not within:
            raise check.error(
                f"{system} scores documents one by one, and these trees compare them with the others of their query",
                got="transform='raw+query'",
                hint="train without `transform`, export to onnx or sql, or serve model.scorer()",
            )
        if self.forest is None:
            raise check.error(
                f"{system} takes trees, and no {'nets' if self.linear is None else 'linear models'}",
                got=self.model.trained_by,
                hint=f"export the {'net' if self.linear is None else 'model'} to onnx, or train a ranker of trees",
            )
        nodes = self.forest.nodes()
        if nodes.categories and not categories:
            column = int(nodes.feature[next(iter(nodes.categories))])
            raise check.error(
                f"{system} asks of a feature only whether it is below a number",
                got=f"splits by category, of column {column}",
                hint="make a column of 0 and 1 for each category, or export to onnx, treelite or vespa",
            )
        if nodes.base:
            nodes = grown(
                nodes, [*nodes.roots, nodes.feature.size], feature=[LEAF], left=[0], right=[0], value=[nodes.base]
            )
        return replace(nodes, base=0.0)

    def known_names(self, system: str) -> tuple[str, ...]:
        """Return the names of features, without which the system could not find them."""
        if self.names is None:
            raise check.error(
                f"{system} finds features by their names, and the model was trained without",
                hint=f"name all {self.n_features} with `names=[…]`, in the order of training",
            )
        return self.names


def grown(nodes: Nodes, roots: Sequence[int] | Column, **more: Sequence[float] | Column) -> Nodes:
    """Add nodes after the last: ``feature``, ``left``, ``right`` and ``value`` of each; and change ``roots``."""
    more |= {"threshold": np.zeros(len(more["feature"])), "missing_left": np.ones(len(more["feature"]))}
    before = {name: getattr(nodes, name) for name in more}
    columns: Keywords = {name: np.append(column, more[name]).astype(column.dtype) for name, column in before.items()}
    return replace(nodes, roots=np.asarray(roots, np.int32), **columns)


def _parts(model: Any) -> Iterator[Model]:
    """Iterate over the models that are added up, however deep."""
    for one in getattr(model, "models", [model]):
        yield from _parts(one) if isinstance(one, SumModel) else [one]


def _became(ranker: Any) -> Any:
    """Return what a ranker made of others has become."""
    while hasattr(ranker, "ranker_"):
        ranker = ranker.ranker_
    return ranker


def _not_one(ranker: Any, model: Model | None) -> ValueError:
    """Return the error about what is neither trees nor a net."""
    ranker = _became(ranker)
    if model is None and hasattr(ranker, "__sklearn_is_fitted__"):
        check_fitted(ranker)
    if getattr(ranker, "weighs", False):
        return check.error(
            "a blend can be exported where all its members are trees of one library",
            got=str(ranker.objective),
            hint='search with rw.AutoRanker(prefer="fast"), blend such members alone, or train one ranker with '
            "rw.distilled(blend, ranker)",
        )
    if getattr(ranker, "pools", False):
        return check.error(
            "a bag can be exported where its members make one forest: trees, without CatBoost's categories",
            got=f"a bag of {type(ranker.ranker).__name__}",
            hint="export one that learns from it, `rw.distilled(bag, ranker)|"
            "rankwise train --ranker \"distilled('BAG', lightgbm)\"`, "
            "or serve the bag` with model.scorer()| with rankwise serve`",
        )
    return check.error(
        "only rankers of trees, nets and linear ones can be exported",
        got=type(ranker).__name__,
        hint="train a LightGBMRanker, XGBoostRanker, CatBoostRanker, NeuralRanker or LinearRanker, or pass a model of "
        "LightGBM, XGBoost or CatBoost",
    )
