"""A recommender's arrays as the content of a file: NumPy's .npz, read without pickle and verified."""

import io
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import fields
from typing import TypeVar

import numpy as np

from rankwise import check
from rankwise.arrays import Column
from rankwise.rankers import storage
from rankwise.recommend.known import Known
from rankwise.recommend.verify import Kinds, verify

MODEL = "model.npz"
_BROKEN = (
    OSError,
    ValueError,
    KeyError,
    EOFError,
    MemoryError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
)
"""What reading something else raises."""
AnyKnown = TypeVar("AnyKnown", bound=Known)


def packed(model: Known) -> bytes:
    """Give a model as the content of an .npz file; the same arrays give the same bytes."""
    out = io.BytesIO()
    np.savez(out, allow_pickle=False, **arrays_of(model))
    return out.getvalue()


def unpacked(kind: type[AnyKnown], content: bytes, kinds: Kinds) -> AnyKnown:
    """Read the content of a file; ``kinds`` are the dtypes and shapes of the model's own arrays."""
    try:
        arrays = storage.arrays(content)
    except _BROKEN as broken:
        raise check.error("the content is not that of an .npz file", got=str(broken)) from None
    verify(arrays, kinds)
    return of_arrays(kind, arrays)


def arrays_of(model: Known) -> dict[str, Column]:
    """Give everything as arrays of numbers, for a file; ids that are words as rows of code points."""
    arrays = {field.name: getattr(model, field.name) for field in fields(model)}
    for name in ("users", "items"):
        if arrays[name].dtype.kind == "U":
            words = np.ascontiguousarray(arrays[name])
            arrays[name] = words.view(np.uint32).reshape(words.size, -1)
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def of_arrays(kind: type[AnyKnown], arrays: Mapping[str, Column]) -> AnyKnown:
    """Take back what :func:`arrays_of` gave."""
    read = {field.name: arrays[field.name] for field in fields(kind)}
    for name in ("users", "items"):
        if read[name].ndim == 2:
            read[name] = np.ascontiguousarray(read[name]).view(f"U{read[name].shape[1]}")[:, 0]
    return kind(**read)
