"""Without the modules and functions that only POSIX systems have, the package is imported, trains, saves and loads."""

import subprocess
import sys
from pathlib import Path

MODULES = ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty")
FUNCTIONS = ("fork", "preadv", "register_at_fork", "sched_getaffinity")

WITHOUT_POSIX = f"""
import importlib.abc, os, sys

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in {MODULES}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
for name in {MODULES}:
    sys.modules.pop(name, None)
for name in {FUNCTIONS}:
    delattr(os, name)
"""

WORK = """
import numpy as np
import rankwise as rw

data = rw.synthetic(n_queries=30, seed=0)
ranker = rw.LightGBMRanker("xendcg", rounds=3, leaves=5).fit(data)
ranker.save("model")
assert np.array_equal(rw.load("model").predict(data), ranker.predict(data))
rw.data.write_letor(data, "train.txt")
for _ in range(2):  # the second time from the copy
    opened = rw.open_data("train.txt")
    assert np.array_equal(opened.labels, data.labels)
again = rw.LightGBMRanker("xendcg", rounds=3, leaves=5).fit(opened)
assert np.array_equal(again.predict(opened), again.predict(rw.read_letor("train.txt")))
print(rw.evaluate(ranker, data, "ndcg@10").mean["ndcg@10"] > 0.5)
"""


def test_training_and_files_without_posix(tmp_path: Path):
    command = [sys.executable, "-W", "ignore", "-c", WITHOUT_POSIX + WORK]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
