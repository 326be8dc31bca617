"""Where a device plugs in its own version of an objective.

The definition of every objective is the one that runs on the processor. A *twin* computes the same numbers where the
tensors already are; it is an optimisation, pinned to the definition by test. Without a twin tensors travel to the
processor and back, which works everywhere and says so once.
"""

import warnings
from collections.abc import Callable
from typing import Any

Twin = Callable[..., Any]
"""``twin(objective, scores, labels, offsets, stream, **documents)`` gives the tensors ``(value, gradient)``.

It is called like the objective, with the objective itself before: all tensors lie on its device, ``scores`` in single
or double precision and cut from the graph, ``offsets`` checked. It gives the loss of each query and its derivative by
each score, on the same device, or None where it has no kernel for these settings: then the processor does it.
"""

TWINS: dict[tuple[type, str], Twin] = {}
"""The one table of twins: (class of the objective, type of the device, as in ``tensor.device.type``)."""

_warned: set[str] = set()


def twin_of(objective: object, device: str) -> Twin | None:
    """Find the twin of an objective on a type of device."""
    return TWINS.get((type(objective), device))


def warn_of_travel(objective: object, device: str) -> None:
    """Say, once for each type of device, that tensors travel to the processor and back."""
    if device not in _warned:
        _warned.add(device)
        warnings.warn(
            f"{objective!r} has no kernel for the device {device!r}: scores travel to the CPU and gradients back, at "
            "every step. The numbers are the same. This is said once.",
            stacklevel=2,
        )
