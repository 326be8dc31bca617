"""Trees as plain arrays, whatever library grew them: what exports write down and the scorer walks through.

Each library compares in its own way, and all of them can be said in one: *a document goes left if its feature is at
most the threshold*, in float32. Features are float32, so nothing is lost:

- LightGBM asks ``x <= t`` of doubles. For a float32 x that is ``x <= t'`` with t' = t rounded down to float32.
- XGBoost asks ``x < t`` of floats. That is ``x <= t'`` with t' the float32 before t.
- CatBoost sends ``x > t`` to the right.

Where a missing value goes is settled too: LightGBM takes it for 0 in features without missing values in training.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.arrays import Array, Column, Floats, Json, Keywords

if TYPE_CHECKING:
    from rankwise.rankers.trees.catboost_model import CatBoostForest
    from rankwise.rankers.trees.protocol import Forest
    from rankwise.rankers.trees.ranker import TreeRanker
    from rankwise.rankers.trees.xgboost import XGBoostForest

LEAF = -1
Node = TypeVar("Node")


@dataclass(frozen=True)
class Nodes:
    """The nodes of all trees, tree after tree, each tree from its root down.

    A document at node i goes to ``left[i]`` if its value of ``feature[i]`` is at most ``threshold[i]``, or for a node
    of ``categories`` if its code is among those there; else to ``right[i]``. NaN goes left where ``missing_left[i]``.
    At a leaf, where ``feature[i]`` is −1, it gets ``value[i]``. A score is ``base`` and one value of each tree.
    """

    roots: NDArray[np.int32]
    feature: NDArray[np.int32]
    threshold: Floats
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    missing_left: NDArray[np.bool_]
    value: Array
    categories: dict[int, tuple[int, ...]]
    base: float
    single: bool
    """Whether the library adds up in float32."""
    n_features: int
    scaled: bool = False
    """Whether the library multiplies sums by a number, which is in ``value`` here: other sums in their last bit."""

    def trees(self) -> Iterator[tuple[int, int]]:
        """The first node of each tree and the first of the next one."""
        ends = [*self.roots[1:].tolist(), self.feature.size]
        return zip(self.roots.tolist(), ends, strict=True)

    def grown(self, **more: Sequence[float] | Column) -> "Nodes":
        """Add nodes after the last: ``feature``, ``left``, ``right`` and ``value`` of each; and change ``roots``."""
        empty = {"threshold": np.zeros(len(more["feature"])), "missing_left": np.ones(len(more["feature"]))}
        columns: Keywords = {
            name: np.append(getattr(self, name), added).astype(getattr(self, name).dtype)
            for name, added in (more | empty).items()
            if name != "roots"
        }
        return replace(self, roots=np.asarray(more["roots"], np.int32), **columns)

    def depths(self) -> NDArray[np.int32]:
        """How many splits lie above each node; parents come before their children."""
        depth = np.zeros(self.feature.size, np.int32)
        for node in np.flatnonzero(self.feature != LEAF).tolist():
            depth[self.left[node]] = depth[self.right[node]] = depth[node] + 1
        return depth


class _Growing:
    """Nodes while they are collected."""

    def __init__(self) -> None:
        self.roots: list[int] = []
        self.rows: list[list[Any]] = []
        self.categories: dict[int, tuple[int, ...]] = {}

    def leaf(self, value: float) -> int:
        """Add a leaf."""
        self.rows.append([LEAF, 0.0, 0, 0, False, value])
        return len(self.rows) - 1

    def split(self, feature: int, threshold: object, missing_left: bool, codes: tuple[int, ...] | None = None) -> int:
        """Add a split, whose children are set when they are known."""
        self.rows.append([feature, threshold, 0, 0, missing_left, 0.0])
        if codes is not None:
            self.categories[len(self.rows) - 1] = codes
        return len(self.rows) - 1

    def finish(self, *, base: float, single: bool, n_features: int, scaled: bool = False) -> Nodes:
        feature, threshold, left, right, missing, value = zip(*self.rows, strict=True)
        return Nodes(
            roots=np.array(self.roots, np.int32),
            feature=np.array(feature, np.int32),
            threshold=np.array(threshold, np.float32),
            left=np.array(left, np.int32),
            right=np.array(right, np.int32),
            missing_left=np.array(missing, np.bool_),
            value=np.array(value, np.float64),
            categories=self.categories,
            base=base,
            single=single,
            n_features=n_features,
            scaled=scaled,
        )

    def grow(self, root: Node, visit: Callable[[Node], tuple[int, tuple[Node, Node] | None]]) -> None:
        """Add a tree from its root down; ``visit`` adds one node and names its children."""
        waiting: list[tuple[Node, int, int]] = [(root, -1, 0)]
        self.roots.append(len(self.rows))
        while waiting:
            node, parent, side = waiting.pop()
            here, children = visit(node)
            if parent >= 0:
                self.rows[parent][side] = here
            if children is not None:
                waiting += [(children[1], here, 3), (children[0], here, 2)]


def nodes_of(model: "TreeRanker") -> Nodes:
    """Give the trees of a trained tree ranker; an error says what of them cannot be written so."""
    readers: dict[str, Callable[[Any, int], Nodes]] = {
        "lightgbm": _lightgbm,
        "xgboost": _xgboost,
        "catboost": _catboost,
    }
    forest = model.model_
    model.library.threads()  # XGBoost writes trees in parallel
    return readers[model.library.name](forest, model.n_features_in_)


def below(threshold: Array) -> Floats:
    """Round doubles down to float32: a float32 is at most the result exactly where it is at most the double."""
    with np.errstate(over="ignore"):
        rounded = np.asarray(threshold, np.float64).astype(np.float32)
    return np.where(rounded > threshold, np.nextafter(rounded, np.float32(-np.inf)), rounded)


def _lightgbm(forest: "Forest", n_features: int) -> Nodes:
    growing = _Growing()
    for block in forest.content().decode().partition("\nend of trees\n")[0].split("\nTree=")[1:]:
        fields = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if fields.get("is_linear", "0") != "0":
            raise _impossible("leaves that hold linear models (linear_tree)", "train without linear_tree")
        _lightgbm_tree(growing, fields)
    return growing.finish(base=0.0, single=False, n_features=n_features)


def _without_specks(threshold: Floats) -> Floats:
    """LightGBM takes values as small as 1e-35 for 0: a threshold among them lies on one side of all of these."""
    speck = np.float32(1e-35)
    beneath = np.where(threshold < 0, np.nextafter(-speck, np.float32(-1.0)), speck)
    return np.where(np.abs(threshold) <= speck, beneath, threshold)


def _lightgbm_tree(growing: _Growing, fields: dict[str, str]) -> None:
    names = ("split_feature", "decision_type", "left_child", "right_child", "cat_boundaries", "cat_threshold")
    feature, kind, left, right, borders, words = (_integers(fields.get(name, "")) for name in names)
    values = [float(word) for word in fields["leaf_value"].split()]
    thresholds = np.array(fields.get("threshold", "").split(), np.float64)
    rounded = _without_specks(below(thresholds))

    def visit(node: int) -> tuple[int, tuple[int, int] | None]:
        if node < 0:
            return growing.leaf(values[~node]), None
        children = left[node], right[node]
        how, limit = kind[node], thresholds[node]
        if how & 1:
            first, last = borders[int(limit) : int(limit) + 2]
            return growing.split(feature[node], 0.0, False, _codes(words[first:last])), children
        missing = how >> 2 & 3
        if missing == 1:
            raise _impossible("zeros that stand for missing values (zero_as_missing)", "train without it")
        missing_left = bool(how & 2) if missing == 2 else bool(limit >= 0.0)
        return growing.split(feature[node], rounded[node], missing_left), children

    growing.grow(0 if feature else -1, visit)


def _xgboost(forest: "XGBoostForest", n_features: int) -> Nodes:
    learner = json.loads(forest.booster.save_raw("json"))["learner"]
    booster = learner["gradient_booster"]
    trees = booster.get("gbtree", booster)["model"]["trees"]
    weights = booster.get("weight_drop", [1.0] * len(trees))
    base = np.float32(str(learner["learner_model_param"]["base_score"]).strip("[]"))
    growing = _Growing()
    for tree, weight in zip(trees, weights, strict=True):
        leaves = np.array(tree["split_conditions"], np.float32)
        if "weight_drop" in booster:  # of dart, where a tree is scored with the base, which is taken off again
            leaves = ((leaves + base) - base) * np.float32(weight)
        _xgboost_tree(growing, tree, leaves)
    return growing.finish(base=float(base), single=True, n_features=n_features)


def _xgboost_tree(growing: _Growing, tree: Json, values: Floats) -> None:
    left, right, feature, default_left = (
        tree[name] for name in ("left_children", "right_children", "split_indices", "default_left")
    )
    conditions = np.array(tree["split_conditions"], np.float32)
    before = np.nextafter(conditions, np.float32(-np.inf))
    places = (tree[f"categories_{name}"] for name in ("nodes", "segments", "sizes"))
    codes = {node: tuple(tree["categories"][first : first + size]) for node, first, size in zip(*places, strict=True)}

    def visit(node: int) -> tuple[int, tuple[int, int] | None]:
        if left[node] == -1:
            return growing.leaf(float(values[node])), None
        missing_left = bool(default_left[node])
        if node in codes:  # which XGBoost sends to the right
            return growing.split(feature[node], 0.0, not missing_left, codes[node]), (right[node], left[node])
        return growing.split(feature[node], before[node], missing_left), (left[node], right[node])

    growing.grow(0, visit)


def _catboost(forest: "CatBoostForest", n_features: int) -> Nodes:
    text = forest._text()
    columns = text["features_info"].get("float_features", [])
    number = [one["flat_feature_index"] for one in columns]
    missing_left = [one["nan_value_treatment"] != "AsTrue" for one in columns]
    scale, (base,) = text["scale_and_bias"]
    growing = _Growing()

    def split(of: Json) -> int:
        if of["split_type"] != "FloatFeature":
            raise _impossible(
                "splits by categories, of which CatBoost keeps statistics or hashes",
                "train a LightGBMRanker or an XGBoostRanker on categories, or leave them out",
            )
        column = of["float_feature_index"]
        return growing.split(number[column], of["border"], missing_left[column])

    def visit(node: Json) -> tuple[int, tuple[Json, Json] | None]:
        if "split" not in node:
            return growing.leaf(scale * node["value"]), None
        return split(node["split"]), (node["left"], node["right"])

    for tree in text.get("trees", ()):
        growing.grow(tree, visit)
    for tree in text.get("oblivious_trees", ()):
        _oblivious_tree(growing, tree["splits"] or [], [scale * value for value in tree["leaf_values"]], split)
    return growing.finish(base=float(base), single=False, n_features=n_features, scaled=scale != 1.0)


def _oblivious_tree(growing: _Growing, splits: list[Json], values: list[float], split: Callable[[Json], int]) -> None:
    """A tree with one split for each level: its answers are the bits of the leaf's number, the first the lowest."""

    def visit(at: tuple[int, int]) -> tuple[int, tuple[tuple[int, int], tuple[int, int]] | None]:
        level, leaf = at
        if not level:
            return growing.leaf(values[leaf]), None
        return split(splits[level - 1]), ((level - 1, leaf), (level - 1, leaf | 1 << (level - 1)))

    growing.grow((len(splits), 0), visit)


def _integers(text: str) -> list[int]:
    return [int(word) for word in text.split()]


def _codes(words: list[int]) -> tuple[int, ...]:
    """The numbers of the bits that are set."""
    return tuple(32 * place + bit for place, word in enumerate(words) for bit in range(32) if word >> bit & 1)


class CannotSplitError(ValueError):
    """Trees that are more than plain splits."""


def _impossible(what: str, hint: str) -> ValueError:
    return CannotSplitError(str(check.error("these trees are more than plain splits", got=what, hint=hint)))
