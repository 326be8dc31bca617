"""CatBoost's binary format: numbers of splits, nodes and leaves, features, and statistics of categories.

The file is ``CBM1``, the length of the core, the core, and then, if there are statistics of categories, how many tables
and each with its length. Core and tables are FlatBuffers; fields are numbered as in CatBoost's schema.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.arrays import Column, offsets_of
from rankwise.rankers.verify import ForgedError, inside, refusing
from rankwise.rankers.verify.flatbuffer import Table

_VERSION, _STATISTICS = "FlabuffersModel_v1", "static_provider_v1"
_DEEPEST = 30
_PER_BUCKET = 254
_NO_LEAF = 2**32 - 1
_EMPTY = 2**64 - 1
_STEP = [("left", "<u2"), ("right", "<u2")]
_BIN = [("feature", "<u2"), ("mask", "u1"), ("split", "u1")]
_PLACE = [("hash", "<u8"), ("entry", "<u4")]
_BY_FLOAT, _BY_CATEGORY = [("index", "<i4"), ("border", "<f4")], [("index", "<i4"), ("value", "<i4")]
_BORDERS, _BUCKETS, _MEANS, _COUNTS = 0, 1, (2, 3), (4, 5)
"""Kinds of statistics."""


def verify(content: bytes, n_features: int) -> None:
    """Check a model of ``n_features`` features; an error says what of it cannot be."""
    with refusing():
        if not content.startswith(b"CBM1"):
            raise ForgedError("a file that does not begin as a model of CatBoost")
        core, *tables = _pieces(content[4:])
        _core(Table.root(core), tables, n_features)


def _pieces(content: bytes) -> Iterator[bytes]:
    """Cut the file into the core and the tables of statistics."""

    def piece(at: int) -> bytes:
        size = struct.unpack_from("<I", content, at)[0] if at + 4 <= len(content) else -1
        if not 0 <= size <= len(content) - at - 4:
            raise ForgedError(f"a length of {size:,}", f"byte {at + 4:,}")
        return content[at + 4 : at + 4 + size]

    core = piece(0)
    yield core
    at = 4 + len(core)
    if at == len(content):
        return
    count = struct.unpack_from("<I", content, at)[0] if at + 4 <= len(content) else -1
    at += 4
    if not 0 <= count <= len(content):
        raise ForgedError(f"{count:,} tables of statistics")
    for _ in range(count):
        table = piece(at)
        yield table
        at += 4 + len(table)
    if at != len(content):
        raise ForgedError(f"{len(content) - at:,} bytes after the end")


def _core(core: Table, tables: Sequence[bytes], n_features: int) -> None:
    trees, parts = core.table(1), core.texts(3)
    if core.text(0) != _VERSION or trees is None:
        raise ForgedError("another version of the format, or no trees")
    if parts != ([_STATISTICS] if tables else []) and not (parts == [_STATISTICS] and not tables):
        raise ForgedError("parts of a model that are not used here")
    for about in core.tables(2):
        about.text(0), about.text(1)
    if trees.number(0, "i") != 1 or any(trees.tables(field) for field in (12, 13, 18)):
        raise ForgedError("several scores of a document, or features that are texts")
    if trees.vector(16, np.float64).size > 1:
        raise ForgedError("more than one bias")
    floats, categories = trees.tables(5), trees.tables(4)
    _features(floats, categories, n_features)
    one_hot, statistics = trees.tables(6), trees.tables(7)
    for feature in one_hot:
        _between("a feature", feature.number(0, "i", -1), len(categories))
        feature.texts(2)
    _statistics(statistics, [Table.root(table) for table in tables], len(floats), len(categories))
    if not all(np.isfinite(one.vector(3, np.float32)).all() for one in floats):
        raise ForgedError("a border that is not finite")
    answers = [
        *(one.vector(3, np.float32).size for one in floats),
        *(one.vector(1, np.int32).size for one in one_hot),
        *(statistic.vector(1, np.float32).size for statistic in statistics),
    ]
    _trees(trees, sum(answers), sum(-(-count // _PER_BUCKET) for count in answers))


def _features(floats: Sequence[Table], categories: Sequence[Table], n_features: int) -> None:
    """Features are numbered from 0, in their kind and together."""
    places: list[int] = []
    names: list[str] = []
    for kind, number, place, named in ((floats, 1, 2, 4), (categories, 0, 1, 2)):
        if [one.number(number, "i", -1) for one in kind] != list(range(len(kind))):
            raise ForgedError("features that are not numbered from 0")
        places += [one.number(place, "i", -1) for one in kind]
        names += [one.text(named) for one in kind]
    if len(places) != n_features or sorted(places) != list(range(n_features)):
        raise ForgedError(f"other features than {n_features} columns")
    if len(set(names)) < len(names) or not all(name.isprintable() for name in names):
        raise ForgedError("two features of the same name, or names that cannot be printed")


def _trees(trees: Table, n_answers: int, n_buckets: int) -> None:
    splits, sizes, starts = (trees.vector(field, np.int32).astype(np.int64) for field in (1, 2, 3))
    values, weights = (trees.vector(field, np.float64) for field in (8, 9))
    steps, leaves = trees.vector(10, _STEP), trees.vector(11, np.uint32).astype(np.int64)
    bins = trees.vector(17, _BIN)
    if (sizes < 0).any() or sizes.sum() != splits.size or starts.size != sizes.size:
        raise ForgedError("sizes of trees that are not those of their splits")
    if not np.array_equal(starts, offsets_of(sizes)[:-1]):
        raise ForgedError("trees that do not begin where the one before ends")
    # A leaf of a tree that is not symmetric names the first split, also where there is none.
    leaf = (steps["left"] == 0) & (steps["right"] == 0) if steps.size == splits.size else np.zeros(splits.size, bool)
    if ((splits < 0) | (splits >= np.where(leaf, max(n_answers, 1), n_answers))).any():
        raise ForgedError(f"a split that is not among the {n_answers}")
    if bins.size != splits.size or (bins.size and bins["feature"].max() >= max(n_buckets, 1)):
        raise ForgedError("splits by features that are not there")
    biases = (trees.number(14, "d", 1.0), trees.number(15, "d", 0.0), trees.vector(16, np.float64))
    if not all(np.isfinite(one).all() for one in (values, weights, *biases)):
        raise ForgedError("a leaf that is not finite")
    if weights.size != values.size:
        raise ForgedError(f"{weights.size} weights of {values.size} leaves")
    if steps.size:
        _uneven(sizes, steps, leaves, values.size)
    elif leaves.size or (sizes > _DEEPEST).any() or (1 << sizes).sum() != values.size:
        raise ForgedError(f"{values.size} values of leaves, which are not those of the trees")


def _uneven(sizes: NDArray[np.int64], steps: Column, leaves: NDArray[np.int64], n_leaves: int) -> None:
    """Steps lead forward within a tree, to every node but the root once; where there is none, there is a leaf."""
    if steps.size != sizes.sum() or leaves.size != steps.size or not (sizes > 0).all():
        raise ForgedError("steps that are not those of the nodes")
    tree = np.repeat(np.arange(sizes.size), sizes)
    bounds = offsets_of(sizes)
    ends, places = bounds[1:][tree], np.arange(steps.size)
    met = np.zeros(steps.size, np.int64)
    met[bounds[:-1]] = 1
    for side in ("left", "right"):
        step = steps[side].astype(np.int64)
        if (places + step >= ends).any():
            raise ForgedError("a step out of its tree", f"tree {tree[np.argmax(places + step >= ends)]}")
        np.add.at(met, (places + step)[step > 0], 1)
    if (met != 1).any():
        raise ForgedError("a node that is met twice, or never", f"tree {tree[np.argmax(met != 1)]}")
    last = (steps["left"] == 0) | (steps["right"] == 0)
    if ((leaves >= n_leaves) & (last | (leaves != _NO_LEAF))).any():
        raise ForgedError(f"a leaf that is not among the {n_leaves}")


def _statistics(features: Sequence[Table], tables: Sequence[Table], n_floats: int, n_categories: int) -> None:
    """Check statistics of categories: which they are of, and that the tables hold what is looked up in them."""
    known: dict[Any, Table] = {}
    for number, table in enumerate(tables):
        with inside(f"table {number} of statistics"):
            base = _of(table.table(0), n_floats, n_categories)
            known[base] = table
            _table(table, base[0])
    for feature in features:
        about = feature.table(0)
        base = _of(None if about is None else about.table(0), n_floats, n_categories)
        if about is None or base not in known:
            raise ForgedError("a split by statistics that are not there")
        numbers = [about.number(field, "f", default) for field, default in ((2, 0.0), (3, 1.0), (4, 0.0), (5, 1.0))]
        if not np.isfinite(numbers).all() or not np.isfinite(feature.vector(1, np.float32)).all():
            raise ForgedError("statistics that are not finite")
        classes = known[base].number(4, "i")
        most = {_BORDERS: classes - 1, _BUCKETS: classes}.get(base[0], 1)
        if base[0] in (_BORDERS, _BUCKETS):
            _between("a class of labels", about.number(1, "i"), most)


def _of(base: Table | None, n_floats: int, n_categories: int) -> tuple[Any, ...]:
    """What statistics are of: their kind, and the combination of features."""
    combination = None if base is None else base.table(0)
    if base is None or combination is None:
        raise ForgedError("statistics of nothing")
    columns = combination.vector(0, np.int32)
    by_float, by_category = combination.vector(1, _BY_FLOAT), combination.vector(2, _BY_CATEGORY)
    for numbers, count in (
        (columns, n_categories),
        (by_float["index"], n_floats),
        (by_category["index"], n_categories),
    ):
        for number in numbers.tolist():
            _between("a feature", number, count)
    kind = base.number(1, "b")
    _between("a kind of statistics", kind, 6)
    return kind, base.number(2, "i"), columns.tobytes(), by_float.tobytes(), by_category.tobytes()


def _table(table: Table, kind: int) -> None:
    """A table is looked up by hash: places are a power of two, one is empty, and entries are there."""
    raw, blob, classes = table.vector(1, np.uint8), table.vector(2, np.uint8), table.number(4, "i")
    places = raw[: raw.size // 12 * 12].copy().view(_PLACE)
    if raw.size % 12 or places.size & (places.size - 1) or not (places["hash"] == _EMPTY).any():
        raise ForgedError("places that nothing can be found in")
    size = 8 if kind in _MEANS else 4 if kind in _COUNTS else 4 * classes
    if size < 4 or (kind not in (*_MEANS, *_COUNTS) and classes < 2) or blob.size % size:
        raise ForgedError(f"statistics of {blob.size} bytes, for {classes} classes of labels")
    if places["entry"].max() >= max(blob.size // size, 1):  # also of those that are empty
        raise ForgedError(f"an entry that is not among the {blob.size // size}")


def _between(what: str, number: int, count: int) -> None:
    if not 0 <= number < count:
        raise ForgedError(f"{what} of number {number}, where there are {max(count, 0)}")
