"""Objectives and metrics as callables, for those who keep their own training loop."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.base.arrays import Array, Floats, offsets_of
from rankwise.base.stream import Stream
from rankwise.metrics import MetricLike
from rankwise.metrics import metric as find_metric
from rankwise.objectives.table import ObjectiveLike
from rankwise.objectives.table import objective as find_objective
from rankwise.rankers.fit_arguments import mean, query_weights
from rankwise.rankers.trees.newton import newton, newton_on_device
from rankwise.rankers.trees.xgboost.model import average_hessian, queries_before

if TYPE_CHECKING:
    from rankwise.objectives.prepared import Prepared
    from rankwise.rankers.trees.device_newton import DeviceNewton


class Rounds:
    """An objective that counts the rounds in which a library calls it, and is prepared once for the same labels."""

    device: str | None = None
    """The device, by torch's name, on which derivatives are computed."""

    def __init__(
        self,
        objective: ObjectiveLike,
        seed: int = 0,
        query_ids: ArrayLike | None = None,
        start_round: int = 0,
        **documents: ArrayLike,
    ) -> None:
        self.objective, self.documents = find_objective(objective), documents
        self.round = check.integer("start_round", start_round, least=0)
        self.stream = Stream(seed, query_ids=query_ids)
        self._columns: tuple[Any, ...] | None = None
        self._prepared: Prepared
        self._on_device: DeviceNewton | None = None

    def derivatives(self, lists: "QueryArrays") -> tuple[Any, Any]:
        """Return numerator and Hessian, weighted by query: arrays, or tensors of a device with a kernel for them."""
        self._prepare(lists.labels, lists.offsets, lists.weights)
        stream = self.stream.at(self.round)
        self.round += 1
        if self._on_device is not None:
            _, numerator, hessian = self._on_device(lists.scores, stream)
            return numerator, hessian
        return newton(self._prepared(lists.scores, stream), lists.offsets, weights=lists.weights)

    def _prepare(self, *columns: Any) -> None:
        if self._columns is not None and all(map(np.array_equal, columns, self._columns)):
            return
        labels, offsets, weights = columns
        self._prepared = self.objective.prepare(np.asarray(labels), offsets, **self.documents)
        self._on_device = newton_on_device(self._prepared, self.device, weights=weights)
        self._columns = tuple(None if column is None else np.array(column) for column in columns)


class QueryArrays(NamedTuple):
    """What a library says about documents."""

    scores: Array
    labels: Array
    offsets: NDArray[np.int64]
    weights: Array | None


class lightgbm_objective(Rounds):  # noqa: N801 (it is called as a function)
    """An objective for ``lgb.train(params={"objective": …})`` and ``lgb.LGBMRanker(objective=…)``.

    ``DaskLGBMRanker`` takes it too, but each worker then counts queries from 0, so that workers share their draws:
    ``rw.cluster.dask.fit`` keys them by id. The data set needs its ``group``. Weights of documents are honoured if they
    are the same within a query. The callable counts rounds, and LightGBM copies it for every training: each begins with
    ``start_round``, which is the number of trees there are where one continues a model. ``documents`` are columns of
    the rows that the objective takes: ``groups``, ``document_weights``, ``teacher_scores`` ….

    With the same parameters the model is that of :class:`LightGBMRanker`, bit for bit: ``learning_rate=0.05``,
    ``force_col_wise=True``, what its ``settings_`` say (``leaves`` is ``num_leaves``, ``min_documents`` is
    ``min_data_in_leaf``), and the ids of queries here if the data have ids, since draws go by them.

    >>> import lightgbm as lgb, rankwise as rw
    >>> data = rw.synthetic(n_queries=20, n_docs=20, seed=1)
    >>> params = {"objective": rw.objectives.lightgbm_objective("xendcg"), "num_threads": 1, "verbosity": -1}
    >>> own = lgb.Dataset(data.features, data.labels, group=data.sizes)
    >>> lgb.train(params, own, num_boost_round=3).num_trees()
    3
    >>> ranker = lgb.LGBMRanker(objective=params["objective"], n_estimators=3, n_jobs=1, verbose=-1)
    >>> ranker.fit(data.features, data.labels, group=data.sizes).n_estimators_
    3
    """

    def __call__(
        self, first: object, second: object, weight: ArrayLike | None = None, group: ArrayLike | None = None
    ) -> tuple[Floats, Floats]:
        """Return numerator and Hessian."""
        return self.derivatives(_lightgbm_lists(first, second, weight, group))


