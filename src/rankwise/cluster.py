"""Training on the workers of a cluster, whichever: Dask's, Ray's or others with the same verbs.

The names are listed in ``cluster.pyi`` and loaded on first use.
"""

from rankwise.base import lazy

__getattr__, __dir__, __all__ = lazy.attach(__name__, __file__)
