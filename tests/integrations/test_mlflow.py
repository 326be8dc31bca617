"""Rankers in MLflow, with a real tracking store: logged, loaded by other processes, and registered."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rankwise as rw
from tests.integrations.pages import run_section
from tests.processes import HANG, environment

pytestmark = pytest.mark.integration("mlflow")

EXTRAS = ("torch", "xgboost", "catboost", "optuna", "dask", "distributed", "onnx", "treelite", "transformers")

# Loads a model where modules of training cannot be imported, and writes the scores of a frame.
JOB = """
import sys
for name in sys.argv[4].split(","):
    sys.modules[name] = None
import mlflow, numpy as np, pandas as pd
model = mlflow.pyfunc.load_model(sys.argv[1])
np.save(sys.argv[3], model.predict(pd.read_pickle(sys.argv[2])))
"""


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A run in a store of local files: what mlflow-skinny has, without a database."""
    import mlflow

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    place = (tmp_path / "store").as_uri()  # not around the artifacts, whose folder would look like an experiment
    monkeypatch.setenv("MLFLOW_TRACKING_URI", place)
    mlflow.set_tracking_uri(place)
    mlflow.set_experiment(experiment_id=mlflow.create_experiment("tests", (tmp_path / "artifacts").as_uri()))
    with mlflow.start_run() as run:
        yield run
    mlflow.end_run()


def frame(data, dtype=np.float64):
    import pandas as pd

    return pd.DataFrame(data.features.astype(dtype), columns=data.feature_names)


def logged(run):
    """Return the metrics of a run, and its artifacts beside the model, by name."""
    import mlflow

    found = mlflow.get_run(run.info.run_id)
    folder = mlflow.artifacts.download_artifacts(run_id=run.info.run_id, artifact_path="model")
    return found.data.metrics, {path.name: path for path in Path(folder).iterdir()}


def folder_of(info):
    import mlflow

    return Path(mlflow.artifacts.download_artifacts(info.model_uri))


def loaded(info):
    import mlflow

    return mlflow.pyfunc.load_model(info.model_uri)


def test_scores_are_the_same_in_a_process_without_what_trained_it(store, data, valid, tmp_path):
    ranker = rw.LightGBMRanker(rounds=20, threads=1).fit(data, valid)
    info = rw.mlflow.log_model(ranker)
    frame(valid).to_pickle(tmp_path / "frame")
    command = [sys.executable, "-c", JOB, info.model_uri, tmp_path / "frame", tmp_path / "scores.npy", ",".join(EXTRAS)]
    done = subprocess.run(
        [str(word) for word in command], env=environment(), capture_output=True, text=True, timeout=HANG, check=False
    )
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "scores.npy"), ranker.predict(valid))


def test_metrics_have_their_intervals(store, data, valid):
    ranker = rw.LightGBMRanker(rounds=3, threads=1).fit(data)
    evaluation = rw.evaluate(ranker, valid, ["ndcg@10", "rbp(p=0.5)"])
    info = rw.mlflow.log_model(ranker, evaluation=evaluation)
    metrics, files = logged(store)
    low, high = evaluation.interval["ndcg@10"]
    assert metrics["ndcg_at_10"] == evaluation.mean["ndcg@10"]
    assert (metrics["ndcg_at_10.low"], metrics["ndcg_at_10.high"]) == (low, high)
    assert metrics["rbp_p_0.5"] == evaluation.mean["rbp(p=0.5)"]
    assert len(metrics) == 6
    assert json.loads(files["evaluation.json"].read_text()) == {"25 queries": evaluation.to_dict()}
    card = (folder_of(info) / "data" / "ranker" / "README.md").read_text()
    assert rf"\[{low:.4f}, {high:.4f}\]" in card
    several = {"old": evaluation, "new": evaluation}
    rw.mlflow.log_model(ranker, "again", evaluation=several)
    assert {"old/ndcg_at_10", "new/ndcg_at_10.high"} < set(logged(store)[0])


def test_the_folder_holds_no_pickle_and_needs_what_scores_it(store, data):
    import mlflow

    ranker = rw.bagged(rw.LightGBMRanker(rounds=2, threads=1), folds=2).fit(data)
    folder = folder_of(rw.mlflow.log_model(ranker))
    assert not [path for path in folder.rglob("*") if path.suffix in (".pkl", ".pickle")]
    assert (folder / "requirements.txt").read_text().splitlines() == [
        f"mlflow=={mlflow.__version__}",
        f"rankwise=={rw.__version__}",
    ]
    assert np.array_equal(rw.load(folder / "data" / "ranker").predict(data), ranker.predict(data))


