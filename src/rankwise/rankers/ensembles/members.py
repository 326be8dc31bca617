"""Members of a bag as they learn: each on all but one fold, in whichever process they are, and all in step.

:class:`BagLearner` shows them to the one training loop as one learner with one curve, by which they stop together.
"""

import contextlib
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.base import hooks
from rankwise.base.arrays import Array, Json, rows_of
from rankwise.base.pools import check_portable, processes, without_interrupts
from rankwise.base.stream import Stream
from rankwise.base.threads import thread_count, use_threads
from rankwise.data.dataset import RankingDataset
from rankwise.data.splits import fold_of_query
from rankwise.models import storage
from rankwise.models.model import Model
from rankwise.models.schema import Schema
from rankwise.models.sums import added_up, packed, unpacked
from rankwise.rankers import expressions
from rankwise.rankers.ensembles.out_of_fold import CrossFitted, HeldOut, OutOfFold
from rankwise.rankers.training.loop import Learner, State
from rankwise.rankers.training.settings import TrainingData, TrainingSettings
from rankwise.rankers.training.stopping import NothingLearnedError, NothingLeftToLearn
from rankwise.rankers.training.validation import DeviceScores, EvalSet

_STATE, _OUT_OF_FOLD = "state.npz", "out_of_fold.npy"


@dataclass(frozen=True)
class MemberPlan:
    """A member before training, and the queries that it never sees."""

    ranker: Any
    """Not trained, with a seed of its own where it has one."""
    settings: TrainingSettings
    held_out: NDArray[np.int64]


def plans(
    ranker: Any, data: RankingDataset, settings: TrainingSettings, *, folds: int, repeats: int, fold_seed: int
) -> list[MemberPlan]:
    """Return the plans of all members: folds of the first repeat, then of the next."""
    if data.n_queries < folds:
        what = "a bag needs at least as many queries as folds"
        raise check.error(what, got=f"{data.n_queries} queries and folds={folds}", hint="set fewer folds")
    planned: list[MemberPlan] = []
    # Metrics are measured by the bag, and not where members are; what users pass to it stays with it.
    settings = replace(settings, metrics=(), callback=None)
    for repeat in range(repeats):
        fold = fold_of_query(data, folds, seed=fold_seed, trial=repeat)
        for number in range(folds):
            seed = seed_of_member(settings.seed, len(planned))
            member = expressions.configure(ranker.__sklearn_clone__(), seed=seed, metrics=())
            planned.append(MemberPlan(member, replace(settings, seed=seed), np.flatnonzero(fold == number)))
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

    description: Json
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

    def call(self, method: str, *columns: Sequence[Any]) -> Callable[[], list[Any]]:
        """Call a method of every member; ``columns`` have an argument for each, what is returned gets the results."""
        with use_threads(self.threads):
            results = [getattr(member, method)(*one) for member, *one in zip(self.members, *columns, strict=True)]
        return lambda: results


class _Member:
    """A member that learns: ``round``, ``snapshot``, ``files``, ``resume`` and ``learned`` are called from outside."""

    def __init__(self, data: RankingDataset, plan: MemberPlan, measured: Sequence[RankingDataset]) -> None:
        seen = np.ones(data.n_queries, np.bool_)
        seen[plan.held_out] = False
        train, self.count = data.take(seen), 1 + len(measured)
        self.stream = train.stream(plan.settings.seed)
        others = {f"{number}": EvalSet(one, dict) for number, one in enumerate(measured)}
        part = TrainingData(train=train, valid=data.take(plan.held_out), hidden=True, eval_sets=others)
        self.learner = type(plan.ranker).learner(plan.ranker, part, plan.settings)  # it may have such a parameter
        self.done = self.best = 0
        self.kept: Any = None
        self.loss: list[float] = []
        self.last = MemberRound(None, [], "")

    def round(self, number: int, weights: Sequence[float]) -> MemberRound:
        if self.last.stopped:
            return self.last
        try:
            loss = self.learner.round(self.stream.at(number), weights)
        except NothingLeftToLearn as end:
            if not self.done:
                raise end.error() from None
            # The library may hold a tree that does not count, so that scores are those of the round before.
            self.last = self.last._replace(stopped=end.reason)
            return self.last
        self.done += 1
        self.loss += [] if loss is None else [loss]
        scores = [self.learner.scores(number) for number in range(self.count)]
        arrays = [one.array() if isinstance(one, DeviceScores) else one for one in scores]
        self.last = MemberRound(loss, arrays, "")
        return self.last

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

    def description(self, rounds: int) -> Json:
        description: Json = self.learner.description(rounds)
        return description

    def learned(self) -> TrainedMember:
        model = self.learner.model(self.kept, self.best)
        return TrainedMember(model.description(), model.files(), self.best, self.loss)


class MemberExecutor(Protocol):
    """Some members, and where they are trained."""

    def call(self, method: str, *columns: Sequence[Any]) -> Callable[[], list[Any]]:
        """Call a method of every member, as :meth:`Members.call` does; the returned function waits for the results."""


