"""CatBoost's binary format: features with their borders, trees as numbers of splits, and statistics of categories.

The file is ``CBM1``, the length of the core, the core, and then, if there are statistics of categories, how many tables
and each with its length. Core and tables are FlatBuffers; fields are numbered as in CatBoost's schema. Splits are
numbered through all features: borders of numbers, then categories, then statistics of categories.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from rankwise.base.arrays import Column, offsets_of
from rankwise.models.formats.flatbuffer import FlatTable
from rankwise.models.formats.tree_arrays import Integers, Nodes, arranged, cannot_split, reached, reject
from rankwise.models.storage import InvalidModelError, inside

_VERSION, _STATISTICS = "FlabuffersModel_v1", "static_provider_v1"
_DEEPEST = 30
_PER_BUCKET = 254
_NO_LEAF = 2**32 - 1
_EMPTY = 2**64 - 1
_MISSING_RIGHT = 2
_STEP = [("left", "<u2"), ("right", "<u2")]
_BIN = [("feature", "<u2"), ("mask", "u1"), ("split", "u1")]
_PLACE = [("hash", "<u8"), ("entry", "<u4")]
_BY_FLOAT, _BY_CATEGORY = [("index", "<i4"), ("border", "<f4")], [("index", "<i4"), ("value", "<i4")]
_BORDERS, _BUCKETS, _MEANS, _COUNTS = 0, 1, (2, 3), (4, 5)
"""Kinds of statistics."""


class CatBoostModel:
    """A model of which everything that CatBoost looks up by number has been checked."""

    def __init__(self, content: bytes, n_features: int) -> None:
        if not content.startswith(b"CBM1"):
            raise InvalidModelError("a file that does not begin as a model of CatBoost")
        core_bytes, *tables = _pieces(content[4:])
        core, self.n_features = FlatTable.root(core_bytes), n_features
        trees, parts = core.table(1), core.texts(3)
        if core.text(0) != _VERSION or trees is None:
            raise InvalidModelError("another version of the format, or no trees")
        if parts != ([_STATISTICS] if tables else []) and not (parts == [_STATISTICS] and not tables):
            raise InvalidModelError("parts of a model that are not used here")
        for note in core.tables(2):
            note.text(0), note.text(1)
        if trees.number(0, "i") != 1 or any(trees.tables(field) for field in (12, 13, 18)):
            raise InvalidModelError("several scores of a document, or features that are texts")
        self.floats, self.categories = trees.tables(5), trees.tables(4)
        _check_features(self.floats, self.categories, n_features)
        self.one_hot, self.statistics = trees.tables(6), trees.tables(7)
        for feature in self.one_hot:
            _check_number("a feature", feature.number(0, "i", -1), len(self.categories))
            feature.texts(2)
        _check_statistics(
            self.statistics, [FlatTable.root(table) for table in tables], len(self.floats), len(self.categories)
        )
        self.borders = [one.vector(3, np.float32) for one in self.floats]
        if not all(np.isfinite(borders).all() for borders in self.borders):
            raise InvalidModelError("a border that is not finite")
        self._read_trees(trees)

    def _read_trees(self, trees: FlatTable) -> None:
        self.splits, self.sizes, starts = (trees.vector(field, np.int32).astype(np.int64) for field in (1, 2, 3))
        self.values, weights = (trees.vector(field, np.float64) for field in (8, 9))
        self.steps, self.leaves = trees.vector(10, _STEP), trees.vector(11, np.uint32).astype(np.int64)
        bins, biases = trees.vector(17, _BIN), trees.vector(16, np.float64)
        self.scale, bias = trees.number(14, "d", 1.0), trees.number(15, "d", 0.0)
        if biases.size > 1:
            raise InvalidModelError("more than one bias")
        self.bias = float(biases[0]) if biases.size else bias
        counts = [
            *(borders.size for borders in self.borders),
            *(feature.vector(1, np.int32).size for feature in self.one_hot),
            *(statistic.vector(1, np.float32).size for statistic in self.statistics),
        ]
        n_splits, n_buckets = sum(counts), sum(-(-count // _PER_BUCKET) for count in counts)
        splits, sizes, steps = self.splits, self.sizes, self.steps
        if (sizes < 0).any() or sizes.sum() != splits.size or starts.size != sizes.size:
            raise InvalidModelError("sizes of trees that are not those of their splits")
        if not np.array_equal(starts, offsets_of(sizes)[:-1]):
            raise InvalidModelError("trees that do not begin where the one before ends")
        # A leaf of a tree that is not symmetric names the first split, also where there is none.
        leaf = (
            (steps["left"] == 0) & (steps["right"] == 0) if steps.size == splits.size else np.zeros(splits.size, bool)
        )
        if ((splits < 0) | (splits >= np.where(leaf, max(n_splits, 1), n_splits))).any():
            raise InvalidModelError(f"a split that is not among the {n_splits}")
        if bins.size != splits.size or (bins.size and bins["feature"].max() >= max(n_buckets, 1)):
            raise InvalidModelError("splits by features that are not there")
        if not all(np.isfinite(numbers).all() for numbers in (self.values, weights, self.scale, bias, biases)):
            raise InvalidModelError("a leaf that is not finite")
        if weights.size != self.values.size:
            raise InvalidModelError(f"{weights.size} weights of {self.values.size} leaves")
        if steps.size:
            self._read_steps()
        elif self.leaves.size or (sizes > _DEEPEST).any() or (1 << sizes).sum() != self.values.size:
            raise InvalidModelError(f"{self.values.size} values of leaves, which are not those of the trees")

    def _read_steps(self) -> None:
        """Read trees that are not symmetric: steps lead forward to a node, and where there is none there is a leaf."""
        sizes, steps, leaves = self.sizes, self.steps, self.leaves
        if steps.size != sizes.sum() or leaves.size != steps.size or not (sizes > 0).all():
            raise InvalidModelError("steps that are not those of the nodes")
        tree, bounds, places = np.repeat(np.arange(sizes.size), sizes), offsets_of(sizes), np.arange(steps.size)
        sides = []
        for side in ("left", "right"):
            step = steps[side].astype(np.int64)
            reject(places + step >= bounds[1:][tree], tree, "a step out of its tree")
            sides.append(np.where(step > 0, places + step, -1))
        self.left, self.right = sides
        reject(~reached(bounds[:-1], self.left, self.right, tree), tree, "a node that is met twice, or never")
        last = (self.left < 0) | (self.right < 0)
        if ((leaves >= self.values.size) & (last | (leaves != _NO_LEAF))).any():
            raise InvalidModelError(f"a leaf that is not among the {self.values.size}")

    def owners(self) -> list[list[int]]:
        """Return the columns behind each split."""
        columns = [one.number(2, "i", -1) for one in self.floats]
        categories = [one.number(1, "i", -1) for one in self.categories]
        owners = [[column] for column, borders in zip(columns, self.borders, strict=True) for _ in borders]
        for feature in self.one_hot:
            owners += [[categories[feature.number(0, "i", -1)]]] * feature.vector(1, np.int32).size
        for statistic in self.statistics:
            combination: Any = statistic.table(0).table(0).table(0)  # type: ignore[union-attr]
            numbers = [*combination.vector(0, np.int32), *combination.vector(2, _BY_CATEGORY)["index"]]
            owners += [[categories[number] for number in numbers]] * statistic.vector(1, np.float32).size
        return owners

    def split_counts(self) -> Integers:
        """Return how many splits ask for each feature."""
        counts, owners = np.zeros(self.n_features, np.int64), self.owners()
        inner = self.splits[(self.left >= 0) | (self.right >= 0)] if self.steps.size else self.splits
        for split in inner.tolist():
            counts[owners[split]] += 1
        return counts

    def nodes(self) -> Nodes:
        """Return the trees."""
        columns = np.repeat(np.arange(len(self.floats)), [borders.size for borders in self.borders])
        borders = np.concatenate([np.empty(0, np.float32), *self.borders])
        roots, left, right, split, value = self._uneven() if self.steps.size else self._symmetric()
        if (split >= columns.size).any():
            raise cannot_split(
                "splits by categories, of which CatBoost keeps statistics or hashes",
                "train a LightGBMRanker or an XGBoostRanker on categories, or leave them out",
            )
        if not columns.size:  # of constants
            columns, borders = np.zeros(1, np.int64), np.zeros(1, np.float32)
        features = np.array([one.number(2, "i", -1) for one in self.floats] or [0])
        missing_left = np.array([one.number(5, "b") != _MISSING_RIGHT for one in self.floats] or [True])
        return arranged(
            roots=roots,
            left=left,
            right=right,
            feature=features[columns[split]],
            threshold=borders[split],
            missing_left=missing_left[columns[split]],
            value=self.scale * value,
            base=self.bias,
            n_features=self.n_features,
            scaled=self.scale != 1.0,
        )

    def _uneven(self) -> tuple[Column, ...]:
        """Roots, children, splits and values of nodes; a side that ends at a node becomes a leaf of its own."""
        n_nodes, ends = self.splits.size, (self.left < 0) & (self.right < 0)
        left, right = self.left.copy(), self.right.copy()
        split, leaf = np.where(ends, 0, self.splits), np.where(ends, self.leaves, 0)
        for side in (left, right):
            nodes = np.flatnonzero((side[:n_nodes] < 0) & ~ends)
            side[nodes] = leaf.size + np.arange(nodes.size)
            leaf = np.append(leaf, self.leaves[nodes])
        none = np.full(leaf.size - n_nodes, -1)
        roots, split = offsets_of(self.sizes)[:-1], np.append(split, np.zeros(none.size, np.int64))
        return roots, np.append(left, none), np.append(right, none), split, self.values[leaf]

    def _symmetric(self) -> tuple[Column, ...]:
        """The same of trees with one split for each level: answers are the bits of the leaf, the first the lowest."""
        roots, lefts, rights, splits, values = [0], [], [], [], []
        starts, leaves = offsets_of(self.sizes), offsets_of(1 << self.sizes)
        for first, last, leaf, end in zip(starts, starts[1:], leaves, leaves[1:], strict=False):
            depth = np.arange(last - first)
            levels = np.repeat(depth, 1 << depth)
            inner, none = np.arange(levels.size), np.full(int(end - leaf), -1)
            lefts += [roots[-1] + 2 * inner + 1, none]
            rights += [roots[-1] + 2 * inner + 2, none]
            splits += [self.splits[last - 1 - levels], np.zeros(none.size, np.int64)]
            values += [np.zeros(inner.size), self.values[leaf:end]]
            roots.append(roots[-1] + inner.size + none.size)
        columns = [np.concatenate(parts) for parts in (lefts, rights, splits, values)]
        return np.array(roots[:-1]), *columns


def _pieces(content: bytes) -> Iterator[bytes]:
    """Split the file into the core and the tables of statistics."""

    def piece(at: int) -> bytes:
        size = struct.unpack_from("<I", content, at)[0] if at + 4 <= len(content) else -1
        if not 0 <= size <= len(content) - at - 4:
            raise InvalidModelError(f"a length of {size:,}", f"byte {at + 4:,}")
        return content[at + 4 : at + 4 + size]

    core = piece(0)
    yield core
    at = 4 + len(core)
    if at == len(content):
        return
    count = struct.unpack_from("<I", content, at)[0] if at + 4 <= len(content) else -1
    at += 4
    if not 0 <= count <= len(content):
        raise InvalidModelError(f"{count:,} tables of statistics")
    for _ in range(count):
        table = piece(at)
        yield table
        at += 4 + len(table)
    if at != len(content):
        raise InvalidModelError(f"{len(content) - at:,} bytes after the end")


def _check_features(floats: Sequence[FlatTable], categories: Sequence[FlatTable], n_features: int) -> None:
    """Features are numbered from 0, in their kind and together."""
    places: list[int] = []
    names: list[str] = []
    for kind, number, place, named in ((floats, 1, 2, 4), (categories, 0, 1, 2)):
        if [one.number(number, "i", -1) for one in kind] != list(range(len(kind))):
            raise InvalidModelError("features that are not numbered from 0")
        places += [one.number(place, "i", -1) for one in kind]
        names += [one.text(named) for one in kind]
    if len(places) != n_features or sorted(places) != list(range(n_features)):
        raise InvalidModelError(f"other features than {n_features} columns")
    if len(set(names)) < len(names) or not all(name.isprintable() for name in names):
        raise InvalidModelError("two features of the same name, or names that cannot be printed")


def _check_statistics(
    features: Sequence[FlatTable], tables: Sequence[FlatTable], n_floats: int, n_categories: int
) -> None:
    """Check statistics of categories: which they are of, and that the tables hold what is looked up in them."""
    by_base: dict[Any, FlatTable] = {}
    for number, table in enumerate(tables):
        with inside(f"table {number} of statistics"):
            base = _base(table.table(0), n_floats, n_categories)
            by_base[base] = table
            _check_table(table, base[0])
    for feature in features:
        entry = feature.table(0)
        base = _base(None if entry is None else entry.table(0), n_floats, n_categories)
        if entry is None or base not in by_base:
            raise InvalidModelError("a split by statistics that are not there")
        numbers = [entry.number(field, "f", default) for field, default in ((2, 0.0), (3, 1.0), (4, 0.0), (5, 1.0))]
        if not np.isfinite(numbers).all() or not np.isfinite(feature.vector(1, np.float32)).all():
            raise InvalidModelError("statistics that are not finite")
        classes = by_base[base].number(4, "i")
        most = {_BORDERS: classes - 1, _BUCKETS: classes}.get(base[0], 1)
        if base[0] in (_BORDERS, _BUCKETS):
            _check_number("a class of labels", entry.number(1, "i"), most)


def _base(base: FlatTable | None, n_floats: int, n_categories: int) -> tuple[Any, ...]:
    """What statistics are of: their kind, and the combination of features."""
    combination = None if base is None else base.table(0)
    if base is None or combination is None:
        raise InvalidModelError("statistics of nothing")
    columns = combination.vector(0, np.int32)
    by_float, by_category = combination.vector(1, _BY_FLOAT), combination.vector(2, _BY_CATEGORY)
    for numbers, count in (
        (columns, n_categories),
        (by_float["index"], n_floats),
        (by_category["index"], n_categories),
    ):
        for number in numbers.tolist():
            _check_number("a feature", number, count)
    kind = base.number(1, "b")
    _check_number("a kind of statistics", kind, 6)
    return kind, base.number(2, "i"), columns.tobytes(), by_float.tobytes(), by_category.tobytes()


def _check_table(table: FlatTable, kind: int) -> None:
    """A table is looked up by hash: places are a power of two, one is empty, and entries are there."""
    raw, blob, classes = table.vector(1, np.uint8), table.vector(2, np.uint8), table.number(4, "i")
    places = raw[: raw.size // 12 * 12].copy().view(_PLACE)
    if raw.size % 12 or places.size & (places.size - 1) or not (places["hash"] == _EMPTY).any():
        raise InvalidModelError("places that nothing can be found in")
    size = 8 if kind in _MEANS else 4 if kind in _COUNTS else 4 * classes
    if size < 4 or (kind not in (*_MEANS, *_COUNTS) and classes < 2) or blob.size % size:
        raise InvalidModelError(f"statistics of {blob.size} bytes, for {classes} classes of labels")
    if places["entry"].max() >= max(blob.size // size, 1):  # also of those that are empty
        raise InvalidModelError(f"an entry that is not among the {blob.size // size}")


def _check_number(what: str, number: int, count: int) -> None:
    if not 0 <= number < count:
        raise InvalidModelError(f"{what} of number {number}, where there are {max(count, 0)}")
