"""What upper rooms and wings bring, found by name without importing them; each is imported on first use.

``rankwise/__init__.py`` registers what rooms bring, and the ``__init__.py`` of each wing what it brings.
"""

import importlib
from collections import defaultdict
from typing import Any

_places: defaultdict[str, dict[str, tuple[str, str]]] = defaultdict(dict)


def register(what: str, of: str, module: str, name: str) -> None:
    """Register a function or class of a module as the ``what`` of things called ``of``, as the report of results."""
    _places[what][of] = module, name


def places(what: str) -> dict[str, tuple[str, str]]:
    """Return the modules and names that are registered as ``what``, by what they are of, in order."""
    return dict(_places[what])


def find(what: str, of: str) -> Any:
    """Import the function or class that is the ``what`` of the things called ``of``."""
    module, name = _places[what][of]
    return getattr(importlib.import_module(module), name)
