"""LightGBM's text: counts, indexes of features and nodes, and the lengths by which it finds its trees."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.arrays import offsets_of
from rankwise.rankers.verify import ForgedError, refusing

_WHOLE, _REAL = b"0123456789- ", b"0123456789-+.eEinfaNIF "
_PARAMETER = re.compile(rb"\[\w+: [^\"\\:]*(?:\]|[^\"\\:]:[^\"\\]*\])")
_AROUND = (b"parameters:", b"end of parameters")
_OBJECTIVES = (b"lambdarank", b"rank_xendcg", b"custom")

Fields = dict[bytes, bytes]
Whole = NDArray[np.int64]


def verify(content: bytes, n_features: int) -> None:
    """Check a model of ``n_features`` features; an error says what of it cannot be."""
    with refusing():
        _verify(content, n_features)


def _verify(content: bytes, n_features: int) -> None:
    head, start, _ = content.partition(b"\nTree=")
    if not content.startswith(b"tree\n") or not start or b"\r" in content or b"\0" in content:
        raise ForgedError("a text that does not begin as a model of LightGBM")
    sizes = _head(_fields(head.removeprefix(b"tree\n").rstrip(b"\n"), "the beginning"), n_features)
    at, trees = len(head) + 1, []
    for number, size in enumerate(sizes):
        block = content[at : at + size]
        if len(block) < size or not block.startswith(b"Tree=%d\n" % number):
            raise ForgedError(f"a length of {size} bytes that is not that of the tree", f"tree {number}")
        trees.append(_fields(block.rstrip(b"\n"), f"tree {number}"))
        at += size
    if not content[at:].startswith(b"end of trees\n"):
        raise ForgedError(f"the lengths of {len(trees)} trees, which end where the trees do not")
    _Forest(trees, n_features).verify()
    _tail(content[at:])


def _fields(block: bytes, where: str) -> Fields:
    """Read lines ``name=value``."""
    fields: Fields = {}
    for line in block.split(b"\n"):
        name, _, value = line.partition(b"=")
        if name in fields or not name:
            raise ForgedError("a line that is not name=value, or one name twice", where)
        fields[name] = value
    return fields


def _head(fields: Fields, n_features: int) -> list[int]:
    """Check the beginning; gives the lengths of the trees."""
    where = "the beginning"
    known = {"num_class": 1, "num_tree_per_iteration": 1, "max_feature_idx": n_features - 1}
    for name, value in known.items():
        if fields.get(name.encode()) != b"%d" % value:
            raise ForgedError(f"another {name} than {value}", where)
    if not fields.get(b"label_index", b"0").isdigit():
        raise ForgedError("another label_index than a number", where)
    for name in ("feature_names", "feature_infos"):
        count = len(fields.get(name.encode(), b"").split())
        if count != n_features:
            raise ForgedError(f"{count} {name} for {n_features} features", where)
    if fields.get(b"objective", b"custom").split(b" ")[0] not in _OBJECTIVES:
        raise ForgedError("an objective that ranks nothing", where)
    sizes = fields.get(b"tree_sizes", b"").split(b" ")
    if not all(size.isdigit() and len(size) < 16 for size in sizes):
        raise ForgedError("lengths of trees that are no numbers", where)
    return [int(size) for size in sizes]


class _Forest:
    """The fields of all trees, one after the other."""

    def __init__(self, trees: Sequence[Fields], n_features: int) -> None:
        self.trees, self.n_features = trees, n_features
        one = [1] * len(trees)
        self.leaves = self.whole("num_leaves", one, 1, 1 << 30)
        self.splits = self.leaves - 1
        self.sets = self.whole("num_cat", one, 0, 1 << 30)

    def verify(self) -> None:
        """Check everything that LightGBM looks up by number."""
        self.real("leaf_value", self.leaves)
        self.real("leaf_weight", self._unless_constant("leaf_weight"))
        for name in ("split_gain", "internal_value", "internal_weight"):
            self.real(name, self.splits)
        for name, counts in (("leaf_count", self._unless_constant("leaf_count")), ("internal_count", self.splits)):
            self.whole(name, counts, -(1 << 60), 1 << 60)
        self.whole("split_feature", self.splits, 0, self.n_features - 1)
        self._nodes()
        self._categories()
        self.real("shrinkage", [1] * len(self.trees))
        linear = self.whole("is_linear", [1] * len(self.trees), 0, 1)
        if linear.any():
            self._linear(linear)

    def _nodes(self) -> None:
        """Every node but the root, and every leaf, has one parent, which comes before it."""
        tree = np.repeat(np.arange(len(self.trees)), self.splits)
        first_split, first_leaf = offsets_of(self.splits), offsets_of(self.leaves)
        place = np.arange(tree.size) - first_split[tree]
        splits, leaves = np.zeros(first_split[-1], np.int64), np.zeros(first_leaf[-1], np.int64)
        for name in ("left_child", "right_child"):
            child = self.whole(name, self.splits, -(1 << 30), 1 << 30)
            inside = child >= 0
            outside = np.where(inside, child >= self.splits[tree], ~child >= self.leaves[tree])
            self._refuse(outside | (inside & (child <= place)), tree, f"a {name} that is no node below")
            np.add.at(splits, (first_split[tree] + child)[inside], 1)
            np.add.at(leaves, (first_leaf[tree] + ~child)[~inside], 1)
        splits[first_split[:-1][self.splits > 0]] += 1
        leaves[first_leaf[:-1][self.splits == 0]] += 1
        self._refuse(splits != 1, tree, "a node with no parent, or with two")
        self._refuse(leaves != 1, np.repeat(np.arange(len(self.trees)), self.leaves), "a leaf without one parent")

    def _categories(self) -> None:
        """Nodes of categories name a set, and sets lie within the list of bits."""
        kinds = self.whole("decision_type", self.splits, 0, 11)
        tree = np.repeat(np.arange(len(self.trees)), self.splits)
        chosen = self.real("threshold", self.splits)
        there = (chosen >= 0) & (chosen < self.sets[tree]) & (chosen == np.floor(chosen))
        self._refuse((kinds & 1 == 1) & ~there, tree, "a node of categories that are not there")
        for number in np.flatnonzero(self.sets).tolist():
            alone = _Column([self.trees[number]], f"tree {number}")
            borders = alone.whole("cat_boundaries", [int(self.sets[number]) + 1], 0, 1 << 40)
            alone.whole("cat_threshold", [int(borders[-1])], 0, (1 << 32) - 1)
            if borders[0] != 0 or (np.diff(borders) < 1).any():
                raise ForgedError("borders of categories that do not rise from 0", f"tree {number}")

    def _linear(self, linear: Whole) -> None:
        """Check leaves that hold linear models."""
        for number in np.flatnonzero(linear).tolist():
            fields, n_leaves = dict(self.trees[number]), int(self.leaves[number])
            for name in (b"leaf_features", b"leaf_coeff"):  # with blanks between leaves
                fields[name] = b" ".join(fields.get(name, b"").split())
            alone = _Column([fields], f"tree {number}")
            alone.real("leaf_const", [n_leaves])
            total = int(alone.whole("num_features", [n_leaves], 0, self.n_features).sum())
            alone.whole("leaf_features", [total], 0, self.n_features - 1)
            alone.real("leaf_coeff", [total])

    def _unless_constant(self, name: str) -> Whole:
        """One number of each leaf; of a tree that is one plain leaf, LightGBM need not write it and never reads it."""
        absent = [fields.get(name.encode()) == b"" and fields.get(b"is_linear") == b"0" for fields in self.trees]
        return np.where((self.splits == 0) & absent, 0, self.leaves)

    def whole(self, name: str, counts: Sequence[int] | Whole, least: int, most: int) -> Whole:
        """Read whole numbers, so many in each tree."""
        return _Column(self.trees).whole(name, counts, least, most)

    def real(self, name: str, counts: Sequence[int] | Whole) -> NDArray[np.float64]:
        """Read real numbers, so many in each tree."""
        return _Column(self.trees).real(name, counts)

    def _refuse(self, bad: NDArray[np.bool_], tree: Whole, what: str) -> None:
        if bad.any():
            raise ForgedError(what, f"tree {tree[np.argmax(bad)]}")


class _Column:
    """Fields of one name."""

    def __init__(self, trees: Sequence[Fields], where: str = "") -> None:
        self.trees, self.where = trees, where

    def whole(self, name: str, counts: Sequence[int] | Whole, least: int, most: int) -> Whole:
        values: Whole = self._numbers(name, counts, _WHOLE, np.int64)
        bad = (values < least) | (values > most)
        if bad.any():
            place = int(np.argmax(bad))
            raise ForgedError(
                f"{values[place]} in {name}, which must lie between {least} and {most}", self._of(place, counts)
            )
        return values

    def real(self, name: str, counts: Sequence[int] | Whole) -> NDArray[np.float64]:
        values: NDArray[np.float64] = self._numbers(name, counts, _REAL, np.float64)
        return values

    def _numbers(self, name: str, counts: Sequence[int] | Whole, letters: bytes, kind: Any) -> Any:
        key = name.encode()
        words: list[bytes] = []
        for number, (fields, count) in enumerate(zip(self.trees, counts, strict=True)):
            text = fields.get(key)
            found = [] if text is None else text.split(b" ") if text else []
            if text is None or len(found) != count or text.translate(None, letters):
                got = "none" if text is None else "something else" if len(found) == count else len(found)
                raise ForgedError(f"{got} where {count} numbers of {name} must be", self.where or f"tree {number}")
            words += found
        try:
            return np.array(words, kind)
        except (ValueError, OverflowError):
            raise ForgedError(f"something in {name} that is no number", self.where) from None

    def _of(self, place: int, counts: Sequence[int] | Whole) -> str:
        return self.where or f"tree {int(np.searchsorted(np.cumsum(counts), place, side='right'))}"


def _tail(text: bytes) -> None:
    """Check what comes after the trees: LightGBM takes its parameters apart, and Python reads the last line."""
    lines = text.split(b"\n")
    begins, ends = ([place for place, line in enumerate(lines) if line == word] for word in _AROUND)
    if len(begins) != len(ends) or len(begins) > 1 or begins > ends:
        raise ForgedError("no end or no beginning", "the parameters")
    for first, last in zip(begins, ends, strict=True):
        for line in filter(None, lines[first + 1 : last]):
            if not _PARAMETER.fullmatch(line):
                raise ForgedError("a line that is not [name: value]", "the parameters")
    categories = text.partition(b"\npandas_categorical:")[2].strip()
    if categories not in (b"", b"null", b"[]"):
        raise ForgedError("categories of pandas, which are not used here", "the last line")
