"""Learning to rank: one objective, with its gradient and curvature, for every trainer.

The public names are listed in ``__init__.pyi``, which type checkers read and from which they are loaded on first use:
``import rankwise`` itself costs little more than importing NumPy.
"""

from rankwise import moved
from rankwise._version import __version__ as __version__
from rankwise.base import hooks, lazy

for _package in ("rankwise", "lightgbm", "xgboost", "catboost"):
    hooks.register("ranker", _package, "rankwise.rankers.trees.wrap", "wrapped")
hooks.register("evaluation", "judge", "rankwise.wings.judging.evaluation", "evaluate_judged")
hooks.register("warning", "features", "rankwise.quality.leakage", "warn_features")
hooks.register("class", "ratings", "rankwise.wings.recommend.data.interactions", "Interactions")
hooks.register("join", "Interactions", "rankwise.wings.recommend.data.joining", "join")
hooks.register("report", "Leaderboard", "rankwise.wings.lab.report.leaderboard", "write_leaderboard")
hooks.register("wrapper", "bounded", "rankwise.wings.lab.bounding.bounded", "bounded")
hooks.register("report", "Comparison", "rankwise.wings.lab.report.comparison", "write_comparison")

moved.install()

__getattr__, __dir__, __all__ = lazy.attach(__name__, __file__)
