"""Recommenders without a training loop: closed forms, neighbours, alternating least squares, and counts.

The names are listed in ``recommend.pyi`` and loaded on first use.
"""

from rankwise.base import lazy

__getattr__, __dir__, __all__ = lazy.attach(__name__, __file__)
