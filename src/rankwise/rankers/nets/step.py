"""One step of a net: from a part of a batch to gradients of the module's parameters."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rankwise.objectives.torch.kernels.lists import to_device
from rankwise.objectives.torch.loss import PreparedLoss
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
        self.moved = torch.zeros((), dtype=torch.bool, device=learner.device)

    def __call__(self, part: Part, divisor: float) -> None:
        """Leave the gradients of Σ weight · loss / ``divisor`` in the module's parameters."""
        learner, weights = self.learner, part.weights
        learner.module.train(bool(part.offsets[-1] > 1))  # a single document has no spread to be normalised by
        mixed = learner.precision == "bf16"
        # Each weight is used once, so a cache gains nothing; left open by an interruption it would hold old weights.
        with torch.autocast(learner.device.type, torch.bfloat16, enabled=mixed, cache_enabled=False):
            scores: torch.Tensor = (learner.forward or learner.module)(*learner.inputs(part)).float()
        scores.retain_grad()
        values: Any = self._values(part, scores)
        total = values.double() @ to_device(weights, learner.device)
        (total / divisor).backward()
        self.loss += total.detach()
        self.weight += float(weights.sum())
        if scores.grad is not None:
            self.moved |= scores.grad.any()

    def totals(self) -> torch.Tensor:
        """The loss and the weight of all queries, and whether there was any gradient."""
        return torch.stack((self.loss, torch.full_like(self.loss, self.weight), self.moved.double()))

    def _values(self, part: Part, scores: torch.Tensor) -> Any:
        """The loss of each query: with members the mean of theirs, all of which see the same random numbers."""
        count = part.queries.size
        members = scores.numel() // max(scores.shape[0], 1)
        if members == 1:
            return self.prepared.take(part.queries)(scores.reshape(-1), stream=part.stream)
        again = np.tile(np.arange(count), members)
        every = self.prepared.take(part.queries[again])
        return every(scores.T.reshape(-1), stream=part.stream.take(again, count)).reshape(members, count).mean(0)
