"""The one table of rankers: name, class; and the way back from a folder to a ranker."""

import importlib
import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rankwise import check
from rankwise.base import hooks
from rankwise.base.arrays import Json, Keywords
from rankwise.language import registry
from rankwise.models import storage

if TYPE_CHECKING:
    from rankwise.rankers.base import IterativeRanker


class Recipe(NamedTuple):
    """An objective and settings of a ranker in the portfolio of :class:`rankwise.AutoRanker`."""

    objective: str
    settings: Keywords
    small: tuple[int, ...] = ()
    """Places in the order in which recipes are tried on small data; a second place is tried with another seed."""
    middle: tuple[int, ...] = ()
    large: tuple[int, ...] = ()


RANKERS: dict[str, tuple[str, str]] = {
    "lightgbm": ("rankwise.rankers.trees.lightgbm.ranker", "LightGBMRanker"),
    "xgboost": ("rankwise.rankers.trees.xgboost.ranker", "XGBoostRanker"),
    "catboost": ("rankwise.rankers.trees.catboost.ranker", "CatBoostRanker"),
    "linear": ("rankwise.rankers.linear.ranker", "LinearRanker"),
} | hooks.places("ranker of features")
"""Name -> (module, class), those of wings last: a library is imported only when its ranker is asked for."""
ENSEMBLES: dict[str, tuple[str, str]] = {
    "bagged": ("rankwise.rankers.ensembles.bagged", "bagged"),
    "blended": ("rankwise.rankers.ensembles.blended", "blended"),
    "feature": ("rankwise.rankers.ensembles.feature", "FeatureRanker"),
    "calibrate": ("rankwise.rankers.ensembles.calibrated", "CalibratedRanker"),
}
"""Rankers made of rankers, and of single features."""
SAVED_AS_OTHERS: dict[str, tuple[str, str]] = {
    "distilled": ("rankwise.rankers.ensembles.distilled", "distilled"),
} | hooks.places("ranker saved as another")
"""Rankers that expressions know and files do not: what they trained is saved."""


class MadeOf(NamedTuple):
    """What a ranker around others is made of, and how an expression writes it."""

    what: str
    """For errors."""
    example: str
    members: tuple[int, int | None] = (1, 1)
    """How many there are at least and at most."""
    inside: tuple[str, ...] | None = None
    """The rankers made of others that may be in it; None where the class itself checks."""
    as_member: bool = False
    """Whether it is several of its one member, and called as that."""
    ordered: bool = False
    """Whether members have roles of their own, by their order."""


MADE_OF = {
    "bagged": MadeOf(
        "a bag is made of rankers of trees or nets, or of one's own",
        "bagged(lightgbm(xendcg), folds=5)",
        inside=(),
        as_member=True,
    ),
    "blended": MadeOf(
        "a blend is made of rankers of trees or nets, bags of them, and features",
        "blended(lightgbm(xendcg), neural, column(0))",
        members=(1, None),
        inside=("bagged",),
    ),
    "distilled": MadeOf(
        "a distilled ranker is made of a teacher and a student",
        "distilled(bagged(lightgbm(xendcg)), lightgbm(leaves=7))",
        members=(2, 2),
        ordered=True,
    ),
    "calibrate": MadeOf("a calibrated ranker is made of one ranker", "calibrate(lightgbm(xendcg), method=platt)"),
}


def is_ours(name: str) -> bool:
    """Whether a name is that of a ranker of the package that learns from features."""
    return name in RANKERS


def is_around_others(name: str) -> bool:
    """Whether a name is that of a ranker made of others, or of a single feature."""
    return name in ENSEMBLES or name in SAVED_AS_OTHERS


def name_of(ranker: Any) -> str:
    """Return the name by which expressions know the class of a ranker; empty where they do not."""
    known = ranker.name in expression_names() and expression_class(ranker.name) is type(ranker)
    return ranker.name if known else ""


def installed(name: str) -> None:
    """Raise an error that names the extra to install if the libraries of a ranker are missing, before work begins."""
    cls = ranker_class(name)
    for module in cls.modules:
        check.installed(module, cls.extra)


