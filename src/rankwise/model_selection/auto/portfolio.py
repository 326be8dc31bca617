"""The portfolio: recipes in the order of trial, good and cheap ones first, and soon one of another kind."""

from collections.abc import Sequence

from rankwise import check
from rankwise.arrays import Keywords
from rankwise.rankers.base import Ranker
from rankwise.rankers.table import extra, installed, ranker_class
from rankwise.rankers.trees import monotone
from rankwise.rankers.trees.ranker import TreeRanker
from rankwise.statistics.verdict import listed

MIDDLE = 60_000
"""Documents from which trees may have more leaves, and need fewer tricks against noise."""
LARGE = 300_000
"""Documents from which these are tried alone."""

Recipe = tuple[str, str, Keywords]

_SMALL: Keywords = {"rounds": 1000, "learning_rate": 0.05, "leaves": 15, "min_documents": 50, "smoothing": 10}
# Trees that differ more gain more from being added up: each sees part of the documents and of the features.
_LIGHTGBM = _SMALL | {"extra_trees": True, "feature_fraction": 0.5, "bagging_fraction": 0.7, "bagging_freq": 1}
_XGBOOST = _SMALL | {"colsample_bynode": 0.5, "subsample": 0.7}
_BIG: Keywords = {"rounds": 1000, "learning_rate": 0.1, "leaves": 63, "min_documents": 50, "smoothing": 5}
_NET: Keywords = {"epochs": 100, "smoothing": 3}

_FIRST: tuple[Recipe, ...] = (
    ("lightgbm", "xendcg", _LIGHTGBM),
    ("lightgbm", "lambdarank", _SMALL | {"leaves": 7, "extra_trees": True}),  # what LightGBMRanker() is there
    ("lightgbm", "ranknet", _LIGHTGBM | {"leaves": 7}),
    ("xgboost", "xendcg", _XGBOOST | {"leaves": 7}),
    ("lightgbm", "xendcg", _LIGHTGBM | {"leaves": 7}),
    ("lightgbm", "yeti", _LIGHTGBM),
)
_FOR_SMALL: tuple[Recipe, ...] = (
    *_FIRST,
    ("neural", "softmax_ce", _NET),
    ("lightgbm", "stochastic(lambdarank, scale=0.25)", _LIGHTGBM),
    ("catboost", "yeti", _SMALL),
    ("xgboost", "lambdarank", _XGBOOST),
    *_FIRST,  # with other seeds: more of the same is steadier
    ("lightgbm", "listnet", _LIGHTGBM),
    ("catboost", "xendcg", _SMALL | {"leaves": 31}),
    ("neural", "listnet", _NET),
)
_FOR_MIDDLE: tuple[Recipe, ...] = (
    ("lightgbm", "lambdarank", _BIG),
    ("lightgbm", "xendcg", _BIG),
    ("lightgbm", "ranknet", _LIGHTGBM | {"leaves": 31}),
    ("xgboost", "lambdarank", _BIG),
    ("lightgbm", "yeti", _LIGHTGBM | {"leaves": 31}),
    ("neural", "softmax_ce", _NET),
    ("xgboost", "xendcg", _XGBOOST | {"leaves": 31}),
    ("catboost", "yeti", _BIG),
    ("lightgbm", "stochastic(lambdarank, scale=0.25)", _BIG),
    ("lightgbm", "listnet", _LIGHTGBM | {"leaves": 31}),
)
_FOR_LARGE: tuple[Recipe, ...] = (
    ("lightgbm", "lambdarank", _BIG),
    ("lightgbm", "xendcg", _BIG),
    ("lightgbm", "lambdarank", _BIG | {"leaves": 255}),
    ("xgboost", "lambdarank", _BIG),
    ("neural", "softmax_ce", _NET),
    ("catboost", "yeti", _BIG),
    ("lightgbm", "xendcg", _BIG | {"leaves": 255, "learning_rate": 0.05}),
    ("lightgbm", "ranknet", _BIG),
    ("xgboost", "xendcg", _BIG | {"leaves": 255}),
)


