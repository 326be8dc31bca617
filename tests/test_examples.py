"""The examples run as they stand."""

import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

import rankwise as rw
from tests import tiers

EXAMPLES = Path(__file__).parents[1] / "examples"
# What each of them prints at its end, or the test that runs it.
PRINTED = {
    "clicks_to_ranker.py": "clicks an impression",
    "from_lightgbm.py": "five most important features",
    "own_functions.py": "best_on_top",
    "own_ranker.py": "read again",
    "recommendations.py": "recommends:",
    "rerank_in_trees.py": "features and text",
    "serve.py": "as the model ranks them",
    "torch_loop.py": "untrained",
    "trec_runs.py": "MAP & nDCG@20 & P@10",
}
ELSEWHERE = {
    "hybrid_postgres.py": "tests/integrations/test_engines.py",
    "search_service.py": "tests/integrations/test_engines.py",
    "squared_hinge.py": "test_an_objective_of_ones_own_in_forty_lines",
    "squared_hinge_gpu.py": "test_an_objective_of_ones_own_brings_a_kernel_for_gpus",
    "train_distributed.py": "test_a_net_on_two_processes",
}


def test_every_example_is_run_and_listed():
    scripts = {path.name for path in EXAMPLES.glob("*.py")}
    assert scripts == PRINTED.keys() | ELSEWHERE.keys()
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [name for name in scripts if f"`{name}`" not in listed] == []


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_runs_as_it_stands(name, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [name])
    again = name in ("serve.py", "trec_runs.py")  # a second run must not stumble over the files of the first
    for _ in range(1 + again):
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        assert PRINTED[name] in capsys.readouterr().out


def test_an_objective_of_ones_own_in_forty_lines(capsys):
    names = runpy.run_path(str(EXAMPLES / "squared_hinge.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert "squared_hinge keeps the contract" in printed
    assert "ndcg@10" in printed
    text = (EXAMPLES / "squared_hinge.py").read_text(encoding="utf-8")
    objective = text[text.index("@dataclass") : text.index("if __name__")].strip()
    assert len(objective.splitlines()) <= 40
    hinge = names["SquaredHinge"](margin=1.0)
    ours = rw.objectives.Pairwise(loss="squared_hinge")
    data = rw.synthetic(n_queries=5, n_features=2, seed=1)
    scores = data.features[:, 0].astype(float)
    for one, other in zip(
        hinge(scores, data.labels, data.offsets), ours(scores, data.labels, data.offsets), strict=True
    ):
        assert one == pytest.approx(other, rel=1e-9, abs=1e-9)


def test_an_objective_of_ones_own_brings_a_kernel_for_gpus(monkeypatch):
    pytest.importorskip("triton")
    from tests.objectives.device.devices import DEVICE, Lists, assert_same

    monkeypatch.syspath_prepend(EXAMPLES)
    hinge = runpy.run_path(str(EXAMPLES / "squared_hinge.py"))["SquaredHinge"](margin=0.25)
    lists = Lists([1, 5, 40, 3])
    prepared = (0.5 * hinge + rw.objectives.SoftmaxCE()).prepare(lists.labels, lists.offsets)
    with np.errstate(all="ignore"):  # of lanes that are masked out, in Triton's interpreter
        found = prepared.to(DEVICE, torch.float64)(torch.tensor(lists.scores, device=DEVICE))
    assert_same(found, prepared(lists.scores), 1e-11)


def test_a_ranker_of_ones_own_in_sixty_lines():
    path = EXAMPLES / "own_ranker.py"
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 60
    ridge = runpy.run_path(str(path))["Ridge"](alpha=0.5)
    data = rw.synthetic(n_queries=8, n_features=3, n_docs=6, seed=1)
    model = ridge.fit(data)
    features, labels = [], []
    for query in range(data.n_queries):  # the same with a pencil, and scikit-learn
        part = data.take([query])
        scale = part.features.std(axis=0)
        features.append((part.features - part.features.mean(axis=0)) / np.where(scale > 0, scale, 1.0))
        labels.append(part.labels - part.labels.mean())
    twin = Ridge(alpha=0.5, fit_intercept=False).fit(np.concatenate(features), np.concatenate(labels))
    np.testing.assert_allclose(model.predict(data), twin.predict(np.concatenate(features)), rtol=1e-5, atol=1e-6)


def test_scores_for_trees_come_from_rerankers_that_have_not_seen_the_query():
    names = runpy.run_path(str(EXAMPLES / "rerank_in_trees.py"))
    lists = names["shop"](n_queries=23, seed=1)

    class Recorded:
        """Knows which queries it was trained and stopped on, and refuses to score those."""

        def __init__(self, train, valid):
            self.seen = {*train.data.qids().tolist(), *valid.data.qids().tolist()}

        def predict(self, held_out):
            assert self.seen.isdisjoint(held_out.data.qids().tolist())
            assert len(self.seen) + held_out.n_queries == lists.n_queries
            return held_out.data.features[:, 0]

    scores, rerankers = names["cross_fitted"](lists, Recorded, folds=5)
    assert scores.tolist() == lists.data.features[:, 0].tolist()  # every document has the score of its own row
    assert len(rerankers) == 5
    data = names["with_score"](lists, scores)
    assert data.feature_names == ("price", "stars", "text")
    assert data.features[:, 2].tolist() == scores.tolist()


@tiers.only_all
def test_a_net_on_two_processes(tmp_path):
    """Slow: torchrun and two processes import torch."""
    train, valid = rw.split(rw.synthetic(n_queries=40, n_features=4, n_docs=8, seed=1), (0.5, 0.5), seed=0)
    for name, part in (("train.txt", train), ("valid.txt", valid)):
        rw.data.write_letor(part, tmp_path / name)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    script = [str(EXAMPLES / "train_distributed.py"), "train.txt", "valid.txt", "model"]
    done = subprocess.run([*torchrun, *script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ndcg@10 ")
    assert rw.load(tmp_path / "model").name == "neural"
