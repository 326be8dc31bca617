"""Scores over HTTP."""

from rankwise.base import hooks

hooks.register("commands", "serve", f"{__name__}.commands", "add")
