"""What a blend may be made of, before it is trained: rankers, bags of them, and features."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from rankwise import check
from rankwise.arrays import Keywords
from rankwise.rankers.at_once import trains_at_once
from rankwise.rankers.base import Ranker
from rankwise.rankers.ensembles.bagged import bagged
from rankwise.rankers.nets.ranker import NeuralRanker
from rankwise.rankers.table import any_class
from rankwise.rankers.trees.ranker import TreeRanker

Member = Ranker | str | int
"""A ranker of trees or nets, or of one's own, a bag of them, or a feature by its name or number."""


def check_members(rankers: Any) -> None:
    """Refuse what is no list of members."""
    if isinstance(rankers, str | Ranker) or not isinstance(rankers, Iterable) or not list(rankers):
        hint = "pass several, such as rw.blended([rw.LightGBMRanker(), rw.NeuralRanker()])"
        raise check.error("a blend is made of a list of rankers", got=repr(rankers), hint=hint)
    for one in rankers:
        ranks = isinstance(one, TreeRanker | NeuralRanker | bagged) or trains_at_once(one)
        if not (ranks or isinstance(one, str | int)) or isinstance(one, bool):
            what = "a blend is made of rankers of trees or nets, or of one's own, bags of them, and features"
            got = f"the class {one.__name__}" if isinstance(one, type) else type(one).__name__
            hint = (
                "pass rankers that are not trained yet, such as rw.LightGBMRanker(), and names or numbers of features; "
                "derive your own from rw.Ranker"
            )
            raise check.error(what, got=got, hint=hint)


def titles(rankers: Sequence[Member]) -> tuple[str, ...]:
    """What members are called; those that are called alike are numbered.

    >>> titles(["price", 0, "price"])
    ('price #1', 'column 0', 'price #2')
    """
    plain = [_title(one) for one in rankers]
    counts, seen = Counter(plain), Counter[str]()
    found = []
    for title in plain:
        seen[title] += 1
        found.append(title if counts[title] == 1 else f"{title} #{seen[title]}")
    return tuple(found)


def _title(one: Member) -> str:
    if isinstance(one, int):
        return f"column {one}"
    if isinstance(one, str):
        return one
    return (one.ranker if isinstance(one, bagged) else one)._title()


def parameters(rankers: Sequence[Member]) -> Keywords:
    """The parameters of all rankers, as ``ranker_1__leaves``; features have none."""
    found = _by_name(rankers).items()
    return {f"{name}__{inner}": value for name, one in found for inner, value in one.get_params().items()}


def set_parameters(rankers: Sequence[Member], changes: Keywords) -> None:
    """Change parameters of rankers, named as :func:`parameters` names them."""
    found = _by_name(rankers)
    for name, value in changes.items():
        of, _, inner = name.partition("__")
        found[check.choice("ranker of the blend", of, found)].set_params(**{inner: value})


def _by_name(rankers: Sequence[Member]) -> dict[str, Ranker]:
    return {f"ranker_{number}": one for number, one in enumerate(rankers, 1) if isinstance(one, Ranker)}


def fresh(rankers: Sequence[Member]) -> list[Member]:
    """Give clones that are not trained."""
    return [one.__sklearn_clone__() if isinstance(one, Ranker) else one for one in rankers]


def described(one: Any, without: Collection[str] = ()) -> Any:
    """What files say of a member that is not trained; of a feature its name or number."""
    if not isinstance(one, Ranker):
        return one
    parameters = one._parameters(without)
    return {"ranker": one.name, "objective": one._objective_expression(), "parameters": parameters}


def read(one: Any) -> Any:
    """Take what :func:`described` gave."""
    return any_class(one["ranker"])._untrained(one) if isinstance(one, dict) else one
