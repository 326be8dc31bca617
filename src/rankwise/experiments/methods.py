"""Methods as expressions: a ranker, what it optimises and its settings, ``lightgbm(xendcg, leaves=400)``."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rankwise import check, grammar, registry, user_code
from rankwise.arrays import Keywords
from rankwise.objectives.base import Objective
from rankwise.objectives.table import makers, native
from rankwise.objectives.table import objective as find_objective
from rankwise.rankers.at_once import OF_ANY, OF_TRAINING, trains_at_once
from rankwise.rankers.ensembles.bagged import bagged
from rankwise.rankers.ensembles.blended import blended
from rankwise.rankers.table import RANKERS, built, ranker_class
from rankwise.rankers.trees.protocol import USUAL

PROTOCOL: Keywords = {"leaves": USUAL.leaves, "min_documents": USUAL.min_documents, "smoothing": USUAL.smoothing}
"""What rankers of an experiment have unless its settings say otherwise: the same for data of every size, and no part of
a trial's digest."""


@dataclass(frozen=True)
class Method:
    """A ranker by name, the expression of its objective, and the settings that its own expression names."""

    ranker: str
    objective: str
    settings: Mapping[str, object]
    bag: Mapping[str, int] | None = field(default=None, repr=False)
    """Folds and repeats of a bag of such rankers, or of a blend; None for a single one."""
    members: "tuple[Method | str | int, ...]" = field(default=(), repr=False)
    """What a blend is made of: methods, and features by name or number."""

    @property
    def rankers(self) -> tuple[str, ...]:
        """The names of the rankers that it trains."""
        found = (one.ranker for one in self.members if isinstance(one, Method))
        return tuple(dict.fromkeys(found)) if self.members else (self.ranker,)

    def build(self, settings: Mapping[str, object], defaults: Mapping[str, object]) -> Any:
        """Make the ranker; of ``defaults`` (seed, threads, …) it takes those that it has.

        Settings of a blend are those of its members: ``rankers`` lists them, and ``rounds`` is of all.
        """
        if self.members:
            return self._blend(settings, defaults)
        known = ranker_class(self.ranker).own_parameters()
        own = {name: value for name, value in defaults.items() if name in known}
        own |= {"objective": self.objective} if self.objective else {}
        return self.in_bag(built(self.ranker, own | dict(settings)), defaults)

    def _blend(self, settings: Mapping[str, Any], defaults: Mapping[str, object]) -> blended:
        listed = settings.get("rankers", [one.settings if isinstance(one, Method) else {} for one in self.members])
        made: list[Any] = []
        for one, own in zip(self.members, listed, strict=True):
            if not isinstance(one, Method):
                made.append(one)
                continue
            rounds = {ranker_class(one.ranker).unit: settings["rounds"]} if "rounds" in settings else {}
            made.append(one.build(own | rounds, defaults))
        about = {name: defaults[name] for name in ("seed", "metrics") if name in defaults}
        bag = self.bag or {}
        return blended(made, bag["folds"], repeats=bag["repeats"], **about)  # type: ignore[arg-type]

    def in_bag(self, ranker: Any, defaults: Mapping[str, object]) -> Any:
        """Return the ranker, or the bag of such rankers where the method is one."""
        made = ranker if self.bag is None else bagged(ranker, self.bag["folds"], repeats=self.bag["repeats"])
        if not trains_at_once(ranker):
            return made
        return made._configure(
            **{name: value for name, value in defaults.items() if name in OF_ANY or name in OF_TRAINING}
        )

    def code(self) -> dict[str, str]:
        """Digests of the user's code that it trains with."""
        if self.members:
            found = [one.code() for one in self.members if isinstance(one, Method)]
            return {name: digest for one in found for name, digest in one.items()}
        own = self.objective and native(self.objective) is None
        return user_code.digests(ranker_class(self.ranker), find_objective(self.objective) if own else None)


