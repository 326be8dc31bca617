"""XGBoost's binary JSON: lengths, indexes of features, nodes and categories, and that nodes are a tree."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.arrays import Column, Json, offsets_of
from rankwise.rankers.verify import ForgedError, inside, refusing
from rankwise.rankers.verify.ubjson import decode

_WHOLE = ("left_children", "right_children", "parents", "split_indices", "default_left", "split_type")
_REAL = ("split_conditions", "base_weights", "loss_changes", "sum_hessian")
_TYPES = ("q", "c", "i", "int", "float")
_MOST_CATEGORIES = 1 << 24
_NO_PARENT = (1 << 31) - 1


def verify(content: bytes, n_features: int) -> None:
    """Check a model of ``n_features`` features; an error says what of it cannot be."""
    with refusing():
        _verify(content, n_features)


def _verify(content: bytes, n_features: int) -> None:
    document = decode(content)
    learner = _get(document, "learner", dict)
    _count(_get(learner, "learner_model_param", dict), "num_feature", n_features, n_features)
    _count(_get(learner, "learner_model_param", dict), "num_class", 0, 1)
    _count(_get(learner, "learner_model_param", dict), "num_target", 1, 1)
    for name, known in (("feature_names", None), ("feature_types", _TYPES)):
        words = _get(learner, name, list)
        if len(words) not in (0, n_features) or not all(isinstance(word, str) for word in words):
            raise ForgedError(f"{len(words)} {name} for {n_features} features")
        if known is not None and not set(words) <= set(known):
            raise ForgedError(f"{name} that are not known")
    version = [*_whole(document, "version", 3, 0, 1 << 20)]
    if version[0] < 1:
        raise ForgedError(f"version {version[0]} of XGBoost")
    objective = _get(_get(learner, "objective", dict), "name", str)
    if not objective.startswith(("rank:", "reg:")):
        raise ForgedError(f"the objective {objective!r}, which ranks nothing")
    booster = _get(learner, "gradient_booster", dict)
    dart = _get(booster, "name", str) == "dart"
    plain = _get(booster, "gbtree", dict) if dart else booster
    if _get(plain, "name", str) != "gbtree":
        raise ForgedError("a model that is not made of trees")
    n_trees = _trees(_get(plain, "model", dict), n_features)
    if dart:
        _numbers(booster, "weight_drop", n_trees)


def _trees(model: Json, n_features: int) -> int:
    """Check the trees; gives how many there are."""
    trees = _get(model, "trees", list)
    about = _get(model, "gbtree_model_param", dict)
    _count(about, "num_trees", len(trees), len(trees))
    _count(about, "num_parallel_tree", 1, 1 << 20)
    _whole(model, "tree_info", len(trees), 0, 0)
    if "iteration_indptr" in model:
        ends = _whole(model, "iteration_indptr", None, 0, len(trees))
        if not ends.size or ends[0] != 0 or ends[-1] != len(trees) or (np.diff(ends) < 0).any():
            raise ForgedError("rounds that do not cover the trees")
    for values in _get(model, "cats", dict).values() if "cats" in model else ():
        if len(values):
            raise ForgedError("categories of a table, which are not used here")
    if sorted(_get(tree, "id", int) for tree in trees) != list(range(len(trees))):
        raise ForgedError("trees that are not numbered from 0")
    if trees:
        _Forest(trees, n_features).verify()
    return len(trees)


class _Forest:
    """The nodes of all trees, one tree after the other."""

    def __init__(self, trees: list[Json], n_features: int) -> None:
        self.trees, self.n_features = trees, n_features
        counts, deleted = [], []
        for number, tree in enumerate(trees):
            with inside(f"tree {number}"):
                about = _get(tree, "tree_param", dict)
                counts.append(_count(about, "num_nodes", 1, 1 << 30))
                deleted.append(_count(about, "num_deleted", 0, counts[-1]))
                _count(about, "num_feature", n_features, n_features)
                _count(about, "size_leaf_vector", 0, 1)
                for name in _REAL:
                    _numbers(tree, name, counts[-1])
                if not np.isfinite(tree["sum_hessian"]).all():
                    raise ForgedError("a weight of a node that is not finite")
        self.counts, self.deleted = np.array(counts), np.array(deleted)
        self.roots = offsets_of(self.counts)[:-1]

    def verify(self) -> None:
        """Check everything that XGBoost looks up by number."""
        whole = {name: self._column(name) for name in _WHOLE}
        tree = np.repeat(np.arange(self.counts.size), self.counts)
        nodes, roots = self.counts[tree], self.roots[tree]
        left, right, parents = (whole[name] for name in ("left_children", "right_children", "parents"))
        for child in (left, right):
            self._refuse((child < -1) | (child >= nodes), tree, "a child that is not there")
        self._refuse((left < 0) != (right < 0), tree, "a node with one child")
        self._refuse((parents < 0) | ((parents >= nodes) & (parents != _NO_PARENT)), tree, "a parent that is not there")
        used = self._reached(np.where(left < 0, -1, left + roots), np.where(right < 0, -1, right + roots), tree)
        lost = self.counts - np.bincount(tree[used], minlength=self.counts.size) - self.deleted
        self._refuse(lost != 0, np.arange(self.counts.size), "nodes that no path leads to")
        splits = used & (left >= 0)
        self._refuse(used & (parents == _NO_PARENT) != (np.arange(tree.size) == roots), tree, "a root inside a tree")
        for child in (left, right):
            wrong = np.zeros(tree.size, np.bool_)
            wrong[splits] = parents[(child + roots)[splits]] != (np.arange(tree.size) - roots)[splits]
            self._refuse(wrong, tree, "a child that names another parent")
        for name, most in (("split_indices", self.n_features - 1), ("split_type", 1), ("default_left", 1)):
            strange = (whole[name] < 0) | (whole[name] > most)
            what = f"something in {name} that does not lie between 0 and {most}"
            self._refuse(strange & (splits | (name != "split_indices")), tree, what)
        by_set = whole["split_type"] == 1
        for number, one in enumerate(self.trees):
            first = self.roots[number]
            with inside(f"tree {number}"):
                _categories(one, np.flatnonzero(by_set[first : first + self.counts[number]]), self.counts[number])

    def _reached(self, left: NDArray[np.int64], right: NDArray[np.int64], tree: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Go down from all roots, level by level; no node may be met twice."""
        times = np.zeros(tree.size, np.int64)
        level = self.roots
        while level.size:
            np.add.at(times, level, 1)
            self._refuse(times > 1, tree, "a node with two parents, or one above itself")
            level = np.concatenate((left[level], right[level]))
            level = level[level >= 0]
        return times > 0

    def _column(self, name: str) -> NDArray[np.int64]:
        """Whole numbers of all nodes."""
        found = []
        for number, (tree, count) in enumerate(zip(self.trees, self.counts.tolist(), strict=True)):
            with inside(f"tree {number}"):
                found.append(_numbers(tree, name, count, "iu"))
        return np.concatenate(found).astype(np.int64)

    def _refuse(self, bad: NDArray[np.bool_], tree: NDArray[np.int64], what: str) -> None:
        if bad.any():
            raise ForgedError(what, f"tree {tree[np.argmax(bad)]}")


