"""The average of a net's weights over its steps: it scores better than the last weights, which still jump about."""

import contextlib
from collections.abc import Iterator

import torch

from rankwise.rankers.nets.weights import Weights

_STEPS = "steps"


class Averages:
    """An exponential moving average of parameters: each step counts ``decay`` times as much as the one after it.

    After t steps it is Σ decay^(t − i) · weights of step i / Σ decay^(t − i), so that the first weights, which nothing
    was learned into, have no part in it. Running statistics are moving averages already, and are taken as they are.

    >>> net = torch.nn.Linear(1, 1, bias=False)
    >>> averages = Averages(net, decay=0.5)
    >>> for weight in (4.0, 7.0):
    ...     _ = net.weight.data.fill_(weight)
    ...     averages.step()
    >>> with averages.inside():
    ...     net.weight.data  # (0.5 · 4 + 7) / 1.5
    tensor([[6.]])
    >>> net.weight.data
    tensor([[7.]])
    """

    def __init__(self, module: torch.nn.Module, decay: float) -> None:
        self.module, self.decay, self.steps = module, decay, 0
        self.weights = {name: one.detach().clone() for name, one in module.named_parameters()}
        self._last: list[torch.Tensor] = list(module.parameters())

    @torch.no_grad()
    def step(self) -> None:
        """Take in the weights as they are after a step."""
        self.steps += 1
        share = (1 - self.decay) / (1 - self.decay**self.steps)
        # All at once: on a device a launch for each of many small tensors takes longer than what it does.
        torch._foreach_lerp_(list(self.weights.values()), self._last, share)

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Let the module have the averages for a while."""
        last = {name: one.detach().clone() for name, one in self.module.named_parameters()}
        self._put(self.weights)
        try:
            yield
        finally:
            self._put(last)

    @torch.no_grad()
    def _put(self, weights: Weights) -> None:
        for name, one in self.module.named_parameters():
            one.copy_(weights[name])

    def remembered(self) -> Weights:
        """Everything that the next step depends on."""
        return {name: one.cpu() for name, one in self.weights.items()} | {_STEPS: torch.tensor(self.steps)}

    def recall(self, kept: Weights) -> None:
        """Continue from what was remembered."""
        self.steps = int(kept[_STEPS])
        for name, one in self.weights.items():
            one.copy_(kept[name])
