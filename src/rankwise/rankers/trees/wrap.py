"""A ranker from a model that another library trained."""

import itertools
import json
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rankwise import check
from rankwise.arrays import Json
from rankwise.data.categories import Values
from rankwise.rankers.base import Ranker
from rankwise.rankers.schema import Schema
from rankwise.rankers.table import ranker_class
from rankwise.rankers.trees.catboost_model import content_of, strip
from rankwise.rankers.trees.formats.lightgbm import with_objective
from rankwise.rankers.trees.lightgbm import LightGBM
from rankwise.rankers.trees.xgboost import XGBoost

_RANKING = "rank:ndcg"
_ONE_SCORE = "train it with one score per document, such as a ranking, regression or binary objective"
_FUNCTION = "evaluate it through a function of features, rw.evaluate(lambda features: …, data)"


def wrap(model: object) -> Any:
    """Return a ranker that scores as a trained model of LightGBM, XGBoost or CatBoost does.

    ``model`` is an ``lgb.Booster``, ``xgb.Booster`` or ``CatBoost``, or an estimator around one, such as
    ``lgb.LGBMRanker`` or ``xgb.XGBRanker``. The ranker predicts, ranks, explains, saves, serves (``scorer()``,
    :func:`export`) and is evaluated as if it had been trained here. It knows the names of features and the values of
    categories that the model knows. It holds a copy, made without pickle; training the model further does not change
    it. Its parameters are those of a new ranker: what was trained is in the trees.

    Scores are the raw ones, those of the library bit for bit for the same float32 features. That is what rankers and
    regressors predict themselves. Where a library turns raw scores into something else (probabilities of a classifier,
    rates of a Poisson regression, the mean over LightGBM's random forest), the order stays the same. Features are
    float32 here: a model that was trained on doubles may see a value on the other side of a threshold that lies
    between the double and its float32.

    Refused with what to do instead: models of several scores per document (multiclass), XGBoost's linear booster,
    CatBoost's categories, of which it keeps hashes, and LightGBM's categories of a table where it does not say whose
    they are (ordered categories, or plain codes beside them).

    >>> import lightgbm as lgb, numpy as np, rankwise as rw
    >>> data = rw.synthetic(n_queries=30, n_docs=20, seed=1)
    >>> theirs = lgb.LGBMRanker(n_estimators=5, num_leaves=7, n_jobs=1, verbose=-1)
    >>> theirs = theirs.fit(data.features, data.labels, group=data.sizes)
    >>> ranker = rw.wrap(theirs)
    >>> np.array_equal(ranker.predict(data), theirs.predict(data.features))
    True
    >>> ranker.scorer()
    Scorer(rearranged trees, 30 features)
    """
    ranker = wrapped(model)
    if ranker is None:
        raise check.error(
            "only trained models of LightGBM, XGBoost and CatBoost can be wrapped",
            got=type(model).__name__,
            hint="rw.evaluate and rw.compare take any scikit-learn estimator, and any function of features",
        )
    return ranker


def wrapped(model: object) -> Any:
    """Return the ranker of a model; None if it is not of a library that :func:`wrap` reads."""
    if isinstance(model, Ranker):
        model._check_fitted()
        return model
    foreign = next(filter(None, (read(model) for read in _READERS)), None)
    if foreign is None:
        return None
    kind: Any = ranker_class(foreign.ranker)
    kind.library.read(foreign.content, foreign.schema.count)  # a saved one must load again
    trees = kind.library.forest(foreign.content)
    ranker = kind(f"native:{foreign.objective}", rounds=trees.n_trees)
    ranker._schema, ranker.model_, ranker.settings_ = foreign.schema, trees, {}
    ranker.history_, ranker.best_round_, ranker.stopped_ = {}, trees.n_trees, "wrapped"
    return ranker


class ForeignModel(NamedTuple):
    """A trained model in the form in which the ranker of its library keeps it."""

    ranker: str
    """Which ranker takes it, by its name in the table of rankers."""
    content: bytes
    """The file of the library; its scores are plain sums of leaves."""
    schema: Schema
    objective: str
    """What it was trained with, as the library calls it."""


def _cannot_wrap(kind: str, *, why: str, hint: str) -> ValueError:
    """Return an error about a model that cannot be wrapped."""
    return check.error(f"{kind} cannot be wrapped as a ranker", got=why, hint=hint)


def _untrained(kind: str) -> ValueError:
    """Return an error about a model without trees."""
    return check.error(f"this {kind} is not trained yet, or has no trees", hint="call its fit first")


