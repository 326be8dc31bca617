"""Refusals say what is in the way and what to do instead, and doing that works."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import rankwise as rw

TREES: dict[str, Any] = {"rounds": 2, "leaves": 4, "min_documents": 2, "threads": 1}
NET: dict[str, Any] = {"objective": "softmax_ce", "hidden": (4,), "epochs": 1, "threads": 1, "device": "cpu"}


@cache
def train() -> rw.RankingDataset:
    data = rw.synthetic(n_queries=30, n_features=4, n_docs=10, seed=1).with_(query_ids=np.arange(30))
    return data.with_(propensities=np.full(data.n_docs, 0.5))


@cache
def valid() -> rw.RankingDataset:
    data = rw.synthetic(n_queries=10, n_features=4, n_docs=10, seed=2).with_(query_ids=np.arange(50, 60))
    return data.with_(propensities=np.full(data.n_docs, 0.5))


def weighted(data: rw.RankingDataset) -> rw.RankingDataset:
    return data.with_(weights=np.ones(data.n_queries))


def tree(**changes: Any) -> rw.LightGBMRanker:
    return rw.LightGBMRanker("lambdarank", **TREES | changes)


def net(**changes: Any) -> rw.NeuralRanker:
    return rw.NeuralRanker(**NET | changes)


@cache
def bag_of_nets() -> Any:
    return rw.bagged(net(), folds=2).fit(train(), valid())


@cache
def calibrated() -> Any:
    return rw.calibrate(tree().fit(train()), valid(), "platt")


@cache
def attentive() -> Any:
    return net(attention=1).fit(train())


Call = Callable[[Any], Any]
CASES: dict[str, tuple[Call, str, str, Call]] = {
    "constraints of trees for a net": (
        lambda _: net(monotone_constraints=[1, 0, 0, 0]),
        "'monotone_constraints'.*train trees",
        "did you mean",
        lambda _: tree(monotone_constraints=[1, 0, 0, 0]).fit(train()),
    ),
    "leaves of a net": (
        lambda _: net(num_leaves=7),
        "'num_leaves'.*train trees",
        "choose one of",
        lambda _: rw.LightGBMRanker("lambdarank", rounds=2, leaves=7).fit(train()),
    ),
    "a student that debiases": (
        lambda _: rw.distilled(tree(), tree(debias=True)).fit(train()),
        "debias=True of the student.*leave debias to the teacher",
        "document_weights",
        lambda _: rw.distilled(tree(debias=True), tree(debias=False)).fit(train()),
    ),
    "a bag of students": (
        lambda _: rw.bagged(rw.distilled(tree(), tree())),
        "got distilled.*make the bag its teacher",
        "not trained yet",
        lambda _: rw.distilled(rw.bagged(tree(), folds=2), tree()).fit(train()),
    ),
    "a bag of calibrated ones": (
        lambda _: rw.bagged(rw.CalibratedRanker(tree())),
        "got CalibratedRanker.*calibrate the bag",
        "not trained yet",
        lambda _: rw.CalibratedRanker(rw.bagged(tree(), folds=2), method="platt").fit(train(), valid()),
    ),
    "a bag of bags": (
        lambda _: rw.bagged(rw.bagged(tree(), folds=2)),
        "got bagged.*set repeats=",
        "not trained yet",
        lambda _: rw.bagged(tree(), folds=2, repeats=2).fit(train()),
    ),
    "a bag of blends": (
        lambda _: rw.bagged(rw.blended([tree(), tree(seed=1)])),
        "got blended.*train the blend",
        "not trained yet",
        lambda _: rw.blended([tree(), tree(seed=1)], folds=2).fit(train()),
    ),
    "a student that is a bag": (
        lambda _: rw.distilled(tree(), rw.bagged(tree())),
        "got bagged.*pass a single ranker.*made of others is a teacher",
        "not trained yet",
        lambda _: rw.distilled(rw.bagged(tree(), folds=2), tree()).fit(train()),
    ),
    "weights of validation data alone, in a bag": (
        lambda _: rw.bagged(tree(), folds=2).fit(train(), weighted(valid())),
        r"training data \(number 1\).*must have weights: got number 1 of 2 without",
        "some of the data",
        lambda _: rw.bagged(tree(), folds=2).fit(weighted(train()), weighted(valid())),
    ),
    "weights of training data alone, in a blend": (
        lambda _: rw.blended([tree(), tree(seed=1)], folds=2).fit(weighted(train()), valid()),
        "must have weights: got number 2 of 2 without.*weights=None",
        "some of the data",
        lambda _: rw.blended([tree(), tree(seed=1)], folds=2).fit(weighted(train()).with_(weights=None), valid()),
    ),
    "a bag of nets for ONNX": (
        lambda path: rw.export(bag_of_nets(), path, "onnx"),
        "got a bag of NeuralRanker.*rw.distilled",
        "train a LightGBMRanker|or NeuralRanker",
        lambda path: rw.export(rw.distilled(bag_of_nets(), net()).fit(train()), path, "onnx"),
    ),
    "the curve of a calibrated model for Vespa": (
        lambda path: rw.export(calibrated(), path, "vespa", names=list("abcd")),
        "curve of a calibrated ranker.*model.ranker_",
        "train a",
        lambda path: rw.export(calibrated().ranker_, path, "vespa", names=list("abcd")),
    ),
    "a net for Vespa": (
        lambda path: rw.export(net().fit(train()), path, "vespa", names=list("abcd")),
        "takes trees.*export the net to onnx",
        "only rankers",
        lambda path: rw.export(net().fit(train()), path, "onnx"),
    ),
    "a model without names for Solr": (
        lambda path: rw.export(tree().fit(train().with_(feature_names=None)), path, "solr"),
        r"trained without.*name all 4 with names=\[",
        "train a",
        lambda path: rw.export(tree().fit(train()), path, "solr", names=list("abcd")),
    ),
    "attention in ONNX": (
        lambda path: rw.export(attentive(), path, "onnx"),
        "looks at whole lists.*attention=0",
        "only rankers",
        lambda path: rw.export(net(attention=0, transform="standardize").fit(train()), path, "onnx"),
    ),
    "contributions to probabilities": (
        lambda _: calibrated().explain(valid()),
        "not to probabilities.*model.ranker_",
        "trained",
        lambda _: calibrated().ranker_.explain(valid()),
    ),
    "a temperature without its loss": (
        lambda _: rw.distilled(tree(), tree(), temperature=2.0).fit(train()),
        "loss distil.*set loss='distil'",
        "document",
        lambda _: rw.distilled(tree(), tree(), temperature=2.0, loss="distil").fit(train()),
    ),
    "a curve without validation data": (
        lambda _: rw.CalibratedRanker(tree()).fit(train()),
        "pass validation data",
        "trained yet",
        lambda _: rw.CalibratedRanker(tree(), method="platt").fit(train(), valid()),
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES)
def test_refusals_name_what_is_in_the_way_and_their_hints_work(case, tmp_path):
    call, named, misleading, followed = CASES[case]
    with pytest.raises(ValueError, match=f"(?s){named}") as refused:
        call(tmp_path / "model")
    assert not set(misleading.split("|")) & {part for part in misleading.split("|") if part in str(refused.value)}
    followed(tmp_path / "model")
