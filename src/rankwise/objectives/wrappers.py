"""Wrappers around any objective: random scores, and weights that the list itself gives."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.metrics.base import Metric
from rankwise.metrics.ideal import gains_and_ideal
from rankwise.objectives.base import Array, Derivatives, Lists, Operators, algebra, drawing, lists, read_only
from rankwise.objectives.fastmath import log
from rankwise.stream import Stream, uniform, uniform_pair
from rankwise.threads import over_queries

_NOISES = ("gumbel", "logistic", "gaussian")
_MEASURES = ("size", "relevant", "ideal_dcg")


@algebra
@dataclass(frozen=True, repr=False)
class stochastic(Operators):  # noqa: N801 (wrappers are adjectives)
    """The expected loss under random scores: the mean of the inner loss over perturbed scores s + scale · noise.

    Algorithm 1 of Bruch et al. (2020). Every loss here is blind to a constant added to a query's scores, so the
    normalisation of the paper's stochastic scores drops out. First and second derivatives are averaged alike; an
    order, such as LambdaRank's, is taken anew on each sample.
    """

    inner: Any
    samples: int = field(default=8, kw_only=True)
    scale: float = field(default=1.0, kw_only=True)
    noise: str = field(default="gumbel", kw_only=True)
    paper: ClassVar[str] = "Bruch et al. 2020"

    def __post_init__(self) -> None:
        check.integer("samples", self.samples, least=1)
        check.number("scale", self.scale, least=0.0)
        check.choice("noise", self.noise, _NOISES)
        check_inner(self.inner, "stochastic")

    @property
    def exact_hessian(self) -> bool:
        """As exact as the inner one, for the noise drawn."""
        return bool(getattr(self.inner, "exact_hessian", False))

    @property
    def estimator(self) -> bool:
        """For given noise the value is differentiable if the inner one is."""
        return bool(getattr(self.inner, "estimator", False))

    def __call__(
        self, scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike, stream: Stream | None = None, **documents: Any
    ) -> Derivatives:
        """Average the inner derivatives over samples."""
        stream = drawing(stream, self)
        given = lists(scores, labels, offsets)
        queries = stream.queries(given.n_queries)
        noisy = np.empty_like(given.scores)
        total: list[Any] = []
        for sample in range(self.samples):
            key = stream.child(0, sample).key
            settings = (key, queries, _NOISES.index(self.noise), float(self.scale), given.scores, noisy)
            over_queries(_perturb, given.offsets, *settings)
            part = self.inner(noisy, given.labels, given.offsets, stream.child(1, sample), **documents)
            if not total:
                own: bool = part.numerator is not part.gradient
                total = [np.array(array, np.float64) for array in (part if own else part[:3])]
            else:
                for sum_, array in zip(total, part, strict=False):
                    sum_ += array
        for sum_ in total:
            sum_ /= self.samples
        return Derivatives(total[0], total[1], total[2], total[-1] if own else total[1])


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _perturb(first, last, offsets, key, queries, noise, scale, scores, noisy):  # type: ignore[no-untyped-def]
    for q in range(first, last):
        start, query = offsets[q], queries[q]
        own, out = scores[start : offsets[q + 1]], noisy[start : offsets[q + 1]]
        if noise < 2:
            for i in range(own.size):  # loops of their own are vectorised better than one that does it all
                out[i] = uniform(key, query, i, 0)
        if noise == 0:
            for i in range(own.size):
                out[i] = own[i] - scale * log(-log(out[i]))
        elif noise == 1:
            for i in range(own.size):
                out[i] = own[i] + scale * log(out[i] / (1.0 - out[i]))
        else:
            for i in range(own.size):
                u, v = uniform_pair(key, query, i, 0)
                out[i] = own[i] + scale * np.sqrt(-2.0 * log(u)) * np.cos(2.0 * np.pi * v)


@algebra
@dataclass(frozen=True, repr=False)
class weighted(Operators):  # noqa: N801 (wrappers are adjectives)
    """The inner loss times a weight that each list gives itself: its size, its relevant documents or its ideal DCG.

    ``power=-1`` divides by it. A list whose measure is 0 gets the weight 0.
    """

    inner: Any
    by: str = field(default="size", kw_only=True)
    power: float = field(default=1.0, kw_only=True)
    paper: ClassVar[str] = ""

    def __post_init__(self) -> None:
        check.choice("measure to weigh by", self.by, _MEASURES)
        check.number("power", self.power)
        check_inner(self.inner, "weighted")

    @property
    def exact_hessian(self) -> bool:
        """As exact as the inner one."""
        return bool(getattr(self.inner, "exact_hessian", False))

    @property
    def estimator(self) -> bool:
        """An estimator if the inner one is."""
        return bool(getattr(self.inner, "estimator", False))

    def __call__(
        self, scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike, stream: Stream | None = None, **documents: Any
    ) -> Derivatives:
        """Multiply the inner derivatives by each list's weight."""
        given = lists(scores, labels, offsets)
        part = self.inner(*given, None if stream is None else stream.child(0), **documents)
        weights = self.weights(given)
        gradient, hessian = (times_lists(weights, array, given.offsets) for array in (part.gradient, part.hessian))
        own = part.numerator is not part.gradient
        numerator = times_lists(weights, part.numerator, given.offsets) if own else gradient
        return Derivatives(part.value * weights, gradient, hessian, numerator)

    def weights(self, given: Lists) -> Array:
        """The weight of each list."""
        if self.by == "size":
            measure: Array = np.diff(given.offsets).astype(np.float64)
        elif self.by == "relevant":
            measure = np.add.reduceat((given.labels > 0).astype(np.float64), given.offsets[:-1])
        else:
            measure = gains_and_ideal(given.labels, given.offsets).dcg
        with np.errstate(divide="ignore"):
            return np.where(measure > 0.0, measure**self.power, 0.0)


def times_lists(factors: Array, array: Array, offsets: NDArray[np.int64]) -> Array:
    """Multiply each list's part of an array by the list's factor."""
    product = np.empty(array.size)
    over_queries(_times, offsets, factors, read_only(array), product)
    return product


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _times(first, last, offsets, factors, array, product):  # type: ignore[no-untyped-def]
    for q in range(first, last):
        factor, own, out = factors[q], array[offsets[q] : offsets[q + 1]], product[offsets[q] : offsets[q + 1]]
        for i in range(own.size):
            out[i] = factor * own[i]


def check_inner(inner: object, wrapper: str) -> None:
    """A wrapper goes around something that can be called like an objective."""
    if not callable(inner) or isinstance(inner, type | Metric):
        raise check.error(
            f"{wrapper} goes around an objective",
            got=repr(inner),
            cure=f"write {wrapper}(XENDCG()) or rw.objective('{wrapper}(xendcg)')",
        )