RECOMMENDERS = hooks.places("recommender")
"""Rankers that learn from interactions alone, at once and without an objective."""


def ranker_names() -> list[str]:
    """Return the names of all rankers that learn from features: ours, and those that are registered."""
    return [*RANKERS, *registry.of("ranker")]


def ranker_class(name: str) -> type[Any]:
    """Return the class of a ranker by its name: one of ours, or one that is registered."""
    check.choice("ranker", name, ranker_names(), otherwise=registry.HINT)
    return _imported(*RANKERS[name]) if name in RANKERS else registry.of("ranker")[name]


def expression_names() -> list[str]:
    """Return the names of all rankers that expressions know."""
    return [*ranker_names(), *ENSEMBLES, *RECOMMENDERS, *SAVED_AS_OTHERS]


def expression_class(name: str) -> type[Any]:
    """Return the class of a ranker that an expression names."""
    return _imported(*SAVED_AS_OTHERS[name]) if name in SAVED_AS_OTHERS else any_class(name)


def build_ranker(name: str, parameters: Keywords, members: Sequence[object] = ()) -> Any:
    """Return the ranker of a name with these parameters; ``members`` are what an ensemble is made of."""
    cls = expression_class(name)
    arguments = inspect.signature(cls).parameters
    if not any(argument.kind is argument.VAR_KEYWORD for argument in arguments.values()):
        for unknown in parameters.keys() - arguments.keys():
            hint = check.suggestion(unknown, arguments).rstrip("?") if arguments else "leave it out"
            raise check.error(f"{name} has no such parameter", got=repr(unknown), hint=hint)
    return cls(*members, **parameters)


def recommender_class(name: str) -> type[Any]:
    """Return the class of a recommender by its name: those without an objective, and the factorization."""
    recommenders = {**RECOMMENDERS, "factorization": RANKERS["factorization"]}
    return _imported(*recommenders[check.choice("recommender", name, recommenders)])


def load(path: str | Path) -> "IterativeRanker | Any":
    """Read and verify a model that a ranker or a recommender saved, or a checkpoint; it scores bit for bit as it did.

    A damaged or foreign folder gets an error that says what is wrong with it.
    """
    description, files = storage.read(path)
    if description.get("ranker") == "reranker":
        hint = "open it with rw.rerank.Reranker.load, or use 'rankwise rerank score'"
        raise check.error("the folder holds a reranker, which scores texts", where=str(path), hint=hint)
    if opener := description.get("opened_by"):
        what, got = "the folder holds no ranker", repr(description.get("kind"))
        raise check.error(what, got=got, where=str(path), hint=f"open it with {opener}")
    with storage.malformed_as_error(path):
        return from_description(description, files)


def from_description(description: Json, files: dict[str, bytes]) -> Any:
    """Return the trained ranker of a description and its files."""
    return any_class(str(description["ranker"])).from_description(description, files)


def check_named(ranker: Any) -> None:
    """Raise if a file could not name this ranker, or one that it is made of."""
    if ranker.name not in (*ranker_names(), *ENSEMBLES, *RECOMMENDERS):
        hint = f'register it: @rw.register("…") before class {type(ranker).__name__}'
        raise check.error("a file cannot name a ranker without a name", got=type(ranker).__name__, hint=hint)
    for one in (ranker.nested() or {}).values():
        check_named(one)


def any_class(name: str) -> type[Any]:
    """Return the class that a file names: of a ranker, a ranker made of others, or a recommender."""
    otherwise = "if it is your own, `register its class before loading: rw.register|"
    otherwise += "name the module that registers it: --import MODULE`"
    check.choice("ranker", name, [*ranker_names(), *ENSEMBLES, *RECOMMENDERS], otherwise=otherwise)
    ours = RANKERS | ENSEMBLES | RECOMMENDERS
    return _imported(*ours[name]) if name in ours else registry.of("ranker")[name]


def _imported(module: str, name: str) -> type[Any]:
    imported: type[Any] = getattr(importlib.import_module(module), name)
    return imported
