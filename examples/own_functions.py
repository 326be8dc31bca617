"""An objective and a metric of one's own as plain functions: trained with, stopped by, and compared by.

python examples/own_functions.py
"""

import itertools

import numpy as np

import rankwise as rw


def squared_error(scores, labels, offsets):
    """Pointwise regression on labels: value of each query, gradient and Hessian of each document."""
    gap = scores - labels
    return np.add.reduceat(0.5 * gap**2, offsets[:-1]), gap, np.ones_like(gap)


def best_on_top(scores, labels, offsets):
    """1 where a best document of the list comes first, else 0; a list without relevant documents is skipped (NaN)."""
    found = np.full(offsets.size - 1, np.nan)
    for q, (start, stop) in enumerate(itertools.pairwise(offsets)):
        own = labels[start:stop]
        if own.max() > 0:
            found[q] = own[np.argmax(scores[start:stop])] == own.max()
    return found


print(rw.objectives.check_objective(squared_error))  # finite differences, independence of queries, extremes

train, valid, test = rw.split(rw.synthetic(n_queries=300, n_features=10, seed=1), (0.6, 0.2, 0.2), seed=0)
rankers = {
    "squared error": rw.LightGBMRanker(squared_error, metrics=[best_on_top], rounds=100, threads=1),
    "a mixture": rw.LightGBMRanker(
        0.1 * rw.objective(squared_error) + rw.objectives.LambdaRank(), rounds=100, threads=1
    ),
}
for ranker in rankers.values():
    ranker.fit(train, valid)
print(rw.compare(rankers, test, [best_on_top, "ndcg@10"]))
