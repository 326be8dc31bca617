"""Distillation: learning the scores of another model, the teacher, instead of labels or beside them.

Both losses depend on differences of scores within a list alone. They are mixed with a loss of labels by a sum,
``0.5*distil + 0.5*lambdarank``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

from numpy.typing import ArrayLike

from rankwise.base.compiling import kernel
from rankwise.base.stream import Stream
from rankwise.check.parameters import Search, Within
from rankwise.objectives.base import Objective
from rankwise.objectives.prepared import PerDocument, Prepared, PreparedKernel, checked_lists, reject_columns, required
from rankwise.objectives.ragged import Derivatives, RaggedLists, Values
from rankwise.objectives.softmax.objectives import ListNet, Newton

_LEAST = 1e-6  # temperature; as far beyond 1, what is left of ρ − φ is rounding


@dataclass(frozen=True, kw_only=True, repr=False)
class Distil(Objective):
    """Cross entropy with the softmax of a teacher's scores, at a temperature (Hinton et al. 2015).

    The target is φ = softmax(teacher / T), the student's ρ = softmax(scores / T), and the loss of a list is
    −T² Σ φ log ρ: its gradient is T (ρ − φ) and its diagonal Hessian ρ (1 − ρ). The factor T² keeps gradients of one
    size whatever the temperature. With a small T only the teacher's first document counts; with a large one the
    gradient becomes (scores − teacher) / n, both less their means: that of :class:`MarginMSE`, but for a factor.

    Labels do not count. The teacher's scores are ``teacher_scores``, one number for each document: those of the data,
    for a ranker. ``newton`` is that of :class:`ListNet`.

    >>> d = Distil(temperature=2.0)([0.0, 0.0], [0, 0], [0, 2], teacher_scores=[2.0, 0.0])
    >>> d.gradient.round(4)  # 2 (1/2 − e/(e + 1)), and its mirror image
    array([-0.4621,  0.4621])
    """

    temperature: Annotated[float, Within(_LEAST, 1.0 / _LEAST), Search("log(0.25, 8.0)")] = 1.0
    newton: Newton = "neumann"
    exact_hessian: ClassVar[bool] = True
    prepares_on_device: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ("teacher_scores",)
    name: ClassVar[str] = "distil"
    paper: ClassVar[str] = "Hinton et al. 2015"

    @property
    def score_scale(self) -> float:
        """The temperature, which scores are divided by."""
        return float(self.temperature)

    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **columns: ArrayLike) -> Prepared:
        """Compute the target distribution."""
        lists, teacher = _checked(self, labels, offsets, columns)
        # ListNet's target is the softmax of labels, which are not negative: the least score of a list becomes 0.
        targets = (teacher - lists.to_documents(lists.minima(teacher))) / self.temperature
        inner = ListNet(newton=self.newton).prepare(targets, lists)  # type: ignore[arg-type]
        if self.temperature == 1.0:
            return inner
        return PreparedTempered(lists=inner.lists, inner=inner, temperature=float(self.temperature))


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
    prepares_on_device: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ("teacher_scores",)
    name: ClassVar[str] = "margin_mse"
    paper: ClassVar[str] = "Hofstätter et al. 2020"

    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **columns: ArrayLike) -> Prepared:
        """Check the teacher's scores."""
        lists, teacher = _checked(self, labels, offsets, columns)
        return PreparedKernel(
            lists=lists,
            objective=self,
            kernel=margins_kernel,
            device_kernel="rankwise.objectives.distil.triton:margins",
            arguments=MarginArguments(teacher),
        )


class MarginArguments(NamedTuple):
    """Arguments of the kernel of squared differences, beside the scores."""

    teacher: PerDocument


def _checked(
    objective: Objective, labels: ArrayLike, offsets: ArrayLike, columns: Mapping[str, ArrayLike]
) -> tuple[RaggedLists, Values]:
    """Return lists, and the teacher's scores of their documents."""
    reject_columns(objective, columns, objective.reads)
    _, lists = checked_lists(labels, offsets)
    otherwise = "train with `rw.distilled(teacher, ranker)|--ranker \"distilled('TEACHER', lightgbm)\"`"
    teacher = required(objective, columns, "the teacher's score of every document", "teacher_score", otherwise)
    return lists, lists.checked("teacher_scores", teacher)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedTempered(Prepared):
    """A loss of scores / T, times T², with its derivatives by the scores."""

    inner: Prepared
    temperature: float

    def fill(self, scores: Values, stream: Stream | None, out: Derivatives) -> None:
        """Multiply the value by T² and first derivatives by T; second ones stay."""
        self.inner.fill(self.lists.as_argument(scores / self.temperature), stream, out)
        out.scale(self.temperature**2, self.temperature, 1.0)


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
