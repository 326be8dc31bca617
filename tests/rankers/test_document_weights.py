"""Weights of single documents: who takes them, and what the error says where nobody does."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from tests.refusals import refusal, refuses

WEIGHING = ("lambdarank", "softmax_ce", "xendcg", "stochastic(softmax_ce, samples=2)")
RANKERS: dict[str, dict[str, Any]] = {
    "LightGBMRanker": {"rounds": 3, "leaves": 4, "min_documents": 3},
    "XGBoostRanker": {"rounds": 3, "leaves": 4, "min_documents": 3},
    "CatBoostRanker": {"rounds": 3, "leaves": 4},
    "NeuralRanker": {"epochs": 2, "hidden": (4,)},
}


@pytest.fixture(scope="module")
def data() -> rw.RankingDataset:
    return rw.synthetic(n_queries=20, n_docs=10, seed=1)


@pytest.fixture(scope="module")
def weights(data: rw.RankingDataset) -> Any:
    return np.random.default_rng(0).choice([0.5, 1.0, 2.0, 4.0], data.n_docs)


def fitted(name: str, objective: str, *what: Any, **how: Any) -> Any:
    about = {**RANKERS[name], **{key: how.pop(key) for key in ("debias",) if key in how}}
    return getattr(rw, name)(objective, threads=1, **about).fit(*what, **how)


@pytest.mark.parametrize("name", RANKERS)
def test_objectives_that_weigh_documents_get_them(name: str, data: rw.RankingDataset, weights: Any):
    for objective in WEIGHING if name == "LightGBMRanker" else WEIGHING[:1]:
        by_sample = fitted(name, objective, data.features, data.labels, qid=data.qids(), sample_weight=weights)
        found = fitted(name, objective, data.with_(query_ids=np.unique(data.qids()), document_weights=weights))
        np.testing.assert_array_equal(by_sample.predict(data), found.predict(data))
        # the same weights as propensities, and the model without them
        debiased = fitted(name, objective, data.with_(propensities=1 / weights), debias=True)
        np.testing.assert_array_equal(found.predict(data), debiased.predict(data))
        assert (found.predict(data) != fitted(name, objective, data).predict(data)).any()


def test_weights_of_documents_and_propensities_multiply(data: rw.RankingDataset, weights: Any):
    both = data.with_(propensities=np.full(data.n_docs, 0.5), document_weights=weights)
    found = fitted("LightGBMRanker", "softmax_ce", both, debias=True)
    expected = fitted("LightGBMRanker", "softmax_ce", data.with_(document_weights=2 * weights))
    np.testing.assert_array_equal(found.predict(data), expected.predict(data))


def test_weights_that_are_the_same_within_a_query_stay_weights_of_queries(data: rw.RankingDataset):
    by_query = np.random.default_rng(1).choice([1.0, 3.0], data.n_queries)
    rows = np.repeat(by_query, data.sizes)
    for objective in ("listnet", "lambdarank", "native:lambdarank"):
        found = fitted("LightGBMRanker", objective, data.features, data.labels, qid=data.qids(), sample_weight=rows)
        expected = fitted("LightGBMRanker", objective, data.with_(weights=by_query))
        np.testing.assert_array_equal(found.predict(data), expected.predict(data))


def test_native_objectives_of_lightgbm_take_weights_of_rows(data: rw.RankingDataset, weights: Any):
    import lightgbm as lgb

    found = fitted("LightGBMRanker", "native:lambdarank", data.with_(document_weights=weights))
    params = {"objective": "lambdarank", "learning_rate": 0.05, "num_leaves": 4, "min_data_in_leaf": 3, "seed": 0}
    params |= {"num_threads": 1, "verbosity": -1, "force_col_wise": True, "metric": "None"}
    own = lgb.Dataset(data.features, data.labels, group=data.sizes, weight=weights)
    np.testing.assert_array_equal(found.predict(data), lgb.train(params, own, 3).predict(data.features))
    twice = data.with_(document_weights=weights, weights=np.full(data.n_queries, 2.0))
    own = lgb.Dataset(data.features, data.labels, group=data.sizes, weight=2 * weights)
    booster = lgb.train(params, own, 3)
    np.testing.assert_array_equal(
        fitted("LightGBMRanker", "native:lambdarank", twice).predict(data), booster.predict(data.features)
    )


def test_where_nobody_weighs_documents_the_error_says_who_does(data: rw.RankingDataset, weights: Any):
    weighted = data.with_(document_weights=weights)
    for name, native in {"XGBoostRanker": "rank:ndcg", "CatBoostRanker": "YetiRank"}.items():
        with refusal(what="…weigh queries, and no documents", hint="train lambdarank, …LightGBM…"):
            fitted(name, f"native:{native}", weighted)
    with refusal(what="listnet takes no document_weights", hint="…go to SoftmaxCE…"):
        fitted("LightGBMRanker", "listnet", weighted)
    with refusal(what="weights must be one number per query", got="one per document", hint="set document_weights=…"):
        data.with_(weights=weights)
    with refusal(what="document weights must be at least 0", got="-1", where="row 3 (query 0)"):
        data.with_(document_weights=np.where(np.arange(data.n_docs) == 3, -1.0, 1.0))
    model = fitted("LightGBMRanker", "lambdarank", data)
    with refusal(what="the weight changes within a query", hint="…document_weights…"):
        model.score(data.features, data.labels, qid=data.qids(), sample_weight=weights)
    ids = np.arange(data.n_docs)
    with refusal(what="FactorizationRanker weighs no documents"):
        rw.recommend.FactorizationRanker(threads=1).fit(weighted.with_(query_ids=np.arange(20), document_ids=ids))
    frame = pl.DataFrame({"qid": [1, 1], "label": [0, 1], "x": [0.0, 1.0], "w": [1.0, 2.0]})
    refuses(lambda: rw.RankingDataset.from_frame(frame, weight="w"), hint="name it document_weight=…")


def test_weights_of_documents_go_where_the_documents_go(data: rw.RankingDataset, weights: Any, tmp_path: Path):
    weighted = data.with_(document_weights=weights)
    part = weighted.take([3, 1])
    np.testing.assert_array_equal(
        part.document_weights, np.concatenate([weights[np.flatnonzero(data.qids() == query)] for query in (3, 1)])
    )
    joined = rw.concatenate([weighted.take([1]), weighted.take([3])])
    np.testing.assert_array_equal(rw.concatenate([joined]).take([1, 0]).document_weights, part.document_weights)
    read = rw.read_parquet(rw.data.write_parquet(weighted, tmp_path / "data.parquet"))
    np.testing.assert_array_equal(read.document_weights, weights)
    with refusal(what="LETOR text cannot hold document_weights"):
        rw.data.write_letor(weighted, tmp_path / "data.txt")
    frame = pl.DataFrame({"qid": [1, 1], "label": [0, 1], "x": [0.0, 1.0], "w": [1.0, 2.0]})
    assert rw.RankingDataset.from_frame(frame, document_weight="w").document_weights.tolist() == [1.0, 2.0]  # type: ignore[union-attr]
