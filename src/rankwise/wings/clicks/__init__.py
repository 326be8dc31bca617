"""From a click log to a ranker that may be shipped."""

from rankwise.base import hooks

hooks.register("commands", "clicks", f"{__name__}.commands", "add")
