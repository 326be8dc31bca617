"""Guarantees of a loss about a metric: lower bounds that hold for every list and for the mean.

Cross entropy is not only correlated with ranking quality, it bounds it. On binary labels exp(−SoftmaxCE) is at most the
list's reciprocal rank and at most its NDCG (Bruch et al. 2019, theorems 1 to 3); on graded labels exp(−XENDCG) − 1/IDCG
is at most its NDCG for any γ (Bruch 2021, theorem 1). The latter says nothing on most real lists (it is not positive),
so a direct bound stands beside it: NDCG ≥ (Σ(2^y − 1)/IDCG) · exp(−XENDCG at γ = 1), which follows from the same two
inequalities without the detour over the translation.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rankwise import check
from rankwise.base.arrays import Array
from rankwise.objectives import XENDCG, SoftmaxCE
from rankwise.objectives.wrappers import checked_lists


class Guarantee(NamedTuple):
    """A lower bound on one metric."""

    metric: str
    """The expression of the metric that is bounded; compare with ``rw.metric(metric)``."""
    source: str
    """The theorem."""
    bound: Array
    """(n_queries,) lower bound of each list, clipped at 0; NaN where the metric skips the list."""
    mean: float
    """Lower bound of the metric's mean over the lists that it scores, clipped at 0."""
    vacuous: int
    """Number of lists where the bound says nothing because it is not positive."""


def guarantees(scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike) -> list[Guarantee]:
    """Return every lower bound that applies: the binary ones only if all labels are 0 or 1.

    They hold for every order of tied documents.

    >>> for g in guarantees([2.0, 0.0, 1.0], [1, 0, 0], [0, 3]):
    ...     print(f"{g.metric:5} >= {g.mean:.3f}  {g.source}")
    rr    >= 0.665  SoftmaxCE, theorems 1 and 2 (2019)
    ndcg  >= 0.665  SoftmaxCE, theorem 3 (2019)
    ndcg  >= 0.000  XENDCG with tight gamma, theorem 1 (2021)
    ndcg  >= 0.665  XENDCG at gamma = 1, direct
    """
    checked, lists = checked_lists(labels, offsets)
    gains, ideal_dcg = lists.gains_and_ideal(checked)
    total = lists.sums(gains)
    scored = total > 0.0
    if not scored.any():
        raise check.error("no list has a relevant document, so there is nothing to guarantee")
    bounds: list[tuple[str, str, Array, float]] = []
    if np.isin(checked, (0.0, 1.0)).all():
        loss = SoftmaxCE()(scores, checked, lists.offsets).value
        for metric, theorem in (("rr", "theorems 1 and 2"), ("ndcg", "theorem 3")):
            bounds.append((metric, f"SoftmaxCE, {theorem} (2019)", np.exp(-loss), np.exp(-loss[scored].mean())))
    with np.errstate(divide="ignore", invalid="ignore"):
        loss, inverse = XENDCG(gamma="tight")(scores, checked, lists.offsets).value, 1.0 / ideal_dcg
        mean = np.exp(-loss[scored].mean()) - inverse[scored].mean()
        bounds.append(("ndcg", "XENDCG with tight gamma, theorem 1 (2021)", np.exp(-loss) - inverse, mean))
        bound = total / ideal_dcg * np.exp(-XENDCG(gamma="one")(scores, checked, lists.offsets).value)
        bounds.append(("ndcg", "XENDCG at gamma = 1, direct", bound, bound[scored].mean()))
    return [
        Guarantee(
            metric=metric,
            source=source,
            bound=np.where(scored, np.maximum(bound, 0.0), np.nan),
            mean=max(float(mean), 0.0),
            vacuous=int((bound[scored] <= 0.0).sum()),
        )
        for metric, source, bound, mean in bounds
    ]
