"""Cross-encoders of sentence-transformers, and how to open one without running code from its folder.

Weights must be safetensors, which hold numbers and names: pickles are neither downloaded nor read. Code that a model
brings along is rejected (``trust_remote_code`` stays off), and files that name classes are checked before a model is
built: modules must be sentence-transformers' own, and activations those of ``torch.nn``. The configuration must fit the
weights (see :mod:`rankwise.wings.rerank.encoders`): a number in it could otherwise build layers until memory ends.
"""

import contextlib
import json
import logging
import math
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, cast

import torch
from safetensors import safe_open
from torch.nn.modules import module as modules

from rankwise import Stream, check
from rankwise.base.threads import openmp
from rankwise.models import InvalidModelError, one_thread, own_randomness, rejecting, seed_torch, usable_device
from rankwise.rankers import seed_of
from rankwise.wings.rerank.batches import Features

if TYPE_CHECKING:
    from rankwise.wings.rerank.reranker import RerankerSettings

Pair = tuple[str, str]
"""A query and a document."""
DOWNLOADED = ("*.json", "*.txt", "*.model", "*.jinja", "*.safetensors")
"""Files of a model on the Hub that are downloaded: texts, tokenizers and numbers."""
_ACTIVATION = re.compile(r"torch\.nn\.modules\.(activation|linear)\.[A-Z]\w*")
_MODULE = re.compile(r"sentence_transformers(\.[a-z_]\w*)*\.[A-Z]\w*")
_PICKLED = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.ckpt")
_HEADS = ("ForSequenceClassification", "ForCausalLM")


class PairScorer(Protocol):
    """A cross-encoder, or the module that a trainer wraps around it."""

    def preprocess(self, inputs: list[Pair], /, **settings: str | None) -> Features:
        """Return the features of pairs, padded to the longest."""
        ...

    def __call__(self, features: dict[str, object], /) -> object:
        """Return the scores of a mini-batch, in one of the forms that :func:`rankwise.rerank.two_passes` reads."""
        ...


class CrossEncoder(PairScorer, Protocol):
    """The members of sentence-transformers' ``CrossEncoder`` that are used here, beside those of a module."""

    activation_fn: torch.nn.Module
    device: torch.device
    max_seq_length: int | None
    num_labels: int

    def save_pretrained(self, path: str, /, *, create_model_card: bool) -> None:
        """Write a Hugging Face folder."""
        ...


def module_of(encoder: CrossEncoder) -> torch.nn.Module:
    """Return a cross-encoder as the ``torch.nn.Module`` that it is."""
    return cast("torch.nn.Module", encoder)


def folder_of(name: str | Path) -> Path:
    """Return the folder of a model, downloaded first if ``name`` is that of a model on the Hugging Face Hub."""
    folder = Path(name)
    if folder.is_dir():
        return folder
    if isinstance(name, Path) or folder.is_absolute() or name.startswith(".") or name.count("/") > 1:
        raise FileNotFoundError(f"there is no model {check.printable(check.address(str(folder)))}.")
    hub: Any = check.optional("huggingface_hub", "rerank")
    try:
        return Path(hub.snapshot_download(name, allow_patterns=list(DOWNLOADED)))
    except (OSError, ValueError) as failed:
        raise check.error(
            "there is no such folder, and no such model could be had from the Hugging Face Hub",
            got=f"{name!r} ({type(failed).__name__})",
            hint="pass the folder of a model, or download it where there is a network",
        ) from failed


def verify(folder: Path) -> None:
    """Reject a folder whose files would run code: pickled weights, classes of its own, classes that are no layers."""
    for path, key, value in config_entries(folder, "*.json"):
        runs_code = (
            (key == "auto_map" and bool(value))
            or ("activation_f" in key and isinstance(value, str) and "." in value and not _ACTIVATION.fullmatch(value))
            or (key == "type" and path.name == "modules.json" and not _MODULE.fullmatch(str(value)))
        )
        if runs_code:
            raise check.error(
                "the model brings code of its own, which is not run",
                got=f"{key}: {json.dumps(value)[:120]}",
                where=str(path),
                hint="use a model whose classes are those of transformers and sentence-transformers",
            )
    for subfolder in {pickled.parent for pattern in _PICKLED for pickled in folder.rglob(pattern)}:
        if not any(subfolder.glob("*.safetensors")) and any(subfolder.glob("pytorch_model*.bin")):
            raise check.error(
                "weights must be safetensors, since pickles can run anything",
                got="pytorch_model.bin",
                where=str(subfolder),
                hint="save the model anew with save_pretrained, in an environment of its own if it is not yours",
            )


def check_head(folder: Path) -> None:
    """Raise where a model has no head for scores: the one that it gets is random, and must be trained first."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if not any(str(name).endswith(_HEADS) for name in config.get("architectures") or ()):
        raise check.error(
            "this Reranker is not trained yet, and its model has no head for scores",
            got=f"architectures {config.get('architectures')}",
            where=str(folder),
            hint="call fit first, or begin from a cross-encoder",
        )


def open_model(settings: "RerankerSettings") -> CrossEncoder:
    """Open the model that training begins from; its scores are logits, and a missing head comes from the seed."""
    library: Any = check.optional("sentence_transformers", "rerank")
    device = str(usable_device(settings.device))
    if not isinstance(settings.model, str | Path):
        encoder: CrossEncoder = settings.model
        module_of(encoder).to(device)
        encoder.activation_fn = torch.nn.Identity()
        if settings.max_length is not None:
            encoder.max_seq_length = settings.max_length
        return encoder
    folder = folder_of(settings.model)
    openmp(one_thread)
    if not (folder / "config.json").is_file():
        raise check.error(
            "not the folder of a model", got="no config.json", where=str(folder), hint="pass what save_pretrained wrote"
        )
    verify(folder)
    limits = SizeLimits.of(folder)
    with (
        check.library("a model", folder, also=True),
        quiet(),
        own_randomness(torch.device("cpu")),
        rejecting(),
        limits.building(),
    ):
        seed_torch(torch.device("cpu"), seed_of(Stream(settings.seed).child("initial").key))
        encoder = library.CrossEncoder(
            str(folder),
            device=device,
            max_length=settings.max_length,
            trust_remote_code=False,
            local_files_only=True,
            model_kwargs={"use_safetensors": True},
        )
    if encoder.num_labels != 1:
        raise check.error(
            "a reranker gives one score for a pair",
            got=f"a model of {encoder.num_labels} labels",
            where=str(folder),
            hint="begin from a model with one label, or from one without a head",
        )
    encoder.activation_fn = torch.nn.Identity()
    return encoder


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hide transformers' progress bars and its warnings about new heads."""
    from transformers.utils import logging as transformers_logging

    shown, level = transformers_logging.is_progress_bar_enabled(), transformers_logging.get_verbosity()
    logger = logging.getLogger("sentence_transformers")
    before = logger.level
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
        transformers_logging.set_verbosity(level)
        if shown:
            transformers_logging.enable_progress_bar()


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
