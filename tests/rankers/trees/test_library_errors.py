"""What libraries refuse is an error of ours, said once: no exception of theirs, and no line of theirs on the screen."""

import json
import os
import subprocess
import sys
from typing import Any

import lightgbm
import numpy as np
import pytest

import rankwise as rw
from rankwise.models.forests import lightgbm as forests
from rankwise.models.forests.library_errors import without_lines
from rankwise.models.schema import Schema
from tests.cli.running import run
from tests.refusals import refusal, refuses

FEATURES = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
LABELS, QUERIES = np.tile([0, 1, 2], 20), np.repeat(range(6), 10)
QUICK: Any = {"rounds": 2, "threads": 1}


def fit(ranker, features=FEATURES, labels=LABELS, **queries):
    return ranker.fit(features, labels, **(queries or {"qid": QUERIES}))


@pytest.mark.parametrize(
    ("settings", "fields"),
    [
        (
            {"bagging_fraction": 2.0},
            {"what": "LightGBM cannot train so", "got": "Check failed: (bagging_fraction) <= (1.0)"},
        ),
        (
            {"max_bin": 1},
            {"got": "Check failed: (max_bin) > (1)", "hint": "look at the parameters of LightGBM itself…"},
        ),
        ({"max_bin": "many"}, {"got": 'Parameter max_bin should be of type int, got "many"'}),
        ({"boosting": "bosting"}, {"got": "Unknown boosting type bosting"}),
        (
            {"force_row_wise": True, "force_col_wise": True},
            {"got": "Cannot set both of `force_col_wise` and `force_row_wise` to `true` at the same time"},
        ),
        ({"data_sample_strategy": "goss", "top_rate": 0.9, "other_rate": 0.9}, {"got": "…top_rate…"}),
        (
            {"cegb_penalty_feature_lazy": [1.0]},
            {"got": "cegb_penalty_feature_lazy should be the same size as feature number"},
        ),
        (
            {"interaction_constraints": [[0, 2]]},
            {"what": "interaction_constraints name features by their numbers from 0", "got": "2 for 2 features"},
        ),
        (
            {"min_documents": 50},
            {"what": "the model learned nothing from 6 queries", "got": "no split of 60 documents…"},
        ),
        (
            {"objective": "native:lambdarank", "label_gain": [0, 1]},
            {"what": "native:lambdarank needs labels below 2, the number of its gains", "got": "2"},
        ),
    ],
)
def test_what_lightgbm_refuses_is_said_once(settings, fields, capfd):
    refuses(lambda: fit(rw.LightGBMRanker(**QUICK, **settings)), **fields)
    assert capfd.readouterr() == ("", "")


def test_a_model_that_lightgbm_cannot_read_is_said_once(capfd):
    with refusal(what="cannot read as a LightGBM model"):
        content = b"tree\nversion=v4\nnum_class=1\n\nTree=0\nend of trees\n"
        rw.LightGBMRanker.library.forest.read(content, Schema(1))
    assert capfd.readouterr() == ("", "")


def test_features_that_cannot_be_split_are_said_once(capfd):
    refuses(lambda: fit(rw.LightGBMRanker(**QUICK), FEATURES * 0), got="features that are the same for every document")
    assert capfd.readouterr() == ("", "")


def test_what_xgboost_refuses_is_an_error_of_ours():
    pytest.importorskip("xgboost")
    with refusal(what="XGBoost cannot train so", got="value 2 for Parameter subsample exceed bound [0,1]"):
        fit(rw.XGBoostRanker(**QUICK, subsample=2.0))
    with refusal(what="XGBoost cannot train so", got="…Input data contains `inf`…"):
        fit(rw.XGBoostRanker(**QUICK), FEATURES * np.inf)


def test_other_lines_of_standard_error_are_kept(capfd):
    program = "import os; os.write(2, b'[Library] [Fatal] no\\n\\nanother line\\n')"
    with without_lines(b"[Library] [Fatal]"):
        subprocess.run([sys.executable, "-c", program], check=True)
    assert capfd.readouterr().err == "another line\n"


def test_that_the_network_listens_is_not_said(capfd, monkeypatch):
    from rankwise.rankers.trees.lightgbm.model import LightGBMGrowth, LightGBMMatrices

    class Booster:
        def num_trees(self):
            return 1

        def model_to_string(self, **_):
            return "num_leaves=2\n"

    def started(*_, **__):
        os.write(1, b"[LightGBM] [Info] Listening...\nanother line\n")  # as a thread of the library does
        return Booster()

    monkeypatch.setattr("lightgbm.train", started)
    matrices: Any = LightGBMMatrices(None, [])  # type: ignore[arg-type]
    assert LightGBMGrowth({"num_machines": 2}, matrices, None).add(None)
    assert capfd.readouterr() == ("another line\n", "")


