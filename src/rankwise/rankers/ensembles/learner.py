"""What learns in a bag: all members, in step, so that the one training loop sees one curve and stops them together."""

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rankwise import check
from rankwise.arrays import Array, rows_of
from rankwise.data.dataset import RankingDataset
from rankwise.rankers.ensembles.cross_fitted import CrossFitted
from rankwise.rankers.ensembles.members import Learned, Step
from rankwise.rankers.ensembles.places import Place
from rankwise.rankers.ensembles.plans import Plan
from rankwise.rankers.training.loop import Alone, State
from rankwise.rankers.training.stopping import Exhausted, NothingLearnedError
from rankwise.stream import Stream

_OUT_OF_FOLD = "out_of_fold.npy"


class BagLearner:
    """All members of a bag.

    Members that have nothing more to learn stay as they are while others learn. The best round is kept where members
    are, and only what was learned comes back at the end.
    """

    processes = Alone()

    def __init__(
        self,
        data: RankingDataset,
        plans: Sequence[Plan],
        repeats: int,
        cross_fitted: CrossFitted,
        start: Callable[[], Sequence[Place]],
    ) -> None:
        self.rows = [rows_of(plan.held_out, data.offsets)[0] for plan in plans]
        self.per_repeat = len(plans) // repeats
        self.n_docs, self.repeats = data.n_docs, repeats
        self._start = start
        self._started: Sequence[Place] | None = None
        self._steps: list[Step] = []
        self._learned: list[Learned] = []
        self._current: Array | None = None
        self.out_of_fold: Array | None = None
        """(repeats, n_docs) scores after the round that is kept."""
        self.cross_fitted = cross_fitted

    def round(self, stream: Stream) -> float | None:
        """Train a round of every member; gives the mean of their losses."""
        self._count()
        steps: list[Step] = self._ask("round", stream.round)
        if all(step.stopped for step in steps):
            raise Exhausted(steps[0].stopped, lambda: NothingLearnedError("no member learned anything"))
        self._steps = steps
        losses = [step.loss for step in steps if step.loss is not None]
        return float(np.mean(losses)) if losses else None

    def scores(self, number: int) -> Array:
        """Give out-of-fold scores of all repeats in a row, or the mean of all members on other data."""
        if number:
            return np.asarray(np.mean([step.scores[number] for step in self._steps], axis=0))
        found = np.empty((self.repeats, self.n_docs))
        for member, (step, rows) in enumerate(zip(self._steps, self.rows, strict=True)):
            found[member // self.per_repeat, rows] = step.scores[0]
        self._current = found
        return found.ravel()

    def snapshot(self) -> bool:
        """Keep all members where they are."""
        self._ask("snapshot")
        self.out_of_fold = self._current
        return True

    def restore(self, kept: object) -> None:
        """Fetch what was kept."""
        self._count()
        self._learned = self._ask("learned")

    def model(self) -> list[Learned]:
        """Give what members learned, in their order."""
        return self._learned

    def files(self, best: object) -> dict[str, bytes]:
        """Give the files of every member's checkpoint, under names of its own."""
        self._count()
        found: list[dict[str, bytes]] = self._ask("files")
        buffer = io.BytesIO()
        np.save(buffer, self.out_of_fold if self.out_of_fold is not None else np.zeros(0))
        return packed(found) | {_OUT_OF_FOLD: buffer.getvalue()} | self.cross_fitted.files()

    def resume(self, files: Mapping[str, bytes], state: State) -> bool:
        """Resume every member from its files."""
        with check.library("out-of-fold scores", _OUT_OF_FOLD):
            self.out_of_fold = np.load(io.BytesIO(files[_OUT_OF_FOLD]))
        self.cross_fitted.resume(files)
        own = unpacked(files, len(self.rows))
        where = self._places()
        waiting = [place.call("resume", own[first :: len(where)]) for first, place in enumerate(where)]
        for wait in waiting:
            wait()
        return True

    def _count(self) -> None:
        """Count the last round for the estimate; not one that an interruption ended before it was measured."""
        if self._current is not None and np.may_share_memory(self._current, self.cross_fitted.validation.last.scores):
            self.cross_fitted.update()

    def _places(self) -> Sequence[Place]:
        """Where members are; they start when they are needed, since a checkpoint that does not fit is refused."""
        if self._started is None:
            self._started = self._start()
        return self._started

    def _ask(self, method: str, *arguments: object) -> list[Any]:
        """Call a method of all members, side by side; gives what it says about each, in their order."""
        where = self._places()
        found: list[Any] = [None] * len(self.rows)
        for first, wait in enumerate([place.call(method, *arguments) for place in where]):
            for number, one in enumerate(wait() or ()):
                found[first + number * len(where)] = one
        return found


def packed(members: Sequence[Mapping[str, bytes]]) -> dict[str, bytes]:
    """Files of members in one folder: ``member-1-model.txt``."""
    return {
        f"member-{number}-{role}": content for number, own in enumerate(members, 1) for role, content in own.items()
    }


def unpacked(files: Mapping[str, bytes], count: int) -> list[dict[str, bytes]]:
    """The files of every member by their own names."""
    starts = [f"member-{number}-" for number in range(1, count + 1)]
    return [
        {role.removeprefix(start): content for role, content in files.items() if role.startswith(start)}
        for start in starts
    ]
