"""Few labels: plans, agreement, interleaving."""

from rankwise.base import hooks

hooks.register("commands", "judging", f"{__name__}.commands", "add")
