"""The learner of a cluster: workers grow the trees of a block of rounds together, and the client goes through them.

A worker keeps its part of the data and the library's bins; the model goes back to the client after every block.
"""

import dataclasses
import secrets
import threading
import traceback
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from rankwise import registry
from rankwise.arrays import Array, Floats, Keywords
from rankwise.dask.network import Network, connect
from rankwise.dask.workers import lost, quietly
from rankwise.data.dataset import RankingDataset
from rankwise.metrics.base import weighted_mean
from rankwise.objectives.base import GoalTotals, Objective
from rankwise.rankers.training.stopping import Exhausted, NothingLearnedError, nothing_learned
from rankwise.rankers.trees.learner import Step, Trees, block_seed, from_start, no_split
from rankwise.stream import Stream
from rankwise.threads import use_threads

if TYPE_CHECKING:
    from rankwise.dask.partitions import WorkerParts
    from rankwise.rankers.trees.protocol import Forest, ForestByTree
    from rankwise.rankers.trees.ranker import TreeRanker

_one_at_a_time = threading.Lock()
_bins: Keywords = {}
"""The library's own data, which take long to make: training -> matrices. Those of one training at a time."""


class Job(NamedTuple):
    """A block of rounds, sent to all workers."""

    training: str
    """The key of the training that it belongs to."""
    ranker: "TreeRanker"
    network: Network
    before: int
    """Trees of the model that the training started from."""
    done: int
    """Rounds of this training so far."""
    rounds: int
    """Rounds after this block."""
    fresh: bool
    """Whether this is the first block, which makes the bins."""
    registered: list[bytes]
    """Objectives of the user's own that the ranker may name."""


class Grown(NamedTuple):
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


def grow(job: Job, model: bytes | None, rank: int, data: RankingDataset) -> Grown:
    """Grow the trees of a block; called on all workers at once."""
    from distributed import get_worker

    registry.receive(job.registered)
    threads = job.ranker.threads
    with _one_at_a_time, use_threads(int(get_worker().state.nthreads if threads is None else threads)):
        try:
            with job.network.joined(rank):
                return _grow(job, model, rank, data)
        except Exception as failed:
            # A booster that lived on in there would take down the network of a later training when it goes.
            traceback.clear_frames(failed.__traceback__)
            raise


