"""Distillation: learning the scores of another model, the teacher, instead of labels or beside them.

Both losses look at differences of scores within a list alone. They are mixed with a loss of labels by a sum,
``0.5*distil + 0.5*lambdarank``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.arrays import Array, read_only
from rankwise.kernels import kernel
from rankwise.objectives.base import Derivatives, Objective, Prepared
from rankwise.objectives.prepared import Lists, PreparedKernel, checked_lists, refuse_columns
from rankwise.objectives.softmax.losses import ListNet
from rankwise.stream import Stream

_LEAST = 1e-6  # temperature; as far beyond 1, what is left of ρ − φ is rounding


@dataclass(frozen=True, kw_only=True, repr=False)
class Distil(Objective):
    """Cross entropy with the softmax of a teacher's scores, at a temperature (Hinton et al. 2015).

    The target is φ = softmax(teacher / T), the student's ρ = softmax(scores / T), and the loss of a list is
    −T² Σ φ log ρ: its gradient is T (ρ − φ) and its diagonal Hessian ρ (1 − ρ). The factor T² keeps gradients of one
    size whatever the temperature. A small T looks at the teacher's first document alone; with a large one the gradient
    becomes (scores − teacher) / n, both less their means, which is that of :class:`MarginMSE` but for a factor.

    Labels do not count. The teacher's scores are ``teacher_scores``, one number for each document: those of the data,
    for a ranker. ``newton`` is that of :class:`ListNet`.

    >>> d = Distil(temperature=2.0)([0.0, 0.0], [0, 0], [0, 2], teacher_scores=[2.0, 0.0])
    >>> d.gradient.round(4)  # 2 (1/2 − e/(e + 1)), and its mirror image
    array([-0.4621,  0.4621])
    """

    temperature: float = 1.0
    newton: str = "neumann"
    exact_hessian: ClassVar[bool] = True
    reads: ClassVar[tuple[str, ...]] = ("teacher_scores",)
    name: ClassVar[str] = "distil"
    paper: ClassVar[str] = "Hinton et al. 2015"

    def __post_init__(self) -> None:
        check.number("temperature", self.temperature, least=_LEAST, most=1.0 / _LEAST)
        ListNet(newton=self.newton)

    @property
    def score_scale(self) -> float:
        """The temperature, which scores are divided by."""
        return float(self.temperature)

    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **documents: ArrayLike) -> Prepared:
        """Compute the target distribution."""
        lists, teacher = _taught(self, labels, offsets, documents)
        # ListNet's target is the softmax of labels, which are not negative: the least score of a list becomes 0.
        least = np.minimum.reduceat(teacher, lists.offsets[:-1]) if teacher.size else teacher
        targets = (teacher - np.repeat(least, lists.sizes)) / self.temperature
        inner = ListNet(newton=self.newton).prepare(targets, lists.offsets)
        return inner if self.temperature == 1.0 else PreparedTempered(inner, float(self.temperature))


@dataclass(frozen=True, kw_only=True, repr=False)
class MarginMSE(Objective):
    """The squared error of differences of scores to the teacher's, the mean over all pairs (Hofstätter et al. 2020).

    With d = scores − teacher the loss of a list of n documents is the mean over pairs of (d_i − d_j)², which is twice
    the variance of d, 2 Σ (d − d̄)² / (n − 1): no pairs are gone through. Its gradient is 4 (d − d̄) / (n − 1),
    its diagonal Hessian 4 / n. The scores become the teacher's, but for a constant in each list, so that their unit is
    the teacher's too.

    Labels do not count. The teacher's scores are ``teacher_scores``, as in :class:`Distil`.

    >>> d = MarginMSE()([0.0, 0.0, 0.0], [0, 0, 0], [0, 3], teacher_scores=[2.0, 1.0, 0.0])
    >>> d.value, d.gradient  # (1 + 1 + 4) / 3 over three pairs; 4 (d − d̄) / 2
    (array([2.]), array([-2.,  0.,  2.]))
    """

    exact_hessian: ClassVar[bool] = True
    reads: ClassVar[tuple[str, ...]] = ("teacher_scores",)
    name: ClassVar[str] = "margin_mse"
    paper: ClassVar[str] = "Hofstätter et al. 2020"

    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **documents: ArrayLike) -> Prepared:
        """Check the teacher's scores."""
        lists, teacher = _taught(self, labels, offsets, documents)
        return PreparedKernel(
            objective=self, kernel=margins_kernel, offsets=lists.offsets, per_document=(read_only(teacher),)
        )


def _taught(
    objective: Objective, labels: ArrayLike, offsets: ArrayLike, documents: Mapping[str, ArrayLike]
) -> tuple[Lists, Array]:
    """Check lists, and the teacher's scores of their documents."""
    refuse_columns(objective, documents, objective.reads)
    lists = checked_lists(labels, offsets)
    if "teacher_scores" not in documents:
        raise check.error(
            f"{objective.name} needs the teacher's score of every document",
            got="data without teacher scores",
            hint="set teacher_score=…, the column that holds them, where the data are read, or train with teacher=… "
            "(rw.distilled)",
        )
    return lists, check.teacher_scores(documents["teacher_scores"], lists.offsets)


class PreparedTempered(Prepared):
    """A loss of scores / T, times T², with its derivatives by the scores."""

    def __init__(self, inner: Prepared, temperature: float) -> None:
        self.inner, self.temperature, self.offsets = inner, temperature, inner.offsets

    def differentiate(self, scores: Array, stream: Stream | None, hessian: bool) -> Derivatives:
        """Multiply the value by T² and first derivatives by T; second ones stay."""
        found = self.inner.differentiate(read_only(scores / self.temperature), stream, hessian)
        value, gradient = self.temperature**2 * found.value, self.temperature * found.gradient
        own = found.numerator is not found.gradient
        return Derivatives(value, gradient, found.hessian, self.temperature * found.numerator if own else gradient)

    def take(self, queries: NDArray[np.int64]) -> Prepared:
        """Take the queries of the inner loss."""
        return PreparedTempered(self.inner.take(queries), self.temperature)


@kernel
def margins_kernel(first, last, offsets, scores, teacher, value, gradient, hessian):  # type: ignore[no-untyped-def]
    """Fill twice the variance of scores − teacher, and its derivatives."""
    for q in range(first, last):
        start, end = offsets[q], offsets[q + 1]
        n = end - start
        value[q] = 0.0
        mean = 0.0
        for i in range(start, end):
            gradient[i] = scores[i] - teacher[i]
            mean += gradient[i]
        mean /= max(n, 1)
        pairs = max(n - 1, 1)
        for i in range(start, end):
            gap = gradient[i] - mean if n > 1 else 0.0
            value[q] += 2.0 * gap * gap / pairs
            gradient[i] = 4.0 * gap / pairs
            if hessian.size:
                hessian[i] = 4.0 / n if n > 1 else 0.0
