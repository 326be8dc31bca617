"""Rerankers: cross-encoders and language models that score a query and a document, trained with any objective.

The names are listed in ``rerank.pyi`` and loaded on first use: lists of texts need neither torch nor
sentence-transformers.
"""

from rankwise import check
from rankwise.base import lazy

_load, __dir__, __all__ = lazy.attach(__name__, __file__)
_OPTIONAL = ("accelerate", "datasets", "safetensors", "sentence_transformers", "tokenizers", "torch", "transformers")


def __getattr__(name: str) -> object:
    try:
        return _load(name)
    except ModuleNotFoundError as missing:
        module = (missing.name or "").partition(".")[0]
        if module in _OPTIONAL:
            check.installed(module, "rerank")
        raise
