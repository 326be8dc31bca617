"""How large a model may become while it is built: what its files of weights can fill, and not what its settings say."""

import contextlib
import json
import math
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch
from safetensors import safe_open
from torch.nn.modules import module as modules

from rankwise import check
from rankwise.rankers.verify import ForgedError, refusing

_COUNTS = re.compile(r"layer|block|expert|stage|depth|group|head|label")
_NO_COUNT = re.compile(r"size|dim|length|width|token|id$|_at$|every")
_MANY = 1_000  # layers, heads or experts that no settings of a model ask for
_TIED, _NEW_TENSORS, _NEW_ELEMENTS = 2, 64, 1 << 20
"""Parameters may be tied to others, and a head for scores may be new."""
_PACKED = 16  # numbers of a quantized layer for each that is stored, at most
_BUFFER = 1 << 24  # elements of what is no parameter, such as a mask of all positions


class Bounds(NamedTuple):
    """What weights can fill."""

    tensors: int
    """How many parameters."""
    elements: int
    """How many numbers, in all of them."""
    packed: int = 1
    """How many numbers of a layer one that is stored may stand for."""

    @classmethod
    def of(cls, folder: Path) -> Self:
        """Read the headers of the files of weights, whose sizes safetensors holds against those of the files."""
        tensors = elements = 0
        for path in sorted(folder.rglob("*.safetensors")):
            with check.library("weights", path), safe_open(path, framework="pt") as weights:
                shapes = [weights.get_slice(name).get_shape() for name in weights.keys()]  # noqa: SIM118 (no mapping)
            tensors, elements = tensors + len(shapes), elements + sum(map(math.prod, shapes))
        with check.library("a file of the model", folder / "config.json"):
            quantized = "quantization_config" in json.loads((folder / "config.json").read_text(encoding="utf-8"))
        return cls(tensors, elements, _PACKED if quantized else 1)

    def check_counts(self, folder: Path) -> None:
        """Raise where settings ask for more layers, heads, experts or labels than weights can be of.

        Their classes make lists of such lengths before there is a single parameter.
        """
        for path in sorted(folder.rglob("*config*.json")):
            with check.library("a file of the model", path):
                content = json.loads(path.read_text(encoding="utf-8"))
            with refusing():
                self._check(content, path)

    def _check(self, content: Any, path: Path) -> None:
        for key, value in content.items() if isinstance(content, dict) else enumerate(content):
            if isinstance(value, dict | list):
                self._check(value, path)
            counts = isinstance(value, int) and _COUNTS.search(str(key)) and not _NO_COUNT.search(str(key))
            if counts and value > self.tensors + _MANY:
                raise ForgedError(f"{key} = {value:,} for weights of {self.tensors:,} tensors", str(path))

    @contextlib.contextmanager
    def building(self) -> Iterator[None]:
        """Raise while modules are built, once they have more parameters than the weights can fill.

        Parameters are counted when they are registered, before anything is written into their memory.
        """
        owner, count, numel = threading.get_ident(), 0, 0
        tensors = _TIED * self.tensors + _NEW_TENSORS
        elements = _TIED * self.packed * self.elements + _NEW_ELEMENTS

        def parameter(_: object, name: str, one: torch.Tensor | None) -> None:
            nonlocal count, numel
            if one is not None and threading.get_ident() == owner:
                count, numel = count + 1, numel + one.numel()
                if count > tensors or numel > elements:
                    got = f"settings of a model of more than {count - 1:,} tensors and {numel:,} numbers"
                    raise ForgedError(f"{got}, where the weights have {self.tensors:,} and {self.elements:,}", name)

        def buffer(_: object, name: str, one: torch.Tensor | None) -> None:
            if one is not None and threading.get_ident() == owner and one.numel() > elements + _BUFFER:
                raise ForgedError(f"settings that make a table of {one.numel():,} numbers", name)

        hooks = [
            modules.register_module_parameter_registration_hook(parameter),
            modules.register_module_buffer_registration_hook(buffer),
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
