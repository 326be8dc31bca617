"""Two processes learn the model of one, by DistributedDataParallel or in a Reranker."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rankwise as rw
from tests import tiers
from tests.processes import HANG, environment, free_port
from tests.refusals import refusal
from tests.wings.rerank import graded, ranks, tiny


@pytest.mark.slow
def test_two_processes_compute_the_gradient_of_one(tmp_path):
    """Slow: another process imports torch and transformers."""
    tiny.save(tmp_path / "model", dropout=0.0)
    cluster = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.wings.rerank.ranks", str(tmp_path)]
    done = subprocess.run(command, env=environment(**cluster), capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 0, done.stderr
    first, second = (torch.load(tmp_path / f"rank{rank}.pt") for rank in range(2))
    (values, gradients, accumulated) = zip(first[0], second[0], strict=True)
    for found in (gradients, accumulated, (first[1], second[1])):
        assert torch.equal(*found)

    value, gradient, both = ranks.step(tiny.cross_encoder(tmp_path / "model"), range(6))
    assert sum(values) / 2 == pytest.approx(value, rel=1e-5)
    assert gradient.abs().max() > 1e-2
    torch.testing.assert_close(gradients[0], gradient, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(accumulated[0], both, atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(first[1], ranks.trained(tmp_path, 6), atol=1e-5, rtol=1e-4)


def test_a_static_graph_is_rejected():
    class Static(torch.nn.parallel.DistributedDataParallel):
        def __init__(self):
            torch.nn.Module.__init__(self)
            self.static_graph = True

    with refusal(what="two passes run a model many times in a step, which static_graph=True does not allow"):
        rw.rerank.Loss("lambdarank", mini_batch_size=1).of(lambda _: _, ["a"], [1], [0, 1], model=Static())
    compiled = torch.compile(Static(), backend="eager")
    with refusal(what="two passes run a model many times in a step, which static_graph=True does not allow"):
        rw.rerank.two_passes(lambda batch: batch, [torch.ones(1)], torch.sum, model=compiled)


TRAIN = """
import sys
import torch.distributed as dist
import rankwise as rw
from tests.wings.rerank import graded
data = graded.lists(14)
settings = dict(learning_rate=1e-3, batch_queries=5, parts=2, threads=1, device="cpu")
model = rw.rerank.Reranker(sys.argv[1], "listnet", **settings).fit(data.take(slice(0, 11)), data.take(slice(11, 14)))
if int(dist.get_rank()) == 0:
    model.save(sys.argv[2])
"""


@tiers.only_all
def test_two_processes_train_the_model_of_one(tmp_path):
    """Slow: two processes import torch and transformers."""
    base = tiny.save(tmp_path / "base", dropout=0.0)  # each process drops its own
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*torchrun, script, base, tmp_path / "two"],
        env=environment(HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false"),
        capture_output=True,
        text=True,
        timeout=HANG,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert Path(tmp_path / "two" / "README.md").is_file()
    two = rw.rerank.Reranker.load(tmp_path / "two", device="cpu")
    data = graded.lists(14)
    settings: Any = {"learning_rate": 1e-3, "batch_queries": 5, "parts": 2, "threads": 1, "device": "cpu"}
    one = rw.rerank.Reranker(base, "listnet", **settings).fit(data.take(slice(0, 11)), data.take(slice(11, 14)))
    np.testing.assert_allclose(two.history_["loss"], one.history_["loss"], rtol=1e-5)
    assert two.history_["ndcg@10"] == one.history_["ndcg@10"]
    assert two.evaluations_ == one.evaluations_
    np.testing.assert_allclose(np.diff(two.predict(data)), np.diff(one.predict(data)), atol=1e-3)
