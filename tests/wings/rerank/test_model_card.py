"""Model cards: what the Hub reads of them, and that every number carries its interval."""

from typing import Any

import pytest

import rankwise as rw
from rankwise.wings.rerank.model_card import model_card
from tests.wings.rerank import graded


@pytest.fixture(scope="module")
def evaluation():
    lists = graded.lists(9)
    return rw.evaluate(lists.labels + 0.1, lists.data, ["ndcg@10", "rr"])


def card(name="mine", **changes):
    description = {"objective": "xendcg", "base_model": "", "evaluations": {}, "epochs": 1.0}
    description |= {"data": {}, "parameters": {}, "versions": {}, **changes}
    return model_card(name, description, "xendcg")


def test_the_metadata_for_the_hub_holds_the_evaluations(evaluation):
    from huggingface_hub import ModelCard

    text = card(base_model="someone/model", evaluations={"validation": evaluation.to_dict()})
    about: Any = ModelCard(text).data
    assert about.library_name == "sentence-transformers"
    assert about.pipeline_tag == "text-ranking"
    assert about.base_model == "someone/model"
    assert "rankwise" in about.tags
    found = {one.metric_type: one for one in about.eval_results}
    assert found["ndcg@10"].metric_value == evaluation.mean["ndcg@10"]
    assert found["ndcg@10"].dataset_name == "validation"
    assert "95% interval [" in found["rr"].metric_name


def test_every_number_has_its_interval(evaluation):
    text = card(evaluations={"test": evaluation.to_dict()})
    for name, (low, high) in evaluation.interval.items():
        mean = evaluation.mean[name]
        assert rf"| {name} | {mean:.4f} | \[{low:.4f}, {high:.4f}\] | 9 |" in text
    assert "bootstrap over queries" in text
    assert "chosen on these queries" not in text


def test_the_evaluation_that_chose_the_model_is_marked(evaluation):
    text = card(evaluations={"validation": evaluation.to_dict()})
    assert "chosen on these queries" in text


def test_skipped_queries_are_mentioned():
    lists = graded.lists(4)
    nothing = lists.with_(labels=lists.labels * (lists.data.qids() != "q0"))
    found = rw.evaluate(lists.labels, nothing.data).to_dict()
    assert "without relevant documents is skipped" in card(evaluations={"test": found})


def test_names_are_escaped():
    from huggingface_hub import ModelCard

    text = card(name="a: [b]\n# c", base_model="x`y\n---\nz")
    about: Any = ModelCard(text).data
    assert about.base_model == "x`y\n---\nz"
    assert "# a: [b] # c" in text
    assert "`x'y --- z`" in text
    assert 'CrossEncoder("a: [b]\\n# c")' in text


def test_a_card_without_evaluations_claims_nothing():
    text = card()
    assert "Evaluation" not in text
    assert "model-index" not in text
    assert f"objective `xendcg` ({rw.objective('xendcg').paper})" in text
