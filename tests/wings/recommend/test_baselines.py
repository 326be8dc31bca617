"""Recommenders in closed form, by neighbours and by least squares: each against a direct solution of its problem."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.metrics.pairwise import cosine_similarity

import rankwise as rw
from rankwise.wings.recommend.als import solve
from rankwise.wings.recommend.model import Liked, in_order
from tests import tiers
from tests.refusals import refusal, refuses

ALL = {
    "ease": lambda **settings: rw.recommend.EASE(regularization=3.0, **settings),
    "als": lambda **settings: rw.recommend.ALS(factors=5, regularization=2.0, alpha=4.0, iterations=4, **settings),
    "knn": lambda **settings: rw.recommend.ItemKNN(neighbours=6, shrinkage=1.0, **settings),
    "popularity": lambda **settings: rw.recommend.Popularity(**settings),
}


def table(n_users: int, n_items: int, seed: int = 1, words: bool = False) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    tastes, kinds = rng.integers(0, 3, n_users), rng.integers(0, 3, n_items)
    rows = [
        (
            f"u{user:02}" if words else user,
            f"i{item:02}" if words else item,
            5.0 if tastes[user] == kinds[item] else 2.0,
        )
        for user in rng.permutation(n_users).tolist()
        for item in rng.choice(n_items, n_items // 2, replace=False).tolist()
    ]
    return pl.DataFrame(rows, schema=["user", "item", "rating"], orient="row")


@pytest.fixture(scope="module")
def ratings() -> rw.recommend.Interactions:
    return rw.recommend.Interactions.from_frame(table(14, 30))


def dense(ratings: rw.recommend.Interactions) -> np.ndarray:
    array: np.ndarray = Liked.of(ratings).sparse().toarray()
    return array


@pytest.mark.parametrize("shape", [(14, 30), (40, 12)])  # by users, by items
def test_ease_is_the_constrained_least_squares_solution(shape):
    """Column j of B: the ridge regression of item j on all other items."""
    ratings = rw.recommend.Interactions.from_frame(table(*shape))
    x, strength = dense(ratings), 2.5
    expected = np.zeros_like(x)
    for j in range(x.shape[1]):
        rest = np.arange(x.shape[1]) != j
        others = x[:, rest]
        weights = np.linalg.solve(others.T @ others + strength * np.eye(rest.sum()), others.T @ x[:, j])
        expected[:, j] = others @ weights
    model = rw.recommend.EASE(regularization=strength).fit(ratings)
    assert (model.model_.scale.size > 0) == (shape[0] < np.count_nonzero(x.sum(axis=0)))
    warm = x.any(axis=1)  # whoever liked nothing gets what is popular
    assert np.allclose(model.matrix(ratings.users[warm]), expected[warm], atol=1e-5)


def test_als_solves_the_normal_equations_of_weighted_least_squares(ratings):
    """Rows of √c·Y against √c·p, with √λ below: what NumPy's least squares solves without normal equations."""
    alpha, strength, rng = 7.0, 1.5, np.random.default_rng(3)
    counts = dense(ratings) * rng.integers(1, 4, (ratings.n_users, ratings.n_items))
    from scipy import sparse

    vectors = rng.normal(size=(ratings.n_items, 4))
    out = np.empty((ratings.n_users, 4))
    solve(sparse.csr_array(counts), vectors, out, alpha, strength)
    for row, found in zip(counts, out, strict=True):
        confidence = np.sqrt(1.0 + alpha * row)
        left = np.vstack([confidence[:, None] * vectors, np.sqrt(strength) * np.eye(4)])
        right = np.append(confidence * (row > 0), np.zeros(4))
        assert np.allclose(found, np.linalg.lstsq(left, right, rcond=None)[0], atol=1e-10)


