"""Noise of features is there while training, of the deviation that was set, and nowhere else."""

from typing import Any

import pytest
import torch
from sklearn.base import clone

import rankwise as rw
from rankwise.models.schema import Schema
from rankwise.wings.nets.model import NetModel
from rankwise.wings.nets.presets import NetSettings
from tests.rankers.test_contract import same
from tests.refusals import refuses
from tests.wings.nets.test_neural import ranker


def test_noise_has_the_deviation_that_was_set_and_is_not_scored_with():
    net: Any = NetModel(Schema(1), NetSettings(hidden=(), transform="raw", feature_noise=0.3))
    with torch.no_grad():
        net.body[0].weight.fill_(1.0)
        torch.manual_seed(1)
        noise = net.train()(torch.full((20_000, 1), 5.0)) - 5.0
        assert not (net.eval()(torch.full((9, 1), 5.0)) - 5.0).any()
    assert float(noise.std()) == pytest.approx(0.3, abs=0.01)
    assert float(noise.mean()) == pytest.approx(0.0, abs=0.01)


def test_noise_repeats_with_the_seed_and_is_saved(data, valid, tmp_path):
    settings: Any = {"feature_noise": 0.2, "epochs": 3}
    model = ranker(**settings).fit(data, valid)
    assert same(clone(model).fit(data, valid), model, valid)
    assert not same(ranker(epochs=3).fit(data, valid), model, valid)
    loaded: Any = rw.load(model.save(tmp_path / "model"))
    assert loaded.get_params() == model.get_params()
    assert same(loaded, model, valid)


def test_noise_below_nothing_is_refused(data):
    refuses(lambda: ranker(feature_noise=-1.0).fit(data), what="feature_noise must be a number in [0, inf)", got="-1…")
