"""Boosted trees: the one training loop, whatever the library that grows them.

A library is met through three small protocols. Everything that is the same for all of them is here: rounds, Newton's
step with its checks, early stopping, history, blocks, checkpoints, and what to say when nothing was learned.

- :class:`Library` knows names and parameters, makes the library's own matrices once, and starts growing.
- :class:`Growth` is a model that grows on one training set, a tree at a time.
- :class:`Forest` is a finished model: it scores, explains, and is bytes in the library's own format.

How an adapter is written: ``rankers/lightgbm.py`` is the pattern. ``Growth.add(derive)`` calls ``derive(scores)`` once,
with the float64 scores that the model so far gives the training documents (0 before the first tree), and grows one tree
from the float32 arrays that come back: the numerator (a gradient: leaves are −Σ numerator / Σ hessian) and the Hessian,
finite, positive, with the queries' weights multiplied in. An exception from ``derive`` must pass through, and leave the
trees as they were. With ``derive=None`` the library's own objective ``settings.builtin`` is used, with the weights of
``train`` given to the library.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from rankwise.data.dataset import RankingDataset
from rankwise.rankers import course
from rankwise.rankers.course import Course
from rankwise.rankers.native_parameters import Loss
from rankwise.rankers.newton import Array, Floats, newton
from rankwise.stream import Stream

Derive = Callable[[Array], tuple[Floats, Floats]]


@dataclass(frozen=True)
class Settings:
    """What all libraries are told; each adapter gives it the library's own names."""

    builtin: str | None
    """The library's own objective (of ``native:…``), or None: trees are grown from our derivatives."""
    learning_rate: float
    leaves: int
    min_documents: int
    threads: int
    native: Mapping[str, Any] = field(default_factory=dict)
    """The library's parameters by their own names; they are known to exist."""
    floor: bool = True
    """Whether Hessians that are not positive are replaced."""


class Forest(Protocol):
    """A finished model."""

    n_trees: int

    def content(self) -> bytes:
        """Give the model in the library's own file format."""
        ...

    def cut(self, n_trees: int) -> "Forest":
        """Give the model of the first ``n_trees`` trees."""
        ...

    def predict(self, features: Floats) -> Array:
        """Score documents."""
        ...

    def explain(self, features: Floats) -> Array:
        """SHAP contributions (n_docs, n_features + 1); the last column is the mean, rows add up to the scores."""
        ...

    def importances(self, kind: str) -> Array:
        """Give one number per feature, by ``"gain"`` or ``"split"``."""
        ...


class Growth(Protocol):
    """A model that grows."""

    def add(self, derive: Derive | None) -> bool:
        """Grow one tree; False if the library found no split for it."""
        ...

    def valid_scores(self) -> Array:
        """Give the scores of the validation documents after the last tree."""
        ...

    def content(self) -> bytes:
        """Give all trees so far in the library's own file format, those that it started from included."""
        ...


class Library(Protocol):
    """A library of boosted trees."""

    name: str
    file: str
    """What the model file is called."""
    builtins: Sequence[str]
    """Its own ranking objectives, for ``native:…``."""
    ours: Mapping[str, str]
    """Parameters of the library that have a name of ours: theirs -> ours."""
    losses: Mapping[str, Loss]
    """Parameters that only some objectives take."""
    least_code: float
    """The smallest code of a category that the library takes."""
    idle: Collection[str]
    """Parameters that would have no effect here."""

    def version(self) -> str:
        """Give the library's version."""
        ...

    def known(self) -> Collection[str]:
        """All names of parameters, aliases included."""
        ...

    def canonical(self, name: str) -> str:
        """The main name of a parameter that may be written as an alias."""
        ...

    def refusal(self, settings: Settings, *, stopping: bool, checkpoints: bool) -> str:
        """Say why these settings cannot be trained so; empty if they can."""
        ...

    def draws(self, settings: Settings) -> bool:
        """Whether training draws random numbers, so that a continued model would differ from an uninterrupted one."""
        ...

    def matrices(self, settings: Settings, train: RankingDataset, valid: RankingDataset | None) -> Any:
        """Build the library's own data once; handed to every :meth:`grow`."""
        ...

    def grow(self, settings: Settings, matrices: Any, seed: int, start: bytes | None) -> Growth:
        """Start growing, from nothing or from the trees of ``start``."""
        ...

    def forest(self, content: bytes) -> Forest:
        """Read a model; raises ValueError if it cannot be read."""
        ...


