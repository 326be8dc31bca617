"""LightGBM's text: a beginning, trees of lines ``name=value`` found by their lengths, and parameters of training."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rankwise.base.arrays import Array, Floats, offsets_of
from rankwise.models.formats.tree_arrays import Integers, Nodes, arranged, below, cannot_split, reached, reject
from rankwise.models.storage import InvalidModelError

_WHOLE, _REAL = b"0123456789- ", b"0123456789-+.eEinfaNIF "
_PARAMETER = re.compile(rb"\[\w+: [^\"\\:]*(?:\]|[^\"\\:]:[^\"\\]*\])")
_AROUND = (b"parameters:", b"end of parameters")
_RANKING = ("lambdarank", "rank_xendcg")
PANDAS = b"\npandas_categorical:"
_TRAINING = re.compile(rb"\nparameters:\n.*?\nend of parameters\n", re.DOTALL)
_SCALED = (b"leaf_value", b"internal_value", b"leaf_const", b"leaf_coeff", b"shrinkage")
"""Fields of a tree in units of scores, and the share of its step that was taken."""
_LEVELS = (b"leaf_value", b"internal_value", b"leaf_const")
"""Fields of a tree that move with its scores."""
_BY_CATEGORY, _MISSING_LEFT = 1, 2
_ZERO, _NAN = 1, 2
"""Bits of ``decision_type``, and the kinds of missing values above them."""

Fields = dict[bytes, bytes]
Counts = Sequence[int] | Integers


class LightGBMText:
    """A model: the fields of its beginning and of each tree."""

    def __init__(self, content: bytes) -> None:
        head, start, _ = content.partition(b"\nTree=")
        if not content.startswith(b"tree\n") or not start or b"\r" in content or b"\0" in content:
            raise InvalidModelError("a text that does not begin as a model of LightGBM")
        self.head = _fields(head.removeprefix(b"tree\n").rstrip(b"\n"), "the beginning")
        self.trees: list[Fields] = []
        at = len(head) + 1
        sizes = self.head.get(b"tree_sizes", b"").split(b" ")
        if not all(size.isdigit() and len(size) < 16 for size in sizes):
            raise InvalidModelError("lengths of trees that are no numbers", "the beginning")
        for number, size in enumerate(map(int, sizes)):
            block = content[at : at + size]
            if len(block) < size or not block.startswith(b"Tree=%d\n" % number):
                raise InvalidModelError(f"a length of {size} bytes that is not that of the tree", f"tree {number}")
            self.trees.append(_fields(block.rstrip(b"\n"), f"tree {number}"))
            at += size
        self.tail = content[at:]
        if not self.tail.startswith(b"end of trees\n"):
            raise InvalidModelError(f"the lengths of {len(self.trees)} trees, which end where the trees do not")

    @property
    def objective(self) -> str:
        """What it was trained with."""
        return self.head.get(b"objective", b"custom").split(b" ")[0].decode(errors="replace")

    def for_ranking(self) -> bytes:
        """Return the model with an objective that ranks, and without what it says about training: it may name files."""
        ranks = self.objective in _RANKING
        head = {name: value for name, value in self.head.items() if ranks or name != b"objective"}
        tail = _TRAINING.sub(b"\n", self.tail.rpartition(PANDAS)[0])
        return with_objective(_written(head, self.trees, tail + PANDAS + b"null\n").decode()).encode()


class LightGBMModel(LightGBMText):
    """A model of which everything that LightGBM looks up by number has been checked."""

    def __init__(self, content: bytes, n_features: int) -> None:
        super().__init__(content)
        self.n_features = n_features
        self._check_head()
        one = [1] * len(self.trees)
        self.leaves = _whole(self.trees, "num_leaves", one, 1, 1 << 30)
        self.splits = self.leaves - 1
        self.sets = _whole(self.trees, "num_cat", one, 0, 1 << 30)
        self.tree = np.repeat(np.arange(self.splits.size), self.splits)
        """The tree of each split."""
        self.value = _real(self.trees, "leaf_value", self.leaves)
        for name in ("split_gain", "internal_value", "internal_weight"):
            _real(self.trees, name, self.splits)
        _real(self.trees, "leaf_weight", self._unless_constant("leaf_weight"))
        for name, counts in (("leaf_count", self._unless_constant("leaf_count")), ("internal_count", self.splits)):
            _whole(self.trees, name, counts, -(1 << 60), 1 << 60)
        self.feature = _whole(self.trees, "split_feature", self.splits, 0, n_features - 1)
        self._read_children()
        self._read_decisions()
        _real(self.trees, "shrinkage", one)
        self.linear = _whole(self.trees, "is_linear", one, 0, 1)
        self._check_linear()
        _check_tail(self.tail)

    def _check_head(self) -> None:
        where, fields = "the beginning", self.head
        counts = {"num_class": 1, "num_tree_per_iteration": 1, "max_feature_idx": self.n_features - 1}
        for name, value in counts.items():
            if fields.get(name.encode()) != b"%d" % value:
                raise InvalidModelError(f"another {name} than {value}", where)
        if not fields.get(b"label_index", b"0").isdigit():
            raise InvalidModelError("another label_index than a number", where)
        for name in ("feature_names", "feature_infos"):
            count = len(fields.get(name.encode(), b"").split())
            if count != self.n_features:
                raise InvalidModelError(f"{count} {name} for {self.n_features} features", where)
        if self.objective not in (*_RANKING, "custom"):
            raise InvalidModelError("an objective that ranks nothing", where)

    def _read_children(self) -> None:
        """Number the splits of all trees, then the leaves of all; children come after their parent, and have one."""
        first_split, first_leaf = offsets_of(self.splits), self.tree.size + offsets_of(self.leaves)
        place = np.arange(self.tree.size) - first_split[self.tree]
        none = np.full(self.value.size, -1)
        sides = []
        for name in ("left_child", "right_child"):
            child = _whole(self.trees, name, self.splits, -(1 << 30), 1 << 30)
            split = child >= 0
            outside = np.where(split, child >= self.splits[self.tree], ~child >= self.leaves[self.tree])
            reject(outside | (split & (child <= place)), self.tree, f"a {name} that is no node below")
            split_or_leaf = np.where(split, first_split[self.tree] + child, first_leaf[self.tree] + ~child)
            sides.append(np.append(split_or_leaf, none))
        self.left, self.right = sides
        self.roots = np.where(self.splits > 0, first_split[:-1], first_leaf[:-1])
        tree = np.append(self.tree, np.repeat(np.arange(self.leaves.size), self.leaves))
        reject(~reached(self.roots, self.left, self.right, tree), tree, "a node with no parent")

    def _read_decisions(self) -> None:
        """Read thresholds; nodes of categories name a set there, and sets lie within the list of bits."""
        self.kind = _whole(self.trees, "decision_type", self.splits, 0, 11)
        self.threshold = _real(self.trees, "threshold", self.splits)
        number = self.threshold
        exists = (number >= 0) & (number < self.sets[self.tree]) & (number == np.floor(number))
        by_category = self.kind & _BY_CATEGORY == 1
        reject(by_category & ~exists, self.tree, "a node of categories that are not there")
        self.codes: dict[int, tuple[int, ...]] = {}
        for tree in np.flatnonzero(self.sets).tolist():
            alone, where = [self.trees[tree]], f"tree {tree}"
            bounds = _whole(alone, "cat_boundaries", [int(self.sets[tree]) + 1], 0, 1 << 40, where)
            words = _whole(alone, "cat_threshold", [int(bounds[-1])], 0, (1 << 32) - 1, where)
            if bounds[0] != 0 or (np.diff(bounds) < 1).any():
                raise InvalidModelError("borders of categories that do not rise from 0", where)
            for node in np.flatnonzero(by_category & (self.tree == tree)).tolist():
                first, last = bounds[int(number[node]) : int(number[node]) + 2]
                bits = np.unpackbits(words[first:last].astype("<u4").view(np.uint8), bitorder="little")
                self.codes[node] = tuple(np.flatnonzero(bits).tolist())

    def _check_linear(self) -> None:
        """Check leaves that hold linear models."""
        for tree in np.flatnonzero(self.linear).tolist():
            fields, n_leaves, where = dict(self.trees[tree]), int(self.leaves[tree]), f"tree {tree}"
            for name in (b"leaf_features", b"leaf_coeff"):  # with blanks between leaves
                fields[name] = b" ".join(fields.get(name, b"").split())
            _real([fields], "leaf_const", [n_leaves], where)
            total = int(_whole([fields], "num_features", [n_leaves], 0, self.n_features, where).sum())
            _whole([fields], "leaf_features", [total], 0, self.n_features - 1, where)
            _real([fields], "leaf_coeff", [total], where)

    def _unless_constant(self, name: str) -> Integers:
        """One number of each leaf; of a tree that is one plain leaf, LightGBM need not write it and never reads it."""
        absent = [fields.get(name.encode()) == b"" and fields.get(b"is_linear") == b"0" for fields in self.trees]
        return np.where((self.splits == 0) & absent, 0, self.leaves)

    def nodes(self) -> Nodes:
        """Return the trees."""
        if self.linear.any():
            raise cannot_split("leaves that hold linear models (linear_tree)", "train without linear_tree")
        by_category = self.kind & _BY_CATEGORY == 1
        missing = self.kind >> 2 & 3
        if (~by_category & (missing == _ZERO)).any():
            raise cannot_split("zeros that stand for missing values (zero_as_missing)", "train without it")
        missing_left = np.where(missing == _NAN, self.kind & _MISSING_LEFT > 0, self.threshold >= 0.0) & ~by_category
        leaves, threshold = np.zeros(self.value.size), _without_specks(below(self.threshold))
        return arranged(
            roots=self.roots,
            left=self.left,
            right=self.right,
            feature=np.append(self.feature, leaves.astype(np.int64)),
            threshold=np.append(np.where(by_category, np.float32(0.0), threshold), leaves.astype(np.float32)),
            missing_left=np.append(missing_left, leaves > 0),
            value=np.append(np.zeros(self.tree.size), self.value),
            categories=self.codes,
            n_features=self.n_features,
        )


def join_models(contents: Sequence[bytes], factors: Sequence[float]) -> bytes:
    """Return one model that scores as the weighted sum of models, up to the order in which trees are added."""
    texts = [LightGBMText(content) for content in contents]
    pairs = zip(texts, factors, strict=True)
    trees = [_scaled(tree, factor) for text, factor in pairs for tree in text.trees]
    infos = zip(*(text.head[b"feature_infos"].split() for text in texts), strict=True)
    return _written(texts[0].head | {b"feature_infos": b" ".join(map(_info, infos))}, trees, texts[0].tail)


def shifted(content: bytes, constant: float) -> bytes:
    """Return a model that scores higher by a constant: its first tree does."""
    text = LightGBMText(content)
    first, *others = text.trees
    return _written(text.head, [_changed(first, _LEVELS, lambda value: value + constant), *others], text.tail)


def _written(head: Fields, trees: Sequence[Fields], tail: bytes) -> bytes:
    """Write a model; trees are numbered anew."""
    numbered = (tree | {b"Tree": b"%d" % number} for number, tree in enumerate(trees))
    blocks = [b"\n".join((*_lines(tree), b"", b"", b"")) for tree in numbered]
    head = head | {b"tree_sizes": b" ".join(b"%d" % len(block) for block in blocks)}
    return b"\n".join((b"tree", *_lines(head), b"", b"".join(blocks))) + tail


def with_objective(text: str) -> str:
    """Name an objective in a model that was trained with ours.

    Other tools refuse a file without one. Scores of ``lambdarank`` are the plain sums of the leaves, as ours are.
    """
    head, trees, rest = text.partition("\ntree_sizes=")
    if "\nobjective=" not in head:
        head = head.replace("\nfeature_names=", "\nobjective=lambdarank\nfeature_names=", 1)
    return head + trees + rest


def _fields(block: bytes, where: str) -> Fields:
    """Read lines ``name=value``."""
    fields: Fields = {}
    for line in block.split(b"\n"):
        name, _, value = line.partition(b"=")
        if name in fields or not name:
            raise InvalidModelError("a line that is not name=value, or one name twice", where)
        fields[name] = value
    return fields


def _lines(fields: Fields) -> list[bytes]:
    return [name + b"=" + value for name, value in fields.items()]


def _scaled(tree: Fields, factor: float) -> Fields:
    """Scale what a tree adds to scores; numbers are written so that they are read as they are."""
    return _changed(tree, _SCALED, lambda value: factor * value)


def _changed(tree: Fields, names: Sequence[bytes], change: Callable[[float], float]) -> Fields:
    """Change the numbers of some fields."""
    changed = {
        name: b" ".join(repr(change(float(value))).encode() if value else b"" for value in tree[name].split(b" "))
        for name in names
        if name in tree
    }
    return tree | changed


def _info(ranges: Sequence[bytes]) -> bytes:
    """What LightGBM says about a feature: ``[least:most]``, codes of categories ``0:1:3``, or ``none``."""
    seen = [text for text in ranges if text != b"none"]
    if not seen:
        return b"none"
    if not seen[0].startswith(b"["):
        return b":".join(b"%d" % code for code in sorted({int(code) for text in seen for code in text.split(b":")}))
    ends = [text.strip(b"[]").split(b":") for text in seen]
    return b"[%b:%b]" % (min((low for low, _ in ends), key=float), max((high for _, high in ends), key=float))


def _whole(trees: Sequence[Fields], name: str, counts: Counts, least: int, most: int, where: str = "") -> Integers:
    """Read whole numbers, so many in each tree."""
    values: Integers = _numbers(trees, name, counts, _WHOLE, np.int64, where)
    bad = (values < least) | (values > most)
    if bad.any():
        place = int(np.argmax(bad))
        where = where or f"tree {int(np.searchsorted(np.cumsum(counts), place, side='right'))}"
        raise InvalidModelError(f"{values[place]} in {name}, which must lie between {least} and {most}", where)
    return values


def _real(trees: Sequence[Fields], name: str, counts: Counts, where: str = "") -> Array:
    """Read real numbers, so many in each tree."""
    values: Array = _numbers(trees, name, counts, _REAL, np.float64, where)
    return values


def _numbers(trees: Sequence[Fields], name: str, counts: Counts, letters: bytes, kind: type, where: str) -> Any:
    key = name.encode()
    words: list[bytes] = []
    for number, (fields, count) in enumerate(zip(trees, counts, strict=True)):
        text = fields.get(key)
        listed = text.split(b" ") if text else []
        if text is None or len(listed) != count or text.translate(None, letters):
            got = "none" if text is None else "something else" if len(listed) == count else len(listed)
            raise InvalidModelError(f"{got} where {count} numbers of {name} must be", where or f"tree {number}")
        words += listed
    try:
        return np.array(words, kind)
    except (ValueError, OverflowError):
        raise InvalidModelError(f"something in {name} that is no number", where) from None


def _without_specks(threshold: Floats) -> Floats:
    """LightGBM takes values as small as 1e-35 for 0: a threshold among them lies on one side of all of these."""
    speck = np.float32(1e-35)
    beneath: Floats = np.where(threshold < 0, np.nextafter(-speck, np.float32(-1.0)), speck)
    return np.where(np.abs(threshold) <= speck, beneath, threshold)


def _check_tail(text: bytes) -> None:
    """Check what comes after the trees: LightGBM takes its parameters apart, and Python reads the last line."""
    lines = text.split(b"\n")
    begins, ends = ([place for place, line in enumerate(lines) if line == word] for word in _AROUND)
    if len(begins) != len(ends) or len(begins) > 1 or begins > ends:
        raise InvalidModelError("no end or no beginning", "the parameters")
    for first, last in zip(begins, ends, strict=True):
        for line in filter(None, lines[first + 1 : last]):
            if not _PARAMETER.fullmatch(line):
                raise InvalidModelError("a line that is not [name: value]", "the parameters")
    categories = text.partition(PANDAS)[2].strip()
    if categories not in (b"", b"null", b"[]"):
        raise InvalidModelError("categories of pandas, which are not used here", "the last line")
