"""The learner of a reranker: each round is a part of an epoch, a number of steps of AdamW over batches of whole lists.

A step scores the lists of its batch without a graph, computes the objective's gradient, and scores the mini-batches
again to propagate it to the weights (see :mod:`rankwise.wings.rerank.passes`). The order of lists depends on (seed,
epoch), dropout on (seed, round, process), the learning rate on the step's number: beside these a round depends on the
weights and the optimizer's state alone, so that an interrupted run resumes, bit for bit on a CPU.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray

from rankwise import Stream
from rankwise import objective as find_objective
from rankwise.base.arrays import Array
from rankwise.models import MODEL, Weights, own_randomness, seed_torch, torch_threads, usable_device, weights
from rankwise.objectives.torch import TorchLoss
from rankwise.rankers import TRAINING, Batching, BatchPart, Processes, fit_arguments, seed_of
from rankwise.rankers.training import Learner, NothingLeftToLearn, State, stopping
from rankwise.wings.rerank.batches import MiniBatches, MiniBatchSize, prefetch
from rankwise.wings.rerank.data.lists import Lists
from rankwise.wings.rerank.encoders import CrossEncoder, Pair, module_of, open_model
from rankwise.wings.rerank.passes import two_passes
from rankwise.wings.rerank.scoring import batches_of, precision, score_pairs

if TYPE_CHECKING:
    from rankwise.wings.rerank.reranker import RerankerSettings

BF16 = {"auto": (True, False), "bf16": (True, True), "float32": (False, False)}
"""Whether training on a GPU, and whether anything else, is computed in bfloat16, by ``precision``."""


@dataclass(frozen=True)
class Schedule:
    """Steps of a training, one for each batch of lists, counted from 0 over all epochs: rounds and learning rates."""

    settings: "RerankerSettings"
    queries: int
    """Number of training lists."""

    @property
    def steps_per_epoch(self) -> int:
        """Number of steps of an epoch."""
        return -(-self.queries // self.settings.batch_queries)

    @property
    def rounds_per_epoch(self) -> int:
        """Number of parts of an epoch, each of which is a round."""
        return min(self.settings.parts, self.steps_per_epoch)

    @property
    def rounds(self) -> int:
        """Number of parts of all epochs."""
        return self.settings.epochs * self.rounds_per_epoch

    def steps_before(self, round: int) -> int:
        """Return the number of steps before a round; of all steps, if there is no such round any more."""
        epoch, part = divmod(round, self.rounds_per_epoch)
        return epoch * self.steps_per_epoch + self.steps_per_epoch * part // self.rounds_per_epoch

    def steps_of(self, round: int) -> range:
        """Return the steps of a round, counted from the first of the training.

        >>> from rankwise.rerank import Reranker
        >>> schedule = Schedule(Reranker("model", epochs=2, parts=2, batch_queries=2), queries=5)
        >>> [schedule.steps_of(round) for round in range(schedule.rounds)]
        [range(0, 1), range(1, 3), range(3, 4), range(4, 6)]
        """
        return range(self.steps_before(round), self.steps_before(round + 1))

    def rate(self, step: int) -> float:
        """Return the learning rate of a step.

        >>> from rankwise.rerank import Reranker
        >>> schedule = Schedule(Reranker("model", batch_queries=1, learning_rate=1.0, warmup=0.5), queries=6)
        >>> [round(schedule.rate(number), 2) for number in range(6)]
        [0.33, 0.67, 1.0, 1.0, 0.67, 0.33]
        """
        total = self.settings.epochs * self.steps_per_epoch
        rising = int(self.settings.warmup * total)
        if step < rising:
            return self.settings.learning_rate * (step + 1) / rising
        return self.settings.learning_rate * (total - step) / max(total - rising, 1)


class _StepInputs(NamedTuple):
    """Inputs of a step in one process; without a part where none of the batch's lists are its own."""

    weight: float
    """Sum of weights of the batch's lists, in all processes."""
    part: BatchPart | None = None
    score: Callable[[Any], object] = lambda batch: batch
    batches: MiniBatches | None = None


