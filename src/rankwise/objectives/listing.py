"""What objectives there are, told by the objectives themselves: one source for the command line, README and docs.

Names come from the table of objectives, everything else from the classes: fields are arguments, the docstring's first
sentence is the description, and the flags are asked of objects. ``python -m rankwise.objectives.listing README.md
docs/objectives.md`` rewrites the tables that stand between markers in these files.
"""

import dataclasses
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rankwise import check, grammar, registry
from rankwise.files import replacing
from rankwise.objectives.adapted import as_objective
from rankwise.objectives.smooth.objectives import ApproxNDCG
from rankwise.objectives.table import OBJECTIVES, WRAPPERS
from rankwise.plain import Keywords

INSIDE = "as inside"
"""Stands for a wrapper's answer where it is that of the objective inside."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry:
    """One objective or wrapper."""

    name: str
    """What it is called in expressions: ``rw.objective(name)``."""
    kind: str
    """"objective" or "wrapper"."""
    class_name: str
    description: str
    """The first sentence of its docstring."""
    paper: str
    arguments: Keywords
    """Arguments and their defaults; a wrapper's first argument, the objective inside, is not among them."""
    exact_hessian: bool | str
    """Whether the Hessian is exact by default, or :data:`INSIDE`."""
    exact_with: str
    """The argument that makes the Hessian exact where it is not by default; empty where there is none."""
    estimator: bool | str
    """Whether it is unbiased over draws but not differentiable draw by draw, or :data:`INSIDE`."""

    def hessian(self) -> str:
        """Say in words how exact the Hessian is."""
        if isinstance(self.exact_hessian, str):
            return self.exact_hessian
        word = "unbiased" if self.estimator else "exact"
        if self.exact_hessian:
            return word
        return f"{word} with {self.exact_with}" if self.exact_with else f"not {word}"

    def defaults(self) -> str:
        """The arguments as one would write them."""
        return ", ".join(f"{name}={grammar.word(value)}" for name, value in self.arguments.items())


def entries() -> list[Entry]:
    """List every objective, then every wrapper, in the order of the table.

    >>> for entry in entries()[:2]:
    ...     print(f"{entry.name:10}  {entry.paper:17}  {entry.hessian()}  {entry.defaults()}")
    listnet     Bruch 2021         exact  newton=neumann, epsilon=0.0
    softmax_ce  Bruch et al. 2019  exact  newton=neumann, epsilon=0.0
    """
    return [
        *(_entry(name, "objective", cls) for name, cls in OBJECTIVES.items()),
        *(_entry(name, "wrapper", cls) for name, cls in WRAPPERS.items()),
    ]


def registered() -> list[Entry]:
    """List the objectives of users' own that are registered."""
    found = []
    for name, thing in registry.of("objective").items():
        if isinstance(thing, type):
            wraps = any(item.name == "inner" for item in dataclasses.fields(thing))
            found.append(_entry(name, "wrapper" if wraps else "objective", thing))
            continue
        made = as_objective(thing)
        about: Keywords = {"class_name": type(made).__name__, "description": _first_sentence(thing), "paper": ""}
        about |= {"arguments": {}, "exact_with": ""}
        exact, estimator = made.exact_hessian, made.estimator
        found.append(Entry(name=name, kind="objective", exact_hessian=exact, estimator=estimator, **about))
    return found


def _entry(name: str, kind: str, cls: Any) -> Entry:
    exact: bool | str
    estimator: bool | str
    if kind == "wrapper":
        exact, estimator, exact_with = INSIDE, INSIDE, ""
        sure, unsure = cls(ApproxNDCG(curvature="exact")), cls(ApproxNDCG())
        if sure.exact_hessian == unsure.exact_hessian:  # it does not ask what is inside
            exact = sure.exact_hessian
        if unsure.estimator:  # though what is inside is none
            estimator = True
    else:
        plain = cls()
        exact, estimator = plain.exact_hessian, plain.estimator
        exact_with = "" if exact else next(_exact_settings(plain), "")
    return Entry(
        name=name,
        kind=kind,
        class_name=cls.__name__,
        description=_first_sentence(cls),
        paper=cls.paper,
        arguments={item.name: item.default for item in dataclasses.fields(cls) if item.name != "inner"},
        exact_hessian=exact,
        exact_with=exact_with,
        estimator=estimator,
    )


def _exact_settings(plain: Any) -> Iterator[str]:
    """Try single settings: switches the other way round, and the curvatures that leave the Hessian alone."""
    for item in dataclasses.fields(plain):
        value = getattr(plain, item.name)
        others = (not value,) if isinstance(value, bool) else ("exact", "estimated") if item.name == "curvature" else ()
        for other in others:
            try:
                changed = dataclasses.replace(plain, **{item.name: other})
            except ValueError:  # not a word that this objective knows
                continue
            if changed.exact_hessian:
                yield f"{item.name}={grammar.word(other)}"


def _first_sentence(cls: Any) -> str:
    """The docstring up to its first full stop, without citations: papers have a column of their own."""
    paragraph = " ".join((cls.__doc__ or "").split("\n\n")[0].split())
    without = re.sub(r" \((?:[^()]*\b\d{4}\b[^()]*|thesis[^()]*)\)", "", paragraph)
    return re.split(r"(?<=[.:])(?<!et al\.) (?=[A-Z\"“]|$)", without)[0].rstrip(".:").replace("``", "`")


def overview() -> str:
    """The Markdown table of README: what there is, in a line each."""
    rows = [(f"`{e.name}`", e.description, e.paper or "–", e.hessian()) for e in entries()]
    return _markdown(("name", "what it is", "paper", "Hessian"), rows)


def arguments() -> str:
    """The Markdown table of arguments and defaults."""
    rows = [
        (f"`{e.name}`", f"`{e.class_name}`", f"`{e.defaults()}`" if e.defaults() else "–", _yes(e.estimator))
        for e in entries()
    ]
    return _markdown(("name", "class", "arguments and defaults", "estimator"), rows)


def _yes(answer: bool | str) -> str:
    return answer if isinstance(answer, str) else "yes" if answer else "no"


def _markdown(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [header, ("---",) * len(header), *(tuple(cell.replace("|", r"\|") for cell in row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


TABLES: dict[str, Callable[[], str]] = {"objectives": overview, "arguments": arguments}
"""The generated tables, by the name in their markers: ``<!-- objectives:begin -->`` … ``<!-- objectives:end -->``."""


def rewritten(text: str, name: str = "the text") -> str:
    """Give ``text`` with every table between markers made anew; markers that do not pair up are an error."""
    found = 0
    for table, make in TABLES.items():
        begin, end = f"<!-- {table}:begin -->", f"<!-- {table}:end -->"
        if text.count(begin) != text.count(end):
            raise check.error(
                f"{name} must have {end} for every {begin}", got=f"{text.count(begin)} and {text.count(end)}"
            )
        parts = re.split(f"({re.escape(begin)}.*?{re.escape(end)})", text, flags=re.DOTALL)
        parts[1::2] = [f"{begin}\n\n{make()}\n\n{end}"] * (len(parts) // 2)
        found += len(parts) // 2
        text = "".join(parts)
    if not found:
        raise check.error(f"{name} has no place for a table", hint="write <!-- objectives:begin --> and …:end -->")
    return text


def main(paths: list[str]) -> None:
    """Rewrite the tables in files."""
    for path in map(Path, paths):
        text = rewritten(path.read_text(encoding="utf-8"), str(path))
        with replacing(path, force=True) as new:
            new.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
