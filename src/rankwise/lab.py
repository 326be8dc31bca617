"""Experiments: specifications, their results, and reports.

The names are listed in ``lab.pyi`` and loaded on first use.
"""

from rankwise.base import lazy

__getattr__, __dir__, __all__ = lazy.attach(__name__, __file__)
