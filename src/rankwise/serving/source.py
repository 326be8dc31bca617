"""What is to be written, seen the same way by every format."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from rankwise import check
from rankwise.models.formats.nodes import LEAF, Nodes, nodes_of
from rankwise.rankers.base import Ranker
from rankwise.rankers.ensembles.calibrated import CalibratedRanker
from rankwise.rankers.table import load
from rankwise.rankers.trees.ranker import TreeRanker
from rankwise.rankers.trees.wrap import wrapped
from rankwise.statistics.calibration import Curve

if TYPE_CHECKING:
    from rankwise.models.nets.mlp import Perceptron


class Written(NamedTuple):
    """What becomes of a model."""

    content: bytes
    load: str
    """How the file is loaded where it goes to."""


@dataclass(frozen=True)
class ExportSource:
    """A trained ranker on its way out."""

    model: Ranker
    names: tuple[str, ...] | None
    """What features are called there."""
    path: Path
    """The file that it goes to."""
    curve: Curve | None = None
    """The curve from scores to probabilities of a calibrated ranker."""

    @classmethod
    def of(cls, model: object, names: Sequence[str] | None, path: Path) -> "ExportSource":
        """Return the source of a ranker, of a model of another library, or of the folder of a ranker."""
        ranker: Any = load(model) if isinstance(model, str | Path) else wrapped(model) or model
        curve = None
        while hasattr(ranker, "ranker_"):  # what a ranker made of others has become
            if isinstance(ranker, CalibratedRanker):
                if curve is not None:
                    raise check.error("a ranker that was calibrated twice has no one curve", hint="calibrate it once")
                curve = ranker.curve
            ranker = ranker.ranker_
        if not isinstance(ranker, TreeRanker) and getattr(ranker, "name", "") != "neural":
            if getattr(ranker, "name", "") == "blended":
                raise check.error(
                    "a blend can be exported where all its members are trees of one library",
                    got=str(ranker.objective),
                    hint='search with rw.AutoRanker(prefer="fast"), blend such members alone, or train one ranker with '
                    "rw.distilled(blend, ranker)",
                )
            if getattr(ranker, "name", "") == "bagged":
                raise check.error(
                    "a bag can be exported where its members make one forest: trees, without CatBoost's categories",
                    got=f"a bag of {type(ranker.ranker).__name__}",
                    hint="export one that learns from it, `rw.distilled(bag, ranker)|rankwise train --teacher BAG`, or "
                    "serve the bag` with model.scorer()| with rankwise serve`",
                )
            raise check.error(
                "only rankers of trees and nets can be exported",
                got=type(ranker).__name__,
                hint="train a LightGBMRanker, XGBoostRanker, CatBoostRanker or NeuralRanker, or pass a model of "
                "LightGBM, XGBoost or CatBoost",
            )
        ranker._check_fitted()
        if ranker.needs_lists:
            raise check.error(
                "exported models score documents one by one, and this net looks at whole lists",
                got=repr(ranker),
                hint="train with `attention=0` and a transform without query, or serve model.scorer()",
            )
        ranker._schema.reject_start("exported models")
        checked = check.feature_names(names, ranker.n_features_in_)
        return cls(ranker, checked or ranker._schema.names, path, curve)

    @property
    def title(self) -> str:
        """What the model is called there."""
        return self.path.name.partition(".")[0]

    @property
    def n_features(self) -> int:
        """How many features documents have."""
        return int(self.model.n_features_in_)

    @property
    def net(self) -> "Perceptron | None":
        """The net, if it is one."""
        return None if isinstance(self.model, TreeRanker) else self.model.model_  # type: ignore[attr-defined]

    def trees(self, system: str, *, categories: bool = True) -> Nodes:
        """Return the trees, a constant of the model as one more; an error if there are none, or none for the system."""
        if self.net is not None:
            raise check.error(
                f"{system} takes trees, and no nets",
                got=type(self.model).__name__,
                hint="export the net to onnx, or train a ranker of trees",
            )
        nodes = nodes_of(cast("TreeRanker", self.model))
        if nodes.categories and not categories:
            column = int(nodes.feature[next(iter(nodes.categories))])
            raise check.error(
                f"{system} asks of a feature only whether it is below a number",
                got=f"splits by category, of column {column}",
                hint="make a column of 0 and 1 for each category, or export to onnx, treelite or vespa",
            )
        if nodes.base:
            roots = [*nodes.roots, nodes.feature.size]
            nodes = nodes.grown(roots=roots, feature=[LEAF], left=[0], right=[0], value=[nodes.base])
        return replace(nodes, base=0.0)

    def known_names(self, system: str) -> tuple[str, ...]:
        """Return the names of features, without which the system could not find them."""
        if self.names is None:
            raise check.error(
                f"{system} finds features by their names, and the model was trained without",
                hint=f"name all {self.n_features} with `names=[…]`, in the order of training",
            )
        return self.names