def _grow(job: Job, model: bytes | None, rank: int, data: RankingDataset) -> Grown:
    learner = job.ranker._learner(data, None, None)
    settings = dataclasses.replace(learner.settings, native=learner.settings.native | job.network.native(rank))
    library = learner.library
    if job.fresh:
        _bins.clear()
        _bins[job.training] = library.matrices(settings, data, ())
    if job.training not in _bins:
        raise lost("a worker was started anew in the middle of the training")
    seed = learner.seed
    if library.draws(settings):
        seed = block_seed(seed, job.done // job.ranker.checkpoint_every)
    growth = library.grow(settings, _bins[job.training], seed, model)
    step, losses, stream = _ClusterStep(learner), [], data.stream(learner.seed)
    for done in range(job.done, job.rounds):
        step.stream = stream.at(job.before + done)
        if not growth.add(None if learner.objective is None else step):
            break
        losses.append(step.loss)
    content = job.network.clean(growth.content()) if rank == 0 else b""
    job.network.leave(growth)
    if step.failed is not None:
        raise step.failed
    weight = float(data.n_queries if data.weights is None else data.weights.sum())
    return Grown(content, [] if learner.objective is None else losses, weight, len(losses), step.flat)


def measured_goals(parts: "WorkerParts", ranker: "TreeRanker", objective: Objective) -> list[GoalTotals]:
    """Return the totals of the gradients of an objective's goals on every worker's part of the data."""
    count = len(parts.workers.names)
    shared = [ranker] * count, [objective] * count, [registry.parcels()] * count
    totals: list[GoalTotals] = parts.workers.all("measuring the goals", _measure_goals, *shared, parts.futures)
    return totals


def _measure_goals(
    ranker: "TreeRanker", objective: Objective, registered: list[bytes], data: RankingDataset
) -> GoalTotals:
    registry.receive(registered)
    return ranker._goal_totals(data, objective)


def forget(training: str) -> None:
    """Free the bins of a training."""
    _bins.pop(training, None)


class _ClusterStep(Step):
    """From scores to gradients and Hessians, without ever failing within a block.

    The others wait for this worker's share of every sum, so an error is kept until the block is over.
    """

    alone = False
    failed: Exception | None = None

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
    parts: "WorkerParts"
    rounds: int
    """The greatest number of rounds."""
    block: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self.training = secrets.token_hex(8)
        self._grown: list[Grown] = []
        self._losses: deque[float | None] = deque()
        self._exhausted, self._fresh = False, True
        self._forest_of_block: Forest | None = None
        self._scores: Array | None = None

    def round(self, stream: Stream) -> float | None:
        """Add the next tree of the block; grow another block if there is none."""
        if not self._losses and not self._exhausted:
            self._grow()
        if not self._losses:
            raise Exhausted("no split", self.nothing_learned)
        loss = self._losses.popleft()
        self.done += 1
        return loss

    def scores(self, number: int) -> Array:
        """Add the last tree to the scores of the validation documents, the only ones that are scored."""
        valid, forest = self.held_out[number], cast("ForestByTree", self._forest_of_block)
        trees = self.snapshot() - 1
        if self._scores is None:
            self._scores = forest.cut(trees).predict(valid.features) if trees else np.zeros(valid.n_docs)
        self._scores = self._scores + forest.tree(valid.features, trees)
        return from_start(self._scores, valid)

    def content(self) -> bytes:
        """Return all trees of the last block and before."""
        return self._grown[0].content if self._grown else self.start or b""

    def close(self) -> None:
        """Free the bins of this training on the workers."""
        workers = self.parts.workers
        quietly(workers.client.run, forget, self.training, workers=workers.names, on_error="ignore")

    def _grow(self) -> None:
        """Grow the trees of a block; blocks end where those of an uninterrupted training do."""
        workers, done = self.parts.workers, self.done
        rounds = min(self.rounds, done - done % self.block + self.block)
        doing = f"growing trees {done + 1} to {rounds}"
        network = connect(self.library.name, workers)
        job = Job(self.training, self.ranker, network, self.before, done, rounds, self._fresh, registry.parcels())
        model, count = self.content() or None, len(workers.names)
        # Sent once and not inside every task: a model may be large.
        scatter = workers.client.scatter
        shared = workers.call(doing, scatter, [job, model], workers=workers.names, broadcast=True, hash=False)
        grown: list[Grown] = workers.all(
            doing, grow, [shared[0]] * count, [shared[1]] * count, range(count), self.parts.futures
        )
        self._fresh = False
        self._exhausted = grown[0].trees < rounds - done
        losses = _losses(grown)
        if grown[0].trees:
            self._forest_of_block = self.library.forest(grown[0].content)
        self._grown, self._losses = grown, losses

    def nothing_learned(self) -> NothingLearnedError:
        """Return the error that no tree has a split, with its reason."""
        data = self.parts.partitions
        if all(one.flat for one in self._grown):
            got = f"a gradient of 0 for every document from {self.ranker._objective_expression()}"
            return nothing_learned(data.queries, got, "check the labels and the query ids")
        return no_split(data.queries, data.documents, self.library.least_documents(self.settings))


def _losses(grown: list[Grown]) -> "deque[float | None]":
    """Return the loss of each round: the mean over all workers, by the weight of their queries."""
    if not grown[0].losses:
        return deque([None] * grown[0].trees)
    weights = np.array([one.weight for one in grown])
    losses, counted = np.array([one.losses for one in grown]), weights > 0
    if np.isnan(losses[counted]).all():  # a function without a value
        return deque([None] * grown[0].trees)
    return deque(weighted_mean(losses_of_round, weights[counted]) for losses_of_round in losses[counted].T)
