"""Reasons why there is nothing to learn, or nothing more: an error if no round was trained."""

from collections.abc import Callable

import numpy as np

from rankwise import check
from rankwise.data.dataset import RankingDataset
from rankwise.objectives.base import Objective


class NothingLearnedError(ValueError):
    """Training ended where it began."""


class Exhausted(Exception):  # noqa: N818 (the end of a training, and as a rule no error)
    """A learner has nothing more to learn: why it stops, and the error to raise where no round was trained."""

    def __init__(self, reason: str, error: Callable[[], NothingLearnedError]) -> None:
        super().__init__(reason)
        self.reason, self.error = reason, error


def nothing_learned(n_queries: int, got: str, hint: str) -> NothingLearnedError:
    """Return the error that a model learned nothing, with its reason."""
    what = f"the model learned nothing from {n_queries} queries"
    return NothingLearnedError(str(check.error(what, got=got, hint=hint)))


def no_gradient(data: RankingDataset, objective: Objective | None) -> NothingLearnedError:
    """Return the reason why every gradient was 0 from the start."""
    firsts = np.repeat(data.labels[data.offsets[:-1]], data.sizes)
    if (data.labels == firsts).all():
        got, hint = "no query with documents of different labels", "check the labels and the query ids"
    else:
        got = f"a gradient of 0 for every document from {objective}"
        hint = "check the weights, and which labels the objective takes for relevant"
    return nothing_learned(data.n_queries, got, hint)


def no_feature(data: RankingDataset) -> NothingLearnedError:
    """Return the error that all documents have the same features."""
    return nothing_learned(data.n_queries, "features that are the same for every document", "check the features")
