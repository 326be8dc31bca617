"""Learning to rank: one objective, with its gradient and curvature, for every trainer.

The public names are listed in ``__init__.pyi``, which type checkers read and from which they are loaded on first use:
``import rankwise`` itself costs little more than importing NumPy.
"""

from rankwise import moved, wings
from rankwise._version import __version__ as __version__
from rankwise.base import hooks, lazy

for _package in ("rankwise", "lightgbm", "xgboost", "catboost"):
    hooks.register("ranker", _package, "rankwise.rankers.trees.wrap", "wrapped")
hooks.register("warning", "features", "rankwise.quality.leakage", "warn_features")

moved.install()
wings.register()

__getattr__, __dir__, __all__ = lazy.attach(__name__, __file__)
