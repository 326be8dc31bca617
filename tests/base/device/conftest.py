"""Triton's interpreter computes with NumPy, which warns of what happens in lanes that are masked out afterwards."""

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def masked_lanes():
    with np.errstate(all="ignore"):
        yield
