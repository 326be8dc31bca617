"""What learns in a reranker: each round is a part of an epoch, a number of steps of AdamW over batches of whole lists.

A step scores the lists of its batch without a graph, takes the objective's gradient, and replays the mini-batches to
push it into the weights (see :mod:`rankwise.rerank.passes`). The order of lists depends on (seed, epoch), dropout on
(seed, round, process), the learning rate on the step's number: all that a round depends on beside these are the weights
and the optimizer's state, so that a run that was interrupted resumes, bit for bit on a CPU.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from rankwise.arrays import Array, Column
from rankwise.objectives.base import Objective
from rankwise.objectives.torch import TorchLoss
from rankwise.rankers.nets import batches as of_lists
from rankwise.rankers.nets.base import MODEL
from rankwise.rankers.nets.batches import Part
from rankwise.rankers.nets.learner import TRAINING, own_randomness, seed_torch, torch_threads
from rankwise.rankers.nets.processes import Processes, seed_of
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
from rankwise.rankers.training import exhausted
from rankwise.rankers.training.exhausted import Exhausted
from rankwise.rankers.training.loop import State
from rankwise.rerank.ahead import ahead
from rankwise.rerank.batching import Batching
from rankwise.rerank.data.lists import Lists
from rankwise.rerank.inputs import MiniBatches
from rankwise.rerank.passes import two_passes
from rankwise.rerank.schedule import Steps
from rankwise.rerank.scoring import batches_of, precision, scored
from rankwise.stream import Stream

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder


class _Inputs(NamedTuple):
    """What a process needs for a step: nothing where the batch has no list for it."""

    weight: float
    """Of the lists of the batch, on all processes."""
    part: Part | None = None
    score: Any = None
    batches: Any = None


@dataclass(kw_only=True)
class RerankLearner:
    """Takes the steps of a part of an epoch in a round."""

    encoder: "CrossEncoder"
    objective: Objective
    train: Lists
    documents: Mapping[str, Column]
    """Columns of single documents that the objective is handed, such as ``teacher_scores``."""
    held_out: Sequence[Lists]
    steps: Steps
    batching: Batching
    weight_decay: float
    max_grad_norm: float
    seed: int
    device: torch.device
    mixed: bool
    """Whether training computes in bfloat16, and scores of held-out lists."""
    mixed_scores: bool
    told: Callable[[int, float], None] = lambda step, loss: None  # noqa: ARG005
    """Called after every step with how many there were and its loss."""
    best_scores: Array | None = None
    """Of the first held-out lists, by the model that was kept last."""
    processes: Processes = field(init=False)
    _found: dict[int, Array] = field(default_factory=dict, init=False)
    """Scores of held-out lists after the last round."""

    def __post_init__(self) -> None:
        self.processes = Processes(self.device)
        data = self.train.data
        self._loss = TorchLoss(self.objective, "none").prepare(data.labels, data.offsets, **self.documents)
        self._stepper = optimizer(self.encoder, self.weight_decay)
        self._lists = of_lists.Batching(self.steps.batch_queries)

    def round(self, stream: Stream) -> float:
        """Take the steps of a part of an epoch; gives the mean loss of their lists on the way."""
        numbers = self.steps.of_round(stream.round)
        of_epoch = stream.at(numbers.start // self.steps.per_epoch)
        batches = list(self._lists.cut(self.train.data, of_epoch))
        coming = ahead(
            lambda number: self._inputs(batches[number % self.steps.per_epoch], of_epoch), numbers
        )  # texts are tokenized while the step before is taken
        loss = weight = moved = 0.0
        with own_randomness(self.device), torch_threads(), contextlib.closing(coming):
            seed_torch(self.device, seed_of(Stream(self.seed, stream.round).child("dropout", self.processes.rank).key))
            for number, inputs in zip(numbers, coming, strict=True):
                found = self._step(inputs, self.steps.rate(number))
                loss, weight, moved = loss + found[0], weight + found[1], max(moved, found[2])
                self.told(number + 1, found[0] / found[1] if found[1] else 0.0)
        if not self.processes.alone:
            self._score_together()
        if not moved and not self._informative():
            raise Exhausted("converged", lambda: exhausted.no_gradient(self.train.data, self.objective))
        return loss / weight if weight else 0.0

    def _informative(self) -> bool:
        """Whether any list says something, where those of a part say nothing: scores that differ have a gradient."""
        data = self.train.data
        scores = torch.from_numpy(np.arange(data.n_docs) % 7 / 7)
        _, gradient = self._loss.differentiate(scores, data.stream(self.seed))
        counts = np.ones(data.n_queries) if data.weights is None else data.weights
        return bool((gradient.numpy() * np.repeat(counts, data.sizes)).any())

    def _inputs(self, queries: NDArray[np.int64], stream: Stream) -> "_Inputs":
        """Tokenize this process's share of a batch of lists."""
        weights = self.train.weights
        weight = float(queries.size if weights is None else weights[queries].sum())
        share = self.processes.share(queries)
        if not share.size or weight == 0.0:
            return _Inputs(weight)
        pairs = list(self.train.take(share).pairs())
        return _Inputs(weight, Part.of(self.train.data, share, stream), *batches_of(self.encoder, pairs, self.batching))

    def _step(self, inputs: "_Inputs", rate: float) -> tuple[float, float, float]:
        """Change the weights by one batch; gives the sums of its losses and weights, and whether it had a gradient."""
        if inputs.weight == 0.0:
            return 0.0, 0.0, 0.0
        self._stepper.zero_grad(set_to_none=True)
        found = np.zeros(2)
        if inputs.part is not None:
            found[:] = self._gradients(inputs.part, inputs.score, inputs.batches, inputs.weight)
        self.processes.add_gradients(self.encoder.parameters())
        torch.nn.utils.clip_grad_norm_(self.encoder.parameters(), self.max_grad_norm)
        for group in self._stepper.param_groups:
            group["lr"] = rate
        self._stepper.step()
        loss, moved = (found if self.processes.alone else self.processes.add(found)).tolist()
        return loss, inputs.weight, moved

    def _gradients(
        self, part: Part, score: Callable[[Any], Any], batches: MiniBatches, divisor: float
    ) -> tuple[float, float]:
        """Add the gradient of a part of a batch to the weights'; gives the sum of losses, and whether there was any."""
        prepared, weights = self._loss.take(part.queries), torch.from_numpy(part.weights)
        moved = 0.0

        def see(gradient: torch.Tensor) -> None:
            nonlocal moved
            moved = float(gradient.any())

        def loss(scores: torch.Tensor) -> torch.Tensor:
            ordered = batches.unsorted(scores.cpu())  # where so few numbers are soonest done with
            ordered.register_hook(see)  # type: ignore[no-untyped-call]
            total: torch.Tensor = prepared(ordered, stream=part.stream).double() @ weights
            return total / divisor

        self.encoder.train()
        with precision(self.device, mixed=self.mixed):
            value = two_passes(score, batches, loss, model=self.encoder)
        value.backward()  # type: ignore[no-untyped-call]
        return float(value.detach()) * divisor, moved

    def scores(self, number: int) -> Array:
        """Score held-out lists, without dropout; processes have done so together, when the round was over."""
        if self.processes.alone or number not in self._found:
            pairs = list(self.held_out[number].pairs())
            with torch_threads():
                self._found[number] = scored(self.encoder, pairs, self.batching, mixed=self.mixed_scores)
        return self._found[number]

    def _score_together(self) -> None:
        """Score held-out lists, each process its share: it is over sooner, and none waits long for another."""
        rank, count = self.processes.rank, self.processes.count
        for number, lists in enumerate(self.held_out):
            pairs, found = list(lists.pairs()), np.zeros(lists.n_docs)
            with torch_threads():
                found[rank::count] = scored(self.encoder, pairs[rank::count], self.batching, mixed=self.mixed_scores)
            self._found[number] = self.processes.add(found)

    def snapshot(self) -> Weights:
        """Copy the weights."""
        self.best_scores = self._found.get(0)
        return snapshot(self.encoder)

    def restore(self, kept: Weights) -> None:
        """Put weights back, and let go of what only training needs: it is several times as large as they are."""
        self.encoder.load_state_dict(kept)
        self.encoder.eval()
        self.encoder.zero_grad(set_to_none=True)
        self._stepper.state.clear()

    def model(self) -> "CrossEncoder":
        """Give what scores."""
        return self.encoder

    def files(self, best: Weights) -> dict[str, bytes]:
        """Give the best weights, and apart from them the last, with what the optimizer remembers."""
        last = with_prefix("weights", snapshot(self.encoder)) | with_prefix("optimizer", remembered(self._stepper))
        return {MODEL: packed(best), TRAINING: packed(last)}

    def resume(self, files: Mapping[str, bytes], state: State) -> Weights:
        """Resume from the last weights of a checkpoint."""
        training = unpacked(files[TRAINING])
        fill(self.encoder, of_prefix("weights", training))
        recall(self._stepper, of_prefix("optimizer", training))
        return unpacked(files[MODEL])


def optimizer(module: torch.nn.Module, weight_decay: float) -> torch.optim.Optimizer:
    """AdamW, which draws matrices towards 0, and neither biases nor normalizations."""
    moving = [one for one in module.parameters() if one.requires_grad]
    groups = [
        {"params": [one for one in moving if one.ndim > 1], "weight_decay": weight_decay},
        {"params": [one for one in moving if one.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW([group for group in groups if group["params"]], lr=0.0)
