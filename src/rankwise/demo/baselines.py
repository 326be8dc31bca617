"""Simple rankers to compare: one feature, a line through all of them, LightGBM's own lambdarank."""

import numpy as np
from numpy.typing import NDArray

from rankwise.data.dataset import RankingDataset
from rankwise.metrics import metric

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
        return float(np.nanmean(rate(column(train, *choice), train.labels, train.offsets)))

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


def lambdarank(train: RankingDataset, valid: RankingDataset, part: RankingDataset) -> tuple[int, Scores]:
    """Train LightGBM's own lambdarank, stopped early by the validation part; give the number of trees and scores."""
    import lightgbm

    settings = {
        "objective": "lambdarank",
        "metric": "ndcg",
        "eval_at": [10],
        "learning_rate": 0.15,
        "num_leaves": 15,
        "min_data_in_leaf": 50,
        "num_threads": 1,  # so small a set gains little from threads, and one thread repeats exactly everywhere
        "deterministic": True,
        "force_row_wise": True,
        "verbosity": -1,
    }
    sets = [lightgbm.Dataset(data.features, data.labels, group=data.sizes) for data in (train, valid)]
    stop = lightgbm.early_stopping(20, verbose=False)
    booster = lightgbm.train(settings, sets[0], 500, valid_sets=[sets[1]], callbacks=[stop])
    return booster.best_iteration, np.asarray(booster.predict(part.features))
