"""The learner of a cluster: workers grow the trees of a block of rounds together, and the client goes through them.

A worker keeps its part of the data, the library's bins, its network and the trees so far from block to block; the model
goes back to the client after each.
"""

import contextlib
import dataclasses
import secrets
import threading
import traceback
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from rankwise import Objective, RankingDataset, Stream, use_threads
from rankwise.base.arrays import Array, Floats
from rankwise.language import registry
from rankwise.models import Schema
from rankwise.rankers import NewtonStep, TreeLearner, Trees, block_seed, expressions, from_start, no_split
from rankwise.rankers.training import (
    NothingLearnedError,
    NothingLeftToLearn,
    Totals,
    TrainingData,
    TrainingSettings,
    nothing_learned,
)
from rankwise.statistics import weighted_mean
from rankwise.wings.cluster.backend import lost_worker_error
from rankwise.wings.cluster.network import Network, connect

if TYPE_CHECKING:
    from rankwise.models import ForestModel
    from rankwise.rankers import Growth, TreeRanker
    from rankwise.wings.cluster.partitions import WorkerParts

_one_at_a_time = threading.Lock()
_trainings: "dict[str, WorkerTraining]" = {}
"""What this worker keeps of a training from block to block. Those of one training at a time."""
_closing: "Future[None] | None" = None
"""The end of the last training, which may still free its network."""


class RoundBlock(NamedTuple):
    """A block of rounds, sent to all workers."""

    training: str
    """The key of the training that it belongs to."""
    ranker: "TreeRanker"
    settings: TrainingSettings
    network: Network | None
    """To join; None where the trees of the block before simply grow on."""
    before: int
    """Trees of the model that the training started from."""
    done: int
    """Rounds of this training so far."""
    rounds: int
    """Rounds after this block."""
    fresh: bool
    """Whether this is the first block."""
    weights: Sequence[float]
    """Of the terms of the objective, where constraints change them; a block is one round then."""
    registered: list[bytes]
    """Objectives of the user's own that the ranker may name."""


class BlockResult(NamedTuple):
    """A worker's result of a block."""

    content: bytes
    """All trees so far; empty but for the first worker."""
    losses: list[float]
    """Mean loss of this worker's queries before each round."""
    weight: float
    """The weight of its queries, all together."""
    trees: int
    """Trees grown in this block: fewer than asked for if no split was left."""
    flat: bool
    """Whether the last round had no gradient here that is not 0."""


def grow(job: RoundBlock, model: bytes | None, rank: int, threads: int, data: RankingDataset) -> BlockResult:
    """Grow the trees of a block; called on all workers at once."""
    registry.restore_registry(job.registered)
    with _one_at_a_time:
        if job.fresh:
            _trainings[job.training] = WorkerTraining(rank, threads, data)
        share = _trainings.get(job.training)
        if share is None:
            raise lost_worker_error("a worker was started anew in the middle of the training")
        try:
            return share.thread.submit(share.grow, job, model).result()
        except Exception as failed:
            # A booster that lived on in there would take down the network of a later training when it goes.
            traceback.clear_frames(failed.__traceback__)
            forget(job.training)
            raise


def end_others(training: str) -> None:
    """End trainings but one, of clients that have gone without a word; called on all workers before every block.

    So all of them leave a network together, and one that is silent is noticed before the others wait for it, which
    LightGBM does for ever.
    """
    with _one_at_a_time:
        for other in list(_trainings):
            if other != training:
                forget(other)
        if _closing is not None:
            wait([_closing])


def measured(totals: Totals, parts: "WorkerParts", settings: TrainingSettings, objective: Objective) -> list[Any]:
    """Return totals of the gradients of an objective on every worker's part of the data."""
    count = len(parts.backend.names)
    shared = [registry.pickle_registry()] * count, [settings] * count, [totals] * count
    return parts.backend.all("measuring the objective", _measure, *shared, parts.futures, [objective] * count)


