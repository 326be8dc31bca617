"""What upper rooms and wings bring, found by name without importing them; each is imported on first use.

``rankwise/__init__.py`` registers what rooms bring, and the ``__init__.py`` of each wing what it brings.
"""

import importlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

_places: defaultdict[str, dict[str, tuple[str, str]]] = defaultdict(dict)


def register(what: str, of: str, module: str, name: str) -> None:
    """Register a function or class of a module as the ``what`` of things called ``of``, as the report of results."""
    _places[what][of] = module, name


def places(what: str) -> dict[str, tuple[str, str]]:
    """Return the modules and names that are registered as ``what``, by what they are of, in order."""
    return dict(_places[what])


def find(what: str, of: str) -> Any:
    """Import the function or class that is the ``what`` of the things called ``of``; an error if its wing is absent."""
    if of not in _places[what]:
        raise ModuleNotFoundError(
            f"no wing of this installation brings the {what} {of!r}: a folder of rankwise/wings is missing. "
            "Install rankwise again."
        )
    module, name = _places[what][of]
    return getattr(importlib.import_module(module), name)


class ByName(Mapping[str, Any]):
    """Things by name: those of a dictionary, then those that are registered as ``what``."""

    def __init__(self, what: str, own: dict[str, Any]) -> None:
        self._what, self._own = what, own

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise KeyError(name)
        return self._own[name] if name in self._own else find(self._what, name)

    def __repr__(self) -> str:
        return repr(dict(self))

    def __contains__(self, name: object) -> bool:  # without an import
        return name in self._own or name in _places[self._what]

    def __iter__(self) -> Iterator[str]:
        return iter(self._own | _places[self._what])

    def __len__(self) -> int:
        return len(self._own | _places[self._what])
