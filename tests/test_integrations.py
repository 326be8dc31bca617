"""Tests with other libraries are collected everywhere, and skipped with a reason where the library is missing."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILE = """
import pytest
pytestmark = pytest.mark.integration("no_such_module")


def test_it():
    import no_such_module
"""


def outcome(folder: Path, mode: str) -> str:
    """Run a test that needs a module that nobody has, beside the conftest of integrations."""
    (folder / "conftest.py").write_bytes((ROOT / "tests/integrations/conftest.py").read_bytes())
    (folder / "test_it.py").write_text(FILE)
    options = ["-p", "no:cacheprovider", "-q", "-rs", "--strict-markers", "-o", "markers=integration(*modules)"]
    command = [sys.executable, "-m", "pytest", *options, "--rootdir", folder, folder]
    return subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, env={"RANKWISE_TESTS": mode}, check=False
    ).stdout


def test_a_missing_library_skips_with_the_command_that_installs_it(tmp_path):
    printed = outcome(tmp_path, "")
    assert "needs no_such_module: run make test-integrations" in printed
    assert "1 skipped" in printed


def test_a_missing_library_fails_under_the_command_that_installs_it(tmp_path):
    assert "1 failed" in outcome(tmp_path, "integrations")
