"""What learns in a ranker of trees: each round grows one, from derivatives of the objective at the scores so far."""

import contextlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from rankwise import check
from rankwise.base.arrays import Array, Column, Json
from rankwise.base.sparse import same_rows
from rankwise.base.stream import Stream
from rankwise.data.dataset import RankingDataset
from rankwise.metrics.base import weighted_mean
from rankwise.models.forests.forest import TRANSFORMS, ForestModel, numbers
from rankwise.models.forests.library_errors import first_line
from rankwise.models.schema import Schema
from rankwise.objectives.base import Objective, PreparedSum
from rankwise.rankers.training import stopping
from rankwise.rankers.training.interrupts import Interrupts
from rankwise.rankers.training.loop import Learner, State
from rankwise.rankers.training.stopping import NothingLearnedError, NothingLeftToLearn
from rankwise.rankers.trees.newton import newton, newton_on_device
from rankwise.rankers.trees.protocol import Growth, Library, Settings

if TYPE_CHECKING:
    from rankwise.models.forests.query_forest import QueryForest
    from rankwise.objectives.ragged import Derivatives
    from rankwise.rankers.trees.device_newton import DeviceNewton


@dataclass(kw_only=True)
class Trees(Learner[int]):
    """What learners of trees share: a model is its first so many trees, so that a number of trees keeps one."""

    library: Library
    settings: Settings
    train: RankingDataset
    """All training data, or a sample of them."""
    held_out: Sequence[RankingDataset] = ()
    """What is scored after every tree: the validation data, and others that are measured."""
    start: bytes | None = None
    """The trees of the model that is continued."""
    before: int = 0
    """How many there are."""
    done: int = field(default=0, init=False)
    """Trees grown since then."""

    @abstractmethod
    def content(self) -> bytes:
        """Return all trees so far in the library's own file format; there may be more than were counted."""

    @abstractmethod
    def nothing_learned(self) -> NothingLearnedError:
        """Return the error that no tree has a split, with its reason."""

    def snapshot(self) -> int:
        """Count the trees."""
        return self.before + self.done

    def model(self, best: int, rounds: int) -> "ForestModel | QueryForest":
        """Return the first trees."""
        forest = self.library.forest.read(self.content(), Schema.of(self.train)).cut(best)
        if self.settings.keep_constants and not forest.importances("split").any():
            raise self.nothing_learned()
        return forest

    def description(self, rounds: int) -> Json:
        """Return the number of trees, and the library's version."""
        return self.library.forest.described(rounds)

    def files(self, best: int) -> dict[str, bytes]:
        """Return all trees; how many are the best model, the description of the checkpoint says."""
        return {self.library.forest.file: self.content()}

    def resume(self, files: Mapping[str, bytes], state: State) -> int:
        """Resume from the trees of a checkpoint, but for those that would crash the library."""
        self.start, self.done = files[self.library.forest.file], state.done
        self.library.forest.verify(self.start, self.train.n_features)
        return state.before + state.best


