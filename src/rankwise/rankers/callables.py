"""Objectives and metrics as callables, for those who keep their own training loop."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.metrics import metric as find_metric
from rankwise.metrics.base import Metric
from rankwise.objectives.table import objective as find_objective
from rankwise.rankers.inputs import mean, query_weights
from rankwise.rankers.newton import Array, Floats, newton
from rankwise.stream import Stream


class Rounds:
    """An objective that counts the rounds in which a library calls it."""

    def __init__(self, objective: Any, seed: int, query_ids: ArrayLike | None, start_round: int) -> None:
        self.objective = find_objective(objective)
        self.round = check.integer("start_round", start_round, least=0)
        self.stream = Stream(seed, query_ids=query_ids)

    def __call__(
        self, scores: Array, labels: ArrayLike, offsets: NDArray[np.int64], rows: ArrayLike | None
    ) -> tuple[Floats, Floats]:
        """Give numerator and Hessian; ``rows`` are weights by document, the same within a query."""
        derivatives = self.objective(scores, labels, offsets, self.stream.at(self.round))
        self.round += 1
        weights = None if rows is None else query_weights(rows, offsets)
        return newton(derivatives, offsets, weights=weights)


def lightgbm_objective(
    objective: Any, seed: int = 0, query_ids: ArrayLike | None = None, start_round: int = 0
) -> Callable[..., tuple[Floats, Floats]]:
    """Give an objective for ``lgb.train(params={"objective": …})``.

    The data set needs its ``group``. Weights of a data set are honoured if they are the same within a query. The
    callable counts rounds: make a new one for each training, with ``start_round`` where one continues a model.

    >>> import lightgbm as lgb, rankwise as rw
    >>> data = rw.synthetic(n_queries=20, documents=20, seed=1)
    >>> params = {"objective": rw.lightgbm_objective("xendcg"), "num_threads": 1, "verbosity": -1}
    >>> own = lgb.Dataset(data.features, data.labels, group=data.sizes)
    >>> lgb.train(params, own, num_boost_round=3).num_trees()
    3
    """
    rounds = Rounds(objective, seed, query_ids, start_round)

    def call(scores: Array, data: Any) -> tuple[Floats, Floats]:
        return rounds(scores, data.get_label(), _offsets(data), data.get_weight())

    return call


def lightgbm_metric(metric: str | Metric) -> Callable[..., tuple[str, float, bool]]:
    """Give a metric for ``lgb.train(feval=…)``: its mean over the queries that it scores.

    >>> lightgbm_metric("ndcg@10").__name__
    'ndcg@10'
    """
    chosen = find_metric(metric)

    def call(scores: Array, data: Any) -> tuple[str, float, bool]:
        offsets = _offsets(data)
        rows = data.get_weight()
        weights = None if rows is None else query_weights(rows, offsets)
        return str(chosen), mean(chosen, scores, data.get_label(), offsets, weights), True

    call.__name__ = str(chosen)
    return call


def _offsets(data: Any) -> NDArray[np.int64]:
    sizes = data.get_group()
    if sizes is None:
        raise check.error("the data set has no groups", cure="pass group=, the number of documents of each query")
    return np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
