"""Whom every recommender recommends to: known users, users who like nothing, users who know everything."""

from typing import Any

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from tests.refusals import refusal, refuses

SMALL: dict[str, Any] = {"factors": 4, "epochs": 2, "threads": 1, "device": "cpu", "progress": False}
EVERY: dict[str, Any] = {
    "ease": lambda **settings: rw.recommend.EASE(regularization=3.0, **settings),
    "als": lambda **settings: rw.recommend.ALS(factors=4, regularization=2.0, alpha=4.0, iterations=3, **settings),
    "knn": lambda **settings: rw.recommend.ItemKNN(neighbours=6, shrinkage=1.0, **settings),
    "popularity": lambda **settings: rw.recommend.Popularity(**settings),
    "factorization": lambda **settings: rw.recommend.FactorizationRanker(**SMALL | settings),
    "whole catalogue": lambda **settings: rw.recommend.FactorizationRanker.full_catalogue(**SMALL | settings),
}
COLD, FULL, N_ITEMS = 100, 200, 12


def frame(*, cold: bool = True) -> pl.DataFrame:
    """Eight users of two tastes, one who likes nothing that was rated, and one who has rated every item."""
    rng = np.random.default_rng(0)
    rows = [(u, i, 5.0 if (u + i) % 2 == 0 else 2.0) for u in range(8) for i in rng.choice(N_ITEMS, 6, replace=False)]
    rows += [(FULL, item, 5.0 if item < 4 else 1.0) for item in range(N_ITEMS)]
    rows += [(COLD, item, 1.0) for item in range(3)] if cold else []
    return pl.DataFrame(rows, schema=["user", "item", "rating"], orient="row")


@pytest.fixture(scope="module")
def ratings() -> rw.recommend.Interactions:
    return rw.recommend.Interactions.from_frame(frame())


@pytest.mark.parametrize("name", EVERY)
def test_every_user_gets_recommendations_or_a_sentence_says_who_does_not(name, ratings):
    model = EVERY[name]().fit(ratings)
    with pytest.warns(UserWarning, match="rated every item get no recommendation: 1 of 10 users; the first is 200"):
        found = model.recommend(cutoff=3)
    assert found["user"].unique().sort().to_list() == [*range(8), COLD]
    popular = rw.recommend.Popularity().fit(ratings).recommend([COLD], cutoff=3)
    assert model.recommend([COLD], cutoff=3).equals(popular)
    assert len(model.recommend([FULL], cutoff=3, exclude_seen=False)) == 3


@pytest.mark.parametrize("name", ["factorization", "whole catalogue"])
def test_a_user_who_likes_nothing_changes_no_vector(name, ratings):
    settings = {"item_bias": True, "unknown": "mean", "weight_decay": 0.1}
    model = EVERY[name](**settings).fit(ratings)
    alone = EVERY[name](**settings).fit(
        rw.recommend.Interactions.from_frame(frame(cold=False), catalogue=np.arange(N_ITEMS))
    )
    for kind in ("item_vectors", "item_bias"):
        np.testing.assert_array_equal(getattr(model.model_, kind), getattr(alone.model_, kind))
    users = [*range(8), 999]  # whom the mean vector of the others stands for
    np.testing.assert_allclose(model.matrix(users), alone.matrix(users), rtol=1e-6)
    assert not model.model_.user_vectors[model.model_.users == COLD].any()


def test_users_whom_lists_say_nothing_about_get_what_is_popular():
    """Lists without a relevant item: softmax_ce learns nothing from them, and a first vector would be noise."""
    lists = rw.RankingDataset(
        np.empty((9, 0)), [1, 0, 0, 1, 1, 0, 0, 0, 0], [0, 3, 6, 9],
        query_ids=[1, 2, 3], document_ids=[10, 20, 30] * 3,
    )  # fmt: skip
    model = EVERY["factorization"]().fit(lists)
    assert model.recommend([3]).select("item", "score").rows() == [(10, 2.0), (20, 1.0), (30, 0.0)]  # how many like it
    taught = lists.with_(teacher_scores=[0.0, 0, 0, 0, 0, 0, 3, 2, 1])
    assert EVERY["factorization"](objective="distil").fit(taught).model_.user_vectors[2].any()


def test_validation_may_have_users_who_liked_nothing_in_training(ratings):
    rows = {"user": [COLD, 1], "item": [5, 3], "rating": [5.0, 5.0]}
    valid = rw.recommend.Interactions.from_frame(pl.DataFrame(rows), catalogue=np.arange(N_ITEMS))
    assert len(EVERY["factorization"]().fit(ratings, valid).history_["ndcg@10"]) == 2


@pytest.mark.parametrize("name", ["ease", "knn", "popularity"])
def test_a_history_says_what_training_on_it_says(name, ratings):
    """These score by what a user likes alone, so that a user of training is one of many with this history."""
    model = EVERY[name]().fit(ratings)
    users = list(range(8))
    expected = model.recommend(users, cutoff=4)
    assert model.recommend(cutoff=4, history=ratings.take(np.isin(ratings.users, users))).equals(expected)
    liked = frame().filter((pl.col("user") == 1) & (pl.col("rating") >= 4))["item"].to_list()
    seen = set(liked)
    found = model.recommend("bob", cutoff=12, history=liked)
    assert found["user"].unique().to_list() == ["bob"]
    assert not seen & set(found["item"])
    np.testing.assert_array_equal(
        found.sort("item")["score"], [score for item, score in enumerate(model.matrix([1])[0]) if item not in seen]
    )


