"""Whom every recommender recommends to: known users, users who like nothing, users who know everything."""

from typing import Any

import numpy as np
import polars as pl
import pytest

import rankwise as rw

SMALL: dict[str, Any] = {"factors": 4, "epochs": 2, "threads": 1, "device": "cpu", "progress": False}
EVERY = {
    "ease": lambda **settings: rw.EASE(regularization=3.0, **settings),
    "als": lambda **settings: rw.ALS(factors=4, regularization=2.0, alpha=4.0, iterations=3, **settings),
    "knn": lambda **settings: rw.ItemKNN(neighbours=6, shrinkage=1.0, **settings),
    "popularity": lambda **settings: rw.Popularity(**settings),
    "factorization": lambda **settings: rw.FactorizationRanker(**SMALL | settings),
    "whole catalogue": lambda **settings: rw.FactorizationRanker.full_catalogue(**SMALL | settings),
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
def ratings() -> rw.Interactions:
    return rw.Interactions.from_frame(frame())


@pytest.mark.parametrize("name", EVERY)
def test_every_user_gets_recommendations_or_a_sentence_says_who_does_not(name, ratings):
    model = EVERY[name]().fit(ratings)
    with pytest.warns(UserWarning, match="rated every item get no recommendation: 1 of 10 users; the first is 200"):
        found = model.recommend(k=3)
    assert found["user"].unique().sort().to_list() == [*range(8), COLD]
    popular = rw.Popularity().fit(ratings).recommend([COLD], k=3)
    assert model.recommend([COLD], k=3).equals(popular)
    assert len(model.recommend([FULL], k=3, exclude_seen=False)) == 3


@pytest.mark.parametrize("name", ["factorization", "whole catalogue"])
def test_a_user_who_likes_nothing_changes_no_vector(name, ratings):
    settings = {"item_bias": True, "unknown": "mean", "weight_decay": 0.1}
    model = EVERY[name](**settings).fit(ratings)
    alone = EVERY[name](**settings).fit(rw.Interactions.from_frame(frame(cold=False), catalogue=np.arange(N_ITEMS)))
    for kind in ("item_vectors", "item_bias"):
        np.testing.assert_array_equal(getattr(model.model_, kind), getattr(alone.model_, kind))
    users = [*range(8), 999]  # whom the mean vector of the others stands for
    np.testing.assert_array_equal(model.matrix(users), alone.matrix(users))
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
    valid = rw.Interactions.from_frame(pl.DataFrame(rows), catalogue=np.arange(N_ITEMS))
    assert len(EVERY["factorization"]().fit(ratings, valid).history_["ndcg@10"]) == 2
