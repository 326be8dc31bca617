"""Forward and backward pass of a net as CUDA graphs.

A small net is dozens of launches, each of which takes longer than what it launches. A graph replays them at once.
"""

import warnings
from typing import Any

import torch

from rankwise.wings.nets.model import NetModel

_PER_DOUBLING, _LEAST, _GRAPHS, _WARM_UP = 8, 64, 64, 3


def padded_rows(count: int) -> int:
    """Return the number of documents that a batch is padded to: one of eight numbers per doubling.

    >>> [padded_rows(count) for count in (3, 64, 65, 1000, 3000)]
    [64, 64, 72, 1024, 3072]
    """
    step = max((1 << (max(count, _LEAST) - 1).bit_length()) // 2 // _PER_DOUBLING, 1)
    return -(-max(count, _LEAST) // step) * step


class CapturedNet:
    """A net in training, from two graphs for each padded number of documents.

    What documents are padded with has no part in statistics of batches, and its scores are left out. Numbers are those
    of the net without graphs on padded documents, dropout included: whether a graph is there changes nothing.
    """

    def __init__(self, net: NetModel) -> None:
        self.net = net
        self._batches: dict[int, _Batch] = {}
        self._pool: Any = None
        """The memory of all graphs: one replays at a time, so that they share what lies between their passes."""
        self._last: _Batch | None = None

    def __call__(self, inputs: torch.Tensor, offsets: torch.Tensor | None = None) -> torch.Tensor:
        """Return the scores of every member, (documents, members)."""
        self._last = None
        if not self.net.training or self.net.settings.attention:
            return self.net.members_of(inputs, offsets)
        rows = padded_rows(inputs.shape[0])
        batch = self._batches.get(rows)
        if batch is None:
            batch = self._batches[rows] = _Batch(self.net, inputs, rows)
            if inputs.is_cuda and len(self._batches) <= _GRAPHS:
                self._pool = self._pool or torch.cuda.graph_pool_handle()
                batch.capture(self._pool)
        self._last = batch
        return batch.scores_of(inputs)

    def backward(self, scores: torch.Tensor, gradient: torch.Tensor) -> None:
        """Leave the gradients of the last pass in the net's parameters, by the gradient of its scores."""
        if self._last is None or self._last.graphs is None:
            torch.autograd.backward(scores, gradient)
        else:
            self._last.differentiate(gradient)


class _Batch:
    """The net on so many documents, some of which may be padding."""

    graphs: tuple[torch.cuda.CUDAGraph, torch.cuda.CUDAGraph] | None = None
    """The forward and the backward pass, once they are captured."""

    def __init__(self, net: NetModel, inputs: torch.Tensor, rows: int) -> None:
        self.net, self.parameters = net, list(net.parameters())
        self.padded = inputs.new_zeros((rows, inputs.shape[1]))
        self.numbers = torch.arange(rows, device=inputs.device)
        self.inside = torch.ones(rows, dtype=torch.bool, device=inputs.device)

    def scores_of(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the scores of documents; from a graph, as they are until the next pass."""
        count = inputs.shape[0]
        self.padded[:count] = inputs
        torch.lt(self.numbers, count, out=self.inside)
        if self.graphs is None:
            return self._forward()[:count]
        self.graphs[0].replay()
        return self.scores[:count]

    def differentiate(self, gradient: torch.Tensor) -> None:
        """Replay the backward pass."""
        count = gradient.shape[0]
        self.gradient[:count] = gradient
        self.gradient[count:] = 0.0
        for parameter, by_parameter in zip(self.parameters, self.gradients, strict=True):
            parameter.grad = by_parameter
        self.graphs[1].replay()  # type: ignore[index]

    def capture(self, pool: Any) -> None:
        """Capture both passes in the memory of a pool; what the passes before that draw and count is undone."""
        device, buffers = self.padded.device, list(self.net.buffers())
        random, before = torch.cuda.get_rng_state(device), [buffer.clone() for buffer in buffers]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what torch notes of its threads and streams does not matter here
            self._capture(device, pool)
        with torch.no_grad():
            for buffer, value in zip(buffers, before, strict=True):
                buffer.copy_(value)
        torch.cuda.set_rng_state(random, device)

    def _capture(self, device: torch.device, pool: Any) -> None:
        forward, backward = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            for _ in range(_WARM_UP):
                scores = self._forward()
                self.gradient = torch.zeros_like(scores)
                torch.autograd.grad(scores, self.parameters, self.gradient)
        torch.cuda.current_stream(device).wait_stream(side)
        with torch.cuda.graph(forward, pool=pool):
            scores = self._forward()
        with torch.cuda.graph(backward, pool=pool):
            self.gradients = torch.autograd.grad(scores, self.parameters, self.gradient)
        self.scores, self.graphs = scores.detach(), (forward, backward)

    def _forward(self) -> torch.Tensor:
        return self.net.members_of(self.padded, inside=self.inside).float()
