"""All hints of the package, found in its source: what errors may tell a user to do."""

import ast
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import rankwise
from rankwise.check import Message

SOURCE = Path(rankwise.__file__).parent
HOLE = "…"
_MOST = 64


class Hint(NamedTuple):
    """One hint; what is filled in when the error is raised is ``…``."""

    file: str
    line: int
    marked: str

    @property
    def text(self) -> str:
        """The hint as Python shows it."""
        return Message("", hint=self.marked).plain

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


def hints() -> list[Hint]:
    """Every text that is passed as ``hint=``, or stands behind "Hint: " in a text of its own."""
    found: dict[tuple[str, str], Hint] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        file = path.relative_to(SOURCE).as_posix()
        source = path.read_text(encoding="utf-8")
        if not any(word in source for word in ("hint", "Hint: ", "unexpected")):
            continue
        nodes = list(ast.walk(ast.parse(source)))
        named = _named(nodes)
        documentation = set(_documentation(nodes))
        for node in nodes:
            texts: list[str] = []
            if isinstance(node, ast.Call):
                texts = [text for one in node.keywords if one.arg == "hint" for text in _texts(one.value, named)]
                place = 2 if _called(node) == "unexpected" else len(node.args)
                texts += [text for one in node.args[place : place + 1] for text in _texts(one, named)]
            elif isinstance(node, ast.JoinedStr | ast.Constant) and node not in documentation:
                texts = [text.partition("Hint: ")[2] for text in _texts(node, named) if "Hint: " in text]
            for text in filter(None, texts):
                found.setdefault((file, text), Hint(file, getattr(node, "lineno", 0), text))
    return list(found.values())


def _texts(node: ast.expr, named: Mapping[str, list[ast.expr]]) -> list[str]:
    """All that an expression may be, as far as the source tells."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=parts) if parts:
            kinds = [_texts(part, named) or [HOLE] for part in parts]
            return ["".join(one) for one in itertools.islice(itertools.product(*kinds), _MOST)]
        case ast.FormattedValue(value=inner):
            return [text for text in _texts(inner, {}) if text] or [HOLE]
        case ast.BinOp(left=left, right=right, op=ast.Add()):
            return [a + b for a in _texts(left, named) or [HOLE] for b in _texts(right, named) or [HOLE]]
        case ast.IfExp(body=body, orelse=other):
            return _texts(body, named) + _texts(other, named)
        case ast.BoolOp(values=values):
            return [text for value in values for text in _texts(value, named)]
        case ast.Name(id=name):
            return [text for value in named.get(name, []) for text in _texts(value, {})]
        case ast.Call(func=ast.Attribute(value=inner, attr="format")):
            return _texts(inner, named)
    return []


def _named(nodes: list[ast.AST]) -> dict[str, list[ast.expr]]:
    """What is assigned to names anywhere in a module, and the defaults of arguments."""
    found: dict[str, list[ast.expr]] = {}
    for node in nodes:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                found.setdefault(name, []).append(value)
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                for target, value in zip(names, values, strict=False):
                    if isinstance(target, ast.Name):
                        found.setdefault(target.id, []).append(value)
            case ast.arguments(kwonlyargs=arguments, kw_defaults=defaults):
                for argument, default in zip(arguments, defaults, strict=True):
                    if default is not None:
                        found.setdefault(argument.arg, []).append(default)
    return found


def _documentation(nodes: list[ast.AST]) -> Iterator[ast.AST]:
    for node in nodes:
        if isinstance(node, ast.Expr):
            yield node.value
        if isinstance(node, ast.JoinedStr):
            yield from node.values  # parts of a text, which is looked at as a whole


def _called(node: ast.Call) -> str:
    return getattr(node.func, "attr", getattr(node.func, "id", ""))
