"""Why a ranker ranks as it does."""

from rankwise.base import hooks

hooks.register("commands", "explain", f"{__name__}.commands", "add")
