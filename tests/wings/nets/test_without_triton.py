"""torch without Triton, as it comes for macOS, Windows and plain CPUs: losses, nets and trees do without it."""

import subprocess
import sys

SCRIPT = """
import sys
sys.modules |= {"triton": None, "triton.language": None}

import torch
import rankwise as rw
import rankwise.rerank

data = rw.synthetic(n_queries=12, n_features=4, n_docs=6, seed=1)
for ranker in (rw.NeuralRanker(epochs=1, progress=False), rw.XGBoostRanker("softmax_ce", rounds=2, progress=False)):
    assert ranker.fit(data, data).predict(data).shape == (data.n_docs,)
scores = torch.zeros(3, requires_grad=True)
rw.torch_loss("lambdarank")(scores, [1, 0, 0], [0, 3]).backward()
assert scores.grad.abs().sum() > 0
"""


def test_triton_is_not_needed_without_a_gpu():
    """Slow: another process imports torch and trains."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
