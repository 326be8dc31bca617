"""Another goal: an objective that learns from labels by name."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from rankwise.data.columns import check_name, flat, labels_of, nested
from rankwise.objectives.base import MORE_LABELS, Objective, columns_for
from rankwise.objectives.function_objective import as_objective
from rankwise.objectives.prepared import Prepared, checked_lists


@dataclass(frozen=True, repr=False)
class on(Objective):  # noqa: N801 (as wrappers are called)
    """The inner loss of other labels: those called ``label`` in ``more_labels`` of the data.

    Alone it is the inner loss trained on these labels, to the bit. In a sum it is one of several goals: ``xendcg +
    0.3*on(purchase, xendcg)``. The terms of such a sum are put on one scale, as their gradients may differ by
    orders of magnitude: each is multiplied by Σ|gradient| of the first term over its own, both at scores of 0 and
    over all training data by their weights. A weight of 0.3 then is 0.3 times as much pull as that of the first
    term, there. ``ranker.scales_`` are the factors after training. Sums without ``on`` are plain sums.

    >>> from rankwise.objectives import SoftmaxCE
    >>> lists = {"labels": [1, 0], "offsets": [0, 2], "more_labels": {"purchase": [0, 3]}}
    >>> on("purchase", SoftmaxCE())([0.0, 0.0], **lists).gradient
    array([ 0.5, -0.5])
    >>> both = SoftmaxCE() + 0.3 * on("purchase", 100.0 * SoftmaxCE())
    >>> both([0.0, 0.0], **lists).gradient.round(2), both
    (array([-0.35,  0.35]), softmax_ce + 0.3*on(purchase, 100.0*softmax_ce))
    """

    label: str
    inner: Objective
    name: ClassVar[str] = "on"

    def __post_init__(self) -> None:
        check_name("more_labels", self.label)
        object.__setattr__(self, "inner", as_objective(self.inner, self.name))

    @property
    def children(self) -> tuple[Objective, ...]:
        """The inner objective."""
        return (self.inner,)

    @property
    def needs(self) -> tuple[str, ...]:  # type: ignore[override]
        """These labels."""
        return (f"{MORE_LABELS}{self.label}",)

    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **columns: ArrayLike) -> Prepared:
        """Prepare the inner objective with these labels; nothing of this wrapper remains."""
        chosen, further = self.labels_in(columns), columns_for(self.inner, self, columns)
        _, lists = checked_lists(labels, offsets)
        where: Any = offsets if lists.device is None else lists
        return self.inner.prepare(lists.checked("labels", chosen), where, **further)

    def labels_in(self, columns: Mapping[str, Any]) -> Any:
        """Return the labels of this name among the columns of documents."""
        return labels_of(self.label, nested(flat(columns)).get("more_labels"))


def exponential_labels(objective: Objective, name: str | None = None) -> set[str | None]:
    """Return the names of the labels that count by 2^y or e^y in an objective; None for ``labels``.

    >>> import rankwise as rw
    >>> exponential_labels(rw.objective("softmax_ce + on(margin, xendcg) + on(price, lambdarank(gain=linear))"))
    {'margin'}
    """
    name = objective.label if isinstance(objective, on) else name
    inside = set().union(*(exponential_labels(child, name) for child in objective.children))
    return inside | {name} if objective.exponential_gains and not objective.children else inside


def labels_learned(objective: Objective, name: str | None = None) -> set[str | None]:
    """Return the names of all labels that an objective learns from; ``name`` is that of wrappers around it."""
    name = objective.label if isinstance(objective, on) else name
    return set().union(*(labels_learned(child, name) for child in objective.children)) if objective.children else {name}
