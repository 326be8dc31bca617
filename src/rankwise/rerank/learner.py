"""The learner of a reranker: each round is a part of an epoch, a number of steps of AdamW over batches of whole lists.

A step scores the lists of its batch without a graph, computes the objective's gradient, and scores the mini-batches
again to propagate it to the weights (see :mod:`rankwise.rerank.passes`). The order of lists depends on (seed, epoch),
dropout on (seed, round, process), the learning rate on the step's number: beside these a round depends on the weights
and the optimizer's state alone, so that an interrupted run resumes, bit for bit on a CPU.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from rankwise import check
from rankwise.arrays import Array, Column
from rankwise.objectives.base import Objective
from rankwise.objectives.torch import TorchLoss
from rankwise.rankers.nets.batches import Batching, BatchPart
from rankwise.rankers.nets.learner import TRAINING
from rankwise.rankers.nets.processes import Processes, seed_of
from rankwise.rankers.nets.ranker import MODEL
from rankwise.rankers.nets.state import own_randomness, seed_torch, torch_threads
from rankwise.rankers.nets.weights import (
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
from rankwise.rankers.training import stopping
from rankwise.rankers.training.loop import State
from rankwise.rankers.training.stopping import Exhausted
from rankwise.rerank.batches import MiniBatches, MiniBatchSize, prefetch
from rankwise.rerank.data.lists import Lists
from rankwise.rerank.encoders import CrossEncoder, module_of
from rankwise.rerank.passes import two_passes
from rankwise.rerank.scoring import batches_of, precision, score_pairs
from rankwise.stream import Stream


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Steps of a training, one for each batch of lists, counted from 0 over all epochs: rounds and learning rates."""

    epochs: int
    parts: int
    """Number of parts of an epoch, at most one for each of its steps."""
    batch_queries: int
    queries: int
    learning_rate: float
    warmup: float
    """Share of all steps in which the learning rate rises from 0; then it falls to 0."""

    def __post_init__(self) -> None:
        check.integer("epochs", self.epochs, least=1)
        check.integer("parts", self.parts, least=1)
        check.integer("batch_queries", self.batch_queries, least=1)
        check.number("learning_rate", self.learning_rate, least=0.0)
        check.number("warmup", self.warmup, least=0.0, most=1.0)

    @property
    def steps_per_epoch(self) -> int:
        """Number of steps of an epoch."""
        return -(-self.queries // self.batch_queries)

    @property
    def rounds_per_epoch(self) -> int:
        """Number of parts of an epoch, each of which is a round."""
        return min(self.parts, self.steps_per_epoch)

    @property
    def rounds(self) -> int:
        """Number of parts of all epochs."""
        return self.epochs * self.rounds_per_epoch

    def steps_before(self, round: int) -> int:
        """Return the number of steps before a round; of all steps, if there is no such round any more."""
        epoch, part = divmod(round, self.rounds_per_epoch)
        return epoch * self.steps_per_epoch + self.steps_per_epoch * part // self.rounds_per_epoch

    def steps_of(self, round: int) -> range:
        """Return the steps of a round, counted from the first of the training.

        >>> schedule = Schedule(epochs=2, parts=2, batch_queries=2, queries=5, learning_rate=1.0, warmup=0.5)
        >>> [schedule.steps_of(round) for round in range(schedule.rounds)]
        [range(0, 1), range(1, 3), range(3, 4), range(4, 6)]
        """
        return range(self.steps_before(round), self.steps_before(round + 1))

    def rate(self, step: int) -> float:
        """Return the learning rate of a step.

        >>> schedule = Schedule(epochs=1, parts=1, batch_queries=1, queries=6, learning_rate=1.0, warmup=0.5)
        >>> [round(schedule.rate(number), 2) for number in range(6)]
        [0.33, 0.67, 1.0, 1.0, 0.67, 0.33]
        """
        total = self.epochs * self.steps_per_epoch
        rising = int(self.warmup * total)
        if step < rising:
            return self.learning_rate * (step + 1) / rising
        return self.learning_rate * (total - step) / max(total - rising, 1)


class _StepInputs(NamedTuple):
    """Inputs of a step in one process; without a part where none of the batch's lists are its own."""

    weight: float
    """Sum of weights of the batch's lists, in all processes."""
    part: BatchPart | None = None
    score: Callable[[Any], object] = lambda batch: batch
    batches: MiniBatches | None = None


@dataclass(kw_only=True)
class RerankLearner:
    """Trains a cross-encoder, a part of an epoch in each round."""

    encoder: CrossEncoder
    objective: Objective
    train: Lists
    documents: Mapping[str, Column]
    """Columns of documents that the objective reads, such as ``teacher_scores``."""
    held_out: Sequence[Lists]
    schedule: Schedule
    size: MiniBatchSize
    weight_decay: float
    max_grad_norm: float
    seed: int
    device: torch.device
    mixed: bool
    """Whether training, and the scores of held-out lists, are computed in bfloat16."""
    mixed_scores: bool
    on_step: Callable[[int, float], None]
    """Callback after every step: number of steps so far, loss of the step."""
    best_scores: Array | None = None
    """Scores of the first held-out lists by the best model so far."""
    processes: Processes = field(init=False)
    _scores: dict[int, Array] = field(default_factory=dict, init=False)
    """Scores of held-out lists after the last round."""

    def __post_init__(self) -> None:
        self.processes = Processes(self.device)
        data = self.train
        self._module = module_of(self.encoder)
        self._loss = TorchLoss(self.objective, "none").prepare(data.labels, data.offsets, **self.documents)
        self._optimizer = adamw(self._module, self.weight_decay)
        self._batching = Batching(self.schedule.batch_queries)

    def round(self, stream: Stream) -> float:
        """Run the steps of a part of an epoch; returns the mean loss of their lists on the way."""
        steps = self.schedule.steps_of(stream.round)
        per_epoch = self.schedule.steps_per_epoch
        of_epoch = stream.at(steps.start // per_epoch)
        batches = list(self._batching.cut(self.train, of_epoch))
        # Texts are tokenized during the step before.
        prefetched = prefetch(lambda step: self._inputs(batches[step % per_epoch], of_epoch), steps)
        total = weight = gradient = 0.0
        with own_randomness(self.device), torch_threads(), contextlib.closing(prefetched):
            seed_torch(self.device, seed_of(Stream(self.seed, stream.round).child("dropout", self.processes.rank).key))
            for step, inputs in zip(steps, prefetched, strict=True):
                loss, moved = self._step(inputs, self.schedule.rate(step))
                total, weight, gradient = total + loss, weight + inputs.weight, max(gradient, moved)
                self.on_step(step + 1, loss / inputs.weight if inputs.weight else 0.0)
        if not self.processes.alone:
            self._score_together()
        if not gradient and not self._informative():
            raise Exhausted("converged", lambda: stopping.no_gradient(self.train, self.objective))
        return total / weight if weight else 0.0

    def _informative(self) -> bool:
        """Whether any list has a gradient, where those of a round have none: computed for scores that differ."""
        data = self.train
        scores = torch.from_numpy(np.arange(data.n_docs) % 7 / 7)
        _, gradient = self._loss.differentiate(scores, data.stream(self.seed))
        counts = np.ones(data.n_queries) if data.weights is None else data.weights
        return bool((gradient.numpy() * np.repeat(counts, data.sizes)).any())

    def _inputs(self, queries: NDArray[np.int64], stream: Stream) -> _StepInputs:
        """Tokenize this process's share of a batch of lists."""
        weights = self.train.weights
        weight = float(queries.size if weights is None else weights[queries].sum())
        share = self.processes.share(queries)
        if not share.size or weight == 0.0:
            return _StepInputs(weight)
        pairs = list(self.train.take(share).pairs())
        return _StepInputs(weight, BatchPart.of(self.train, share, stream), *batches_of(self.encoder, pairs, self.size))

    def _step(self, inputs: _StepInputs, rate: float) -> tuple[float, float]:
        """Update the weights by one batch; returns the sum of its losses, and whether there was a gradient."""
        if inputs.weight == 0.0:
            return 0.0, 0.0
        self._optimizer.zero_grad(set_to_none=True)
        sums = np.zeros(2)
        if inputs.part is not None and inputs.batches is not None:
            sums[:] = self._add_gradient(inputs.part, inputs.score, inputs.batches, inputs.weight)
        self.processes.add_gradients(self._module.parameters())
        torch.nn.utils.clip_grad_norm_(self._module.parameters(), self.max_grad_norm)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._optimizer.step()
        loss, moved = (sums if self.processes.alone else self.processes.add(sums)).tolist()
        return loss, moved

    def _add_gradient(
        self, part: BatchPart, score: Callable[[Any], object], batches: MiniBatches, divisor: float
    ) -> tuple[float, float]:
        """Add the gradient of a part of a batch; returns the sum of its losses, and whether the gradient is not 0."""
        prepared, weights = self._loss.take(part.queries), torch.from_numpy(part.weights)
        moved = 0.0

        def record(gradient: torch.Tensor) -> None:
            nonlocal moved
            moved = float(gradient.any())

        def loss(scores: torch.Tensor) -> torch.Tensor:
            ordered = batches.unsorted(scores.cpu())  # the fastest place for so few numbers
            ordered.register_hook(record)  # type: ignore[no-untyped-call]
            total: torch.Tensor = prepared(ordered, stream=part.stream).double() @ weights
            return total / divisor

        self._module.train()
        with precision(self.device, mixed=self.mixed):
            value = two_passes(score, batches, loss, model=self.encoder)
        value.backward()  # type: ignore[no-untyped-call]
        return float(value.detach()) * divisor, moved

    def scores(self, number: int) -> Array:
        """Score held-out lists, without dropout; several processes have done so together at the end of the round."""
        if self.processes.alone or number not in self._scores:
            pairs = list(self.held_out[number].pairs())
            with torch_threads():
                self._scores[number] = score_pairs(self.encoder, pairs, self.size, mixed=self.mixed_scores)
        return self._scores[number]

    def _score_together(self) -> None:
        """Score held-out lists, each process its share, so that none waits long for another."""
        rank, count = self.processes.rank, self.processes.count
        for number, lists in enumerate(self.held_out):
            pairs, scores = list(lists.pairs()), np.zeros(lists.n_docs)
            with torch_threads():
                scores[rank::count] = score_pairs(self.encoder, pairs[rank::count], self.size, mixed=self.mixed_scores)
            self._scores[number] = self.processes.add(scores)

    def snapshot(self) -> Weights:
        """Copy the weights."""
        self.best_scores = self._scores.get(0)
        return snapshot(self._module)

    def restore(self, weights: Weights) -> None:
        """Restore weights, and free the optimizer's state, several times as large as they are."""
        self._module.load_state_dict(weights)
        self._module.eval()
        self._module.zero_grad(set_to_none=True)
        self._optimizer.state.clear()

    def model(self) -> CrossEncoder:
        """Return the cross-encoder."""
        return self.encoder

    def files(self, best: Weights) -> dict[str, bytes]:
        """Return the best weights, and in another file the last, with the optimizer's state."""
        last = with_prefix("weights", snapshot(self._module)) | with_prefix("optimizer", remembered(self._optimizer))
        return {MODEL: packed(best), TRAINING: packed(last)}

    def resume(self, files: Mapping[str, bytes], state: State) -> Weights:
        """Resume from the last weights of a checkpoint; returns the best."""
        training = unpacked(files[TRAINING])
        fill(self._module, of_prefix("weights", training))
        recall(self._optimizer, of_prefix("optimizer", training))
        return unpacked(files[MODEL])


def adamw(module: torch.nn.Module, weight_decay: float) -> torch.optim.Optimizer:
    """Return an AdamW whose weight decay leaves biases and normalizations alone."""
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    groups = [
        {"params": [parameter for parameter in trained if parameter.ndim > 1], "weight_decay": weight_decay},
        {"params": [parameter for parameter in trained if parameter.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW([group for group in groups if group["params"]], lr=0.0)