class NamedMetric:
    """A metric as libraries show it."""

    def __init__(self, metric: MetricLike) -> None:
        self.metric = find_metric(metric)
        for name in self.metric.reads:
            if name != "labels":
                what, hint = "libraries hand a metric scores and labels", "train a ranker of rankwise with metrics=…"
                raise check.error(what, got=f"{self.metric}, which reads {name}", hint=hint)
        self.__name__ = str(self.metric)

    def mean(self, lists: QueryArrays) -> float:
        """Return the mean over queries, by their weights."""
        return mean(self.metric, self.metric(lists.scores, lists.labels, lists.offsets), lists.weights)


class lightgbm_metric(NamedMetric):  # noqa: N801
    """A metric for ``lgb.train(feval=…)`` and ``lgb.LGBMRanker.fit(eval_metric=…)``.

    It is the mean over the queries that the metric scores. ``metric`` is an expression, a metric, or a function of
    one's own (see :class:`Metric`).

    >>> lightgbm_metric("ndcg@10").__name__
    'ndcg@10'
    """

    def __call__(
        self, first: object, second: object, weight: ArrayLike | None = None, group: ArrayLike | None = None
    ) -> tuple[str, float, bool]:
        """Return the name, the mean, and that higher is better."""
        return self.__name__, self.mean(_lightgbm_lists(first, second, weight, group)), True


class xgboost_objective(Rounds):  # noqa: N801
    """An objective for ``xgb.train(obj=…)``, ``xgboost.dask.train(obj=…)`` and ``SparkXGBRanker(obj=…)``.

    The matrix needs its ``group`` or ``qid``; its weights, one for each query, are honoured. Set
    ``disable_default_eval_metric`` to 1: XGBoost's default metric, rmse, cannot do with weights of queries. The
    callable counts rounds: make a new one for each training, with ``start_round`` where one continues a model.
    ``documents`` are columns of the rows that the objective takes: ``groups``, ``document_weights``. ``XGBRanker``
    takes no objective but XGBoost's own; :class:`XGBoostRanker` takes them all.

    Workers of a cluster learn no ids of queries from XGBoost. Draws then go by the number of a query among those of all
    workers, in the order of their ranks; ``rw.cluster.dask.fit`` and ``rw.cluster.ray.fit`` key them by id.

    ``device="cuda"``, for trees that are grown there (the parameter of the same name), computes gradient and Hessian on
    the GPU and gives XGBoost tensors of it, if the objective has a kernel for it (:class:`XGBoostRanker` says more).

    Hessians of ranking losses are small, and of other size for each loss, so that XGBoost's ``reg_lambda=1`` and
    ``min_child_weight=1`` would hold trees back, PL-Rank's most. So gradient and Hessian are divided by the mean
    Hessian of the round: ``reg_lambda`` is so many average documents, and ``min_child_weight`` the number of them in a
    leaf. ``relative=False`` leaves them as they are. The trees of :class:`XGBoostRanker` grow with the parameters
    ``base_score=0``, ``learning_rate=0.05``, ``grow_policy="lossguide"``, ``max_depth=0``, what its
    ``settings_`` say (``leaves`` is ``max_leaves``, ``min_documents`` is ``min_child_weight``), and the ids of queries
    here if the data have ids, since draws go by them.

    >>> import rankwise as rw, xgboost as xgb
    >>> data = rw.synthetic(n_queries=20, n_docs=20, seed=1)
    >>> own = xgb.DMatrix(data.features, data.labels, group=data.sizes, nthread=1)
    >>> params = {"disable_default_eval_metric": 1, "min_child_weight": 20, "nthread": 1}
    >>> xgb.train(params, own, num_boost_round=3, obj=rw.objectives.xgboost_objective("xendcg")).num_boosted_rounds()
    3
    """

    def __init__(
        self,
        objective: ObjectiveLike,
        seed: int = 0,
        query_ids: ArrayLike | None = None,
        start_round: int = 0,
        *,
        relative: bool = True,
        device: str | None = None,
        **documents: ArrayLike,
    ) -> None:
        super().__init__(objective, seed, query_ids, start_round, **documents)
        self.relative, self.device, self.unnamed = relative, device, self.stream.query_ids is None

    def _prepare(self, *columns: Any) -> None:
        prepared_before = self._columns
        super()._prepare(*columns)
        if self.unnamed and self._columns is not prepared_before:
            n_queries = columns[1].size - 1
            first = queries_before(n_queries)
            self.stream = Stream(self.stream.seed, query_ids=np.arange(first, first + n_queries))

    def __call__(self, scores: Floats, data: Any) -> tuple[Any, Any]:
        """Return numerator and Hessian, of average documents or as they are; tensors if they were made on a device."""
        what = "XGBoost's estimators tell an objective nothing about queries"
        hint = "pass it to xgb.train(obj=…), or train a rw.XGBoostRanker, which is an estimator too"
        numerator, hessian = self.derivatives(_xgboost_lists(scores, data, what, hint))
        if not self.relative:
            return numerator, hessian
        average = average_hessian(hessian) or 1.0
        return numerator / average, hessian / average


