"""The commands ``rerank train``, ``rerank score`` and ``rerank evaluate``."""
