"""What is compiled ahead (``rankwise.base.ahead``) for a first training, by a second process and by the first."""

import contextlib

import numpy as np

from rankwise.base import ahead
from rankwise.data.dataset import RankingDataset
from rankwise.objectives.base import Objective
from rankwise.objectives.ragged import Derivatives
from rankwise.objectives.table import objective as find_objective

DEFAULT = "lambdarank"


def few_documents() -> RankingDataset:
    """Return data on which everything is quick but compiling."""
    features = np.arange(80, dtype=np.float32).reshape(40, 2) % 7
    return RankingDataset(features, np.arange(40) % 3, np.arange(0, 41, 10))


def train_on_little(note: str = "") -> None:
    """Train LightGBM with the default objective, then also with validation data, whose metric is compiled last.

    A first process compiles the metric first, so that the two meet in the middle. If it trains another objective, this
    one compiles what is left: the metric, and the Newton step.
    """
    from rankwise.quality.labels import NdcgRange
    from rankwise.rankers.trees.lightgbm.ranker import LightGBMRanker
    from rankwise.rankers.trees.newton import newton

    data = few_documents()
    ranker = LightGBMRanker(DEFAULT, rounds=1, leaves=2, min_documents=1, threads=1, progress=False)
    try:
        with ahead.only_for(repr(find_objective(DEFAULT)), note):
            ranker.fit(data)
        ranker.fit(data, data)
    except ahead.OtherObjectiveError:
        NdcgRange(data)
        one = np.ones(data.n_docs)
        newton(Derivatives(np.ones(data.n_queries), one, one, one), data.offsets)


def begin(objective: Objective | None) -> None:
    """Compile an objective of ours if a second process does not; a user's is called by its training alone."""
    if not ahead.helpers or objective is None:
        return
    if ahead.tell(text := repr(objective)) and text != repr(find_objective(DEFAULT)):
        derive_on_little(objective)


def derive_on_little(objective: Objective) -> None:
    """Have an objective compiled; one that needs more than labels is compiled later."""
    if all(type(one).__module__.startswith("rankwise.") for one in objective.parts()):
        data = few_documents()
        with contextlib.suppress(Exception):  # training tells what is wrong
            objective.prepare(data.labels, data.offsets)(np.zeros(data.n_docs), data.stream(0))
