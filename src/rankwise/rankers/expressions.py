"""Rankers as expressions: ``rw.ranker("bagged(lightgbm(xendcg, leaves=7), folds=3)")``, which ``repr`` gives back."""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rankwise import check
from rankwise.base.arrays import Keywords
from rankwise.check.parameters import declared
from rankwise.language import grammar, registry, syntax, user_code
from rankwise.metrics.base import Metric
from rankwise.objectives.base import Objective
from rankwise.objectives.table import ObjectiveLike, makers, native
from rankwise.objectives.table import objective as find_objective
from rankwise.rankers import table
from rankwise.rankers.sklearn import Estimator
from rankwise.rankers.training.settings import OF_ANY, ONE_ROUND, trains_at_once

if TYPE_CHECKING:
    from rankwise.rankers.base import Ranker

_KIND = "ranker or objective"
_REQUIRED = inspect.Parameter.empty


class Column(NamedTuple):
    """A feature as a member of a blend, by its name or number: ``column(0)``."""

    feature: str | int


@dataclass(frozen=True)
class RankerExpression:
    """A ranker as it is written, before it is built: it has the settings that the expression names, and no defaults."""

    name: str
    objective: str = ""
    """The expression of what a single ranker optimises; empty for a ranker without an objective, or an ensemble."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    members: tuple[Any, ...] = ()
    """What an ensemble is made of: expressions, and features by name or number."""

    @property
    def made_of(self) -> table.MadeOf | None:
        """What it is made of; None for a single ranker."""
        return table.MADE_OF.get(self.name)

    @property
    def is_bag(self) -> bool:
        """Whether it is several of one ranker, and called as that."""
        return self.made_of is not None and self.made_of.as_member

    def singles(self) -> "list[RankerExpression]":
        """List the rankers that are trained: itself, or those in an ensemble."""
        inner = [one for one in self.members if isinstance(one, RankerExpression)]
        return [single for one in inner for single in one.singles()] if self.members else [self]

    def map(self, settings: "Callable[[RankerExpression], Keywords]") -> "RankerExpression":
        """Replace the settings of every single ranker."""
        if not self.members:
            return replace(self, settings=settings(self))
        inner = (one.map(settings) if isinstance(one, RankerExpression) else one for one in self.members)
        return replace(self, members=tuple(inner))

    def build(self, defaults: Mapping[str, object] = MappingProxyType({})) -> Any:
        """Build the ranker; of ``defaults`` (seed, threads, …) each ranker in it uses those that it has."""
        names = table.expression_class(self.name).own_parameters()
        parameters = {name: value for name, value in defaults.items() if name in names}
        parameters |= {"objective": self.objective} if self.objective else {}
        parameters |= {name: _built(value, defaults) for name, value in self.settings.items()}
        members = [_built(one, defaults) for one in self.members]
        several = self.made_of is not None and self.made_of.members[1] is None
        ranker = table.build_ranker(self.name, parameters, [members] if several else members)
        if trains_at_once(getattr(ranker, "ranker", ranker)):  # metrics and the like, which need not be parameters
            settings = {name: value for name, value in defaults.items() if name in OF_ANY or name in ONE_ROUND}
            configure(ranker, **{name: value for name, value in settings.items() if name not in self.settings})
        return ranker

    def title(self) -> str:
        """Return the name for tables: a single ranker and its objective, or what an ensemble is made of.

        >>> read("blended(lightgbm(xendcg, leaves=7), neural, column(0), folds=3)").title()
        'blended(lightgbm(xendcg), neural(lambdarank), column 0)'
        """
        if self.is_bag:
            return str(self.members[0].title())
        inside = [self.objective] if self.objective else [_title(one) for one in self.members]
        return f"{self.name}({', '.join(inside)})" if inside else self.name

    def code(self) -> dict[str, str]:
        """Return the digests of the user's code that it trains with."""
        digests: dict[str, str] = {}
        for one in self.singles():
            objective = find_objective(one.objective) if one.objective and native(one.objective) is None else None
            digests |= user_code.digests(table.ranker_class(one.name), objective)
        return digests


