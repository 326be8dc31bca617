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
from numpy.typing import ArrayLike

from rankwise import check
from rankwise.data.dataset import RankingDataset
from rankwise.metrics.base import Metric
from rankwise.rankers.inputs import mean
from rankwise.rankers.newton import Array, Floats, newton
from rankwise.stream import Stream

Derive = Callable[[Array], tuple[Floats, Floats]]
History = dict[str, list[float]]


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


@dataclass
class State:
    """How far training has come: all that a checkpoint must hold beside the settings."""

    before: int = 0
    """Trees of the model that training started from."""
    done: int = 0
    """Rounds trained since then."""
    content: bytes | None = None
    """The trees so far, where they were read or are to be kept; None: none yet."""
    history: History = field(default_factory=dict)
    """``loss``: of the training queries before each round. A metric: of the validation queries after each round."""
    stopped: str = ""
    """Why training ended: ``rounds``, ``patience``, ``no split``, ``converged``, ``interrupted``."""

    @property
    def trees(self) -> int:
        """How many trees the model has, and the number of the next round."""
        return self.before + self.done


@dataclass
class Plan:
    """What is trained, on what, and for how long."""

    library: Library
    settings: Settings
    objective: Any
    """An objective, or None for the library's own."""
    train: RankingDataset
    valid: RankingDataset | None
    metrics: tuple[Metric, ...]
    seed: int
    rounds: int
    patience: int | None
    every: int
    documents: Mapping[str, Array] = field(default_factory=dict)
    """Columns of single documents that the objective is handed, such as ``document_weights``."""
    checkpoint: Callable[[State], None] | None = None
    """Called with the state after every ``every`` rounds."""
    report: Callable[[State, int], None] | None = None
    """Called after every round with the state and the best round so far."""

    def best(self, state: State) -> int:
        """The round (of those done) after which the first metric was best; the last one without validation."""
        if self.valid is None or not state.done:
            return state.done
        return int(np.argmax(state.history[str(self.metrics[0])][: state.done])) + 1

    def measure(self, metric: Metric, scores: ArrayLike) -> float:
        """The mean of a metric over the validation queries that it scores."""
        data: Any = self.valid
        return mean(metric, scores, data.labels, data.offsets, data.weights)


def grow(plan: Plan, state: State) -> State:
    """Train from ``state`` on until the rounds are done, or nothing improves, or the user interrupts."""
    blocks = plan.checkpoint is not None and plan.library.draws(plan.settings)
    matrices = plan.library.matrices(plan.settings, plan.train, plan.valid)
    growth: Growth | None = None
    step = _Step(plan)
    try:
        while not (stop := _finished(plan, state)):
            if growth is None or (blocks and state.done % plan.every == 0):
                growth = plan.library.grow(plan.settings, matrices, _seed(plan, state, blocks), state.content)
            state.content = None
            step.round = state.trees
            try:
                grown = growth.add(None if plan.objective is None else step)
            except _FlatError:
                stop = "converged"
                break
            if not grown:
                stop = "no split"
                break
            state.done += 1
            if plan.objective is not None:
                state.history.setdefault("loss", []).append(step.loss)
            if plan.valid is not None:
                scores = growth.valid_scores()
                for metric in plan.metrics:
                    state.history.setdefault(str(metric), []).append(plan.measure(metric, scores))
            if plan.checkpoint is not None and state.done % plan.every == 0:
                state.content = growth.content()
                plan.checkpoint(state)
            if plan.report is not None:
                plan.report(state, plan.best(state))
    except KeyboardInterrupt:
        state.done = min([state.done, *map(len, state.history.values())])
        if not state.done:
            raise
        stop = "interrupted"
    if not state.done:
        raise _nothing_learned(plan, stop)
    if growth is not None and state.content is None:
        state.content = growth.content()
    state.history = {name: column[: state.done] for name, column in state.history.items()}
    state.stopped = stop
    return state


def _seed(plan: Plan, state: State, blocks: bool) -> int:
    """The library's seed: the user's, or in a run of blocks one of (seed, block), which no interruption changes."""
    return int(Stream(plan.seed, state.done // plan.every).key >> np.uint64(33)) if blocks else plan.seed


def _finished(plan: Plan, state: State) -> str:
    if plan.patience is not None and plan.valid is not None and state.done - plan.best(state) >= plan.patience:
        return "patience"
    return "rounds" if state.done >= plan.rounds else ""


class _FlatError(Exception):
    """Every gradient is 0."""


class _Step:
    """From scores to what a tree is grown from, round by round."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.round, self.loss = plan, 0, np.nan
        self.stream = plan.train.stream(plan.seed)

    def __call__(self, scores: Array) -> tuple[Floats, Floats]:
        data = self.plan.train
        stream = self.stream.at(self.round)
        derivatives = self.plan.objective(scores, data.labels, data.offsets, stream, **self.plan.documents)
        numerator, hessian = newton(derivatives, data.offsets, data.query_ids, data.weights)
        if not numerator.any():
            raise _FlatError
        self.loss = float(np.average(derivatives.value, weights=data.weights))
        return numerator, hessian


def _nothing_learned(plan: Plan, stop: str) -> ValueError:
    data, settings = plan.train, plan.settings
    what = f"the model learned nothing from {data.n_queries} queries"
    if stop == "converged":
        firsts = np.repeat(data.labels[data.offsets[:-1]], data.sizes)
        if (data.labels == firsts).all():
            got, cure = "no query with documents of different labels", "check the labels and the query ids"
        else:
            got = f"a gradient of 0 for every document from {plan.objective}"
            cure = "check the weights, and which labels the objective takes for relevant"
    elif not data.n_docs or (data.features == data.features[0]).all():
        got, cure = "features that are the same for every document", "check the features"
    else:
        got = (
            f"no split of {data.n_docs} documents that leaves min_documents={settings.min_documents} on each side and "
            "improves the loss"
        )
        cure = "lower min_documents and the library's limit on the sum of Hessians in a leaf, and look at the features"
    return check.error(what, got=got, cure=cure)


def numbers(values: Any) -> Array:
    """Scores as the rest of the package takes them."""
    return np.ascontiguousarray(values, np.float64)
