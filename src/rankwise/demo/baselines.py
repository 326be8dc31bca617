"""The simplest rankers, to compare others with: one feature, and a line through all of them."""

import numpy as np
from numpy.typing import NDArray

from rankwise.data.dataset import RankingDataset
from rankwise.metrics import metric
from rankwise.metrics.base import weighted_mean

Scores = NDArray[np.float64]


def best_feature(train: RankingDataset, part: RankingDataset) -> tuple[str, Scores]:
    """Rank by the one feature, upwards or downwards, that ranks the training part best; give its name and the scores.

    A document without the feature goes last.
    """
    rate = metric("ndcg@10")

    def column(data: RankingDataset, feature: int, sign: float) -> Scores:
        values = sign * data.features[:, feature].astype(np.float64)
        return np.where(np.isnan(values), -np.finfo(np.float32).max, values)

    def quality(choice: tuple[int, float]) -> float:
        return weighted_mean(rate(column(train, *choice), train.labels, train.offsets))

    feature, sign = max(((f, s) for f in range(train.n_features) for s in (1.0, -1.0)), key=quality)
    names = train.feature_names or [f"number {number + 1}" for number in range(train.n_features)]
    return f"{'-' if sign < 0 else ''}{names[feature]}", column(part, feature, sign)


def linear(train: RankingDataset, part: RankingDataset, *, ridge: float = 1.0) -> Scores:
    """Fit the labels by ridge regression on standardised features; a missing value counts as the mean."""
    mean, spread = np.nanmean(train.features, axis=0), np.nanstd(train.features, axis=0)
    spread[spread == 0.0] = 1.0

    def standard(data: RankingDataset) -> Scores:
        return np.asarray(np.nan_to_num((data.features - mean) / spread), dtype=np.float64)

    design = standard(train)
    gram = design.T @ design + ridge * np.eye(train.n_features)
    weights = np.linalg.solve(gram, design.T @ (train.labels - train.labels.mean()))
    return np.asarray(standard(part) @ weights)