def test_als_solves_for_the_new_user_with_items_as_they_are():
    events = pl.DataFrame({"user": [1, 1, 1, 2, 2, 3, 3], "item": [0, 0, 1, 1, 2, 2, 3]})
    model = rw.recommend.ALS(factors=3, regularization=0.5, alpha=2.0, iterations=5).fit(
        rw.recommend.Interactions.from_frame(events, rating=None)
    )
    items = model.model_.item_vectors.astype(float)
    confidence, wanted = np.array([1 + 2.0 * 2, 1, 1 + 2.0, 1]), np.array([1.0, 0, 1, 0])  # item 0 twice, item 2 once
    vector = np.linalg.solve(items.T * confidence @ items + 0.5 * np.eye(3), items.T @ (confidence * wanted))
    found = model.recommend(history=[0, 2, 0], exclude_seen=False).sort("item")
    np.testing.assert_allclose(found["score"], items @ vector, atol=1e-5)


@pytest.mark.parametrize("settings", [{}, {"item_bias": True, "objective": "ranknet"}, {"objective": "xendcg"}])
def test_a_factorization_finds_the_best_vector_of_a_new_user(settings, ratings):
    model = EVERY["whole catalogue"](epochs=5, regularization=0.2, **settings).fit(ratings)
    new = model._with_history(ratings.take([0, 3])).user_vectors.astype(float)
    rng = np.random.default_rng(0)
    for user, vector in enumerate(new):
        labels = np.zeros(N_ITEMS)
        labels[ratings.take([(0, 3)[user]]).relevant_items()[1]] = 1.0

        def loss(u, labels=labels, user=user):
            items, bias = model.model_.item_vectors, model.model_.item_bias
            stream = rw.Stream(0, query_ids=[(0, 3)[user]]).child("history")
            scores = items.astype(float) @ u + (bias if bias.size else 0.0)
            return rw.objective(model.objective)(scores, labels, np.array([0, N_ITEMS]), stream).value[0] + 0.2 * u @ u

        best = loss(vector)
        assert all(loss(vector + step) > best - 1e-6 for step in 0.1 * rng.normal(size=(20, vector.size)))


def test_a_history_that_says_nothing_or_too_much_is_said(ratings):
    model = rw.recommend.EASE().fit(ratings)
    with refusal(what="the model was not trained on this item", got="77, one of 1 unknown"):
        model.recommend(history=[1, 77])
    with refusal(what="a list of items is the history of one user", got="2 users"):
        model.recommend([1, 2], history=[1])
    refuses(lambda: model.recommend(history=[]), what="a history needs an item")
    model.set_params(unknown="popular")
    with pytest.warns(UserWarning, match="1 of the 2 items of the history were not there in training"):
        assert model.recommend(history=[1, 77], cutoff=3).equals(model.recommend(history=[1], cutoff=3))
    popular = rw.recommend.Popularity().fit(ratings).recommend([COLD], cutoff=3).drop("user")
    assert model.recommend(history=ratings.take(ratings.users == COLD), cutoff=3).drop("user").equals(popular)
    taught = EVERY["factorization"](objective="distil")
    lists = ratings.dataset(1)
    taught.fit(lists.with_(teacher_scores=np.arange(lists.n_docs, dtype=float)))
    with refusal(what="a history has labels alone to learn from", got="distil, which reads teacher_scores"):
        taught.recommend(history=[1])


def test_similar_items_are_those_that_the_model_holds_alike(ratings):
    knn = EVERY["knn"]().fit(ratings)
    near = knn.similar_items([4], cutoff=3)
    assert near.columns == ["item", "rank", "similar", "similarity"]
    x = np.zeros((10, N_ITEMS))
    for user, item, rating in frame().rows():
        x[user if user < 10 else (8 if user == COLD else 9), item] = rating >= 4
    cosines = x.T @ x / (np.sqrt(np.outer(x.sum(0), x.sum(0))) + 1.0)  # with a shrinkage of 1
    cosines[4, 4] = -1
    np.testing.assert_allclose(near["similarity"], np.sort(cosines[4])[::-1][:3], rtol=1e-6)
    ease = EVERY["ease"]().fit(ratings)
    found = ease.similar_items([4, 6], cutoff=2)
    for item in (4, 6):
        scores = dict(ease.recommend(history=[item], cutoff=2).select("item", "score").rows())
        assert dict(found.filter(pl.col("item") == item).select("similar", "weight").rows()) == pytest.approx(scores)
    assert EVERY["als"]().fit(ratings).similar_items(4, cutoff=1).columns[-1] == "cosine"
    refuses(lambda: rw.recommend.Popularity().fit(ratings).similar_items([4]), what="Popularity does not compare items")
    refuses(lambda: ease.similar_items([99]), what="the model was not trained on this item", got="99…")
    alone = pl.concat([frame(), pl.DataFrame({"user": [0], "item": [50], "rating": [1.0]})])
    for name in ("ease", "knn", "als"):
        model = EVERY[name]().fit(rw.recommend.Interactions.from_frame(alone))
        with pytest.warns(UserWarning, match="items that are like no other are left out: 1 of 2; the first is 50"):
            assert model.similar_items([4, 50], cutoff=1)["item"].to_list() == [4]


def test_a_choice_says_among_which_items_it_looked():
    choice = rw.recommend.choose_recommender(
        rw.recommend.synthetic_ratings(n_users=20, n_items=50, n_ratings=20, seed=1), ["popularity"], metrics="rr"
    )
    assert choice.ranked == "the full catalogue of 50 items, without those that the user rated in training"
    assert choice.ranked in " ".join(repr(choice).split())
    assert choice.to_dict()["ranked"] == choice.ranked
