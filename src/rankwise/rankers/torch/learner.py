"""The learner of rankers of torch: each round is an epoch, whatever the module that scores.

An epoch shuffles by (seed, epoch), cuts batches of whole queries, multiplies each query's loss by its weight once, and
steps. The host does not wait for the device within an epoch: losses are added up there, and read once, at the end. With
``averaging`` the average of the weights over steps is measured, kept and returned, while training continues from the
last weights. Nothing of torch's global random state is used or changed. An epoch is what a tree is to boosting:
``stream.round`` is its number, counted on from an older model. The next epoch depends on the weights, their average,
the optimizer's state and the epoch's number alone, so that an interrupted run resumes, bit for bit on a CPU.
"""

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from rankwise import check
from rankwise.base.arrays import Array, Column, Json
from rankwise.base.device import to_device
from rankwise.base.stream import Stream
from rankwise.data.dataset import RankingDataset
from rankwise.models.model import Model
from rankwise.models.torch.state import bind_context, on, own_randomness, products_in, seed_torch, torch_threads
from rankwise.models.torch.weights import (
    MODEL,
    Averages,
    Weights,
    fill,
    of_prefix,
    packed,
    recall,
    remembered,
    snapshot,
    unpacked,
    with_prefix,
)
from rankwise.objectives.autograd import PreparedLoss
from rankwise.objectives.base import Objective
from rankwise.objectives.prepared import has_kernels
from rankwise.objectives.torch import TorchLoss
from rankwise.rankers.torch.batches import Batching, BatchPart
from rankwise.rankers.torch.processes import Processes, seed_of
from rankwise.rankers.training import stopping
from rankwise.rankers.training.loop import Learner, State
from rankwise.rankers.training.stopping import NothingLeftToLearn
from rankwise.rankers.training.validation import DeviceScores

TRAINING = "training.safetensors"


class QueryLosses(Protocol):
    """The prepared loss of all training queries."""

    def take(self, queries: NDArray[np.int64]) -> PreparedLoss:
        """Return the loss of some of the queries, by number."""