@dataclass(kw_only=True)
class RerankLearner(Learner[Weights]):
    """Trains a cross-encoder, a part of an epoch in each round."""

    settings: "RerankerSettings"
    train: Lists
    valid: Lists | None
    schedule: Schedule
    on_step: Callable[[int, float], None]
    """Callback after every step: number of steps so far, loss of the step."""
    best_scores: Array | None = None
    """Scores of the validation lists by the best model so far."""
    processes: Processes = field(init=False)

    def __post_init__(self) -> None:
        settings, data = self.settings, self.train
        self.objective = find_objective(settings.objective)
        documents = fit_arguments.document_columns(data, self.objective, debias=settings.debias)
        on_gpu, self._mixed_scores = BF16[settings.precision]
        self._size = MiniBatchSize(settings.token_budget)
        self._max_grad_norm = float(settings.max_grad_norm)
        self.device = usable_device(settings.device)
        self._mixed = self._mixed_scores or (on_gpu and self.device.type == "cuda")
        self.encoder = open_model(settings)
        self.processes = Processes(self.device)
        self._module = module_of(self.encoder)
        self._loss = TorchLoss(self.objective, "none").prepare(data.labels, data.offsets, **documents)
        self._optimizer = adamw(self._module, float(settings.weight_decay))
        self._batching = Batching(settings.batch_queries)
        self._scores: Array | None = None  # of the validation lists after the last round

    def round(self, stream: Stream, weights: Sequence[float] = ()) -> float:
        """Run the steps of a part of an epoch; returns the mean loss of their lists on the way."""
        steps = self.schedule.steps_of(stream.round)
        per_epoch = self.schedule.steps_per_epoch
        of_epoch = stream.at(steps.start // per_epoch)
        batches = list(self._batching.cut(self.train, of_epoch))
        # Texts are tokenized during the step before.
        prefetched = prefetch(lambda step: self._inputs(batches[step % per_epoch], of_epoch), steps)
        total = weight = gradient = 0.0
        with own_randomness(self.device), torch_threads(), contextlib.closing(prefetched):
            dropout = Stream(self.settings.seed, stream.round).child("dropout", self.processes.rank)
            seed_torch(self.device, seed_of(dropout.key))
            for step, inputs in zip(steps, prefetched, strict=True):
                loss, moved = self._step(inputs, self.schedule.rate(step)) if inputs.weight else (0.0, 0.0)
                total, weight, gradient = total + loss, weight + inputs.weight, max(gradient, moved)
                self.on_step(step + 1, loss / inputs.weight if inputs.weight else 0.0)
        if not self.processes.alone and self.valid is not None:  # each scores its share: none waits long for another
            rank, count = self.processes.rank, self.processes.count
            scores = np.zeros(self.valid.n_docs)
            scores[rank::count] = self.score(list(self.valid.pairs())[rank::count])
            self._scores = self.processes.add(scores)
        if not gradient and not self._informative():
            raise NothingLeftToLearn("converged", lambda: stopping.no_gradient(self.train, self.objective))
        return total / weight if weight else 0.0

    def _informative(self) -> bool:
        """Whether any list has a gradient, where those of a round have none: computed for scores that differ."""
        data = self.train
        scores = torch.from_numpy(np.arange(data.n_docs) % 7 / 7)
        _, gradient = self._loss.differentiate(scores, data.stream(self.settings.seed))
        counts = np.ones(data.n_queries) if data.weights is None else data.weights
        return bool((gradient.numpy() * np.repeat(counts, data.sizes)).any())

    def _inputs(self, queries: NDArray[np.int64], stream: Stream) -> _StepInputs:
        """Tokenize this process's share of a batch of lists."""
        of_queries = self.train.weights
        weight = float(queries.size if of_queries is None else of_queries[queries].sum())
        share = self.processes.share(queries)
        if not share.size or weight == 0.0:
            return _StepInputs(weight)
        part, pairs = BatchPart.of(self.train, share, stream), list(self.train.take(share).pairs())
        return _StepInputs(weight, part, *batches_of(self.encoder, pairs, self._size))

    def _step(self, inputs: _StepInputs, rate: float) -> tuple[float, float]:
        """Update the weights by one batch; returns the sum of its losses, and whether there was a gradient."""
        self._optimizer.zero_grad(set_to_none=True)
        part, batches, sums = inputs.part, inputs.batches, np.zeros(2)
        if part is not None and batches is not None:
            prepared, of_queries = self._loss.take(part.queries), torch.from_numpy(part.weights)

            def record(gradient: torch.Tensor) -> None:
                sums[1] = float(gradient.any())

            def loss(scores: torch.Tensor) -> torch.Tensor:
                ordered = batches.unsorted(scores.cpu())  # the fastest place for so few numbers
                ordered.register_hook(record)  # type: ignore[no-untyped-call]
                total: torch.Tensor = prepared(ordered, stream=part.stream).double() @ of_queries
                return total / inputs.weight

            self._module.train()
            with precision(self.device, mixed=self._mixed):
                value = two_passes(inputs.score, batches, loss, model=self.encoder)
            value.backward()  # type: ignore[no-untyped-call]
            sums[0] = float(value.detach()) * inputs.weight
        self.processes.add_gradients(self._module.parameters())
        torch.nn.utils.clip_grad_norm_(self._module.parameters(), self._max_grad_norm)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._optimizer.step()
        loss_sum, moved = (sums if self.processes.alone else self.processes.add(sums)).tolist()
        return loss_sum, moved

    def scores(self, number: int) -> Array:
        """Score the validation lists, without dropout; several processes have done so together at the round's end."""
        if self._scores is None or self.processes.alone:
            self._scores = self.score(list(cast("Lists", self.valid).pairs()))
        return self._scores

    def score(self, pairs: list[Pair]) -> Array:
        """Score pairs by the weights as they are."""
        with torch_threads():
            return score_pairs(self.encoder, pairs, self._size, mixed=self._mixed_scores)

    def snapshot(self) -> Weights:
        """Copy the weights."""
        self.best_scores = self._scores
        return weights.snapshot(self._module)

    def model(self, best: Weights, rounds: int) -> CrossEncoder:
        """Return the cross-encoder with these weights, and free the optimizer's state, several times as large."""
        self._module.load_state_dict(best)
        self._module.eval()
        self._module.zero_grad(set_to_none=True)
        self._optimizer.state.clear()
        return self.encoder

    def files(self, best: Weights) -> dict[str, bytes]:
        """Return the best weights, and in another file the last, with the optimizer's state."""
        last = weights.with_prefix("weights", weights.snapshot(self._module))
        last |= weights.with_prefix("optimizer", weights.remembered(self._optimizer))
        return {MODEL: weights.packed(best), TRAINING: weights.packed(last)}

    def resume(self, files: Mapping[str, bytes], state: State) -> Weights:
        """Resume from the last weights of a checkpoint; returns the best."""
        training = weights.unpacked(files[TRAINING])
        weights.fill(self._module, weights.of_prefix("weights", training))
        weights.recall(self._optimizer, weights.of_prefix("optimizer", training))
        return weights.unpacked(files[MODEL])


def adamw(module: torch.nn.Module, weight_decay: float) -> torch.optim.Optimizer:
    """Return an AdamW whose weight decay leaves biases and normalizations alone."""
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    groups = [
        {"params": [parameter for parameter in trained if parameter.ndim > 1], "weight_decay": weight_decay},
        {"params": [parameter for parameter in trained if parameter.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW([group for group in groups if group["params"]], lr=0.0)
