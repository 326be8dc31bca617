"""Where the tests find real data sets: a folder beside the checkout, or the one that RANKWISE_TEST_DATA names."""

import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("RANKWISE_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))


def data(name: str) -> Path:
    """Give the path of a real file or folder, or skip the test that needs it."""
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"needs the real data {name}, which is not under {FOLDER}")
    return path