@dataclass(kw_only=True)
class NetLearner(Learner[Weights]):
    """Learns from all training queries once a round."""

    objective: Objective
    train: RankingDataset
    documents: Mapping[str, Column]
    """Columns of single documents that the objective reads, such as ``document_weights``."""
    seed: int
    module: torch.nn.Module
    """Gives one score per document; it is on ``device``."""
    inputs: Callable[[BatchPart], tuple[torch.Tensor, ...]]
    """Arguments of the module for whole queries, on the same device."""
    forward: Callable[..., torch.Tensor] | None = None
    """Gives (documents, members) scores in training; None: the module gives one score per document."""
    backward: Callable[[torch.Tensor, torch.Tensor], None] = torch.autograd.backward
    """Leaves gradients in the module's parameters, by scores and their gradient."""
    prefetch: Callable[[BatchPart], None] | None = None
    """Called with the next part of ``inputs`` while the device still computes the one before."""
    losses: Callable[[RankingDataset], QueryLosses] | None = None
    """The loss of training data; None: that of their lists."""
    held_out: Sequence[Callable[[], Array | DeviceScores]]
    """Score data sets that are measured by the module as it stands, in evaluation mode and without gradients."""
    optimizer: Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer]
    batching: Batching
    made: Callable[[int], Model]
    """Returns the trained model of so many epochs, of which ``pack`` and ``unpack`` write and read the weights."""
    pack: Callable[[Weights], bytes] = packed
    unpack: Callable[[bytes], Weights] = unpacked
    reduction: str = "mean"
    """The loss of a batch: the ``"mean"`` over its queries (Σ weight · loss / Σ weight), or the ``"sum"``."""
    device: torch.device
    precision: str = "float32"
    """``"tf32"`` or ``"bf16"`` compute the module's products in these; weights and losses stay what they are."""
    averaging: float = 0.0
    """The decay of the weights' moving average from step to step; 0: the last weights alone."""
    data: Callable[[int], RankingDataset] | None = None
    """The training data of an epoch, where they differ, such as by negatives; None: ``train`` always."""
    processes: Processes = field(init=False)

    def __post_init__(self) -> None:
        self.processes = Processes(self.device)
        bind_context(self.device)
        self._stepper = self.optimizer(self.module.parameters())
        self._averages = Averages(self.module, self.averaging) if self.averaging else None
        if self.data is None:
            self._prepared = self._prepare(self.train)

    def round(self, stream: Stream, weights: Sequence[float] = ()) -> float:
        """Learn from all queries once; return their mean loss on the way."""
        with on(self.device), own_randomness(self.device), torch_threads(), products_in(self.precision, self.device):
            loss, moved = self._epoch(stream, weights)
        if math.isnan(loss):
            raise check.diverged("a loss of nan")
        if not moved:
            raise NothingLeftToLearn("converged", lambda: stopping.no_gradient(self.train, self.objective))
        return loss

    def scores(self, number: int) -> Array | DeviceScores:
        """Score a data set that is measured: without dropout, and without noise."""
        self.module.eval()
        with on(self.device), torch_threads(), self._averaged(), torch.inference_mode():
            return self.held_out[number]()

    def snapshot(self) -> Weights:
        """Copy the weights."""
        with self._averaged():
            return snapshot(self.module)

    def model(self, best: Weights, rounds: int) -> Model:
        """Return the model of a snapshot of the weights."""
        self.module.load_state_dict(best)
        self.module.eval()
        return self.made(rounds)

    def description(self, rounds: int) -> Json:
        """Return what builds the model again."""
        return self.made(rounds).description()

    def files(self, best: Weights) -> dict[str, bytes]:
        """Return the best weights, and apart from them the last, with the optimizer's state."""
        last = with_prefix("weights", snapshot(self.module))
        last |= with_prefix("optimizer", remembered(self._stepper))
        if self._averages is not None:
            last |= with_prefix("averages", self._averages.remembered())
        return {MODEL: self.pack(best), TRAINING: packed(last)}

    def resume(self, files: Mapping[str, bytes], state: State) -> Weights:
        """Resume from the last weights of a checkpoint."""
        training = unpacked(files[TRAINING])
        fill(self.module, of_prefix("weights", training))
        recall(self._stepper, of_prefix("optimizer", training))
        if self._averages is not None:
            self._averages.recall(of_prefix("averages", training))
        return self.unpack(files[MODEL])

    def _averaged(self) -> contextlib.AbstractContextManager[None]:
        """The module as it is measured and kept."""
        return contextlib.nullcontext() if self._averages is None else self._averages.inside()

    def _prepare(self, data: RankingDataset) -> QueryLosses:
        """Prepare all labels once, for every batch."""
        if self.losses is not None:
            return self.losses(data)
        return TorchLoss(self.objective, "none").prepare(data.labels, data.offsets, **self.documents)

    def _epoch(self, stream: Stream, weights: Sequence[float]) -> tuple[float, bool]:
        """Return the mean loss of all queries, and whether there was any gradient."""
        data, processes, number = self.train, self.processes, stream.round
        if self.data is not None:
            data = self.data(number)
            stream = data.stream(self.seed, number)
        seed_torch(self.device, seed_of(Stream(self.seed, number).child("dropout", processes.rank).key))
        prepared = self._prepared if data is self.train else self._prepare(data)
        if weights and isinstance(prepared, PreparedLoss):
            prepared = prepared.weighed(weights)
        step = _Step(self, prepared)
        parts = self._parts(data, stream)
        batch = next(parts, None)
        while batch is not None:
            part, divisor = batch
            self._stepper.zero_grad(set_to_none=True)
            if part is not None:
                step(part, divisor)
            processes.add_gradients(self.module.parameters())
            self._stepper.step()
            if self._averages is not None:
                self._averages.step()
            batch = next(parts, None)
            if self.prefetch is not None and batch is not None and batch[0] is not None:
                self.prefetch(batch[0])
        processes.average(self.module.buffers())
        loss, weight, moved = processes.add(step.totals()).tolist()
        return loss / weight if weight else 0.0, bool(moved)

    def _parts(self, data: RankingDataset, stream: Stream) -> Iterator[tuple[BatchPart | None, float]]:
        """Yield this process's share of every batch, if it has one, and the divisor of the sum of its losses."""
        for queries in self.batching.cut(data, stream):
            weight = float(queries.size if data.weights is None else data.weights[queries].sum())
            if weight == 0.0:
                continue
            share = self.processes.share(queries)
            yield BatchPart.of(data, share, stream) if share.size else None, 1.0 if self.reduction == "sum" else weight


