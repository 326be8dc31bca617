"""Which recipes are tried, in which order: good ones and cheap ones first, and soon one of another kind.

Every ranker states its recipes and their places in the order: ``Ranker.portfolio``.
"""

from collections.abc import Sequence

from rankwise import check
from rankwise.arrays import Keywords
from rankwise.rankers.base import Ranker
from rankwise.rankers.table import RANKERS, installed, ranker_class
from rankwise.rankers.trees import monotone
from rankwise.rankers.trees.ranker import TreeRanker
from rankwise.statistics.verdict import listed

MIDDLE = 60_000
"""Documents from which trees may have more leaves, and need fewer tricks against noise."""
LARGE = 300_000
"""Documents from which these are tried alone."""


def portfolio(n_docs: int) -> tuple[list[Ranker], list[str]]:
    """Return the recipes for so many documents, in order, and a note of those whose library is not installed.

    >>> recipes, _ = portfolio(1000)
    >>> recipes[0].name, recipes[0].objective, recipes[0].leaves
    ('lightgbm', 'xendcg', 15)
    """
    size = "large" if n_docs >= LARGE else "middle" if n_docs >= MIDDLE else "small"
    places = {
        place: (name, recipe.objective, recipe.settings)
        for name in RANKERS
        for recipe in ranker_class(name).portfolio
        for place in getattr(recipe, size)
    }
    return installed_ones([places[place] for place in sorted(places)])


def installed_ones(recipes: Sequence[tuple[str, str, Keywords]]) -> tuple[list[Ranker], list[str]]:
    """Return the rankers, from name, objective and settings, whose libraries are installed, and a note of the rest."""
    found: list[Ranker] = []
    missing: list[str] = []
    for library, objective, settings in recipes:
        if library in missing:
            continue
        try:
            installed(library)
        except check.MissingExtraError:
            missing.append(library)
        else:
            found.append(ranker_class(library)(objective, **settings))
    extras = ",".join(sorted(ranker_class(name).extra for name in missing))
    left_out = f"Left out: recipes of {listed(missing)}, not installed; pip install 'rankwise[{extras}]' adds them."
    return found, [left_out] if missing else []


def constrained(recipes: Sequence[Ranker], constraints: object, *, strict: bool) -> tuple[list[Ranker], list[str]]:
    """Return the recipes of trees with monotone constraints, and a note of the others, or an error where ``strict``.

    >>> import rankwise as rw
    >>> found, notes = constrained([rw.LightGBMRanker("xendcg"), rw.NeuralRanker()], {"price": -1}, strict=False)
    >>> found
    [LightGBMRanker(objective='xendcg', monotone_constraints={'price': -1})]
    >>> notes
    ['Left out: recipes of neural, which cannot keep monotone_constraints.']
    """
    found: list[Ranker] = []
    others: list[str] = []
    for number, one in enumerate(recipes):
        if isinstance(one, TreeRanker) and one.monotone_constraints is None:
            found.append(one.__sklearn_clone__().set_params(**{monotone.NAME: constraints}))
        elif strict:
            got = "constraints of its own" if isinstance(one, TreeRanker) else type(one).__name__
            hint = f"leave it out of recipes, or set {monotone.NAME} of each recipe of trees"
            where = f"recipe {number + 1}"
            raise check.error(
                f"a recipe cannot have the {monotone.NAME} of the search", got=got, where=where, hint=hint
            )
        else:
            others.append(one.name)
    kinds = listed(list(dict.fromkeys(others)))
    return found, [f"Left out: recipes of {kinds}, which cannot keep {monotone.NAME}."] if others else []


def names(recipes: Sequence[Ranker]) -> list[str]:
    """Call recipes by library and objective, and by those parameters in which two of the same differ.

    >>> import rankwise as rw
    >>> names([rw.LightGBMRanker("xendcg"), rw.LightGBMRanker("xendcg", leaves=7), rw.LightGBMRanker("ranknet")])
    ['lightgbm(xendcg)', 'lightgbm(xendcg, leaves=7)', 'lightgbm(ranknet)']
    """
    heads = [(one.name, one._objective_expression()) for one in recipes]
    found = []
    for number, (one, head) in enumerate(zip(recipes, heads, strict=True)):
        alike = [other.get_params() for other, its in zip(recipes, heads, strict=True) if its == head]
        own = one.get_params()
        differ = [name for name in own if any(other.get(name) != own[name] for other in alike)]
        differ = [name for name in differ if name != "objective" and own[name] is not None]
        name, before = one._title(*(f"{name}={own[name]}" for name in differ)), repeats(recipes)[number]
        found.append(f"{name} again" if before == 1 else f"{name} again, {before}" if before else name)
    return found


def repeats(recipes: Sequence[Ranker]) -> list[int]:
    """How often the same recipe came before each: it is trained with another seed, on the same folds."""
    known = [(one.name, one._objective_expression(), one.get_params(deep=False)) for one in recipes]
    return [known[:number].count(one) for number, one in enumerate(known)]
