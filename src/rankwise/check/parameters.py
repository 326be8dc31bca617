"""Declared parameters: the type, range and sentence of a parameter, written once, in the signature that has it.

``leaves: Annotated[int | None, AtLeast(2), "Leaves of a tree at most."] = None`` is a parameter of a class or a
function. Checks, options of the command line, keys of files, bounds of searches and the reference are made from it.
Where an annotation contains another, sentences add up, and of all else the last counts.
"""

import functools
import inspect
import re
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import numpy as np

from rankwise.check.errors import error
from rankwise.check.settings import choice, integer, number

_Target = TypeVar("_Target", bound=Callable[..., Any])
_INFINITY = float("inf")
_MARKED = re.compile(r":\w+:`(?P<title>[^`<]*?)\s*(?:<[^>]*>)?`|``(?P<name>.+?)``", re.DOTALL)
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_QUOTED = re.compile(r"(?<!\S)\"(\w+)\"(?=[\s,;:.]|$)")  # of a word alone


@dataclass(frozen=True)
class Within:
    """Numbers of an interval, with its ends or ``open``, without them."""

    least: float = -_INFINITY
    most: float = _INFINITY
    open: bool = False

    def sentence(self) -> str:
        """The interval in words.

        >>> AtLeast(1).sentence(), Above(0).sentence(), Within(0, 1).sentence(), Within(0, 1, open=True).sentence()
        ('At least 1.', 'Above 0.', 'From 0 to 1.', 'Between 0 and 1.')
        """
        if self.least == -_INFINITY:
            return "" if self.most == _INFINITY else f"{'Below' if self.open else 'At most'} {self.most:g}."
        if self.most == _INFINITY:
            return f"{'Above' if self.open else 'At least'} {self.least:g}."
        return f"{'Between' if self.open else 'From'} {self.least:g} {'and' if self.open else 'to'} {self.most:g}."


def AtLeast(least: float) -> Within:  # noqa: N802 (it reads as a type in annotations)
    """Numbers from ``least`` on."""
    return Within(least)


def Above(bound: float) -> Within:  # noqa: N802
    """Numbers greater than ``bound``."""
    return Within(bound, open=True)


@dataclass(frozen=True)
class OneOf:
    """Words to choose from; ``what`` they are, for the error about another word."""

    words: tuple[str, ...]
    what: str = ""

    def __init__(self, words: Iterable[str], what: str = "") -> None:
        object.__setattr__(self, "words", tuple(words))
        object.__setattr__(self, "what", what)


@dataclass(frozen=True)
class Unset:
    """What is used where a parameter is not set, in words: ``Unset("by the number of documents")``."""

    words: str


@dataclass(frozen=True)
class Search:
    """The range that ``rw.tune`` searches by default, as an expression: ``Search("log(0.01, 0.3, start=0.05)")``.

    Values of a trial are drawn by ``place``, then in the order of the signature; what a seed draws depends on it.
    """

    expression: str
    place: float = _INFINITY


@dataclass(frozen=True)
class Option:
    """How the command line writes a parameter: another name, a short one, and the word for its value in help."""

    name: str = ""
    short: str = ""
    metavar: str = ""
    group: str = ""
    """Title below which help lists it."""
    hidden: bool = False
    """Whether the command line has no such option."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a class or a function."""

    name: str
    kind: Any = Any
    """Its type, without None."""
    default: Any = inspect.Parameter.empty
    optional: bool = False
    """Whether it may be None."""
    limits: Within | OneOf | None = None
    text: str = ""
    """A sentence or more about it."""
    unset: str = ""
    search: Search | None = None
    option: Option = field(default_factory=Option)
    noted: bool = True
    """Whether it is declared; a plain annotation, as of a user's class, checks nothing."""

    @property
    def help(self) -> str:
        """The sentences without marks, for terminals.

        >>> Parameter("stop", text='Whether the ``"first"`` of :class:`Metric` counts.').help
        'Whether the first of Metric counts.'
        """
        return _QUOTED.sub(r"\1", _MARKED.sub(lambda marked: marked["title"] or marked["name"], self.text))

    def check(self, value: Any) -> Any:
        """Return a value in the form that the package works with, or raise if it may not have it.

        >>> declared(lambda rate: None)["rate"].check("anything")
        'anything'
        >>> Parameter("leaves", int, limits=AtLeast(2)).check(1)
        Traceback (most recent call last):
        rankwise.errors.InputError: leaves must be a whole number of at least 2: got 1.
        """
        limits = self.limits
        if (value is None and self.optional) or not self.noted:
            return value
        if isinstance(limits, OneOf):
            plain = value.item() if isinstance(value, np.generic) else value
            other_kind = not isinstance(plain, str) and isinstance(plain, get_args(self.kind))  # True of str | bool
            allowed = other_kind or (isinstance(value, str) and value in limits.words)
            return value if allowed else choice(limits.what or self.name, value, limits.words)
        if self.kind is bool:
            if not isinstance(value, bool | np.bool_):
                raise error(f"{self.name} must be True or False", got=repr(value))
        elif self.kind is int:
            limits = limits or Within()
            value = integer(self.name, value, least=int(max(limits.least, -(2**63))) + limits.open)
            if value > limits.most:
                raise error(f"{self.name} must be at most {limits.most:g}", got=repr(value))
        elif self.kind is float:
            limits = limits or Within()
            value = number(self.name, value, least=limits.least, most=limits.most, open_ends=limits.open)
        return value

    def range(self) -> str:
        """The values that it may have, in words.

        >>> Parameter("leaves", int, limits=AtLeast(2)).range(), Parameter("p", float, limits=Within(0, 1)).range()
        ('≥ 2', '0 to 1')
        """
        limits = self.limits
        if isinstance(limits, OneOf):
            return ", ".join(limits.words)
        if limits is None or limits.least == -_INFINITY:
            return (
                "" if limits is None or limits.most == _INFINITY else f"{'<' if limits.open else '≤'} {limits.most:g}"
            )
        if limits.most == _INFINITY:
            return f"{'>' if limits.open else '≥'} {limits.least:g}"
        return f"{limits.least:g} to {limits.most:g}" + (", both excluded" if limits.open else "")


