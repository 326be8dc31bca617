"""Whole lists of documents as tensors, for nets in which a score depends on the other documents of its query."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from rankwise.arrays import Offsets, rows_at_once
from rankwise.device import to_device

_PER_DOUBLING = 2


def standardized(values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """Bring every column to mean 0 and deviation 1 within each query; what is missing, or all the same, becomes 0.

    >>> values = torch.tensor([[1.0, 5.0], [3.0, 5.0], [float("nan"), 5.0], [7.0, 2.0]])
    >>> standardized(values, torch.tensor([0, 3, 4]))
    tensor([[-1.,  0.],
            [ 1.,  0.],
            [ 0.,  0.],
            [ 0.,  0.]])
    """
    offsets = on_device(offsets, values.device)
    sizes, known = offsets.diff(), ~torch.isnan(values)

    def each(column: torch.Tensor, how: str) -> torch.Tensor:
        return torch.segment_reduce(column, how, offsets=offsets, axis=0)

    def spread(by_query: torch.Tensor) -> torch.Tensor:
        return by_query.repeat_interleave(sizes, dim=0, output_size=values.shape[0])

    # From the lowest value on: what is all the same is exactly 0, and rounding does not pass for a difference.
    lowest = each(torch.where(known, values, torch.inf), "min")
    away = torch.where(known, values - spread(lowest), 0.0)
    count = each(known.to(values.dtype), "sum").clamp(min=1.0)
    rest = torch.where(known, away - spread(each(away, "sum") / count), 0.0)
    deviation = torch.sqrt(each(rest**2, "sum") / count)
    return rest / spread(torch.where(deviation > 0, deviation, 1.0))


def on_device(numbers: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Copy numbers to a device, if they are not there, without waiting for it."""
    return numbers if numbers.device == device else to_device(numbers.numpy(), device)


@dataclass(frozen=True)
class Bucket:
    """Lists of about one length, filled up to the longest."""

    rows: torch.Tensor
    """(lists, length) numbers of documents; 0 where there is none."""
    inside: torch.Tensor
    """(lists, length) whether there is a document."""
    full: bool
    """Whether there is one everywhere."""


def buckets(offsets: torch.Tensor) -> tuple[list[Bucket], torch.Tensor]:
    """Cut lists by their lengths, so that little is filled up: by less than √2; and where each document went.

    >>> found, places = buckets(torch.tensor([0, 2, 7, 10, 12]))
    >>> [bucket.rows.tolist() for bucket in found]
    [[[0, 1], [10, 11]], [[7, 8, 9]], [[2, 3, 4, 5, 6]]]
    >>> places.tolist()  # of each document in the rows of all buckets, one after the other
    [0, 1, 7, 8, 9, 10, 11, 4, 5, 6, 2, 3]
    """
    numbers = offsets.cpu().numpy()
    sizes = np.diff(numbers)
    kinds = np.ceil(_PER_DOUBLING * np.log2(np.maximum(sizes, 1)))
    found, start = [], 0
    places = np.empty(int(numbers[-1]), np.int64)
    for kind in np.unique(kinds[sizes > 0]):
        chosen = np.flatnonzero((kinds == kind) & (sizes > 0))
        step = np.arange(sizes[chosen].max())
        inside = step < sizes[chosen][:, None]
        rows = np.where(inside, numbers[chosen][:, None] + step, 0)
        found.append(Bucket(torch.from_numpy(rows), torch.from_numpy(inside), bool(inside.all())))
        places[rows[inside]] = start + np.flatnonzero(inside)
        start += inside.size
    return found, torch.from_numpy(places)


def blocks(offsets: Offsets, width: int, numbers: int) -> Iterator[tuple[slice, Offsets]]:
    """Cut rows of about so many ``numbers`` that are whole queries, at least one each, with their own offsets.

    >>> [(rows, own.tolist()) for rows, own in blocks(np.array([0, 2, 3, 7]), width=1, numbers=3)]
    [(slice(0, 3, None), [0, 2, 3]), (slice(3, 7, None), [0, 4])]
    """
    most, start, last = rows_at_once(width, numbers), 0, offsets.size - 1
    while start < last:
        end = max(int(np.searchsorted(offsets, offsets[start] + most, side="right")) - 1, start + 1)
        yield slice(int(offsets[start]), int(offsets[end])), offsets[start : end + 1] - offsets[start]
        start = end
