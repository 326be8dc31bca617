"""Trees as plain arrays, whichever library grew them: what exports write and the scorer reads.

Each library compares in its own way, and all of them can be said in one: *a document goes left if its feature is at
most the threshold*, in float32. Features are float32, so nothing is lost:

- LightGBM asks ``x <= t`` of doubles. For a float32 x that is ``x <= t'`` with t' = t rounded down to float32.
- XGBoost asks ``x < t`` of floats. That is ``x <= t'`` with t' the float32 before t.
- CatBoost sends ``x > t`` to the right.

Where a missing value goes is settled too: LightGBM takes it for 0 in features without missing values in training.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.base.arrays import Array, Column, Floats
from rankwise.models.storage import InvalidModelError

LEAF = -1
Integers = NDArray[np.int64]


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
    n_features: int
    base: float = 0.0
    single: bool = False
    """Whether the library adds up in float32."""
    scaled: bool = False
    """Whether the library multiplies sums by a number, which is in ``value`` here: other sums in their last bit."""

    def trees(self) -> Iterator[tuple[int, int]]:
        """The first node of each tree and the first of the next one."""
        ends = [*self.roots[1:].tolist(), self.feature.size]
        return zip(self.roots.tolist(), ends, strict=True)


class ModelFile(Protocol):
    """The content of a model file, checked."""

    def nodes(self) -> Nodes:
        """Return the trees; raises :class:`CannotSplitError` if they are more than plain splits."""


class CannotSplitError(ValueError):
    """Trees that are more than plain splits."""


def cannot_split(got: str, hint: str) -> CannotSplitError:
    """Return an error about trees that nodes cannot express."""
    return CannotSplitError(*check.error("these trees are more than plain splits", got=got, hint=hint).args)


def arranged(
    *,
    roots: Integers,
    left: Integers,
    right: Integers,
    feature: Integers,
    threshold: Floats,
    missing_left: NDArray[np.bool_],
    value: Column,
    categories: Mapping[int, tuple[int, ...]] | None = None,
    **about: Any,
) -> Nodes:
    """Return nodes, numbered in any way, from each root down; the children of a leaf are −1.

    ``about`` are the fields of :class:`Nodes` that are not of single nodes.
    """
    order: list[int] = []
    starts, lefts, rights = [], left.tolist(), right.tolist()
    for root in roots.tolist():
        starts.append(len(order))
        waiting = [root]
        while waiting:
            node = waiting.pop()
            order.append(node)
            if lefts[node] >= 0:
                waiting += (rights[node], lefts[node])
    place = np.zeros(left.size, np.int64)
    place[order] = np.arange(len(order))
    leaf = left[order] < 0
    return Nodes(
        roots=np.array(starts, np.int32),
        feature=np.where(leaf, LEAF, feature[order]).astype(np.int32),
        threshold=np.where(leaf, np.float32(0.0), threshold[order]),
        left=np.where(leaf, 0, place[left[order]]).astype(np.int32),
        right=np.where(leaf, 0, place[right[order]]).astype(np.int32),
        missing_left=~leaf & missing_left[order],
        value=np.where(leaf, value[order], 0.0).astype(np.float64),
        categories={int(place[node]): codes for node, codes in sorted((categories or {}).items())},
        **about,
    )


def reached(roots: Integers, left: Integers, right: Integers, tree: Integers) -> NDArray[np.bool_]:
    """Return which nodes can be reached from the roots; an error if one is met twice. ``tree`` numbers their trees."""
    times = np.zeros(tree.size, np.int64)
    level = roots
    while level.size:
        np.add.at(times, level, 1)
        reject(times > 1, tree, "a node with two parents, or one above itself")
        level = np.concatenate((left[level], right[level]))
        level = level[level >= 0]
    return times > 0


def reject(bad: NDArray[np.bool_], tree: Integers, got: str) -> None:
    """Raise an error that names the first tree in which something is bad."""
    if bad.any():
        raise InvalidModelError(got, f"tree {tree[np.argmax(bad)]}")


def below(threshold: Array) -> Floats:
    """Round doubles down to float32: a float32 is at most the result exactly where it is at most the double."""
    with np.errstate(over="ignore"):
        rounded = np.asarray(threshold, np.float64).astype(np.float32)
    return np.where(rounded > threshold, np.nextafter(rounded, np.float32(-np.inf)), rounded)
