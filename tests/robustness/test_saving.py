"""Models that several processes save and load at once, and that are killed while they save: nothing is ever lost."""

import os
import signal
import subprocess
import sys
import time

import pytest

from rankwise.models import storage
from tests import tiers
from tests.processes import HANG

# Saves or loads again and again. Every model says in its description what its files hold.
WORKER = """
import sys, time
from rankwise.models import storage

path, kind, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
end, turns = time.monotonic() + seconds, 0
while time.monotonic() < end:
    turns += 1
    if kind == "load":
        about, found = storage.read(path)
        word = about["word"].encode()
        assert found == {"model.txt": word * 2000, "state.bin": word * 10}, about
    else:
        word = f"{kind}-{turns:06d}".encode()
        storage.write(path, {"word": word.decode()}, {"model.txt": word * 2000, "state.bin": word * 10}, force=True)
print(turns)
"""


def start(path, kind, seconds):
    command = [sys.executable, "-c", WORKER, str(path), kind, str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process):
    out, err = process.communicate(timeout=HANG)
    assert process.returncode == 0, err
    return int(out)


def first(path):
    storage.write(path, {"word": "first"}, {"model.txt": b"first" * 2000, "state.bin": b"first" * 10})


def whole(path):
    """Whether the model in a folder is one that was saved; gives its word."""
    about, found = storage.read(path)
    word = about["word"].encode()
    assert found == {"model.txt": word * 2000, "state.bin": word * 10}
    return about["word"]


@pytest.mark.slow
def test_three_savers_and_two_loaders_at_once(tmp_path):
    """Slow: five processes save and load for six seconds, so that they meet."""
    path = tmp_path / "model"
    first(path)
    (path / "model-notes.txt").write_text("mine")
    workers = [start(path, kind, 6.0) for kind in ("a", "b", "c", "load", "load")]
    turns = [finish(worker) for worker in workers]
    assert min(turns) > 1
    assert whole(path)[0] in "abc"
    assert (path / "model-notes.txt").read_text() == "mine"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
def test_a_saver_killed_at_any_moment_leaves_the_old_model_or_the_new_one(tmp_path):
    """Slow: every kill takes a process of its own."""
    path = tmp_path / "model"
    first(path)
    seen = {"first"}
    for turn in range(0, 25, 25 // tiers.share(25)):
        worker = start(path, f"k{turn}", HANG)
        while whole(path) in seen:  # until it has saved at least once
            assert worker.poll() is None, worker.communicate()[1]
        time.sleep(turn * 0.0013)
        worker.send_signal(signal.SIGKILL)
        worker.communicate()
        seen.add(whole(path))
    left = {entry.name for entry in path.iterdir()} - {"rankwise.json"} - (storage._listed(path) or set())
    for name in left:
        os.utime(path / name, (0, 0))
    first_again = storage.write(
        path, {"word": "last"}, {"model.txt": b"last" * 2000, "state.bin": b"last" * 10}, force=True
    )
    assert whole(first_again) == "last"
    assert len(list(path.iterdir())) == 3 + len({name for name in left if name in ("model.txt", "state.bin")})
