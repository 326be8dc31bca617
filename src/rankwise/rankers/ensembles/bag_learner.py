"""The learner of a bag: all members, in step, so that the one training loop sees one curve and stops them together."""

import contextlib
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rankwise import check
from rankwise.arrays import Array, rows_of
from rankwise.data.dataset import RankingDataset
from rankwise.rankers.ensembles.ensemble import packed, unpacked
from rankwise.rankers.ensembles.executors import MemberExecutor
from rankwise.rankers.ensembles.members import MemberPlan, MemberRound, TrainedMember
from rankwise.rankers.ensembles.oof import CrossFitted, HeldOut
from rankwise.rankers.training.loop import Alone, State
from rankwise.rankers.training.stopping import Exhausted, NothingLearnedError
from rankwise.stream import Stream

_OUT_OF_FOLD = "out_of_fold.npy"


class TrainedBag(NamedTuple):
    """Members in their order, and their out-of-fold scores."""

    members: list[TrainedMember]
    held_out: HeldOut


class BagLearner:
    """All members of a bag.

    Members that have nothing more to learn stay as they are while others learn. The best round is kept where members
    are, and only their models come back at the end.
    """

    processes = Alone()

    def __init__(
        self,
        data: RankingDataset,
        plans: Sequence[MemberPlan],
        repeats: int,
        cross_fitted: CrossFitted,
        start: Callable[[contextlib.ExitStack], Sequence[MemberExecutor]],
    ) -> None:
        self.data, self.repeats = data, repeats
        self.rows = [rows_of(plan.held_out, data.offsets)[0] for plan in plans]
        self.per_repeat = len(plans) // repeats
        self._start = start
        self._started: Sequence[MemberExecutor] | None = None
        self._resources = contextlib.ExitStack()
        self._last: list[MemberRound] = []
        self._trained: list[TrainedMember] = []
        self._current: Array | None = None
        self.out_of_fold: Array = np.zeros(0)
        """(repeats, n_docs) scores after the round that is kept."""
        self.cross_fitted = cross_fitted

    def round(self, stream: Stream) -> float | None:
        """Train a round of every member; returns the mean of their losses."""
        self._count()
        rounds: list[MemberRound] = self._call("round", stream.round)
        if all(member.stopped for member in rounds):
            raise Exhausted(rounds[0].stopped, lambda: NothingLearnedError("no member learned anything"))
        self._last = rounds
        losses = [member.loss for member in rounds if member.loss is not None]
        return float(np.mean(losses)) if losses else None

    def scores(self, number: int) -> Array:
        """Return out-of-fold scores of all repeats in a row, or the mean of all members on other data."""
        if number:
            return np.asarray(np.mean([member.scores[number] for member in self._last], axis=0))
        self._current = np.empty((self.repeats, self.data.n_docs))
        for member, (last, rows) in enumerate(zip(self._last, self.rows, strict=True)):
            self._current[member // self.per_repeat, rows] = last.scores[0]
        return self._current.ravel()

    def snapshot(self) -> bool:
        """Keep all members where they are."""
        self._call("snapshot")
        if self._current is not None:
            self.out_of_fold = self._current
        return True

    def restore(self, kept: object) -> None:
        """Fetch the models that were kept."""
        self._count()
        self._trained = self._call("learned")

    def model(self) -> TrainedBag:
        """Return the members, and what they are worth."""
        scores, metrics = self.out_of_fold.mean(axis=0), self.cross_fitted.validation.metrics
        return TrainedBag(self._trained, HeldOut.measured(scores, self.cross_fitted.scores, self.data, metrics))

    def files(self, best: object) -> dict[str, bytes]:
        """Return the files of every member's checkpoint, under names of its own."""
        self._count()
        members: list[dict[str, bytes]] = self._call("files")
        buffer = io.BytesIO()
        np.save(buffer, self.out_of_fold)
        return packed(members) | {_OUT_OF_FOLD: buffer.getvalue()} | self.cross_fitted.files()

    def resume(self, files: Mapping[str, bytes], state: State) -> bool:
        """Resume every member from its files."""
        with check.library("out-of-fold scores", _OUT_OF_FOLD):
            self.out_of_fold = np.load(io.BytesIO(files[_OUT_OF_FOLD]))
        self.cross_fitted.resume(files)
        members, executors = unpacked(files, len(self.rows)), self._executors()
        waiting = [one.call("resume", members[first :: len(executors)]) for first, one in enumerate(executors)]
        for wait in waiting:
            wait()
        return True

    def close(self) -> None:
        """End the processes of members."""
        self._resources.close()

    def _count(self) -> None:
        """Count the last round for the estimate; not one that an interruption ended before it was measured."""
        if self._current is not None and np.may_share_memory(self._current, self.cross_fitted.validation.last.scores):
            self.cross_fitted.update()

    def _executors(self) -> Sequence[MemberExecutor]:
        """Return the executors, which start when they are needed: a checkpoint that does not fit is rejected before."""
        if self._started is None:
            self._started = self._start(self._resources)
        return self._started

    def _call(self, method: str, *arguments: object) -> list[Any]:
        """Call a method of all members, side by side; returns the result of each, in their order."""
        executors = self._executors()
        results: list[Any] = [None] * len(self.rows)
        for first, wait in enumerate([executor.call(method, *arguments) for executor in executors]):
            for number, result in enumerate(wait() or ()):
                results[first + number * len(executors)] = result
        return results
