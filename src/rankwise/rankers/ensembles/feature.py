"""A single feature as a ranker: a baseline, and a member of blends."""

from typing import Self

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.arrays import Array, Floats, Json, rows_of
from rankwise.data.dataset import RankingDataset
from rankwise.metrics import MetricLike
from rankwise.metrics.base import require_scored, weighted_mean
from rankwise.models.contributions import Contributions
from rankwise.models.schema import Documents
from rankwise.rankers.base import Ranker
from rankwise.sparse import dense


class FeatureRanker(Ranker):
    """Ranks by one feature, upwards or downwards; which of them, training finds out by the first metric.

    Documents where the feature is missing get its mean over the training data.

    Args:
        feature: Its name, or its number from 0.
        metrics: The first decides on the direction.

    >>> import numpy as np, rankwise as rw
    >>> data = rw.RankingDataset([[3.0], [1.0], [2.0]], [0, 2, 1], [0, 3], feature_names=["price"])
    >>> FeatureRanker("price").fit(data).predict([[5.0], [np.nan]])
    array([-5., -2.])
    """

    name = "feature"
    objective = "none"
    sign_: float
    """1 if larger values are better, −1 if smaller ones are."""
    mean_: float
    """What stands in the place of missing values."""
    oof_scores_: Array
    """Scores of every document, in the direction that the other folds say; set by :meth:`cross_fit`."""

    def __init__(self, feature: str | int, metrics: MetricLike | tuple[MetricLike, ...] = ("ndcg@10",)) -> None:
        self.feature = feature
        self.metrics = metrics
        self.native = {}

    def _exponential_labels(self) -> tuple[()]:
        return ()  # it learns nothing but a direction

    def _fit(self, train: RankingDataset, valid: RankingDataset | None) -> None:
        self.cross_fit(train, np.zeros(train.n_queries, np.int64))

    def cross_fit(self, data: RankingDataset, fold: NDArray[np.int64]) -> Self:
        """Find the direction on all queries, and for out-of-fold scores on all that are not of the query's fold."""
        self._remember(data)
        column = self._column
        if column in data.categorical:
            what, hint = "documents cannot be ranked by a category", "name a feature that is a number"
            raise check.error(what, got=self._schema.name(column), hint=hint)
        values = _values(data.features, column)
        present = values[~np.isnan(values)]
        self.mean_ = float(present.mean()) if present.size else 0.0
        self.sign_ = 1.0
        scores, metric = self._score(data.features), self._metrics(data)[0]
        better, worse = (metric.of(sign * scores, data) for sign in (1.0, -1.0))
        require_scored(str(metric), better, data.weights)
        change = better - worse
        self.oof_scores_ = scores.copy()
        for number in np.unique(fold):
            elsewhere = fold != number if (fold != number).any() else fold == number
            rows = rows_of(np.flatnonzero(fold == number), data.offsets)[0]
            self.oof_scores_[rows] *= _sign(
                change[elsewhere], None if data.weights is None else data.weights[elsewhere]
            )
        self.sign_ = _sign(change, data.weights)
        value = weighted_mean(better if self.sign_ > 0 else worse, data.weights)
        self.history_, self.best_round_, self.stopped_ = {str(metric): [value]}, 1, "complete"
        return self

    @property
    def _column(self) -> int:
        if isinstance(self.feature, str):
            if self._schema.names is None:
                hint = "name the features of the data, or pass the number of the feature, from 0"
                raise check.error("the features of these data have no names", got=repr(self.feature), hint=hint)
            return self._schema.names.index(check.choice("feature", self.feature, self._schema.names))
        return check.columns("feature", [self.feature], self.n_features_in_)[0]

    @property
    def feature_importances_(self) -> Array:
        """1 for the one feature, 0 for all others."""
        self._check_fitted()
        return np.asarray(np.eye(self.n_features_in_)[self._column])

    def contributions(self, data: Documents) -> Contributions:
        """Return how far the feature is from its mean."""
        features = self._features(data)
        parts = np.zeros((features.shape[0], self.n_features_in_ + 1))
        parts[:, -1] = self.sign_ * self.mean_
        parts[:, self._column] = self._score(features) - parts[:, -1]
        return Contributions(
            parts=parts,
            left=np.zeros(len(parts)),
            method="value of the feature",
            start="mean of the feature",
            features=features,
            schema=self._schema,
        )

    def _score(self, features: Floats) -> Array:
        values = _values(features, self._column)
        return self.sign_ * np.where(np.isnan(values), self.mean_, values)

    def _description(self) -> Json:
        return super()._description() | {"sign": self.sign_, "mean": self.mean_}

    def _files(self) -> dict[str, bytes]:
        return {}

    def _restore(self, description: Json, files: dict[str, bytes]) -> None:
        self.sign_ = check.number("sign", description["sign"])
        self.mean_ = check.number("mean", description["mean"])


def _values(features: Floats, column: int) -> Array:
    return dense(features[:, [column]])[:, 0].astype(np.float64)


def _sign(change: Array, weights: Array | None) -> float:
    """Return the direction that is better over these queries; upwards if none is."""
    scored = ~np.isnan(change) if weights is None else ~np.isnan(change) & (weights > 0)
    return -1.0 if scored.any() and weighted_mean(change, weights) < 0 else 1.0
