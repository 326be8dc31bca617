"""Ranking metrics: NDCG and others, with explicit conventions for gains, ties and empty queries.

The names are listed in ``__init__.pyi`` and loaded on first use.
"""

from rankwise.base import lazy

__getattr__, __dir__, __all__ = lazy.attach(__name__, __file__)
