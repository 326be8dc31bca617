"""What nets see of features: each transform against NumPy, saved with the model, and exported."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from scipy.special import ndtri
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.preprocessing import QuantileTransformer

import rankwise as rw
from rankwise.base import arrays
from rankwise.models import column_statistics
from rankwise.wings.nets.transforms import Transform
from tests.rankers.test_contract import same
from tests.refusals import refusal
from tests.wings.nets.test_neural import ranker


def transformed(kind: str, train: Any, features: Any) -> Any:
    transform = Transform(train.shape[1], kind)
    assert transform.fit(np.asarray(train, np.float32))
    return transform(torch.tensor(np.asarray(features, np.float32))).numpy()


@pytest.mark.parametrize("numbers", [1, 10**6])
def test_quantiles_are_those_of_mean_ranks(numbers, monkeypatch):
    monkeypatch.setattr(arrays, "BLOCK", numbers)
    rng = np.random.default_rng(0)
    train = rng.integers(0, [30, 2, 200], (300, 3)).astype(np.float32)  # fewer values than there are knots
    found = transformed("quantile", train, train)
    expected = np.stack([ndtri((rankdata(column) - 0.5) / column.size) for column in train.T], axis=1)
    assert np.allclose(found, expected, atol=1e-5)


def test_quantiles_between_knots_lie_on_straight_lines_and_end_with_the_training_data():
    train = np.array([[0.0], [1.0], [1.0], [9.0]])
    normal = ndtri(np.array([0.125, 0.5, 0.875]))
    asked = np.array([[-7.0], [0.25], [1.0], [5.0], [9.0], [1e30]])
    found = transformed("quantile", train, asked)
    assert np.allclose(found[:, 0], np.interp(asked[:, 0], [0.0, 1.0, 9.0], normal), atol=1e-6)


def test_quantiles_of_many_values_are_close_to_those_of_scikit_learn():
    rng = np.random.default_rng(1)
    train, asked = (np.exp(rng.normal(size=(5000, 2)) * [1.0, 4.0]) for _ in range(2))
    theirs = QuantileTransformer(n_quantiles=1000, output_distribution="normal").fit(train).transform(asked)
    inside = np.abs(theirs) < 2.0  # in the tails knots are far apart
    assert np.abs(transformed("quantile", train, asked) - theirs)[inside].max() < 0.05


def test_quantiles_of_long_data_are_those_of_rows_evenly_spaced(monkeypatch):
    monkeypatch.setattr(column_statistics, "SAMPLE", 7)
    monkeypatch.setattr(arrays, "BLOCK", 3)
    train = np.arange(40.0)[:, None]
    assert np.allclose(column_statistics.sample(train.astype(np.float32))[:, 0], np.arange(0, 40, 6))
    assert np.allclose(transformed("quantile", train, train), transformed("quantile", train[::6], train))


def test_fewer_rows_are_ranked_where_features_are_many_or_sparse(monkeypatch):
    monkeypatch.setattr(column_statistics, "SAMPLE", 1000)
    monkeypatch.setattr(column_statistics, "SAMPLED_NUMBERS", 30)
    monkeypatch.setattr(column_statistics, "LEAST", 4)
    rows = np.arange(120.0, dtype=np.float32).reshape(40, 3)
    for features in (rows, csr_array(rows)):
        assert np.array_equal(column_statistics.sample(features), rows[::4])
        assert column_statistics.sample(features[:, :1]).base is None  # no view, which would hold all rows
        assert column_statistics.sample(np.zeros((40, 300), np.float32)).shape == (4, 300)


def test_a_missing_value_is_the_mean_of_the_quantiles_and_a_constant_is_nothing():
    train = np.array([[0.0, 4.0], [0.0, 4.0], [np.nan, 4.0], [3.0, np.nan]])
    found = transformed("quantile", train, train)
    assert found[2, 0] == pytest.approx(found[[0, 1, 3], 0].mean())
    assert not found[:, 1].any()
    empty = transformed("quantile", np.array([[np.nan, 1.0], [np.nan, 2.0]]), np.array([[np.nan, 1.0], [5.0, 2.0]]))
    assert not empty[:, 0].any()


def test_nets_of_quantiles_do_not_change_with_the_scale_of_features(data, valid):
    model = ranker(transform="quantile").fit(data)
    curved = [one.with_(features=np.exp(one.features / 4)) for one in (data, valid)]
    assert np.allclose(ranker(transform="quantile").fit(curved[0]).predict(curved[1]), model.predict(valid), atol=0.05)
    assert np.isfinite(model.predict(np.full((1, 12), np.inf))).all()


def test_nets_of_quantiles_are_saved_and_cloned(data, valid, tmp_path):
    model = ranker(transform="quantile", epochs=2).fit(data)
    loaded: Any = rw.load(model.save(tmp_path / "model"))
    assert same(loaded, model, valid)
    assert same(clone(model).fit(data), model, valid)
    parts = model.explain(valid)
    assert np.allclose(parts.sum(axis=1), model.predict(valid))


def test_quantiles_are_refused_where_they_cannot_be_computed(data, tmp_path):
    broken = np.array(data.features)
    broken[5, 2] = np.inf
    with refusal(what="…finite, or NaN where they are missing", got="inf", where="row 5, column 2"):
        ranker(transform="quantile").fit(data.with_(features=broken))
    linear = ranker(hidden=(), transform="quantile", epochs=1).fit(data)
    with refusal(what="Elasticsearch's plugin takes trees and linear models", got="a net with the ranks of features"):
        rw.export(linear, tmp_path / "net", "elasticsearch", names=[f"f{j}" for j in range(12)])
