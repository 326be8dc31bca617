"""Rankers on sparse matrices: the models and scores of the dense ones, without making them dense."""

import pickle
import resource
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import rankwise as rw
from rankwise.rankers.training.resume import fingerprint
from tests.refusals import refusal, refuses

TREES: dict[str, dict[str, Any]] = {
    "LightGBMRanker": {"leaves": 7, "min_documents": 3},
    "XGBoostRanker": {"leaves": 7, "min_documents": 3},
    "CatBoostRanker": {"leaves": 8},
}


@pytest.fixture(scope="module")
def dense() -> rw.RankingDataset:
    """Data most of whose numbers are zero, some negative and some missing."""
    data = rw.synthetic(n_queries=40, n_docs=12, n_features=12, seed=1)
    keep = np.random.default_rng(0).random(data.features.shape) < 0.3
    features = np.where(keep, np.nan_to_num(data.features) - 0.2, 0.0)
    features[::17, 2] = np.nan
    return data.with_(features=features)


def sparsely(data: rw.RankingDataset) -> rw.RankingDataset:
    return data.with_(features=sparse.csr_matrix(data.features))


@pytest.mark.parametrize("name", [*TREES, "NeuralRanker"])
def test_zeros_that_are_not_stored_are_zeros(name: str, dense: rw.RankingDataset, tmp_path: Path):
    about: dict[str, Any] = {"rounds": 6, **TREES[name]} if name in TREES else {"epochs": 2, "hidden": (4,)}
    make = getattr(rw, name)
    train, valid = rw.split(dense, (0.7, 0.3))
    expected = make(threads=1, **about).fit(train, valid)
    found = make(threads=1, **about).fit(sparsely(train), sparsely(valid))
    assert found.history_ == expected.history_
    scores = expected.predict(valid)
    for model in (found, expected):
        np.testing.assert_array_equal(model.predict(sparsely(valid)), scores)
        np.testing.assert_array_equal(model.predict(sparse.coo_array(valid.features)), scores)
        np.testing.assert_array_equal(model.predict(valid.features), scores)
    ids = valid.qids()
    assert found.rank(sparse.csr_array(valid.features), qid=ids).equals(expected.rank(valid.features, qid=ids))
    assert found.score(sparse.csr_matrix(valid.features), valid.labels, qid=ids) == expected.score(valid)
    np.testing.assert_array_equal(found.scorer()(sparsely(valid).features[:9]), expected.scorer()(valid.features[:9]))
    np.testing.assert_allclose(found.explain(sparsely(valid)), expected.explain(valid), atol=1e-6)
    found.save(tmp_path / "model")
    np.testing.assert_array_equal(rw.load(tmp_path / "model").predict(sparsely(valid)), scores)


@pytest.mark.parametrize("name", list(TREES))
def test_continued_and_native_training(name: str, dense: rw.RankingDataset):
    make = getattr(rw, name)
    native = {"LightGBMRanker": "lambdarank", "XGBoostRanker": "rank:ndcg", "CatBoostRanker": "YetiRank"}[name]
    about = {"threads": 1, "rounds": 3, **TREES[name]}
    for objective in ("xendcg", f"native:{native}"):
        pair = [make(objective, **about).fit(one) for one in (dense, sparsely(dense))]
        more = [make(objective, **about).fit(one, init_model=pair[0]) for one in (dense, sparsely(dense))]
        for one, other in (pair, more):
            np.testing.assert_array_equal(one.predict(dense), other.predict(dense))


@pytest.mark.filterwarnings("ignore:.* of training queries")
def test_fit_takes_a_sparse_matrix_and_columns_go_by_their_names(dense: rw.RankingDataset):
    matrix, ids = sparse.csr_matrix(dense.features), dense.qids()
    about = {"rounds": 4, "threads": 1, **TREES["LightGBMRanker"]}
    plain = rw.LightGBMRanker(**about).fit(matrix, dense.labels, qid=ids, valid=(matrix, dense.labels, ids))
    expected = rw.LightGBMRanker(**about).fit(dense, dense)
    np.testing.assert_array_equal(plain.predict(matrix), expected.predict(dense))
    names = [f"f{j}" for j in range(12)]
    named = rw.LightGBMRanker(**about).fit(sparsely(dense).with_(feature_names=names))
    turned = dense.with_(features=sparse.csr_array(dense.features[:, ::-1]), feature_names=names[::-1])
    np.testing.assert_array_equal(named.predict(turned), named.predict(dense.features))
    refuses(lambda: plain.predict(matrix[:, :5]), what="the model was trained on 12 features")