@dataclass(kw_only=True)
class State(course.State):
    """How far training has come, and the trees so far."""

    content: bytes | None = None
    """The trees so far, where they were read or are to be kept; None: none yet."""


@dataclass(kw_only=True)
class Plan(Course):
    """What is trained, on what, and for how long; ``objective`` is None for the library's own."""

    library: Library
    settings: Settings


def grow(plan: Plan, state: State) -> State:
    """Train from ``state`` on until the rounds are done, or nothing improves, or the user interrupts."""
    blocks = plan.checkpoint is not None and plan.library.draws(plan.settings)
    matrices = plan.library.matrices(plan.settings, plan.train, plan.valid)
    growth: Growth | None = None
    step = Step(plan)
    try:
        while not (stop := plan.finished(state)):
            if growth is None or (blocks and state.done % plan.every == 0):
                growth = plan.library.grow(
                    plan.settings, matrices, library_seed(plan, state.done, blocks), state.content
                )
            state.content = None
            step.round = state.total
            try:
                grown = growth.add(None if plan.objective is None else step)
            except FlatError:
                stop = "converged"
                break
            if not grown:
                stop = "no split"
                break
            found = {} if plan.objective is None else {"loss": step.loss}
            if plan.valid is not None:
                found |= plan.measure(growth.valid_scores())
            state.record(found)
            if plan.checkpoint is not None and state.done % plan.every == 0:
                state.content = growth.content()
                plan.checkpoint(state)
            if plan.report is not None:
                plan.report(state, plan.best(state))
    except KeyboardInterrupt:
        state.settle()
        if not state.done:
            raise
        stop = "interrupted"
    if not state.done:
        raise _nothing_learned(plan, stop)
    if growth is not None and state.content is None:
        state.content = growth.content()
    state.settle()
    state.stopped = stop
    return state


def library_seed(plan: Plan, done: int, blocks: bool) -> int:
    """The library's seed: the user's, or in a run of blocks one of (seed, block), which no interruption changes."""
    return int(Stream(plan.seed, done // plan.every).key >> np.uint64(33)) if blocks else plan.seed


class FlatError(Exception):
    """Every gradient is 0."""


class Step:
    """From scores to what a tree is grown from, round by round."""

    alone = True
    """Whether the documents here are all there are, so that nothing is left to learn when their gradients are 0."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.round, self.loss, self.flat = plan, 0, np.nan, False
        self.stream = plan.train.stream(plan.seed)
        data = plan.train
        if plan.objective is not None:
            self.prepared = plan.objective.prepare(data.labels, data.offsets, **plan.documents)

    def __call__(self, scores: Array) -> tuple[Floats, Floats]:
        """Give numerator and Hessian for the scores of all trees so far."""
        data = self.plan.train
        stream = self.stream.at(self.round)
        derivatives = self.prepared(scores, stream)
        numerator, hessian = newton(
            derivatives, data.offsets, data.query_ids, data.weights, floor=self.plan.settings.floor
        )
        self.flat = not numerator.any()
        if self.flat and self.alone:
            raise FlatError
        self.loss = float(np.average(derivatives.value, weights=data.weights))
        return numerator, hessian


def _nothing_learned(plan: Plan, stop: str) -> ValueError:
    data, settings = plan.train, plan.settings
    if stop == "converged":
        return course.no_gradient(data, plan.objective)
    if not data.n_docs or (data.features == data.features[0]).all():
        return course.no_feature(data)
    return course.nothing_learned(data.n_queries, *no_split(data.n_docs, settings))


def no_split(n_docs: int, settings: Settings) -> tuple[str, str]:
    """Say why there was no split, and what to do."""
    got = f"no split of {n_docs} documents that leaves min_documents={settings.min_documents} on each side and improves"
    cure = "lower min_documents and the library's limit on the sum of Hessians in a leaf, and look at the features"
    return f"{got} the loss", cure


def numbers(values: Any) -> Array:
    """Scores as the rest of the package takes them."""
    return np.ascontiguousarray(values, np.float64)
