"""The commands ``demo``, ``reproduce`` and ``report``."""
