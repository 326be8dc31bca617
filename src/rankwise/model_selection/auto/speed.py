"""How fast a ranker scores: what it costs to use, beside what it cost to train."""

import time

import numpy as np

from rankwise.data.dataset import RankingDataset
from rankwise.rankers.base import Ranker

_SCORED = 1000  # documents


def microseconds(ranker: Ranker, data: RankingDataset) -> float:
    """The least time of three to score some documents, by document.

    A net that looks at whole lists has them one by one.

    >>> import rankwise as rw
    >>> data = rw.synthetic(n_queries=20, n_docs=10, seed=1)
    >>> microseconds(rw.LightGBMRanker(rounds=5, threads=1).fit(data), data) > 0.0
    True
    """
    count = max(1, int(np.searchsorted(data.offsets, _SCORED, side="right")) - 1)
    sample = data.take(slice(0, count))
    scorer = ranker.scorer()
    parts = [sample]
    if ranker.needs_lists:
        parts = [sample.take(slice(number, number + 1)) for number in range(count)]
    found = []
    for _ in range(4):  # the first makes ready what is made on first use
        began = time.perf_counter()
        for part in parts:
            scorer(part)
        found.append(time.perf_counter() - began)
    return 1e6 * min(found[1:]) / sample.n_docs
