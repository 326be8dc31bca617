"""BPR: the pairwise loss of recommendation, a relevant item against the mean of the others."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from rankwise.arrays import read_only
from rankwise.objectives.base import Objective, Prepared
from rankwise.objectives.pairwise.pairwise import Pairwise
from rankwise.objectives.prepared import checked_lists, refuse_columns
from rankwise.objectives.wrappers.weighted import PreparedWeighted


@dataclass(frozen=True, kw_only=True, repr=False)
class BPR(Objective):
    """The logistic loss of relevant documents against drawn others (Rendle et al. 2009): Bayesian personalised ranking.

    Σ over relevant documents of the mean of log(1 + e^{−(s_i − s_j)}) over those that are not: the expected loss of a
    relevant item of the user and one that is drawn among the others on the list, over all such draws at once. A label
    above 0 is relevant. In a factorization: ``FactorizationRanker("bpr", negatives=1, resample=True)``.

    >>> d = BPR()([0.0, 0.0, 0.0], [1, 0, 0], [0, 3])
    >>> d.value.round(4), d.gradient  # log 2, the mean of two pairs
    (array([0.6931]), array([-0.5 ,  0.25,  0.25]))
    """

    exact_hessian: ClassVar[bool] = True
    name: ClassVar[str] = "bpr"
    paper: ClassVar[str] = "Rendle et al. 2009"

    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **documents: ArrayLike) -> Prepared:
        """Count what is not relevant in each list."""
        refuse_columns(self, documents)
        lists = checked_lists(labels, offsets)
        relevant = (lists.labels > 0.0).astype(np.float64)
        others = lists.sums(1.0 - relevant)
        weights = 1.0 / np.maximum(others, 1.0)
        return PreparedWeighted(Pairwise().prepare(relevant, lists.offsets), read_only(weights))
