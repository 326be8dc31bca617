"""Rerankers: cross-encoders and language models that score a query and a document, trained with any objective.

The names are listed in ``__init__.pyi`` and loaded on first use: lists of texts need neither torch nor
sentence-transformers.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