def _read_lightgbm(model: object) -> ForeignModel | None:
    """Read a model of LightGBM, cut after its best round as its own ``predict`` is; None if it is of another library.

    Whatever it was trained for, raw scores are sums of leaves, and the text names an objective that ranks. What it says
    about training is dropped; it may name files.
    """
    library = sys.modules.get("lightgbm")
    if library is None or not isinstance(model, library.Booster | library.LGBMModel):
        return None
    kind = type(model).__name__
    LightGBM().threads()  # trees are written in parallel
    try:
        booster = model.booster_ if isinstance(model, library.LGBMModel) else model
    except library.sklearn.LGBMNotFittedError:
        raise _untrained(kind) from None
    if booster.num_model_per_iteration() != 1:
        why = f"{booster.num_model_per_iteration()} scores of each document (multiclass)"
        raise _cannot_wrap(kind, why=why, hint=_ONE_SCORE)
    if not booster.num_trees():
        raise _untrained(kind)
    text = booster.model_to_string()
    head, trees, rest = text.partition("\ntree_sizes=")
    fields = dict(line.partition("=")[::2] for line in head.splitlines())
    names, codes = fields["feature_names"].split(), _codes(fields["feature_infos"].split(), rest)
    objective = fields.get("objective", "custom").split(" ")[0]
    if objective not in LightGBM.builtins:
        head = re.sub(r"\nobjective=[^\n]*", "", head)
    body, _, values = (trees + rest).rpartition("\npandas_categorical:")
    categories = _lightgbm_categories(kind, json.loads(values) or [], codes)
    body = re.sub(r"\nparameters:\n.*?\nend of parameters\n", "\n", body, flags=re.DOTALL)
    return ForeignModel(
        ranker="lightgbm",
        content=with_objective(f"{head}{body}\npandas_categorical:null\n").encode(),
        schema=Schema(
            len(names),
            None if names == [f"Column_{column}" for column in range(len(names))] else tuple(names),
            tuple(codes),
            categories,
        ),
        objective=objective,
    )


def _codes(infos: Sequence[str], text: str) -> dict[int, list[int]]:
    """The codes of each categorical column that training saw; none of one that LightGBM dropped as constant.

    The last is named by the parameters alone.
    """
    parameter = re.search(r"^\[categorical_feature: ([\d,]+)\]$", text, flags=re.MULTILINE)
    columns = set() if parameter is None else {int(column) for column in parameter[1].split(",")}
    columns |= {column for column, info in enumerate(infos) if info != "none" and not info.startswith("[")}
    return {
        column: [] if infos[column] == "none" else [int(code) for code in infos[column].split(":")]
        for column in sorted(columns & set(range(len(infos))))
    }


def _lightgbm_categories(
    kind: str, listed: list[list[str | float]], codes: Mapping[int, list[int]]
) -> dict[int, Values]:
    """The categories of columns; LightGBM keeps the lists of a table's columns in their order, and not whose they are.

    A list belongs to a column whose codes are places in it. Columns that held plain codes have none.
    """
    first = _first_fit(listed, codes)
    last = _first_fit(listed[::-1], dict(reversed(list(codes.items()))))
    if first is None or last is None or first != last[::-1]:
        why = f"categories of {len(listed)} columns of a table, and {len(codes)} categorical columns"
        how = (
            "ordered categories and plain codes are not told apart" if first is None else "whose they are is not known"
        )
        raise _cannot_wrap(kind, why=f"{why}: {how}", hint=f"train it on unordered categories alone, or {_FUNCTION}")
    return {column: tuple(values) for column, values in zip(first, listed, strict=True)}


def _first_fit(listed: list[list[str | float]], codes: Mapping[int, list[int]]) -> list[int] | None:
    """The first column for each list, in order, that may be its own; None where there is none."""
    columns = iter(codes)
    owners = [
        next((column for column in columns if max(codes[column], default=0) < len(values)), -1) for values in listed
    ]
    return None if -1 in owners else owners


def _read_xgboost(model: object) -> ForeignModel | None:
    """Read a model of XGBoost, with the trees that its own ``predict`` uses; None if it is of another library.

    Margins are a base score and sums of leaves. What the base score means depends on the objective (of
    ``binary:logistic`` it is a probability), so that of a model which was not trained to rank becomes its margin.
    """
    library = sys.modules.get("xgboost")
    if library is None or not isinstance(model, library.Booster | library.XGBModel):
        return None
    kind = type(model).__name__
    XGBoost().threads()  # trees are written in parallel
    booster = _xgboost_booster(library, model, kind)
    document = json.loads(booster.save_raw("json"))
    learner = document["learner"]
    parameters, inside = learner["learner_model_param"], learner["gradient_booster"]
    if inside["name"] == "gblinear":
        raise _cannot_wrap(kind, why="booster=gblinear, a linear model without trees", hint=_FUNCTION)
    scores = max(int(parameters["num_class"]), int(parameters["num_target"]))
    if scores > 1:
        raise _cannot_wrap(
            kind, why=f"{scores} scores of each document (multiclass or several targets)", hint=_ONE_SCORE
        )
    trees = inside.get("gbtree", inside)["model"]
    if not trees["trees"]:
        raise _untrained(kind)
    objective = str(learner["objective"]["name"])
    categories = _xgboost_categories(kind, trees.get("cats", {}).get("enc", []))
    if not objective.startswith("rank:"):
        parameters["base_score"] = f"[{_xgboost_base(library, document):.9g}]"
        plain = library.Booster({"objective": _RANKING, "num_feature": booster.num_features()})
        learner["objective"] = json.loads(plain.save_raw("json"))["learner"]["objective"]
    if categories:
        trees["cats"] = {"enc": [], "feature_segments": [], "sorted_idx": []}
    if categories or not objective.startswith("rank:"):
        booster = library.Booster(model_file=bytearray(json.dumps(document, ensure_ascii=False).encode()))
    names, types = booster.feature_names, booster.feature_types or []
    return ForeignModel(
        ranker="xgboost",
        content=bytes(booster.save_raw("ubj")),
        schema=Schema(
            booster.num_features(),
            None if names is None else tuple(names),
            tuple(column for column, one in enumerate(types) if one == "c"),
            categories,
        ),
        objective=objective,
    )


