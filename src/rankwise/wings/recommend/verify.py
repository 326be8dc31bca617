"""Arrays of recommenders: shapes that belong together, lists of items that are there, ids that rise."""

from collections.abc import Mapping

import numpy as np

from rankwise.base.arrays import Column, Ids
from rankwise.models import InvalidModelError, rejecting

Kinds = Mapping[str, tuple[str, tuple[tuple[str, ...], ...]]]
"""Name -> (dtype, the shapes that it may have, in letters: n users, m items, any other letter one size of its own)."""

KNOWN: Kinds = {
    "popularity": ("float64", (("m",),)),
    "seen_offsets": ("int64", (("n+1",),)),
    "seen_items": ("int32", (("s",),)),
}
HISTORY: Kinds = {"liked_offsets": ("int64", (("n+1",),)), "liked_items": ("int32", (("l",),))}
FACTORS: Kinds = {
    "user_vectors": ("float32", (("n", "f"),)),
    "item_vectors": ("float32", (("m", "f"),)),
    "item_bias": ("float32", (("m",), ("0",))),
}
_LAST_LETTER = 0x10FFFF


def verify(arrays: Mapping[str, Column], kinds: Kinds = FACTORS) -> None:
    """Check the arrays of a model, ids among them; an error says what of them cannot be.

    ``x_offsets`` and ``x_items`` are lists of items; so are numbers of items wherever a name ends in ``items``.
    """
    kinds = {**KNOWN, **kinds}
    with rejecting():
        for name in ("users", "items", *kinds):
            if name not in arrays:
                raise InvalidModelError(f"no {name}")
        for name, (kind, shapes) in kinds.items():
            if arrays[name].dtype != kind or arrays[name].ndim != len(shapes[0]):
                raise InvalidModelError(f"{name} of the shape {arrays[name].shape} and the kind {arrays[name].dtype}")
        n_users, n_items = (_ids(arrays[name], name) for name in ("users", "items"))
        sizes = {"n": n_users, "m": n_items, "n+1": n_users + 1, "m+1": n_items + 1, "0": 0}
        for name, (_, shapes) in kinds.items():
            _size(name, arrays[name].shape, shapes, sizes)
        for name in kinds:
            values = arrays[name]
            if name.endswith("_offsets"):
                items = arrays[name.removesuffix("offsets") + "items"]
                if values[0] != 0 or values[-1] != items.size or (np.diff(values) < 0).any():
                    raise InvalidModelError("lists of items that do not follow each other")
            if name.endswith("items") and values.size and not 0 <= values.min() <= values.max() < n_items:
                raise InvalidModelError(f"an item that is not among the {n_items}")


def _ids(ids: Ids, name: str) -> int:
    """Ids are whole numbers that rise, or rows of letters."""
    words = ids.ndim == 2 and ids.dtype == np.uint32 and ids.shape[1] > 0
    if not ids.size or not (words or (ids.ndim == 1 and ids.dtype.kind in "iu")):
        raise InvalidModelError(f"{name} of the shape {ids.shape} and the kind {ids.dtype}")
    if words:
        if ids.max() > _LAST_LETTER or ((ids >= 0xD800) & (ids < 0xE000)).any():
            raise InvalidModelError(f"something in {name} that is no letter")
        ids = np.ascontiguousarray(ids).view(f"U{ids.shape[1]}")[:, 0]
    if not (ids[:-1] < ids[1:]).all():
        raise InvalidModelError(f"{name} that do not rise")
    return len(ids)


def _size(name: str, shape: tuple[int, ...], shapes: tuple[tuple[str, ...], ...], sizes: dict[str, int]) -> None:
    """Compare a shape with those that it may have; a letter that is new gets its size."""
    for possible in shapes:
        if all(sizes.get(letter, size) == size for letter, size in zip(possible, shape, strict=True)):
            sizes.update(zip(possible, shape, strict=True))
            return
    raise InvalidModelError(f"{name} of the shape {shape} for {sizes['n']} users and {sizes['m']} items")
