"""How results came about: date, machine, versions of what computes."""

import os
import platform
import time
from importlib import metadata

import numpy as np

from rankwise import __version__
from rankwise.rankers import RANKERS, ranker_class


def date() -> str:
    """Return the current time with its time zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S%z")


def machine() -> str:
    """Describe this machine."""
    return f"{platform.platform()}, {os.cpu_count()} cores"


def versions(*rankers: str) -> dict[str, str]:
    """Return the versions of rankwise, Python, NumPy and the libraries of rankers."""
    installed = {"rankwise": __version__, "python": platform.python_version(), "numpy": np.__version__}
    for ranker in (name for name in rankers if name in RANKERS):  # others are the user's, and no packages
        for name in ranker_class(ranker).packages:
            try:
                installed[name.removesuffix("-cpu")] = metadata.version(name)
                break
            except metadata.PackageNotFoundError:
                continue
    return installed
