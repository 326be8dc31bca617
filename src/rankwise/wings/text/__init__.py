"""From texts to a ranking: documents, candidates, features, data sets."""

from rankwise.base import hooks

hooks.register("commands", "text", f"{__name__}.commands", "add")
hooks.register("data set", "numpy-scipy", f"{__name__}.numpy_scipy", "parts")

METHODS = ("rrf", "isr", "convex", "combmnz")
SCALES = ("min-max", "z", "minimum")
"""Of fusion; here, as the help of commands names them without loading kernels."""
