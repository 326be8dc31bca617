"""Features that do not fit on a device: rows are copied there while it computes with those before them."""

import itertools
import warnings
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from rankwise.arrays import Floats
from rankwise.data.disk.mapped import in_memory
from rankwise.sparse import dense

Rows = slice | NDArray[np.int64]


class Coming(NamedTuple):
    """Rows on their way; whoever computes with them waits for ``event`` on the device, and nobody on the host."""

    rows: torch.Tensor
    event: torch.cuda.Event | None


class Streaming:
    """Brings rows of a matrix to a device, one piece ahead of what is computed.

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

    def begin(self, rows: Rows) -> Coming:
        """Start to copy rows."""
        count = len(range(*rows.indices(self.features.shape[0]))) if isinstance(rows, slice) else rows.size
        buffer = next(self._buffers)
        here = buffer.of(count, self.features.shape[1], pinned=self._side is not None)
        if isinstance(rows, slice):
            here.numpy()[:] = dense(self.features[rows])
        elif self._plain is not None:
            torch.index_select(self._plain, 0, torch.from_numpy(rows), out=here)  # by several threads
        else:
            here.numpy()[:] = dense(self.features[rows])
        if self._side is None:
            return Coming(here.to(self.device), None)
        with torch.cuda.stream(self._side):
            there = here.to(self.device, non_blocking=True)
            buffer.copied = self._side.record_event()
        return Coming(there, buffer.copied)

    def arrived(self, coming: Coming) -> torch.Tensor:
        """Give rows to what is computed from now on; their memory is free once that is done."""
        if coming.event is not None:
            current = torch.cuda.current_stream(self.device)
            current.wait_event(coming.event)
            coming.rows.record_stream(current)
        return coming.rows


class _Buffer:
    """Memory that rows are gathered in, as large as the largest piece so far."""

    def __init__(self) -> None:
        self.copied: torch.cuda.Event | None = None
        self._numbers = torch.empty(0)

    def of(self, count: int, width: int, *, pinned: bool) -> torch.Tensor:
        """Give memory for so many rows, when nobody copies from it any more."""
        if self.copied is not None:
            self.copied.synchronize()
        if self._numbers.numel() < count * width:
            with torch.inference_mode(False):  # it may be filled again in training
                self._numbers = torch.empty(count * width, pin_memory=pinned)
        return self._numbers[: count * width].view(count, width)


def _tensor(features: Floats) -> torch.Tensor:
    """A tensor that shares the memory of a matrix, and that nobody writes to, whatever torch warns of."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(features)
