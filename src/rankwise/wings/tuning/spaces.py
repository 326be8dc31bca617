"""Search spaces: ranges of parameters, and the spaces of each ranker and objective.

A range is an expression as well as an object: ``log(0.02, 0.2)``, ``whole(7, 63)``, ``whole_log(10, 200)``,
``uniform(0.3, 1)``, ``choice(True, False)``; ``start=`` sets the value of the first trial. A parameter of the objective
is called by its part: ``lambdarank.sigma``, ``stochastic.scale``; the weight of a term in a sum by the label of its
goal or by its name: ``weight.purchase``, ``weight.lambdarank``. Where every layer of a net has a size of its own,
``hidden.layers`` is how many there are and ``hidden.1``, ``hidden.2`` … are their sizes.
"""

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from rankwise import Objective, check
from rankwise.base.arrays import Keywords
from rankwise.check.parameters import declared, searched
from rankwise.language import grammar
from rankwise.objectives.wrappers import Sum, labels_learned
from rankwise.rankers.table import ranker_class

if TYPE_CHECKING:
    from optuna import Trial


@dataclass(frozen=True)
class Range:
    """Numbers between two ends, both included."""

    low: float
    high: float
    log: bool = False
    whole: bool = False
    start: float | None = None

    def __post_init__(self) -> None:
        kind = int if self.whole else float
        for name in ("low", "high", "start"):
            value = getattr(self, name)
            if value is not None:
                checked = check.number(f"the {name} of a range", value)
                if not math.isfinite(checked) or kind(checked) != checked:
                    what = f"the {name} of a range must be {'a whole number' if self.whole else 'finite'}"
                    raise check.error(what, got=repr(value))
                object.__setattr__(self, name, kind(checked))
        if not self.low < self.high or (self.log and self.low <= 0):
            least = " and above 0" if self.log else ""
            raise check.error(f"the ends of a range must be in ascending order{least}", got=f"{self.low}, {self.high}")
        if self.start is not None and not self.holds(self.start):
            raise check.error("the start of a range must lie inside it", got=f"{self.start} for {self}")

    def holds(self, value: Any) -> bool:
        """Whether a value may come from here."""
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        return bool(fits and self.low <= value <= self.high and (not self.whole or int(value) == value))

    def suggest(self, trial: "Trial", name: str) -> float | int:
        """Return the value that a trial suggests."""
        if self.whole:
            return int(trial.suggest_int(name, int(self.low), int(self.high), log=self.log))
        return float(trial.suggest_float(name, self.low, self.high, log=self.log))

    def expression(self) -> str:
        """The range without its start."""
        name = {(0, 0): "uniform", (1, 0): "log", (0, 1): "whole", (1, 1): "whole_log"}[self.log, self.whole]
        return f"{name}({self.low!r}, {self.high!r})"

    def ends(self) -> tuple[float, ...]:
        """The least and the largest value."""
        return self.low, self.high

    def middle(self) -> float:
        """The middle of the range, on its own scale."""
        return math.sqrt(self.low * self.high) if self.log else (self.low + self.high) / 2.0

    def __str__(self) -> str:
        return _started(self.expression(), self.start)


@dataclass(frozen=True, init=False)
class Choice:
    """One of several words, numbers or truths."""

    values: tuple[str | float, ...]
    start: str | float | None = None

    def __init__(self, *values: object, start: object = None) -> None:
        for value in values:
            if not isinstance(value, str | int | float | bool):
                raise check.error("a choice is between words, numbers or truths", got=repr(value))
        if len(values) < 2:
            raise check.error("a choice needs at least two values", got=repr(values))
        if start is not None and start not in values:
            raise check.error("the start of a choice must be one of its values", got=repr(start))
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "start", start)

    def holds(self, value: object) -> bool:
        """Whether a value may come from here."""
        return value in self.values

    def suggest(self, trial: "Trial", name: str) -> object:
        """Return the value that a trial suggests."""
        return trial.suggest_categorical(name, self.values)

    def expression(self) -> str:
        """The choice without its start."""
        return f"choice({', '.join(map(repr, self.values))})"

    def ends(self) -> tuple[str | float, ...]:
        """All values."""
        return self.values

    def __str__(self) -> str:
        return _started(self.expression(), self.start)


Dimension = Range | Choice
WEIGHT = "weight"
"""What names of weights of terms in a sum begin with."""
_LAYERS = "hidden."
_DEPTH, _SIZE = f"{_LAYERS}layers", re.compile(re.escape(_LAYERS) + "[1-9][0-9]*")


def _started(text: str, start: object) -> str:
    return text if start is None else f"{text[:-1]}, start={start!r})"


