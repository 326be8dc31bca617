"""Processes that train a reranker together end with the model of one that trains alone."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from tests.processes import HANG, environment
from tests.rerank import graded, tiny

TRAIN = """
import sys
import torch.distributed as dist
import rankwise as rw
from tests.rerank import graded
data = graded.lists(14)
settings = dict(learning_rate=1e-3, batch_queries=5, parts=2, threads=1, device="cpu")
model = rw.rerank.Reranker(sys.argv[1], "listnet", **settings).fit(data.take(slice(0, 11)), data.take(slice(11, 14)))
if int(dist.get_rank()) == 0:
    model.save(sys.argv[2])
"""


@pytest.mark.slow
def test_two_processes_train_the_model_of_one(tmp_path):
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
