"""One grammar for objects and expressions: ``ndcg(gain=linear)@5``, ``stochastic(xendcg)``, ``0.7*a + 0.3*b``.

An expression is read to its end before anything is built. Then names and calls are looked up in a table, and operators
combine objects from the table with each other or with a number; nothing is computed with numbers and words. A bare
word after ``=``, or in the place of an argument that is annotated ``str``, is a string; but ``none``, ``null``,
``true`` and ``false``, in whatever case, are constants unless the argument is annotated ``str``.
"""

import dataclasses
import inspect
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rankwise import check
from rankwise.language import syntax
from rankwise.language.syntax import Node

_OPERATORS: dict[tuple[str, str, str], Callable[[Any, Any], Any]] = {
    ("object", "+", "object"): operator.add,
    ("object", "-", "object"): operator.sub,
    ("number", "*", "object"): operator.mul,
    ("object", "*", "number"): operator.mul,
    ("object", "@", "number"): operator.matmul,
}
_CONSTANTS = {"none": None, "null": None, "true": True, "false": False}  # as TOML, JSON and the command line write them


def parse(text: str, table: Mapping[str, Callable[..., Any]], kind: str, *, otherwise: str = "") -> Any:
    """Build the object that ``text`` describes from the names in ``table``; ``kind`` names it in errors.

    ``otherwise`` is a further hint for a name that is neither in the table nor close to one that is.

    >>> parse("complex(1, imag=-2)", {"complex": complex}, "number")
    (1-2j)
    >>> parse("comlpex(1)", {"complex": complex}, "number")
    Traceback (most recent call last):
    rankwise.errors.InputError: unknown number: got 'comlpex' at character 1 of 'comlpex(1)'. Hint: did you mean
    'complex'.
    """
    if not isinstance(text, str):
        raise check.error(f"{_a(kind)} must be given as an expression", got=repr(text))
    return _Builder(text, table, kind, otherwise).whole()


@dataclasses.dataclass(frozen=True)
class _Builder:
    text: str
    table: Mapping[str, Callable[..., Any]]
    kind: str
    otherwise: str

    def whole(self) -> Any:
        node = syntax.read(self.text, self.kind)
        if _sort(node) != "object":
            raise check.error(
                f"the expression does not describe {_a(self.kind)}",
                got=repr(self.text[node.start : node.end]),
                where=self.place(node.start),
                hint=f"write it as name(argument=value), for example {next(iter(self.table))}",
            )
        return self.build(node)

    def build(self, node: Node) -> Any:
        if node.kind == "chain":
            return self.join(node)
        return self.make(node) if node.kind in ("name", "call") else self.value(node)

    def value(self, node: Node) -> Any:
        """Return a value after ``=`` or in a list: a bare word is a string, everything else is built."""
        if node.kind == "list":
            return tuple(self.value(item) for item in node.parts)
        if node.kind == "pairs":
            return {self.value(key): self.value(value) for key, value in node.value}
        return self.build(node) if node.kind in ("call", "chain") else node.value

    def make(self, node: Node) -> Any:
        name = node.value
        texts = _texts(self.table.get(name))
        named = {
            word: _CONSTANTS.get(argument.value.lower(), argument.value)
            if argument.kind == "name" and word not in texts.values()
            else self.value(argument)
            for word, argument in node.named.items()
        }
        args = [self.value(part) if number in texts else self.build(part) for number, part in enumerate(node.parts)]
        if name not in self.table:
            hint = check.suggestion(name, self.table, most=3)
            hint += f"; {self.otherwise}" if self.otherwise and not hint.startswith("did you mean") else ""
            raise check.error(
                f"unknown {self.kind}", got=syntax.short(repr(name)), where=self.place(node.start), hint=hint
            )
        maker = self.table[name]
        keywords = keywords_of(maker)
        for word in named:
            if keywords is not None and word not in keywords:
                hint = check.suggestion(word, keywords) if keywords else f"{name} takes no arguments"
                got, where = syntax.short(repr(word)), self.place(node.start)
                raise check.error(f"unknown argument of {name}", got=got, where=where, hint=hint)
        try:
            return maker(*args, **named)
        except TypeError as wrong:
            raise check.error(f"cannot build {name}", got=str(wrong), where=self.place(node.start)) from None
        except ValueError as wrong:
            raise check.prefixed(self.place(node.start), wrong) from None

    def join(self, node: Node) -> Any:
        result, before = self.build(node.parts[0]), _sort(node.parts[0])
        for mark, at, right in node.value:
            after, combine = self.build(right), _OPERATORS.get((before, mark, _sort(right)))
            try:
                if combine is None:
                    raise TypeError
                result = combine(result, after)
            except TypeError:
                raise check.error(
                    f"{mark} does not go between these in the {self.kind} expression",
                    got=syntax.short(repr(self.text[node.start : right.end])),
                    where=self.place(at),
                    hint="write numbers out: nothing is computed" if before == _sort(right) == "number" else "",
                ) from None
            except ValueError as wrong:
                raise check.prefixed(self.place(at), wrong) from None
            before = "object"
        return result

    def place(self, at: int) -> str:
        return syntax.place(self.text, at)


def _a(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _sort(node: Node) -> str:
    """Return the kind of an operand: "object" (from the table), "number", "constant" or "list"."""
    if node.kind == "pairs":
        return "list"
    return "object" if node.kind in ("name", "call", "chain") else node.kind


def keywords_of(maker: Callable[..., Any]) -> list[str] | None:
    """Return the argument names of a dataclass or function; None where they cannot be determined."""
    try:
        parameters = inspect.signature(maker).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return [p.name for p in parameters if p.kind is not p.VAR_POSITIONAL]


def _texts(maker: Callable[..., Any] | None) -> dict[int, str]:
    """Return the parameters that are text by their annotation, by number: there every bare word is a string."""
    try:
        parameters = inspect.signature(maker).parameters.values() if maker is not None else ()
    except (TypeError, ValueError):
        return {}
    kinds = {number: (one.name, one.annotation) for number, one in enumerate(parameters)}
    # The origin of Annotated[str, …] is str.
    return {number: name for number, (name, kind) in kinds.items() if getattr(kind, "__origin__", kind) in (str, "str")}


def arguments(thing: Any, *, leave_out: tuple[str, ...] = ()) -> str:
    """Return the fields of a dataclass that differ from their defaults, as ``name=value, …``.

    A field without a default is written as a positional argument.
    """
    parts = []
    for item in dataclasses.fields(thing):
        if item.name in leave_out or not item.init:
            continue
        value = getattr(thing, item.name)
        if item.default is dataclasses.MISSING:
            parts.append(word(value))
        elif value != item.default:
            parts.append(f"{item.name}={word(value)}")
    return ", ".join(parts)


def word(value: object) -> str:
    """Return the text of a value that :func:`parse` reads back.

    >>> word("linear"), word("two words"), word("none"), word(0.25), word((1, 2))
    ('linear', "'two words'", "'none'", '0.25', '(1, 2)')
    """
    if isinstance(value, str):
        bare = re.fullmatch(r"[A-Za-z_][A-Za-z_0-9]*", value) and value.lower() not in _CONSTANTS
        return value if bare else repr(value)
    if isinstance(value, tuple):
        return "(" + ", ".join(map(word, value)) + ("," if len(value) == 1 else "") + ")"
    return repr(value.item() if isinstance(value, np.generic) else value)
