"""The one table of rankers: name, class; and the way back from a folder to a ranker."""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rankwise import check, registry
from rankwise.arrays import Keywords
from rankwise.rankers import storage

if TYPE_CHECKING:
    from rankwise.rankers.training.ranker import Trained
    from rankwise.recommend.base import Recommends


class Recipe(NamedTuple):
    """An objective and settings of a ranker in the portfolio of :class:`rankwise.AutoRanker`."""

    objective: str
    settings: Keywords
    small: tuple[int, ...] = ()
    """Places in the order in which recipes are tried on small data; a second place is tried with another seed."""
    middle: tuple[int, ...] = ()
    large: tuple[int, ...] = ()


RANKERS: dict[str, tuple[str, str]] = {
    "lightgbm": ("rankwise.rankers.trees.lightgbm", "LightGBMRanker"),
    "xgboost": ("rankwise.rankers.trees.xgboost", "XGBoostRanker"),
    "catboost": ("rankwise.rankers.trees.catboost", "CatBoostRanker"),
    "neural": ("rankwise.rankers.nets.ranker", "NeuralRanker"),
    "factorization": ("rankwise.recommend.factorization.ranker", "FactorizationRanker"),
}
"""Name -> (module, class): a library is imported only when its ranker is asked for."""
ENSEMBLES: dict[str, tuple[str, str]] = {
    "bagged": ("rankwise.rankers.ensembles.bagged", "bagged"),
    "blended": ("rankwise.rankers.ensembles.blended", "blended"),
    "feature": ("rankwise.rankers.ensembles.feature", "FeatureRanker"),
}
"""Rankers made of rankers, and of single features."""


def installed(name: str) -> None:
    """Raise an error that names the extra to install if the libraries of a ranker are missing, before work begins."""
    cls = ranker_class(name)
    for module in cls.modules:
        check.installed(module, cls.extra)


RECOMMENDERS: dict[str, tuple[str, str]] = {
    "ease": ("rankwise.recommend.ease", "EASE"),
    "als": ("rankwise.recommend.als", "ALS"),
    "knn": ("rankwise.recommend.knn", "ItemKNN"),
    "popularity": ("rankwise.recommend.popularity", "Popularity"),
}
"""Rankers that learn from interactions alone, at once and without an objective."""


def ranker_names() -> list[str]:
    """Return the names of all rankers that learn from features: ours, and those that are registered."""
    return [*RANKERS, *registry.of("ranker")]


def ranker_class(name: str) -> type[Any]:
    """Give the class of a ranker by its name: one of ours, or one that is registered."""
    check.choice("ranker", name, ranker_names(), otherwise=registry.HINT)
    if name not in RANKERS:
        own: type[Any] = registry.of("ranker")[name]
        return own
    module, cls = RANKERS[name]
    found: type[Any] = getattr(importlib.import_module(module), cls)
    return found


def built(name: str, parameters: Keywords) -> Any:
    """Make the ranker of a name with these parameters; one of one's own says as ours do which it does not have."""
    cls = ranker_class(name)
    known = cls.own_parameters()
    for unknown in parameters.keys() - known.keys() if name not in RANKERS else ():
        hint = check.suggestion(unknown, known).rstrip("?") if known else "leave it out"
        raise check.error(f"{name} has no such parameter", got=repr(unknown), hint=hint)
    return cls(**parameters)


def recommender_class(name: str) -> "type[Recommends]":
    """Give the class of a recommender by its name: those without an objective, and the factorization."""
    known = {**RECOMMENDERS, "factorization": RANKERS["factorization"]}
    module, cls = known[check.choice("recommender", name, known)]
    found: type[Recommends] = getattr(importlib.import_module(module), cls)
    return found


def load(path: str | Path) -> "Trained | Any":
    """Read and verify a model that a ranker or a recommender saved, or a checkpoint; it scores bit for bit as it did.

    A damaged or foreign folder gets an error that says what is wrong with it.
    """
    description, files = storage.read(path)
    if description.get("ranker") == "reranker":
        hint = "open it with rw.rerank.Reranker.load, or use 'rankwise rerank score'"
        raise check.error("the folder holds a reranker, which scores texts", where=str(path), hint=hint)
    with storage.making_sense(path):
        return any_class(str(description["ranker"]))._from_description(description, files)


def any_class(name: str) -> type[Any]:
    """Give the class that a file names: of a ranker, a ranker made of others, or a recommender."""
    otherwise = "if it is your own, register its class before loading: rw.register"
    check.choice("ranker", name, [*ranker_names(), *ENSEMBLES, *RECOMMENDERS], otherwise=otherwise)
    if name in ENSEMBLES:
        module, cls = ENSEMBLES[name]
        found: type[Any] = getattr(importlib.import_module(module), cls)
        return found
    return recommender_class(name) if name in RECOMMENDERS else ranker_class(name)
