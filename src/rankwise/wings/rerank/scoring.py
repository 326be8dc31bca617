"""Scores of pairs by a cross-encoder: tokenized in chunks, scored in mini-batches, without a graph.

transformers pads token ids as Python lists and walks through them more than once to build a tensor; for a thousand
pairs and more that takes longer than the model on a GPU. So plain texts are tokenized without padding and padded in
NumPy. The result is compared with the encoder's own ``preprocess`` of two of the pairs, which is used for all where
they differ (prompts, chat templates, tasks, other modules).
"""

import contextlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rankwise import check
from rankwise.base.arrays import Array
from rankwise.wings.rerank.batches import (
    Features,
    MiniBatches,
    MiniBatchSize,
    device_of,
    has_rows,
    mini_batches,
    token_counts,
)
from rankwise.wings.rerank.encoders import CrossEncoder, Pair, PairScorer, module_of
from rankwise.wings.rerank.passes import flat

_CHUNK = 4096  # pairs that are tokenized at once: all are padded to the longest of them
_FEW = 64  # pairs that are not worth tokenizing apart
_IDS, _TYPES, _MASK = "input_ids", "token_type_ids", "attention_mask"


def score_pairs(encoder: CrossEncoder, pairs: Sequence[Pair], size: MiniBatchSize, *, mixed: bool) -> Array:
    """Return the score of each pair, in their order."""
    scores = np.empty(len(pairs))
    order = np.argsort([-len(query) - len(document) for query, document in pairs], kind="stable")
    module_of(encoder).eval()
    with torch.inference_mode(), precision(encoder.device, mixed=mixed):
        for first in range(0, order.size, _CHUNK):
            rows = order[first : first + _CHUNK]
            score, batches = batches_of(encoder, [pairs[row] for row in rows.tolist()], size)
            chunk = torch.cat([flat(score(batch)).float() for batch in batches])
            scores[rows] = batches.unsorted(chunk).cpu().numpy()
    if not np.isfinite(scores).all():
        number = int(np.argmin(np.isfinite(scores)))
        raise check.error(
            "a model must give finite scores",
            got=f"a score of {scores[number]}",
            where=f"pair number {number}",
            hint="train with a lower `learning_rate`, or `set precision='float32'`",
        )
    return scores


def precision(device: torch.device, *, mixed: bool) -> contextlib.AbstractContextManager[object]:
    """Compute in bfloat16 within the context if ``mixed``."""
    return torch.autocast(device.type, torch.bfloat16) if mixed else contextlib.nullcontext()


def batches_of(
    encoder: PairScorer, pairs: Sequence[Pair], size: MiniBatchSize, **settings: str | None
) -> tuple[Callable[[Any], object], MiniBatches]:
    """Tokenize pairs and split them into mini-batches; returns the function that scores a mini-batch, and these.

    ``settings`` are those of the encoder's ``preprocess``.
    """
    pairs, device = list(pairs), device_of(encoder)
    features = features_of(encoder, pairs, **settings)
    if has_rows(features, len(pairs)):
        return encoder, mini_batches(features, len(pairs), size, device=device)

    def score(batch: list[Pair]) -> object:
        inputs = encoder.preprocess(batch, **settings)
        return encoder({name: value.to(device) if hasattr(value, "to") else value for name, value in inputs.items()})

    # Features without a row for each pair, such as packed texts, are computed anew for each mini-batch.
    return score, mini_batches(pairs, len(pairs), size, lengths=token_counts(features, len(pairs)))


def features_of(encoder: PairScorer, pairs: Sequence[Pair], **settings: str | None) -> Features:
    """Return ``encoder.preprocess(pairs, **settings)``, but for the width of the padding."""
    features = None if len(pairs) < _FEW or any(settings.values()) else _padded_in_numpy(encoder, pairs)
    return encoder.preprocess(list(pairs), **settings) if features is None else features


def _padded_in_numpy(encoder: PairScorer, pairs: Sequence[Pair]) -> Features | None:
    """Return the features of plain texts; None where ``preprocess`` does more than tokenize."""
    # The module that a trainer wraps around an encoder has its bound method, and none of its other attributes.
    tokenizer: Any = getattr(getattr(encoder.preprocess, "__self__", None), "tokenizer", None)
    if tokenizer is None or not getattr(tokenizer, "is_fast", False):
        return None
    if not all(type(text) is str for pair in pairs for text in pair):
        return None
    longest = max(range(len(pairs)), key=lambda row: len(pairs[row][0]) + len(pairs[row][1]))
    rows = [0, longest]
    expected = encoder.preprocess([pairs[row] for row in rows])
    tensors = {name: value for name, value in expected.items() if isinstance(value, Tensor)}
    if not {_IDS, _MASK} <= set(tensors) <= {_IDS, _TYPES, _MASK} or any(len(value) != 2 for value in tensors.values()):
        return None
    queries, documents = zip(*pairs, strict=True)
    tokens = tokenizer(list(queries), list(documents), truncation=True, return_attention_mask=False)
    if not set(tensors) - {_MASK} <= set(tokens) or tokenizer.pad_token_id is None:
        return None
    fill = {_IDS: tokenizer.pad_token_id, _TYPES: tokenizer.pad_token_type_id}
    lengths = np.fromiter(map(len, tokens[_IDS]), np.int64, len(pairs))
    width = int(lengths.max())
    columns = np.arange(width)
    on_the_left = tokenizer.padding_side == "left"
    mask = columns >= width - lengths[:, None] if on_the_left else columns < lengths[:, None]
    features = {name: _padded(tokens[name], mask, fill[name]) for name in tensors if name != _MASK}
    features[_MASK] = torch.from_numpy(mask).long()
    expected_mask = tensors[_MASK].numpy() != 0
    same = (
        torch.equal(_trimmed(features[name][rows], mask[rows]), _trimmed(tensors[name], expected_mask))
        for name in tensors
    )
    return {**expected, **features} if all(same) else None


def _padded(lists: list[list[int]], mask: NDArray[np.bool_], fill: int) -> Tensor:
    values = np.full(mask.shape, fill, np.int64)
    values[mask] = np.fromiter(itertools.chain.from_iterable(lists), np.int64, int(mask.sum()))
    return torch.from_numpy(values)


def _trimmed(values: Tensor, mask: NDArray[np.bool_]) -> Tensor:
    """Return rows without the columns in which none of them has a token."""
    return values[:, torch.from_numpy(mask.any(axis=0))]
