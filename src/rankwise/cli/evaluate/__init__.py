"""The commands ``evaluate``, ``compare`` and ``explain``."""
