"""Is the data all right? Leakage, data checks, learning curves.

The names that wings use are listed in ``__init__.pyi`` and loaded on first use.
"""

from rankwise.base import lazy

__getattr__, __dir__, __all__ = lazy.attach(__name__, __file__)
