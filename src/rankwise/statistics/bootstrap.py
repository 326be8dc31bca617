"""The bootstrap of means over queries: each resample counts each query Poisson(1) times."""

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rankwise.base import threads
from rankwise.base.compiling import kernel
from rankwise.base.stream import Stream, uniform_pair

if TYPE_CHECKING:
    from rankwise.statistics.evaluation import Evaluation

# The cumulative distribution of Poisson(1); beyond 17 there is no probability left in float64.
_POISSON = np.cumsum([math.exp(-1.0) / math.factorial(k) for k in range(18)])

# Groups of queries that are resampled together, at most: the width is exact to 1/sqrt(2 · groups), half a percent.
_GROUPS = 20_000


def resampled(evaluation: "Evaluation") -> NDArray[np.float64]:
    """Return the means of an evaluation's resamples; see :meth:`Evaluation.resampled`."""
    values, n_metrics = np.column_stack(list(evaluation.values.values())), len(evaluation.values)
    shares = np.where(np.isnan(values), 0.0, evaluation.query_weights[:, None])
    products = shares * np.nan_to_num(values)
    stream = Stream(evaluation.seed, query_ids=evaluation.query_ids).child("bootstrap")
    words = stream.queries(evaluation.query_ids.size)
    order = np.argsort(words)  # sums must not depend on the order of queries, not even in their last bit
    if order.size > _GROUPS:
        drawn = stream.child("groups").per_query(order.size)[:, 0]
        order = order[np.argsort(drawn[order], kind="stable")]  # ids may tell the time, or the market
        starts = np.arange(_GROUPS) * order.size // _GROUPS
        products, shares = (np.add.reduceat(column[order], starts, axis=0) for column in (products, shares))
        words, order = words[order[starts]], np.arange(_GROUPS)
    blocks = -(-evaluation.resamples // 2)
    out = np.empty((2 * blocks, n_metrics))
    work = np.full(blocks, (15.0 + 2.0 * n_metrics) * order.size)
    ranges = np.arange(blocks + 1, dtype=np.int64)
    columns = (products[order], shares[order])
    threads.over_queries(_resample, ranges, stream.key, words[order], *columns, _POISSON, out, work=work)
    return np.where(np.isnan(out), list(evaluation.mean.values()), out)[: evaluation.resamples]


@kernel
def _resample(first, last, offsets, key, words, products, shares, cumulative, out):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Resamples 2·first to 2·last: each query counts as often as Poisson(1) says, for all metrics alike."""
    n_metrics = products.shape[1]
    for block in range(first, last):
        top = np.zeros((2, n_metrics))
        bottom = np.zeros((2, n_metrics))
        for q in range(words.size):
            pair = uniform_pair(key, words[q], 0, block)
            for half in range(2):
                times = 0
                while times < cumulative.size and pair[half] > cumulative[times]:
                    times += 1
                if times:
                    for m in range(n_metrics):
                        top[half, m] += times * products[q, m]
                        bottom[half, m] += times * shares[q, m]
        for half in range(2):
            for m in range(n_metrics):
                out[2 * block + half, m] = top[half, m] / bottom[half, m] if bottom[half, m] > 0 else np.nan