_MAKERS: dict[str, Callable[..., Dimension]] = {
    "uniform": lambda low, high, start=None: Range(low, high, start=start),
    "log": lambda low, high, start=None: Range(low, high, log=True, start=start),
    "whole": lambda low, high, start=None: Range(low, high, whole=True, start=start),
    "whole_log": lambda low, high, start=None: Range(low, high, log=True, whole=True, start=start),
    "choice": Choice,
}
"""``log`` ranges are searched as finely at their small end as at the large one."""
DimensionLike = Dimension | str | Sequence[object]
"""A dimension, its expression, or the values to choose from."""


def dimension(value: DimensionLike) -> Dimension:
    """Read a range: its expression, a list of values to choose from, or a range itself.

    >>> print(dimension("log(0.02, 0.2)"), dimension([True, False]))
    log(0.02, 0.2) choice(True, False)
    """
    if isinstance(value, Range | Choice):
        return value
    if isinstance(value, list | tuple):
        return Choice(*value)
    return cast("Dimension", grammar.parse(cast("str", value), _MAKERS, "range"))


# Spaces of papers, by ranker; that of a ranker itself, ``default``, is what its parameters declare, and its
# ``search_space``. A plain value is fixed.
PAPERS: dict[str, dict[str, Keywords]] = {
    # Kang et al. 2024, as in the code that they published: XGBoost's parameters, their likes in LightGBM, and nets of
    # one to four layers.
    "kang2024": {
        "xgboost": {
            "learning_rate": "log(1e-3, 1e-2)",
            "max_depth": "whole(3, 8)",
            "min_child_weight": "whole(2, 10)",
            "gamma": "log(1e-8, 1.0)",
            "reg_lambda": "log(1e-8, 1.0)",
            "reg_alpha": "log(1e-8, 1.0)",
            "leaves": 256,
            "rounds": 200,
            "patience": 20,
        },
        "lightgbm": {
            "learning_rate": "log(1e-3, 1e-2)",
            "max_depth": "whole(3, 8)",
            "min_sum_hessian_in_leaf": "whole(2, 10)",
            "min_gain_to_split": "log(1e-8, 1.0)",
            "lambda_l2": "log(1e-8, 1.0)",
            "lambda_l1": "log(1e-8, 1.0)",
            "leaves": 256,
            "min_documents": 1,
            "rounds": 200,
            "patience": 20,
        },
        "neural": {
            "preset": "2024",
            "hidden.layers": "whole(1, 4)",
            **{f"hidden.{layer}": "whole(4, 128)" for layer in range(1, 5)},
            "optimizer": "choice('adam', 'sgd')",
            "learning_rate": "log(1e-4, 1e-1)",
            "batch_queries": "choice(64, 128, 256, 512)",
            "epochs": 200,
            "patience": 20,
        },
    },
}

SPACES = ("default", *PAPERS, "none")


def named(space: str, ranker: str, objective: Objective | str | None) -> tuple[dict[str, Dimension], Keywords]:
    """Return a named space of a ranker and an objective: ranges, and fixed parameters.

    The papers' spaces leave the objective as it is. The default one searches those of its parameters that have their
    default values.
    """
    if check.choice("space", space, SPACES) == "none":
        return {}, {}
    if space == "default":
        cls = ranker_class(ranker)
        ranges: Keywords = searched(cls) | dict(cls.search_space)
        if isinstance(objective, str):
            ranges |= cls.native_search_space.get(objective, {})
    else:
        ranges = PAPERS[space][check.choice(f"ranker of the space {space}", ranker, PAPERS[space])]
    fixed: Keywords = {}
    search: dict[str, Dimension] = {}
    for name, value in ranges.items():
        if isinstance(value, int | float) or (isinstance(value, str) and "(" not in value):
            fixed[name] = value
        else:
            search[name] = dimension(value)
    if space == "default":
        for part, node in parts(objective):
            for name, default_range in searched(type(node)).items():
                if getattr(node, name) == declared(type(node))[name].default:
                    search[f"{part}.{name}"] = dimension(default_range)
    return search, fixed


def suggest(ranges: Mapping[str, Dimension], trial: "Trial") -> Keywords:
    """Return the suggested value of every range; of layers, those that there are."""
    depth = ranges[_DEPTH].suggest(trial, _DEPTH) if _DEPTH in ranges else 0
    absent = [name for name in _sizes(ranges) if int(name.removeprefix(_LAYERS)) > cast("int", depth)]
    return {
        name: depth if name == _DEPTH else one.suggest(trial, name)
        for name, one in ranges.items()
        if name not in absent
    }


