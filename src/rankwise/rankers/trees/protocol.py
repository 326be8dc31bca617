"""Boosted trees, whatever the library that grows them: it is met through three small protocols.

- :class:`Library` knows names and parameters, makes the library's own matrices once, and starts growing.
- :class:`Growth` is a model that grows on one training set, a tree at a time.
- :class:`Forest` is a finished model: it scores, explains, and is bytes in the library's own format.

How an adapter is written: ``trees/lightgbm.py`` is the pattern. ``Growth.add(derive)`` calls ``derive(scores)`` once,
with the float64 scores that the model so far gives the training documents (0 before the first tree), and grows one tree
from the float32 arrays that come back: the numerator (a gradient: leaves are −Σ numerator / Σ hessian) and the Hessian,
finite, positive, with the queries' weights multiplied in. Where :meth:`Library.device` names a device, both may be
tensors of torch there instead. An exception from ``derive`` must pass through, and leave the trees as they were. With
``derive=None`` the library's own objective ``settings.builtin`` is used, with the weights of ``train`` given to the
library.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from rankwise.arrays import Array, Floats, Keywords
from rankwise.data.dataset import RankingDataset
from rankwise.rankers.trees.formats.nodes import ModelFile
from rankwise.rankers.trees.native_parameters import Loss

Derive = Callable[[Array], tuple[Any, Any]]


@dataclass(frozen=True)
class Settings:
    """What all libraries are told; each adapter gives it the library's own names."""

    builtin: str | None
    """The library's own objective (of ``native:…``), or None: trees are grown from our derivatives."""
    learning_rate: float
    leaves: int
    min_documents: int
    threads: int
    native: Keywords = field(default_factory=dict)
    """The library's parameters by their own names; they are known to exist."""
    floor_hessian: bool = True
    """Whether Hessians that are not positive are replaced."""
    keep_constants: bool = False
    """Whether a tree without a split is not the last, since other draws may have one: it counts as a round where the
    library keeps it."""


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


class ForestByTree(Forest, Protocol):
    """A finished model that scores one tree at a time, as training on a cluster needs it."""

    def tree(self, features: Floats, number: int) -> Array:
        """Give what one tree, counted from 0, adds to the scores."""
        ...


class Growth(Protocol):
    """A model that grows."""

    def add(self, derive: Derive | None) -> bool:
        """Grow one tree; False if the library found no split for it."""
        ...

    def scores(self, number: int) -> Array:
        """Give the scores of a held-out data set, by its number, after the last tree."""
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
    weighs_documents: bool
    """Whether its own objectives take a weight for each document; else one for each query."""
    idle: Collection[str]
    """Parameters that would have no effect here."""

    def version(self) -> str:
        """Give the library's version."""
        ...

    def read(self, content: bytes, n_features: int) -> ModelFile:
        """Read the file of a model of so many features; an error rejects one that would crash the library."""
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

    def threads(self) -> int:
        """How many threads it may use: those of ``rankwise.threads``, or one where a fork allows no more."""
        ...

    def least_documents(self, settings: Settings) -> int | None:
        """How many documents a leaf is asked for; None where ``min_documents`` has no effect."""
        ...

    def draws(self, settings: Settings) -> bool:
        """Whether training draws random numbers, so that a continued model would differ from an uninterrupted one."""
        ...

    def device(self, settings: Settings) -> str | None:
        """The device, by torch's name, on which the library reads derivatives; None where it reads arrays."""
        ...

    def matrices(self, settings: Settings, train: RankingDataset, held_out: Sequence[RankingDataset]) -> Any:
        """Build the library's own data once; handed to every :meth:`grow`."""
        ...

    def grow(self, settings: Settings, matrices: Any, seed: int, start: bytes | None) -> Growth:
        """Start growing, from nothing or from the trees of ``start``."""
        ...

    def forest(self, content: bytes) -> Forest:
        """Read a model; raises ValueError if it cannot be read."""
        ...

    def sum(self, forests: Sequence[Any], factors: Sequence[float]) -> Forest | None:
        """Make one forest that scores as their weighted sum; None where no file of the library could hold it."""
        ...


def numbers(values: object) -> Array:
    """Scores as the rest of the package takes them."""
    return np.ascontiguousarray(values, np.float64)
