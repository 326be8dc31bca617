"""The commands ``train``, ``predict``, ``cross-validate``, ``export`` and ``objectives``."""