def ranker(expression: "Ranker | str") -> Any:
    """Return a ranker that is not trained: from its expression, or the ranker itself.

    Names are those of saved models: ``lightgbm``, ``xgboost``, ``catboost``, ``neural``, ``factorization``, the
    recommenders and rankers of one's own that are registered; ``bagged``, ``blended``, ``distilled`` and ``calibrate``
    go around others, and ``auto`` searches. The first argument of a single ranker is its objective, the others are its
    parameters by name. A feature in a blend is ``column(0)`` or ``column('bm25')``. An objective alone is that of a
    ``lightgbm``.

    ``repr`` of a ranker is its expression, but for functions, data and trained rankers in it, which cannot be written.

    >>> import rankwise as rw
    >>> rw.ranker("bagged(lightgbm(xendcg, leaves=7), folds=3)")
    bagged(lightgbm(xendcg, leaves=7), folds=3)
    >>> rw.blended([rw.LightGBMRanker(rw.objectives.LambdaRank(sigma=2.0), rounds=50), 0])
    blended(lightgbm(lambdarank(sigma=2.0), rounds=50), column(0))
    >>> rw.ranker("lightgmb(xendcg)")
    Traceback (most recent call last):
    rankwise.errors.InputError: unknown ranker or objective: got 'lightgmb' at character 1 of 'lightgmb(xendcg)'. Hint:
    did you mean 'lightgbm'.
    """
    if isinstance(expression, str):
        return _parsed(expression, lambda name, /, *inside, **named: _expression(name, *inside, **named).build())
    if not hasattr(expression, "fit") or isinstance(expression, type):
        hint = 'pass a ranker such as rw.LightGBMRanker(), or "lightgbm(xendcg, leaves=7)"'
        raise check.error("a ranker is an object or an expression", got=repr(expression), hint=hint)
    return expression


def read(text: str) -> RankerExpression:
    """Read an expression without building the ranker.

    >>> read("lightgbm(stochastic(lambdarank, scale=0.25), leaves=400)").objective
    'stochastic(lambdarank, scale=0.25)'
    """
    expression: RankerExpression = _parsed(text, _expression)
    return expression


def expression_of(ranker: "Ranker") -> str:
    """Return the expression of a ranker: what it is made of or optimises, and parameters that are not the defaults."""
    defaults = ranker.own_parameters()
    required = [name for name, value in defaults.items() if value is _REQUIRED]
    leading = required if table.is_around_others(ranker.name) else [name for name in ("objective",) if name in defaults]
    inside = [text for name in leading for text in _leading(name, getattr(ranker, name))]
    for name, value in ranker.get_params(deep=False).items():
        text = _text(value)
        if name not in leading and (defaults.get(name, _REQUIRED) is _REQUIRED or text != _text(defaults[name])):
            inside.append(f"{name}={text}")
    return f"{table.name_of(ranker) or type(ranker).__name__}({', '.join(inside)})"


def _parsed(text: str, make: Callable[..., Any]) -> Any:
    rankers = {name: functools.partial(make, name) for name in table.expression_names()}
    parsed = grammar.parse(text, rankers | {"column": Column} | makers(), _KIND, otherwise=registry.HINT)
    if isinstance(parsed, Column):
        raise check.error("a feature is a member of a blend", got=repr(text), hint="write blended(lightgbm, column(0))")
    return make("lightgbm", parsed) if isinstance(parsed, Objective) else parsed


def _expression(name: str, /, *inside: Any, **settings: Any) -> RankerExpression:
    if name in table.MADE_OF:
        return _ensemble(name, [_member(name, one) for one in inside], settings)
    _check_settings(name, settings)
    parameters = table.expression_class(name).own_parameters()
    has_objective = "objective" in parameters
    if len(inside) > (has_objective or name == "feature"):
        what = f"{name} has one objective" if has_objective else f"{name} has no parameter objective"
        raise check.error(what, got=repr(inside[-1]), hint="name its parameters")
    if has_objective:
        return _single(name, *(inside or (settings.pop("objective", parameters["objective"]),)), **settings)
    return RankerExpression(name, settings=dict(zip(parameters, inside, strict=False)) | settings)


def _check_settings(name: str, settings: Keywords) -> None:
    """Check settings by their declarations; whether there are such, building the ranker says."""
    known = declared(table.expression_class(name))
    for key, value in settings.items():
        if key in known:
            known[key].check(value)


def _single(name: str, objective: ObjectiveLike, /, **settings: Any) -> RankerExpression:
    text = str(objective) if native(objective) is not None else repr(find_objective(objective))
    return RankerExpression(name, text, settings)