def test_evaluate_compare_and_cross_validate(dense: rw.RankingDataset):
    ranker = rw.LightGBMRanker(rounds=4, threads=1, **TREES["LightGBMRanker"])
    one, other = (rw.cross_validate(ranker, data, folds=3) for data in (dense, sparsely(dense)))
    np.testing.assert_array_equal(one.scores, other.scores)
    models = {name: one.models[number] for number, name in enumerate("ab")}
    assert rw.evaluate(models["a"], sparsely(dense)).mean == rw.evaluate(models["a"], dense).mean
    assert rw.compare(models, sparsely(dense)).to_dict() == rw.compare(models, dense).to_dict()


def test_a_query_is_explained_by_the_values_of_the_dense_matrix(dense: rw.RankingDataset):
    model = rw.LightGBMRanker(rounds=4, threads=1, **TREES["LightGBMRanker"]).fit(dense)
    found, expected = (rw.explain(model, data, query=3) for data in (sparsely(dense), dense))
    assert found.values == expected.values
    np.testing.assert_array_equal(found.contributions, expected.contributions)


def test_checkpoints_know_the_data_by_what_is_stored(dense: rw.RankingDataset, tmp_path: Path):
    data = sparsely(dense)
    moved = sparse.csr_array(dense.features[:, ::-1])
    assert fingerprint(data) == fingerprint(sparsely(dense)) != fingerprint(data.with_(features=moved))
    about = {"threads": 1, "checkpoint": tmp_path / "state", "checkpoint_every": 2, **TREES["LightGBMRanker"]}
    rw.LightGBMRanker(rounds=4, **about).fit(data)
    resumed = rw.LightGBMRanker(rounds=8, **about).fit(data, resume=True)
    whole = rw.LightGBMRanker(rounds=8, threads=1, **TREES["LightGBMRanker"]).fit(dense)
    np.testing.assert_array_equal(resumed.predict(data), whole.predict(dense))


def test_features_that_tell_nothing_apart_are_named_as_the_reason():
    for same in (sparse.csr_array((40, 3)), sparse.csr_array(np.ones((40, 3)))):
        with refusal(rw.errors.NothingLearnedError, got="features that are the same for every document"):
            rw.LightGBMRanker(threads=1).fit(same, np.arange(40) % 2, group=[10] * 4)


def test_a_matrix_that_could_not_be_dense_trains_in_lightgbm_and_travels():
    """Slow: LightGBM looks at each of many features."""
    n, width, used = 100_000, 100_000, 20
    rng = np.random.default_rng(0)
    columns = rng.integers(0, used, n) * (width // used)
    values = rng.random(n).astype(np.float32)
    matrix = sparse.csr_array((values, columns, np.arange(n + 1)), shape=(n, width))
    data = rw.RankingDataset.from_sizes(matrix, (values > 0.7).astype(float), [100] * (n // 100))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    train, valid = rw.split(data, (0.9, 0.1))
    model = rw.LightGBMRanker(rounds=2, leaves=4, threads=1).fit(train, valid)
    assert model.predict(valid).shape == (valid.n_docs,)
    refuses(lambda: model.explain(valid), hint="explain fewer documents at a time, data.take([0])")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown * (1 if sys.platform == "darwin" else 1024) < n * width / 4  # 40 GB as float32
    assert pickle.loads(pickle.dumps(valid)).is_sparse  # noqa: S301 (our own)
    refuses(lambda: rw.XGBoostRanker(rounds=1, threads=1).fit(data), hint="…LightGBMRanker or CatBoostRanker…")
