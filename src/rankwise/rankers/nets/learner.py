"""What learns in rankers of torch: each round is an epoch, whatever the module that scores.

How a ranker uses it: build a ``torch.nn.Module`` that gives one score per document, and a :class:`NetLearner` with

- ``module``, on ``device``, and ``inputs``: from a ``batches.Part`` (whole queries: ``part.data``, ``part.queries``,
  ``part.rows``) to the tuple of tensors that the module is called with, on the same device;
- ``forward``, where scores in training are not the module's own: (documents, members), each of which has its own loss;
- ``held_out``: for each data set that is measured its scores by the module as it stands (called in evaluation mode,
  without gradients);
- ``optimizer``: from parameters to a ``torch.optim.Optimizer``;
- ``made``: the model that the module is by now, and ``pack`` and ``unpack``: its weights as the content of a file.

An epoch shuffles by (seed, epoch), cuts batches of whole queries, multiplies each query's loss by its weight once, and
steps. Nobody waits for the device within an epoch: losses are added up there, and read once, at the end. With
``averaging`` what is measured, kept and given is the average of the weights over steps, while training continues from
the last. Nothing of torch's global random state is used or changed. An epoch is what a tree is to boosting:
``stream.round`` is its number, counted on from an older model. Everything that the next epoch depends on is in the
weights, their average, the optimizer's state and the epoch's number, so that a run that was interrupted resumes, bit
for bit on a CPU.
"""

import contextlib
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from rankwise import check
from rankwise.arrays import Array, Column
from rankwise.data.dataset import RankingDataset
from rankwise.objectives.autograd import PreparedLoss
from rankwise.objectives.base import Objective
from rankwise.objectives.torch import TorchLoss
from rankwise.rankers.nets.averages import Averages
from rankwise.rankers.nets.base import MODEL
from rankwise.rankers.nets.batches import Batching, Part
from rankwise.rankers.nets.processes import Processes, seed_of
from rankwise.rankers.nets.step import Step
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
from rankwise.rankers.training.validation import DeviceScores
from rankwise.stream import Stream
from rankwise.threads import openmp

TRAINING = "training.safetensors"


@dataclass(kw_only=True)
class NetLearner:
    """Goes through the training queries once a round."""

    objective: Objective
    train: RankingDataset
    documents: Mapping[str, Column]
    """Columns of single documents that the objective is handed, such as ``document_weights``."""
    seed: int
    module: torch.nn.Module
    inputs: Callable[[Part], tuple[torch.Tensor, ...]]
    forward: Callable[..., torch.Tensor] | None = None
    """Gives (documents, members) scores in training; None: the module gives one score per document."""
    backward: Callable[[torch.Tensor, torch.Tensor], None] = torch.autograd.backward
    """Leaves gradients in the module's parameters, by scores and their gradient."""
    ahead: Callable[[Part], None] | None = None
    """Told which part ``inputs`` is asked for next, while the device still computes the one before."""
    held_out: Sequence[Callable[[], Array | DeviceScores]]
    optimizer: Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer]
    batching: Batching
    made: Callable[[], object]
    pack: Callable[[Weights], bytes] = packed
    unpack: Callable[[bytes], Weights] = unpacked
    reduction: str = "mean"
    """The loss of a batch: the ``"mean"`` over its queries (Σ weight · loss / Σ weight), or the ``"sum"``."""
    device: torch.device
    precision: str = "float32"
    """``"tf32"`` or ``"bf16"`` compute the module's products in these; weights and losses stay what they are."""
    averaging: float = 0.0
    """How much a step counts in the average of weights, of what the one after it does; 0: the last weights alone."""
    data: Callable[[int], RankingDataset] | None = None
    """The training data of an epoch, where each has its own, such as other negatives; None: ``train`` always."""
    processes: Processes = field(init=False)

    def __post_init__(self) -> None:
        self.processes = Processes(self.device)
        self._stepper = self.optimizer(self.module.parameters())
        self._averages = Averages(self.module, self.averaging) if self.averaging else None
        if self.data is None:
            self._prepared = self._prepare(self.train)

    def round(self, stream: Stream) -> float:
        """Go through all queries once; gives their mean loss on the way."""
        with on(self.device), own_randomness(self.device), torch_threads(), products_in(self.precision, self.device):
            loss, moved = self._epoch(stream)
        if math.isnan(loss):
            raise check.diverged("a loss of nan")
        if not moved:
            raise Exhausted("converged", lambda: stopping.no_gradient(self.train, self.objective))
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

    def restore(self, kept: Weights) -> None:
        """Put weights back."""
        self.module.load_state_dict(kept)
        self.module.eval()

    def model(self) -> object:
        """Give what the ranker scores with."""
        return self.made()

    def files(self, best: Weights) -> dict[str, bytes]:
        """Give the best weights, and apart from them the last, with what the optimizer remembers."""
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

    def _prepare(self, data: RankingDataset) -> PreparedLoss:
        """Look at labels once; batches take their queries from this."""
        return TorchLoss(self.objective, "none").prepare(data.labels, data.offsets, **self.documents)

    def _epoch(self, stream: Stream) -> tuple[float, bool]:
        """Give the mean loss of all queries, and whether there was any gradient."""
        data, processes, number = self.train, self.processes, stream.round
        if self.data is not None:
            data = self.data(number)
            stream = data.stream(self.seed, number)
        seed_torch(self.device, seed_of(Stream(self.seed, number).child("dropout", processes.rank).key))
        step, parts = (
            Step(self, self._prepared if data is self.train else self._prepare(data)),
            self._parts(data, stream),
        )
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
            if self.ahead is not None and batch is not None and batch[0] is not None:
                self.ahead(batch[0])
        processes.average(self.module.buffers())
        loss, weight, moved = processes.add(step.totals()).tolist()
        return loss / weight if weight else 0.0, bool(moved)

    def _parts(self, data: RankingDataset, stream: Stream) -> Iterator[tuple[Part | None, float]]:
        """Give this process's share of every batch, if it has one, and what the sum of its losses is divided by."""
        for queries in self.batching.cut(data, stream):
            weight = float(queries.size if data.weights is None else data.weights[queries].sum())
            if weight == 0.0:
                continue
            share = self.processes.share(queries)
            yield Part.of(data, share, stream) if share.size else None, 1.0 if self.reduction == "sum" else weight


_DRAWING = threading.RLock()
"""Held by who draws from torch's random state, which all threads share: nets of two threads would draw in turns."""


@contextlib.contextmanager
def own_randomness(device: torch.device) -> Iterator[None]:
    """Leave torch's global random state to the user, whatever is drawn inside, and to one net at a time."""
    with _DRAWING, torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        yield


def seed_torch(device: torch.device, seed: int) -> None:
    """Seed what a net draws from on this device, and no other device's."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        with on(device):
            torch.cuda.manual_seed(seed)


def on(device: torch.device) -> contextlib.AbstractContextManager[object]:
    """Let the device be the current one, so that what is told no other goes there."""
    return torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()


@contextlib.contextmanager
def products_in(precision: str, device: torch.device) -> Iterator[None]:
    """Let a GPU multiply matrices in TF32, if that is the precision; the user's choice is restored."""
    if precision != "tf32" or device.type != "cuda":
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def one_thread() -> None:
    """Tell torch to use one thread."""
    torch.set_num_threads(1)


@contextlib.contextmanager
def torch_threads() -> Iterator[None]:
    """Let torch use as many threads as kernels do."""
    count = openmp(one_thread)
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