def _xgboost_booster(library: Any, model: Any, kind: str) -> Any:
    """The trees; an estimator stops at its best round, and a booster of its own does not."""
    if isinstance(model, library.Booster):
        return model
    if not model.__sklearn_is_fitted__():
        raise _untrained(kind)
    if model.missing is not None and not np.isnan(model.missing):
        hint = "wrap its get_booster(), and put NaN in the place of missing values"
        raise check.error("missing values are NaN here", got=f"a {kind} with missing={model.missing!r}", hint=hint)
    booster = model.get_booster()
    best = booster.attributes().get("best_iteration")
    return booster if best is None else booster[: int(best) + 1]


def _xgboost_base(library: Any, document: Json) -> np.float32:
    """What XGBoost adds to the leaves: the margin of the same trees with nothing in their leaves."""
    copy = json.loads(json.dumps(document))
    inside = copy["learner"]["gradient_booster"]
    for tree in inside.get("gbtree", inside)["model"]["trees"]:
        sides = zip(tree["left_children"], tree["split_conditions"], strict=True)
        tree["split_conditions"] = [0.0 if left == -1 else limit for left, limit in sides]
    empty = library.Booster(model_file=bytearray(json.dumps(copy, ensure_ascii=False).encode()))
    nothing = np.full((1, empty.num_features()), np.nan, np.float32)
    margin: np.float32 = empty.inplace_predict(nothing, predict_type="margin", validate_features=False)[0]
    return margin


def _xgboost_categories(kind: str, columns: list[Json]) -> dict[int, Values]:
    """The values of categories that a table had, by column; codes are their places."""
    categories: dict[int, Values] = {}
    for column, one in enumerate(columns):
        if "offsets" not in one:
            categories[column] = tuple(one["values"])
        elif one["values"]:
            letters, ends = np.array(one["values"], np.int8).tobytes(), one["offsets"]
            try:
                categories[column] = tuple(letters[i:j].decode() for i, j in itertools.pairwise(ends))
            except UnicodeDecodeError:
                why = f"names of categories that are not whole, of column {column}"
                raise _cannot_wrap(kind, why=why, hint=_FUNCTION) from None
    return categories


def _read_catboost(model: object) -> ForeignModel | None:
    """Read a model of CatBoost; None if it is of another library."""
    library = sys.modules.get("catboost")
    if library is None or not isinstance(model, library.CatBoost):
        return None
    kind = type(model).__name__
    if not model.is_fitted() or not model.tree_count_:
        raise _untrained(kind)
    for what, columns in (
        ("categories, of which CatBoost keeps hashes and not the values", model.get_cat_feature_indices()),
        ("texts", model.get_text_feature_indices()),
        ("embeddings", model.get_embedding_feature_indices()),
    ):
        if columns:
            raise _cannot_wrap(kind, why=f"features that are {what}", hint=_FUNCTION)
    scores = np.size(model.get_scale_and_bias()[1])
    if scores > 1:
        raise _cannot_wrap(
            kind, why=f"{scores} scores of each document (multiclass or several targets)", hint=_ONE_SCORE
        )
    names, numbers = list(model.feature_names_), list(map(str, range(len(model.feature_names_))))
    copy: Any = model.copy()
    if names == numbers:
        copy.set_feature_names(numbers)  # without, the file has none at all
    return ForeignModel(
        ranker="catboost",
        content=content_of(strip(copy)),
        schema=Schema(len(names), None if names == numbers else tuple(names)),
        objective=_catboost_loss(model),
    )


def _catboost_loss(model: Any) -> str:
    """What it was trained with, if the model holds it."""
    notes = model.get_metadata()
    text = notes["params"] if "params" in notes.keys() else ""  # noqa: SIM118 (not a dictionary)
    parameters = json.loads(text or "{}")  # it may be empty
    return str(parameters.get("loss_function", {}).get("type", "custom"))


_READERS = (_read_lightgbm, _read_xgboost, _read_catboost)