class BagLearner(Learner[bool]):
    """All members of a bag.

    Members that have nothing more to learn stay as they are while others learn. The best round is kept where members
    are, and only their models come back at the end.
    """

    def __init__(
        self,
        data: RankingDataset,
        plans: Sequence[MemberPlan],
        repeats: int,
        cross_fitted: CrossFitted,
        start: Callable[[contextlib.ExitStack], Sequence[MemberExecutor]],
    ) -> None:
        self.data, self.plans, self.repeats = data, plans, repeats
        self.rows = [rows_of(plan.held_out, data.offsets)[0] for plan in plans]
        self.per_repeat = len(plans) // repeats
        self._start = start
        self._started: Sequence[MemberExecutor] | None = None
        self._resources = contextlib.ExitStack()
        self._last: list[MemberRound] = []
        self._trained: list[TrainedMember] = []
        self._models: list[Model] = []
        self._current: Array | None = None
        self.out_of_fold: Array = np.zeros(0)
        """(repeats, n_docs) scores after the round that is kept."""
        self.cross_fitted = cross_fitted

    def round(self, stream: Stream, weights: Sequence[float] = ()) -> float | None:
        """Train a round of every member; returns the mean of their losses."""
        self._count()
        rounds: list[MemberRound] = self._call("round", [stream.round] * len(self.rows), [weights] * len(self.rows))
        if all(member.stopped for member in rounds):
            raise NothingLeftToLearn(rounds[0].stopped, lambda: NothingLearnedError("no member learned anything"))
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

    def model(self, best: object, rounds: int) -> Model:
        """Return the models that were kept as one forest, or their mean."""
        self._count()
        self._trained = self._call("learned")
        read, schema = self.plans[0].ranker.__sklearn_clone__, Schema.of(self.data)
        self._models = [read().read_model(one.description, one.files, schema) for one in self._trained]
        return added_up(self._models)

    def keep(self, ranker: Any, state: State) -> None:
        """Give the bag its members, and out-of-fold scores with what they are worth."""
        scores, metrics = self.out_of_fold.mean(axis=0), self.cross_fitted.validation.metrics
        ranker.held_out_ = HeldOut.measured(scores, self.cross_fitted.scores, self.data, metrics)
        ranker.become(self._models, self._trained, state.stopped)

    @property
    def validation(self) -> OutOfFold:  # type: ignore[override]
        """The metrics of out-of-fold scores."""
        return self.cross_fitted.validation

    def description(self, rounds: int) -> Json:
        """Return the descriptions of all members."""
        return {"members": self._call("description", [rounds] * len(self.rows))}

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
        self._call("resume", unpacked(files, len(self.rows)))
        return True

    def close(self) -> None:
        """End the processes of members."""
        self._resources.close()

    def _count(self) -> None:
        """Count the last round for the estimate; not one that an interruption ended before it was measured."""
        if self._current is not None and np.may_share_memory(self._current, self.cross_fitted.validation.last.scores):
            self.cross_fitted.update()

    def _call(self, method: str, *columns: Sequence[Any]) -> list[Any]:
        """Call a method of all members, side by side, with an argument of each column; returns results in their order.

        Executors start when they are needed: a checkpoint that does not fit is rejected before.
        """
        if self._started is None:
            self._started = self._start(self._resources)
        step, results = len(self._started), [None] * len(self.rows)
        parts = (
            (executor, [column[first::step] for column in columns]) for first, executor in enumerate(self._started)
        )
        for first, wait in enumerate([executor.call(method, *part) for executor, part in parts]):
            results[first::step] = wait()
        return results


class _Subprocess:
    """Members in a process of their own."""

    def __init__(self, pool: Executor, *members: object) -> None:
        self.pool, self.started = pool, pool.submit(_start, *members)

    def call(self, method: str, *columns: Sequence[Any]) -> Callable[[], list[Any]]:
        done: SimpleQueue[Future[Any]] = SimpleQueue()  # whose get Ctrl-C may end at any point, unlike result
        with _explained():
            self.pool.submit(_call, method, *columns).add_done_callback(done.put)

        def result() -> list[Any]:
            last = done.get()
            with _explained():
                self.started.result()  # done before; raises what went wrong at the beginning
                results: list[Any] = last.result()
                return results

        return result


def start_members(
    data: RankingDataset,
    plans: Sequence[MemberPlan],
    measured: Sequence[RankingDataset],
    stack: contextlib.ExitStack,
    *,
    count: int,
    dask: str | None,
    threads: int | None,
) -> list[MemberExecutor]:
    """Start the members in so many processes, which end with ``stack``: member i in executor i modulo their number."""
    if dask is not None:
        check_portable("the ranker", plans, alone="processes=1")
        on_cluster = hooks.find("executors of members", "dask")
        return list(on_cluster(data, plans, measured, stack, dask, threads))
    count = min(count, len(plans))
    threads = max(1, thread_count() // count) if threads is None else threads
    if count == 1:
        return [Members(data, plans, measured, threads)]
    check_portable("the ranker", plans, alone="processes=1")
    executors: list[MemberExecutor] = []
    with without_interrupts():
        for first in range(count):
            pool = stack.enter_context(processes(1))
            executors.append(_Subprocess(pool, data, plans[first::count], measured, threads))
    return executors


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Explain how to recover from a dead worker process."""
    try:
        yield
    except BrokenProcessPool:
        hint = (
            "it may have been out of memory: set fewer processes; with a checkpoint, `resume=True` resumes; a "
            "script that starts processes needs if __name__ == '__main__':"
        )
        what = check.error("a process that trains members of a bag has ended", hint=hint)
        raise ChildProcessError(str(what)) from None


_members: list[Members] = []
"""Members that this process trains, where it is one of those that train a bag."""


def _start(*members: Any) -> None:
    _members.append(Members(*members))


def _call(method: str, *columns: Sequence[Any]) -> list[Any]:
    return _members[0].call(method, *columns)()
