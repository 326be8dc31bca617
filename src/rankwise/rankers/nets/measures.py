"""Metrics of scores that are on a device: only the value of each query is copied to the host."""

from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
import torch

from rankwise.arrays import Array, Offsets
from rankwise.metrics.base import Metric, weighted_mean
from rankwise.rankers.training.validation import DeviceMean, DeviceScores


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

        def mean(scores: NetScores) -> float | None:
            ranked = scores.ranked(id(offsets), lambda usable: ranking(on_device.lists, usable))
            values = torch.cat((on_device(scores.usable, ranked), scores.finite.double()[None]))
            *by_query, finite = values.cpu().numpy()  # the one wait for the device
            return weighted_mean(np.array(by_query), weights) if finite else None

        return mean

    def ranked(self, lists: int, ranking: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """Return the ranking of the documents of some lists, which all metrics of them share."""
        if lists not in self._rankings:
            self._rankings[lists] = ranking(self.usable)
        return self._rankings[lists]

    def array(self) -> Array:
        """Copy the scores."""
        return self.scores.double().cpu().numpy()
