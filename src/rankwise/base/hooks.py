"""Functions of upper rooms that lower ones call without importing them: found by name, imported on first use.

``rankwise/__init__.py``, which knows all rooms, registers them.
"""

import importlib
from typing import Any

_functions: dict[tuple[str, str], tuple[str, str]] = {}


def register(what: str, of: str, module: str, function: str) -> None:
    """Name the function that makes ``what``, as a report, of the things called ``of``; its module is not imported."""
    _functions[what, of] = module, function


def names(what: str) -> set[str]:
    """Return what the things are called of which a function makes ``what``."""
    return {of for registered, of in _functions if registered == what}


def find(what: str, of: str) -> Any:
    """Import the function, or class, that makes ``what`` of the things called ``of``."""
    module, function = _functions[what, of]
    return getattr(importlib.import_module(module), function)