def portfolio(n_docs: int) -> tuple[list[Ranker], list[str]]:
    """Return the recipes for so many documents, and a note of those whose library is not installed.

    >>> recipes, _ = portfolio(1000)
    >>> recipes[0].name, recipes[0].objective, recipes[0].leaves
    ('lightgbm', 'xendcg', 15)
    """
    return installed_ones(_FOR_LARGE if n_docs >= LARGE else _FOR_MIDDLE if n_docs >= MIDDLE else _FOR_SMALL)


def installed_ones(recipes: Sequence[Recipe]) -> tuple[list[Ranker], list[str]]:
    """Return the rankers whose libraries are installed, and a note of the others."""
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
    extras = ",".join(sorted(map(extra, missing)))
    left_out = f"Left out: recipes of {listed(missing)}, not installed; pip install 'rankwise[{extras}]' adds them."
    return rankers, [left_out] if missing else []


def constrained(recipes: Sequence[Ranker], constraints: object, *, strict: bool) -> tuple[list[Ranker], list[str]]:
    """Return the recipes of trees with monotone constraints, and a note of the others, or an error where ``strict``.

    >>> import rankwise as rw
    >>> trees, notes = constrained([rw.LightGBMRanker("xendcg"), rw.NeuralRanker()], {"price": -1}, strict=False)
    >>> trees
    [lightgbm(xendcg, monotone_constraints={price: -1})]
    >>> notes
    ['Left out: recipes of neural, which cannot keep monotone_constraints.']
    """
    trees: list[Ranker] = []
    unable: list[str] = []
    for number, one in enumerate(recipes):
        if isinstance(one, TreeRanker) and one.monotone_constraints is None:
            trees.append(one.__sklearn_clone__().set_params(**{monotone.NAME: constraints}))
        elif strict:
            got = "constraints of its own" if isinstance(one, TreeRanker) else type(one).__name__
            hint = f"leave it out of recipes, or set {monotone.NAME} of each recipe of trees"
            where = f"recipe {number + 1}"
            raise check.error(
                f"a recipe cannot have the {monotone.NAME} of the search", got=got, where=where, hint=hint
            )
        else:
            unable.append(one.name)
    kinds = listed(list(dict.fromkeys(unable)))
    return trees, [f"Left out: recipes of {kinds}, which cannot keep {monotone.NAME}."] if unable else []


def names(recipes: Sequence[Ranker]) -> list[str]:
    """Return the names of recipes: library and objective, and those parameters in which two of the same differ.

    >>> import rankwise as rw
    >>> names([rw.LightGBMRanker("xendcg"), rw.LightGBMRanker("xendcg", leaves=7), rw.LightGBMRanker("ranknet")])
    ['lightgbm(xendcg)', 'lightgbm(xendcg, leaves=7)', 'lightgbm(ranknet)']
    """
    heads = [(one.name, one._objective_expression()) for one in recipes]
    titles = []
    for number, (one, head) in enumerate(zip(recipes, heads, strict=True)):
        alike = [other.get_params() for other, its in zip(recipes, heads, strict=True) if its == head]
        parameters = one.get_params()
        differ = [name for name, value in parameters.items() if any(other.get(name) != value for other in alike)]
        differ = [name for name in differ if name != "objective" and parameters[name] is not None]
        name, before = one._title(*(f"{name}={parameters[name]}" for name in differ)), repeats(recipes)[number]
        titles.append(f"{name} again" if before == 1 else f"{name} again, {before}" if before else name)
    return titles


def repeats(recipes: Sequence[Ranker]) -> list[int]:
    """Return the number of equal recipes before each: it is trained with another seed, on the same folds."""
    keys = [(one.name, one._objective_expression(), one.get_params(deep=False)) for one in recipes]
    return [keys[:number].count(key) for number, key in enumerate(keys)]
