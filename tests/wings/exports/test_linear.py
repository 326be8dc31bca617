"""Linear models elsewhere: scores of SQL in SQLite, of ONNX Runtime, and of what engines compute by hand."""

import json
import re
import sqlite3
from itertools import pairwise

import numpy as np
import onnxruntime
import pytest

import rankwise as rw
from tests.refusals import refusal

NAMES = ["bm25(title)", 'the "best"', "price", "clicks", "constant", "absent"]


def lists(n_queries: int = 60, n_docs: int = 20, seed: int = 1) -> rw.RankingDataset:
    """Data with few values, many, a constant, missing ones, and a query in which a feature is all the same."""
    data = rw.synthetic(n_queries=n_queries, n_docs=n_docs, n_features=6, seed=seed)
    features = data.features.copy()
    features[:, 1] = np.round(features[:, 1], 1)
    features[:, 2] = np.exp(np.clip(features[:, 2], -9.0, 9.0))
    features[:, 4], features[:, 5] = 7.0, np.nan
    features[::7, 0] = features[::5, 2] = np.nan
    features[data.offsets[3] : data.offsets[4], 3] = 0.1
    features[data.offsets[4] : data.offsets[5], 0] = np.nan
    return data.with_(features=features, feature_names=NAMES)


def trained(transform: str | None) -> rw.LinearRanker:
    return rw.LinearRanker("softmax_ce", transform=transform, l2=0.01, threads=1).fit(lists())


def in_sqlite(path, data: rw.RankingDataset) -> np.ndarray:
    columns = ", ".join('"' + name.replace('"', '""') + '" REAL' for name in NAMES)
    rows = [
        (query, number, *(None if np.isnan(value) else float(value) for value in row))
        for number, (query, row) in enumerate(zip(data.qids().tolist(), data.features, strict=True))
    ]
    with sqlite3.connect(":memory:") as database:
        database.execute(f"CREATE TABLE documents (qid, document, {columns})")
        database.executemany(f"INSERT INTO documents VALUES ({', '.join('?' * (2 + len(NAMES)))})", rows)  # noqa: S608
        found = dict(row[1:] for row in database.execute(path.read_text()).fetchall())
    return np.array([found[number] for number in range(data.n_docs)])


