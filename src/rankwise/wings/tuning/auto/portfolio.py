"""The portfolio: recipes in the order of trial, the default first, and soon one of each kind.

Every ranker states its recipes and their places in the order: ``Ranker.portfolio``.
"""

from collections.abc import Callable, Sequence

import numpy as np

from rankwise import Ranker, RankingDataset, check
from rankwise import objective as find_objective
from rankwise.base.arrays import Keywords
from rankwise.base.sparse import is_sparse
from rankwise.data.io import DiskDataset
from rankwise.objectives import on
from rankwise.objectives.table import native
from rankwise.objectives.wrappers import MORE_LABELS
from rankwise.rankers import expressions, monotone
from rankwise.rankers.table import RANKERS, installed, ranker_class
from rankwise.statistics import listed

MIDDLE = 60_000
"""Documents from which trees may have more leaves, and need fewer tricks against noise."""
LARGE = 300_000
"""Documents from which these are tried alone."""


def portfolio(n_docs: int) -> tuple[list[Ranker], list[str]]:
    """Return the recipes for so many documents, in order, and a note of those whose library is not installed.

    >>> recipes, _ = portfolio(1000)
    >>> recipes[0]
    lightgbm(lambdarank)
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
    rankers: list[Ranker] = []
    missing: list[str] = []
    for library, objective, settings in recipes:
        if library in missing:
            continue
        try:
            installed(library)
        except check.MissingExtraError:
            missing.append(library)
        else:
            rankers.append(ranker_class(library)(objective, **settings))
    extras = ",".join(sorted(ranker_class(name).extra for name in missing))
    left_out = f"Left out: recipes of {listed(missing)}, not installed; pip install 'rankwise[{extras}]' adds them."
    return rankers, [left_out] if missing else []


def _changed(
    recipes: Sequence[Ranker], change: Callable[[Ranker], Keywords | None], unable_to: str
) -> tuple[list[Ranker], list[str]]:
    """Return clones of the recipes with changed parameters, and a note of those for which there is no change."""
    changes = [(one, change(one)) for one in recipes]
    able = [one.__sklearn_clone__().set_params(**settings) for one, settings in changes if settings is not None]
    unable = [*dict.fromkeys(expressions.title_of(one) for one, settings in changes if settings is None)]
    return able, [f"Left out: {listed(unable)}, which {unable_to}."] if unable else []


def suited(
    recipes: Sequence[Ranker], data: RankingDataset, label: str | None, *, one_forest: bool
) -> tuple[list[Ranker], list[str]]:
    """Return the recipes as these data need them, and a note of those that they do not suit.

    The greatest label of this name is the probability 1 of calibrated losses. Trees with values within the query are
    left out where features are categories, sparse or on disk, or where ``one_forest`` is to become of all.

    >>> import rankwise as rw
    >>> data = rw.synthetic(n_queries=5, n_docs=5, seed=1)
    >>> recipes = [rw.LightGBMRanker("calibrated"), rw.LightGBMRanker("xendcg", transform="raw+query")]
    >>> able, notes = suited(recipes, data, None, one_forest=True)
    >>> able
    [lightgbm(calibrated(max_label=2))]
    >>> notes[0].split(", for")[0]
    'Left out: lightgbm(xendcg, transform=raw+query)'
    """
    labels = data.labels if label is None else data.labels_of(label)
    wide = [one for one in recipes if getattr(one, "transform", None) == "raw+query"]
    why = _no_values_within(data, one_forest=one_forest) if wide else ""
    titles = [expressions.title_of(one, "transform=raw+query") for one in wide]
    loss = f"calibrated(max_label={max(float(labels.max()), 1.0):g})"
    able = [
        one.set_params(objective=loss) if expressions.objective_of(one) == "calibrated" else one
        for one in recipes
        if not (why and one in wide)
    ]
    return able, [f"Left out: {listed([*dict.fromkeys(titles)])}, for {why}."] if why else []


def _no_values_within(data: RankingDataset, *, one_forest: bool) -> str:
    """Return why trees cannot have values within the query here; empty where they can."""
    if len(data.categorical) == data.n_features:
        return "categories have no values within the query"  # the same trees as the default's
    if one_forest:
        return "its trees see other columns than those of the one forest that prefer=fast makes"
    if is_sparse(data.features):
        return "values within the query would fill the zeros of sparse features"
    on_disk = isinstance(data, DiskDataset)
    return "values within the query are made in memory, and the features are on disk" if on_disk else ""


def check_varied(data: RankingDataset, label: str | None) -> None:
    """Raise an error where there are no two queries, to learn from and to judge by, whose labels differ within."""
    labels = data.labels if label is None else data.labels_of(label)
    firsts = np.repeat(labels[data.offsets[:-1]], data.sizes)
    query = np.repeat(np.arange(data.n_queries), data.sizes)
    count = np.unique(query[labels != firsts]).size
    if count < 2:
        what = "a search needs two queries at least that have documents of different labels"
        hint = "check the labels and the query ids"
        raise check.error(what, got=f"{count} of {data.n_queries} queries", hint=hint)


def learning(recipes: Sequence[Ranker], label: str) -> tuple[list[Ranker], list[str]]:
    """Return the recipes that learn from labels of this name, and a note of those that cannot.

    >>> import rankwise as rw
    >>> learning([rw.LightGBMRanker("xendcg"), rw.LightGBMRanker("native:lambdarank")], "purchase")
    ([lightgbm(on(purchase, xendcg))], ['Left out: lightgbm(native:lambdarank), which cannot learn from purchase.'])
    """

    def change(one: Ranker) -> Keywords | None:
        able = "objective" in one.own_parameters() and native(one.objective) is None
        return {"objective": on(label, find_objective(one.objective))} if able else None

    return _changed(recipes, change, f"cannot learn from {label}")


def learning_others(recipes: Sequence[Ranker], label: str) -> list[str]:
    """Return a note of the user's recipes that do not learn from the label that the metric measures."""
    others = [
        expressions.title_of(one)
        for one in recipes
        if "objective" in one.own_parameters()
        and (native(one.objective) is not None or f"{MORE_LABELS}{label}" not in find_objective(one.objective).reads)
    ]
    hint = f"on({label}, …) is an objective that does"
    return [f"The metric measures {label}, from which {listed(others)} did not learn: {hint}."] if others else []