def method(text: str) -> Method:
    """Read a method.

    >>> method("lightgbm(stochastic(lambdarank, scale=0.25), leaves=400)")
    Method(ranker='lightgbm', objective='stochastic(lambdarank, scale=0.25)', settings={'leaves': 400})
    >>> method("xgboost(native:rank:ndcg)").objective
    'native:rank:ndcg'
    >>> method("bagged(lightgbm(xendcg), folds=5)").bag
    {'folds': 5, 'repeats': 1}
    >>> method("blended(lightgbm(xendcg), neural(softmax_ce), column(0), folds=3)").objective
    'blended(lightgbm(xendcg), neural(softmax_ce), column 0)'
    >>> method("lightgmb(xendcg)")
    Traceback (most recent call last):
    ValueError: unknown ranker or objective: got 'lightgmb' at character 1 of 'lightgmb(xendcg)'. Hint: did you mean
    'lightgbm'.
    """
    rankers: dict[str, Callable[..., Any]] = {name: functools.partial(_made, name) for name in RANKERS}
    rankers |= {name: functools.partial(_own, name, cls) for name, cls in registry.of("ranker").items()}
    rankers |= {"bagged": _bagged, "blended": _blended, "column": _column}
    made = grammar.parse(text, rankers | makers(), "ranker or objective", otherwise=registry.HINT)
    if isinstance(made, _Column):
        raise check.error("a feature is a member of a blend", got=repr(text), hint="write blended(lightgbm, column(0))")
    return made if isinstance(made, Method) else _made("lightgbm", made)


def _made(ranker: str, /, objective: Objective | str = "lambdarank", **settings: Any) -> Method:
    return Method(
        ranker, str(objective) if native(objective) is not None else repr(find_objective(objective)), settings
    )


def _own(ranker: str, cls: type[Any], /, *objective: Objective | str, **settings: Any) -> Method:
    """A ranker of one's own, which may have no objective."""
    usual = cls.own_parameters().get("objective")
    if usual is None and objective:
        raise check.error(f"{ranker} has no parameter objective", got=repr(objective[0]), hint="name its parameters")
    return _made(ranker, *(objective or (usual,)), **settings) if usual is not None else Method(ranker, "", settings)


def _bagged(ranker: Method | Objective | str = "lambdarank", /, folds: int = 5, *, repeats: int = 1) -> Method:
    made = ranker if isinstance(ranker, Method) else _made("lightgbm", ranker)
    if made.bag is not None or made.members or made.ranker == "factorization":
        raise check.error("a bag is made of rankers of trees or nets", got="factorization" if not made.bag else "a bag")
    least = {"folds": check.integer("folds", folds, least=2), "repeats": check.integer("repeats", repeats, least=1)}
    return replace(made, bag=least)


@dataclass(frozen=True)
class _Column:
    """A feature in the expression of a blend."""

    feature: str | int


def _column(feature: str | int) -> _Column:
    return _Column(feature)


def _blended(*rankers: Method | Objective | _Column | str, folds: int = 5, repeats: int = 1) -> Method:
    found: list[Method | str | int] = []
    for one in rankers:
        made = one if isinstance(one, Method | _Column) else _made("lightgbm", one)
        if isinstance(made, Method) and (made.members or made.ranker == "factorization"):
            got = "a blend" if made.members else made.ranker
            raise check.error("a blend is made of rankers of trees or nets, bags of them, and features", got=got)
        if isinstance(made, Method) and made.bag is not None and made.bag["folds"] != folds:
            got = f"folds={made.bag['folds']} and folds={folds}"
            raise check.error("bags of a blend must have its folds", got=got, hint="set the same folds")
        found.append(made.feature if isinstance(made, _Column) else made)
    if not found:
        raise check.error("a blend needs rankers", got="blended", hint="write blended(lightgbm(xendcg), neural)")
    least = {"folds": check.integer("folds", folds, least=2), "repeats": check.integer("repeats", repeats, least=1)}
    titles = [_title(one) for one in found]
    return Method("blended", f"blended({', '.join(titles)})", {}, least, tuple(found))


def _title(one: Method | str | int) -> str:
    if isinstance(one, Method):
        return f"{one.ranker}({one.objective})" if one.objective else one.ranker
    return one if isinstance(one, str) else f"column {one}"
