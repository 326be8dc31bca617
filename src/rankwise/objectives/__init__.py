"""Losses with gradient and curvature over ragged lists, and wrappers that compose them.

The names are listed in ``__init__.pyi`` and loaded on first use.
"""

from rankwise.base import lazy

__getattr__, __dir__, __all__ = lazy.attach(__name__, __file__)
