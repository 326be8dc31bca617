"""Wings of the house: each is what somebody installs rankwise for, with its code, its commands and a README.

Nothing in the house imports a wing, and a wing imports from the house what ``CONTRACT`` names, another wing through
``rw.`` alone. What a wing brings to the house, as rankers that expressions know, its ``__init__.py`` registers; its
commands are in its ``commands.py``, and the command line finds them there.
"""

import importlib
import os


def names() -> list[str]:
    """Return the names of the wings."""
    with os.scandir(__path__[0]) as entries:  # pkgutil takes long to load
        return sorted(one.name for one in entries if one.is_dir() and not one.name.startswith("_"))


def register() -> None:
    """Let every wing register what it brings."""
    for name in names():
        importlib.import_module(f"{__name__}.{name}")