def test_the_signature_is_that_of_the_features(store, data):
    import mlflow

    ranker = rw.LightGBMRanker(rounds=2, threads=1).fit(data)
    model = loaded(rw.mlflow.log_model(ranker))
    columns = model.metadata.get_input_schema().inputs
    assert [one.name for one in columns] == list(data.feature_names)
    table = frame(data)
    shuffled = table[[*reversed(table.columns)]].assign(other="not a feature")
    assert np.array_equal(model.predict(shuffled), ranker.predict(data))
    assert np.array_equal(model.predict(table.astype(np.float32)), ranker.predict(data))
    with pytest.raises(mlflow.exceptions.MlflowException, match="title_bm25"):
        model.predict(table.assign(title_bm25="words"))
    holes = table.assign(title_bm25=np.nan)
    assert np.array_equal(model.predict(holes), ranker.predict(holes))
    with pytest.raises(ValueError, match="a feature that these data do not have"):
        model.predict(table.drop(columns="title_bm25"))
    matrix = rw.LightGBMRanker(rounds=2, threads=1).fit(data.features, data.labels, group=data.sizes)
    scores = loaded(rw.mlflow.log_model(matrix)).predict(data.features.astype(float))
    assert np.array_equal(scores, matrix.predict(data.features))


def test_categories_are_passed_by_their_values(store):
    import pandas as pd

    rng = np.random.default_rng(0)
    colour, year = rng.choice(["red", "blue"], 200), rng.choice([1999, 2001, 2026], 200)
    table = pd.DataFrame(
        {"qid": np.repeat(range(20), 10), "label": (colour == "red") + (year > 2000) * 1, "x": rng.random(200)}
    ).assign(colour=pd.Categorical(colour), year=pd.Categorical(year))
    ranker = rw.LightGBMRanker(rounds=5, min_documents=2, threads=1).fit(table)
    assert ranker.categories_
    model = loaded(rw.mlflow.log_model(ranker))
    features = pd.DataFrame({"x": table["x"], "colour": colour, "year": year})
    kinds = {one.name: one.type.name for one in model.metadata.get_input_schema().inputs}
    assert kinds == {"x": "double", "colour": "string", "year": "long"}
    assert np.array_equal(model.predict(features), ranker.predict(table))


def test_a_search_logs_its_leaderboard_and_a_comparison_its_page(store, data, valid):
    recipes = ["lightgbm(xendcg, rounds=2)", "lightgbm(lambdarank, rounds=2)"]
    auto = rw.AutoRanker(None, recipes=recipes, folds=2, threads=1, progress=False).fit(data)
    comparison = rw.compare({"auto": auto, "first": valid.features[:, 0]}, valid)
    info = rw.mlflow.log_model(auto, evaluation=rw.evaluate(auto, valid), comparison=comparison)
    files = logged(store)[1]
    assert {"leaderboard.csv", "leaderboard.html", "report.html", "evaluation.json"} <= set(files)
    assert "lightgbm(lambdarank)" in files["leaderboard.csv"].read_text()
    assert "</html>" in files["report.html"].read_text()
    assert np.array_equal(loaded(info).predict(frame(valid)), auto.predict(valid))


def test_a_ranker_of_whole_lists_is_passed_their_ids(store, data):
    @rw.register("relative")
    class Relative(rw.Ranker):
        needs_lists = True

        def _fit(self, train, valid):
            self.fitted_ = 1

        def _predict(self, features, offsets):
            first = np.add.reduceat(features[:, 0], offsets[:-1])
            return features[:, 0] - np.repeat(first, np.diff(offsets))

    ranker = Relative().fit(data)
    model = loaded(rw.mlflow.log_model(ranker))
    assert np.array_equal(model.predict(frame(data).assign(qid=data.qids())), ranker.predict(data))


def test_what_cannot_be_logged_is_rejected(store, data):
    with pytest.raises(ValueError, match="not trained yet"):
        rw.mlflow.log_model(rw.LightGBMRanker())
    ratings = rw.recommend.synthetic_ratings(30, 40, n_ratings=12, seed=1)
    with pytest.raises(ValueError, match="scores tables of features: got a Popularity. Hint: log the folder"):
        rw.mlflow.log_model(rw.recommend.Popularity().fit(ratings))


def test_the_page_runs(store):
    import mlflow

    mlflow.end_run()
    names = run_section("MLflow")
    assert names["info"].signature.inputs.input_names() == list(names["train"].feature_names)
