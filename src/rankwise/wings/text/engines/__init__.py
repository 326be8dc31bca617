"""Engines that search for us: each makes runs of queries, and scores pairs."""

from rankwise.base import lazy

__getattr__, __dir__, __all__ = lazy.attach(__name__, __file__)
