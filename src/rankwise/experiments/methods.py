"""Methods as expressions: a ranker, what it optimises and its settings, ``lightgbm(xendcg, leaves=400)``."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rankwise import check, grammar
from rankwise.objectives.base import Objective
from rankwise.objectives.table import OBJECTIVES, WRAPPERS, native
from rankwise.objectives.table import objective as find_objective
from rankwise.plain import Keywords
from rankwise.rankers.ensembles.bagged import bagged
from rankwise.rankers.table import RANKERS, ranker_class
from rankwise.rankers.training.ranker import Trained


@dataclass(frozen=True)
class Method:
    """A ranker by name, the expression of its objective, and the settings that its own expression names."""

    ranker: str
    objective: str
    settings: Mapping[str, object]
    bag: Mapping[str, int] | None = field(default=None, repr=False)
    """Folds and repeats of a bag of such rankers; None for a single one."""

    def build(self, settings: Mapping[str, object], defaults: Mapping[str, object]) -> Trained:
        """Make the ranker; of ``defaults`` (seed, threads, …) it takes those that it has."""
        cls = ranker_class(self.ranker)
        known = cls.own_parameters()
        own = {name: value for name, value in defaults.items() if name in known}
        parameters: Keywords = {"objective": self.objective, **own, **settings}
        return self.in_bag(cls(**parameters))

    def in_bag(self, ranker: Trained) -> Trained:
        """Give the bag of such rankers, where the method is one."""
        return ranker if self.bag is None else bagged(ranker, self.bag["folds"], repeats=self.bag["repeats"])


def method(text: str) -> Method:
    """Read a method.

    >>> method("lightgbm(stochastic(lambdarank, scale=0.25), leaves=400)")
    Method(ranker='lightgbm', objective='stochastic(lambdarank, scale=0.25)', settings={'leaves': 400})
    >>> method("xgboost(native:rank:ndcg)").objective
    'native:rank:ndcg'
    >>> method("bagged(lightgbm(xendcg), folds=5)").bag
    {'folds': 5, 'repeats': 1}
    >>> method("lightgmb(xendcg)")
    Traceback (most recent call last):
    ValueError: unknown ranker or objective: got 'lightgmb' at character 1 of 'lightgmb(xendcg)'. Hint: did you mean
    'lightgbm'.
    """
    rankers: dict[str, Callable[..., Any]] = {name: functools.partial(_made, name) for name in RANKERS}
    rankers["bagged"] = _bagged
    made = grammar.parse(text, rankers | OBJECTIVES | WRAPPERS, "ranker or objective")
    return made if isinstance(made, Method) else _made("lightgbm", made)


def _made(ranker: str, /, objective: Objective | str = "lambdarank", **settings: Any) -> Method:
    return Method(
        ranker, str(objective) if native(objective) is not None else repr(find_objective(objective)), settings
    )


def _bagged(ranker: Method | Objective | str = "lambdarank", /, folds: int = 5, *, repeats: int = 1) -> Method:
    made = ranker if isinstance(ranker, Method) else _made("lightgbm", ranker)
    if made.bag is not None or made.ranker == "factorization":
        raise check.error("a bag is made of rankers of trees or nets", got="factorization" if not made.bag else "a bag")
    least = {"folds": check.integer("folds", folds, least=2), "repeats": check.integer("repeats", repeats, least=1)}
    return replace(made, bag=least)
