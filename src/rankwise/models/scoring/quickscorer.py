"""Scores of trees without walking through them: sixteen documents at a time, bit for bit those of the library.

Each tree has a word with a bit for every leaf, from the leftmost leaf up. A split whose answer is *right* rules out the
leaves on its left: it clears their bits. When all such splits have been heard, the lowest bit that is left belongs to
the leaf where the document ends, in whatever order they came. So splits are sorted by feature and threshold, not by
tree: for one value of a document those that it exceeds come first, and the rest need not be looked at. This is
QuickScorer (Lucchese et al., SIGIR 2015); splits of one tree that ask the same question are joined, as in RapidScorer
(Ye et al., KDD 2018), which leaves five for a symmetric tree of 32 leaves.

No step depends on the one before, and the same split is asked of sixteen documents in two or three instructions of the
CPU. Trees of more than 32 leaves have several words. Values are added up in the order of trees and in the
precision that the library uses, which is why sums are equal to the last bit.
"""

# ruff: noqa: ARG001 (Numba fixes the arguments of intrinsics)

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from rankwise.base.arrays import Array, Column, Floats, Offsets, offsets_of, read_only
from rankwise.base.compiling import kernel
from rankwise.models.formats.tree_arrays import LEAF, Nodes

_BITS = 32
_ALL = (1 << _BITS) - 1
_LANES = 16  # documents that are scored at a time


class SplitTable(NamedTuple):
    """The splits of all trees, sorted by feature: of feature ``features[j]`` those from ``starts[j]`` on."""

    features: NDArray[np.int64]
    starts: NDArray[np.int64]
    threshold: Floats
    word: NDArray[np.int64]
    mask: NDArray[np.uint32]
    missing_starts: NDArray[np.int64]
    """Of each feature, which leaves a missing value rules out: all its splits that send it right, word by word."""
    missing_word: NDArray[np.int64]
    missing_mask: NDArray[np.uint32]
    sets: NDArray[np.int64]
    """Splits by category: feature, word, whether missing goes left, and where their codes are in ``codes``."""
    set_mask: NDArray[np.uint32]
    codes: NDArray[np.uint32]
    first_word: NDArray[np.int64]
    """The first word of each tree, and the number of words."""
    values: Column
    """Of each word's 32 leaves."""
    base: float
    """What sums start from, where the library begins with it: XGBoost does."""
    bias: float
    """What is added to sums: CatBoost does so."""


