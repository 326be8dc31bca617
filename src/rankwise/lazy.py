"""Namespaces whose names are loaded on first use: a stub beside the module lists them, for type checkers too."""

import ast
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from rankwise import moved


def attach(module: str, file: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a module, by the imports in its stub."""
    places = listing(Path(file).with_suffix(".pyi"))
    names = sorted(places)

    def load(name: str) -> object:
        if name not in places:
            return moved.find(module, name)
        source = places[name]
        value = (
            getattr(importlib.import_module(source), name) if source else importlib.import_module(f"{module}.{name}")
        )
        vars(sys.modules[module])[name] = value
        return value

    # Importing judging/plan.py would put the module in the place of the function rw.judging.plan.
    hidden = {name for name, source in places.items() if f"{source}.".startswith(f"{module}.{name}.")}
    if hidden:
        own = sys.modules[module]
        own.__class__ = type("Namespace", (_Guarded,), {"_hidden": frozenset(hidden)})
    return load, lambda: names.copy(), names.copy()


def listing(stub: Path) -> dict[str, str]:
    """Return the names that a stub imports with the modules that define them; submodules of its own have none."""
    lines = ast.parse(stub.read_text(encoding="utf-8")).body
    return {
        alias.asname or alias.name: "" if line.level else str(line.module)
        for line in lines
        if isinstance(line, ast.ImportFrom)
        for alias in line.names
    }


class _Guarded(ModuleType):
    """A package that keeps the names of its stub where one of its modules has the same name."""

    _hidden: frozenset[str] = frozenset()

    def __setattr__(self, name: str, value: object) -> None:
        if name not in self._hidden or value is not sys.modules.get(f"{self.__name__}.{name}"):
            super().__setattr__(name, value)
