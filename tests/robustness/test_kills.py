"""SIGKILL at random moments of training, also while a checkpoint is written: resumed, it ends as if never killed."""

import os
import subprocess
import sys

import pytest

from tests.processes import HANG, environment
from tests.robustness.killing import RANKERS

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX processes")]
TREES = ("lightgbm", "xgboost", "catboost")
NEEDS = {"bagged": "lightgbm", "blended": "lightgbm", **{name: name for name in TREES}}


@pytest.mark.parametrize("kind", RANKERS)
def test_a_training_that_was_killed_ends_as_if_it_never_was(kind, tmp_path):
    """Slow: a process imports the libraries, counts calls, and trains at least four times."""
    pytest.importorskip(NEEDS.get(kind, "torch"))
    command = [sys.executable, "-m", "tests.robustness.killing", kind, str(tmp_path), "6"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG, env=environment(OMP_NUM_THREADS="1"))
    assert done.returncode == 0, done.stderr[-5000:]
    assert int(done.stdout.split()[-1]) > 0
