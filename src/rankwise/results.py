"""Results that functions return: classes to test for and to annotate with, and evaluations in files.

The names are listed in ``results.pyi`` and loaded on first use.
"""

from rankwise.base import lazy

__getattr__, __dir__, __all__ = lazy.attach(__name__, __file__)
