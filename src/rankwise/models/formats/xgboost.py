"""XGBoost's binary JSON: the learner, and the nodes of each tree in arrays of one length."""

import itertools
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from rankwise.base.arrays import Column, Json, offsets_of
from rankwise.data.categories import Values
from rankwise.models.formats.tree_arrays import Integers, Nodes, arranged, reached, reject
from rankwise.models.formats.ubjson import decode
from rankwise.models.storage import InvalidModelError, inside

_WHOLE = ("left_children", "right_children", "parents", "split_indices", "default_left", "split_type")
_REAL = ("split_conditions", "base_weights", "loss_changes", "sum_hessian")
_TYPES = ("q", "c", "i", "int", "float")
_MOST_CATEGORIES = 1 << 24
_NO_PARENT = (1 << 31) - 1


class XGBoostModel:
    """A model of which everything that XGBoost looks up by number has been checked."""

    def __init__(self, content: bytes, n_features: int) -> None:
        document = decode(content)
        learner = _get(document, "learner", dict)
        self.parameters, self.n_features = _get(learner, "learner_model_param", dict), n_features
        self._check_head(document, learner)
        booster = _get(learner, "gradient_booster", dict)
        self.dart = _get(booster, "name", str) == "dart"
        plain = _get(booster, "gbtree", dict) if self.dart else booster
        if _get(plain, "name", str) != "gbtree":
            raise InvalidModelError("a model that is not made of trees")
        model = _get(plain, "model", dict)
        self.trees: list[Json] = _get(model, "trees", list)
        self._check_rounds(model)
        self.weights = _numbers(booster, "weight_drop", len(self.trees)) if self.dart else None
        self._read_nodes()

    def _check_head(self, document: Json, learner: Json) -> None:
        n_features = self.n_features
        for name, least, most in (("num_feature", n_features, n_features), ("num_class", 0, 1), ("num_target", 1, 1)):
            _count(self.parameters, name, least, most)
        for name, types in (("feature_names", None), ("feature_types", _TYPES)):
            words = _get(learner, name, list)
            if len(words) not in (0, n_features) or not all(isinstance(word, str) for word in words):
                raise InvalidModelError(f"{len(words)} {name} for {n_features} features")
            if types is not None and not set(words) <= set(types):
                raise InvalidModelError(f"{name} that are not known")
        self.base = _score(self.parameters)
        version = [*_whole(document, "version", 3, 0, 1 << 20)]
        if version[0] < 1:
            raise InvalidModelError(f"version {version[0]} of XGBoost")
        objective = _get(_get(learner, "objective", dict), "name", str)
        if not objective.startswith(("rank:", "reg:")):
            raise InvalidModelError(f"the objective {objective!r}, which ranks nothing")

    def _check_rounds(self, model: Json) -> None:
        count, parameters = len(self.trees), _get(model, "gbtree_model_param", dict)
        _count(parameters, "num_trees", count, count)
        _count(parameters, "num_parallel_tree", 1, 1 << 20)
        _whole(model, "tree_info", count, 0, 0)
        if "iteration_indptr" in model:
            ends = _whole(model, "iteration_indptr", None, 0, count)
            if not ends.size or ends[0] != 0 or ends[-1] != count or (np.diff(ends) < 0).any():
                raise InvalidModelError("rounds that do not cover the trees")
        for values in _get(model, "cats", dict).values() if "cats" in model else ():
            if len(values):
                raise InvalidModelError("categories of a table, which are not used here")
        if sorted(_get(tree, "id", int) for tree in self.trees) != list(range(count)):
            raise InvalidModelError("trees that are not numbered from 0")

    def _read_nodes(self) -> None:
        """Read the nodes of all trees, one tree after the other, and check that they are trees."""
        counts, deleted = [], []
        columns: dict[str, list[Column]] = {name: [np.empty(0, np.int64)] for name in _WHOLE}
        for number, tree in enumerate(self.trees):
            with inside(f"tree {number}"):
                parameters = _get(tree, "tree_param", dict)
                counts.append(_count(parameters, "num_nodes", 1, 1 << 30))
                deleted.append(_count(parameters, "num_deleted", 0, counts[-1]))
                _count(parameters, "num_feature", self.n_features, self.n_features)
                _count(parameters, "size_leaf_vector", 0, 1)
                for name in _REAL:
                    tree[name] = _numbers(tree, name, counts[-1])
                if not np.isfinite(tree["sum_hessian"]).all():
                    raise InvalidModelError("a weight of a node that is not finite")
                for name in _WHOLE:
                    columns[name].append(_numbers(tree, name, counts[-1], "iu"))
        sizes, bounds = np.array(counts, np.int64), offsets_of(counts)
        self.columns = {name: np.concatenate(parts).astype(np.int64) for name, parts in columns.items()}
        self.roots, owner = bounds[:-1], np.repeat(np.arange(sizes.size), sizes)
        first, n_nodes = self.roots[owner], sizes[owner]
        children, parents = [self.columns[name] for name in _WHOLE[:2]], self.columns["parents"]
        for child in children:
            reject((child < -1) | (child >= n_nodes), owner, "a child that is not there")
        reject((children[0] < 0) != (children[1] < 0), owner, "a node with one child")
        reject((parents < 0) | ((parents >= n_nodes) & (parents != _NO_PARENT)), owner, "a parent that is not there")
        self.left, self.right = (np.where(child < 0, -1, child + first) for child in children)
        used = reached(self.roots, self.left, self.right, owner)
        lost = sizes - np.bincount(owner[used], minlength=sizes.size) - np.array(deleted, np.int64)
        reject(lost != 0, np.arange(sizes.size), "nodes that no path leads to")
        splits, numbers = used & (self.left >= 0), np.arange(owner.size)
        reject(used & (parents == _NO_PARENT) != (numbers == first), owner, "a root inside a tree")
        for child in (self.left, self.right):
            wrong = np.zeros(owner.size, np.bool_)
            wrong[splits] = (parents[child] + first != numbers)[splits]
            reject(wrong, owner, "a child that names another parent")
        for name, most in (("split_indices", self.n_features - 1), ("split_type", 1), ("default_left", 1)):
            strange = (self.columns[name] < 0) | (self.columns[name] > most)
            what = f"something in {name} that does not lie between 0 and {most}"
            reject(strange & (splits | (name != "split_indices")), owner, what)
        self.codes: dict[int, tuple[int, ...]] = {}
        for number, (one, start, end) in enumerate(zip(self.trees, bounds, bounds[1:], strict=False)):
            with inside(f"tree {number}"):
                by_category = np.flatnonzero(self.columns["split_type"][start:end] == 1)
                sets = _categories(one, by_category, int(end - start))
            self.codes |= {int(start) + node: codes for node, codes in sets.items()}

    def nodes(self) -> Nodes:
        """Return the trees; a category that XGBoost sends to the right goes left here."""
        base = self.base
        conditions = [np.asarray(tree["split_conditions"], np.float32) for tree in self.trees]
        values = conditions
        if self.weights is not None:  # of dart, where a tree is scored with the base, which is taken off again
            pairs = zip(conditions, self.weights, strict=True)
            values = [((leaves + base) - base) * np.float32(weight) for leaves, weight in pairs]
        by_category = np.zeros(self.left.size, np.bool_)
        by_category[[*self.codes]] = True
        by_category &= self.left >= 0
        threshold = np.nextafter(np.concatenate(conditions), np.float32(-np.inf))
        return arranged(
            roots=self.roots,
            left=np.where(by_category, self.right, self.left),
            right=np.where(by_category, self.left, self.right),
            feature=self.columns["split_indices"],
            threshold=np.where(by_category, np.float32(0.0), threshold),
            missing_left=(self.columns["default_left"] == 1) != by_category,
            value=np.concatenate(values),
            categories={node: codes for node, codes in self.codes.items() if by_category[node]},
            base=float(base),
            single=True,
            n_features=self.n_features,
        )


