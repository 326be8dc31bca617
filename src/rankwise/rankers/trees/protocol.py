"""Boosted trees, whichever library grows them: three small interfaces.

- :class:`Library` states the facts about a library, makes its matrices once, and starts growing.
- :class:`Growth` is a model that grows on one training set, a tree at a time.
- :class:`~rankwise.models.forests.forest.ForestModel` is a finished model: it scores, explains, and is bytes in the
  library's own format.

How an adapter is written: ``trees/lightgbm/`` is the pattern; it imports its library inside functions alone, so that
its facts can be read without it. ``Growth.add(derive)`` calls ``derive(scores)`` once, with the float64 scores of the
model so far for the training documents (``settings.base_score`` before the first tree), and grows one tree from the
float32 arrays that it returns: the numerator (a gradient: leaves are −Σ numerator / Σ hessian) and the Hessian, finite,
positive, with the queries' weights multiplied in. Where :meth:`Library.device` names a device, both may be tensors of
torch there instead.
An exception from ``derive`` must pass through, and leave the trees as they were. With ``derive=None`` the library's own
objective ``settings.builtin`` is used, and the library gets the weights of ``train``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from rankwise import check
from rankwise.base.arrays import Array, Keywords
from rankwise.data.dataset import RankingDataset
from rankwise.data.io.disk.mapped import DiskDataset, MappedRows
from rankwise.models.forests.forest import ForestModel
from rankwise.models.schema import Schema
from rankwise.rankers import migration_hints

Derive = Callable[[Array], tuple[Any, Any]]
FEW = 5_000
"""Training documents from which data are small and no longer tiny."""
MANY = 60_000
"""Training documents from which they are no longer small."""


class Defaults(NamedTuple):
    """Settings that go together, where none is set.

    ``benchmarks/quality/defaults.py`` compared settings by validation on small data sets; its tables are in
    ``docs/quality.md``. With fewer documents nothing was gained, and with more the small trees of the rule begin to
    lose within the usual 500 rounds. There trees are near those of the libraries themselves.
    """

    leaves: int = 31
    min_documents: int = 20
    smoothing: int = 1
    native: Mapping[str, object] = MappingProxyType({})
    """What the library draws while it grows trees, by its own names."""


USUAL = Defaults()
SMALL_DATA: Keywords = {"rounds": 1000, "learning_rate": 0.05, "leaves": 15, "min_documents": 50, "smoothing": 10}
LARGE_DATA: Keywords = {"rounds": 1000, "learning_rate": 0.05, "leaves": 63, "min_documents": 50, "smoothing": 5}
"""What recipes of trees have in common in the portfolio of AutoRanker."""


class ObjectiveParameter(NamedTuple):
    """A parameter of some of the library's own objectives; with ours it would have no effect."""

    builtins: tuple[str, ...]
    """The library's own objectives that it belongs to; none of those that rank where there are none."""
    instead: str = ""
    """What says the same to ours; ``{}`` stands for the value."""


class Refusal(NamedTuple):
    """Why settings cannot be trained, and what to do."""

    reason: str
    hint: str = "leave that parameter out"


ONE_SCORE = "train it with one score per document, such as a ranking, regression or binary objective"
AS_A_FUNCTION = "evaluate it through a function of features, rw.evaluate(lambda features: …, data)"
WITHOUT_CHECKPOINT = "train without a checkpoint"


def changes_trees(mode: str, *, stopping: bool) -> Refusal:
    """Return why a mode that changes earlier trees cannot be stopped early or resumed."""
    reason = f"{mode} changes earlier trees in later rounds, so that the best round cannot be kept and a checkpoint"
    return Refusal(f"{reason} cannot be continued", "train without valid" if stopping else WITHOUT_CHECKPOINT)


@dataclass(frozen=True)
class Settings:
    """Settings of a training; each adapter translates them to the library's own names."""

    builtin: str | None
    """The library's own objective (of ``native:…``), or None: trees are grown from our derivatives."""
    learning_rate: float
    leaves: int
    min_documents: int
    threads: int
    native: Keywords = field(default_factory=dict)
    """The library's parameters by their main names; they are known to exist."""
    floor_hessian: bool = True
    """Whether Hessians that are not positive are replaced."""
    keep_constants: bool = False
    """Whether a tree without a split is not the last, since other draws may have one: it counts as a round where the
    library keeps it."""
    base_score: float = 0.0
    """What is added to the scores of a model that is grown from nothing; the finished model has it in it."""


