"""Methods as expressions: a ranker, what it optimises and its settings, ``lightgbm(xendcg, leaves=400)``."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rankwise import grammar
from rankwise.objectives.base import Objective
from rankwise.objectives.table import OBJECTIVES, WRAPPERS, native
from rankwise.objectives.table import objective as find_objective
from rankwise.plain import Keywords
from rankwise.rankers.table import RANKERS, ranker_class
from rankwise.rankers.training.ranker import Trained


@dataclass(frozen=True)
class Method:
    """A ranker by name, the expression of its objective, and the settings that its own expression names."""

    ranker: str
    objective: str
    settings: Mapping[str, object]

    def build(self, settings: Mapping[str, object], defaults: Mapping[str, object]) -> Trained:
        """Make the ranker; of ``defaults`` (seed, threads, …) it takes those that it has."""
        cls = ranker_class(self.ranker)
        known = cls.own_parameters()
        own = {name: value for name, value in defaults.items() if name in known}
        parameters: Keywords = {"objective": self.objective, **own, **settings}
        return cls(**parameters)


def method(text: str) -> Method:
    """Read a method.

    >>> method("lightgbm(stochastic(lambdarank, scale=0.25), leaves=400)")
    Method(ranker='lightgbm', objective='stochastic(lambdarank, scale=0.25)', settings={'leaves': 400})
    >>> method("xgboost(native:rank:ndcg)").objective
    'native:rank:ndcg'
    >>> method("lightgmb(xendcg)")
    Traceback (most recent call last):
    ValueError: unknown ranker or objective: got 'lightgmb' at character 1 of 'lightgmb(xendcg)'. Hint: did you mean
    'lightgbm'.
    """
    rankers: dict[str, Callable[..., Any]] = {name: functools.partial(_made, name) for name in RANKERS}
    made = grammar.parse(text, rankers | OBJECTIVES | WRAPPERS, "ranker or objective")
    return made if isinstance(made, Method) else _made("lightgbm", made)


def _made(ranker: str, /, objective: Objective | str = "lambdarank", **settings: Any) -> Method:
    return Method(
        ranker, str(objective) if native(objective) is not None else repr(find_objective(objective)), settings
    )
