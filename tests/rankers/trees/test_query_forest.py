"""Trees with values within the query: one transform for training and scoring, whatever is made of such rankers."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import sparse

import rankwise as rw
from rankwise.models.forests.query_forest import QueryForest
from rankwise.rankers.table import ranker_class
from tests.cli.running import run
from tests.rankers.trees.test_monotone import LIBRARIES
from tests.rankers.trees.test_monotone import lists as priced
from tests.refusals import refusal

SMALL: dict[str, Any] = {"rounds": 12, "leaves": 8, "min_documents": 5, "learning_rate": 0.2, "threads": 1}


def lists(n_queries: int = 50, seed: int = 3) -> rw.RankingDataset:
    """Data with missing values, a feature that is missing in a query, and others that are all the same in one."""
    data = rw.synthetic(n_queries=n_queries, n_features=6, n_docs=20, seed=seed)
    features = data.features.copy()
    features[::7, 0] = features[::5, 2] = features[data.offsets[4] : data.offsets[5], 1] = np.nan
    features[data.offsets[3] : data.offsets[4], 3] = 0.1
    features[:, 4] = np.float32(1e7) + np.round(features[:, 4])
    return data.with_(features=features, feature_names=[f"f {number}" for number in range(6)])


@pytest.fixture(params=LIBRARIES)
def library(request) -> str:
    pytest.importorskip(request.param)
    return str(request.param)


def ranker(library: str = "lightgbm", **changes: Any) -> Any:
    return ranker_class(library)("xendcg", **SMALL | {"transform": "raw+query"} | changes)


def doubled(data: rw.RankingDataset) -> rw.RankingDataset:
    """Return the data with values within the query, computed by another way: NumPy, a query at a time."""
    within = np.zeros(data.features.shape)
    for start, end in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        rows = data.features[start:end].astype(float)
        for column, values in enumerate(rows.T):
            present = values[~np.isnan(values)]
            if present.size and np.ptp(present):
                within[start:end, column] = np.nan_to_num((values - present.mean()) / present.std())
    return data.with_(features=np.hstack([data.features, within]), feature_names=None)


def test_scores_are_those_of_trees_on_columns_made_by_hand(library):
    train, valid, other = lists(), lists(20, seed=4), lists(30, seed=5)
    model = ranker(library).fit(train, valid)
    by_hand = ranker(library, transform=None).fit(doubled(train), doubled(valid))
    np.testing.assert_allclose(model.predict(other), by_hand.predict(doubled(other)), atol=1e-6)
    assert model.history_["ndcg@10"] == pytest.approx(by_hand.history_["ndcg@10"])
    splits = model.model_.forest.importances("split").reshape(2, 6)
    assert splits.sum(axis=1).all()
    assert model.importances("split").tolist() == splits.sum(axis=0).tolist()
    assert not np.allclose(model.predict(other), ranker(library, transform=None).fit(train, valid).predict(other))


def test_training_serving_and_files_give_the_same_bits(library, tmp_path):
    train, other = lists(), lists(30, seed=5)
    model = ranker(library).fit(train, eval_sets={"train": train})
    scores, loaded = model.predict(other), rw.load(model.save(tmp_path / "model"))
    assert model.history_["train ndcg@10"][-1] == pytest.approx(rw.evaluate(model, train).mean["ndcg@10"], abs=1e-6)
    assert loaded.get_params() == model.get_params()
    assert np.array_equal(loaded.predict(other), scores)
    for scorer in (model.scorer(), loaded.scorer()):
        assert np.array_equal(scorer(other), scores)
        bounds = zip(other.offsets[:-1], other.offsets[1:], strict=True)
        assert np.array_equal(np.concatenate([scorer(other.features[a:b]) for a, b in bounds]), scores)
    order = np.random.default_rng(0).permutation(other.n_docs)
    columns = dict(zip(other.feature_names or (), other.features.T, strict=True))
    table = pl.DataFrame({"qid": other.qids(), **columns})[order]
    np.testing.assert_allclose(model.predict(table), scores[order], atol=1e-6)  # sums in another order
    assert np.array_equal(model.predict(other.with_(features=sparse.csr_array(other.features))), scores)
    found = model.contributions(other)
    assert found.parts.shape == (other.n_docs, 7)
    np.testing.assert_allclose(found.parts.sum(axis=1), scores, atol=1e-6)
    with refusal(
        what="a ranker of trees with values within the query looks at whole lists…", hint="pass a RankingDat…"
    ):
        model.predict(other.features)


def test_a_score_depends_on_the_other_documents_of_its_query_alone():
    model, data = ranker().fit(lists()), lists(30, seed=5)
    few = data.take([2, 7])
    expected = np.concatenate([model.predict(data)[data.offsets[q] : data.offsets[q + 1]] for q in (2, 7)])
    assert np.array_equal(model.predict(few), expected)
    assert not np.allclose(model.scorer()(few.features[:5]), expected[:5])


def test_sparse_data_train_the_same_trees(library):
    data, zeros = lists(), np.where(np.abs(lists().features) < 0.7, 0.0, lists().features)
    dense = data.with_(features=zeros)
    model = ranker(library).fit(dense)
    again = ranker(library).fit(dense.with_(features=sparse.csr_array(zeros)))
    assert again.model_.content() == model.model_.content()


def test_codes_of_categories_stay_as_they_are():
    data = lists()
    features = data.features.copy()
    features[:, 5] = np.arange(data.n_docs) % 4
    data = data.with_(features=features, categorical=[5], labels=np.minimum(data.labels + (features[:, 5] == 2), 4))
    model = ranker().fit(data)
    own, within = model.model_.forest.importances("split").reshape(2, 6)
    assert own[5] > 0
    assert within[5] == 0
    assert np.array_equal(model.scorer()(data), model.predict(data))


def test_ensembles_add_up_forests(library, tmp_path):
    data, other = lists(), lists(30, seed=5)
    bag = rw.bagged(ranker(library), folds=2).fit(data)
    assert isinstance(bag.model_, QueryForest)
    assert bag.ranker_.model_ is bag.model_
    np.testing.assert_allclose(
        bag.predict(other), np.mean([one.predict(other) for one in bag.members_], axis=0), atol=1e-5
    )
    assert np.array_equal(rw.load(bag.save(tmp_path / "bag")).predict(other), bag.predict(other))
    blend = rw.blended([ranker(library), ranker(library, transform=None)], folds=2).fit(data)
    assert not isinstance(blend.model_, QueryForest)
    assert blend.needs_lists
    assert np.array_equal(rw.load(blend.save(tmp_path / "blend")).predict(other), blend.predict(other))
    sure = rw.calibrate(bag, lists(60, seed=6), "platt")
    assert np.array_equal(rw.load(sure.save(tmp_path / "sure")).predict(other), sure.predict(other))
    assert np.array_equal(sure.scorer()(other), sure.predict(other))


class Interrupted(Exception):
    pass


def test_it_is_resumed_and_continued(library, tmp_path):
    data, valid = lists(), lists(20, seed=4)
    settings: dict[str, Any] = {"checkpoint_every": 4, "patience": None}

    def stop(done: int, _: object) -> None:
        if done == 6:
            raise Interrupted

    whole = ranker(library, checkpoint=tmp_path / "whole", **settings).fit(data, valid)
    cut = ranker(library, checkpoint=tmp_path / "cut", **settings)
    with pytest.raises(Interrupted):
        cut.fit(data, valid, callback=stop)
    kept_so_far = rw.load(tmp_path / "cut")
    assert kept_so_far.score(valid) == pytest.approx(max(kept_so_far.history_["ndcg@10"]))
    assert cut.fit(data, valid, resume=True).model_.content() == whole.model_.content()
    longer = ranker(library).fit(valid, init_model=whole)
    assert longer.model_.n_trees == whole.model_.n_trees + 12
    for before, after in ((whole, None), (ranker(library, transform=None).fit(data), "raw+query")):
        with refusal(what="a model is continued with its own transform", got=f"transform={after!r}"):
            ranker(library, transform=after).fit(data, init_model=before)


def test_scores_keep_monotone_constraints_on_the_document_that_changes(library):
    data = priced()
    settings: dict[str, Any] = {"monotone_constraints": {"price": -1, "rating": 1}, "rounds": 15}
    for model in (ranker(library, **settings).fit(data), ranker(library, rounds=15).fit(data)):
        scorer, rows, held = model.scorer(), data.features[:15], []
        for document in range(15):
            for column, sign in ((1, -1), (2, 1)):
                changed = np.repeat(rows[None], 21, axis=0)
                changed[:, document, column] = np.linspace(-3, 3, 21)
                held.append((sign * np.diff([scorer(one)[document] for one in changed]) >= 0).all())
        assert all(held) == (model.monotone_constraints is not None)


def test_what_cannot_be_standardised_is_refused(tmp_path):
    data = lists()
    with refusal(what="unknown transform", got="'query'", hint="did you mean 'raw+query'"):
        ranker(transform="query").fit(data)
    features = lists(20, seed=4).features.copy()
    features[33, 1] = np.inf
    infinite = lists(20, seed=4).with_(features=features)
    where = {"where": "row 33, column 1", "what": "a transform within the query needs features that are finite…"}
    with refusal(**where):
        ranker().fit(data, infinite)
    model = ranker().fit(data)
    with refusal(**where):
        model.predict(infinite)
    rw.data.write_letor(data.with_(features=np.nan_to_num(data.features), feature_names=None), tmp_path / "data.txt")
    with refusal(what="values within the query are made in memory", got="features on disk"):
        ranker().fit(rw.open_data(tmp_path / "data.txt"))
    with refusal(what="no transform of features is made on a cluster", got="raw+query"):
        from rankwise.wings.cluster.fit import check_ranker

        check_ranker(ranker(), 5.0)


def test_the_command_line_trains_and_scores(tmp_path: Path):
    data = lists().with_(features=np.nan_to_num(lists().features), feature_names=None)
    path = rw.data.write_letor(data, tmp_path / "data.txt")
    run("train", path, "-o", tmp_path / "model", "--transform", "raw+query", "--rounds", 5)
    model = rw.load(tmp_path / "model")
    assert "transform='raw+query'" in repr(model)
    run("predict", tmp_path / "model", path, "-o", tmp_path / "scores.txt")
    np.testing.assert_allclose(np.loadtxt(tmp_path / "scores.txt"), model.predict(rw.read_letor(path)), atol=1e-6)
