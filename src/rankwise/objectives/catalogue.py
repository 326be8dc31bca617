"""Listings of all objectives and wrappers, for the command line and docs.

Names come from the table of objectives, everything else from the classes: fields are arguments, the docstring's first
sentence is the description, and flags are attributes of objects.
"""

import dataclasses
import functools
import re
from typing import Any

from rankwise.base.arrays import Keywords
from rankwise.base.tables import Table
from rankwise.language import grammar, registry
from rankwise.objectives.function_objective import Adapted
from rankwise.objectives.smooth.objectives import ApproxNDCG
from rankwise.objectives.table import OBJECTIVES, WRAPPERS

_REQUIRED = dataclasses.MISSING  # the default of an argument that has none
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
    """Arguments and their defaults; those that must be given, as the objective inside a wrapper, are not among them."""
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
    return [_entry(name, cls) for name, cls in {**OBJECTIVES, **WRAPPERS}.items()]


def every() -> list[ListingEntry]:
    """Return all, with the objectives that users have registered."""
    return [*entries(), *(_entry(name, thing) for name, thing in registry.of("objective").items())]


def table() -> Table:
    """Return a table of all, with those that users have registered."""
    rows = tuple((one.name, one.description, one.paper, one.hessian(), one.defaults()) for one in every())
    notes = (
        "Wrappers go around any objective, bounded around metrics: stochastic(xendcg, samples=8, scale=0.25).",
        "Sums: 0.7*xendcg + 0.3*approx_ndcg.",
    )
    return Table(header=("name", "what it is", "paper", "Hessian", "arguments"), rows=rows, align="lllll", notes=notes)


def _entry(name: str, thing: Any) -> ListingEntry:
    """Return the entry of a class, or of a function."""
    is_class = isinstance(thing, type)
    make: Any = thing if is_class else functools.partial(Adapted, thing)
    fields = dataclasses.fields(thing) if is_class else ()
    wraps = any(item.name == "inner" for item in fields)
    exact: bool | str
    estimator: bool | str
    exact_with = ""
    if wraps:
        required = {item.name: item.name for item in fields if item.name != "inner" and item.default is _REQUIRED}
        make = functools.partial(thing, **required)
        # A flag that is the same whatever is inside is its own.
        sure, unsure = make(inner=ApproxNDCG(curvature="exact")), make(inner=ApproxNDCG())
        exact = sure.exact_hessian if sure.exact_hessian == unsure.exact_hessian else INSIDE
        estimator = unsure.estimator or INSIDE
    else:
        plain = make()
        exact, estimator = plain.exact_hessian, plain.estimator
        exact_with = "" if exact else plain.exact_with
    return ListingEntry(
        name=name,
        kind="wrapper" if wraps else "objective",
        class_name=thing.__name__ if is_class else Adapted.__name__,
        description=_first_sentence(thing),
        paper=getattr(thing, "paper", ""),
        arguments={item.name: item.default for item in fields if item.default is not _REQUIRED},
        exact_hessian=exact,
        exact_with=exact_with,
        estimator=estimator,
    )


def _first_sentence(cls: Any) -> str:
    """Return the docstring up to its first full stop, without citations: papers have a column of their own."""
    paragraph = " ".join((cls.__doc__ or "").split("\n\n")[0].split())
    without = re.sub(r" \((?:[^()]*\b\d{4}\b[^()]*|thesis[^()]*)\)", "", paragraph)
    return re.split(r"(?<=[.:])(?<!et al\.) (?=[A-Z\"“]|$)", without)[0].rstrip(".:").replace("``", "`")
