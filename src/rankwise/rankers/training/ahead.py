"""What the second process compiles, which ``rankwise.base.ahead`` starts: the kernels of a first training."""

import numpy as np

from rankwise.data.dataset import RankingDataset


def train_on_little() -> None:
    """Train LightGBM with the default objective, then also with validation data, whose metric is compiled last.

    A first process compiles the metric first, so that the two meet in the middle.
    """
    from rankwise.rankers.trees.lightgbm.ranker import LightGBMRanker

    features = np.arange(80, dtype=np.float32).reshape(40, 2) % 7
    data = RankingDataset(features, np.arange(40) % 3, np.arange(0, 41, 10))
    for valid in (None, data):
        LightGBMRanker(rounds=1, leaves=2, min_documents=1, threads=1, progress=False).fit(data, valid)