def taking(recipes: Sequence[Ranker], data: RankingDataset) -> tuple[list[Ranker], list[str]]:
    """Return the recipes that take these data, and a note of the others; an error where none does.

    >>> import rankwise as rw
    >>> data = rw.RankingDataset([[0.0], [1.0]], [0, 1], [0, 2], categorical=[0])
    >>> taking([rw.LightGBMRanker("xendcg"), rw.NeuralRanker()], data)[0]
    [lightgbm(xendcg)]
    """
    able: list[Ranker] = []
    unable: dict[str, list[str]] = {}
    for one in recipes:
        try:
            one.check_data(data)
        except ValueError as why:
            unable.setdefault(str(why), []).append(expressions.title_of(one))
        else:
            able.append(one)
    if not able:
        with check.naming("no recipe takes these data"):
            for one in recipes:
                one.check_data(data)
    return able, [f"Left out: {listed([*dict.fromkeys(titles)])}: {why}" for why, titles in unable.items()]


def with_goals(recipes: Sequence[Ranker], goals: object) -> tuple[list[Ranker], list[str]]:
    """Return the recipes with goals as their constraints, and a note of those that take none.

    >>> import rankwise as rw
    >>> with_goals([rw.LightGBMRanker("xendcg"), rw.LightGBMRanker("native:lambdarank")], {"ap": 0.5})
    ([lightgbm(xendcg, constraints={ap: 0.5})], ['Left out: lightgbm(native:lambdarank), which takes no constraints.'])
    """

    def change(one: Ranker) -> Keywords | None:
        able = "constraints" in one.own_parameters() and native(one.objective) is None
        return {"constraints": goals} if able else None

    able, notes = _changed(recipes, change, "takes no constraints")
    if not able:
        got, hint = listed([*map(expressions.title_of, recipes)]), "train trees or nets with objectives of ours"
        raise check.error("no recipe takes constraints", got=got, hint=hint)
    return able, notes


