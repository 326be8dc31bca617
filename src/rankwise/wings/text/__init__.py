"""From texts to a ranking: documents, candidates, features, data sets."""

from rankwise.base import hooks

hooks.register("commands", "text", f"{__name__}.commands", "add")
hooks.register("data set", "numpy-scipy", f"{__name__}.numpy_scipy", "parts")
