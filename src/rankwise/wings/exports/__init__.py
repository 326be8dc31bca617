"""Trained models in the formats of engines and runtimes."""

from rankwise.base import hooks

hooks.register("commands", "exports", f"{__name__}.commands", "add")
