"""Namespaces whose names are loaded on first use: a stub beside the module lists them, for type checkers too."""

import importlib
import re
import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING

from rankwise import moved

if TYPE_CHECKING:
    from pathlib import Path

_IMPORT = re.compile(r"^from (\S+) import \(?\s*\w+ as (\w+)", re.MULTILINE)  # ast and pathlib take long to load


def attach(module: str, file: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a module, by the imports in its stub."""
    places = listing(f"{file.rpartition('.')[0]}.pyi")
    names = sorted(places)

    def load(name: str) -> object:
        if name not in places:
            return moved.find(module, name)
        source = places[name] or module
        listed = None if source == module else getattr(importlib.import_module(source), name, None)
        value = importlib.import_module(f"{source}.{name}") if listed is None else listed
        vars(sys.modules[module])[name] = value
        return value

    kept = frozenset(name for name, source in places.items() if source)
    vars(sys.modules[module]).setdefault("__path__", [])  # modules that were inside are still looked for
    sys.modules[module].__class__ = type("Namespace", (_Guarded,), {"_kept": kept})
    return load, lambda: names.copy(), names.copy()


def listing(stub: "str | Path") -> dict[str, str]:
    """Return the names that a stub imports with the modules that define them; submodules of its own have none."""
    with open(stub, encoding="utf-8") as lines:  # noqa: PTH123
        imports = _IMPORT.findall(lines.read())
    return {name: "" if module == "." else module for module, name in imports}


class _Guarded(ModuleType):
    """A package that keeps the names of its stub: importing judging/plan.py must not replace rw.judging.plan."""

    _kept: frozenset[str] = frozenset()

    def __setattr__(self, name: str, value: object) -> None:
        if name not in self._kept or value is not sys.modules.get(f"{self.__name__}.{name}"):
            super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        """Pickle by name: functions that use the package are sent to workers, and cloudpickle knows modules alone."""
        return importlib.import_module, (self.__name__,)