class XGBoostDocument:
    """A model that XGBoost wrote: its parts can be changed, and JSON is written."""

    def __init__(self, content: bytes) -> None:
        self.document: Json = decode(content)
        self.learner: Json = self.document["learner"]
        self.parameters: Json = self.learner["learner_model_param"]
        self.booster: Json = self.learner["gradient_booster"]
        self.model: Json = self.booster.get("gbtree", self.booster)["model"]

    def scale(self, factor: np.float32) -> None:
        """Multiply the leaves."""
        for tree in self.model["trees"]:
            leaves = np.asarray(tree["left_children"]) == -1
            tree["split_conditions"] = tree["split_conditions"] * np.where(leaves, factor, np.float32(1.0))
            tree["base_weights"] = tree["base_weights"] * factor

    def take_categories(self) -> dict[int, Values]:
        """Remove and return the values of categories that a table had, by column; codes are their places."""
        categories: dict[int, Values] = {}
        for column, entry in enumerate(self.model.get("cats", {}).get("enc", [])):
            if "offsets" not in entry:
                categories[column] = tuple(np.asarray(entry["values"]).tolist())
            elif len(entry["values"]):
                letters = np.asarray(entry["values"], np.int8).tobytes()
                categories[column] = tuple(letters[i:j].decode() for i, j in itertools.pairwise(entry["offsets"]))
        if categories:
            self.model["cats"] = {"enc": [], "feature_segments": [], "sorted_idx": []}
        return categories

    def json(self) -> bytes:
        """Write the model; XGBoost reads no escapes."""
        return json.dumps(self.document, ensure_ascii=False, default=lambda array: array.tolist()).encode()


