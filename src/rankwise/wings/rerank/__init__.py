"""Rerankers: cross-encoders and language models."""

from rankwise.base import hooks

hooks.register("commands", "rerank", f"{__name__}.commands", "add")
