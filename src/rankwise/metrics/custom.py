"""Metrics of one's own: functions, and subclasses of ``Metric``."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check, registry
from rankwise.arrays import Array
from rankwise.metrics.contract import Metric

MetricFunction = Callable[[Array, Array, NDArray[np.int64]], ArrayLike]
"""From scores, labels and offsets to one number per query."""

_LOSS = "loss"  # what a history has beside metrics


@dataclass(frozen=True, repr=False)
class FunctionMetric(Metric):
    """A function as a metric."""

    name: ClassVar[str] = "function"
    function: MetricFunction

    def values(self, scores: Array, labels: Array, offsets: NDArray[np.int64]) -> ArrayLike:
        """Call the function."""
        return self.function(scores, labels, offsets)

    def __str__(self) -> str:
        own = registry.name_of(self.function) or getattr(self.function, "name", None)
        return str(own or getattr(self.function, "__name__", ""))

    __repr__ = __str__


def checked_name(metric: Metric, known: Callable[[str], Metric | None]) -> Metric:
    """Refuse a metric of one's own that has no name, or the name of something else: files and tables go by names.

    ``known`` gives the metric that a name stands for already.
    """
    name = str(metric) if hasattr(metric, "name") else ""
    if not name.isprintable() or not name or name.startswith("<"):
        raise check.error(
            "a metric needs a name",
            got=repr(getattr(metric, "function", metric)),
            hint="define it with def, or give it an attribute name",
        )
    other = known(name)
    is_same = other == metric or (type(other) is type(metric) and bool(registry.name_of(type(metric))))
    if name == _LOSS or (other is not None and not is_same):
        what = "a metric of one's own has the name of something else"
        raise check.error(what, got=repr(name), hint="rename the function, or give it an attribute name")
    return metric