def _measure(
    registered: list[bytes], settings: TrainingSettings, totals: Totals, data: RankingDataset, objective: Objective
) -> Any:
    registry.restore_registry(registered)
    return settings.totals(totals, TrainingData(train=data), objective)


def forget(training: str) -> None:
    """Free what this worker keeps of a training, without waiting for it."""
    global _closing
    if share := _trainings.pop(training, None):
        _closing = share.thread.submit(share.close)
        share.thread.shutdown(wait=False)


class WorkerTraining:
    """A worker's share of a training: bins, network and trees.

    All of it is done by one thread, since a network of LightGBM or XGBoost belongs to the thread that joined it.
    """

    def __init__(self, rank: int, threads: int, data: RankingDataset) -> None:
        self.rank, self.threads, self.data = rank, threads, data
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="rankwise-training")
        self._network, self._joined = Network(), contextlib.ExitStack()
        self._step: _ClusterStep | None = None
        self._bins: Any = None
        self._growth: Growth | None = None

    def grow(self, job: RoundBlock, model: bytes | None) -> BlockResult:
        """Grow the trees of a block."""
        data, losses = self.data, []
        with use_threads(self.threads if job.settings.threads is None else job.settings.threads):
            if job.network is not None:
                self._join(job.network, job, model)
            growth, step = cast("Growth", self._growth), cast("_ClusterStep", self._step)
            stream, derive = data.stream(step.learner.seed), None if step.learner.objective is None else step
            for done in range(job.done, job.rounds):
                step.stream = stream.at(job.before + done)
                if job.weights:
                    step.weigh(job.weights)
                if not growth.add(derive):
                    break
                losses.append(step.loss)
            content = self._network.clean(growth.content()) if self.rank == 0 else b""
            if step.learner.library.draws(step.learner.settings):
                self.close()  # the next block has a seed and a network of its own
        if step.failed is not None:
            raise step.failed
        weight = float(data.n_queries if data.weights is None else data.weights.sum())
        return BlockResult(content, [] if derive is None else losses, weight, len(losses), step.flat)

    def _join(self, network: Network, job: RoundBlock, model: bytes | None) -> None:
        """Join a network, where the others see what fails, and start from a model."""
        self.close()
        self._network = network
        self._joined.enter_context(network.membership(self.rank))
        self._step = self._step or _ClusterStep(job.ranker.learner(TrainingData(train=self.data), job.settings))
        learner = self._step.learner
        settings = dataclasses.replace(learner.settings, native=learner.settings.native | network.native(self.rank))
        if self._bins is None:
            self._bins = learner.library.matrices(settings, self.data, (), learner.seed)
        seed = learner.seed
        if learner.library.draws(settings):
            seed = block_seed(seed, job.done // (1 if job.weights else job.settings.checkpoint_every))
        self._growth = learner.library.grow(settings, self._bins, seed, model)

    def close(self) -> None:
        """Leave the network."""
        if self._growth is not None:
            self._network.leave(self._growth)
        self._growth = None
        self._joined.close()


class _ClusterStep(NewtonStep):
    """From scores to gradients and Hessians, without ever failing within a block.

    The others wait for this worker's share of every sum, so an error is kept until the block is over.
    """

    alone = False
    failed: Exception | None = None

    def __init__(self, learner: TreeLearner) -> None:
        super().__init__(learner)
        self.learner = learner

    def __call__(self, scores: Array) -> tuple[Floats, Floats]:
        if self.failed is None:
            try:
                return super().__call__(scores)
            except Exception as failed:  # raised when the block is over
                self.failed = failed
        return np.zeros(scores.size, np.float32), np.ones(scores.size, np.float32)


@dataclass(kw_only=True)
class ClusterLearner(Trees):
    """Trees are grown by the workers that hold ``parts`` of the data.

    Between two blocks the client has the model: there it may stop and write a checkpoint. After each of the block's
    rounds the validation data are scored with one tree more.
    """

    ranker: "TreeRanker"
    """Makes the learner of each worker's part of the data."""
    settled: TrainingSettings
    """With what all of the data decide."""
    parts: "WorkerParts"
    block: int

    def __post_init__(self) -> None:
        self.training = secrets.token_hex(8)
        self._grown: list[BlockResult] = []
        self._losses: deque[float | None] = deque()
        self._exhausted, self._fresh = False, True
        self._model_of_block: ForestModel | None = None
        self._scores: Array | None = None

    def round(self, stream: Stream, weights: Sequence[float] = ()) -> float | None:
        """Add the next tree of the block; grow another block if there is none."""
        if not self._losses and not self._exhausted:
            self._grow(weights)
        if not self._losses:
            raise NothingLeftToLearn("no split", self.nothing_learned)
        loss = self._losses.popleft()
        self.done += 1
        return loss

    def scores(self, number: int) -> Array:
        """Add the last tree to the scores of the validation documents, the only ones that are scored."""
        valid, model = self.held_out[number], cast("ForestModel", self._model_of_block)
        trees = self.snapshot() - 1
        if self._scores is None:
            start = np.full(valid.n_docs, model.base_score)
            self._scores = model.cut(trees).scores(valid.features) if trees else start
        self._scores = self._scores + model.tree(valid.features, trees)
        return from_start(self._scores, valid)

    def content(self) -> bytes:
        """Return all trees of the last block and before."""
        return self._grown[0].content if self._grown else self.start or b""

    def close(self) -> None:
        """Free what the workers keep of this training."""
        self.parts.backend.tidy(forget, self.training)

    def _grow(self, weights: Sequence[float]) -> None:
        """Grow the trees of a block; blocks end where those of an uninterrupted training do."""
        backend, done, added = self.parts.backend, self.done, registry.pickle_registry()
        rounds = min(self.settled.rounds, done + 1 if weights else done - done % self.block + self.block)
        doing = f"growing trees {done + 1} to {rounds}"
        backend.all(doing, end_others, [self.training] * len(backend.names))
        # Where the library draws, a block has a seed of its own, so that an interruption does not change the trees.
        joins = self._fresh or self.library.draws(self.settings)
        network, model = (connect(self.library.name, backend), self.content() or None) if joins else (None, None)
        job = RoundBlock(
            self.training, self.ranker, self.settled, network, self.before, done, rounds, self._fresh, weights, added
        )
        # Sent once and not inside every task: a model may be large.
        shared, count = [backend.share(doing, value) for value in (job, model)], len(backend.names)
        grown: list[BlockResult] = backend.all(
            doing, grow, *([value] * count for value in shared), range(count), backend.threads(), self.parts.futures
        )
        self._fresh = False
        self._exhausted = grown[0].trees < rounds - done
        losses = _losses(grown)
        if grown[0].trees:
            self._model_of_block = self.library.forest.read(grown[0].content, Schema.of(self.train))
        self._grown, self._losses = grown, losses

    def nothing_learned(self) -> NothingLearnedError:
        """Return the error that no tree has a split, with its reason."""
        data = self.parts.partitions
        if all(one.flat for one in self._grown):
            got = f"a gradient of 0 for every document from {expressions.objective_of(self.ranker)}"
            return nothing_learned(data.queries, got, "check the labels and the query ids")
        return no_split(data.queries, data.documents, self.library.least_documents(self.settings))


def _losses(grown: list[BlockResult]) -> "deque[float | None]":
    """Return the loss of each round: the mean over all workers, by the weight of their queries."""
    if not grown[0].losses:
        return deque([None] * grown[0].trees)
    weights = np.array([one.weight for one in grown])
    losses, counted = np.array([one.losses for one in grown]), weights > 0
    if np.isnan(losses[counted]).all():  # a function without a value
        return deque([None] * grown[0].trees)
    return deque(weighted_mean(losses_of_round, weights[counted]) for losses_of_round in losses[counted].T)
