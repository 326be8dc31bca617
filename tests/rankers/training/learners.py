"""What learns in a ranker, before its first round."""

from typing import Any

import rankwise as rw
from rankwise.rankers.training.settings import TrainingData, TrainingSettings


def learner_of(ranker: Any, train: rw.RankingDataset) -> Any:
    data = TrainingData(train=train)
    return ranker.learner(data, TrainingSettings.of(ranker).for_data(ranker, data))