def questions(nodes: Nodes) -> SplitTable:
    """Sort the splits of all trees."""
    compared: dict[tuple[int, float, int], int] = {}
    missing: dict[tuple[int, int], int] = {}
    sets: list[tuple[list[int], int]] = []
    codes: list[int] = []
    first_word, values = [0], []
    for first, last in nodes.trees():
        is_leaf = nodes.feature[first:last] == LEAF
        leaves_before = offsets_of(is_leaf).tolist()
        for node in (first + np.flatnonzero(~is_leaf)).tolist():
            feature, stays = int(nodes.feature[node]), bool(nodes.missing_left[node])
            on_left = leaves_before[nodes.left[node] - first], leaves_before[nodes.right[node] - first]
            place = [len(codes), 0]
            if node in nodes.categories:
                bits = _bitset(nodes.categories[node])
                codes += bits
                place[1] = len(codes)
            for number, mask in _masks(*on_left):
                word = first_word[-1] + number
                if node in nodes.categories:
                    sets.append(([feature, word, int(stays), *place], mask))
                    continue
                key = feature, float(nodes.threshold[node]), word
                compared[key] = compared.get(key, _ALL) & mask
                if not stays:
                    missing[feature, word] = missing.get((feature, word), _ALL) & mask
        leaves = nodes.value[first:last][is_leaf]
        words = -(-leaves.size // _BITS)
        values.append(np.pad(leaves, (0, words * _BITS - leaves.size)))
        first_word.append(first_word[-1] + words)
    splits, absent = sorted(compared), sorted(missing)
    features = np.array(sorted({feature for feature, *_ in splits}), np.int64)
    ends = np.append(features, np.iinfo(np.int64).max)
    return SplitTable(
        features=features,
        starts=np.searchsorted([feature for feature, *_ in splits], ends),
        threshold=np.array([threshold for _, threshold, _ in splits], np.float32),
        word=np.array([word for *_, word in splits], np.int64),
        mask=np.array([compared[key] for key in splits], np.uint32),
        missing_starts=np.searchsorted([feature for feature, _ in absent], ends),
        missing_word=np.array([word for _, word in absent], np.int64),
        missing_mask=np.array([missing[key] for key in absent], np.uint32),
        sets=np.array([row for row, _ in sets], np.int64).reshape(-1, 5),
        set_mask=np.array([mask for _, mask in sets], np.uint32),
        codes=np.array(codes, np.uint32),
        first_word=np.array(first_word, np.int64),
        values=np.concatenate(values).astype(np.float32 if nodes.single else np.float64),
        base=nodes.base if nodes.single else 0.0,
        bias=0.0 if nodes.single else nodes.base,
    )


def _masks(first: int, last: int) -> list[tuple[int, int]]:
    """The words in which leaves ``first`` to ``last`` lie, and what clears their bits there.

    >>> [(word, f"{mask:032b}") for word, mask in _masks(30, 33)]
    [(0, '00111111111111111111111111111111'), (1, '11111111111111111111111111111110')]
    """
    masks = []
    for word in range(first // _BITS, (last - 1) // _BITS + 1):
        low, high = max(first - word * _BITS, 0), min(last - word * _BITS, _BITS)
        masks.append((word, _ALL ^ ((1 << high) - (1 << low))))
    return masks


def _bitset(codes: tuple[int, ...]) -> list[int]:
    words = [0] * (max(codes, default=-1) // _BITS + 1)
    for code in codes:
        words[code // _BITS] |= 1 << code % _BITS
    return words


Ir = Any
"""A type, value or tool of Numba's and LLVM's intermediate code, which have no types."""


def _make_rule_out(_: Ir, bits: Ir, start: Ir, values: Ir, threshold: Ir, mask: Ir) -> Ir:
    """``bits[start + k] &= mask`` for every lane k with ``values[k] > threshold``, all lanes at once; NaN exceeds none.

    Written as a loop it stays one: Numba cannot know that the arrays do not overlap.
    """

    def generate(context: Ir, builder: Ir, signature: Ir, arguments: Ir) -> Ir:
        word, real = ir.IntType(32), ir.FloatType()
        row, lanes = ir.VectorType(word, _LANES), ir.VectorType(real, _LANES)

        def pointer(number: int, of: Ir, *offset: Ir) -> Ir:
            data = context.make_array(signature.args[number])(context, builder, arguments[number]).data
            return builder.bitcast(builder.gep(data, offset) if offset else data, of.as_pointer())

        def everywhere(value: Ir, of: Ir) -> Ir:
            nothing = ir.Constant(of, ir.Undefined)
            first = builder.insert_element(nothing, value, ir.Constant(word, 0))
            return builder.shuffle_vector(first, nothing, ir.Constant(row, [0] * _LANES))

        place = pointer(0, row, arguments[1])
        before, compared = builder.load(place, align=4), builder.load(pointer(2, lanes), align=4)
        exceeds = builder.fcmp_ordered(">", compared, everywhere(arguments[3], lanes))
        cleared = builder.and_(before, everywhere(arguments[4], row))
        builder.store(builder.select(exceeds, cleared, before), place, align=4)
        return context.get_dummy_value()

    return types.void(bits, types.intp, values, types.float32, types.uint32), generate


def _make_lowest(_: Ir, word: Ir) -> Ir:
    """The number of the lowest bit that is set."""

    def generate(_context: Ir, builder: Ir, _signature: Ir, arguments: Ir) -> Ir:
        return builder.zext(builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1)), ir.IntType(64))

    return types.intp(types.uint32), generate


_rule_out: Ir = intrinsic(_make_rule_out)
_lowest: Ir = intrinsic(_make_lowest)


@kernel
def _kernel(  # type: ignore[no-untyped-def]
    documents, features, starts, threshold, word, mask, missing_starts, missing_word, missing_mask, sets,
    set_mask, codes, first_word, values, base, bias, scores,
):  # fmt: skip
    count, trees = documents.shape[0], first_word.size - 1
    bits = np.empty(first_word[trees] * _LANES, np.uint32)
    lane, right = np.empty(_LANES, np.float32), np.empty(_LANES, np.float32)
    total = np.empty(_LANES, values.dtype)
    low, high = np.float32(-np.inf), np.float32(np.inf)
    for block in range(0, count, _LANES):
        rows = min(_LANES, count - block)
        bits[:] = np.uint32(_ALL)
        lane[:] = right[:] = low  # lanes without a document exceed nothing
        for j in range(features.size):
            feature, most, absent = features[j], low, False
            for k in range(rows):
                value = documents[block + k, feature]
                lane[k] = value
                most = max(most, value) if value == value else most
                absent |= value != value
            for i in range(starts[j], starts[j + 1]):
                if not most > threshold[i]:
                    break
                _rule_out(bits, word[i] * _LANES, lane, threshold[i], mask[i])
            if absent and missing_starts[j] < missing_starts[j + 1]:
                for k in range(rows):
                    right[k] = high if lane[k] != lane[k] else low
                for i in range(missing_starts[j], missing_starts[j + 1]):
                    _rule_out(bits, missing_word[i] * _LANES, right, np.float32(0.0), missing_mask[i])
        for i in range(set_mask.size):
            for k in range(rows):
                value = documents[block + k, sets[i, 0]]
                if value != value:
                    left = sets[i, 2] != 0
                else:
                    left = False
                    if 0.0 <= value < _BITS * (sets[i, 4] - sets[i, 3]):
                        code = np.int64(value)
                        left = (codes[sets[i, 3] + code // _BITS] >> np.uint32(code % _BITS)) & np.uint32(1) != 0
                right[k] = low if left else high
            _rule_out(bits, sets[i, 1] * _LANES, right, np.float32(0.0), set_mask[i])
        total[:] = base
        for tree in range(trees):
            first = first_word[tree]
            if first_word[tree + 1] == first + 1:
                for k in range(_LANES):
                    total[k] += values[first * _BITS + _lowest(bits[first * _LANES + k])]
                continue
            for k in range(_LANES):
                at = first
                while bits[at * _LANES + k] == 0:
                    at += 1
                total[k] += values[at * _BITS + _lowest(bits[at * _LANES + k])]
        for k in range(rows):
            scores[block + k] = total[k] + bias


def score(splits: SplitTable, documents: Floats) -> Array:
    """Score documents: a matrix of float32 that cannot be written to, rows one after the other."""
    scores = np.empty(documents.shape[0])
    _kernel(documents, *splits, scores)
    return scores


class Rearranged:
    """Trees whose splits are rearranged, as a function of documents."""

    rearranged = True

    def __init__(self, nodes: Nodes) -> None:
        self.splits = questions(nodes)

    def __call__(self, documents: Floats, offsets: Offsets | None) -> Array:
        """Score documents, each by itself."""
        return score(self.splits, read_only(documents, contiguous=False))
