"""Listings of all objectives and wrappers, for the command line and docs.

Names come from the table of objectives, everything else from the classes: fields are arguments, the docstring's first
sentence is the description, and flags are attributes of objects. ``python -m rankwise.objectives.listing
docs/objectives.md`` rewrites the tables between markers there.
"""

import dataclasses
import functools
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rankwise import check, grammar, registry
from rankwise.arrays import Keywords
from rankwise.files import replacing
from rankwise.objectives.adapted import Adapted
from rankwise.objectives.smooth.objectives import ApproxNDCG
from rankwise.objectives.table import OBJECTIVES, WRAPPERS

INSIDE = "as inside"
"""The value of a wrapper's flag that is that of the objective inside."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ListingEntry:
    """One objective or wrapper."""

    name: str
    """Its name in expressions: ``rw.objective(name)``."""
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
        """Return in words how exact the Hessian is."""
        if isinstance(self.exact_hessian, str):
            return self.exact_hessian
        word = "unbiased" if self.estimator else "exact"
        if self.exact_hessian:
            return word
        return f"{word} with {self.exact_with}" if self.exact_with else f"not {word}"

    def defaults(self) -> str:
        """Return arguments and defaults as in an expression."""
        return ", ".join(f"{name}={grammar.word(value)}" for name, value in self.arguments.items())


def entries() -> list[ListingEntry]:
    """Return every objective, then every wrapper, in the order of the table.

    >>> for entry in entries()[:2]:
    ...     print(f"{entry.name:10}  {entry.paper:17}  {entry.hessian()}  {entry.defaults()}")
    listnet     Bruch 2021         exact  newton=neumann, epsilon=0.0
    softmax_ce  Bruch et al. 2019  exact  newton=neumann, epsilon=0.0
    """
    return [_entry(name, cls) for name, cls in (OBJECTIVES | WRAPPERS).items()]


def registered() -> list[ListingEntry]:
    """Return the objectives that users have registered."""
    return [_entry(name, thing) for name, thing in registry.of("objective").items()]


def _entry(name: str, thing: Any) -> ListingEntry:
    """Return the entry of a class, or of a function."""
    cls: Any = thing if isinstance(thing, type) else functools.partial(Adapted, thing)
    fields = dataclasses.fields(thing) if isinstance(thing, type) else ()
    wraps = any(item.name == "inner" for item in fields)
    exact: bool | str
    estimator: bool | str
    exact_with = ""
    if wraps:
        exact, estimator = INSIDE, INSIDE
        sure, unsure = cls(ApproxNDCG(curvature="exact")), cls(ApproxNDCG())
        if sure.exact_hessian == unsure.exact_hessian:  # it does not depend on the objective inside
            exact = sure.exact_hessian
        if unsure.estimator:  # though the objective inside is none
            estimator = True
    else:
        plain = cls()
        exact, estimator = plain.exact_hessian, plain.estimator
        exact_with = "" if exact else next(_exact_settings(plain), "")
    return ListingEntry(
        name=name,
        kind="wrapper" if wraps else "objective",
        class_name=thing.__name__ if isinstance(thing, type) else Adapted.__name__,
        description=_first_sentence(thing),
        paper=getattr(thing, "paper", ""),
        arguments={item.name: item.default for item in fields if item.name != "inner"},
        exact_hessian=exact,
        exact_with=exact_with,
        estimator=estimator,
    )


def _exact_settings(plain: Any) -> Iterator[str]:
    """Yield single settings that make the Hessian exact: switches flipped, and curvatures that do not replace it."""
    for item in dataclasses.fields(plain):
        value = getattr(plain, item.name)
        alternatives = (
            (not value,) if isinstance(value, bool) else ("exact", "estimated") if item.name == "curvature" else ()
        )
        for other in alternatives:
            try:
                changed = dataclasses.replace(plain, **{item.name: other})
            except ValueError:  # not a value of this objective
                continue
            if changed.exact_hessian:
                yield f"{item.name}={grammar.word(other)}"


def _first_sentence(cls: Any) -> str:
    """Return the docstring up to its first full stop, without citations: papers have a column of their own."""
    paragraph = " ".join((cls.__doc__ or "").split("\n\n")[0].split())
    without = re.sub(r" \((?:[^()]*\b\d{4}\b[^()]*|thesis[^()]*)\)", "", paragraph)
    return re.split(r"(?<=[.:])(?<!et al\.) (?=[A-Z\"“]|$)", without)[0].rstrip(".:").replace("``", "`")


def overview() -> str:
    """Return the Markdown table of the guide, one line for each objective and wrapper."""
    rows = [(f"`{e.name}`", e.description, e.paper or "–", e.hessian()) for e in entries()]
    return _markdown(("name", "what it is", "paper", "Hessian"), rows)


def arguments() -> str:
    """Return the Markdown table of arguments and defaults."""
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
    """Return ``text`` with every table between markers rewritten; unpaired markers are an error."""
    n_tables = 0
    for table, make in TABLES.items():
        begin, end = f"<!-- {table}:begin -->", f"<!-- {table}:end -->"
        if text.count(begin) != text.count(end):
            raise check.error(
                f"{name} must have {end} for every {begin}", got=f"{text.count(begin)} and {text.count(end)}"
            )
        parts = re.split(f"({re.escape(begin)}.*?{re.escape(end)})", text, flags=re.DOTALL)
        parts[1::2] = [f"{begin}\n\n{make()}\n\n{end}"] * (len(parts) // 2)
        n_tables += len(parts) // 2
        text = "".join(parts)
    if not n_tables:
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
