"""Tests with real libraries that rankwise fits into, which are skipped where the libraries are not installed."""

import os
import shutil
from importlib.util import find_spec

import pytest

COMMAND = "make test-integrations"
REQUIRED = os.environ.get("RANKWISE_TESTS") == "integrations"
"""Whether a missing library is a failure, as under ``make test-integrations``."""


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.filterwarnings("default"))  # what other libraries warn of is theirs
    marker = item.get_closest_marker("integration")
    if marker is None:
        raise pytest.UsageError(f"{item.nodeid} must be marked: pytest.mark.integration('module', …)")
    program = marker.kwargs.get("program")
    missing = [] if REQUIRED else [name for name in marker.args if find_spec(name) is None]
    if missing:
        item.add_marker(pytest.mark.skip(reason=f"needs {missing[0]}: run {COMMAND}"))
    elif program and shutil.which(program) is None:
        item.add_marker(pytest.mark.skip(reason=f"needs the program {program}: install it and run {COMMAND}"))
