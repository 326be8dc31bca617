"""Objectives, metrics and rankers of users' own under names: ``rw.register``."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, overload

from rankwise import check
from rankwise.language import registry
from rankwise.metrics.base import Metric
from rankwise.metrics.table import metric as find_metric
from rankwise.objectives.base import Objective
from rankwise.objectives.table import OBJECTIVES, WRAPPERS
from rankwise.rankers.base import Ranker
from rankwise.rankers.table import ENSEMBLES, RANKERS, RECOMMENDERS

Thing = TypeVar("Thing", bound=Callable[..., object])
_BASES: dict[str, type] = {"objective": Objective, "metric": Metric, "ranker": Ranker}
_OF_FUNCTIONS = ("objective", "metric")
_RESERVED = ("auto", "column", "distilled", "loss", "native", "none", "reranker")
"""Words that mean something of their own in files and expressions."""


@overload
def register(name: str, thing: Thing, *, kind: str | None = None) -> Thing: ...
@overload
def register(name: str, thing: None = None, *, kind: str | None = None) -> Callable[[Thing], Thing]: ...
def register(name: str, thing: Any = None, *, kind: str | None = None) -> Any:
    """Register an objective, a metric or a ranker of your own under a name, directly or as a decorator.

    Expressions, the TOML files of experiments, ``rankwise --import MODULE …`` on the command line, and models that
    :func:`rankwise.load` reads then know it by this name. ``thing`` is a subclass of :class:`rankwise.Objective`,
    :class:`rankwise.Metric` or :class:`rankwise.Ranker`, whose settings are arguments in expressions; or a function,
    and then ``kind`` says what it is: ``"objective"`` or ``"metric"``.

    A file holds the name and no code: the program that reads it registers the same thing first. A name that is taken is
    an error; the same class or function, defined anew, replaces the old one.

    >>> import numpy as np, rankwise as rw
    >>> @rw.register("squared_error", kind="objective")
    ... def squared_error(scores, labels, offsets):
    ...     gap = scores - labels
    ...     return np.add.reduceat(gap**2, offsets[:-1]), 2 * gap, np.full_like(gap, 2.0)
    >>> rw.objective("stochastic(0.5*squared_error + xendcg, samples=2)")
    stochastic(0.5*squared_error + xendcg, samples=2)
    >>> rw.register("lambdarank", squared_error, kind="objective")
    Traceback (most recent call last):
    rankwise.errors.InputError: the name is taken: got 'lambdarank', which is an objective of rankwise. Hint: choose
    another name.
    """
    if thing is None:
        return lambda defined: register(name, defined, kind=kind)
    kind = _kind(thing, kind)
    ours = _ours(name)
    if ours:
        raise registry.taken(name, ours)
    called = vars(thing).get("name", name) if isinstance(thing, type) else name
    if called not in ("", name):
        hint = f"register it under that, or leave name out of the class: rw.register({called!r}, {thing.__name__})"
        raise check.error("the class has another name", got=f"{name!r} for a class whose name is {called!r}", hint=hint)
    registry.add(name, kind, thing)
    if isinstance(thing, type):
        thing.name = name  # type: ignore[attr-defined]  # of all three
    return thing


def _kind(thing: Any, kind: str | None) -> str:
    """Return what is registered, or raise an error about what cannot be."""
    if kind is not None:
        check.choice("kind", kind, _BASES)
    if not isinstance(thing, type):
        return _kind_of_function(thing, kind)
    derived = next((name for name, base in _BASES.items() if issubclass(thing, base)), None)
    if derived is None or (kind or derived) != derived:
        hint = "derive it from rw.Objective, rw.Metric or rw.Ranker"
        raise check.error("a class is registered as what it derives from", got=_described(thing, kind), hint=hint)
    if inspect.isabstract(thing):
        missing = ", ".join(sorted(getattr(thing, "__abstractmethods__", ())))
        raise check.error("the class is not complete", got=f"{thing.__name__} without {missing}", hint="define it")
    if derived != "ranker" and "__init__" in vars(thing) and "__dataclass_fields__" not in vars(thing):
        hint = "decorate it with @dataclass(frozen=True, kw_only=True, repr=False), and its settings are fields"
        raise check.error(f"an expression cannot tell the settings of the {derived}", got=thing.__name__, hint=hint)
    return derived


def _kind_of_function(thing: Any, kind: str | None) -> str:
    if isinstance(thing, Objective | Metric | Ranker) or not callable(thing):
        hint = "pass a class, whose settings are then arguments in expressions, or a function"
        raise check.error("an object is not registered, but its class", got=_described(thing, kind), hint=hint)
    if kind not in _OF_FUNCTIONS:
        hint = 'set kind="objective", or kind="metric"'
        what = "a ranker is a class" if kind else "a function may be an objective or a metric"
        raise check.error(what, got=_described(thing, kind), hint=hint)
    return kind


def _described(thing: Any, kind: str | None) -> str:
    name = getattr(thing, "__name__", type(thing).__name__)
    return f"{name} as {kind}" if kind else str(name)


def _ours(name: str) -> str:
    """Return what of ours has a name; empty where it is free."""
    if name in OBJECTIVES or name in WRAPPERS:
        return "an objective of rankwise"
    if name in RANKERS or name in ENSEMBLES or name in RECOMMENDERS:
        return "a ranker of rankwise"
    if name in _RESERVED:
        return "a word of rankwise's own"
    return "a metric of rankwise" if name not in registry.of("metric") and _is_metric(name) else ""


def _is_metric(name: object) -> bool:
    try:
        find_metric(name)  # type: ignore[call-overload]
    except ValueError:
        return False
    return True