class ForeignModel(NamedTuple):
    """A model that was trained elsewhere, in the form in which the ranker of its library keeps it."""

    content: bytes
    """The file of the library; its scores are plain sums of leaves."""
    schema: Schema
    objective: str
    """What it was trained with, as the library calls it."""


class Growth(Protocol):
    """A model that grows."""

    def add(self, derive: Derive | None) -> bool:
        """Grow one tree; False if the library found no split for it."""

    def scores(self, number: int) -> Array:
        """Return the scores of a held-out data set, by its number, after the last tree."""

    def content(self) -> bytes:
        """Return all trees so far in the library's own file format, those that it started from included."""


class Library(ABC):
    """A library of boosted trees."""

    name: str
    """The name of its module and of its ranker."""
    title: str
    """The name in sentences."""
    forest: type[ForestModel]
    """Its finished models."""
    builtins: Sequence[str]
    """Its own ranking objectives, for ``native:…``."""
    ours: Mapping[str, str]
    """Parameters that have a name of ours which ``migration_hints`` does not know, or not as of this library."""
    aliases: Mapping[str, str] = MappingProxyType({})
    """Other names of parameters -> their main names."""
    losses: Mapping[str, ObjectiveParameter]
    """Parameters that only some objectives have, by their main names."""
    idle: Collection[str]
    """Parameters that would have no effect here."""
    small_data: Defaults = USUAL
    """Defaults for small data."""
    nothing_drawn: Mapping[str, object] = MappingProxyType({})
    """Parameters left at these values draw nothing, and a continued model is the uninterrupted one, bit for bit."""
    weighs_documents = False
    """Whether its own objectives have a weight for each document; else one for each query."""
    device: Callable[[Settings], str | None] | None = None
    """Returns the device, by torch's name, on which the library reads derivatives; None where it reads arrays."""

    def check_builtin(self, builtin: str) -> None:
        """Check that an objective of the library's own is one that ranks."""
        check.choice(f"objective of {self.name} itself", builtin, self.builtins)

    def canonical(self, name: str) -> str:
        """Return the main name of a parameter that may be written as an alias."""
        return self.aliases.get(name, name)

    def ours_of(self, name: str, parameters: Collection[str]) -> str:
        """Return our name of a parameter, one of a ranker's ``parameters``; nothing where it has none."""
        main = self.canonical(name)
        ours = main if main in parameters else migration_hints.parameter(main, parameters)
        return self.ours.get(main, "" if ours == "progress" else ours)  # what libraries write is their own

    @abstractmethod
    def known(self) -> Collection[str]:
        """Return all names of parameters, aliases included."""

    @abstractmethod
    def refusal(self, settings: Settings, *, stopping: bool, checkpoints: bool) -> Refusal | None:
        """Return why settings cannot be trained with early stopping and checkpoints; None if they can."""

    @abstractmethod
    def threads(self) -> int:
        """Return the number of threads it may use: those of ``rankwise.base.threads``, or one after a fork."""

    def least_documents(self, settings: Settings) -> int | None:
        """Return how many documents a leaf must hold; None where ``min_documents`` has no effect."""
        return settings.min_documents

    def draws(self, settings: Settings) -> bool:
        """Whether training draws random numbers, so that a continued model would differ from an uninterrupted one."""
        return any(settings.native.get(name, quiet) != quiet for name, quiet in self.nothing_drawn.items())

    @abstractmethod
    def matrices(self, settings: Settings, train: RankingDataset, held_out: Sequence[RankingDataset], seed: int) -> Any:
        """Build the library's own data once, for every :meth:`grow`; ``seed`` is of what it samples for bins."""

    @abstractmethod
    def grow(self, settings: Settings, matrices: Any, seed: int, start: bytes | None) -> Growth:
        """Start growing, from nothing or from the trees of ``start``."""

    @abstractmethod
    def foreign(self, model: object) -> ForeignModel | None:
        """Read a model that the library itself trained, cut as its own ``predict`` is; None if it is of another."""


def on_disk(data: RankingDataset) -> MappedRows | None:
    """Return where the features lie, if they are to stay there."""
    return MappedRows.of(data.features) if isinstance(data, DiskDataset) else None


def cannot_wrap(model: object, why: str, hint: str = AS_A_FUNCTION) -> ValueError:
    """Return an error about a model that cannot be wrapped as a ranker."""
    return check.error(f"{type(model).__name__} cannot be wrapped as a ranker", got=why, hint=hint)


def untrained(model: object) -> ValueError:
    """Return an error about a model without trees."""
    what = f"this {type(model).__name__} is not trained yet, or has no trees"
    return check.error(what, hint="call its fit first")
