"""Runs and qrels of TREC: read, write, and join them into data to evaluate.

The names are listed in ``trec.pyi`` and loaded on first use.
"""

from rankwise.base import lazy

__getattr__, __dir__, __all__ = lazy.attach(__name__, __file__)
