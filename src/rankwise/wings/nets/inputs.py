"""Inputs of nets: transformed features of batches, kept in memory or made anew."""

import functools
import itertools
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
import torch

from rankwise import RankingDataset
from rankwise.base.arrays import Array, Floats
from rankwise.base.device import to_device
from rankwise.base.sparse import dense
from rankwise.data.io import in_memory
from rankwise.metrics.base import Metric, weighted_mean
from rankwise.objectives.prepared import has_kernels
from rankwise.rankers import BatchPart, Rows
from rankwise.rankers.training import DeviceMean, DeviceScores
from rankwise.wings.nets.model import NetModel

KEPT = 2**26
"""How many transformed numbers are kept at most of features that are in memory: 256 MiB."""
KEPT_OF_FILES = 2**22
"""How many of features that lie on disk, or are sparse, and would take much less memory as they are: 16 MiB."""
STREAMING_DEVICES = {"cuda"}
"""Devices with memory of their own: features stay there, or are copied ahead of what is computed."""


def room(device: torch.device) -> int:
    """How many transformed numbers are kept at most on a device with memory of its own: half of what is free.

    The other half is for the layers of a batch, for the optimizer, and for data sets that are looked at later.
    """
    return int(torch.cuda.mem_get_info(device)[0] // 8)


class PendingBatch(NamedTuple):
    """Rows that are being copied; the device waits for ``event`` before it computes with them, the host does not."""

    rows: torch.Tensor
    event: torch.cuda.Event | None


class Streaming:
    """Copies rows of a matrix to a device, one piece ahead of what is computed.

    The host gathers rows in pinned memory, from which a stream of its own copies them. There are two such buffers:
    while one is copied, the other is filled. A buffer is filled again once it was copied, which is all that the host
    waits for. On other devices than GPUs the same happens without streams, one after the other.

    >>> streaming = Streaming(np.arange(6, dtype=np.float32).reshape(3, 2), torch.device("cpu"))
    >>> coming = streaming.begin(np.array([2, 0]))
    >>> streaming.arrived(coming)
    tensor([[4., 5.],
            [0., 1.]])
    """

    def __init__(self, features: Floats, device: torch.device) -> None:
        self.features, self.device = features, device
        self._plain = _tensor(features) if in_memory(features) else None
        self._side = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
        self._buffers = itertools.cycle((_Buffer(), _Buffer()))

    def begin(self, rows: Rows) -> PendingBatch:
        """Start to copy rows."""
        count = len(range(*rows.indices(self.features.shape[0]))) if isinstance(rows, slice) else rows.size
        buffer = next(self._buffers)
        pinned = buffer.of(count, self.features.shape[1], pinned=self._side is not None)
        if self._plain is not None and not isinstance(rows, slice):
            torch.index_select(self._plain, 0, torch.from_numpy(rows), out=pinned)  # by several threads
        else:
            pinned.numpy()[:] = dense(self.features[rows])
        if self._side is None:
            return PendingBatch(pinned.to(self.device), None)
        with torch.cuda.stream(self._side):
            copied = pinned.to(self.device, non_blocking=True)
            buffer.copied = self._side.record_event()
        return PendingBatch(copied, buffer.copied)

    def arrived(self, coming: PendingBatch) -> torch.Tensor:
        """Return copied rows; their memory is free once the current stream has used them."""
        if coming.event is not None:
            current = torch.cuda.current_stream(self.device)
            current.wait_event(coming.event)
            coming.rows.record_stream(current)
        return coming.rows


class _Buffer:
    """Memory for gathered rows, as large as the largest piece so far."""

    def __init__(self) -> None:
        self.copied: torch.cuda.Event | None = None
        self._numbers = torch.empty(0)

    def of(self, count: int, width: int, *, pinned: bool) -> torch.Tensor:
        """Return memory for so many rows, once the last copy from it is done."""
        if self.copied is not None:
            self.copied.synchronize()
        if self._numbers.numel() < count * width:
            with torch.inference_mode(False):  # it may be filled again in training
                self._numbers = torch.empty(count * width, pin_memory=pinned)
        return self._numbers[: count * width].view(count, width)


def _tensor(features: Floats) -> torch.Tensor:
    """Return a tensor that shares the memory of a matrix, which is never written to."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(features)


class NetScores(DeviceScores):
    """Scores in single precision, one for each document."""

    def __init__(self, scores: torch.Tensor) -> None:
        self.scores = scores
        self.finite = scores.isfinite().all()
        self.usable = torch.where(self.finite, scores, 0.0)
        """The scores, or nothing but 0, since kernels count on an order of documents."""
        self._rankings: dict[int, torch.Tensor] = {}

    def measurer(self, metric: Metric, data: RankingDataset) -> DeviceMean | None:
        """Return the function that computes the mean of a metric on the device; None where the CPU has to."""
        if find_spec("triton") is None:
            return None
        from rankwise.metrics.triton import DeviceMetric, ranking

        on_device = DeviceMetric.of(metric, data, self.scores.device)
        if on_device is None:
            return None

        def mean(scores: NetScores) -> float | None:
            ranked = scores.ranked(id(data.offsets), lambda usable: ranking(on_device.lists, usable))
            values = torch.cat((on_device(scores.usable, ranked), scores.finite.double()[None]))
            *by_query, finite = values.cpu().numpy()  # the one wait for the device
            return weighted_mean(np.array(by_query), data.weights) if finite else None

        return mean

    def ranked(self, lists: int, ranking: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """Return the ranking of the documents of some lists, which all metrics of them share."""
        if lists not in self._rankings:
            self._rankings[lists] = ranking(self.usable)
        return self._rankings[lists]

    def array(self) -> Array:
        """Copy the scores."""
        return self.scores.double().cpu().numpy()


class Inputs:
    """Transformed features of a data set; a quantile costs as much as all layers of a small net."""

    def __init__(self, net: NetModel, data: RankingDataset) -> None:
        self.net, self.data = net, data
        self._kept: torch.Tensor | None = None
        self._next: tuple[BatchPart | None, PendingBatch | None] = None, None

    @functools.cached_property
    def keeps(self) -> bool:
        """Whether they are transformed once and kept; decided at first use, by the memory that is free then."""
        most = KEPT if in_memory(self.data.features) else KEPT_OF_FILES
        if self.net.device.type in STREAMING_DEVICES:
            most = room(self.net.device)
        return self.data.n_docs * self.net.transform.width <= most

    def of(self, part: BatchPart) -> tuple[torch.Tensor, ...]:
        """Return the arguments of :meth:`NetModel.members_of` for some queries."""
        offsets = torch.from_numpy(part.offsets) if self.net.needs_lists else None
        if self.keeps:
            rows = part.rows if isinstance(part.rows, slice) else to_device(part.rows, self.net.device)
            inputs = self.kept()[rows]
        else:
            prefetched, coming = self._next
            coming = coming if prefetched is part else self._begin(part.rows)
            inputs = self._transformed(part.rows, coming, offsets)
        return (inputs,) if offsets is None else (inputs, offsets)

    def prefetch(self, part: BatchPart) -> None:
        """Start to copy the features of the next part, where they are not kept on the device."""
        if not self.keeps:
            self._next = part, self._begin(part.rows)

    def scores(self) -> Array | DeviceScores:
        """Score all documents by the net as it is now; scores stay on a device that can measure them."""
        scores = torch.empty(self.data.n_docs, device=self.net.device)
        with torch.inference_mode():
            for rows, inputs, offsets in self._blocks():
                scores[rows] = self.net.members_of(inputs, offsets).mean(-1)
        start = self.data.init_scores
        if has_kernels(self.net.device.type):
            return NetScores(scores if start is None else scores + to_device(start, scores.device, scores.dtype))
        exact = scores.double().cpu().numpy()
        return exact if start is None else exact + start

    def kept(self) -> torch.Tensor:
        """Transform all documents at first use, when the transform is fitted."""
        if self._kept is None:
            self._kept = torch.empty((self.data.n_docs, self.net.transform.width), device=self.net.device)
            for rows, inputs, _ in self._anew():
                self._kept[rows] = inputs
        return self._kept

    def _blocks(self) -> Iterator[tuple[slice, torch.Tensor, torch.Tensor | None]]:
        """Rows of the data set with their transformed features, and the offsets of their queries if needed."""
        if not self.keeps:
            yield from self._anew()
            return
        for rows, offsets in self.net.blocks(self.data.features.shape, self.data.offsets):
            yield rows, self.kept()[rows], offsets

    def _anew(self) -> Iterator[tuple[slice, torch.Tensor, torch.Tensor | None]]:
        """The same, transformed now; while a device computes with them, the rows after them are copied there."""
        blocks = list(self.net.blocks(self.data.features.shape, self.data.offsets))
        coming = [self._begin(rows) for rows, _ in blocks[:1]]
        for number, (rows, offsets) in enumerate(blocks, start=1):
            yield rows, self._transformed(rows, coming.pop(), offsets), offsets
            coming += [self._begin(following) for following, _ in blocks[number : number + 1]]

    @functools.cached_property
    def _streaming(self) -> Streaming | None:
        device = self.net.device
        return Streaming(self.data.features, device) if device.type in STREAMING_DEVICES else None

    def _begin(self, rows: Rows) -> PendingBatch | None:
        return None if self._streaming is None else self._streaming.begin(rows)

    def _transformed(self, rows: Rows, coming: PendingBatch | None, offsets: torch.Tensor | None) -> torch.Tensor:
        if self._streaming is None or coming is None:
            features = self.net.read(self.data.features[rows])
        else:
            features = self._streaming.arrived(coming)
        with torch.no_grad():
            return self.net.transform(features, offsets)  # type: ignore[no-any-return]
