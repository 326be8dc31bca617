"""Without MLflow: what is missing is named. ``tests/integrations/test_mlflow.py`` has the tests with it."""

import sys

import pytest

import rankwise as rw


def test_a_missing_mlflow_is_named_with_the_extra_that_brings_it(data, monkeypatch):
    ranker = rw.LightGBMRanker(rounds=1, threads=1).fit(data)
    monkeypatch.setitem(sys.modules, "mlflow", None)
    for call in (rw.mlflow.log_model, rw.mlflow.signature):
        with pytest.raises(ImportError, match=r"mlflow is not installed. .*pip install 'rankwise\[mlflow\]'"):
            call(ranker)


def test_a_logged_folder_is_read_without_mlflow(data, tmp_path, monkeypatch):
    ranker = rw.LightGBMRanker(rounds=1, threads=1).fit(data)
    monkeypatch.setitem(sys.modules, "mlflow", None)
    read = rw.mlflow._load_pyfunc(str(ranker.save(tmp_path / "ranker")))
    assert (read.predict(data) == ranker.predict(data)).all()


def test_requirements_are_the_libraries_that_score(data):
    blend = rw.blended([rw.LightGBMRanker(rounds=1, threads=1), 0], folds=2).fit(data)
    assert rw.mlflow.requirement(blend) == f"rankwise=={rw.__version__}"
