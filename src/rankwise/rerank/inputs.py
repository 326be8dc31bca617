"""The inputs of all pairs of a step, and the mini-batches that are cut from them when they are asked for."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from rankwise import check
from rankwise.rerank.batching import Batching

Inputs = Mapping[str, Any] | Sequence[Any]
"""What a tokenizer gives for all pairs, padded, one row for each; or a sequence with one thing for each pair."""


def device_of(model: object) -> torch.device | None:
    """Where a module wants its inputs; what wraps a model tells it by its weights as well."""
    first = next(model.parameters(), None) if isinstance(model, torch.nn.Module) else None
    return None if first is None else first.device


class MiniBatches:
    """The mini-batches of a step, each made anew whenever it is asked for: models may write into what they are given.

    ``order`` has the pair that each score belongs to, when mini-batches are scored one after the other.
    """

    def __init__(self, rows: Sequence[NDArray[np.int64]], take: Callable[[int, int], Any]) -> None:
        self.order = np.concatenate(rows)
        bounds = np.cumsum([0, *(part.size for part in rows)]).tolist()
        self._bounds, self._take = list(itertools.pairwise(bounds)), take

    def __len__(self) -> int:
        return len(self._bounds)

    def __getitem__(self, number: int) -> Any:
        return self._take(*self._bounds[number])

    def __iter__(self) -> Iterator[Any]:
        return (self[number] for number in range(len(self)))

    def unsorted(self, scores: Tensor) -> Tensor:
        """Put scores that are in the order of the mini-batches into the order of the pairs."""
        if scores.numel() != self.order.size:
            raise check.error(
                "a model must give one score for each pair", got=f"{scores.numel()} scores for {self.order.size} pairs"
            )
        return scores[torch.from_numpy(np.argsort(self.order)).to(scores.device)]


def mini_batches(
    inputs: Inputs,
    n_pairs: int,
    batching: Batching,
    *,
    lengths: ArrayLike | None = None,
    device: torch.device | None = None,
) -> MiniBatches:
    """Cut inputs into mini-batches, those of a tokenizer without the columns that only pad."""
    if isinstance(inputs, Mapping):
        return _of_features(inputs, n_pairs, batching, lengths, device)
    items = inputs
    if len(items) != n_pairs:
        raise check.error("there must be one input for each document", got=f"{len(items)} for {n_pairs} documents")
    if lengths is None and batching.mini_batch_size is None:
        raise check.error(
            "a budget of tokens needs the tokens of each pair",
            hint="pass lengths=, the padded inputs of a tokenizer, or set mini_batch_size=",
        )
    rows = batching.cut(_lengths(lengths, n_pairs))
    order = np.concatenate(rows).tolist()
    return MiniBatches(rows, lambda first, last: [items[row] for row in order[first:last]])


def has_rows(features: Mapping[str, Any], n_pairs: int) -> bool:
    """Whether each tensor has one row for each pair, so that rows of it are a mini-batch."""
    tensors = [value for value in features.values() if isinstance(value, Tensor)]
    return bool(tensors) and all(value.ndim > 0 and value.shape[0] == n_pairs for value in tensors)


def token_counts(features: Mapping[str, Any], n_pairs: int) -> NDArray[np.int64] | None:
    """The tokens of each pair, if the features tell."""
    ends = features.get("cu_seq_lens_q")  # of inputs that are packed one behind the other
    if isinstance(ends, Tensor) and ends.numel() == n_pairs + 1:
        return np.diff(ends.cpu().numpy()).astype(np.int64)
    mask = features.get("attention_mask")
    if isinstance(mask, Tensor) and mask.ndim == 2 and mask.shape[0] == n_pairs:
        first, last = _extent(mask)
        return last - first
    return None


def _of_features(
    features: Mapping[str, Any],
    n_pairs: int,
    batching: Batching,
    lengths: ArrayLike | None,
    device: torch.device | None,
) -> MiniBatches:
    if not has_rows(features, n_pairs):
        raise check.error(
            "inputs must have one row for each document",
            got=str({name: tuple(value.shape) for name, value in features.items() if isinstance(value, Tensor)}),
            hint="tokenize all pairs of a step at once, with padding=True and return_tensors='pt'",
        )
    tensors = {name: value for name, value in features.items() if isinstance(value, Tensor)}
    mask = tensors.get("attention_mask")
    width = -1
    starts, ends = np.zeros(n_pairs, np.int64), np.full(n_pairs, -1)
    if mask is not None and mask.ndim == 2:
        width = mask.shape[1]
        starts, ends = _extent(mask)
    elif lengths is None and batching.mini_batch_size is None:
        widths = [value.shape[1] for value in tensors.values() if value.ndim > 1]
        lengths = np.full(n_pairs, max(widths, default=1))
    rows = batching.cut(_lengths(ends - starts if lengths is None else lengths, n_pairs))
    order = np.concatenate(rows)
    starts, ends = starts[order], ends[order]
    # Sorted once and sent once: a mini-batch is a slice then, and nobody waits for an index to travel.
    index = torch.from_numpy(order)
    placed = {name: value[index.to(value.device)].to(device) for name, value in tensors.items()}

    def take(first: int, last: int) -> dict[str, Any]:
        columns = slice(int(starts[first:last].min()), int(ends[first:last].max())) if width >= 0 else slice(None)
        cut: dict[str, Any] = dict(features)
        for name, value in placed.items():
            part = value[first:last]
            if value.ndim > 1 and value.shape[1] == width:
                part = part[:, columns]
            cut[name] = part.clone(memory_format=torch.contiguous_format)
        return cut

    return MiniBatches(rows, take)


def _extent(mask: Tensor) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first column of each row that is no padding, and the one behind the last: padding may be on either side."""
    there = mask.detach().cpu().numpy() != 0
    some = there.any(axis=1)
    first = np.where(some, there.argmax(axis=1), 0)
    last = np.where(some, there.shape[1] - there[:, ::-1].argmax(axis=1), 1)
    return first.astype(np.int64), last.astype(np.int64)


def _lengths(lengths: ArrayLike | None, n_pairs: int) -> NDArray[np.int64]:
    counts = np.ones(n_pairs, np.int64) if lengths is None else np.asarray(lengths).astype(np.int64)
    if counts.shape != (n_pairs,):
        raise check.error("lengths must be one number for each document", got=f"shape {counts.shape}")
    return counts
