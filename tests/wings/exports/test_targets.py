"""What versions of engines score otherwise is refused: scores are computed by the rule of each version, by hand."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from tests.cli.running import refused, run
from tests.refusals import refusal
from tests.wings.exports.test_export import NAMES, lists, rows_for
from tests.wings.exports.test_sql import trained

RULES = {
    "opensearch-2.19": "zero", "opensearch-3.1.0": "zero", "opensearch-3.2": "right", "opensearch-3.7": "right",
    "opensearch-3.8": "split", "opensearch-4.0": "split", "elasticsearch-7.17": "zero", "elasticsearch-8.10": "zero",
    "elasticsearch-8.15": "zero",
}  # fmt: skip


def by_the_plugin(path: Path, rows: np.ndarray, rule: str) -> np.ndarray:
    """Score rows as the plug-in of a version does: what it does with a missing value is said by ``rule``."""
    trees = json.loads(json.loads(path.read_text())["model"]["model"]["definition"])

    def walk(node: dict[str, Any], row: np.ndarray) -> float:
        while "leaf" not in node:
            value = row[NAMES.index(node["split"])]
            if np.isnan(value) and rule == "zero":
                value = np.float32(0.0)
            left = np.float32(node["split_condition"]) > value
            if np.isnan(value) and rule == "split":
                left = node["missing"] == node["yes"]
            node = node["children"][0 if left else 1]
        return float(node["leaf"])

    with np.errstate(over="ignore"):
        return np.array([sum(walk(tree, row) for tree in trees) for row in rows])


def models() -> dict[str, Any]:
    right = rw.CatBoostRanker("xendcg", rounds=8, nan_mode="Max", threads=1).fit(lists(missing=0.2))
    return {
        "as 0": trained("lightgbm", 0.0),
        "either way": trained("lightgbm"),
        "always right": right,
        "xgboost": trained("xgboost"),
    }


def test_a_target_takes_exactly_the_models_that_it_scores_as_predict_does(tmp_path):
    rows, taken = rows_for()[4:], set()
    for name, model in models().items():
        path = rw.export(model, tmp_path / "model.json", "elasticsearch", force=True)
        for target, rule in RULES.items():
            same = bool(np.abs(by_the_plugin(path, rows, rule) - model.predict(rows)).max() < 1e-5)
            accepted = True
            try:
                rw.export(model, path, "elasticsearch", target=target, force=True)
            except rw.errors.InputError:
                accepted = False
            assert accepted == same, (name, target)
            taken |= {(name, rule)} if accepted else set()
    assert taken == {
        ("as 0", "zero"), ("as 0", "split"), ("either way", "split"), ("always right", "right"),
        ("always right", "split"), ("xgboost", "split"),
    }  # fmt: skip


def test_solr_and_elasticsearch_itself(tmp_path):
    model = trained("lightgbm")
    with refusal(what="a missing value is 0 in solr-9.1, and not so in the model", where="column '…"):
        rw.export(model, tmp_path / "model.json", "solr", target="solr-9.1")
    assert rw.export(trained("lightgbm", 0.0), tmp_path / "zero.json", "solr", target="solr-9.1").exists()
    assert rw.export(model, tmp_path / "model.json", "solr", target="solr-9.2").exists()
    assert rw.export(model, tmp_path / "own.json", "elastic-ltr", target="elasticsearch-8.12").exists()
    with refusal(what="nothing is known of elasticsearch before 8.12", got="'elasticsearch-8.11'"):
        rw.export(model, tmp_path / "other.json", "elastic-ltr", target="elasticsearch-8.11")
    with refusal(
        what="a missing value is 0, or goes where the split says: not known in elasticsearch-8.15, and not so…"
    ):
        rw.export(model, tmp_path / "other.json", "elasticsearch", target="elasticsearch-8.15")


@pytest.mark.parametrize("transform", ["standard", None])
def test_linear_models_have_0_for_a_missing_value(transform, tmp_path):
    model = rw.LinearRanker(transform=transform, threads=1).fit(lists(missing=0.2))
    if transform is None:
        rw.export(model, tmp_path / "model.json", "elasticsearch", target="opensearch-3.8")
    else:
        with refusal(what="a missing value is 0 in opensearch-3.8, and not so in the model", where="column '…"):
            rw.export(model, tmp_path / "model.json", "elasticsearch", target="opensearch-3.8")
    assert rw.export(model, tmp_path / "solr.json", "solr", target="solr-9.1").exists()


@pytest.mark.parametrize("target", ["opensearch", "opensearch-2", "solr-9.2", "OpenSearch-2.19", 3])
def test_other_targets_are_refused(target, tmp_path):
    what = "a target of the format elasticsearch is one of opensearch-VERSION, elasticsearch-VERSION"
    with refusal(what=what, got=repr(target)):
        rw.export(trained("lightgbm"), tmp_path / "model.json", "elasticsearch", target=target)
    with refusal(what="the format onnx has no targets"):
        rw.export(trained("lightgbm"), tmp_path / "model.onnx", "onnx", target=target)


def test_queries_of_features(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = trained("lightgbm")
    title = {"match": {"title": "{{query}}"}}
    path = rw.export(model, "model.json", "elastic-ltr", queries={NAMES[1]: title})
    extractors = json.loads(path.read_text())["inference_config"]["learning_to_rank"]["feature_extractors"]
    first, second = (extractors[place]["query_extractor"] for place in (0, 1))
    assert second == {"feature_name": NAMES[1], "query": title}
    assert first["query"]["script_score"]["query"] == {"exists": {"field": NAMES[0]}}
    with refusal(what="queries belong to the format elastic-ltr", got="format 'solr'"):
        rw.export(model, "other.json", "solr", queries={})
    with refusal(what="unknown feature of queries", got="'title'"):
        rw.export(model, "other.json", "elastic-ltr", queries={"title": title})
    with refusal(what="queries are a dictionary from features to dictionaries", got=repr({NAMES[1]: "title"})):
        rw.export(model, "other.json", "elastic-ltr", queries={NAMES[1]: "title"})  # type: ignore[dict-item]
    model.save("model")
    message = refused("export", "model", "-o", "x.json", "--format", "solr", "--target", "solr-9.0")
    assert "a missing value is 0 in solr-9.0" in message
    run("export", "model", "-o", "x.json", "--format", "solr", "--target", "solr-9.2")
