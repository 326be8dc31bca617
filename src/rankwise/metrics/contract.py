"""What a metric is: a value that prints, compares, and gives one number for each query."""

import math
from abc import ABC, abstractmethod
from dataclasses import is_dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check, grammar
from rankwise.arrays import Array, read_only


class Metric(ABC):
    """A metric is a value: it prints as its name, and is called with scores; larger is better.

    ``metric(scores, labels, offsets)`` gives one number per query, NaN where the query is skipped: it is left out of
    means. A score of −inf means that the document was not retrieved: it has no rank, but is in the list.

    A metric of one's own is a function with these arguments and this result. It is passed wherever a metric is named:
    to ``evaluate``, ``compare``, ``tune``, ``AutoRanker``, ``Spec``, ``metrics=`` of rankers (where the first one
    decides when training stops), ``lightgbm_metric`` and ``xgboost_metric``. It is called by the name of the function,
    or by the function's attribute ``name``. Arguments are checked before, arrays cannot be written to, and query q is
    ``offsets[q]`` to ``offsets[q + 1]``.

    >>> import numpy as np, rankwise as rw
    >>> from itertools import pairwise
    >>> def satisfied(scores, labels, offsets):
    ...     \"\"\"1 if the best document comes first; skips queries without a relevant one.\"\"\"
    ...     lists = [slice(start, end) for start, end in pairwise(offsets)]
    ...     found = [labels[q][np.argmax(scores[q])] == labels[q].max() for q in lists]
    ...     return [hit if labels[q].any() else np.nan for hit, q in zip(found, lists)]
    >>> data = rw.RankingDataset([[0.1], [0.2], [0.3], [0.4], [0.5]], [1, 0, 0, 2, 0], [0, 2, 4, 5])
    >>> rw.evaluate(data.features[:, 0], data, [satisfied, "rr"])
    metric       mean  95% interval  scored  skipped
    satisfied  0.5000  –                  2        1
    rr         0.7500  –                  2        1
    <BLANKLINE>
    Fewer than 3 queries: no interval.

    With settings it is a subclass: it has a ``name`` and defines :meth:`values`. As a dataclass it compares, and prints
    its settings.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Found(rw.Metric):
    ...     name = "found"
    ...     depth: int = 1
    ...
    ...     def values(self, scores, labels, offsets):
    ...         lists = [slice(start, end) for start, end in pairwise(offsets)]
    ...         return [labels[q][np.argsort(-scores[q])[: self.depth]].any() for q in lists]
    >>> rw.evaluate(data.features[:, 0], data, [Found(), Found(depth=2)]).mean
    {'found': 0.3333333333333333, 'found(depth=2)': 0.6666666666666666}

    A saved model holds the name and no code: who resumes its training passes the metric again, or registers it:
    :func:`rankwise.register`.
    """

    name: ClassVar[str]
    """What the metric is called."""
    counts: ClassVar[bool] = False
    """Whether it is a number of things, whose total over all queries says more than the mean."""
    bounds: ClassVar[tuple[float, float]] = (-math.inf, math.inf)
    """The lowest and the highest value that it can have."""

    def __call__(
        self, scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike, judged: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """One number per query.

        ``judged`` says which documents were judged: 1, 0, or −1 for pooled ones that were not; by default all were.
        Most metrics take those that were not for not relevant.
        """
        starts = check.offsets(offsets, np.asarray(labels).size)
        columns = read_only(check.scores(scores, starts)), read_only(check.labels(labels, starts))
        found = self.values(columns[0], columns[1], read_only(starts))
        return check.metric_values(str(self), found, starts.size - 1)

    @abstractmethod
    def values(self, scores: Array, labels: Array, offsets: NDArray[np.int64]) -> ArrayLike:
        """Give one number per query, the larger the better, and NaN for those that are skipped."""

    def __str__(self) -> str:
        options = grammar.arguments(self) if is_dataclass(self) else ""
        return self.name + (f"({options})" if options else "")