def test_als_lowers_its_loss_in_every_iteration(ratings):
    x = dense(ratings)

    def loss(iterations):
        model = rw.recommend.ALS(factors=3, regularization=0.5, alpha=3.0, iterations=iterations).fit(ratings).model_
        u, v = model.user_vectors.astype(float), model.item_vectors.astype(float)
        return ((1 + 3.0 * x) * (x - u @ v.T) ** 2).sum() + 0.5 * ((u**2).sum() + (v**2).sum())

    losses = [loss(iterations) for iterations in (1, 2, 3, 6)]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.9 * losses[0]


def test_events_that_occur_more_often_have_more_confidence():
    rows = {"user": [1, 1, 1, 1, 2, 2], "item": ["a", "a", "a", "b", "b", "c"], "time": [3, 9, 4, 1, 2, 5]}
    events = rw.recommend.Interactions.from_frame(pl.DataFrame(rows), rating=None, time="time")
    assert repr(events) == "Interactions(2 users, 3 items, 4 interactions)"
    assert events.ratings.tolist() == [3, 1, 1, 1]
    assert events.to_frame()["time"].to_list() == [9, 1, 2, 5]
    model = rw.recommend.ALS(factors=2, regularization=0.5, alpha=1.0, iterations=20).fit(events)
    a, b = model.matrix([1], ["a", "b"])[0]
    assert a > b


@pytest.mark.parametrize("similarity", ["cosine", "adjusted"])
def test_neighbours_are_those_of_scikit_learn(ratings, similarity, monkeypatch):
    monkeypatch.setattr("rankwise.wings.recommend.knn._BLOCK", 90)  # a few items at a time
    k, x = 5, dense(ratings)
    columns = x
    if similarity == "adjusted":
        columns = np.zeros_like(x)
        for user, item, rating in ratings.to_frame().iter_rows():
            columns[user, item] = rating
        columns = np.where(columns > 0, columns - columns.sum(1, keepdims=True) / (columns > 0).sum(1)[:, None], 0.0)
    similar = cosine_similarity(columns.T)
    np.fill_diagonal(similar, 0.0)
    similar[similar < 1e-12] = 0.0
    for row in similar:  # only the nearest of each item
        row[np.argsort(-row, kind="stable")[k:]] = 0.0
    model = rw.recommend.ItemKNN(neighbours=k, similarity=similarity, shrinkage=0.0).fit(ratings)
    assert np.allclose(model.matrix(ratings.users), x @ similar.T, atol=1e-5)


def test_shrinkage_is_added_to_the_lengths(ratings):
    x = dense(ratings)
    shared, counts = x.T @ x, x.sum(axis=0)
    similar = shared / (np.sqrt(np.outer(counts, counts)) + 4.0)
    np.fill_diagonal(similar, 0.0)
    model = rw.recommend.ItemKNN(neighbours=99, shrinkage=4.0).fit(ratings)
    assert np.allclose(model.matrix(ratings.users), x @ similar, atol=1e-5)


def test_popularity_is_the_number_of_users_who_liked_it(ratings):
    counts = dict(ratings.to_frame().filter(pl.col("rating") >= 4).group_by("item").len().iter_rows())
    lists = ratings.dataset(1)
    popular = rw.recommend.Popularity().fit(ratings)
    assert popular.predict(lists).tolist() == [counts.get(item, 0) for item in lists.document_ids.tolist()]
    with refusal(what="Popularity goes by the ids of users and items"):
        popular.predict(lists.with_(document_ids=None))


