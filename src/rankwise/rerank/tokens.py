"""Tokens of all pairs of a step: as the encoder makes them, but padded in NumPy.

transformers pads as lists of Python's numbers and walks through each of them more than once to make a tensor; for a
thousand pairs and more that takes longer than the model on a GPU. So plain texts go to the tokenizer without padding.
What comes back is held against what the encoder's own ``preprocess`` makes of two of the pairs, and where anything
differs (prompts, templates of chats, tasks, other modules), that is what is used.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_FEW = 64  # pairs: as few are tokenized as they are
_IDS, _TYPES, _MASK = "input_ids", "token_type_ids", "attention_mask"


def features_of(encoder: Any, pairs: Sequence[tuple[Any, Any]], **settings: str | None) -> dict[str, Any]:
    """What ``encoder.preprocess(pairs, **settings)`` gives, but for the width of the padding."""
    quick = None if len(pairs) < _FEW or any(settings.values()) else _quick(encoder, pairs)
    return dict(encoder.preprocess(list(pairs), **settings)) if quick is None else quick


def _quick(encoder: Any, pairs: Sequence[tuple[Any, Any]]) -> dict[str, Any] | None:
    # A wrapper of a trainer has the method of the encoder inside, and nothing else of it.
    tokenizer: Any = getattr(getattr(encoder.preprocess, "__self__", None), "tokenizer", None)
    if not getattr(tokenizer, "is_fast", False) or not all(type(text) is str for pair in pairs for text in pair):
        return None
    longest = max(range(len(pairs)), key=lambda row: len(pairs[row][0]) + len(pairs[row][1]))
    rows = [0, longest]
    expected = encoder.preprocess([pairs[row] for row in rows])
    tensors = {name: value for name, value in expected.items() if isinstance(value, Tensor)}
    if not {_IDS, _MASK} <= set(tensors) <= {_IDS, _TYPES, _MASK} or any(len(value) != 2 for value in tensors.values()):
        return None
    queries, documents = zip(*pairs, strict=True)
    found = tokenizer(list(queries), list(documents), truncation=True, return_attention_mask=False)
    fill = {_IDS: tokenizer.pad_token_id, _TYPES: tokenizer.pad_token_type_id}
    if not set(tensors) - {_MASK} <= set(found) or fill[_IDS] is None:
        return None
    lengths = np.fromiter(map(len, found[_IDS]), np.int64, len(pairs))
    width = int(lengths.max())
    columns = np.arange(width)
    left = tokenizer.padding_side == "left"
    mask = columns >= width - lengths[:, None] if left else columns < lengths[:, None]
    made = {name: _padded(found[name], mask, fill[name]) for name in tensors if name != _MASK}
    made[_MASK] = torch.from_numpy(mask).long()
    there = tensors[_MASK].numpy() != 0
    same = (torch.equal(_trimmed(made[name][rows], mask[rows]), _trimmed(tensors[name], there)) for name in tensors)
    return {**expected, **made} if all(same) else None


def _padded(lists: list[list[int]], mask: NDArray[np.bool_], fill: int) -> Tensor:
    values = np.full(mask.shape, fill, np.int64)
    values[mask] = np.fromiter(itertools.chain.from_iterable(lists), np.int64, int(mask.sum()))
    return torch.from_numpy(values)


def _trimmed(values: Tensor, mask: NDArray[np.bool_]) -> Tensor:
    """Rows without the columns in which none of them has a token."""
    return values[:, torch.from_numpy(mask.any(axis=0))]
