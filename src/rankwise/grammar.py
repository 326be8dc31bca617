"""One grammar for objects and texts: ``ndcg(gain=linear)@5``, ``stochastic(xendcg, samples=8)``, ``0.7*a + 0.3*b``.

The text is Python's own expression syntax, read with ``ast`` and never evaluated: names and calls are looked up in a
table, operators are applied to the objects that result. A bare word after ``=`` is a string.
"""

import ast
import dataclasses
import inspect
import keyword
import operator
from collections.abc import Callable, Mapping
from typing import Any

from rankwise import check

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.MatMult: operator.matmul,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}


def parse(text: str, table: Mapping[str, Callable[..., Any]], kind: str) -> Any:
    """Build the object that ``text`` describes from the names in ``table``; ``kind`` names it in errors.

    >>> parse("complex(1, imag=-2)", {"complex": complex}, "number")
    (1-2j)
    >>> parse("comlpex(1)", {"complex": complex}, "number")
    Traceback (most recent call last):
    ValueError: unknown number: got 'comlpex' at character 1 of 'comlpex(1)'. Cure: did you mean 'complex'.
    """
    if not isinstance(text, str):
        raise check.error(f"a {kind} must be given as text", got=repr(text))
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError) as broken:
        at = getattr(broken, "offset", None) or 1
        raise check.error(
            f"cannot read the text of a {kind}",
            got=repr(text),
            where=f"character {at}",
            cure=f"write it as name(argument=value), for example {next(iter(table))}",
        ) from None
    return _Builder(text, table, kind).build(tree)


class _Builder:
    def __init__(self, text: str, table: Mapping[str, Callable[..., Any]], kind: str) -> None:
        self.text, self.table, self.kind = text, table, kind

    def build(self, node: ast.expr) -> Any:
        match node:
            case ast.Name(id=name):
                return self.make(node, name, [], {})
            case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
                named = {word.arg: self.value(word.value) for word in keywords if word.arg}
                if len(named) < len(keywords):
                    raise self.unreadable(node)
                return self.make(node, name, [self.build(arg) for arg in args], named)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return self.apply(node, _OPERATORS[type(op)], self.build(left), self.build(right))
            case _:
                return self.value(node)

    def value(self, node: ast.expr) -> Any:
        """Read what stands after ``=``: a bare word is a string, everything else as usual."""
        match node:
            case ast.Name(id=word):
                return word
            case ast.Constant(value=bool() | int() | float() | str() | None as constant):
                return constant
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as constant)):
                return -constant
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return tuple(self.value(element) for element in elements)
            case ast.Call() | ast.BinOp():
                return self.build(node)
            case _:
                raise self.unreadable(node)

    def make(self, node: ast.expr, name: str, args: list[Any], named: dict[str, Any]) -> Any:
        if name not in self.table:
            raise check.error(
                f"unknown {self.kind}",
                got=repr(name),
                where=self.place(node),
                cure=check.suggestion(name, self.table).rstrip("?"),
            )
        maker = self.table[name]
        known = keywords_of(maker)
        for word in named:
            if known is not None and word not in known:
                cure = check.suggestion(word, known).rstrip("?") if known else f"{name} takes no arguments"
                raise check.error(f"unknown argument of {name}", got=repr(word), where=self.place(node), cure=cure)
        try:
            return maker(*args, **named)
        except TypeError as wrong:
            raise check.error(f"cannot build {name}", got=str(wrong), where=self.place(node)) from None

    def apply(self, node: ast.expr, apply: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
        try:
            return apply(left, right)
        except TypeError:
            raise self.unreadable(node) from None

    def unreadable(self, node: ast.expr) -> ValueError:
        piece = ast.get_source_segment(self.text.strip(), node)
        return check.error(f"cannot read part of the text of a {self.kind}", got=repr(piece), where=self.place(node))

    def place(self, node: ast.expr) -> str:
        return f"character {node.col_offset + 1} of {self.text!r}"


def keywords_of(maker: Callable[..., Any]) -> list[str] | None:
    """The argument names of a dataclass or function, or None where they cannot be told."""
    try:
        parameters = inspect.signature(maker).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return [p.name for p in parameters if p.kind is not p.VAR_POSITIONAL]


def arguments(thing: Any, *, leave_out: tuple[str, ...] = ()) -> str:
    """Write the fields of a dataclass that differ from their defaults, as ``name=value, …``.

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


def word(value: Any) -> str:
    """Write one value so that :func:`parse` reads it back.

    >>> word("linear"), word("two words"), word(0.25), word((1, 2))
    ('linear', "'two words'", '0.25', '(1, 2)')
    """
    if isinstance(value, str):
        return value if value.isidentifier() and not keyword.iskeyword(value) else repr(value)
    if isinstance(value, tuple):
        return "(" + ", ".join(map(word, value)) + ("," if len(value) == 1 else "") + ")"
    return repr(value)
