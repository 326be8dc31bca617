"""Texts: documents that are searched, features of queries with documents, data sets to train on.

The names are listed in ``text.pyi`` and loaded on first use.
"""

from rankwise.base import lazy

__getattr__, __dir__, __all__ = lazy.attach(__name__, __file__)