def _cached(function: _Target) -> _Target:
    return functools.cache(function)  # type: ignore[return-value]  # whose own type takes no classes


@_cached
def declared(target: Callable[..., Any]) -> Mapping[str, Parameter]:
    """Return the parameters of a class, a dataclass or a function by name, but for ``*`` and ``**`` ones.

    >>> def train(rounds: Annotated[int, AtLeast(1), "Trees at most."] = 500, *, seed=0): ...
    >>> declared(train)["rounds"].text, declared(train)["rounds"].range(), declared(train)["seed"].default
    ('Trees at most.', '≥ 1', 0)
    """
    function: Any = getattr(target, "__init__") if isinstance(target, type) else target  # noqa: B009
    annotations = getattr(function, "__annotations__", {})
    arguments = [one for one in inspect.signature(target).parameters.values() if one.kind not in _VARIADIC]
    parameters = {
        one.name: _parameter(one.replace(annotation=annotations.get(one.name, one.annotation))) for one in arguments
    }
    return types.MappingProxyType(parameters)


def _parameter(argument: inspect.Parameter) -> Parameter:
    kinds, notes = _unwrapped(argument.annotation)
    facts: dict[type, Any] = {type(note): note for note in notes}  # the last of each kind counts
    limits = next((note for note in reversed(notes) if isinstance(note, Within | OneOf)), None)
    values = [kind for kind in kinds if kind is not type(None)] or kinds
    return Parameter(
        argument.name,
        Union[tuple(values)],  # noqa: UP007 (of kinds that are known at run time)
        argument.default,
        argument.default is None or type(None) in kinds,
        limits,
        " ".join(word for note in notes if isinstance(note, str) for word in note.split()),
        facts[Unset].words if Unset in facts else "",
        facts.get(Search),
        facts.get(Option, Option()),
        bool(notes),
    )


def _unwrapped(annotation: Any) -> tuple[list[Any], list[Any]]:
    """Return the kinds of an annotation, several of a union, and the notes of ``Annotated`` in it."""
    if annotation is inspect.Parameter.empty or isinstance(annotation, str):
        return [Any], []
    if get_origin(annotation) is Annotated:
        inner, *notes = get_args(annotation)
        kinds, deeper = _unwrapped(inner)
        return kinds, [*deeper, *notes]
    if get_origin(annotation) in (Union, types.UnionType):
        parts = [_unwrapped(one) for one in get_args(annotation)]
        return [kind for kinds, _ in parts for kind in kinds], [note for _, notes in parts for note in notes]
    return [annotation], []


def assign(instance: object, arguments: Mapping[str, Any]) -> None:
    """Keep the arguments of a constructor under their names: ``assign(self, locals())``, as its first line.

    ``**others``, which a constructor only has to say what they are called here, are not kept.
    """
    for name, value in arguments.items():
        if name not in ("self", "__class__", "others"):
            setattr(instance, name, value)


def searched(target: Callable[..., Any]) -> dict[str, str]:
    """Return the ranges of parameters that ``rw.tune`` searches by default, in the order in which it draws them."""
    ranges = [(one.name, one.search) for one in declared(target).values() if one.search is not None]
    return {name: search.expression for name, search in sorted(ranges, key=lambda one: one[1].place)}


def check_declared(instance: Any) -> None:
    """Check the parameters of an instance by their declarations."""
    for name, parameter in _checked(instance.__class__).items():
        if hasattr(instance, name):
            parameter.check(getattr(instance, name))


@_cached
def _checked(target: type) -> Mapping[str, Parameter]:
    """Return the declared parameters of a class and of those that it inherits, which a user's constructor may pass."""
    constructors = [target, *(base.__init__ for base in target.__mro__[1:] if "__init__" in vars(base))]  # type: ignore[misc]
    parameters: dict[str, Parameter] = {}
    for one in constructors:
        parameters |= {name: it for name, it in declared(one).items() if it.noted and name not in parameters}
    return types.MappingProxyType(parameters)
