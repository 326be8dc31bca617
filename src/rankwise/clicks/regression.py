"""Relevance by regression on clicks: what documents with these features are clicked at, were they shown first."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.arrays import Array, Keywords
from rankwise.data.dataset import RankingDataset
from rankwise.data.splits import fold_of_query
from rankwise.rankers.trees.lightgbm.model import lightgbm, threads
from rankwise.sparse import for_library

if TYPE_CHECKING:
    from lightgbm import Booster

_ROUNDS, _PATIENCE = 300, 20
_SMALL = 20_000  # documents; fewer have small trees, and threads cost more than they save
_LEAST_FOLDS = 3  # to train, to choose the number of trees, to predict
_TREES: Keywords = {
    "objective": "regression",
    "learning_rate": 0.1,
    "min_data_in_leaf": 20,
    "lambda_l2": 1.0,
    "force_row_wise": True,
    "deterministic": True,
    "verbosity": -1,
}


def cross_fitted(
    data: RankingDataset, rows: NDArray[np.int64], targets: Array, weights: Array, *, folds: int = 5, seed: int = 0
) -> Array:
    """Return R̂ of every document of ``data``, in [0, 1], from trees that never saw the clicks of its query.

    Trees of LightGBM minimise Σ weight · (target − R(x))² over ``rows``. With the target Σ α(c − β) / Σ α² of a
    document's impressions and the weight Σ α², that is Σ (c − β − α R(x))², impression by impression. The queries of
    ``rows`` fall into folds: each is predicted by trees of the other folds, whose number is chosen on one of them.
    Queries without weight have the mean of all predictions.
    """
    folds = check.integer("folds", folds, least=_LEAST_FOLDS)
    examined = weights > 0.0
    rows, targets, weights = rows[examined], targets[examined], weights[examined]
    query_of_row = np.repeat(np.arange(data.n_queries), data.sizes)
    logged = np.unique(query_of_row[rows])
    if logged.size < folds:
        raise check.error(
            "a regression that is fitted and applied to different queries needs as many queries as folds",
            got=f"{logged.size} queries with documents that were examined, for {folds} folds",
            hint="use more queries, or pass the predictions of another model, regression=…",
        )
    fold_of = np.full(data.n_queries, -1)
    fold_of[logged] = fold_of_query(data.take(logged), folds, seed=seed)
    fold_of_document, weights = fold_of[query_of_row], weights / weights.mean()
    predictions = np.zeros(data.n_docs)
    for number in range(folds):
        fold, chosen_by = fold_of_document[rows], (number + 1) % folds
        parts = (~np.isin(fold, (number, chosen_by)), fold == chosen_by, fold != number)
        trees = _fit(data, rows, targets, weights, parts, seed)
        for share, predicted in ((1.0, fold_of_document == number), (1.0 / folds, fold_of_document == -1)):
            if predicted.any():
                scores = trees.predict(for_library(data.features[predicted]), num_threads=threads())
                predictions[predicted] += share * np.asarray(scores)
    return predictions.clip(0.0, 1.0)


def _fit(
    data: RankingDataset,
    rows: NDArray[np.int64],
    targets: Array,
    weights: Array,
    parts: tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]],
    seed: int,
) -> "Booster":
    """Return a booster of all ``parts[2]``, of as many trees as are best on ``parts[1]`` after fitting ``parts[0]``."""
    parameters: Keywords = {**_TREES, "seed": seed % 2**31}
    parameters |= {"num_leaves": 7, "num_threads": 1} if rows.size < _SMALL else {"num_threads": threads()}

    def dataset(part: NDArray[np.bool_]) -> Any:
        matrix, categorical = for_library(data.features[rows[part]]), list(data.categorical)
        options: Keywords = {"categorical_feature": categorical, "params": parameters}
        return lightgbm().Dataset(matrix, targets[part], weight=weights[part], **options)

    stop = lightgbm().early_stopping(_PATIENCE, verbose=False)
    trial = lightgbm().train(parameters, dataset(parts[0]), _ROUNDS, valid_sets=[dataset(parts[1])], callbacks=[stop])
    booster: Booster = lightgbm().train(parameters, dataset(parts[2]), max(trial.best_iteration, 1))
    return booster
