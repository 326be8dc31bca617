"""Metrics of scores that are on a device: only the sum of a metric is copied to the host."""

from collections.abc import Callable
from fractions import Fraction
from importlib.util import find_spec
from math import fsum

import numpy as np
import torch

from rankwise.arrays import Array, Offsets
from rankwise.device import to_device
from rankwise.metrics.base import Metric
from rankwise.rankers.training.validation import DeviceMean, DeviceScores

_LIMBS, _BITS = 5, 32
_LARGEST = 2.0**62
"""The limit of the sum of all values' integer parts."""


class NetScores(DeviceScores):
    """Scores in single precision, one for each document."""

    def __init__(self, scores: torch.Tensor) -> None:
        self.scores = scores
        self.finite = scores.isfinite().all()
        self.usable = torch.where(self.finite, scores, 0.0)
        """The scores, or nothing but 0, since kernels count on an order of documents."""
        self._rankings: dict[int, torch.Tensor] = {}

    def measurer(self, metric: Metric, labels: Array, offsets: Offsets, weights: Array | None) -> DeviceMean | None:
        """Return the function that computes the mean of a metric on the device; None where the CPU has to."""
        if find_spec("triton") is None:
            return None
        from rankwise.metrics.triton import DeviceMetric, ranking

        on_device = DeviceMetric.of(metric, labels, offsets, self.scores.device)
        if on_device is None:
            return None
        counted = on_device.scored | np.bool_(not np.isnan(on_device.empty))
        shares = np.where(counted, 1.0 if weights is None else weights, 0.0)
        if max(on_device.most, 1.0) * float(shares.sum()) >= _LARGEST:
            return None
        total, weighted = fsum(shares), to_device(shares, self.scores.device)

        def mean(scores: NetScores) -> float | None:
            ranked = scores.ranked(id(offsets), lambda usable: ranking(on_device.lists, usable))
            values = on_device(scores.usable, ranked)
            sums = _limbs(torch.where(weighted > 0, values * weighted, 0.0))
            *limbs, finite = torch.cat((sums, scores.finite.long()[None])).tolist()  # the one wait for the device
            return float(_number(limbs)) / total if finite else None

        return mean

    def ranked(self, lists: int, ranking: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """Return the ranking of the documents of some lists, which all metrics of them share."""
        if lists not in self._rankings:
            self._rankings[lists] = ranking(self.usable)
        return self._rankings[lists]

    def array(self) -> Array:
        """Copy the scores."""
        return self.scores.double().cpu().numpy()


def _limbs(values: torch.Tensor) -> torch.Tensor:
    """Add up numbers that are not negative, exactly, in any order: their whole parts, then 32 binary places each.

    >>> _limbs(torch.tensor([0.5, 1.25, 3.0], dtype=torch.float64))
    tensor([         4, 3221225472,          0,          0,          0])
    """
    limbs = []
    for _ in range(_LIMBS):
        integers = values.floor()
        limbs.append(integers.long().sum())
        values = (values - integers) * 2.0**_BITS
    return torch.stack(limbs)


def _number(limbs: list[int]) -> Fraction:
    """The sum that :func:`_limbs` found.

    >>> float(_number([4, 3221225472, 0, 0, 0]))
    4.75
    """
    return sum((Fraction(limb, 2 ** (_BITS * place)) for place, limb in enumerate(limbs)), Fraction(0))
