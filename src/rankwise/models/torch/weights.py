"""Weights of nets: as bytes of safetensors, which hold no code, and their average over steps."""

import contextlib
from collections.abc import Iterator

import torch

from rankwise import check
from rankwise.base.arrays import Json
from rankwise.models.storage import InvalidModelError, rejecting

MODEL = "model.safetensors"
"""The file of a model's weights."""
Weights = dict[str, torch.Tensor]
_STEPS = "steps"


def packed(tensors: Weights) -> bytes:
    """Return tensors as the content of a ``.safetensors`` file.

    >>> unpacked(packed({"a": torch.ones(2)}))
    {'a': tensor([1., 1.])}
    """
    library = check.optional("safetensors.torch", "torch")
    content: bytes = library.save({name: one.detach().cpu().contiguous() for name, one in tensors.items()})
    return content


def unpacked(content: bytes) -> Weights:
    """Read the content of a ``.safetensors`` file."""
    library = check.optional("safetensors.torch", "torch")
    from safetensors import SafetensorError

    try:
        tensors: Weights = library.load(content)
    except (SafetensorError, KeyError, RuntimeError, TypeError, ValueError) as broken:
        raise check.error("the content is not that of a .safetensors file", got=str(broken)) from None
    return tensors


def verify(module: torch.nn.Module, tensors: Weights) -> None:
    """Raise if tensors are not those of a module: names, shapes and dtypes."""
    expected = module.state_dict()
    with rejecting():
        for name in {**expected, **tensors}:
            if name not in tensors or name not in expected:
                raise InvalidModelError(f"weights {'without' if name in expected else 'with'} {name!r}")
            ours, theirs = ((tuple(one.shape), one.dtype) for one in (expected[name], tensors[name]))
            if ours != theirs:
                raise InvalidModelError(f"{theirs[1]} of the shape {theirs[0]} for {name}, which has {ours[0]}")


def fill(module: torch.nn.Module, tensors: Weights) -> None:
    """Load weights into a module."""
    verify(module, tensors)
    module.load_state_dict(tensors)


def with_prefix(prefix: str, tensors: Weights) -> Weights:
    """Name tensors for a file that holds several sets."""
    return {f"{prefix}/{name}": one for name, one in tensors.items()}


def of_prefix(prefix: str, tensors: Weights) -> Weights:
    """Return one set of a file that holds several."""
    return {name.removeprefix(f"{prefix}/"): one for name, one in tensors.items() if name.startswith(f"{prefix}/")}


def snapshot(module: torch.nn.Module) -> Weights:
    """Copy the weights as they are now, to the CPU."""
    return {name: one.detach().to("cpu", copy=True) for name, one in module.state_dict().items()}


def remembered(optimizer: torch.optim.Optimizer) -> Weights:
    """Copy an optimizer's state of each parameter: ``"3.exp_avg"`` is that of the fourth."""
    return {
        f"{number}.{name}": torch.as_tensor(one).detach().to("cpu", copy=True)
        for number, state in optimizer.state_dict()["state"].items()
        for name, one in state.items()
        if one is not None
    }


def recall(optimizer: torch.optim.Optimizer, tensors: Weights) -> None:
    """Load the state that :func:`remembered` copied into an optimizer."""
    states: dict[int, Json] = {}
    for key, one in tensors.items():
        number, name = key.split(".", 1)
        counts = one.ndim == 0 and not one.is_floating_point()  # a plain number, as SparseAdam counts its steps
        states.setdefault(int(number), {})[name] = one.item() if counts else one.clone()
    optimizer.load_state_dict({"state": states, "param_groups": optimizer.state_dict()["param_groups"]})


class Averages:
    """An exponential moving average of parameters: each step counts ``decay`` times as much as the one after it.

    After t steps it is Σ decay^(t − i) · weights of step i / Σ decay^(t − i), so that the initial weights
    have no part in it. Running statistics are moving averages already, and stay as they are.

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
        """Add the weights after a step."""
        self.steps += 1
        share = (1 - self.decay) / (1 - self.decay**self.steps)
        # All at once: on a device a launch for each of many small tensors takes longer than what it does.
        torch._foreach_lerp_(list(self.weights.values()), self._last, share)

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Use the averages as the module's weights within a block."""
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
        """Return everything that the next step depends on."""
        return {name: one.cpu() for name, one in self.weights.items()} | {_STEPS: torch.tensor(self.steps)}

    def recall(self, tensors: Weights) -> None:
        """Continue from the tensors of :meth:`remembered`."""
        self.steps = int(tensors[_STEPS])
        for name, one in self.weights.items():
            one.copy_(tensors[name])
