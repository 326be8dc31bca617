"""Benchmarks as modules, for tests: they are programs, and no package."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def program(name: str) -> ModuleType:
    """Load ``benchmarks/NAME.py`` from its file."""
    found = importlib.util.spec_from_file_location(f"benchmark_{name}", BENCHMARKS / f"{name}.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))  # where it looks for its parts when it is run
        found.loader.exec_module(module)
    return module