@dataclass(kw_only=True)
class TreeLearner(Trees):
    """Grows trees on this machine."""

    objective: Objective | None
    """None for the library's own, ``settings.builtin``."""
    documents: Mapping[str, Column]
    """Columns of single documents that the objective is handed, such as ``document_weights``."""
    seed: int
    within: Schema | None = None
    """Columns of the data, where those of ``train`` also have the values within the query."""
    block: int | None
    """Rounds after which growing starts anew with a seed of its own, where an interruption must not change what the
    library draws; None where it draws nothing, or cannot be resumed."""
    _matrices: Any = field(default=None, init=False)
    """Made in the first round: a checkpoint that does not fit is refused before."""
    _step: "NewtonStep | None" = field(default=None, init=False)
    _growth: Growth | None = field(default=None, init=False)
    _content: tuple[int, bytes] | None = field(default=None, init=False)

    def round(self, stream: Stream, weights: Sequence[float] = ()) -> float | None:
        """Grow a tree."""
        with as_input_errors(self.library, self.settings.builtin):
            if self._growth is None or (self.block is not None and self.done % self.block == 0):
                self._growth = self._fresh()
            step = cast("NewtonStep", self._step)
            step.stream = stream
            if weights:
                step.weigh(weights)
            try:
                with Interrupts(held=True) as interrupts:

                    def derive(scores: Array) -> tuple[Any, Any]:
                        with interrupts.allowed():
                            return step(scores)

                    grown = self._growth.add(None if self.objective is None else derive)
            except ZeroGradientError:
                raise NothingLeftToLearn(
                    "converged", lambda: stopping.no_gradient(self.train, self.objective)
                ) from None
            if not grown:
                raise NothingLeftToLearn("no split", self.nothing_learned)
            self.done += 1
            return None if self.objective is None or np.isnan(step.loss) else step.loss  # a function may not tell it

    def scores(self, number: int) -> Array:
        """Return the scores that the library keeps up to date, from ``init_scores`` on."""
        with Interrupts(held=True):
            return from_start(cast("Growth", self._growth).scores(number), self.held_out[number])

    def model(self, best: int, rounds: int) -> "ForestModel | QueryForest":
        """Return the first trees, with the transform that they were grown with."""
        forest = super().model(best, rounds)
        if self.within is None:
            return forest
        from rankwise.models.forests.query_forest import QueryForest

        return QueryForest(self.within, cast("ForestModel", forest))

    def description(self, rounds: int) -> Json:
        """Return the number of trees, the library's version and the transform."""
        return super().description(rounds) | ({} if self.within is None else {"transform": TRANSFORMS[0]})

    def content(self) -> bytes:
        """Return all trees so far; they are written once, whoever asks for them."""
        if self._growth is None:
            return self.start or b""
        if self._content is None or self._content[0] != self.done:
            self._content = self.done, self._growth.content()
        return self._content[1]

    def _fresh(self) -> Growth:
        if self._matrices is None:
            with Interrupts(held=True):
                self._matrices = self.library.matrices(self.settings, self.train, self.held_out, self.seed)
            self._step = NewtonStep(self)
        start = self.start if self._growth is None else self.content()
        seed = self.seed if self.block is None else block_seed(self.seed, self.done // self.block)
        with Interrupts(held=True):
            return self.library.grow(self.settings, self._matrices, seed, start)

    def nothing_learned(self) -> NothingLearnedError:
        """Return the error that no tree has a split, with its reason."""
        data = self.train
        if same_rows(data.features):
            return stopping.no_feature(data)
        return no_split(data.n_queries, data.n_docs, self.library.least_documents(self.settings))


@contextlib.contextmanager
def as_input_errors(library: Library, builtin: str | None) -> Iterator[None]:
    """Raise what a library refuses to train, perhaps with its own objective ``builtin``, as an error about input."""
    try:
        yield
    except Exception as failed:
        if type(failed).__module__.partition(".")[0].lstrip("_") != library.name:
            raise
        what = f"{library.title} cannot train so{'' if builtin is None else f' with native:{builtin}'}"
        hint = f"look at the parameters of {library.title} itself, and at the data"
        raise check.error(what, got=first_line(failed), hint=hint) from None


def from_start(scores: Array, data: RankingDataset) -> Array:
    """Return the scores of trees plus those that training starts from, if there are any."""
    return scores if data.init_scores is None else scores + data.init_scores


class ZeroGradientError(Exception):
    """Every gradient is 0."""


class NewtonStep:
    """From scores to what a tree is grown from; ``stream`` is that of the round."""

    alone = True
    """Whether the documents here are all there are, so that nothing is left to learn when their gradients are 0."""
    stream: Stream

    def __init__(self, learner: TreeLearner) -> None:
        self.data, self.floor = learner.train, learner.settings.floor_hessian
        self.loss, self.flat = np.nan, False
        self.on_device: DeviceNewton | None = None
        self.out: Derivatives | None = None
        if learner.objective is not None:
            self.prepared = learner.objective.prepare(self.data.labels, self.data.offsets, **learner.documents)
        if learner.objective is not None and (find := learner.library.device) is not None:
            device, queries = find(learner.settings), (self.data.query_ids, self.data.weights)
            self.on_device = newton_on_device(self.prepared, device, *queries, floor_hessian=self.floor)

    def weigh(self, weights: Sequence[float]) -> None:
        """Set the weights of the terms of the objective, where these vary from round to round."""
        if isinstance(self.prepared, PreparedSum):
            self.prepared = self.prepared.weighed(weights)
        if self.on_device is not None and isinstance(self.on_device.prepared, PreparedSum):
            self.on_device.prepared = self.on_device.prepared.weighed(weights)

    def __call__(self, scores: Array) -> tuple[Any, Any]:
        """Return numerator and Hessian for the scores of all trees so far: arrays, or tensors on the device."""
        scores = from_start(scores, self.data)
        numerator: Any
        hessian: Any
        if self.on_device is not None:
            value, numerator, hessian = self.on_device(scores, self.stream)
        else:
            self.out = self.prepared(numbers(scores), self.stream, out=self.out)
            value, data, floor = self.out.value, self.data, self.floor
            numerator, hessian = newton(self.out, data.offsets, data.query_ids, data.weights, floor_hessian=floor)
        self.flat = not numerator.any()
        if self.flat and self.alone:
            raise ZeroGradientError
        self.loss = np.nan if np.isnan(value).all() else weighted_mean(value, self.data.weights)
        return numerator, hessian


def block_seed(seed: int, number: int) -> int:
    """The library's seed of a block of rounds."""
    return int(Stream(seed, number).key >> np.uint64(33))


def no_split(n_queries: int, n_docs: int, least: int | None) -> NothingLearnedError:
    """Return the error that there was no split; ``least`` is how many documents a leaf must hold."""
    if least is None:
        got, hint = "improves", "look at the features, and at the library's own limits on what a leaf holds"
    else:
        got = f"leaves min_documents={least} on each side and improves"
        limit = "the library's limit on the sum of Hessians in a leaf"
        hint = f"lower `min_documents` and {limit}, and look at the features"
    return stopping.nothing_learned(n_queries, f"no split of {n_docs} documents that {got} the loss", hint)
