"""A single feature as a ranker: a baseline, and a member of blends."""

from dataclasses import dataclass, replace
from typing import Annotated, Self

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.base.arrays import Array, Floats, Json, Offsets, rows_of
from rankwise.base.sparse import dense
from rankwise.check.docstrings import documented
from rankwise.check.parameters import assign
from rankwise.data.dataset import RankingDataset
from rankwise.metrics.base import require_scored, weighted_mean
from rankwise.models.model import Contributions, Model
from rankwise.models.schema import Schema
from rankwise.rankers import fit_arguments
from rankwise.rankers.base import Ranker
from rankwise.rankers.training import parameters as training
from rankwise.rankers.training import run
from rankwise.rankers.training.settings import TrainingData, TrainingSettings, metrics_of


@documented
class FeatureRanker(Ranker):
    """Ranks by one feature, upwards or downwards; which of them, training finds out by the first metric.

    Documents where the feature is missing get its mean over the training data.

    >>> import numpy as np, rankwise as rw
    >>> data = rw.RankingDataset([[3.0], [1.0], [2.0]], [0, 2, 1], [0, 3], feature_names=["price"])
    >>> FeatureRanker("price").fit(data).predict([[5.0], [np.nan]])
    array([-5., -2.])
    """

    name = "feature"
    objective = "none"
    has_importances = True
    model_: "FeatureModel"
    oof_scores_: Array
    """Scores of every document, in the direction that the other folds say; set by :meth:`cross_fit`."""

    def __init__(
        self,
        feature: Annotated[str | int, "Name of the feature, or its number from 0."],
        metrics: Annotated[training.Metrics, "The first decides on the direction."] = ("ndcg@10",),
    ) -> None:
        assign(self, locals())

    def nested(self) -> dict[str, Ranker]:
        """Return nothing: it learns nothing but a direction."""
        return {}

    def _train(self, data: TrainingData, settings: TrainingSettings) -> None:
        fit_arguments.reject_start(data.train, self)
        self.cross_fit(data.train, np.zeros(data.train.n_queries, np.int64))
        run.measure_after(self, data)

    def cross_fit(self, data: RankingDataset, fold: NDArray[np.int64]) -> Self:
        """Find the direction on all queries, and for out-of-fold scores on all that are not of the query's fold."""
        schema = Schema.of(data)
        column = _column(self.feature, schema)
        if column in data.categorical:
            what, hint = "documents cannot be ranked by a category", "name a feature that is a number"
            raise check.error(what, got=schema.name(column), hint=hint)
        values = _values(data.features, column)
        present = values[~np.isnan(values)]
        model = FeatureModel(schema, column, 1.0, float(present.mean()) if present.size else 0.0)
        scores, metric = model.scores(data.features), metrics_of(self, data)[0]
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
        self.model_ = replace(model, sign=_sign(change, data.weights))
        run.remember(self, TrainingData(train=data))
        value = weighted_mean(better if self.model_.sign > 0 else worse, data.weights)
        self.history_, self.best_round_, self.stopped_ = {str(metric): [value]}, 1, "complete"
        return self

    def read_model(self, description: Json, files: dict[str, bytes], schema: Schema) -> "FeatureModel":
        """Return the direction and the mean."""
        return FeatureModel.from_files(description | {"column": _column(self.feature, schema)}, files, schema)


@dataclass(frozen=True)
class FeatureModel(Model):
    """Scores that are one column, upwards or downwards."""

    kind = "a feature"
    schema: Schema
    column: int
    sign: float
    """1 if larger values are better, −1 if smaller ones are."""
    mean: float
    """What stands in the place of missing values."""

    def scores(self, features: Floats, offsets: Offsets | None = None) -> Array:
        """Return the values of the column, with the mean for missing ones."""
        values = _values(features, self.column)
        return self.sign * np.where(np.isnan(values), self.mean, values)

    def contributions(self, features: Floats, offsets: Offsets | None = None) -> Contributions:
        """Return how far the feature is from its mean."""
        parts = np.zeros((features.shape[0], self.schema.count + 1))
        parts[:, -1] = self.sign * self.mean
        parts[:, self.column] = self.scores(features) - parts[:, -1]
        method, start = "value of the feature", "mean of the feature"
        return Contributions.exact(parts, features, self.schema, method=method, start=start)

    def shares(self) -> Array:
        """Return 1 for the one feature, 0 for all others."""
        return np.asarray(np.eye(self.schema.count)[self.column])

    def files(self) -> dict[str, bytes]:
        """Return none."""
        return {}

    def description(self) -> Json:
        """Return the direction and the mean."""
        return {"sign": self.sign, "mean": self.mean}

    @classmethod
    def from_files(cls, description: Json, files: dict[str, bytes], schema: Schema) -> Self:
        """Read the direction and the mean."""
        sign, mean = (check.number(name, description[name]) for name in ("sign", "mean"))
        return cls(schema, description["column"], sign, mean)


def _column(feature: str | int, schema: Schema) -> int:
    hint = "name the features of the data, or pass the number of the feature, from 0"
    return schema.column("feature", feature, hint)


def _values(features: Floats, column: int) -> Array:
    return dense(features[:, [column]])[:, 0].astype(np.float64)


def _sign(change: Array, weights: Array | None) -> float:
    """Return the direction that is better over these queries; upwards if none is."""
    scored = ~np.isnan(change) if weights is None else ~np.isnan(change) & (weights > 0)
    return -1.0 if scored.any() and weighted_mean(change, weights) < 0 else 1.0