def test_json_stands_alone_on_standard_output(tmp_path, monkeypatch):
    rw.data.write_letor(rw.RankingDataset.from_qids(FEATURES, LABELS, QUERIES), tmp_path / "rows.txt")
    silent = rw.LightGBMRanker.library.grow

    def grow(*arguments):
        print("[LightGBM] [Info] as it prints with verbosity=1")
        return silent(*arguments)

    monkeypatch.setattr(rw.LightGBMRanker.library, "grow", grow)
    settings = ("--rounds", 2, "--threads", 1, "--min-documents", 2)
    result = run("train", tmp_path / "rows.txt", *settings, "--json", "-o", tmp_path / "model")
    assert json.loads(result.stdout)["ranker"] == "lightgbm"
    assert "[LightGBM] [Info]" in result.stderr


# Input that libraries would stumble over.


def rankers():
    yield rw.LightGBMRanker(**QUICK)
    for module, name in (("xgboost", "XGBoostRanker"), ("catboost", "CatBoostRanker"), ("torch", "NeuralRanker")):
        pytest.importorskip(module)
        yield getattr(rw, name)(threads=1)
    yield rw.bagged(rw.LightGBMRanker(**QUICK), 2)
    yield rw.AutoRanker()


def test_data_without_features_or_documents_are_refused_by_every_ranker():
    bare = rw.RankingDataset(np.empty((60, 0)), LABELS, range(0, 61, 10))
    for ranker in rankers():
        with refusal(what="a ranker learns from features of documents", got="60 documents with 0 features"):
            ranker.fit(bare)
        with refusal(got="0 documents with 2 features"):
            ranker.fit(rw.RankingDataset(np.empty((0, 2)), [], [0]))


def test_a_table_without_columns_is_refused():
    pandas = pytest.importorskip("pandas")
    with refusal(what="a table of features must have columns"):
        fit(rw.LightGBMRanker(**QUICK), pandas.DataFrame(index=range(60)))


def test_query_ids_must_be_known():
    ranker, unknown_ids = rw.LightGBMRanker(**QUICK), np.array([1, 2, None, 4, 5, 6], object)
    for unknown in (None, float("nan")):
        with refusal(what="qid must be known for every document", where="row 0"):
            fit(ranker, qid=[unknown, *QUERIES[1:].tolist()])
    with refusal(what="qids must be known for every document", got="None", where="row 59"):
        rw.RankingDataset.from_qids(FEATURES, LABELS, [*QUERIES[:-1].tolist(), None])
    with refusal(what="query ids must be known for every query", got="None", where="query number 2"):
        rw.RankingDataset(FEATURES, LABELS, range(0, 61, 10), query_ids=unknown_ids)
    with refusal(what="document ids must be known for every document", got="None", where="row 0"):
        rw.RankingDataset(FEATURES, LABELS, range(0, 61, 10), document_ids=np.full(60, None))


def test_columns_of_pandas_own_types_are_read():
    pandas = pytest.importorskip("pandas")
    expected = np.stack((np.where(np.arange(60) % 2, np.nan, 1.0), FEATURES[:, 0]), axis=1)
    for flags in (
        pandas.array([True, None] * 30, dtype="boolean"),
        pandas.array([1, None] * 30, dtype="Int8"),
        pandas.array([1.0, None] * 30, dtype="Float32"),
        pandas.arrays.SparseArray([1.0, np.nan] * 30),
    ):
        table = pandas.DataFrame({"qid": QUERIES, "label": LABELS, "a": flags, "b": FEATURES[:, 0]})
        np.testing.assert_array_equal(rw.RankingDataset.from_frame(table).features, expected)
    ids = pandas.Series(QUERIES, dtype="Int64")
    for qid in (ids, ids.astype("string"), ids.astype("category"), QUERIES.astype(object)):
        fit(rw.LightGBMRanker(**QUICK, min_documents=2), qid=qid)
    with refusal(what="a frame must be a polars, pandas or Arrow table", got="pandas.Series"):
        rw.RankingDataset.from_frame(pandas.Series([1.0]))


def test_an_empty_table_is_an_empty_data_set():
    import polars as pl

    data = rw.RankingDataset.from_frame(pl.DataFrame({"qid": [], "label": [], "x": []}))
    assert (data.n_docs, data.n_queries, data.n_features) == (0, 0, 1)


def test_lines_of_libraries_never_reach_standard_output(capfd, monkeypatch):
    library = lightgbm.basic  # as it is in a new process: workers of a cluster in this one have a logger of their own
    monkeypatch.setattr(library, "_LOGGER", library._DummyLogger())
    monkeypatch.setattr(library, "_INFO_METHOD_NAME", "info")
    monkeypatch.setattr(library, "_WARNING_METHOD_NAME", "warning")
    forests.lightgbm.cache_clear()
    data = rw.synthetic(n_queries=20, n_docs=12, n_features=3, seed=2)
    rw.LightGBMRanker("xendcg", rounds=2, leaves=4, min_documents=5, threads=1, verbosity=1).fit(data)
    rw.XGBoostRanker("xendcg", rounds=2, leaves=4, min_documents=5, threads=1, gamma=0.0, verbosity=2).fit(data)
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "[LightGBM] [Info]" in captured.err