@pytest.mark.parametrize("transform", ["quantile+query", "quantile", "standard", None])
def test_ten_thousand_documents_score_the_same_in_sqlite(transform, tmp_path):
    model, fresh = trained(transform), lists(500, 20, seed=2)
    assert fresh.n_docs > 9_000
    path = rw.export(model, tmp_path / "model.sql", "sql")
    expected = model.predict(fresh)
    assert np.ptp(expected) > 0.5
    np.testing.assert_allclose(in_sqlite(path, fresh), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("transform", ["quantile+query", "quantile", "standard", None])
def test_onnx_scores_the_documents_of_a_query(transform, tmp_path):
    model, fresh = trained(transform), lists(8, 30, seed=2)
    path = rw.export(model, tmp_path / "model.onnx", "onnx")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    expected = model.predict(fresh)
    for start, end in zip(fresh.offsets[:-1], fresh.offsets[1:], strict=True):
        (scores,) = session.run(["scores"], {"features": fresh.features[start:end]})
        np.testing.assert_allclose(scores, expected[start:end], atol=1e-6, rtol=0)


def test_what_a_query_has_in_common_is_nothing_within_it_in_onnx_either(tmp_path):
    data = rw.synthetic(n_queries=300, n_docs=20, n_features=9, seed=2)
    features = data.features.copy()
    features[:, 4:] = np.repeat(features[data.offsets[:-1]][:, 4:], data.sizes, axis=0)  # as features of queries are
    model = rw.LinearRanker(l2=0.01, threads=1).fit(data.with_(features=features).take(slice(0, 100)))
    model.model_.weights = np.linspace(1.0, 2.0, 18)  # a difference that is none would have a weight
    knots = model.model_.transform.knots
    features[: knots.shape[1], 1] = knots[1]  # the edges of quantiles, and what lies just beyond them
    features[1000 : 1000 + knots.shape[1], 2] = np.nextafter(knots[2], np.float32(np.inf))
    path = rw.export(model, tmp_path / "model.onnx", "onnx")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    found = [session.run(["scores"], {"features": features[a:b]})[0] for a, b in pairwise(data.offsets)]
    np.testing.assert_allclose(np.concatenate(found), model.predict(data.with_(features=features)), atol=1e-6, rtol=0)


@pytest.mark.parametrize("transform", ["standard", None])
def test_engines_get_weights_of_raw_features(transform, tmp_path):
    model, names = trained(transform), [f"feature_{number}" for number in range(6)]
    rows = lists(5, 20, seed=2).features
    full = np.where(np.isnan(rows), np.float32(0.5), rows).astype(np.float64)
    expected = model.predict(full)
    body = json.loads(rw.export(model, tmp_path / "elastic.json", "elasticsearch", names=names).read_text())["model"]
    assert body["model"]["type"] == "model/linear"
    weights = json.loads(body["model"]["definition"])
    assert list(weights) == names
    apart = expected - full @ np.array(list(weights.values()))
    np.testing.assert_allclose(apart, apart[0], atol=1e-5)  # a constant, which changes no ranking
    solr = json.loads(rw.export(model, tmp_path / "solr.json", "solr", names=names).read_text())
    assert (solr["class"], solr["name"]) == ("org.apache.solr.ltr.model.LinearModel", "solr")
    norms = [{key: float(value) for key, value in one["norm"]["params"].items()} for one in solr["features"]]
    normal = (full - [one["avg"] for one in norms]) / [one["std"] for one in norms]
    np.testing.assert_allclose(normal @ list(solr["params"]["weights"].values()), expected, atol=1e-5)
    assert [one["name"] for one in solr["features"]] == list(solr["params"]["weights"]) == names
    text = rw.export(model, tmp_path / "ranker.expression", "vespa", names=names).read_text()
    python = re.sub(r"if \((isNan\(\w+\) == 1), 0\.0, (.*?)\)(?= \+\n|\n)", r"(0.0 if \1 else \2)", text)
    for row, score in zip(rows[:40], model.predict(rows[:40]), strict=True):
        values = {name: float(value) for name, value in zip(names, row, strict=True)}
        found = eval(f"({python})", {"isNan": np.isnan, **values})  # noqa: S307 (what was just written)
        assert found == pytest.approx(score, abs=1e-5)


def test_what_an_engine_cannot_compute_is_refused_with_what_can(tmp_path):
    model, names = trained("quantile"), [f"feature_{number}" for number in range(6)]
    for name, system in (("elasticsearch", "Elasticsearch's plugin"), ("solr", "Solr"), ("vespa", "Vespa")):
        with refusal(
            what=f"{system} takes linear models of features as they are, or standardised",
            got="transform='quantile'",
            hint="train with transform='standard', or export to onnx or sql",
        ):
            rw.export(model, tmp_path / "model", name, names=names)
    with refusal(what="treelite takes trees, and no linear models", got="LinearRanker"):
        rw.export(model, tmp_path / "model", "treelite")
    with refusal(what="qid and document name queries and documents there", got="'Document'"):
        rw.export(model, tmp_path / "model", "sql", names=[*names[:-1], "Document"])
    assert not list(tmp_path.iterdir())


def test_weights_that_are_zero_ask_for_no_columns(tmp_path):
    model = rw.LinearRanker(transform="quantile+query", l1=0.15, threads=1).fit(lists())
    path = rw.export(model, tmp_path / "model.sql", "sql")
    used = np.flatnonzero(model.model_.weights.reshape(2, -1).any(axis=0))
    assert 0 < used.size < 4
    for number, name in enumerate(NAMES):
        assert ('"' + name.replace('"', '""') + '"' in path.read_text()) == (number in used)
    np.testing.assert_allclose(in_sqlite(path, lists(seed=3)), model.predict(lists(seed=3)), atol=1e-6)
