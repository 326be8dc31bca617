"""From a click log to a ranker that may be shipped."""

from rankwise.base import hooks

hooks.register("commands", "clicks", f"{__name__}.commands", "add")
for _name in ("clickwise", "positioned", "safe"):
    hooks.register("wrapper", _name, f"{__name__}.objectives.{_name}", _name)
