"""Tensors as bytes: safetensors, which holds numbers and names and nothing that could be run."""

import torch

from rankwise import check
from rankwise.arrays import Json
from rankwise.rankers.storage import InvalidModelError, rejecting

Weights = dict[str, torch.Tensor]


def packed(tensors: Weights) -> bytes:
    """Give tensors as the content of a ``.safetensors`` file.

    >>> unpacked(packed({"a": torch.ones(2)}))
    {'a': tensor([1., 1.])}
    """
    library = check.extra("safetensors.torch", "torch")  # noqa: S610
    content: bytes = library.save({name: one.detach().cpu().contiguous() for name, one in tensors.items()})
    return content


def unpacked(content: bytes) -> Weights:
    """Read the content of a ``.safetensors`` file."""
    library = check.extra("safetensors.torch", "torch")  # noqa: S610
    from safetensors import SafetensorError

    try:
        tensors: Weights = library.load(content)
    except (SafetensorError, KeyError, RuntimeError, TypeError, ValueError) as broken:
        raise check.error("the content is not that of a .safetensors file", got=str(broken)) from None
    return tensors


def verify(module: torch.nn.Module, tensors: Weights) -> None:
    """Check that tensors are those of a module: their names, shapes and kinds."""
    wanted = module.state_dict()
    with rejecting():
        for name in {**wanted, **tensors}:
            if name not in tensors or name not in wanted:
                raise InvalidModelError(f"weights {'without' if name in wanted else 'with'} {name!r}")
            ours, theirs = ((tuple(one.shape), one.dtype) for one in (wanted[name], tensors[name]))
            if ours != theirs:
                raise InvalidModelError(f"{theirs[1]} of the shape {theirs[0]} for {name}, which has {ours[0]}")


def fill(module: torch.nn.Module, tensors: Weights) -> None:
    """Give a module its weights."""
    verify(module, tensors)
    module.load_state_dict(tensors)


def with_prefix(prefix: str, tensors: Weights) -> Weights:
    """Name tensors for a file that holds several sets."""
    return {f"{prefix}/{name}": one for name, one in tensors.items()}


def of_prefix(prefix: str, tensors: Weights) -> Weights:
    """Take one set out of a file that holds several."""
    return {name.removeprefix(f"{prefix}/"): one for name, one in tensors.items() if name.startswith(f"{prefix}/")}


def snapshot(module: torch.nn.Module) -> Weights:
    """Copy the weights as they are now, to the CPU."""
    return {name: one.detach().to("cpu", copy=True) for name, one in module.state_dict().items()}


def remembered(optimizer: torch.optim.Optimizer) -> Weights:
    """Copy what an optimizer remembers of each parameter: ``"3.exp_avg"`` is that of the fourth."""
    return {
        f"{number}.{name}": torch.as_tensor(one).detach().to("cpu", copy=True)
        for number, about in optimizer.state_dict()["state"].items()
        for name, one in about.items()
        if one is not None
    }


def recall(optimizer: torch.optim.Optimizer, kept: Weights) -> None:
    """Let an optimizer continue from what it remembered."""
    about: dict[int, Json] = {}
    for key, one in kept.items():
        number, name = key.split(".", 1)
        counts = one.ndim == 0 and not one.is_floating_point()  # a plain number, as SparseAdam counts its steps
        about.setdefault(int(number), {})[name] = one.item() if counts else one.clone()
    optimizer.load_state_dict({"state": about, "param_groups": optimizer.state_dict()["param_groups"]})
