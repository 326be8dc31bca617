"""Evidence with little: few labels and a judge, documents to judge, interleaved lists.

The names are listed in ``judging.pyi`` and loaded on first use.
"""

from rankwise.base import lazy

__getattr__, __dir__, __all__ = lazy.attach(__name__, __file__)
