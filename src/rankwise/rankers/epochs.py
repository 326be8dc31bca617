"""Nets: the one training loop by epochs, whatever the module that scores.

How a ranker uses it: build a ``torch.nn.Module`` that gives one score per document, and a :class:`Plan` with

- ``module``, on ``device``, and ``inputs``: from a ``batches.Part`` (whole queries: ``part.data``, ``part.queries``,
  ``part.rows``) to the tuple of tensors that the module is called with, on the same device;
- ``score``: the scores of the validation documents by the module as it stands (called in evaluation mode, without
  gradients);
- ``optimizer``: from parameters to a ``torch.optim.Optimizer``.

:func:`learn` then shuffles by (seed, epoch), cuts batches of whole queries, multiplies each query's loss by its weight
once, steps, measures, stops early, and leaves the best weights in the module. Nothing of torch's global random state is
used or changed. An epoch is what a tree is to boosting: ``stream.round`` is its number, counted on from an older model.
Everything that the next epoch depends on is in the weights, the optimizer's state and the epoch's number, so that a run
that was cut short goes on, bit for bit on a CPU.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch

from rankwise.data.dataset import RankingDataset
from rankwise.objectives.torch_loss import torch_loss
from rankwise.rankers import course
from rankwise.rankers.batches import Batching, Part
from rankwise.rankers.course import Course
from rankwise.rankers.newton import Array
from rankwise.rankers.processes import Processes, seed_of
from rankwise.rankers.weights import Weights, recall, remembered, snapshot
from rankwise.stream import Stream
from rankwise.threads import thread_count


@dataclass(kw_only=True)
class State(course.State):
    """How far training has come; the weights so far are in the module."""

    best: Weights | None = None
    """The weights after the best epoch."""
    optimizer: Weights | None = None
    """What the optimizer remembered, to go on from, and at checkpoints what it remembers now."""


@dataclass(kw_only=True)
class Plan(Course):
    """What is trained, on what, and for how long; ``rounds`` are epochs."""

    unit: ClassVar[str] = "epochs"

    module: torch.nn.Module
    inputs: Callable[[Part], tuple[torch.Tensor, ...]]
    score: Callable[[], Array]
    optimizer: Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer]
    batching: Batching
    reduction: str = "mean"
    """The loss of a batch: the ``"mean"`` over its queries (Σ weight · loss / Σ weight), or the ``"sum"``."""
    device: torch.device
    precision: str = "float32"
    """``"bf16"`` computes the module in mixed precision; weights and losses stay what they are."""
    data: Callable[[int], RankingDataset] | None = None
    """The training data of an epoch, where each has its own, such as other negatives; None: ``train`` always."""

    processes: Processes = field(init=False)

    def __post_init__(self) -> None:
        self.processes = Processes(self.device)
        self._stream = self.train.stream(self.seed)  # ids are hashed once

    @property
    def leads(self) -> bool:
        """Whether this is the first of the processes that train together."""
        return self.processes.first

    def lists(self, epoch: int) -> tuple[RankingDataset, Stream]:
        """Give the training data of an epoch, and their stream."""
        if self.data is None:
            return self.train, self._stream.at(epoch)
        data = self.data(epoch)
        return data, data.stream(self.seed, epoch)


def learn(plan: Plan, state: State) -> State:
    """Train from ``state`` on until the epochs are done, or nothing improves, or the user interrupts."""
    processes = plan.processes
    optimizer = plan.optimizer(plan.module.parameters())
    if state.optimizer is not None:
        recall(optimizer, state.optimizer)
    with own_randomness(plan.device), torch_threads():
        try:
            while not (stop := plan.finished(state)):
                loss, moved = _epoch(plan, optimizer, state.total)
                if not moved:
                    stop = "converged"
                    break
                state.record({"loss": loss, **_measured(plan)})
                if plan.best(state) == state.done:
                    state.best = snapshot(plan.module)
                if plan.checkpoint is not None and state.done % plan.every == 0 and plan.leads:
                    state.optimizer = remembered(optimizer)
                    plan.checkpoint(state)
                if plan.report is not None:
                    plan.report(state, plan.best(state))
        except KeyboardInterrupt:
            state.settle()
            if not state.done or not processes.alone:  # others wait for this process: only an end ends their waiting
                raise
            stop = "interrupted"
    if state.best is None:
        raise course.no_gradient(plan.train, plan.objective)
    plan.module.load_state_dict(state.best)
    plan.module.eval()
    state.stopped = stop
    return state


def _epoch(plan: Plan, optimizer: torch.optim.Optimizer, number: int) -> tuple[float, bool]:
    """Go through all queries once; gives their mean loss on the way, and whether there was any gradient."""
    (data, stream), processes = plan.lists(number), plan.processes
    torch.manual_seed(seed_of(Stream(plan.seed, number).child("dropout", processes.rank).key))
    step = _Step(plan)
    for queries in plan.batching.cut(data, stream):
        weight = float(queries.size if data.weights is None else data.weights[queries].sum())
        if weight == 0.0:
            continue
        optimizer.zero_grad(set_to_none=True)
        share = processes.share(queries)
        if share.size:
            step(Part.of(data, share, stream), 1.0 if plan.reduction == "sum" else weight)
        processes.add_gradients(plan.module.parameters())
        optimizer.step()
    processes.average(plan.module.buffers())
    loss, weight, moved = processes.add(np.array([step.loss, step.weight, float(step.moved)]))
    return float(loss / weight), bool(moved)


class _Step:
    """From a part of a batch to gradients of the module's parameters, and what an epoch adds up."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.loss, self.weight, self.moved = plan, 0.0, 0.0, False
        self.value = torch_loss(plan.objective, reduction="none")

    def __call__(self, part: Part, divisor: float) -> None:
        plan, weights = self.plan, part.weights
        plan.module.train(bool(part.offsets[-1] > 1))  # a single document has no spread to be normalised by
        mixed = plan.precision == "bf16"
        with torch.autocast(plan.device.type, torch.bfloat16, enabled=mixed):
            scores = plan.module(*plan.inputs(part)).float()
        scores.retain_grad()
        columns = {name: column[part.rows] for name, column in plan.documents.items()}
        values = self.value(scores, part.labels, part.offsets, stream=part.stream, **columns)
        total = values.double() @ torch.from_numpy(weights).to(plan.device)
        (total / divisor).backward()
        self.loss += float(total.detach())
        self.weight += float(weights.sum())
        self.moved = self.moved or (scores.grad is not None and bool(scores.grad.any()))


def _measured(plan: Plan) -> dict[str, float]:
    """Every metric of the validation data, the same in all processes."""
    if plan.valid is None:
        return {}
    values = [0.0] * len(plan.metrics)
    if plan.leads:
        plan.module.eval()
        with torch.inference_mode():
            values = list(plan.measure(plan.score()).values())
    return dict(zip(plan.measure.names, plan.processes.tell(values), strict=True))


@contextlib.contextmanager
def own_randomness(device: torch.device) -> Iterator[None]:
    """Leave torch's global random state to the user, whatever is drawn inside."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        yield


@contextlib.contextmanager
def torch_threads() -> Iterator[None]:
    """Let torch use as many threads as kernels do."""
    before = torch.get_num_threads()
    torch.set_num_threads(thread_count())
    try:
        yield
    finally:
        torch.set_num_threads(before)
