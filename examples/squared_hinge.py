"""An objective of one's own, fast and with everything that ours have: the squared hinge of every pair.

python examples/squared_hinge.py

The kernel for the CPU is all that is needed. One for GPUs is in ``squared_hinge_gpu.py`` beside this file: without it
losses on a GPU are computed on the CPU, with a warning.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import rankwise as rw
from rankwise.base.compiling import kernel
from rankwise.objectives.prepared import PerDocument, PreparedKernel, checked_lists, reject_columns


class Arguments(NamedTuple):
    """What the kernels read beside the scores, by name; a mini-batch takes its documents' part of the labels."""

    labels: PerDocument
    margin: float


@dataclass(frozen=True, kw_only=True, repr=False)
class SquaredHinge(rw.Objective):
    """Σ max(0, margin − (s_i − s_j))² over pairs of one query with y_i > y_j."""

    margin: float = 1.0
    exact_hessian: ClassVar[bool] = True
    prepares_on_device: ClassVar[bool] = True
    name: ClassVar[str] = "squared_hinge"

    def prepare(self, labels: Any, offsets: Any, **columns: Any) -> rw.objectives.Prepared:
        reject_columns(self, columns)
        labels, lists = checked_lists(labels, offsets)
        arguments = Arguments(labels, float(self.margin))
        kernels = {"kernel": squared_hinge, "device_kernel": "squared_hinge_gpu:squared_hinge"}
        return PreparedKernel(objective=self, lists=lists, arguments=arguments, **kernels)


@kernel
def squared_hinge(first, last, offsets, scores, labels, margin, value, gradient, hessian):
    for q in range(first, last):
        start, stop = offsets[q], offsets[q + 1]
        value[q], gradient[start:stop] = 0.0, 0.0
        hessian[start:stop] = 0.0  # empty where no Hessian is wanted
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
    print(rw.objectives.check_objective(SquaredHinge()))
    train, valid = rw.split(rw.synthetic(n_queries=200, n_features=10, seed=1), (0.7, 0.3), seed=0)
    ranker = rw.LightGBMRanker(0.5 * SquaredHinge() + rw.objectives.XENDCG(), rounds=50).fit(train, valid)
    print(rw.evaluate(ranker, valid, ["ndcg@10"]))