class xgboost_metric(NamedMetric):  # noqa: N801
    """A metric for ``xgb.train(custom_metric=…)``: its mean over the queries that it scores.

    ``metric`` is an expression, a metric, or a function of one's own (see :class:`Metric`).

    >>> xgboost_metric("ndcg@10").__name__
    'ndcg@10'
    """

    def __call__(self, scores: Floats, data: Any) -> tuple[str, float]:
        """Return the name and the mean."""
        what = "XGBoost's estimators hand a metric one list at a time, weigh lists by their length and count those of "
        what += "one document as 1"
        hint = "pass it to xgb.train(custom_metric=…), or train a rw.XGBoostRanker with metrics=…"
        return self.__name__, self.mean(_xgboost_lists(scores, data, what, hint))


def _lightgbm_lists(first: Any, second: Any, weight: Any, group: Any) -> QueryArrays:
    """Read ``(scores, Dataset)`` or ``(labels, scores, weights of documents, sizes)``."""
    scores, labels = second, first
    if hasattr(second, "get_group"):
        scores, labels, weight, group = first, second.get_label(), second.get_weight(), second.get_group()
    if group is None:
        hint = "pass group=, the number of documents of each query, to the Dataset or to fit of LGBMRanker"
        raise check.error("the data set has no groups", hint=hint)
    offsets = offsets_of(group)
    return QueryArrays(scores, labels, offsets, None if weight is None else query_weights(weight, offsets))


def _xgboost_lists(scores: Floats, data: Any, what: str, hint: str) -> QueryArrays:
    """Read scores and a DMatrix, which has no weights or one for each query; of estimators, an error says ``what``."""
    if not hasattr(data, "get_uint_info"):
        raise check.error(what, hint=hint)
    offsets = np.asarray(data.get_uint_info("group_ptr"), np.int64)
    if not offsets.size:
        hint = "pass qid=, an id for each document, or group=, the number of documents of each query"
        raise check.error("the DMatrix has no groups", hint=hint)
    weights = np.asarray(data.get_weight(), np.float64)
    checked = check.query_weights(weights, offsets.size - 1) if weights.size else None
    return QueryArrays(np.asarray(scores, np.float64), data.get_label(), offsets, checked)
