"""Learning to rank: one objective, with its gradient and curvature, for every trainer.

The public names are listed in ``__init__.pyi``, which type checkers read and from which they are loaded on first use:
``import rankwise`` itself costs little more than importing NumPy.
"""

import lazy_loader

from rankwise import hooks, moved
from rankwise._version import __version__

for _package in ("rankwise", "lightgbm", "xgboost", "catboost"):
    hooks.register("ranker", _package, "rankwise.rankers.trees.wrap", "wrapped")
hooks.register("report", "Comparison", "rankwise.report.comparison", "write_comparison")

moved.install()

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ = [*__all__, "__version__"]
