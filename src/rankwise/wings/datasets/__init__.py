"""Data to try things on: public sets by name, synthetic data, noise."""

from rankwise.base import hooks

for _what, _function in {"entry": "set_entry", "load": "load_set", "folds": "load_folds"}.items():
    hooks.register("sets of data", _what, f"{__name__}.load", _function)
hooks.register("commands", "datasets", f"{__name__}.commands", "add")