@pytest.mark.parametrize("name", ALL)
def test_lists_matrix_and_recommendations_agree(name, monkeypatch):
    monkeypatch.setattr("rankwise.wings.recommend.model._BLOCK", 90)  # a few users at a time
    train, test = rw.recommend.Interactions.from_frame(table(14, 30, words=True)).split(
        (0.8, 0.2), seed=2, spare_held_out=False
    )
    model = ALL[name]().fit(train)
    every = model.matrix(train.users)
    assert every.shape == (14, 30)
    lists = test.dataset(2)
    rows = np.repeat(np.searchsorted(train.users, lists.qids()[lists.offsets[:-1]]), lists.sizes)
    columns = np.searchsorted(train.catalogue, np.asarray(lists.document_ids))
    assert np.allclose(model.predict(lists), every[rows, columns])
    found = model.recommend(["u07", "u02"], cutoff=4)
    assert found["user"].unique(maintain_order=True).to_list() == ["u07", "u02"]
    for user in ("u07", "u02"):
        number = train.users.tolist().index(user)
        seen = set(train.to_frame().filter(pl.col("user") == user)["item"])
        order = [item for item in np.argsort(-every[number], kind="stable") if train.catalogue[item] not in seen][:4]
        assert found.filter(pl.col("user") == user)["item"].to_list() == train.catalogue[order].tolist()
    full = rw.recommend.evaluate_interactions(model, test, ["ndcg@10"], exclude=train)
    assert 0.0 < full.mean["ndcg@10"] <= 1.0
    assert model.score(lists) == rw.evaluate(model, lists).mean["ndcg@10"]


