"""The commands ``train``, ``predict``, ``tune``, ``auto``, ``export`` and ``objectives``."""
