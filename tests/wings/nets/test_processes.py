"""Training in two processes: the same losses as in one, the same model in both, and one that writes."""

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from tests.processes import HANG, environment, free_port

OBJECTIVE = "stochastic(softmax_ce, samples=2)"
# A preset without batch norm or dropout; the last batch of 40 queries is smaller, so that shares differ in size. Plain
# gradient descent: a step that were too long by some factor would show, and the rounding of a sum in two parts stays
# as small as it is, which it does not where steps are divided by the size of the gradient.
SETTINGS: dict[str, Any] = {"preset": "thesis", "epochs": 6, "threads": 1, "device": "cpu", "checkpoint_every": 3}
SETTINGS |= {"optimizer": "sgd"}
MEAN: dict[str, Any] = {"batch_queries": 7, "learning_rate": 0.01}
SUM: dict[str, Any] = {"batch_queries": 13, "reduction": "sum", "learning_rate": 0.001}
NORMED: dict[str, Any] = {
    "preset": "2020-tuned",
    "hidden": [8, 4],
    "batch_queries": 1,
    "epochs": 2,
}  # every other share is empty

# Both processes are forks of one that has imported what they need.
_WORK = """
import json, multiprocessing, os, sys
import torch._dynamo
import rankwise as rw
import rankwise.rankers.torch.learner
from tests.wings.nets.test_processes import MEAN, NORMED, OBJECTIVE, SETTINGS, SUM, parts

def work(rank):
    os.environ["RANK"] = os.environ["LOCAL_RANK"] = str(rank)
    folder, told = sys.argv[1], []
    for number, changes in enumerate((MEAN, SUM, NORMED)):
        model, seen = rw.NeuralRanker(OBJECTIVE, **SETTINGS | changes), []
        model.set_params(checkpoint=f"{folder}/run{number}", progress=not number)
        train, valid = parts()
        model.fit(train, valid, callback=lambda epoch, history: seen.append(epoch))
        scores = model.predict(valid).tolist()
        told.append({"history": model.history_, "scores": scores, "best": model.best_round_, "seen": seen})
    with open(f"{folder}/{rank}.json", "w") as file:
        json.dump(told, file)

both = [multiprocessing.get_context("fork").Process(target=work, args=(rank,)) for rank in range(2)]
for one in both:
    one.start()
for one in both:
    one.join()
sys.exit(any(one.exitcode for one in both))
"""


def parts():
    whole = rw.synthetic(n_queries=65, n_features=12, n_docs=20, seed=3)
    data = whole.with_(weights=np.where(np.arange(65) % 4 == 0, 3.0, 1.0))
    return data.take(slice(0, 40)), data.take(slice(40, 65))


@pytest.mark.slow
def test_two_processes_learn_what_one_learns(tmp_path):
    """Slow: another process imports torch."""
    command = [sys.executable, "-c", _WORK, str(tmp_path)]
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    settings = environment(OMP_NUM_THREADS="1", **place)
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG, env=settings)
    assert done.returncode == 0, done.stderr[-3000:]
    both = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    assert both[0] == both[1]  # the same model in both, batch norm and dropout included
    train, valid = parts()
    for number, changes in enumerate((MEAN, SUM)):
        alone, told = rw.NeuralRanker(OBJECTIVE, **SETTINGS | changes).fit(train, valid), both[0][number]
        assert told["history"]["loss"] == pytest.approx(alone.history_["loss"], rel=0, abs=1e-5)
        assert told["history"]["ndcg@10"] == pytest.approx(alone.history_["ndcg@10"], abs=1e-5)
        assert np.allclose(told["scores"], alone.predict(valid), atol=1e-4)
        assert told["seen"] == [1, 2, 3, 4, 5, 6]
        assert (
            rw.evaluate(alone, valid).mean["ndcg@10"]
            > rw.evaluate(np.zeros(valid.n_docs), valid).mean["ndcg@10"] + 0.05
        )
        assert rw.load(tmp_path / f"run{number}").best_round_ == told["best"]
    assert done.stderr.count("6/6") == 1  # one process shows a bar