@pytest.mark.parametrize("name", ALL)
def test_users_in_any_order_and_any_threads_give_the_same(name, ratings):
    turned = ratings.take(np.arange(ratings.n_users)[::-1])
    first, again = (ALL[name](threads=n).fit(data).recommend(cutoff=5) for n, data in ((1, ratings), (3, turned)))
    assert first.drop("score").equals(again.drop("score"))
    assert np.allclose(first["score"], again["score"], rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("words", [True, False])
def test_a_saved_model_recommends_the_same_in_a_new_process(name, words, tmp_path: Path):
    train = rw.recommend.Interactions.from_frame(table(14, 30, words=words))
    model = ALL[name](unknown="popular").fit(train)
    model.save(tmp_path / "model")
    loaded: Any = rw.load(tmp_path / "model")
    assert type(loaded) is type(model)
    assert loaded.get_params() == model.get_params()
    assert loaded.recommend(cutoff=4).equals(model.recommend(cutoff=4))
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == ["README.md", "model.npz", "rankwise.json"]


def test_loading_needs_no_torch(tmp_path: Path, ratings):
    ALL["als"]().fit(ratings).save(tmp_path / "als")
    code = (
        "import sys, rankwise as rw\n"
        "rw.load(sys.argv[1]).recommend(cutoff=4)\n"
        "assert not {'torch', 'safetensors', 'lightgbm'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "als")], check=True)


def test_seeds_repeat(ratings):
    settings: dict[str, Any] = {"factors": 5, "regularization": 2.0, "alpha": 4.0, "iterations": 4}
    one, same, other, again = (
        rw.recommend.ALS(seed=seed, threads=threads, **settings).fit(ratings)
        for seed, threads in ((1, 1), (1, 2), (2, 1), (1, 1))
    )
    assert np.allclose(one.model_.user_vectors, same.model_.user_vectors, rtol=0, atol=1e-6)
    assert not np.allclose(one.model_.user_vectors, other.model_.user_vectors, atol=1e-3)
    assert np.array_equal(one.model_.user_vectors, again.model_.user_vectors)


@pytest.mark.parametrize("name", ["ease", "als", "knn"])
def test_unknown_users(name, ratings):
    model = ALL[name]().fit(ratings)
    refuses(lambda: model.recommend([99]), what="the model was not trained on this user", got="99, one of 1 unknown")
    model.set_params(unknown="popular")
    popular = rw.recommend.Popularity().fit(ratings)
    assert model.recommend([99], cutoff=5)["item"].to_list() == popular.recommend([99], cutoff=5)["item"].to_list()
    assert np.array_equal(model.matrix([99, 3], [1, 4])[0], popular.matrix([99], [1, 4])[0])


@pytest.mark.parametrize(
    ("make", "fields"),
    [
        (
            lambda: rw.recommend.EASE(regularization=0.0),
            {"what": "regularization must be a number in (0, inf)", "got": "0.0"},
        ),
        (
            lambda: rw.recommend.EASE(unknown="mean"),
            {"what": "unknown way to treat unknown users and items", "got": "'mean'"},
        ),
        (lambda: rw.recommend.EASE(factors=3), {"what": "EASE has no such parameter", "got": "'factors'"}),
        (lambda: rw.recommend.ALS(factors=0), {"what": "factors must be a whole number of at least 1"}),
        (lambda: rw.recommend.ALS(alpha=-1.0), {"what": "alpha must be a number in (0, inf)"}),
        (lambda: rw.recommend.ALS(iterations=0), {"what": "iterations must be a whole number of at least 1"}),
        (lambda: rw.recommend.ItemKNN(neighbours=0), {"what": "neighbours must be a whole number of at least 1"}),
        (lambda: rw.recommend.ItemKNN(similarity="jaccard"), {"what": "unknown similarity", "got": "'jaccard'"}),
        (lambda: rw.recommend.ItemKNN(shrinkage=-1.0), {"what": "shrinkage must be a number in [0, inf)"}),
        (lambda: rw.recommend.Popularity(threads=0), {"what": "threads must be a whole number of at least 1"}),
    ],
)
def test_wrong_settings_are_named(make, fields, ratings):
    refuses(lambda: make().fit(ratings), **fields)


def test_wrong_data_is_named(ratings):
    with refusal(what="EASE learns from interactions", got="RankingDataset", hint="pass rw.recommend.Interactions…"):
        rw.recommend.EASE().fit(ratings.dataset(1))
    with refusal(what="no user has a relevant item to learn from"):
        rw.recommend.EASE().fit(
            rw.recommend.Interactions.from_frame(pl.DataFrame({"user": [1], "item": [1], "rating": [1.0]}))
        )
    events = rw.recommend.Interactions.from_frame(table(5, 8), rating=None)
    with refusal(what="adjusted similarities need ratings", got="events without ratings"):
        rw.recommend.ItemKNN(similarity="adjusted").fit(events)
    refuses(lambda: rw.recommend.EASE().recommend(), what="this EASE is not trained yet")
    with refusal(what="ItemKNN scores ids of users and items, and no features"):
        rw.recommend.ItemKNN().fit(ratings).scorer()
    with refusal(what="a EASE cannot explain its scores by features"):
        rw.recommend.EASE().fit(ratings).explain(rw.synthetic(n_queries=3))


def test_weights_of_another_shape_than_their_scale_are_refused():
    events = rw.recommend.Interactions.from_frame(table(5, 8), rating=None)
    model = rw.recommend.EASE(regularization=1.0).fit(events).model_
    assert model.weights.shape[0] != model.weights.shape[1]
    with refusal(what="the model file is damaged or forged", got="weights of the shape …do not go with scale"):
        type(model).from_arrays(model.arrays() | {"scale": np.empty(0)})


def test_vectors_search_as_the_model_recommends(ratings):
    model = rw.recommend.ALS(factors=4, regularization=1.0).fit(ratings)
    users, items = model.vectors()
    assert users.columns == items.columns == ["id", "vector"]
    scores = users["vector"].to_numpy() @ items["vector"].to_numpy().T
    assert np.allclose(scores, model.matrix(users["id"].to_numpy()), atol=1e-6)
    with refusal(what="EASE has no vectors:…", hint="train ALS or FactorizationRanker…"):
        rw.recommend.EASE().fit(ratings).vectors()


def test_order_of_users_is_that_of_ids(ratings):
    turned = ratings.take([3, 1, 2])
    assert in_order(turned).users.tolist() == [1, 2, 3]


@pytest.mark.parametrize("name", ["ease", "als", "knn"])
def test_users_who_liked_nothing_get_what_is_popular(name):
    frame = table(10, 30).vstack(pl.DataFrame({"user": [77, 77], "item": [1, 2], "rating": [1.0, 2.0]}))
    train = rw.recommend.Interactions.from_frame(frame)
    model, popular = ALL[name]().fit(train), rw.recommend.Popularity().fit(train)
    assert model.recommend([77], cutoff=5)["item"].to_list() == popular.recommend([77], cutoff=5)["item"].to_list()
    assert not {1, 2} & set(model.recommend([77], cutoff=28)["item"])  # what was rated low is seen, too


@pytest.mark.parametrize("words", [True, False])
def test_files_of_vectors_search_as_the_model_recommends(words, tmp_path: Path):
    train = rw.recommend.Interactions.from_frame(table(14, 30, words=words))
    model = rw.recommend.ALS(factors=4, regularization=1.0).fit(train)
    model.save_vectors(tmp_path / "v")
    users, user_ids, items, item_ids = (
        np.load(tmp_path / "v" / f"{name}.npy") for name in ("user_vectors", "user_ids", "item_vectors", "item_ids")
    )
    best = np.argsort(-(users @ items.T), axis=1, kind="stable")[:, :3]
    expected = model.recommend(user_ids, cutoff=3, exclude_seen=False)["item"].to_list()
    assert item_ids[best].ravel().tolist() == expected
    model.save_vectors(tmp_path / "v", format="parquet")
    found = pl.read_parquet(tmp_path / "v" / "items.parquet")
    assert np.array_equal(found["vector"].to_numpy(), items)
    refuses(lambda: model.save_vectors(tmp_path / "v"), FileExistsError, what="…exists already…")
    model.save_vectors(tmp_path / "v", force=True)
    refuses(lambda: model.save_vectors(tmp_path / "v", format="csv"), what="unknown format of vectors", got="'csv'")


def test_ease_is_left_out_of_the_automatic_choice_where_it_would_take_long(ratings, monkeypatch):
    chosen = rw.recommend.choose_recommender(ratings, metrics="recall@5", threads=1)
    assert {one.model for one in chosen.candidates} == {"ease", "als", "knn", "popularity"}
    assert chosen.best.mean["recall@5"] == max(one.mean["recall@5"] for one in chosen.candidates)
    assert len(chosen.to_frame()) == len(chosen.to_dict()["candidates"]) == len(chosen.candidates)
    monkeypatch.setattr("rankwise.wings.recommend.choice.EASY", 5)
    few = rw.recommend.choose_recommender(ratings, metrics="recall@5", threads=1)
    assert {one.model for one in few.candidates} == {"als", "knn", "popularity"}


@tiers.only_all
def test_models_hardly_depend_on_the_threads_of_blas(tmp_path: Path):
    """In processes of their own: BLAS counts threads when it is loaded. One user is left for the last batch."""
    code = (
        "import sys, numpy as np, rankwise as rw\n"
        "ratings = rw.recommend.synthetic_ratings(n_users=65, n_items=1500, n_ratings=60, seed=1)\n"
        "more = rw.recommend.synthetic_ratings(n_users=700, n_items=300, seed=1)\n"
        "factors = rw.recommend.FactorizationRanker.full_catalogue(batch_users=32, epochs=2)\n"
        "from rankwise.recommend import ALS, EASE\n"
        "pairs = [(ALS(factors=16), ratings), (factors, ratings), (EASE(), ratings), (EASE(), more)]\n"
        "matrices = [one.set_params(threads=int(sys.argv[1])).fit(data).matrix(data.users) for one, data in pairs]\n"
        "np.savez(sys.argv[2], *matrices)\n"
    )
    for threads, name in (("1", "one"), ("2", "two"), ("2", "again")):
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": threads}
        path = str(tmp_path / f"{name}.npz")
        subprocess.run([sys.executable, "-c", code, threads, path], check=True, env=environment)
    one, two, again = (np.load(tmp_path / f"{name}.npz") for name in ("one", "two", "again"))
    for name in one.files:
        assert np.allclose(one[name], two[name], rtol=0, atol=1e-4 if name == "arr_1" else 1e-6)
        assert np.array_equal(two[name], again[name])
