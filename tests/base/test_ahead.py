"""The second process that compiles ahead: when it is started, and that it never harms the first."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import rankwise as rw
from rankwise.base import ahead
from rankwise.rankers.training.ahead import derive_on_little
from tests import tiers

MODULE = "rankwise.wings.datasets.synthetic"


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
    monkeypatch.setattr(ahead, "helpers", [])
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
    monkeypatch.setattr(ahead, "helpers", [helper])
    assert time.monotonic() - start < 1
    ahead.wait_for(path)  # one that ends without saving anything
    assert helper.poll() == 0
    with ahead.released(path):
        pass
    assert not list(path.parent.iterdir())


def test_the_second_process_stops_what_the_first_does_not_train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RANKWISE_COMPILE_AHEAD", "helper")
    kernel, note = tmp_path / "kernel" / "these" / "types.nbc", tmp_path / "ahead-these"
    monkeypatch.setattr(ahead, "_notes", [(note, "")])
    monkeypatch.setattr(ahead, "helpers", [])
    assert not ahead.tell("xendcg")
    assert not note.exists()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as helper:
        monkeypatch.setattr(ahead, "helpers", [helper])
        assert ahead.tell("xendcg")
    assert note.read_text() == "xendcg"
    monkeypatch.setattr(ahead, "_notes", [])
    with ahead.only_for("xendcg", str(note)):
        ahead.claim(kernel)
    with pytest.raises(ahead.OtherObjectiveError), ahead.only_for("lambdarank", str(note)):
        ahead.claim(kernel)
    ahead.claim(kernel)  # what every training calls


def test_no_code_of_a_user_is_called_ahead():
    called = []

    class Mine(rw.objectives.XENDCG):
        def prepare(self, *arguments: Any, **columns: Any) -> Any:
            called.append(arguments)
            return super().prepare(*arguments, **columns)

    mine = rw.objective(Mine())
    for objective in mine, 0.5 * rw.objective("xendcg") + 0.5 * mine:
        derive_on_little(objective)
    assert called == []
    for expression in "0.7*xendcg + 0.3*stochastic(lambdarank)", "on(purchase, xendcg)":
        derive_on_little(rw.objective(expression))  # the second needs more labels than there are


@pytest.mark.slow
@pytest.mark.parametrize("objective", tiers.some(["xendcg", ""]))
def test_the_second_process_compiles_all_that_a_first_training_calls(objective: str, tmp_path: Path):
    """Slow: every kernel of a training is compiled. Of one with another objective, all but that objective's."""
    note = tmp_path / "note"
    note.write_text(objective)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "RANKWISE_COMPILE_AHEAD": "helper"}
    subprocess.run([sys.executable, "-c", ahead._COMMAND.format(str(note))], env=environment, check=True)
    kept = sorted(tmp_path.rglob("*.nbc"))
    assert len(kept) >= (2 if objective else 5)
    assert not list(tmp_path.rglob("*.busy"))
    training = (
        "import numpy as np, rankwise as rw; g = np.random.default_rng(0)\n"
        "data = rw.RankingDataset(g.random((40, 3), np.float32), np.arange(40) % 3, np.arange(0, 41, 10))\n"
        f"rw.LightGBMRanker({objective or 'lambdarank'!r}, rounds=2, min_documents=1, progress=False)"
        ".fit(data, data.take(slice(0, 2)))\n"
    )
    subprocess.run([sys.executable, "-c", training], env={**environment, "RANKWISE_COMPILE_AHEAD": "0"}, check=True)
    more = sorted(set(tmp_path.rglob("*.nbc")) - {*kept})
    assert all("rankwise.objectives." in str(path) for path in more) if objective else not more
