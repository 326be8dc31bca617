"""The GPU benchmark: its padded peers compute what objectives do, and the program runs in Triton's interpreter."""

import importlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import rankwise as rw
from tests import tiers
from tests.docs.commands import ROOT

torch = pytest.importorskip("torch")
pytest.importorskip("triton", reason="device kernels are written in Triton, which is made for Linux alone")


@pytest.fixture(scope="module")
def padded():
    return importlib.import_module("benchmarks.speed.gpu.padded")


@pytest.fixture(scope="module")
def lists():
    draw = np.random.default_rng(0)
    sizes = np.array([2, 3, 12, 40, 40])
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    labels = draw.integers(0, 5, offsets[-1]).astype(float)
    labels[-40:] = 0.0
    return draw.normal(size=labels.size), labels, offsets


@pytest.mark.parametrize("by_length", [False, True])
@pytest.mark.parametrize(
    "name", ["softmax_ce", "approx_ndcg", "approx_ndcg(kernel=laplace)", "lambdarank", "ranknet", "listmle"]
)
def test_padded_peers_are_the_objectives(padded, lists, name, by_length):
    ours = rw.objective(name)(*lists)
    batches = padded.PaddedLists(lists, torch.device("cpu"), 2, by_length)
    values, gradients = batches.results(padded.PEERS[name])
    np.testing.assert_allclose(values, ours.value, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(gradients, ours.gradient, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", ["plrank", "xendcg", "stochastic(approx_ndcg)"])
def test_padded_peers_that_draw_agree_in_the_mean(padded, lists, name):
    scores, labels, offsets = (lists[0][5:17], lists[1][5:17], np.array([0, 12]))
    objective = rw.objective("plrank(samples=20000, cutoff=10)" if name == "plrank" else name)
    draws = 10 if name == "plrank" else 400
    ours = [objective(scores, labels, offsets, rw.Stream(0, number)) for number in range(draws)]
    peer = padded.PEERS[name]
    if name == "plrank":
        peer = peer._replace(function=lambda *batch: padded.plrank(*batch, samples=20_000))
    torch.manual_seed(0)
    batches = padded.PaddedLists((scores, labels, offsets), torch.device("cpu"), 1)
    theirs = [batches.results(peer) for _ in range(draws)]
    expected = np.mean([one.gradient for one in ours], 0)
    found = np.mean([gradient for _, gradient in theirs], 0) / peer.repeats
    np.testing.assert_allclose(found, expected, atol=0.1 * np.abs(expected).max())
    np.testing.assert_allclose(np.mean([value for value, _ in theirs]), np.mean([one.value for one in ours]), rtol=0.03)


def run(*arguments, **environment):
    command = [sys.executable, "-m", "benchmarks.speed.gpu", *arguments]
    done = subprocess.run(
        command,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_a_gpu_a_sentence_says_so(monkeypatch, capsys):
    main = importlib.import_module("benchmarks.speed.gpu.__main__").main
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    monkeypatch.setattr("sys.argv", ["gpu", "--device", "cpu"])
    main()
    assert "set TRITON_INTERPRET=1" in capsys.readouterr().out
    if not torch.cuda.is_available():
        monkeypatch.setattr("sys.argv", ["gpu"])
        main()
        assert "No CUDA device" in capsys.readouterr().out


@tiers.only_all
def test_every_section_runs_in_the_interpreter(tmp_path):
    """Slow: the interpreter runs every kernel."""
    said = run("--device", "cpu", "--small", "--json", tmp_path / "gpu.json", TRITON_INTERPRET="1")
    found = json.loads((tmp_path / "gpu.json").read_text())
    assert {"limits", "rows", "boosting", "step", "targets"} <= set(found)
    assert max(row["difference"] for row in found["rows"] if "difference" in row) < 1e-5
    assert "padded eager over ours" in said
    page = tmp_path / "gpu.md"
    page.write_text((ROOT / "docs" / "gpu.md").read_text())
    command = [sys.executable, "-m", "benchmarks.pages.gpu", tmp_path / "gpu.json", "--page", page]
    subprocess.run(command, check=True, cwd=ROOT)
    assert "| `approx_ndcg` |" in page.read_text()
