"""A booster of XGBoost that grows."""

from typing import TYPE_CHECKING

import numpy as np

from rankwise import check
from rankwise.base.arrays import Array, Floats, Keywords
from rankwise.models.forests.forest import numbers
from rankwise.models.forests.library_errors import first_line
from rankwise.models.forests.xgboost import content_of, margins, xgboost
from rankwise.rankers.trees.protocol import Derive, Settings
from rankwise.rankers.trees.xgboost.data import XGBoostMatrices, raw_matrix

if TYPE_CHECKING:
    from torch import Tensor
    from xgboost import Booster


class XGBoostGrowth:
    """A booster that grows."""

    def __init__(
        self, settings: Settings, parameters: Keywords, matrices: XGBoostMatrices, start: bytes | None
    ) -> None:
        self.settings, self.matrices, self.train = settings, matrices, matrices.train
        model = None if start is None else bytearray(start)
        if start is not None:  # which has its own: not 0 if it was trained elsewhere
            parameters = {name: value for name, value in parameters.items() if name != "base_score"}
        self.booster: Booster = xgboost().Booster(parameters, [self.train], model_file=model)
        self.trees = 0 if start is None else self.booster.num_boosted_rounds()
        if start is not None and not self._bins_fit():
            self.train = raw_matrix(settings, matrices.data)
        # Of average documents, where the user says nothing: a loss times a constant grows the same trees.
        self.relative = {
            name: share
            for name, share in {"min_child_weight": float(settings.min_documents), "reg_lambda": 1.0}.items()
            if name not in settings.native
        }

    def _bins_fit(self) -> bool:
        """Whether bins tell documents apart as the trees so far do; those of other data have other borders."""
        binned = self.booster.predict(self.train, output_margin=True)
        differ = not np.array_equal(binned, margins(self.booster, self.matrices.data.features))
        return not _total(differ)[0]  # on a worker, of all workers

    def add(self, derive: Derive | None) -> bool:
        """Grow one tree; False if XGBoost found no split for it, unless constants are kept."""
        if derive is None:
            try:
                self.booster.update(self.train, self.trees)
            except xgboost().core.XGBoostError as failed:
                raise check.error(
                    f"XGBoost cannot train with native:{self.settings.builtin}", got=first_line(failed)
                ) from None
        else:
            # Names were compared when the booster was made; to compare them again takes a millisecond.
            scores = self.booster.predict(self.train, output_margin=True, training=True, validate_features=False)
            numerator, hessian = derive(scores)
            average = average_hessian(hessian)
            self.booster.set_param({name: share * average for name, share in self.relative.items()})
            self.booster.boost(self.train, self.trees, grad=numerator, hess=hessian)
        last = self.booster[self.trees : self.trees + 1].get_dump()
        constant = all(tree.count("\n") <= 1 for tree in last)  # which XGBoost keeps
        if constant and not self.settings.keep_constants:
            return False
        self.trees += 1
        return True

    def scores(self, number: int) -> Array:
        """Return the scores of a held-out data set; XGBoost adds the new tree to those that it has."""
        data = self.matrices.held_out[number]
        return numbers(self.booster.predict(data, output_margin=True, validate_features=False))

    def content(self) -> bytes:
        """Return all trees so far as XGBoost's binary JSON."""
        return content_of(self.booster, self.trees)


def average_hessian(hessian: "Floats | Tensor") -> float:
    """Return the mean size of Hessians, over the documents of all workers."""
    size = np.abs(hessian).sum(dtype=np.float64) if isinstance(hessian, np.ndarray) else hessian.abs().double().sum()
    total, count = _total(float(size), hessian.shape[0])
    return float(total / count)


def _total(*values: float) -> Array:
    """Add up numbers over all workers that train together; alone, they stay what they are."""
    collective = xgboost().collective
    numbers = np.array(values, np.float64)
    if collective.is_distributed():
        numbers = collective.allreduce(numbers, collective.Op.SUM)
    return numbers


def queries_before(n_queries: int) -> int:
    """Return how many queries the workers before this one have: numbers of its own would repeat on every worker."""
    collective = xgboost().collective
    if not collective.is_distributed():
        return 0
    rank, counts = collective.get_rank(), np.zeros(collective.get_world_size(), np.int64)
    counts[rank] = n_queries
    return int(collective.allreduce(counts, collective.Op.SUM)[:rank].sum())
