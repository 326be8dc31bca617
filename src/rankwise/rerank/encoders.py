"""Cross-encoders of sentence-transformers, opened so that nothing which lies in a model's folder is run.

Weights must be safetensors, which hold numbers and names: pickles are neither downloaded nor read. Code that a model
brings along is refused (``trust_remote_code`` stays off), and before anything is built the files that name classes are
looked at: modules must be sentence-transformers' own, and activations those of ``torch.nn``. What a configuration asks
for must fit the weights: a number in it would otherwise make layers until memory ends (see :mod:`sizes`).
"""

import contextlib
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise import check
from rankwise.rankers.verify import refusing
from rankwise.stream import Stream
from rankwise.threads import openmp

if TYPE_CHECKING:
    import torch
    from sentence_transformers import CrossEncoder

DOWNLOADED = ("*.json", "*.txt", "*.model", "*.jinja", "*.safetensors")
"""What of a model on the Hub is fetched: texts, tokenizers and numbers."""
_ACTIVATION = re.compile(r"torch\.nn\.modules\.(activation|linear)\.[A-Z]\w*")
_MODULE = re.compile(r"sentence_transformers(\.[a-z_]\w*)*\.[A-Z]\w*")
_PICKLED = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.ckpt")
_HEADS = ("ForSequenceClassification", "ForCausalLM")


def folder_of(name: str | Path) -> Path:
    """Give the folder of a model, which is downloaded if ``name`` is that of a model on the Hugging Face Hub."""
    folder = Path(name)
    if folder.is_dir():
        return folder
    if isinstance(name, Path) or folder.is_absolute() or name.startswith(".") or name.count("/") > 1:
        raise FileNotFoundError(f"there is no model {folder}.")
    hub: Any = check.extra("huggingface_hub", "rerank")  # noqa: S610 (not a query of Django)
    try:
        return Path(hub.snapshot_download(name, allow_patterns=list(DOWNLOADED)))
    except (OSError, ValueError) as failed:
        raise check.error(
            "there is no such folder, and no such model could be had from the Hugging Face Hub",
            got=f"{name!r} ({type(failed).__name__})",
            hint="pass the folder of a model, or download it where there is a network",
        ) from failed


def verify(folder: Path) -> None:
    """Refuse a folder whose files would run code: pickled weights, classes of its own, other classes than layers."""
    for config in sorted(folder.rglob("*.json")):
        if config.name not in ("tokenizer.json", "vocab.json") and not config.name.endswith(".index.json"):
            with check.library("a file of the model", config):
                content = json.loads(config.read_text(encoding="utf-8"))
            _verify(content, config)
    for place in {pickled.parent for pattern in _PICKLED for pickled in folder.rglob(pattern)}:
        if not any(place.glob("*.safetensors")) and any(place.glob("pytorch_model*.bin")):
            raise check.error(
                "weights must be safetensors, since pickles can run anything",
                got="pytorch_model.bin",
                where=str(place),
                hint="save the model anew with save_pretrained, in an environment of its own if it is not yours",
            )


def _verify(content: object, config: Path) -> None:
    """Look at every name of a class in a file."""
    if isinstance(content, list):
        for one in content:
            _verify(one, config)
    if not isinstance(content, dict):
        return
    for key, value in content.items():
        refused = (
            (key == "auto_map" and bool(value))
            or ("activation_f" in key and isinstance(value, str) and "." in value and not _ACTIVATION.fullmatch(value))
            or (key == "type" and config.name == "modules.json" and not _MODULE.fullmatch(str(value)))
        )
        if refused:
            raise check.error(
                "the model brings code of its own, which is not run",
                got=f"{key}: {json.dumps(value)[:120]}",
                where=str(config),
                hint="use a model whose classes are those of transformers and sentence-transformers",
            )
        _verify(value, config)


def check_head(folder: Path) -> None:
    """Refuse to score with a model that has no head for it: it got a random one, and must be trained first."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if not any(str(name).endswith(_HEADS) for name in config.get("architectures") or ()):
        raise check.error(
            "this Reranker is not trained yet, and its model has no head for scores",
            got=f"architectures {config.get('architectures')}",
            where=str(folder),
            hint="call fit first, or begin from a cross-encoder",
        )


def open_encoder(folder: Path, *, device: str, seed: int, max_length: int | None = None) -> "CrossEncoder":
    """Open a model; a head that it lacks is made from the seed. Its scores are logits: no activation bends them."""
    library: Any = check.extra("sentence_transformers", "rerank")  # noqa: S610
    import torch

    from rankwise.rankers.nets.learner import one_thread, own_randomness, seed_torch
    from rankwise.rankers.nets.processes import seed_of
    from rankwise.rerank import sizes

    openmp(one_thread)
    if not (folder / "config.json").is_file():
        raise check.error(
            "not the folder of a model", got="no config.json", where=str(folder), hint="pass what save_pretrained wrote"
        )
    verify(folder)
    bounds = sizes.Bounds.of(folder)
    bounds.check_counts(folder)
    with (
        check.library("a model", folder, also=True),
        quiet(),
        own_randomness(torch.device("cpu")),
        refusing(),
        bounds.building(),
    ):
        seed_torch(torch.device("cpu"), seed_of(Stream(seed).child("initial").key))
        encoder: CrossEncoder = library.CrossEncoder(
            str(folder),
            device=device,
            max_length=max_length,
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
    encoder.activation_fn = no_activation()
    return encoder


def no_activation() -> "torch.nn.Module":
    """What leaves logits as they are: the scores that a model is trained by, and that it is then to give."""
    import torch

    return torch.nn.Identity()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers' bars and its remarks about heads that are new from the screen."""
    from transformers.utils import logging as theirs

    shown, level = theirs.is_progress_bar_enabled(), theirs.get_verbosity()
    logger = logging.getLogger("sentence_transformers")
    before = logger.level
    theirs.disable_progress_bar()
    theirs.set_verbosity_error()
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
        theirs.set_verbosity(level)
        if shown:
            theirs.enable_progress_bar()
