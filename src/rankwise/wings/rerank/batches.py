"""Mini-batches of the pairs of a step: their sizes, in tokens or in pairs, and their inputs, built when needed."""

import contextvars
import itertools
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from rankwise import check

Key = TypeVar("Key")
Value = TypeVar("Value")

TOKEN_BUDGET = 16_384
"""Default number of tokens in a mini-batch, padding included: 128 pairs of 128 tokens."""
Features = Mapping[str, object]
"""Output of a tokenizer: tensors by name, and settings beside them."""
PairInputs = Features | Sequence[object]
"""The padded output of a tokenizer, one row per pair; or a sequence with one item per pair."""


@dataclass(frozen=True)
class MiniBatchSize:
    """Size of a mini-batch: a budget of tokens, padding included, or a number of pairs.

    The size decides memory and speed, never the loss. A budget uses a device evenly whatever the lengths of texts; a
    number of pairs is for models whose tokens cannot be counted.

    >>> [rows.tolist() for rows in MiniBatchSize(token_budget=20).split(np.array([3, 9, 2, 10]))]
    [[3, 1], [0, 2]]
    """

    token_budget: int | None = None
    mini_batch_size: int | None = None

    def __post_init__(self) -> None:
        if self.token_budget is not None and self.mini_batch_size is not None:
            raise check.error(
                "a mini-batch has one size",
                got=f"token_budget={self.token_budget} and mini_batch_size={self.mini_batch_size}",
                hint="`set token_budget=` (tokens) or `mini_batch_size=` (pairs)",
            )
        if self.mini_batch_size is not None:
            check.integer("mini_batch_size", self.mini_batch_size, least=1)
        elif self.token_budget is not None:
            check.integer("token_budget", self.token_budget, least=1)
        else:
            object.__setattr__(self, "token_budget", TOKEN_BUDGET)

    def split(self, lengths: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Return the rows of each mini-batch; ``lengths`` holds the number of tokens of each pair.

        Pairs of similar length share a mini-batch, since the longest decides the padding. The longest come first: an
        input that exceeds the memory fails at once, and the memory freed is large enough for all that follow.
        """
        order = np.argsort(-lengths, kind="stable")
        batches, first = [], 0
        while first < order.size:
            longest = max(int(lengths[order[first]]), 1)
            count = self.mini_batch_size or max((self.token_budget or TOKEN_BUDGET) // longest, 1)
            batches.append(order[first : first + count])
            first += count
        return batches


class MiniBatches:
    """The mini-batches of a step, each built anew whenever it is indexed: models may write into their inputs.

    ``order`` holds the pair of each score when mini-batches are scored one after the other.
    """

    def __init__(self, rows: Sequence[NDArray[np.int64]], take: Callable[[int, int], object]) -> None:
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
        """Return scores in the order of the pairs, from the order of the mini-batches."""
        if scores.numel() != self.order.size:
            raise check.error(
                "a model must give one score for each pair", got=f"{scores.numel()} scores for {self.order.size} pairs"
            )
        return scores[torch.from_numpy(np.argsort(self.order)).to(scores.device)]


def mini_batches(
    inputs: PairInputs,
    n_pairs: int,
    size: MiniBatchSize,
    *,
    lengths: ArrayLike | None = None,
    device: torch.device | None = None,
) -> MiniBatches:
    """Split inputs into mini-batches, without columns of a tokenizer's output that are padding in all rows."""
    if lengths is not None:
        lengths = np.asarray(lengths).astype(np.int64)
        if lengths.shape != (n_pairs,):
            raise check.error("lengths must be one number for each document", got=f"shape {lengths.shape}")
    if isinstance(inputs, Mapping):
        return _from_features(inputs, n_pairs, size, lengths, device)
    items = inputs
    if len(items) != n_pairs:
        raise check.error("there must be one input for each document", got=f"{len(items)} for {n_pairs} documents")
    if lengths is None and size.mini_batch_size is None:
        raise check.error(
            "a budget of tokens needs the tokens of each pair",
            hint="pass lengths=, the padded inputs of a tokenizer, or set mini_batch_size=",
        )
    rows = size.split(np.ones(n_pairs, np.int64) if lengths is None else lengths)
    order = np.concatenate(rows).tolist()
    return MiniBatches(rows, lambda first, last: [items[row] for row in order[first:last]])


def has_rows(features: Features, n_pairs: int) -> bool:
    """Whether each tensor has one row for each pair, so that mini-batches are rows of it."""
    tensors = _tensors(features).values()
    return bool(tensors) and all(value.ndim > 0 and value.shape[0] == n_pairs for value in tensors)


def token_counts(features: Features, n_pairs: int) -> NDArray[np.int64] | None:
    """Return the number of tokens of each pair, or None where the features do not show it."""
    ends = features.get("cu_seq_lens_q")  # of packed inputs
    if isinstance(ends, Tensor) and ends.numel() == n_pairs + 1:
        return np.diff(ends.cpu().numpy()).astype(np.int64)
    mask = features.get("attention_mask")
    if isinstance(mask, Tensor) and mask.ndim == 2 and mask.shape[0] == n_pairs:
        first, last = _token_range(mask)
        return last - first
    return None


def device_of(model: object) -> torch.device | None:
    """Device of the module's parameters; None for anything else."""
    first = next(model.parameters(), None) if isinstance(model, torch.nn.Module) else None
    return None if first is None else first.device


def _from_features(
    features: Features,
    n_pairs: int,
    size: MiniBatchSize,
    lengths: NDArray[np.int64] | None,
    device: torch.device | None,
) -> MiniBatches:
    tensors = _tensors(features)
    if not has_rows(features, n_pairs):
        raise check.error(
            "inputs must have one row for each document",
            got=str({name: tuple(value.shape) for name, value in tensors.items()}),
            hint="tokenize all pairs of a step at once, with padding=True and return_tensors='pt'",
        )
    mask, width = tensors.get("attention_mask"), -1
    starts = ends = np.zeros(n_pairs, np.int64)
    if mask is not None and mask.ndim == 2:
        width = mask.shape[1]
        starts, ends = _token_range(mask)
        lengths = ends - starts if lengths is None else lengths
    if lengths is None:
        widest = max((value.shape[1] for value in tensors.values() if value.ndim > 1), default=1)
        lengths = np.full(n_pairs, widest)
    rows = size.split(lengths)
    order = np.concatenate(rows)
    starts, ends = starts[order], ends[order]
    # Sorted once and copied to the device once: a mini-batch is then a slice, without an index to copy and wait for.
    index = torch.from_numpy(order)
    on_device = {name: value[index.to(value.device)].to(device) for name, value in tensors.items()}

    def take(first: int, last: int) -> Features:
        columns = slice(int(starts[first:last].min()), int(ends[first:last].max())) if width >= 0 else slice(None)
        batch = dict(features)
        for name, value in on_device.items():
            part = value[first:last]
            if value.ndim > 1 and value.shape[1] == width:
                part = part[:, columns]
            batch[name] = part.clone(memory_format=torch.contiguous_format)
        return batch

    return MiniBatches(rows, take)


def _tensors(features: Features) -> dict[str, Tensor]:
    return {name: value for name, value in features.items() if isinstance(value, Tensor)}


def _token_range(mask: Tensor) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first column of each row that is not padding, and the end of the last; padding is on either side."""
    is_token = mask.detach().cpu().numpy() != 0
    has_tokens = is_token.any(axis=1)
    first = np.where(has_tokens, is_token.argmax(axis=1), 0)
    last = np.where(has_tokens, is_token.shape[1] - is_token[:, ::-1].argmax(axis=1), 1)
    return first.astype(np.int64), last.astype(np.int64)


def prefetch(compute: Callable[[Key], Value], keys: Iterable[Key]) -> Generator[Value, None, None]:
    """Yield ``compute(key)`` for each key, in order, while a thread computes the next: a GPU never waits for texts.

    An error is raised where its value would be yielded.

    >>> list(prefetch(str.upper, "abc"))
    ['A', 'B', 'C']
    """
    context = contextvars.copy_context()  # such as the number of threads of kernels
    with ThreadPoolExecutor(1) as thread:
        pending: Future[Value] | None = None
        for key in keys:
            last, pending = pending, thread.submit(context.run, compute, key)
            if last is not None:
                yield last.result()
        if pending is not None:
            yield pending.result()
