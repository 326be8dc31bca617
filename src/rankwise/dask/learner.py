"""What learns on a cluster: workers grow the trees of a block of rounds together, and the client goes through them."""

import secrets
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from rankwise import registry
from rankwise.arrays import Array
from rankwise.dask import blocks
from rankwise.dask.network import connect
from rankwise.dask.workers import quietly
from rankwise.metrics.base import weighted_mean
from rankwise.rankers.training import stopping
from rankwise.rankers.training.stopping import Exhausted, NothingLearnedError
from rankwise.rankers.trees.learner import Trees, no_split
from rankwise.stream import Stream

if TYPE_CHECKING:
    from rankwise.dask.partitions import Parts
    from rankwise.rankers.trees.protocol import Forest, ForestByTree
    from rankwise.rankers.trees.ranker import TreeRanker


@dataclass(kw_only=True)
class ClusterLearner(Trees):
    """Has trees grown by the workers that hold ``parts`` of the data.

    Between two blocks the client has the model, so that is where it may stop, and where a checkpoint is written: after
    each of the block's rounds the validation data are scored with one tree more.
    """

    ranker: "TreeRanker"
    """What each worker makes a learner of its own part of the data with."""
    parts: "Parts"
    rounds: int
    """How many there will be at most."""
    block: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self.training = secrets.token_hex(8)
        self._grown: list[blocks.Grown] = []
        self._losses: deque[float | None] = deque()
        self._exhausted, self._fresh = False, True
        self._forest_of_block: Forest | None = None
        self._scores: Array | None = None

    def round(self, stream: Stream) -> float | None:
        """Take the next tree of the block; grows another block if there is none."""
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
        return self._scores

    def content(self) -> bytes:
        """Give all trees of the last block and before."""
        return self._grown[0].content if self._grown else self.start or b""

    def forget(self) -> None:
        """Let workers go of what they keep for this training."""
        workers = self.parts.workers
        quietly(workers.client.run, blocks.forget, self.training, workers=workers.names, on_error="ignore")

    def _grow(self) -> None:
        """Grow the trees of a block; blocks end where those of an uninterrupted training do."""
        workers, done = self.parts.workers, self.done
        rounds = min(self.rounds, done - done % self.block + self.block)
        doing = f"growing trees {done + 1} to {rounds}"
        network = connect(self.library.name, workers)
        counts = self.before, done, rounds
        job = blocks.Job(self.training, self.ranker, network, *counts, self._fresh, registry.parcels())
        model, count = self.content() or None, len(workers.names)
        # Sent once and not inside every task: a model may be large.
        scatter = workers.client.scatter
        shared = workers.call(doing, scatter, [job, model], workers=workers.names, broadcast=True, hash=False)
        grown: list[blocks.Grown] = workers.all(
            doing, blocks.grow, [shared[0]] * count, [shared[1]] * count, range(count), self.parts.futures
        )
        self._fresh = False
        self._exhausted = grown[0].trees < rounds - done
        losses = _losses(grown)
        if grown[0].trees:
            self._forest_of_block = self.library.forest(grown[0].content)
        self._grown, self._losses = grown, losses

    def nothing_learned(self) -> NothingLearnedError:
        """Say why no tree has a split."""
        about = self.parts.about
        if all(one.flat for one in self._grown):
            got = f"a gradient of 0 for every document from {self.ranker._objective_expression()}"
            return stopping.nothing_learned(about.queries, got, "check the labels and the query ids")
        return no_split(about.queries, about.documents, self.library.least_documents(self.settings))


def _losses(grown: list[blocks.Grown]) -> "deque[float | None]":
    """The loss of each round: the mean over all workers, by the weight of their queries."""
    if not grown[0].losses:
        return deque([None] * grown[0].trees)
    weights = np.array([one.weight for one in grown])
    losses, kept = np.array([one.losses for one in grown]), weights > 0
    if np.isnan(losses[kept]).all():  # a function that does not tell what it minimises
        return deque([None] * grown[0].trees)
    return deque(weighted_mean(losses_of_round, weights[kept]) for losses_of_round in losses[kept].T)
