"""From a click log to a ranker that may be shipped: propensities, targets, off-policy comparison.

The names are listed in ``clicks.pyi`` and loaded on first use.
"""

from rankwise.base import lazy

__getattr__, __dir__, __all__ = lazy.attach(__name__, __file__)
