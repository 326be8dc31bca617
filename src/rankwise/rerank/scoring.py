"""Scores of pairs by a cross-encoder: tokenized in chunks, in mini-batches of a budget of tokens, without a graph."""

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rankwise import check
from rankwise.arrays import Array
from rankwise.rerank.batching import Batching
from rankwise.rerank.inputs import MiniBatches, device_of, has_rows, mini_batches, token_counts
from rankwise.rerank.passes import flat
from rankwise.rerank.tokens import features_of

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

Pair = tuple[str, str]
_CHUNK = 4096  # pairs that are tokenized at once: all are padded to the longest of them


def batches_of(
    encoder: Any, pairs: Sequence[Pair], batching: Batching, **settings: str | None
) -> tuple[Callable[[Any], Any], MiniBatches]:
    """Tokenize pairs and cut them into mini-batches; gives what scores a mini-batch, too.

    ``encoder`` is a ``CrossEncoder``, or what a trainer wraps it in; ``settings`` are those of its ``preprocess``.
    """
    pairs, device = list(pairs), device_of(encoder)
    features = features_of(encoder, pairs, **settings)
    if has_rows(features, len(pairs)):
        return encoder, mini_batches(features, len(pairs), batching, device=device)

    def score(some: list[Pair]) -> Any:
        found = encoder.preprocess(some, **settings)
        return encoder({name: value.to(device) if hasattr(value, "to") else value for name, value in found.items()})

    # Features that do not lie row by row, such as packed texts, are made anew for each mini-batch.
    return score, mini_batches(pairs, len(pairs), batching, lengths=token_counts(features, len(pairs)))


def scored(encoder: "CrossEncoder", pairs: Sequence[Pair], batching: Batching, *, mixed: bool) -> Array:
    """Score pairs, in their order."""
    scores = np.empty(len(pairs))
    order = np.argsort([-len(query) - len(document) for query, document in pairs], kind="stable")
    encoder.eval()
    with torch.inference_mode(), precision(encoder.device, mixed=mixed):
        for first in range(0, order.size, _CHUNK):
            rows = order[first : first + _CHUNK]
            score, batches = batches_of(encoder, [pairs[row] for row in rows.tolist()], batching)
            found = torch.cat([flat(score(batch)).float() for batch in batches])
            scores[rows] = batches.unsorted(found).cpu().numpy()
    if not np.isfinite(scores).all():
        number = int(np.argmin(np.isfinite(scores)))
        raise check.error(
            "a model must give finite scores",
            got=f"a score of {scores[number]}",
            where=f"pair number {number}",
            hint="train with a lower learning_rate, or set precision='float32'",
        )
    return scores


def precision(device: torch.device, *, mixed: bool) -> contextlib.AbstractContextManager[object]:
    """Compute in bfloat16 where that is ``mixed`` in."""
    return torch.autocast(device.type, torch.bfloat16) if mixed else contextlib.nullcontext()