class _Step:
    """The steps of an epoch: from a part of a batch to gradients of the module's parameters.

    No number is read from the device, so that the host prepares the next part while the device computes. The sums of an
    epoch stay on the device until :meth:`totals` are read.
    """

    def __init__(self, learner: NetLearner, prepared: QueryLosses) -> None:
        self.learner, self.prepared, self.weight = learner, prepared, 0.0
        self.loss = torch.zeros((), dtype=torch.float64, device=learner.device)
        self.moved = torch.zeros((), dtype=torch.int32, device=learner.device)

    def __call__(self, part: BatchPart, divisor: float) -> None:
        """Leave the gradients of Σ weight · loss / ``divisor`` in the module's parameters."""
        learner, training = self.learner, bool(part.offsets[-1] > 1)
        if learner.module.training != training:
            learner.module.train(training)  # a single document has no variance to be normalised by
        mixed = learner.precision == "bf16"
        # Each weight is used once, so a cache gains nothing; left open by an interruption it would hold old weights.
        with torch.autocast(learner.device.type, torch.bfloat16, enabled=mixed, cache_enabled=False):
            scores: torch.Tensor = (learner.forward or learner.module)(*learner.inputs(part)).float()
        members = scores.numel() // max(scores.shape[0], 1)
        self.weight += float(part.weights.sum())
        at = scores.detach()
        if part.data.init_scores is not None:
            start = to_device(part.data.init_scores[part.rows], at.device, at.dtype)
            at = at + start.reshape(-1, *[1] * (at.ndim - 1))
        if members == 1 and part.data.weights is None and has_kernels(learner.device.type):
            flat, loss = at.reshape(-1), self.prepared.take(part.queries)
            total, gradient = loss.total(flat, part.stream, 1.0 / divisor, self.moved)
            self.loss.add_(total, alpha=divisor)
            learner.backward(scores, gradient.reshape(scores.shape))
            return
        values, gradient = self._derivatives(part, at, members)
        # The chain rule by hand: it is two numbers for each query, for which torch would launch a dozen kernels.
        gradient *= _factors(part, divisor, members, learner.device)
        learner.backward(scores, gradient.reshape(members, -1).T.reshape(scores.shape))
        self.loss += values.double() @ _weights(part, learner.device)
        self.moved |= gradient.any()

    def totals(self) -> torch.Tensor:
        """Return the loss and the weight of all queries, and whether there was any gradient."""
        return torch.stack((self.loss, torch.full_like(self.loss, self.weight), self.moved.double()))

    def _derivatives(self, part: BatchPart, scores: torch.Tensor, members: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the loss of each query, and the derivative of each member's by its scores, one member after the other.

        With members a query's loss is the mean of theirs, all of which see the same random numbers.
        """
        count = part.queries.size
        if members == 1:
            return self.prepared.take(part.queries).differentiate(scores.reshape(-1), part.stream)
        again = np.tile(np.arange(count), members)
        every = self.prepared.take(part.queries[again])
        values, gradient = every.differentiate(scores.T.reshape(-1), part.stream.take(again, count))
        return values.reshape(members, count).mean(0), gradient


def _weights(part: BatchPart, device: torch.device) -> torch.Tensor:
    if part.data.weights is None:
        return torch.ones(part.queries.size, dtype=torch.float64, device=device)
    return to_device(part.weights, device)


def _factors(part: BatchPart, divisor: float, members: int, device: torch.device) -> torch.Tensor | float:
    """Return weight / divisor / members of its query for each document of each member; or one number for all."""
    if part.data.weights is None:
        return float(np.float32(1.0 / divisor) / np.float32(members))
    factors = (1.0 / divisor * part.weights).astype(np.float32) / np.float32(members)
    return to_device(np.tile(np.repeat(factors, np.diff(part.offsets)), members), device)
