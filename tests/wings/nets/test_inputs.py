"""Features are transformed once for a training, where they fit into memory, which changes no bit of the model."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse

import rankwise as rw
from rankwise.wings.nets import inputs
from rankwise.wings.nets.transforms import Transform

NET: dict[str, Any] = {"hidden": (8,), "epochs": 3, "batch_queries": 7, "threads": 1, "device": "cpu"}


@pytest.fixture(scope="module")
def parts() -> tuple[rw.RankingDataset, ...]:
    return rw.split(rw.synthetic(n_queries=40, n_docs=12, seed=3), (0.7, 0.3), seed=1)


@pytest.mark.parametrize("settings", [{}, {"transform": "quantile+query", "feature_noise": 0.1}, {"attention": 2}])
def test_a_model_is_the_same_whether_its_inputs_are_kept_or_not(parts, settings, monkeypatch):
    train, valid = parts
    kept = rw.NeuralRanker(**NET | settings).fit(train, valid)
    monkeypatch.setattr(inputs, "KEPT", 0)
    read = rw.NeuralRanker(**NET | settings).fit(train, valid)
    assert kept.history_ == read.history_
    np.testing.assert_array_equal(kept.predict(valid), read.predict(valid))


@pytest.mark.parametrize(("numbers", "times"), [(10**6, 2), (0, 3 * 4 + 3)])
def test_data_are_transformed_once_if_they_can_be_kept(parts, numbers, times, monkeypatch):
    train, valid = parts
    assert train.n_queries == 28  # four batches
    called, forward = [], Transform.forward

    def counted(self, *given):
        called.append(1)
        return forward(self, *given)

    monkeypatch.setattr(inputs, "KEPT", numbers)
    monkeypatch.setattr(Transform, "forward", counted)
    rw.NeuralRanker(**NET).fit(train, valid)
    assert len(called) == times


def test_features_on_disk_and_sparse_ones_are_kept_where_they_are_few(parts, tmp_path, monkeypatch):
    train, _ = parts
    np.save(tmp_path / "features.npy", train.features)
    mapped = train.with_(features=np.load(tmp_path / "features.npy", mmap_mode="r"))
    sparse = train.with_(features=scipy.sparse.csr_array(train.features))
    net = rw.NeuralRanker(**NET).fit(train).model_
    assert all(inputs.Inputs(net, data).keeps for data in (train, mapped, sparse))
    monkeypatch.setattr(inputs, "KEPT_OF_FILES", 100)
    assert [inputs.Inputs(net, data).keeps for data in (train, mapped, sparse)] == [True, False, False]


def test_an_older_nets_transform_is_the_one_that_is_kept(parts):
    train, valid = parts
    older = rw.NeuralRanker(**NET).fit(train, valid)
    other = train.with_(features=train.features * 3)
    newer = rw.NeuralRanker(**NET | {"epochs": 1, "learning_rate": 1e-12}).fit(other, init_model=older)
    np.testing.assert_allclose(newer.predict(other), older.predict(other), atol=1e-6)
