"""What a matrix runs in an environment that has the wheel and nothing of the checkout: ``python job.py WORK``.

Each piece of work prints what it found, and ends the process with 1 where something is wrong.
"""

import json
import multiprocessing
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

WORK: dict[str, Callable[[], object]] = {}
LISTS: dict[str, Any] = {"n_queries": 30, "n_docs": 12, "n_features": 5, "seed": 1}


def work(function: Callable[[], object]) -> Callable[[], object]:
    WORK[function.__name__] = function
    return function


def scores_elsewhere(folder: Path) -> list[float]:
    """Return what a new process gets from a saved model."""
    code = f"""
import json, rankwise as rw
print(json.dumps(rw.load({str(folder)!r}).predict(rw.synthetic(**{LISTS})).tolist()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    scores: list[float] = json.loads(done.stdout)
    return scores


def kept(ranker: Any) -> Any:
    """Train a ranker, save it, and see that a new process gets its scores."""
    import rankwise as rw

    data = rw.synthetic(**LISTS)
    model = ranker.fit(data)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        same = scores_elsewhere(Path(folder) / "model") == model.predict(data).tolist()
    assert same, "a saved model scores otherwise in another process"
    assert rw.evaluate(model, data, "ndcg@10").mean["ndcg@10"] > 0.5
    return model


@work
def core() -> None:
    import rankwise as rw

    model = kept(rw.LightGBMRanker("xendcg", rounds=5, leaves=5, threads=1))
    data = rw.synthetic(**LISTS)
    assert model.scorer()(data.features).tolist() == model.predict(data).tolist()
    rw.compare({"model": model, "first": data.features[:, 0]}, data, ["ndcg@10"])
    rw.explain(model, data, query=0)
    kept(rw.bagged(rw.LightGBMRanker("lambdarank", rounds=3, leaves=5, threads=1), folds=2))


@work
def xgboost() -> None:
    import rankwise as rw

    kept(rw.XGBoostRanker("xendcg", rounds=5, threads=1))


@work
def catboost() -> None:
    import rankwise as rw

    kept(rw.CatBoostRanker("xendcg", rounds=5, threads=1))


@work
def torch() -> None:
    import rankwise as rw

    kept(rw.NeuralRanker("softmax_ce", epochs=3, device="cpu", progress=False))


@work
def tune() -> None:
    import rankwise as rw

    train, valid = rw.split(rw.synthetic(**LISTS), (0.7, 0.3), seed=0)
    found = rw.tune(train, valid, "xendcg", trials=2, progress=False, seed=0, fixed={"rounds": 5}, threads=1)
    assert len(found.to_frame()) == 2


@work
def export() -> None:
    import rankwise as rw

    model = kept(rw.LightGBMRanker("xendcg", rounds=5, leaves=5, threads=1))
    with tempfile.TemporaryDirectory() as folder:
        for form in ("onnx", "treelite", "elasticsearch"):
            rw.export(model, Path(folder) / form, format=form)


@work
def serve() -> None:
    import rankwise as rw

    data = rw.synthetic(**LISTS)
    model = kept(rw.LightGBMRanker("xendcg", rounds=5, leaves=5, threads=1))
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        words = ["serve", str(Path(folder) / "model"), "--port", "0"]
        server = subprocess.Popen([sys.executable, "-m", "rankwise", *words], stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        try:
            port = int(server.stdout.readline().strip().rpartition(":")[2])
            rows = data.features[:12].tolist()
            body = json.dumps({"features": list(data.feature_names), "rows": rows}).encode()
            request = urllib.request.Request(f"http://127.0.0.1:{port}/score", body)
            with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310
                answer = json.load(response)
        finally:
            server.terminate()
            server.wait(60)
    expected = model.predict(data)[:12].tolist()
    assert answer["scores"] == expected, (answer, expected)


@work
def rerank() -> None:
    import torch
    from sentence_transformers import CrossEncoder

    import rankwise as rw

    loss = rw.rerank.Loss  # of sentence-transformers' own trainer
    assert callable(loss)
    assert CrossEncoder.__name__ in str(rw.rerank.Reranker.__doc__)
    scores = torch.randn(6, requires_grad=True)
    rw.torch_loss("softmax_ce")(scores, torch.tensor([1.0, 0, 0, 2, 0, 0]), torch.tensor([0, 3, 6])).backward()
    assert scores.grad is not None


def _trained(seed: int) -> list[float]:
    import rankwise as rw

    data = rw.synthetic(**LISTS)
    scores: list[float] = rw.LightGBMRanker("xendcg", rounds=3, seed=seed, threads=1).fit(data).predict(data).tolist()
    return scores


@work
def spawn() -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(_trained, [1, 1]) == [_trained(1)] * 2


@work
def fork() -> None:
    if "fork" not in multiprocessing.get_all_start_methods():
        print("not run: no fork here")
        return
    before = _trained(1)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(_trained, [1, 1]) == [before] * 2


@work
def saved() -> None:
    """Load the models of earlier versions, whose archives are named on the command line, and score as they did."""
    import numpy as np

    import rankwise as rw

    for archive in sys.argv[2:]:
        with tempfile.TemporaryDirectory() as folder, tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
            numbers = np.load(Path(folder) / "numbers.npz")
            documents = np.load(Path(folder) / "documents.npz")
            features, offsets = documents["features"][:, :3], documents["offsets"]
            data = rw.RankingDataset(features, documents["labels"], offsets)
            model = rw.load(Path(folder) / "lightgbm")
            assert np.array_equal(model.predict(data), numbers["lightgbm scores"]), archive


if __name__ == "__main__":
    WORK[sys.argv[1]]()
    print("passed")
