"""Objectives and metrics as callables, for those who keep their own training loop."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.arrays import Array, Column, Floats, offsets_of
from rankwise.metrics import metric as find_metric
from rankwise.metrics.base import Metric
from rankwise.objectives.base import Prepared
from rankwise.objectives.table import ObjectiveLike
from rankwise.objectives.table import objective as find_objective
from rankwise.rankers.inputs import mean, query_weights
from rankwise.rankers.trees.newton import newton
from rankwise.stream import Stream


class Rounds:
    """An objective that counts the rounds in which a library calls it, and is prepared once for the same labels."""

    def __init__(self, objective: ObjectiveLike, seed: int, query_ids: ArrayLike | None, start_round: int) -> None:
        self.objective = find_objective(objective)
        self.round = check.integer("start_round", start_round, least=0)
        self.stream = Stream(seed, query_ids=query_ids)
        self._prepared: tuple[Column, Prepared] | None = None

    def __call__(
        self, scores: Array, labels: ArrayLike, offsets: NDArray[np.int64], weights: Array | None
    ) -> tuple[Floats, Floats]:
        """Give numerator and Hessian, weighted by query."""
        derivatives = self._prepare(np.asarray(labels), offsets)(scores, self.stream.at(self.round))
        self.round += 1
        return newton(derivatives, offsets, weights=weights)

    def _prepare(self, labels: Column, offsets: NDArray[np.int64]) -> Prepared:
        if self._prepared is not None:
            seen, prepared = self._prepared
            if np.array_equal(seen, labels) and np.array_equal(prepared.offsets, offsets):
                return prepared
        prepared = self.objective.prepare(labels, offsets)
        self._prepared = labels.copy(), prepared
        return prepared


def lightgbm_objective(
    objective: ObjectiveLike, seed: int = 0, query_ids: ArrayLike | None = None, start_round: int = 0
) -> Callable[..., tuple[Floats, Floats]]:
    """Give an objective for ``lgb.train(params={"objective": …})``.

    The data set needs its ``group``. Weights of a data set are honoured if they are the same within a query. The
    callable counts rounds: make a new one for each training, with ``start_round`` where one continues a model.

    >>> import lightgbm as lgb, rankwise as rw
    >>> data = rw.synthetic(n_queries=20, n_docs=20, seed=1)
    >>> params = {"objective": rw.lightgbm_objective("xendcg"), "num_threads": 1, "verbosity": -1}
    >>> own = lgb.Dataset(data.features, data.labels, group=data.sizes)
    >>> lgb.train(params, own, num_boost_round=3).num_trees()
    3
    """
    rounds = Rounds(objective, seed, query_ids, start_round)

    def call(scores: Array, data: Any) -> tuple[Floats, Floats]:
        offsets = _offsets(data)
        return rounds(scores, data.get_label(), offsets, _weights(data, offsets))

    return call


def lightgbm_metric(metric: str | Metric) -> Callable[..., tuple[str, float, bool]]:
    """Give a metric for ``lgb.train(feval=…)``: its mean over the queries that it scores.

    >>> lightgbm_metric("ndcg@10").__name__
    'ndcg@10'
    """
    chosen = find_metric(metric)

    def call(scores: Array, data: Any) -> tuple[str, float, bool]:
        offsets = _offsets(data)
        return str(chosen), mean(chosen, scores, data.get_label(), offsets, _weights(data, offsets)), True

    call.__name__ = str(chosen)
    return call


def xgboost_objective(
    objective: ObjectiveLike, seed: int = 0, query_ids: ArrayLike | None = None, start_round: int = 0
) -> Callable[..., tuple[Floats, Floats]]:
    """Give an objective for ``xgb.train(obj=…)``.

    The matrix needs its ``group`` or ``qid``; its weights, one for each query, are honoured. Set ``base_score`` to 0,
    and ``disable_default_eval_metric`` to 1: XGBoost's default metric, rmse, cannot do with weights of queries. The
    callable counts rounds: make a new one for each training, with ``start_round`` where one continues a model.

    >>> import rankwise as rw, xgboost as xgb
    >>> data = rw.synthetic(n_queries=20, n_docs=20, seed=1)
    >>> own = xgb.DMatrix(data.features, data.labels, group=data.sizes, nthread=1)
    >>> params = {"base_score": 0.0, "disable_default_eval_metric": 1, "min_child_weight": 0.0, "nthread": 1}
    >>> xgb.train(params, own, num_boost_round=3, obj=rw.xgboost_objective("xendcg")).num_boosted_rounds()
    3
    """
    rounds = Rounds(objective, seed, query_ids, start_round)

    def call(scores: Floats, data: Any) -> tuple[Floats, Floats]:
        offsets, weights = _groups(data)
        return rounds(np.asarray(scores, np.float64), data.get_label(), offsets, weights)

    return call


def xgboost_metric(metric: str | Metric) -> Callable[..., tuple[str, float]]:
    """Give a metric for ``xgb.train(custom_metric=…)``: its mean over the queries that it scores.

    >>> xgboost_metric("ndcg@10").__name__
    'ndcg@10'
    """
    chosen = find_metric(metric)

    def call(scores: Floats, data: Any) -> tuple[str, float]:
        offsets, weights = _groups(data)
        return str(chosen), mean(chosen, np.asarray(scores, np.float64), data.get_label(), offsets, weights)

    call.__name__ = str(chosen)
    return call


def _offsets(data: Any) -> NDArray[np.int64]:
    sizes = data.get_group()
    if sizes is None:
        raise check.error("the data set has no groups", hint="pass group=, the number of documents of each query")
    return offsets_of(sizes)


def _weights(data: Any, offsets: NDArray[np.int64]) -> Array | None:
    rows = data.get_weight()
    return None if rows is None else query_weights(rows, offsets)


def _groups(data: Any) -> tuple[NDArray[np.int64], Array | None]:
    """Offsets and weights by query of a DMatrix, which has no weights or one for each query."""
    offsets = np.asarray(data.get_uint_info("group_ptr"), np.int64)
    if not offsets.size:
        hint = "pass qid=, an id for each document, or group=, the number of documents of each query"
        raise check.error("the DMatrix has no groups", hint=hint)
    weights = np.asarray(data.get_weight(), np.float64)
    return offsets, check.query_weights(weights, offsets.size - 1) if weights.size else None
