"""Averages of weights follow their recursion, and are what is measured, kept, saved and resumed."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone

import rankwise as rw
from tests.rankers.test_contract import Failing, Interrupted, same
from tests.refusals import refusal, refuses
from tests.wings.nets.test_neural import first_layer, ranker


def test_an_average_is_that_of_the_recursion(data):
    """A batch of all queries is one step, so that nets of fewer epochs have the weights of every step."""
    settings: Any = {"batch_queries": 999, "learning_rate": 0.1}
    steps = [first_layer(ranker(epochs=epochs, **settings).fit(data)) for epochs in (1, 2, 3, 4)]
    expected, total = torch.zeros_like(steps[0]), 0.0
    for weights in steps:
        expected, total = 0.7 * expected + weights, 0.7 * total + 1.0
    found = first_layer(ranker(epochs=4, averaging=0.7, **settings).fit(data))
    assert torch.allclose(found, expected / total, atol=1e-6)
    assert not torch.allclose(found, steps[-1], atol=1e-3)
    once = ranker(epochs=1, averaging=0.7, **settings).fit(data)
    assert torch.allclose(first_layer(once), steps[0], atol=1e-7)  # the first weights have no part in it


def test_the_average_is_measured_and_kept_and_training_goes_its_own_way(data, valid):
    settings: Any = {"epochs": 6, "batch_norm": True, "patience": None}
    averaged, last = ranker(averaging=0.9, **settings).fit(data, valid), ranker(**settings).fit(data, valid)
    assert averaged.history_["loss"] == last.history_["loss"]
    assert averaged.history_["ndcg@10"] != last.history_["ndcg@10"]
    assert averaged.score(valid) == max(averaged.history_["ndcg@10"])


def test_averages_are_resumed_saved_and_cloned(data, valid, tmp_path):
    settings: Any = {"averaging": 0.9, "checkpoint_every": 4, "epochs": 7, "patience": None, "batch_queries": 99}
    never_cut = ranker(Failing(None), **settings).fit(data, valid)
    model = ranker(Failing(6), checkpoint=tmp_path / "cut", **settings)
    with pytest.raises(Interrupted):
        model.fit(data, valid)
    kept = rw.load(tmp_path / "cut")
    assert kept.score(valid) == max(kept.history_["ndcg@10"])
    model.fit(data, valid, resume=True)
    assert same(model, never_cut, valid)
    assert model.history_ == never_cut.history_
    assert same(rw.load(model.save(tmp_path / "model")), model, valid)
    assert same(clone(never_cut).fit(data, valid), never_cut, valid)


def test_an_average_must_forget(data):
    with refusal(what="averaging must be below 1", got="1.0", hint="set averaging=0.99…"):
        ranker(averaging=1.0).fit(data)
    refuses(lambda: ranker(averaging=-0.1).fit(data), what="averaging must be a number in [0, 1]", got="-0.1")


def test_a_bag_of_averaged_nets_scores_with_the_averages(data):
    bag = rw.bagged(ranker(epochs=3, averaging=0.9), folds=2).fit(data)
    assert rw.evaluate(bag.oof_scores_, data).mean["ndcg@10"] == bag.history_["ndcg@10"][bag.best_round_ - 1]
    last = rw.bagged(ranker(epochs=3), folds=2).fit(data)
    assert not np.allclose(bag.predict(data), last.predict(data))