def join_models(contents: Sequence[bytes], factors: Sequence[float]) -> bytes:
    """Return models as one in JSON, leaves and the scores that sums start from scaled by the factor of each."""
    documents = [XGBoostDocument(content) for content in contents]
    trees: list[Json] = []
    info, ends = [], [0]
    for document, factor in zip(documents, factors, strict=True):
        document.scale(np.float32(factor))
        info += [*document.model["tree_info"]]
        ends += [len(trees) + end for end in document.model["iteration_indptr"][1:]]
        trees += document.model["trees"]
    for number, tree in enumerate(trees):
        tree["id"] = number
    documents[0].model |= {"trees": trees, "tree_info": info, "iteration_indptr": ends}
    documents[0].model["gbtree_model_param"]["num_trees"] = str(len(trees))
    starts = [float(_score(document.parameters)) for document in documents]
    if any(starts):
        before = documents[0].parameters["base_score"]  # in brackets since XGBoost 3.1
        start = repr(float(np.dot(starts, factors)))
        documents[0].parameters["base_score"] = f"[{start}]" if before.startswith("[") else start
    return documents[0].json()


def _categories(tree: Json, by_category: Integers, n_nodes: int) -> dict[int, tuple[int, ...]]:
    """Read the sets of categories that nodes send to the right."""
    nodes = _whole(tree, "categories_nodes", None, 0, n_nodes - 1)
    codes = _whole(tree, "categories", None, 0, _MOST_CATEGORIES)
    starts = _whole(tree, "categories_segments", nodes.size, 0, codes.size)
    sizes = _whole(tree, "categories_sizes", nodes.size, 1, max(codes.size, 1))
    ends = starts + sizes
    if (np.diff(nodes) < 1).any() or not np.isin(by_category, nodes).all() or (ends > codes.size).any():
        raise InvalidModelError("sets of categories that are not those of the nodes")
    rows = zip(nodes.tolist(), starts.tolist(), ends.tolist(), strict=True)
    return {node: tuple(codes[start:end].tolist()) for node, start, end in rows}


def _get(holder: object, name: str, kind: type) -> Any:
    value = holder.get(name) if isinstance(holder, dict) else None
    if not isinstance(value, kind):
        raise InvalidModelError(f"no {name}")
    return value


def _count(holder: Json, name: str, least: int, most: int) -> int:
    """Read a count, which XGBoost writes as text."""
    text = _get(holder, name, str)
    if not text.isdecimal() or not text.isascii() or len(text) > 18 or not least <= int(text) <= most:
        raise InvalidModelError(f"{text[:20]!r} as {name}, which must lie between {least} and {most}")
    return int(text)


def _score(parameters: Json) -> np.float32:
    """Read the score that sums start from."""
    text = _get(parameters, "base_score", str)
    try:
        return np.float32(text.strip("[]"))
    except ValueError:
        raise InvalidModelError(f"{text[:20]!r} as base_score") from None


def _numbers(holder: object, name: str, count: int | None, kinds: str = "iuf") -> Column:
    values = holder.get(name) if isinstance(holder, dict) else None
    if isinstance(values, list) and all(isinstance(one, int | float) for one in values):  # older files, empty lists
        values = np.array(values, np.int64 if all(isinstance(one, int) for one in values) else np.float64)
    if not isinstance(values, np.ndarray) or values.dtype.kind not in kinds:
        raise InvalidModelError(f"no {name}")
    if count is not None and values.size != count:
        raise InvalidModelError(f"{values.size} numbers in {name} and not {count}")
    return values


def _whole(holder: object, name: str, count: int | None, least: int, most: int) -> Integers:
    values = _numbers(holder, name, count, "iu")
    if values.size and not least <= values.min() <= values.max() <= most:
        raise InvalidModelError(f"something in {name} that does not lie between {least} and {most}")
    return values.astype(np.int64)