def _ensemble(name: str, members: list[Any], settings: Keywords) -> RankerExpression:
    made_of = table.MADE_OF[name]
    what, ensembles, (least, most) = made_of.what, made_of.inside, made_of.members
    if most == 1 and not members:
        members = [_single("lightgbm", "lambdarank")]
    if not least <= len(members) <= (most or len(members)):
        raise check.error(what, got=f"{name} of {len(members)}", hint=f"write {made_of.example}")
    for one in members:
        inner = getattr(one, "name", "column")
        allowed = inner in table.ranker_names() or inner in (ensembles or ())
        if ensembles is not None and (not allowed or inner == "factorization") and not isinstance(one, str | int):
            raise check.error(what, got=inner)
        folds = one.settings.get("folds", 5) if isinstance(one, RankerExpression) else getattr(one, "folds", 5)
        if most is None and inner in table.MADE_OF and folds != settings.get("folds", 5):
            got = f"folds={folds} and folds={settings.get('folds', 5)}"
            raise check.error("bags of a blend must have its folds", got=got, hint="set the same folds")
    _check_settings(name, settings)
    return RankerExpression(name, settings=settings, members=tuple(members))


def _member(of: str, one: Any) -> Any:
    """Return a member of an ensemble: an objective alone is that of a lightgbm; a teacher may be a saved model."""
    if isinstance(one, Column) and table.MADE_OF[of].members[1] is None:
        return one.feature
    saved = table.MADE_OF[of].ordered and isinstance(one, str) and native(one) is None
    return _single("lightgbm", one) if isinstance(one, Objective | str) and not saved else one


def _built(value: Any, defaults: Mapping[str, object]) -> Any:
    if isinstance(value, tuple):
        return tuple(_built(one, defaults) for one in value)
    return value.build(defaults) if isinstance(value, RankerExpression) else value


def _title(member: "RankerExpression | str | int") -> str:
    if isinstance(member, RankerExpression):
        return member.title()
    return member if isinstance(member, str) else f"column {member}"


def _leading(name: str, value: Any) -> list[str]:
    """Return the arguments without a name that a parameter is written as; names of features are in quotes."""
    if name == "objective":
        text = objective_expression(value)
        return [text if native(text) is None or syntax.is_native(text) else repr(text)]
    if name == "rankers":
        return [_text(one) if hasattr(one, "fit") else f"column({one!r})" for one in value]
    return [repr(str(value)) if isinstance(value, str | Path) else _text(value)]


def _text(value: Any) -> str:
    """Return the text of a parameter; what is neither plain nor an expression is in angle brackets."""
    if isinstance(value, list | tuple):
        return "(" + ", ".join(map(_text, value)) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{grammar.word(key)}: {_text(one)}" for key, one in value.items()) + "}"
    if isinstance(value, Estimator):
        text = expression_of(value)  # type: ignore[arg-type]  # a ranker is one
        return f"<trained {text}>" if value.__sklearn_is_fitted__() else text
    if isinstance(value, Metric | Path) or (callable(value) and registry.name_of(value)):
        return grammar.word(registry.name_of(value) or str(value))
    plain = isinstance(value, str | int | float | np.generic | Objective | None)
    return grammar.word(value) if plain else f"<{type(value).__name__}>"


def objective_of(ranker: Any) -> str:
    """Return the expression of a ranker's objective; empty for one without."""
    return objective_expression(getattr(ranker, "objective", ""))


def title_of(ranker: Any, *settings: str) -> str:
    """Return a ranker's title in tables and leaderboards: its name, with its objective and these settings."""
    inside = ", ".join(filter(None, (objective_of(ranker), *settings)))
    name = ranker.name or type(ranker).__name__
    return f"{name}({inside})" if inside else name


def configure(ranker: Any, **settings: Any) -> Any:
    """Set those of these settings that are a ranker's parameters, and in any case the metrics."""
    names = ranker.own_parameters()
    if "metrics" in settings and "metrics" not in names and ranker.nested() is None:
        ranker.metrics = settings["metrics"]
    known = settings if ranker.nested() else {name: value for name, value in settings.items() if name in names}
    return ranker.set_params(**known)


def objective_expression(objective: ObjectiveLike) -> str:
    """Return the expression of an objective, or the name of a function."""
    if isinstance(objective, str):
        return objective
    if name := registry.name_of(objective):
        return name
    if inspect.isfunction(objective) or " at 0x" in repr(objective):  # an address means nothing elsewhere
        return str(getattr(objective, "__qualname__", type(objective).__qualname__))
    return repr(objective)
