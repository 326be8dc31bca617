"""One step of a net: from a part of a batch to gradients of the module's parameters."""

from typing import TYPE_CHECKING

import numpy as np
import torch

from rankwise.device import to_device
from rankwise.objectives.autograd import PreparedLoss
from rankwise.objectives.prepared import has_kernels
from rankwise.rankers.nets.batches import Part

if TYPE_CHECKING:
    from rankwise.rankers.nets.learner import NetLearner


class Step:
    """Computes gradients, part after part, and adds up losses for an epoch.

    No number is asked of the device, which would have to finish first what it was told: the host runs ahead of it and
    prepares the next part meanwhile. What an epoch adds up stays on the device until :meth:`totals` are read.
    """

    def __init__(self, learner: "NetLearner", prepared: PreparedLoss) -> None:
        self.learner, self.prepared, self.weight = learner, prepared, 0.0
        self.loss = torch.zeros((), dtype=torch.float64, device=learner.device)
        self.moved = torch.zeros((), dtype=torch.int32, device=learner.device)

    def __call__(self, part: Part, divisor: float) -> None:
        """Leave the gradients of Σ weight · loss / ``divisor`` in the module's parameters."""
        learner, training = self.learner, bool(part.offsets[-1] > 1)
        if learner.module.training != training:
            learner.module.train(training)  # a single document has no spread to be normalised by
        mixed = learner.precision == "bf16"
        # Each weight is used once, so a cache gains nothing; left open by an interruption it would hold old weights.
        with torch.autocast(learner.device.type, torch.bfloat16, enabled=mixed, cache_enabled=False):
            scores: torch.Tensor = (learner.forward or learner.module)(*learner.inputs(part)).float()
        members = scores.numel() // max(scores.shape[0], 1)
        self.weight += float(part.weights.sum())
        if members == 1 and part.data.weights is None and has_kernels(learner.device.type):
            flat, loss = scores.detach().reshape(-1), self.prepared.take(part.queries)
            total, gradient = loss.total(flat, part.stream, 1.0 / divisor, self.moved)
            self.loss.add_(total, alpha=divisor)
            learner.backward(scores, gradient.reshape(scores.shape))
            return
        values, gradient = self._derivatives(part, scores.detach(), members)
        # The chain rule by hand: it is two numbers for each query, for which torch would launch a dozen kernels.
        gradient *= _factors(part, divisor, members, learner.device)
        learner.backward(scores, gradient.reshape(members, -1).T.reshape(scores.shape))
        self.loss += values.double() @ _weights(part, learner.device)
        self.moved |= gradient.any()

    def totals(self) -> torch.Tensor:
        """The loss and the weight of all queries, and whether there was any gradient."""
        return torch.stack((self.loss, torch.full_like(self.loss, self.weight), self.moved.double()))

    def _derivatives(self, part: Part, scores: torch.Tensor, members: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The loss of each query, and the derivative of each member's by its scores, one member after the other.

        With members a query's loss is the mean of theirs, all of which see the same random numbers.
        """
        count = part.queries.size
        if members == 1:
            return self.prepared.take(part.queries).differentiate(scores.reshape(-1), part.stream)
        again = np.tile(np.arange(count), members)
        every = self.prepared.take(part.queries[again])
        values, gradient = every.differentiate(scores.T.reshape(-1), part.stream.take(again, count))
        return values.reshape(members, count).mean(0), gradient


def _weights(part: Part, device: torch.device) -> torch.Tensor:
    if part.data.weights is None:
        return torch.ones(part.queries.size, dtype=torch.float64, device=device)
    return to_device(part.weights, device)


def _factors(part: Part, divisor: float, members: int, device: torch.device) -> torch.Tensor | float:
    """What a query's loss counts, weight / divisor / members, for each document of each member; or the same for all."""
    if part.data.weights is None:
        return float(np.float32(1.0 / divisor) / np.float32(members))
    factors = (1.0 / divisor * part.weights).astype(np.float32) / np.float32(members)
    return to_device(np.tile(np.repeat(factors, np.diff(part.offsets)), members), device)
