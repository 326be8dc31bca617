"""Regressions of clicks on features, by trees of LightGBM.

They go past the loop that trains rankers: nothing is ranked, targets may be negative, rows have weights, and folds are
fitted side by side. LightGBM's own squared error needs no gradients from Python, and those would be other numbers.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise import RankingDataset, check
from rankwise.base.arrays import Array, Keywords
from rankwise.data.splits import fold_of_query
from rankwise.models import for_library, lightgbm, threads

_ROUNDS, _PATIENCE = 300, 20
_SMALL = 20_000  # documents; fewer have small trees
_LARGE = 1_000_000  # documents; fewer have a thread for each fold, since threads of one tree wait for each other
_LEAST_FOLDS = 3  # to train, to choose the number of trees, to predict


def parameters(seed: int, **more: object) -> Keywords:
    """Return LightGBM's parameters of all regressions here, and more."""
    fixed = {"min_data_in_leaf": 20, "lambda_l2": 1.0, "force_row_wise": True, "deterministic": True, "verbosity": -1}
    return {**fixed, "num_threads": threads(), "seed": seed % 2**31, **more}


def rows_of(
    data: RankingDataset, rows: NDArray[np.int64], targets: Array, settings: Keywords, weights: Array | None = None
) -> Any:
    """Return these rows of the features as LightGBM holds them."""
    options: Keywords = {"categorical_feature": list(data.categorical), "params": settings}
    return lightgbm().Dataset(for_library(data.features[rows]), targets, weight=weights, **options)


def boost(rows: object, settings: Keywords, objective: object, rounds: int, **options: Any) -> Any:
    """Return trees that minimise an objective, one of LightGBM or a function for gradients and Hessians, over rows."""
    return lightgbm().train({**settings, "objective": objective}, rows, rounds, **options)


def cross_fitted(
    data: RankingDataset, rows: NDArray[np.int64], targets: Array, weights: Array, *, folds: int = 5, seed: int = 0
) -> Array:
    """Return R̂ of every document of ``data``, in [0, 1], from trees that never saw the clicks of its query.

    Trees minimise Σ weight · (target − R(x))² over ``rows``. The queries of ``rows`` fall into folds: each is predicted
    by trees of the other folds, whose number is chosen on one of them. Other queries have the mean of all predictions.
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
            hint="use more queries, or give targets or estimates the predictions of another model, regression=…",
        )
    fold_of = np.full(data.n_queries, -1)
    fold_of[logged] = fold_of_query(data.take(logged), folds, seed=seed)
    fold_of_document, fold = fold_of[query_of_row], fold_of[query_of_row[rows]]
    workers = threads() if rows.size < _LARGE else 1  # side by side, folds have a copy of the features each
    leaves, by_tree = 7 if rows.size < _SMALL else 31, 1 if workers > 1 else threads()
    settings = parameters(seed, learning_rate=0.1, num_leaves=leaves, num_threads=by_tree)

    def part(inside: NDArray[np.bool_]) -> Any:
        return rows_of(data, rows[inside], targets[inside], settings, weights[inside] / weights.mean())

    def predicted(number: int) -> Array:
        """Return the predictions of the trees of all folds but one: all of its documents, and a share of the others."""
        chosen_by = (number + 1) % folds
        stop = lightgbm().early_stopping(_PATIENCE, verbose=False)
        train, valid = map(part, (~np.isin(fold, (number, chosen_by)), fold == chosen_by))
        trial = boost(train, settings, "regression", _ROUNDS, valid_sets=[valid], callbacks=[stop])
        trees = boost(part(fold != number), settings, "regression", max(trial.best_iteration, 1))
        predictions = np.zeros(data.n_docs)
        for share, documents in ((1.0, fold_of_document == number), (1.0 / folds, fold_of_document == -1)):
            if documents.any():
                scores = trees.predict(for_library(data.features[documents]), num_threads=by_tree)
                predictions[documents] = share * np.asarray(scores)
        return predictions

    if workers == 1:
        return sum(map(predicted, range(folds)), np.zeros(data.n_docs)).clip(0.0, 1.0)
    with ThreadPoolExecutor(min(workers, folds)) as pool:
        return sum(pool.map(predicted, range(folds)), np.zeros(data.n_docs)).clip(0.0, 1.0)
