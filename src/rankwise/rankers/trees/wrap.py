"""A ranker from a model that another library trained."""

import sys
from typing import Any

from rankwise import check
from rankwise.rankers.base import Ranker
from rankwise.rankers.sklearn import check_fitted
from rankwise.rankers.table import RANKERS, ranker_class


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
        check_fitted(model)
        return model
    for name in RANKERS:
        kind: Any = ranker_class(name) if sys.modules.get(name) else None  # a model's library is loaded
        foreign = kind.library.foreign(model) if hasattr(kind, "library") else None
        if foreign is not None:
            forest = kind.library.forest
            forest.verify(foreign.content, foreign.schema.count)  # a saved one must load again
            trees = forest.read(foreign.content, foreign.schema)
            ranker = kind(f"native:{foreign.objective}", rounds=trees.n_trees)
            ranker.model_, ranker.settings_ = trees, {}
            ranker.history_, ranker.best_round_, ranker.stopped_ = {}, trees.n_trees, "wrapped"
            return ranker
    return None
