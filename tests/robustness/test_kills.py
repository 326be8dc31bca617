"""SIGKILL at random moments of training, also while a checkpoint is written: resumed, it ends as if never killed."""

import os
import subprocess
import sys

import pytest

from tests import tiers
from tests.processes import HANG, environment
from tests.robustness.killing import RANKERS

LIBRARIES = {"lightgbm": "lightgbm,bagged,blended,linear", "xgboost": "xgboost", "catboost": "catboost"}
LIBRARIES |= {"torch": "neural,factorization"}
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX processes")]


@pytest.mark.parametrize("library", tiers.some([*LIBRARIES], 2))
def test_a_training_that_was_killed_ends_as_if_it_never_was(library, tmp_path):
    """Slow: a process imports the library, counts calls, and trains each ranker at least four times."""
    pytest.importorskip(library)
    command = [sys.executable, "-m", "tests.robustness.killing", LIBRARIES[library], str(tmp_path), "6"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG, env=environment(OMP_NUM_THREADS="1"))
    assert done.returncode == 0, done.stderr[-5000:]
    kills = [int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("kills ")]
    assert len(kills) == len(LIBRARIES[library].split(","))
    assert min(kills) > 0


def test_every_ranker_is_killed():
    assert {name for names in LIBRARIES.values() for name in names.split(",")} == RANKERS.keys()
