"""An objective of one's own, fast and with everything that ours have: the squared hinge of every pair.

python examples/squared_hinge.py
"""

from dataclasses import dataclass
from typing import ClassVar

import rankwise as rw
from rankwise.compiling import kernel
from rankwise.objectives.prepared import PreparedKernel, checked_lists, refuse_columns


@dataclass(frozen=True, kw_only=True, repr=False)
class SquaredHinge(rw.Objective):
    """Σ max(0, margin − (s_i − s_j))² over pairs of one list with y_i > y_j."""

    margin: float = 1.0
    exact_hessian: ClassVar[bool] = True
    name: ClassVar[str] = "squared_hinge"

    def prepare(self, labels, offsets, **documents):
        refuse_columns(self, documents)
        lists = checked_lists(labels, offsets)
        columns = {"per_document": (lists.labels,), "settings": (float(self.margin),)}
        return PreparedKernel(objective=self, kernel=squared_hinge, offsets=lists.offsets, **columns)


@kernel
def squared_hinge(first, last, offsets, scores, labels, margin, value, gradient, hessian):
    for q in range(first, last):
        start, stop = offsets[q], offsets[q + 1]
        value[q], gradient[start:stop] = 0.0, 0.0
        hessian[start:stop] = 0.0  # nothing happens where the Hessian was not asked for: it is empty then
        for i in range(start, stop):
            for j in range(start, stop):
                gap = margin - (scores[i] - scores[j])
                if labels[i] > labels[j] and gap > 0.0:
                    value[q] += gap * gap
                    gradient[i] -= 2.0 * gap
                    gradient[j] += 2.0 * gap
                    if hessian.size:
                        hessian[i] += 2.0
                        hessian[j] += 2.0


if __name__ == "__main__":
    print(rw.check_objective(SquaredHinge()))
    train, valid = rw.split(rw.synthetic(n_queries=200, n_features=10, seed=1), (0.7, 0.3), seed=0)
    ranker = rw.LightGBMRanker(0.5 * SquaredHinge() + rw.XENDCG(), rounds=50).fit(train, valid)
    print(rw.evaluate(ranker, valid, ["ndcg@10"]))
