"""Wings of the house: each is what somebody installs rankwise for, with its code, its commands and a README.

Nothing in the house imports a wing, and a wing imports from the house what ``CONTRACT`` names, another wing through
``rw.`` alone. What a wing brings, as commands and rankers that expressions know, its ``__init__.py`` registers.
"""

import importlib
import os


def register() -> None:
    """Register what every wing brings."""
    with os.scandir(__path__[0]) as entries:  # pkgutil takes long to load
        wings = sorted(one.name for one in entries if one.is_dir() and not one.name.startswith("_"))
    for name in wings:
        importlib.import_module(f"{__name__}.{name}")
