"""The second process that compiles ahead: when it is started, and that it never harms the first."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rankwise.base import ahead

MODULE = "rankwise.data.synthetic.lists"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Record commands instead of running them, on two cores."""
    commands: list[list[str]] = []

    class Process:
        returncode: int | None = None

        def __init__(self, command: list[str], **_: Any) -> None:
            commands.append(command)

        def poll(self) -> int | None:
            return self.returncode

    monkeypatch.setattr(subprocess, "Popen", Process)
    monkeypatch.setattr(ahead, "_cores", lambda: 2)
    monkeypatch.setattr(ahead, "_tried", [])
    monkeypatch.setattr(ahead, "_helpers", [])
    monkeypatch.delenv("RANKWISE_COMPILE_AHEAD", raising=False)
    return commands


def test_it_is_started_once_for_a_folder(started: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for _ in range(2):
        for _ in range(2):
            ahead.start(MODULE, tmp_path / "kernels", "these")
        monkeypatch.setattr(ahead, "_tried", [])
    assert len(started) == 1
    ahead.start(MODULE, tmp_path / "kernels", "others")
    assert len(started) == 2


@pytest.mark.parametrize("why", ["switched off", "second process", "one core", "no Python", "no folder", "scoring"])
def test_it_is_not_started(why: str, started: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder, module = tmp_path / "kernels", MODULE
    if why in ("switched off", "second process"):
        monkeypatch.setenv("RANKWISE_COMPILE_AHEAD", "0" if why == "switched off" else "helper")
    elif why == "one core":
        monkeypatch.setattr(ahead, "_cores", lambda: 1)
    elif why == "no Python":
        monkeypatch.setattr(sys, "executable", "/usr/bin/uwsgi")
    elif why == "no folder":
        folder.write_text("a file")
    else:
        module = "rankwise.models.scoring.quickscorer"
    ahead.start(module, folder, "these")
    assert started == []


def test_a_kernel_is_waited_for_while_the_second_process_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "kernel" / "these" / "types.nbc"
    monkeypatch.setenv("RANKWISE_COMPILE_AHEAD", "helper")
    ahead.claim(path)
    start = time.monotonic()
    ahead.wait_for(path)  # there is no second process
    helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1)"])
    monkeypatch.setattr(ahead, "_helpers", [helper])
    assert time.monotonic() - start < 1
    ahead.wait_for(path)  # one that ends without saving anything
    assert helper.poll() == 0
    with ahead.released(path):
        pass
    assert not list(path.parent.iterdir())


@pytest.mark.slow
def test_the_second_process_compiles_all_that_a_first_training_calls(tmp_path: Path):
    """Slow: every kernel of a training is compiled."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "RANKWISE_COMPILE_AHEAD": "helper"}
    subprocess.run([sys.executable, "-c", ahead._COMMAND], env=environment, check=True)
    kept = sorted(tmp_path.rglob("*.nbc"))
    assert len(kept) >= 5
    assert not list(tmp_path.rglob("*.busy"))
    training = (
        "import numpy as np, rankwise as rw; g = np.random.default_rng(0)\n"
        "data = rw.RankingDataset(g.random((40, 3), np.float32), np.arange(40) % 3, np.arange(0, 41, 10))\n"
        "rw.LightGBMRanker(rounds=2, min_documents=1, progress=False).fit(data, data.take(slice(0, 2)))\n"
    )
    subprocess.run([sys.executable, "-c", training], env={**environment, "RANKWISE_COMPILE_AHEAD": "0"}, check=True)
    assert sorted(tmp_path.rglob("*.nbc")) == kept