def _categories(tree: object, nodes: NDArray[np.int64], n_nodes: int) -> None:
    """Check the sets of categories that nodes send to the right."""
    found = _whole(tree, "categories_nodes", None, 0, n_nodes - 1)
    codes = _whole(tree, "categories", None, 0, _MOST_CATEGORIES)
    starts = _whole(tree, "categories_segments", found.size, 0, codes.size)
    sizes = _whole(tree, "categories_sizes", found.size, 1, max(codes.size, 1))
    if (np.diff(found) < 1).any() or not np.isin(nodes, found).all() or (starts + sizes > codes.size).any():
        raise ForgedError("sets of categories that are not those of the nodes")


def _get(holder: object, name: str, kind: type) -> Any:
    found = holder.get(name) if isinstance(holder, dict) else None
    if not isinstance(found, kind):
        raise ForgedError(f"no {name}")
    return found


def _count(holder: Json, name: str, least: int, most: int) -> int:
    """Read a count, which XGBoost writes as text."""
    text = _get(holder, name, str)
    if not text.isdecimal() or not text.isascii() or len(text) > 18 or not least <= int(text) <= most:
        raise ForgedError(f"{text[:20]!r} as {name}, which must lie between {least} and {most}")
    return int(text)


def _numbers(holder: object, name: str, count: int | None, kinds: str = "iuf") -> Column:
    found = holder.get(name) if isinstance(holder, dict) else None
    if isinstance(found, list) and all(isinstance(one, int | float) for one in found):  # older files, and empty lists
        found = np.array(found, np.int64 if all(isinstance(one, int) for one in found) else np.float64)
    if not isinstance(found, np.ndarray) or found.dtype.kind not in kinds:
        raise ForgedError(f"no {name}")
    if count is not None and found.size != count:
        raise ForgedError(f"{found.size} numbers in {name} and not {count}")
    return found


def _whole(holder: object, name: str, count: int | None, least: int, most: int) -> NDArray[np.int64]:
    found = _numbers(holder, name, count, "iu")
    if found.size and not least <= found.min() <= found.max() <= most:
        raise ForgedError(f"something in {name} that does not lie between {least} and {most}")
    return found.astype(np.int64)
