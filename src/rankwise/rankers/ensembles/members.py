"""Members of a bag, as they learn: each on all but one fold, round by round, in whichever process they are."""

import io
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rankwise import check
from rankwise.arrays import Array
from rankwise.data.dataset import RankingDataset
from rankwise.rankers import storage
from rankwise.rankers.ensembles.plans import Plan
from rankwise.rankers.training.loop import State
from rankwise.rankers.training.stopping import Exhausted
from rankwise.rankers.training.validation import DeviceScores
from rankwise.threads import use_threads

_STATE = "state.npz"


class Step(NamedTuple):
    """What a member says after a round."""

    loss: float | None
    scores: list[Array]
    """Of its own fold, and of other data that are measured."""
    stopped: str
    """Why it has nothing more to learn; empty while it learns."""


class Learned(NamedTuple):
    """What is left of a member after its training."""

    files: dict[str, bytes]
    rounds: int
    loss: list[float]


class Members:
    """Some members of a bag, trained round by round by whoever calls."""

    def __init__(
        self, data: RankingDataset, plans: Sequence[Plan], others: Sequence[RankingDataset], threads: int
    ) -> None:
        self.threads = threads
        with use_threads(threads):
            self.members = [_Member(data, plan, others) for plan in plans]

    def round(self, number: int) -> list[Step]:
        """Train round ``number``, from 0, of every member that has something to learn."""
        with use_threads(self.threads):
            return [member.round(number) for member in self.members]

    def snapshot(self) -> None:
        """Keep the models as they are."""
        for member in self.members:
            member.snapshot()

    def files(self) -> list[dict[str, bytes]]:
        """Give what a checkpoint holds."""
        with use_threads(self.threads):
            return [member.files() for member in self.members]

    def resume(self, files: Sequence[Mapping[str, bytes]]) -> None:
        """Resume from a checkpoint."""
        with use_threads(self.threads):
            for member, own in zip(self.members, files, strict=True):
                member.resume(own)

    def learned(self) -> list[Learned]:
        """Give the models that were kept; no round follows."""
        with use_threads(self.threads):
            return [member.learned() for member in self.members]


class _Member:
    def __init__(self, data: RankingDataset, plan: Plan, others: Sequence[RankingDataset]) -> None:
        seen = np.ones(data.n_queries, np.bool_)
        seen[plan.held_out] = False
        train, self.count = data.take(seen), 1 + len(others)
        self.ranker: Any = plan.ranker
        self.stream = train.stream(plan.seed)
        self.learner = plan.ranker._learner(train, data.take(plan.held_out), None, others)
        self.done = self.best = 0
        self.kept: Any = None
        self.loss: list[float] = []
        self.last = Step(None, [], "")

    def round(self, number: int) -> Step:
        if self.last.stopped:
            return self.last
        try:
            loss = self.learner.round(self.stream.at(number))
        except Exhausted as end:
            if not self.done:
                raise end.error() from None
            # The library may hold a tree that does not count, so that scores are those of the round before.
            self.last = self.last._replace(stopped=end.reason)
            return self.last
        self.done += 1
        self.loss += [] if loss is None else [loss]
        self.last = Step(loss, [self._scores(each) for each in range(self.count)], "")
        return self.last

    def _scores(self, number: int) -> Array:
        found = self.learner.scores(number)
        return found.array() if isinstance(found, DeviceScores) else found

    def snapshot(self) -> None:
        if self.best != self.done or self.kept is None:
            self.best, self.kept = self.done, self.learner.snapshot()

    def files(self) -> dict[str, bytes]:
        buffer = io.BytesIO()
        np.savez(
            buffer,
            counts=np.array([self.done, self.best]),
            loss=np.array(self.loss),
            stopped=np.array(self.last.stopped),
            scores=np.concatenate(self.last.scores),
            ends=np.cumsum([column.size for column in self.last.scores]),
        )
        learned: dict[str, bytes] = self.learner.files(self.kept)
        return learned | {_STATE: buffer.getvalue()}

    def resume(self, files: Mapping[str, bytes]) -> None:
        with check.library("the state of a member", _STATE):
            kept = storage.arrays(files[_STATE])
            self.done, self.best = (int(count) for count in kept["counts"])
            self.loss = kept["loss"].tolist()
            scores = np.split(kept["scores"], kept["ends"][:-1])
            self.last = Step(self.loss[-1] if self.loss else None, scores, str(kept["stopped"]))
        self.kept = self.learner.resume(files, State(done=self.done, best=self.best))

    def learned(self) -> Learned:
        self.learner.restore(self.kept)
        self.ranker._keep(self.learner.model(), State(done=self.done, best=self.best))
        return Learned(self.ranker._files(), self.best, self.loss)