def constrained(recipes: Sequence[Ranker], constraints: object, *, strict: bool) -> tuple[list[Ranker], list[str]]:
    """Return the recipes that take monotone constraints with them, and a note of the others; an error if ``strict``.

    >>> import rankwise as rw
    >>> able, notes = constrained([rw.LightGBMRanker("xendcg"), rw.NeuralRanker()], {"price": -1}, strict=False)
    >>> able
    [lightgbm(xendcg, monotone_constraints={price: -1})]
    >>> notes
    ['Left out: recipes of neural, which cannot keep monotone_constraints.']
    """
    taking = [one for one in recipes if hasattr(one, monotone.NAME)]  # trees and linear models
    able = [one for one in taking if getattr(one, monotone.NAME) is None]
    for number, one in enumerate(recipes, 1) if strict else ():
        if one not in able:
            got = "constraints of its own" if one in taking else type(one).__name__
            what, hint = f"a recipe cannot have the {monotone.NAME} of the search", "leave it out of recipes, or set "
            hint += f"{monotone.NAME} of each recipe of trees, or linear"
            raise check.error(what, got=got, where=f"recipe {number}", hint=hint)
    kinds = list(dict.fromkeys(one.name for one in recipes if one not in able))
    notes = [f"Left out: recipes of {listed(kinds)}, which cannot keep {monotone.NAME}."] if kinds else []
    return [one.__sklearn_clone__().set_params(**{monotone.NAME: constraints}) for one in able], notes


def names(recipes: Sequence[Ranker]) -> list[str]:
    """Return the names of recipes: library and objective, and a parameter in which all of the same differ, or several.

    >>> import rankwise as rw
    >>> names([rw.LightGBMRanker("xendcg"), rw.LightGBMRanker("xendcg", leaves=7), rw.LightGBMRanker("ranknet")])
    ['lightgbm(xendcg)', 'lightgbm(xendcg, leaves=7)', 'lightgbm(ranknet)']
    """
    heads = [(one.name, expressions.objective_of(one)) for one in recipes]
    titles = []
    for one, head, before in zip(recipes, heads, repeats(recipes), strict=True):
        groups = {group for group, its in zip(groups_of(recipes), heads, strict=True) if its == head}
        alike = [recipes[group].get_params() for group in sorted(groups)]
        parameters = {name: value for name, value in one.get_params().items() if value is not None}
        differ = [name for name, value in parameters.items() if any(other.get(name) != value for other in alike)]
        differ = [name for name in differ if len({repr(other.get(name)) for other in alike}) == len(alike)][
            :1
        ] or differ
        name = expressions.title_of(one, *(f"{name}={parameters[name]}" for name in differ if name != "objective"))
        titles.append(f"{name} again" if before == 1 else f"{name} again, {before}" if before else name)
    return titles


def repeats(recipes: Sequence[Ranker]) -> list[int]:
    """Return the number of equal recipes before each: it is trained with another seed, on other folds."""
    groups = groups_of(recipes)
    return [groups[:number].count(group) for number, group in enumerate(groups)]


def floor(recipes: Sequence[Ranker]) -> set[int]:
    """Return the groups of recipes that are averaged without proof: those that come again, or all if none does.

    >>> import rankwise as rw
    >>> floor([rw.LightGBMRanker("xendcg"), rw.LightGBMRanker("ranknet"), rw.LightGBMRanker("xendcg")])
    {0}
    """
    groups = groups_of(recipes)
    return {group for group in groups if groups.count(group) > 1} or {*groups}


def groups_of(recipes: Sequence[Ranker]) -> list[int]:
    """Return the number of the first recipe that is equal to each."""
    keys = [(one.name, expressions.objective_of(one), one.get_params(deep=False)) for one in recipes]
    return [keys.index(key) for key in keys]
