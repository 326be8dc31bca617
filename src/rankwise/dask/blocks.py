"""A block of rounds on one worker: its part of the data, the library's own network, and nothing kept but its bins."""

import dataclasses
import threading
import traceback
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rankwise import registry
from rankwise.arrays import Array, Floats, Keywords
from rankwise.dask.liveness import lost
from rankwise.dask.network import Network
from rankwise.data.dataset import RankingDataset
from rankwise.rankers.trees.learner import Step, block_seed
from rankwise.threads import use_threads

if TYPE_CHECKING:
    from rankwise.rankers.trees.ranker import TreeRanker

_one_at_a_time = threading.Lock()
_bins: Keywords = {}
"""The library's own data, which take long to make: training -> matrices. Those of one training at a time."""


class Job(NamedTuple):
    """What all workers are told of a block."""

    training: str
    """Which training it belongs to."""
    ranker: "TreeRanker"
    network: Network
    before: int
    """Trees of the model that the training started from."""
    done: int
    """Rounds of this training so far."""
    rounds: int
    """How many rounds it will be after this block."""
    fresh: bool
    """Whether this is the first block, which makes the bins."""
    registered: list[bytes]
    """Objectives of the user's own that the ranker may name."""


class Grown(NamedTuple):
    """What a worker gives back."""

    content: bytes
    """All trees so far; empty but for the first worker."""
    losses: list[float]
    """Mean loss of this worker's queries before each round."""
    weight: float
    """How much its queries count, all together."""
    trees: int
    """Trees grown in this block: fewer than asked for if no split was left."""
    flat: bool
    """Whether the last round had no gradient here that is not 0."""


def grow(job: Job, model: bytes | None, rank: int, data: RankingDataset) -> Grown:
    """Grow the trees of a block; called on all workers at once."""
    registry.receive(job.registered)
    with _one_at_a_time, use_threads(_threads(job.ranker)):
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
    step, losses, stream = _Step(learner), [], data.stream(learner.seed)
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


def forget(training: str) -> None:
    """Let go of what is kept for a training."""
    _bins.pop(training, None)


class _Step(Step):
    """From scores to what a tree is grown from, without ever leaving the others alone.

    The others wait for this worker's share of every sum, so an error is kept until the block is over.
    """

    alone = False
    failed: Exception | None = None

    def __call__(self, scores: Array) -> tuple[Floats, Floats]:
        if self.failed is None:
            try:
                return super().__call__(scores)
            except Exception as failed:  # whatever it is, it is raised when the block is over
                self.failed = failed
        return np.zeros(scores.size, np.float32), np.ones(scores.size, np.float32)


def _threads(ranker: "TreeRanker") -> int:
    """How many threads: the ranker's, or those that Dask gave the worker."""
    if ranker.threads is not None:
        return int(ranker.threads)
    from distributed import get_worker

    return int(get_worker().state.nthreads)
