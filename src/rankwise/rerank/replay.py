"""The conditions under which a mini-batch was scored, so that it can be scored once more to the same numbers."""

import contextlib
from collections.abc import Iterator

import torch


class RandomState:
    """The state of torch's random number generators, of the CPU and of all devices in use, when this was made.

    Dropout draws the same masks again inside ``with state.again():``; behind it generators go on as if nothing was.
    """

    def __init__(self) -> None:
        self._states = [(generator, generator.get_state()) for generator in _generators()]

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """Draw what was drawn from here on."""
        outside = [(generator, generator.get_state()) for generator, _ in self._states]
        try:
            for generator, state in self._states:
                generator.set_state(state)
            yield
        finally:
            for generator, state in outside:
                generator.set_state(state)


class Precision:
    """The autocast in force when this was made: the backward pass is run outside of it, often in another thread."""

    def __init__(self) -> None:
        self._settings = [
            (kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind)) for kind in _autocast_devices()
        ]
        self._cached = torch.is_autocast_cache_enabled()

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """Cast as then, and not at all if that was so."""
        with contextlib.ExitStack() as stack:
            for kind, dtype, enabled in self._settings:
                stack.enter_context(torch.autocast(kind, dtype=dtype, enabled=enabled, cache_enabled=self._cached))
            yield


@contextlib.contextmanager
def full_precision() -> Iterator[None]:
    """Cast nothing: the loss is computed in the precision of the scores that it is given."""
    with contextlib.ExitStack() as stack:
        for kind in _autocast_devices():
            stack.enter_context(torch.autocast(kind, enabled=False))
        yield


def _autocast_devices() -> list[str]:
    accelerator = torch.accelerator.current_accelerator()
    kinds = ["cpu"] if accelerator is None else ["cpu", accelerator.type]
    return [kind for kind in kinds if torch.amp.is_autocast_available(kind)]


def _generators() -> list[torch.Generator]:
    """Every generator that a model may draw from; those of devices exist once the device is in use."""
    found = [torch.default_generator]
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        found += torch.cuda.default_generators
    if torch.xpu.is_initialized():  # type: ignore[no-untyped-call]
        found += torch.xpu.default_generators
    if torch.backends.mps.is_available():
        found.append(torch.mps._get_default_mps_generator())
    return found
