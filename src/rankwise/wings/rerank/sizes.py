"""Limits on the size of a model while it is built: those of its files of weights, whatever its configuration says."""

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
from rankwise.models import InvalidModelError, rejecting

# Names of numbers in a configuration that count layers, heads, experts or labels.
_COUNTS = re.compile(r"layer|block|expert|stage|depth|group|head|label")
_NO_COUNT = re.compile(r"size|dim|length|width|token|id$|_at$|every")
_MANY = 1_000  # layers, heads or experts beyond those of any model
_TIED, _NEW_TENSORS, _NEW_ELEMENTS = 2, 64, 1 << 20
"""Allowance for parameters that are tied to others, and for a new head."""
_PACKED = 16  # numbers of a quantized layer per stored number, at most
_BUFFER = 1 << 24  # elements of a buffer, such as a mask of all positions


def config_entries(folder: Path, pattern: str) -> Iterator[tuple[Path, str, object]]:
    """Iterate over all names and values in the JSON files of a model, but for those of vocabularies and weights."""
    for path in sorted(folder.rglob(pattern)):
        if path.name in ("tokenizer.json", "vocab.json") or path.name.endswith(".index.json"):
            continue
        with check.library("a file of the model", path):
            nested: list[Any] = [[json.loads(path.read_text(encoding="utf-8"))]]
        while nested:
            content = nested.pop()
            for key, value in content.items() if isinstance(content, dict) else enumerate(content):
                yield path, str(key), value
                if isinstance(value, dict | list):
                    nested.append(value)


class SizeLimits(NamedTuple):
    """Size of the weights in a folder."""

    tensors: int
    """Number of parameters."""
    elements: int
    """Number of elements of all parameters."""
    packed: int = 1
    """Elements of a layer per stored element, at most."""

    @classmethod
    def of(cls, folder: Path) -> Self:
        """Read the headers of the files of weights; safetensors compares them with the sizes of the files.

        Raises where a configuration has more layers, heads, experts or labels than the weights can have: classes of
        models build lists of such lengths before there is a single parameter.
        """
        tensors = elements = 0
        for path in sorted(folder.rglob("*.safetensors")):
            with check.library("weights", path), safe_open(path, framework="pt") as weights:
                shapes = [weights.get_slice(name).get_shape() for name in weights.keys()]  # noqa: SIM118 (no mapping)
            tensors, elements = tensors + len(shapes), elements + sum(map(math.prod, shapes))
        with rejecting():
            for path, key, value in config_entries(folder, "*config*.json"):
                is_count = _COUNTS.search(key) and not _NO_COUNT.search(key)
                if is_count and isinstance(value, int) and value > tensors + _MANY:
                    raise InvalidModelError(f"{key} = {value:,} for weights of {tensors:,} tensors", str(path))
        with check.library("a file of the model", folder / "config.json"):
            quantized = "quantization_config" in json.loads((folder / "config.json").read_text(encoding="utf-8"))
        return cls(tensors, elements, _PACKED if quantized else 1)

    @contextlib.contextmanager
    def building(self) -> Iterator[None]:
        """Raise within the context as soon as modules have more parameters than the weights can fill.

        Parameters are counted when they are registered, before anything is written into their memory.
        """
        owner, count, numel = threading.get_ident(), 0, 0
        tensors = _TIED * self.tensors + _NEW_TENSORS
        elements = _TIED * self.packed * self.elements + _NEW_ELEMENTS

        def parameter(_: object, name: str, tensor: torch.Tensor | None) -> None:
            nonlocal count, numel
            if tensor is not None and threading.get_ident() == owner:
                count, numel = count + 1, numel + tensor.numel()
                if count > tensors or numel > elements:
                    got = f"settings of a model of more than {count - 1:,} tensors and {numel:,} numbers"
                    raise InvalidModelError(
                        f"{got}, where the weights have {self.tensors:,} and {self.elements:,}", name
                    )

        def buffer(_: object, name: str, tensor: torch.Tensor | None) -> None:
            if tensor is not None and threading.get_ident() == owner and tensor.numel() > elements + _BUFFER:
                raise InvalidModelError(f"settings that make a table of {tensor.numel():,} numbers", name)

        hooks = [
            modules.register_module_parameter_registration_hook(parameter),
            modules.register_module_buffer_registration_hook(buffer),
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