def layers_of(space: Mapping[str, Dimension]) -> list[str]:
    """Return the names of a space that describe the layers of a net; every layer that there may be has a size.

    >>> layers_of({"hidden.layers": dimension("whole(1, 2)"), "hidden.1": dimension("whole(4, 128)")})
    Traceback (most recent call last):
    rankwise.errors.InputError: every layer of a net needs a range of sizes: got hidden.1 for hidden.layers=whole(1, 2).
    Hint: add ranges called hidden.1, hidden.2, …, one for each layer that there may be.
    """
    sizes, depth = _sizes(space), space.get(_DEPTH)
    most = int(depth.high) if isinstance(depth, Range) and depth.whole else 0
    if sizes != [f"{_LAYERS}{layer}" for layer in range(1, most + 1)]:
        raise check.error(
            "every layer of a net needs a range of sizes",
            got=f"{', '.join(sizes) or 'none'} for {_DEPTH}={depth}",
            hint=f"add ranges called {_LAYERS}1, {_LAYERS}2, …, one for each layer that there may be",
        )
    return [_DEPTH, *sizes] if sizes else []


def _sizes(space: Iterable[str]) -> list[str]:
    """Return the names of the sizes of layers, from the first layer on."""
    layers = sorted(int(name.removeprefix(_LAYERS)) for name in space if _SIZE.fullmatch(name))
    return [f"{_LAYERS}{layer}" for layer in layers]


def assembled(values: Mapping[str, object]) -> Keywords:
    """Return the values as arguments of a ranker: the layers of a net are one.

    >>> assembled({"hidden.layers": 2, "hidden.1": 64, "hidden.2": 7, "learning_rate": 0.1})
    {'learning_rate': 0.1, 'hidden': '64-7'}
    """
    sizes = _sizes(values)
    arguments = {name: value for name, value in values.items() if name not in (_DEPTH, *sizes)}
    if sizes:
        arguments["hidden"] = "-".join(str(values[name]) for name in sizes)
    return arguments


def parts(objective: Objective | str | None) -> Iterator[tuple[str, Objective]]:
    """Yield every part of an objective that has parameters, the outermost first, with its name."""
    if isinstance(objective, Sum):
        for _, term in objective.terms:
            yield from parts(term)
    elif isinstance(objective, Objective):
        yield objective.name, objective
        yield from parts(getattr(objective, "inner", None))


def weights(objective: Objective | str | None) -> dict[str, float]:
    """Return the weights of the terms of sums, by the names that searches have for them.

    A term is called by the label of its goal, else by its own name, or by its number where several are called alike.

    >>> import rankwise as rw
    >>> weights(rw.objective("lambdarank + 0.7*on(purchase, xendcg)"))
    {'weight.lambdarank': 1.0, 'weight.purchase': 0.7}
    >>> weights(rw.objective("lambdarank + 0.1*lambdarank(truncation=5)"))
    {'weight.1': 1.0, 'weight.2': 0.1}
    """
    if isinstance(objective, Sum):
        inside = [found for _, term in objective.terms for found in weights(term).items()]
        return dict(inside) | dict(zip(_term_names(objective), (factor for factor, _ in objective.terms), strict=True))
    return weights(getattr(objective, "inner", None)) if isinstance(objective, Objective) else {}


def _term_names(objective: Sum) -> list[str]:
    learned = [labels_learned(term) for term in objective.children]
    labels = [next(iter(names)) if len(names) == 1 else None for names in learned]
    names = [label or term.name for label, term in zip(labels, objective.children, strict=True)]
    return [f"{WEIGHT}.{name if names.count(name) == 1 else number}" for number, name in enumerate(names, 1)]


def changed(objective: object, values: Mapping[str, Any]) -> Any:
    """Return the objective with some parameters of its parts replaced.

    >>> import rankwise as rw
    >>> changed(rw.objective("stochastic(lambdarank)"), {"stochastic.scale": 0.25, "lambdarank.sigma": 2.0})
    stochastic(lambdarank(sigma=2.0), scale=0.25)
    >>> changed(rw.objective("xendcg + 0.7*on(purchase, xendcg)"), {"weight.purchase": 0.2})
    xendcg + 0.2*on(purchase, xendcg)
    """
    if isinstance(objective, Sum):
        named = zip(_term_names(objective), objective.terms, strict=True)
        terms = tuple((values.get(name, factor), changed(term, values)) for name, (factor, term) in named)
        return dataclasses.replace(objective, terms=terms)
    if not values or not isinstance(objective, Objective):
        return objective
    part = objective.name
    changes: Keywords = {
        name.removeprefix(f"{part}."): value for name, value in values.items() if name.startswith(f"{part}.")
    }
    if hasattr(objective, "inner"):
        changes["inner"] = changed(objective.inner, values)
    return dataclasses.replace(objective, **changes)
