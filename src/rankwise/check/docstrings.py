"""Docstrings of classes and functions with declared parameters: their section ``Args:`` is made from declarations."""

import inspect
import textwrap
import types
from collections.abc import Callable
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from rankwise.check.parameters import Within, declared

_Target = TypeVar("_Target", bound=Callable[..., Any])
_NONE = inspect.Signature.empty
_WRAPPER = textwrap.TextWrapper(116, initial_indent=" " * 4, subsequent_indent=" " * 8, break_on_hyphens=False)


def arguments_section(target: Callable[..., Any]) -> str:
    """Return the section ``Args:`` of a docstring, from the declarations that have a sentence.

    >>> from rankwise.check.parameters import AtLeast
    >>> def train(rounds: Annotated[int, AtLeast(1), "Trees at most."] = 500): ...
    >>> arguments_section(train).splitlines()
    ['Args:', '    rounds: Trees at most. At least 1.']
    """
    lines = []
    for one in declared(target).values():
        if one.text:
            limits = f" {one.limits.sentence()}" if isinstance(one.limits, Within) else ""
            lines += _WRAPPER.wrap(f"{one.name}: {one.text}{limits}")
    return "\n".join(["Args:", *lines]) if lines else ""


def documented(target: _Target) -> _Target:
    """Add the declared parameters to the docstring of a class or function, whose signature then shows plain types.

    They come first in its section ``Args:``, or in a new one before the examples.

    >>> from rankwise.check.parameters import AtLeast
    >>> @documented
    ... class Ranker:
    ...     '''Ranks.'''
    ...     def __init__(self, rounds: Annotated[int, AtLeast(1), "Trees at most."] = 500): ...
    >>> print(inspect.getdoc(Ranker), inspect.signature(Ranker))
    Ranks.
    <BLANKLINE>
    Args:
        rounds: Trees at most. At least 1. (rounds: int = 500)
    """
    section, text = arguments_section(target), inspect.cleandoc(target.__doc__ or "")
    if "\nArgs:" in text:
        text = text.replace("Args:", section, 1)
    else:
        sentences, prompt, examples = text.partition(">>> ")
        text = f"{sentences.rstrip()}\n\n{section}\n\n{prompt}{examples}".rstrip()
    target.__doc__ = text
    if not isinstance(target, type):
        return plain_signature(target)
    if "__init__" in vars(target):
        plain_signature(vars(target)["__init__"])
    return target


def plain_signature(function: _Target) -> _Target:
    """Replace the signature that ``help`` shows of a function by one whose types have no notes."""
    vars(function)["__signature__"] = _plain(inspect.signature(function))
    return function


class PlainSignature:
    """``__signature__ = PlainSignature()`` of a class: its signature and those of subclasses show plain types.

    >>> class Metric:
    ...     __signature__ = PlainSignature()
    ...     def __init__(self, cutoff: Annotated[int, "The last rank."] = 10): ...
    >>> inspect.signature(Metric)
    <Signature (cutoff: int = 10)>
    """

    def __get__(self, instance: object, owner: type[Any]) -> inspect.Signature:
        """Return the signature of a class; an instance has that of its call."""
        if instance is not None:
            raise AttributeError("__signature__")
        signature = _plain(inspect.signature(owner.__init__))
        return signature.replace(parameters=[*signature.parameters.values()][1:], return_annotation=_NONE)


def _plain(signature: inspect.Signature) -> inspect.Signature:
    types_alone = [one.replace(annotation=plain(one.annotation)) for one in signature.parameters.values()]
    return signature.replace(parameters=types_alone)


def plain(annotation: Any) -> Any:
    """Return an annotation without notes."""
    if get_origin(annotation) is Annotated:
        return plain(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return Union[tuple(plain(one) for one in get_args(annotation))]  # noqa: UP007
    return annotation
