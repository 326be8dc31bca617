"""What a student learns from: the scores of a teacher, of queries with labels and without."""

from pathlib import Path
from typing import Any

import numpy as np

from rankwise import check
from rankwise.arrays import Array, Keywords
from rankwise.data import columns
from rankwise.data.concatenation import concatenate
from rankwise.data.dataset import RankingDataset
from rankwise.rankers.base import Ranker
from rankwise.rankers.ensembles.spread import centred, spread
from rankwise.rankers.table import load
from rankwise.rankers.trees.wrap import wrapped


def fresh(model: Any) -> Any:
    """Give a clone of a ranker that is not trained; what is trained is shared."""
    if isinstance(model, list | tuple):
        return [fresh(one) for one in model]
    return model.__sklearn_clone__() if _untrained(model) else model


def trained(teacher: Any, train: RankingDataset, valid: RankingDataset | None) -> Any:
    """Give a teacher that can score: read from its folder, or trained where it is a ranker that is not."""
    if isinstance(teacher, list | tuple):
        if not teacher:
            raise check.error("a student needs a teacher", got="an empty list", hint="pass a trained ranker")
        return [trained(one, train, valid) for one in teacher]
    if isinstance(teacher, str | Path):
        return load(teacher)
    return fresh(teacher).fit(train, valid) if _untrained(teacher) else teacher


def _untrained(model: Any) -> bool:
    return isinstance(model, Ranker) and not model.__sklearn_is_fitted__()


def scores_of(teacher: Any, data: RankingDataset) -> Array:
    """Give the scores of a trained teacher: of several the mean."""
    if isinstance(teacher, list):
        return np.asarray(np.mean([scores_of(one, data) for one in teacher], axis=0))
    ranker = wrapped(teacher)
    score = getattr(teacher, "predict", teacher) if ranker is None else ranker.predict
    if not callable(score):
        raise check.error(
            "a teacher must be a model that predicts, or a function from features to scores",
            got=type(teacher).__name__,
            hint="pass a ranker, rw.load(folder), or a model of another library",
        )
    return check.teacher_scores(score(data.features if ranker is None else data), data.offsets, data.query_ids)


def in_units_of_their_spread(scores: Array, data: RankingDataset) -> Array:
    """Divide scores by their spread within lists: the root of the mean square of what is left of each list's mean.

    Then neither the temperature nor the teacher's share of a mixed loss depends on the unit that the teacher scores in.
    """
    unit = spread(scores, data.offsets)
    if not unit:
        raise check.error(
            "the teacher gives all documents of a list the same score",
            hint="look at the teacher: was it trained on these features",
        )
    return centred(scores, data.offsets) / unit


def with_unlabelled(train: RankingDataset, unlabelled: RankingDataset) -> RankingDataset:
    """Join queries with labels and queries whose labels do not count: they are set to 0.

    Of other columns those are kept that both have; queries and documents without weights weigh 1.
    """
    parts = [train, unlabelled.with_(labels=np.zeros(unlabelled.n_docs))]
    for name, count in (("weights", "n_queries"), ("document_weights", "n_docs")):
        weighed = [getattr(part, name) is not None for part in parts]
        if any(weighed) and not all(weighed):
            lighter = weighed.index(False)
            ones: Keywords = {name: np.ones(getattr(parts[lighter], count))}
            parts[lighter] = parts[lighter].with_(**ones)
    lacking: Keywords = {name: None for name in columns.names() if any(getattr(part, name) is None for part in parts)}
    if train.query_ids is not None and unlabelled.query_ids is not None:
        both = np.intersect1d(train.query_ids, unlabelled.query_ids)
        if both.size:
            raise check.error(
                "a query is labelled or unlabelled, and cannot be both",
                got=f"query {both[0]!s}" + (f" and {both.size - 1} more" if both.size > 1 else ""),
                hint="leave queries of the training data out of unlabelled=",
            )
    return concatenate([part.with_(**lacking) for part in parts])
