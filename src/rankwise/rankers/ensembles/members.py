"""Members of a bag as they learn: each on all but one fold, round by round, in whichever process they are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.arrays import Array
from rankwise.data.dataset import RankingDataset
from rankwise.data.splits import fold_of_query
from rankwise.rankers import storage
from rankwise.rankers.training.loop import State
from rankwise.rankers.training.stopping import Exhausted
from rankwise.rankers.training.validation import DeviceScores
from rankwise.stream import Stream
from rankwise.threads import use_threads

_STATE = "state.npz"


@dataclass(frozen=True)
class MemberPlan:
    """A member before training, and the queries that it never sees."""

    ranker: Any
    """Not trained, with a seed of its own where it has one."""
    seed: int
    held_out: NDArray[np.int64]


def plans(
    ranker: Any, data: RankingDataset, *, folds: int, repeats: int, seed: int, fold_seed: int
) -> list[MemberPlan]:
    """Return the plans of all members: folds of the first repeat, then of the next."""
    if data.n_queries < folds:
        what = "a bag needs at least as many queries as folds"
        raise check.error(what, got=f"{data.n_queries} queries and folds={folds}", hint="set fewer folds")
    planned: list[MemberPlan] = []
    for repeat in range(repeats):
        fold = fold_of_query(data, folds, seed=fold_seed, trial=repeat)
        for number in range(folds):
            # Metrics are measured by the bag, and not where members are.
            member_seed = seed_of_member(seed, len(planned))
            member = ranker.__sklearn_clone__()._configure(seed=member_seed, metrics=())
            planned.append(MemberPlan(member, member_seed, np.flatnonzero(fold == number)))
    return planned


def seed_of_member(seed: int, number: int) -> int:
    """Draw the seed of a member, numbered from 0, from that of the ranker."""
    return int(Stream(seed).child("member", number).key >> np.uint64(33))


class MemberRound(NamedTuple):
    """The outcome of a round of a member."""

    loss: float | None
    scores: list[Array]
    """Of its own fold, and of other data that are measured."""
    stopped: str
    """Why it has nothing more to learn; empty while it learns."""


class TrainedMember(NamedTuple):
    """The model of a member, and its losses."""

    files: dict[str, bytes]
    rounds: int
    loss: list[float]


class Members:
    """Some members of a bag, which learn a round at each call."""

    def __init__(
        self, data: RankingDataset, plans: Sequence[MemberPlan], measured: Sequence[RankingDataset], threads: int
    ) -> None:
        self.threads = threads
        with use_threads(threads):
            self.members = [_Member(data, plan, measured) for plan in plans]

    def round(self, number: int) -> list[MemberRound]:
        """Train round ``number``, from 0, of every member that has something to learn."""
        with use_threads(self.threads):
            return [member.round(number) for member in self.members]

    def snapshot(self) -> None:
        """Keep the models as they are."""
        for member in self.members:
            member.snapshot()

    def files(self) -> list[dict[str, bytes]]:
        """Return the files of a checkpoint, of each."""
        with use_threads(self.threads):
            return [member.files() for member in self.members]

    def resume(self, files: Sequence[Mapping[str, bytes]]) -> None:
        """Resume from a checkpoint."""
        with use_threads(self.threads):
            for member, member_files in zip(self.members, files, strict=True):
                member.resume(member_files)

    def learned(self) -> list[TrainedMember]:
        """Return the models that were kept; no round follows."""
        with use_threads(self.threads):
            return [member.learned() for member in self.members]


class _Member:
    def __init__(self, data: RankingDataset, plan: MemberPlan, measured: Sequence[RankingDataset]) -> None:
        seen = np.ones(data.n_queries, np.bool_)
        seen[plan.held_out] = False
        train, self.count = data.take(seen), 1 + len(measured)
        self.ranker: Any = plan.ranker
        self.stream = train.stream(plan.seed)
        self.learner = plan.ranker._learner(train, data.take(plan.held_out), None, measured)
        self.done = self.best = 0
        self.kept: Any = None
        self.loss: list[float] = []
        self.last = MemberRound(None, [], "")

    def round(self, number: int) -> MemberRound:
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
        self.last = MemberRound(loss, [self._scores(each) for each in range(self.count)], "")
        return self.last

    def _scores(self, number: int) -> Array:
        scores = self.learner.scores(number)
        return scores.array() if isinstance(scores, DeviceScores) else scores

    def snapshot(self) -> None:
        if self.best != self.done or self.kept is None:
            self.best, self.kept = self.done, self.learner.snapshot()

    def files(self) -> dict[str, bytes]:
        state = {
            "counts": np.array([self.done, self.best]),
            "loss": np.array(self.loss),
            "stopped": np.array(self.last.stopped),
            "scores": np.concatenate(self.last.scores),
            "ends": np.cumsum([column.size for column in self.last.scores]),
        }
        learned: dict[str, bytes] = self.learner.files(self.kept)
        return learned | {_STATE: storage.npz(state)}

    def resume(self, files: Mapping[str, bytes]) -> None:
        with check.library("the state of a member", _STATE):
            arrays = storage.arrays(files[_STATE])
            self.done, self.best = (int(count) for count in arrays["counts"])
            self.loss = arrays["loss"].tolist()
            scores = np.split(arrays["scores"], arrays["ends"][:-1])
            self.last = MemberRound(self.loss[-1] if self.loss else None, scores, str(arrays["stopped"]))
        self.kept = self.learner.resume(files, State(done=self.done, best=self.best))

    def learned(self) -> TrainedMember:
        self.learner.restore(self.kept)
        self.ranker._keep(self.learner.model(), State(done=self.done, best=self.best))
        return TrainedMember(self.ranker._files(), self.best, self.loss)
