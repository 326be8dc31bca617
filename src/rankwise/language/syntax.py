"""The parser of expressions: from characters to a tree of nodes with positions; nothing is looked up or built here.

An expression consists of names, calls, numbers, quoted words, lists and the operators ``+ - * @``, with their meaning
in Python; and ``native:lambdarank``, a library's own objective, which needs no quotes. Length and depth are limited.

Not Python's ``ast``: it has no positions of operators, which errors point at; it rejects ``native:x`` and keywords as
words, turns ``ｘendcg`` into ``xendcg``, fails on a sum of 1,400 terms, and raises errors of five kinds.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from rankwise import check

MOST_CHARACTERS = 10_000
MOST_NESTED = 50
_TOO_LARGE = 2**64

_TOKEN = re.compile(
    r"""[ \t\r\n]*(?:
      (?P<number>(?:\d+(?:_\d+)*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<native>native:[\w:.]*\w)
    | (?P<name>[A-Za-z_]\w*)
    | (?P<quoted>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")
    | (?P<mark>[-+*@(),=\[\]{}:])
    | (?P<end>\Z)
    | (?P<other>.)
    )""",
    re.VERBOSE | re.ASCII | re.DOTALL,
)
_ESCAPES = re.compile(r"""\\(?:['"\\abfnrtv]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4})""")
_LETTERS = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))
_CONSTANTS = {"True": True, "False": False, "None": None}
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_HINTS = {
    ".": "write names without a module, and numbers with a digit first",
    "/": "multiply by the inverse instead",
    "*": "write numbers out: nothing is computed",
    "-": "a minus sign belongs to a number: write -1*name",
    "'": "close the quote",
    '"': "close the quote",
}


class Node(NamedTuple):
    """A part of an expression: the characters from ``start`` to before ``end``."""

    kind: Literal["number", "constant", "list", "pairs", "name", "call", "chain"]
    """A constant is a quoted word, True, False or None; a chain is operators of one precedence, from left to right."""
    start: int
    end: int
    value: Any = None
    """Number, constant, or name of an object; of a chain, each operator, its position and its right-hand side;
    of a dictionary, its keys and values."""
    parts: Sequence["Node"] = ()
    """Items of a list, positional arguments of a call, or the first operand of a chain."""
    named: Mapping[str, "Node"] = {}
    """Named arguments of a call."""


def read(text: str, kind: str) -> Node:
    """Read an expression; ``kind`` names in errors what it describes.

    >>> read("0.5*ndcg(gain=linear)", "metric").parts[0].value
    0.5
    >>> read("ndcg / 2", "metric")
    Traceback (most recent call last):
    rankwise.errors.InputError: cannot read the metric expression: got '/' at character 6 of 'ndcg / 2'. Hint: multiply
    by the inverse instead.
    """
    if len(text) > MOST_CHARACTERS:
        got = f"{len(text)} characters, {text[:20]!r} and so on"
        raise check.error(f"the {kind} expression may have {MOST_CHARACTERS} characters at most", got=got)
    return _Reader(text, kind).read()


def is_name(text: str) -> bool:
    """Whether an expression can hold a text as a bare name.

    >>> is_name("my_loss"), is_name("my loss"), is_name("None")
    (True, False, False)
    """
    token = _TOKEN.fullmatch(text)
    return token is not None and token.lastgroup == "name" and token["name"] == text and text not in _CONSTANTS


def is_native(text: str) -> bool:
    """Whether a library's own objective can be written without quotes.

    >>> is_native("native:rank:ndcg"), is_native("native:rank ndcg")
    (True, False)
    """
    token = _TOKEN.fullmatch(text)
    return token is not None and token["native"] == text


def place(text: str, at: int) -> str:
    """Return a position for an error, with the text; of a long one, only the surroundings are shown.

    >>> place("ndcg + ap", 7)
    "character 8 of 'ndcg + ap'"
    """
    first, last = max(at - 30, 0), at + 50
    cut = text if len(text) <= 80 else "…" * (first > 0) + text[first:last] + "…" * (last < len(text))
    return f"character {at + 1} of {cut!r}"


class _Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int


class _Reader:
    """Recursive descent: sums of products of parts."""

    def __init__(self, text: str, kind: str) -> None:
        self.text, self.kind = text, kind
        self.tokens = self.scan()
        self.token = next(self.tokens)
        self.end = 0  # of the token before
        self.depth = 0

    def scan(self) -> Iterator[_Token]:
        at = 0
        while True:
            match = _TOKEN.match(self.text, at)
            kind = str(match.lastgroup)  # type: ignore[union-attr]  # any character matches
            token = _Token(kind, *(getattr(match, part)(kind) for part in ("group", "start", "end")))
            if kind == "other":
                raise self.unexpected(token)
            yield token
            at = token.end

    def read(self) -> Node:
        node = self.sum()
        if self.token.kind != "end":
            raise self.unexpected(self.token)
        return node

    def step(self) -> _Token:
        """Advance by one token, and return the token passed."""
        passed, self.token = self.token, next(self.tokens)
        self.end = passed.end
        return passed

    def passed(self, mark: str) -> bool:
        """Advance if the next token is this mark, and return whether it was."""
        matches = self.token.kind == "mark" and self.token.text == mark
        if matches:
            self.step()
        return matches

    def sum(self) -> Node:
        return self.chain("+-", self.product)

    def product(self) -> Node:
        return self.chain("*@", self.part)

    def chain(self, marks: str, operand: Callable[[], Node]) -> Node:
        start, first = self.token.start, operand()
        rest: list[tuple[str, int, Node]] = []
        while self.token.kind == "mark" and self.token.text in marks:
            mark = self.step()
            rest.append((mark.text, mark.start, operand()))
        return Node("chain", start, self.end, rest, [first]) if rest else first

    def part(self) -> Node:
        token = self.step()
        if token.kind == "mark" and token.text == "-" and self.token.kind == "number":
            return Node("number", token.start, self.token.end, -self.number(self.step()))
        if token.kind == "number":
            return Node("number", token.start, token.end, self.number(token))
        if token.kind == "native":
            return Node("constant", token.start, token.end, token.text)
        if token.kind == "quoted":
            return Node("constant", token.start, token.end, self.quoted(token))
        if token.text in _CONSTANTS:
            return Node("constant", token.start, token.end, _CONSTANTS[token.text])
        if token.text in _CLOSING or (token.kind == "name" and self.token.text == "("):
            self.depth += 1
            if self.depth > MOST_NESTED:
                raise self.unexpected(token, f"put at most {MOST_NESTED} brackets inside each other")
            node = self.call(token) if token.kind == "name" else self.brackets(token)
            self.depth -= 1
            return node
        if token.kind == "name":
            return Node("name", token.start, token.end, token.text)
        raise self.unexpected(token)

    def call(self, name: _Token) -> Node:
        arguments: list[Node] = []
        named: dict[str, Node] = {}
        self.step()
        while not self.passed(")"):
            first, value = self.token, self.sum()
            if value.kind == "name" and self.passed("="):
                if value.value in named:
                    raise self.unexpected(first, "name every argument once")
                named[value.value] = self.sum()
            elif named:
                raise self.unexpected(first, "arguments without a name come first")
            else:
                arguments.append(value)
            self.comma(")")
        return Node("call", name.start, self.end, name.text, arguments, named)

    def brackets(self, opening: _Token) -> Node:
        """Read a list; parentheses around one part, without a comma, only group it."""
        closing, items, comma = _CLOSING[opening.text], [], False
        if closing == "}":
            return self.pairs(opening)
        while not self.passed(closing):
            items.append(self.sum())
            comma = self.comma(closing) or comma
        if opening.text == "(" and len(items) == 1 and not comma:
            return items[0]
        return Node("list", opening.start, self.end, parts=items)

    def pairs(self, opening: _Token) -> Node:
        pairs: list[tuple[Node, Node]] = []
        while not self.passed("}"):
            at, key = self.token, self.part()
            if key.kind not in ("name", "number", "constant") or not self.passed(":"):
                raise self.unexpected(at, "write {name: value}")
            pairs.append((key, self.sum()))
            self.comma("}")
        return Node("pairs", opening.start, self.end, pairs)

    def comma(self, closing: str) -> bool:
        """Advance over the comma before the next item; without one, the list must end here."""
        if self.passed(","):
            return True
        if self.token.kind != "mark" or self.token.text != closing:
            raise self.unexpected(self.token, f"write a comma or {closing}")
        return False

    def number(self, token: _Token) -> int | float:
        value: int | float = math.inf
        if len(token.text) < 400:  # Python itself refuses to read integers of thousands of digits
            value = int(token.text) if token.text.replace("_", "").isdigit() else float(token.text)
        if value >= _TOO_LARGE if isinstance(value, int) else math.isinf(value):
            raise self.unexpected(token, "write a whole number below 2^64, or one like 1e300")
        return value

    def quoted(self, token: _Token) -> str:
        if "\\" in _ESCAPES.sub("", token.text):
            raise self.unexpected(token, "write two backslashes for one")
        return _ESCAPES.sub(_escaped, token.text[1:-1])

    def unexpected(self, token: _Token, hint: str = "") -> ValueError:
        return check.error(
            f"cannot read the {self.kind} expression",
            got=short(repr(token.text)) if token.text else "its end",
            where=place(self.text, token.start),
            hint=hint or _HINTS.get(token.text, "write it as name(argument=value)"),
        )


def _escaped(escape: re.Match[str]) -> str:
    sort, digits = escape[0][1], escape[0][2:]
    return chr(int(digits, 16)) if digits else _LETTERS.get(sort, sort)


def short(text: str) -> str:
    """Shorten a long text for an error."""
    return text if len(text) <= 60 else text[:60] + "…"
