"""Vectors of users and items: shapes that belong together, and lists of items that are there."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rankwise.arrays import Column, Ids
from rankwise.rankers.verify import ForgedError, refusing

_KINDS = {
    "user_vectors": ("float32", 2),
    "item_vectors": ("float32", 2),
    "item_bias": ("float32", 1),
    "popularity": ("float64", 1),
    "seen_offsets": ("int64", 1),
    "seen_items": ("int32", 1),
}
_LAST_LETTER = 0x10FFFF


def verify(arrays: Mapping[str, Column]) -> None:
    """Check the arrays of a factorization, ids among them; an error says what of them cannot be."""
    with refusing():
        for name in ("users", "items", *_KINDS):
            if name not in arrays:
                raise ForgedError(f"no {name}")
        for name, (kind, n_dimensions) in _KINDS.items():
            if arrays[name].dtype != kind or arrays[name].ndim != n_dimensions:
                raise ForgedError(f"{name} of the shape {arrays[name].shape} and the kind {arrays[name].dtype}")
        n_users, n_items = (_ids(arrays[name], name) for name in ("users", "items"))
        _size(arrays, n_users, n_items)
        _seen(arrays["seen_offsets"], arrays["seen_items"], n_items)


def _ids(ids: Ids, name: str) -> int:
    """Ids are whole numbers that rise, or rows of letters."""
    words = ids.ndim == 2 and ids.dtype == np.uint32 and ids.shape[1] > 0
    if not ids.size or not (words or (ids.ndim == 1 and ids.dtype.kind in "iu")):
        raise ForgedError(f"{name} of the shape {ids.shape} and the kind {ids.dtype}")
    if words:
        if ids.max() > _LAST_LETTER or ((ids >= 0xD800) & (ids < 0xE000)).any():
            raise ForgedError(f"something in {name} that is no letter")
        ids = np.ascontiguousarray(ids).view(f"U{ids.shape[1]}")[:, 0]
    if not (ids[:-1] < ids[1:]).all():
        raise ForgedError(f"{name} that do not rise")
    return len(ids)


def _size(arrays: Mapping[str, Column], n_users: int, n_items: int) -> None:
    size = arrays["user_vectors"].shape[1]
    shapes: dict[str, list[tuple[int, ...]]] = {
        "user_vectors": [(n_users, size)],
        "item_vectors": [(n_items, size)],
        "item_bias": [(n_items,), (0,)],
        "popularity": [(n_items,)],
        "seen_offsets": [(n_users + 1,)],
    }
    for name, possible in shapes.items():
        if arrays[name].shape not in possible:
            raise ForgedError(f"{name} of the shape {arrays[name].shape} for {n_users} users and {n_items} items")


def _seen(offsets: NDArray[np.int64], items: NDArray[np.int32], n_items: int) -> None:
    if offsets[0] != 0 or offsets[-1] != items.size or (np.diff(offsets) < 0).any():
        raise ForgedError("lists of items that do not follow each other")
    if items.size and not 0 <= items.min() <= items.max() < n_items:
        raise ForgedError(f"an item that is not among the {n_items}")
