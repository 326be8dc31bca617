"""Factorization: every objective learns, models repeat and survive, recommendations are the best there are."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

import rankwise as rw
from rankwise.models.torch.weights import snapshot
from tests import shared, tiers
from tests.rankers.test_contract import EVERY_OBJECTIVE, losses
from tests.refusals import refusal, refuses

SMALL: dict[str, Any] = {"factors": 4, "epochs": 6, "threads": 1, "device": "cpu", "batch_users": 8}


@pytest.fixture(scope="module")
def ratings() -> rw.recommend.Interactions:
    """Two tastes: a user's ratings are high where the user's and the item's agree, with some noise."""
    rng = np.random.default_rng(2)
    tastes, kinds = rng.integers(0, 2, 24), rng.integers(0, 2, 60)
    rows = [
        (f"user {user:02}", f"item {item:02}", 5.0 if (tastes[user] == kinds[item]) != (rng.random() < 0.1) else 2.0)
        for user in range(24)
        for item in rng.choice(60, 30, replace=False)
    ]
    return rw.recommend.Interactions.from_frame(pl.DataFrame(rows, schema=["user", "item", "rating"], orient="row"))


@pytest.fixture(scope="module")
def parts(ratings):
    return ratings.split((0.7, 0.3), seed=4)


@pytest.fixture(scope="module")
def model(parts):
    return rw.recommend.FactorizationRanker("softmax_ce", **SMALL | {"epochs": 25, "learning_rate": 0.05}).fit(parts[0])


def same(one, other):
    names = ("users", "items", "user_vectors", "item_vectors", "item_bias", "popularity", "seen_offsets", "seen_items")
    return all(np.array_equal(getattr(one.model_, name), getattr(other.model_, name)) for name in names)


@pytest.mark.parametrize("text", [text for text in EVERY_OBJECTIVE if "safe" not in text])  # which needs a start
def test_every_objective_and_wrapper_lowers_its_loss(text, parts):
    data = parts[0].dataset(1)  # what a model of ratings is trained on: seed 0, round 0
    reads = rw.objective(text).reads
    if reads:  # columns that ratings do not have, and data sets of users and items may
        data = data.with_(groups=np.arange(data.n_docs) % 3, teacher_scores=3.0 * data.labels)
        data = data.with_(positions=np.arange(data.n_docs) % 7 + 1, more_labels={"purchase": data.labels})
    train = data if reads else parts[0]
    model = rw.recommend.FactorizationRanker(text, **SMALL | {"learning_rate": 0.05, "epochs": 12}).fit(train)
    before, after = losses(text, data, model.predict(data))
    assert after < before
    assert len(model.history_["loss"]) == 12
    assert rw.evaluate(model, data).mean["ndcg@10"] > rw.evaluate(np.zeros(data.n_docs), data).mean["ndcg@10"] + 0.05


def test_it_finds_held_out_items(model, parts):
    train, test = parts
    sampled = rw.recommend.evaluate_interactions(model, test, "ndcg", negatives=1)
    assert sampled.mean["ndcg"] > 0.8
    assert sampled.mean == rw.evaluate(model, test.dataset(1), "ndcg").mean
    assert "relevant items and 1 drawn item for each of them" in repr(sampled)
    full = rw.recommend.evaluate_interactions(model, test, "ndcg", exclude=train)
    chance = rw.recommend.evaluate_interactions(Constant(), test, "ndcg", exclude=train)
    assert full.mean["ndcg"] > chance.mean["ndcg"] + 0.04


class Constant:
    def predict(self, data):
        return np.zeros(data.n_docs)


class Predicting:
    """A model without a shortcut: it is handed lists."""

    def __init__(self, model):
        self.model = model

    def predict(self, data):
        return self.model.predict(data)


@pytest.mark.parametrize("excluded", [True, False])
def test_the_full_catalogue_equals_brute_force(model, parts, excluded, monkeypatch):
    monkeypatch.setattr("rankwise.wings.recommend.evaluation._BLOCK", 300)  # five users at a time
    train, test = parts
    metrics = ["ndcg@5", "ap", "rr", "recall@10"]
    done = rw.recommend.evaluate_interactions(model, test, metrics, exclude=train if excluded else None)
    found, rated = test.to_frame().filter(pl.col("rating") >= 4), train.to_frame()
    for number, user in enumerate(done.query_ids.tolist()):
        left_out = set(rated.filter(pl.col("user") == user)["item"]) if excluded else set()
        wanted = set(found.filter(pl.col("user") == user)["item"])
        items = [item for item in test.catalogue.tolist() if item not in left_out]
        vectors = model.model_
        one = vectors.user_vectors[vectors.users == user][0].astype(float)
        scores = {item: float(vectors.item_vectors[vectors.items == item][0].astype(float) @ one) for item in items}
        ranked = sorted(items, key=lambda item: -scores[item])
        hits = [item in wanted for item in ranked]
        ranks = np.flatnonzero(hits) + 1
        dcg = sum(1 / np.log2(rank + 1) for rank in ranks if rank <= 5)
        ideal = sum(1 / np.log2(rank + 1) for rank in range(1, min(5, len(wanted)) + 1))
        assert done["ndcg@5"][number] == pytest.approx(dcg / ideal, abs=1e-12)
        assert done["ap"][number] == pytest.approx(np.mean(np.arange(1, ranks.size + 1) / ranks), abs=1e-12)
        assert done["rr"][number] == pytest.approx(1 / ranks[0], abs=1e-12)
        assert done["recall@10"][number] == pytest.approx((ranks <= 10).sum() / len(wanted), abs=1e-12)
    other = rw.recommend.evaluate_interactions(Predicting(model), test, metrics, exclude=train if excluded else None)
    assert other.mean == pytest.approx(done.mean, abs=1e-12)
    assert f"the full catalogue of {test.n_items} items" in repr(done)
    assert ("without those" in repr(done)) == excluded
    assert done.to_dict()["candidates"] == done.candidates


def test_exclusion_goes_by_ids(model, parts):
    train, test = parts
    turned = train.take(np.arange(train.n_users)[::-1])
    frame = train.to_frame().vstack(pl.DataFrame({"user": ["zoe"], "item": ["aaa"], "rating": [5.0]}))
    wider = rw.recommend.Interactions.from_frame(frame)  # another catalogue, more users
    expected = rw.recommend.evaluate_interactions(model, test, "ap", exclude=train)
    for other in (turned, wider):
        assert np.array_equal(
            rw.recommend.evaluate_interactions(model, test, "ap", exclude=other)["ap"], expected["ap"]
        )
    with refusal(what="…both left out and to be found", got="item 'item …' of user 'user 00' in test…"):
        rw.recommend.evaluate_interactions(model, test, exclude=test)


@pytest.mark.parametrize("exclude_seen", [True, False])
def test_recommendations_are_the_best_there_are(model, parts, exclude_seen, monkeypatch):
    monkeypatch.setattr("rankwise.wings.recommend.model._BLOCK", 200)
    train, _ = parts
    users = ["user 05", "user 03", "user 20", "user 11"]
    table = model.recommend(users, cutoff=7, exclude_seen=exclude_seen)
    assert table.columns == ["user", "rank", "item", "score"]
    assert table["user"].unique(maintain_order=True).to_list() == users
    rated = train.to_frame()
    for user in users:
        known = set(rated.filter(pl.col("user") == user)["item"]) if exclude_seen else set()
        items = [item for item in train.catalogue.tolist() if item not in known]
        lists = rw.RankingDataset(
            np.empty((len(items), 0)), np.zeros(len(items)), [0, len(items)], query_ids=[user], document_ids=items
        )
        best = model.rank(lists, cutoff=7)
        mine = table.filter(pl.col("user") == user)
        assert mine["item"].to_list() == best["document"].to_list()
        assert mine["rank"].to_list() == [1, 2, 3, 4, 5, 6, 7]
        assert np.allclose(mine["score"], best["score"], atol=1e-6)
    assert model.recommend(cutoff=1)["user"].to_list() == model.model_.users.tolist()


def test_a_user_who_knows_nearly_everything_gets_what_is_left():
    frame = pl.DataFrame({"user": [1, 1, 1, 2], "item": [1, 2, 3, 4], "rating": [5, 5, 1, 5]})
    model = rw.recommend.FactorizationRanker(**SMALL).fit(rw.recommend.Interactions.from_frame(frame))
    table = model.recommend(cutoff=3)
    assert table.filter(pl.col("user") == 1)["item"].to_list() == [4]  # what was rated low is seen, too
    assert set(table.filter(pl.col("user") == 2)["item"]) == {1, 2, 3}


def test_similar_items_are_those_of_the_nearest_direction(model):
    vectors = model.model_.item_vectors.astype(float)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = unit @ unit[7]
    cosines[7] = -2
    order = np.argsort(-cosines)[:4]
    table = model.similar_items(["item 07"], cutoff=4)
    assert table["similar"].to_list() == model.model_.items[order].tolist()
    assert np.allclose(table["cosine"], cosines[order], atol=1e-6)
    assert table["item"].unique().to_list() == ["item 07"]


def test_seeds_repeat_and_the_users_order_of_torch_stays_untouched(parts):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    settings = SMALL | {"resample": True}
    runs = [rw.recommend.FactorizationRanker("xendcg", seed=seed, **settings).fit(*parts) for seed in (1, 1, 2)]
    assert torch.equal(before, torch.get_rng_state())
    assert same(runs[0], runs[1])
    assert runs[0].history_ == runs[1].history_
    assert not same(runs[0], runs[2])


def test_first_vectors_are_uniform_and_belong_to_ids(parts):
    """Nothing is learned with a rate of next to 0: what is there are the first vectors."""
    train, _ = parts
    settings = SMALL | {"epochs": 1, "learning_rate": 1e-12, "factors": 64}
    whole = rw.recommend.FactorizationRanker(initial=0.2, **settings).fit(train)
    vectors = whole.model_.item_vectors
    assert np.abs(vectors).max() <= 0.2
    assert np.abs(vectors).max() > 0.199
    assert vectors.std() == pytest.approx(0.2 / np.sqrt(3), rel=0.03)
    assert not np.allclose(vectors[0], vectors[1])
    some = rw.recommend.FactorizationRanker(initial=0.2, **settings).fit(train.take([5, 2]))
    rows = [whole.model_.users.tolist().index(user) for user in some.model_.users.tolist()]
    assert np.allclose(some.model_.user_vectors, whole.model_.user_vectors[rows], atol=1e-9)


def test_negatives_are_drawn_once_or_in_every_epoch(parts):
    seen: list[Any] = []

    class Watching:
        exact_hessian, estimator = True, False

        def __call__(self, scores, labels, offsets, stream=None, **documents):
            return rw.objective("softmax_ce")(scores, labels, offsets)

    def lists(resample):
        ranker = rw.recommend.FactorizationRanker(Watching(), resample=resample, **SMALL | {"epochs": 3})
        seen.clear()
        learner_of = rw.recommend.FactorizationRanker.learner

        def watched(*arguments):
            learner = learner_of(*arguments)
            give: Any = learner.data or (lambda epoch: learner.train)

            def data(epoch):
                lists = give(epoch)
                seen.append(lists.document_ids.tolist())
                return lists

            learner.data = data
            return learner

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rw.recommend.FactorizationRanker, "learner", watched)
            ranker.fit(parts[0])
        return [*seen]

    once, anew = lists(False), lists(True)
    assert once[0] == once[1] == once[2] == anew[0] == parts[0].dataset(1).document_ids.tolist()
    assert anew[1] == parts[0].dataset(1, round=1).document_ids.tolist() != anew[0]


def test_lists_with_ids_train_as_interactions_do(parts):
    train, _ = parts
    direct = rw.recommend.FactorizationRanker("softmax_ce", **SMALL).fit(train)
    lists = train.dataset(1, seed=0)
    through = rw.recommend.FactorizationRanker("softmax_ce", **SMALL).fit(
        lists.with_(features=np.ones((lists.n_docs, 3)))
    )
    common = through.model_.items.tolist()
    rows = [direct.model_.items.tolist().index(item) for item in common]
    assert np.array_equal(direct.model_.item_vectors[rows], through.model_.item_vectors)
    assert np.array_equal(direct.model_.user_vectors, through.model_.user_vectors)
    relevant = {(u, d) for u, d, y in zip(lists.qids(), lists.document_ids, lists.labels, strict=True) if y}
    offsets, items = through.model_.seen_offsets, through.model_.seen_items
    seen = {
        (user, common[item])
        for number, user in enumerate(through.model_.users.tolist())
        for item in items[offsets[number] : offsets[number + 1]]
    }
    assert seen == relevant


def test_lists_of_users_in_any_order_keep_their_own_seen_items(parts):
    lists = parts[0].dataset(1)
    turned = lists.take(np.arange(lists.n_queries)[::-1])
    one, other = (
        rw.recommend.FactorizationRanker(**SMALL | {"epochs": 1}).fit(data).model_ for data in (lists, turned)
    )
    assert one.users.tolist() == other.users.tolist()
    assert np.array_equal(one.seen_offsets, other.seen_offsets)
    assert np.array_equal(one.seen_items, other.seen_items)


def test_weight_2_is_the_user_twice(parts):
    """Batches hold all users, so that order and cuts have no part in it; the vectors of the two are the same."""
    lists = parts[0].dataset(1)
    again = rw.concatenate([lists, lists.take([3]).with_(query_ids=["twin"])])
    weights = np.where(np.arange(lists.n_queries) == 3, 2.0, 1.0)
    settings = SMALL | {"batch_users": 99, "epochs": 1, "learning_rate": 1e-12}
    heavy = rw.recommend.FactorizationRanker("softmax_ce", **settings).fit(lists.with_(weights=weights))
    loss = rw.objective("softmax_ce")(heavy.predict(lists), lists.labels, lists.offsets).value
    assert heavy.history_["loss"][0] == pytest.approx(np.average(loss, weights=weights), rel=1e-6)
    twice = rw.recommend.FactorizationRanker("softmax_ce", **settings).fit(again)
    assert twice.history_["loss"][0] == pytest.approx(heavy.history_["loss"][0], rel=1e-3)


def test_dense_adam_moves_all_vectors_and_sparse_adam_those_of_the_batch(parts):
    """The gradient of an item that is in no list is 0: only momentum could move it, and it has none. A user's is 0 in
    the batches of others: after the first epoch momentum moves it there under Adam alone."""
    moved = {}
    for optimizer in ("adam", "sparse_adam"):
        changes: list[torch.Tensor] = []
        ranker = rw.recommend.FactorizationRanker(optimizer=optimizer, **SMALL | {"batch_users": 1, "epochs": 2})
        learner_of = rw.recommend.FactorizationRanker.learner

        def watched(*arguments, learner_of=learner_of, changes=changes, **options):
            learner = learner_of(*arguments, **options)
            give = learner.inputs

            def inputs(part):
                changes.append(snapshot(learner.module)["users.weight"])
                return give(part)

            learner.inputs = inputs
            return learner

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rw.recommend.FactorizationRanker, "learner", watched)
            ranker.fit(parts[0])
        last, before = changes[-1], changes[-2]
        moved[optimizer] = int((last != before).any(dim=1).sum())
    assert moved["sparse_adam"] == 1
    assert moved["adam"] == parts[0].n_users


@pytest.mark.parametrize("negatives", [1, "all"])
def test_interactions_are_measured_beside_the_validation_data(parts, negatives):
    train, valid = parts
    settings = SMALL | {"negatives": negatives, "epochs": 4, "patience": None, "metrics": "ndcg@5"}
    plain = rw.recommend.FactorizationRanker("softmax_ce", **settings).fit(train, valid)
    model = rw.recommend.FactorizationRanker("softmax_ce", **settings).fit(
        train, valid, eval_sets={"train": train, "v": valid}
    )
    assert same(model, plain)
    assert model.history_["v ndcg@5"] == model.history_["ndcg@5"] == plain.history_["ndcg@5"]
    lists = train.dataset(negatives=negatives, seed=model.seed)
    best = model.history_["train ndcg@5"][model.best_round_ - 1]
    assert best == pytest.approx(rw.evaluate(model, lists, "ndcg@5").mean["ndcg@5"], abs=1e-12)


def test_sgd_steps_down_the_gradient(parts):
    train, _ = parts
    settings: Any = SMALL | {"optimizer": "sgd", "batch_users": 10**6, "epochs": 1, "patience": None}
    start, after = (
        rw.recommend.FactorizationRanker("softmax_ce", **settings | {"learning_rate": rate}).fit(train).model_
        for rate in (1e-30, 20.0)
    )
    data = train.dataset(settings.get("negatives", 1), seed=settings.get("seed", 0))
    users = np.repeat(np.searchsorted(start.users, data.query_ids), data.sizes)
    items = np.searchsorted(start.items, data.document_ids)
    scores = (start.user_vectors[users] * start.item_vectors[items]).sum(1).astype(np.float64)
    slope = rw.objectives.SoftmaxCE()(scores, data.labels, data.offsets).gradient / data.n_queries
    expected = start.user_vectors.astype(np.float64)
    np.subtract.at(expected, users, 20.0 * slope[:, None] * start.item_vectors[items])
    np.testing.assert_allclose(after.user_vectors, expected, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("optimizer", ["adam", "sparse_adam", "sgd"])
def test_a_resumed_run_ends_where_an_uninterrupted_one_does(parts, tmp_path: Path, optimizer):
    settings = SMALL | {
        "optimizer": optimizer,
        "resample": True,
        "item_bias": True,
        "checkpoint_every": 2,
        "patience": None,
    }
    whole = rw.recommend.FactorizationRanker("stochastic(xendcg, samples=2)", **settings).fit(*parts)
    short = settings | {"checkpoint": tmp_path / "state"}
    with pytest.raises(RuntimeError, match="stop"):
        rw.recommend.FactorizationRanker("stochastic(xendcg, samples=2)", **short).fit(*parts, callback=Stop(5))
    kept = rw.load(tmp_path / "state")
    assert len(kept.history_["loss"]) == 4
    counted = Stop(99)
    resumed = rw.recommend.FactorizationRanker("stochastic(xendcg, samples=2)", **short).fit(
        *parts, resume=True, callback=counted
    )
    assert counted.rounds == [5, 6]  # earlier epochs were not trained again
    assert same(resumed, whole)
    assert resumed.history_ == whole.history_
    fewer = rw.recommend.Interactions.from_frame(parts[0].to_frame()[1:], catalogue=parts[0].catalogue)
    with refusal(what="the checkpoint belongs to another training (data: train differs)"):
        rw.recommend.FactorizationRanker("stochastic(xendcg, samples=2)", **short).fit(fewer, parts[1], resume=True)


class Stop:
    def __init__(self, at):
        self.at, self.rounds = at, []

    def __call__(self, number, history):
        self.rounds.append(number)
        if number == self.at:
            raise RuntimeError("stop")


def test_the_best_epoch_is_kept(parts):
    settings = SMALL | {"epochs": 60, "patience": 4, "learning_rate": 0.3, "metrics": ("ap", "ndcg@5")}
    model = rw.recommend.FactorizationRanker("softmax_ce", **settings).fit(*parts)
    assert model.stopped_ == "patience"
    column = model.history_["ap"]
    assert model.best_round_ == np.argmax(column) + 1 == len(column) - 4
    assert model.score(parts[1].dataset(1)) == pytest.approx(max(column), abs=1e-12)


@pytest.mark.parametrize("words", [True, False])
def test_a_saved_model_scores_the_same_in_a_new_process(parts, tmp_path: Path, words):
    train, _ = parts
    if not words:
        numbers = pl.col("user", "item").str.slice(5).cast(pl.Int64)
        train = rw.recommend.Interactions.from_frame(train.to_frame().with_columns(numbers))
    model = rw.recommend.FactorizationRanker("approx_ndcg", item_bias=True, **SMALL).fit(train)
    model.save(tmp_path / "model")
    model.recommend(cutoff=4).write_parquet(tmp_path / "expected.parquet")
    code = (
        "import sys, polars as pl, rankwise as rw\n"
        "model = rw.load(sys.argv[1] + '/model')\n"
        "assert model.recommend(cutoff=4).equals(pl.read_parquet(sys.argv[1] + '/expected.parquet'))\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    loaded = rw.load(tmp_path / "model")
    lists = train.dataset(2, seed=3)
    assert same(model, loaded)
    assert np.array_equal(loaded.predict(lists), model.predict(lists))
    assert loaded.get_params() == model.get_params() | {"metrics": ("ndcg@10",)}
    assert np.abs(model.model_.item_bias).max() > 0
    names = sorted(path.name for path in (tmp_path / "model").iterdir())
    assert names == ["README.md", "model.safetensors", "rankwise.json"]


def test_a_model_is_continued_with_new_users_and_items(model, parts):
    train, _ = parts
    new = pl.DataFrame({"user": ["new"] * 3, "item": ["item 00", "item 99", "item 01"], "rating": [5.0, 5.0, 4.0]})
    more = rw.recommend.Interactions.from_frame(train.to_frame().vstack(new))
    settings = SMALL | {"epochs": 1, "learning_rate": 1e-12}
    longer = rw.recommend.FactorizationRanker("softmax_ce", **settings).fit(more, init_model=model)
    assert longer.epochs_ == model.epochs_ + 1
    rows = [longer.model_.users.tolist().index(user) for user in model.model_.users.tolist()]
    assert np.allclose(longer.model_.user_vectors[rows], model.model_.user_vectors, atol=1e-9)
    columns = [longer.model_.items.tolist().index(item) for item in model.model_.items.tolist()]
    assert np.allclose(longer.model_.item_vectors[columns], model.model_.item_vectors, atol=1e-9)
    assert longer.recommend(["new"], cutoff=1)["item"][0] not in ("item 00", "item 99", "item 01")
    with refusal(what="init_model must have the same factors and biases", got="4 factors without item_bias"):
        rw.recommend.FactorizationRanker(**settings | {"factors": 5}).fit(more, init_model=model)


def listed(user, items):
    return rw.RankingDataset(
        np.empty((len(items), 0)), np.zeros(len(items)), [0, len(items)], query_ids=[user], document_ids=items
    )


def test_unknown_users_and_items(model, parts):
    lists, strange = listed("nobody", ["item 01", "item 00", "item 02"]), listed("user 03", ["item 01", "nothing"])
    with refusal(what="the model was not trained on this user", got="'nobody', one of 1 unknown", hint="train with…"):
        model.predict(lists)
    refuses(lambda: model.predict(strange), what="the model was not trained on this item", got="'nothing'…")
    refuses(lambda: model.recommend([3]), what="the model was not trained on this user", got="3…")
    vectors = model.model_
    try:
        model.set_params(unknown="mean")
        average = vectors.user_vectors.mean(axis=0, dtype=float)
        rows = [vectors.items.tolist().index(item) for item in ("item 01", "item 00", "item 02")]
        assert np.allclose(model.predict(lists), vectors.item_vectors[rows] @ average, atol=1e-6)
        user = vectors.user_vectors[vectors.users.tolist().index("user 03")]
        expected = [vectors.item_vectors[rows[0]] @ user, vectors.item_vectors.mean(axis=0, dtype=float) @ user]
        assert np.allclose(model.predict(strange), expected, atol=1e-6)
        everything = model.matrix(["nobody", "user 03"], ["item 01", "nothing"])
        assert np.allclose(everything[1], expected, atol=1e-6)
        model.set_params(unknown="popular")
        counts = dict(parts[0].to_frame().filter(pl.col("rating") >= 4).group_by("item").len().iter_rows())
        assert model.predict(lists).tolist() == [counts.get(f"item 0{k}", 0) for k in (1, 0, 2)]
        first = model.recommend(["nobody"], cutoff=1)
        assert first["score"][0] == max(counts.values())
        assert counts[first["item"][0]] == max(counts.values())
        assert np.allclose(model.predict(strange), expected, atol=1e-6)
    finally:
        model.set_params(unknown="error")


def test_rankings_are_sampled_and_scores_taken(model, parts):
    lists = parts[1].dataset(1)
    drawn = model.sample_rankings(lists, 3, seed=1)
    assert drawn.shape == (3, lists.n_docs)
    assert model.score(lists) == rw.evaluate(model, lists).mean["ndcg@10"]
    assert repr(rw.recommend.FactorizationRanker("xendcg", factors=8)) == "factorization(xendcg, factors=8)"


@pytest.mark.parametrize(
    ("settings", "fields"),
    [
        ({"factors": 0}, {"what": "factors must be a whole number of at least 1", "got": "0"}),
        ({"initial": 0.0}, {"what": "initial must be a number in (0, inf)", "got": "0.0"}),
        ({"optimizer": "sgm"}, {"what": "unknown optimizer", "got": "'sgm'", "hint": "did you mean 'sgd'"}),
        (
            {"optimizer": "sparse_adam", "weight_decay": 0.1},
            {"what": "sparse_adam has no weight decay", "got": "weight_decay=0.1"},
        ),
        ({"unknown": "zero"}, {"what": "unknown way to treat unknown users and items", "got": "'zero'"}),
        ({"batch_users": 0}, {"what": "batch_users must be a whole number of at least 1"}),
        ({"negatives": -1}, {"what": "negatives (or 'all') must be a whole number of at least 0"}),
        ({"device": "quantum"}, {"what": "torch cannot use the device", "got": "'quantum'…"}),
        ({"metrics": "ndgc"}, {"hint": "did you mean 'ndcg'"}),
    ],
)
def test_wrong_settings_are_named(parts, settings, fields):
    refuses(lambda: rw.recommend.FactorizationRanker(**SMALL | settings).fit(parts[0]), **fields)


def test_wrong_data_is_named(parts, data, model):
    ranker = rw.recommend.FactorizationRanker(**SMALL)
    with refusal(what="FactorizationRanker goes by the ids of users and items", got="RankingDataset without them"):
        ranker.fit(data)
    with refusal(what="FactorizationRanker goes by the ids of users and items", got="ndarray"):
        ranker.fit(np.zeros((3, 2)))
    with refusal(what="…goes by the ids of users and items", got="Interactions", hint="pass a RankingDataset…"):
        model.predict(parts[0])
    with refusal(what="negatives can be drawn anew only from interactions", got="lists that are made"):
        rw.recommend.FactorizationRanker(resample=True, **SMALL).fit(parts[0].dataset(1))
    with refusal(what="no user has a relevant item to learn from"):
        ranker.fit(rw.recommend.Interactions.from_frame(pl.DataFrame({"user": [1], "item": [1], "rating": [1.0]})))
    refuses(ranker.recommend, what="this FactorizationRanker is not trained yet")
    with refusal(what="a factorization has no features to explain scores by, and its factors mean nothing one by one"):
        model.explain(parts[0].dataset(1))
    with refusal(what="FactorizationRanker has no such parameter", got="'factor'", hint="did you mean 'factors'"):
        rw.recommend.FactorizationRanker(factor=3)


@pytest.mark.slow
def test_movielens_as_in_the_thesis():
    """Table 5.1, negative ratio 1: nDCG .9659, AP .8960; one fold of five, the model of the last epoch."""
    folder = shared.data("ml-latest-small").parent
    train, test = next(rw.load_dataset("ml-latest-small", folder=folder).active(25).folds(5, seed=1))
    ranker = rw.recommend.FactorizationRanker(
        "approx_ndcg(eta=1)", epochs=15, learning_rate=0.003, threads=1, device="cpu"
    )
    done = rw.recommend.evaluate_interactions(ranker.fit(train), test, ["ndcg", "ap"], negatives=1)
    assert done.mean["ndcg"] == pytest.approx(0.9659, abs=0.01)
    assert done.mean["ap"] == pytest.approx(0.8960, abs=0.02)


CATALOGUE: dict[str, Any] = {"negatives": "all", "regularization": 0.1, "learning_rate": 0.05, "item_bias": True}


@pytest.mark.parametrize("objective", ["softmax_ce", "weighted(softmax_ce, by=relevant, power=0.5)", "ranknet"])
def test_the_whole_catalogue_trains_as_lists_of_all_items_do(ratings, objective):
    """In NumPy without lists, and in torch with one list of all items for each user: the same steps."""
    settings = SMALL | CATALOGUE
    ours = rw.recommend.FactorizationRanker(objective, **settings).fit(ratings)
    torchs = rw.recommend.FactorizationRanker(objective, **settings).fit(ratings.dataset("all"))
    assert np.allclose(ours.history_["loss"], torchs.history_["loss"], rtol=1e-4)
    assert np.allclose(ours.model_.user_vectors, torchs.model_.user_vectors, atol=2e-3)
    assert np.allclose(ours.model_.item_bias, torchs.model_.item_bias, atol=2e-3)
    assert np.abs(ours.model_.user_vectors).max() > 0.1


def test_the_whole_catalogue_finds_held_out_items(ratings):
    train, test = ratings.split((0.8, 0.2), seed=1, spare_held_out=False)
    ranker = rw.recommend.FactorizationRanker.full_catalogue(factors=4, regularization=0.3, threads=1, epochs=60).fit(
        train
    )
    found = rw.recommend.evaluate_interactions(ranker, test, "ndcg@10", exclude=train).mean["ndcg@10"]
    popular = rw.recommend.Popularity().fit(train)
    assert found > rw.recommend.evaluate_interactions(popular, test, "ndcg@10", exclude=train).mean["ndcg@10"] + 0.03
    assert len(ranker.history_["loss"]) == 60


def test_regularization_is_that_of_the_summed_loss(ratings):
    """Much of it keeps vectors short, in both trainers; as weight decay it is twice that over the number of users."""
    sizes = {}
    for negatives in (1, "all"):
        for strength in (0.0, 5.0):
            ranker = rw.recommend.FactorizationRanker(
                **SMALL | {"negatives": negatives, "epochs": 40, "regularization": strength}
            )
            sizes[negatives, strength] = float(np.abs(ranker.fit(ratings).model_.user_vectors).mean())
    assert sizes[1, 5.0] < 0.5 * sizes[1, 0.0]
    assert sizes["all", 5.0] < 0.5 * sizes["all", 0.0]
    decay = rw.recommend.FactorizationRanker(**SMALL | {"weight_decay": 2 * 5.0 / ratings.n_users, "epochs": 40}).fit(
        ratings
    )
    assert float(np.abs(decay.model_.user_vectors).mean()) == pytest.approx(sizes[1, 5.0], rel=1e-6)


def test_a_resumed_run_on_the_whole_catalogue_ends_where_an_uninterrupted_one_does(parts, tmp_path: Path):
    settings = SMALL | CATALOGUE | {"checkpoint_every": 2, "patience": None}
    whole = rw.recommend.FactorizationRanker("stochastic(xendcg, samples=2)", **settings).fit(*parts)
    short = settings | {"checkpoint": tmp_path / "state"}
    with pytest.raises(RuntimeError, match="stop"):
        rw.recommend.FactorizationRanker("stochastic(xendcg, samples=2)", **short).fit(*parts, callback=Stop(5))
    counted = Stop(99)
    resumed = rw.recommend.FactorizationRanker("stochastic(xendcg, samples=2)", **short).fit(
        *parts, resume=True, callback=counted
    )
    assert counted.rounds == [5, 6]
    assert same(resumed, whole)
    assert resumed.history_ == whole.history_


def test_the_whole_catalogue_repeats_and_continues(parts):
    settings = SMALL | CATALOGUE
    one, again, other = (rw.recommend.FactorizationRanker(**settings | {"threads": n}).fit(parts[0]) for n in (1, 1, 3))
    assert same(one, again)
    assert np.allclose(one.model_.user_vectors, other.model_.user_vectors, rtol=0, atol=1e-6)
    longer = rw.recommend.FactorizationRanker(**settings | {"epochs": 1, "learning_rate": 1e-12}).fit(
        parts[0], init_model=one
    )
    assert np.allclose(longer.model_.user_vectors, one.model_.user_vectors, atol=1e-9)
    assert longer.epochs_ == one.epochs_ + 1


@pytest.mark.parametrize(
    ("settings", "fields"),
    [
        (
            {"optimizer": "sparse_adam"},
            {"what": "negatives='all' does not go with this optimizer", "got": "'sparse_adam'"},
        ),
        ({"device": "cuda"}, {"what": "negatives='all' does not go with this device", "got": "'cuda'"}),
        ({"resample": True}, {"what": "negatives='all' does not go with this resample", "got": "True"}),
        ({"regularization": -1.0}, {"what": "regularization must be a number in [0, inf)"}),
    ],
)
def test_what_does_not_go_with_the_whole_catalogue_is_named(parts, settings, fields):
    refuses(lambda: rw.recommend.FactorizationRanker(**SMALL | {"negatives": "all"} | settings).fit(parts[0]), **fields)


@pytest.mark.parametrize("negatives", [2, "all"])
def test_vectors_give_the_scores(parts, negatives):
    model = rw.recommend.FactorizationRanker(**SMALL | {"negatives": negatives, "item_bias": True}).fit(parts[0])
    users, items = model.vectors()
    scores = users["vector"].to_numpy() @ items["vector"].to_numpy().T
    assert np.allclose(scores, model.matrix(users["id"].to_numpy()), atol=1e-6)
    assert np.abs(model.model_.item_bias).max() > 0


@tiers.only_all
def test_movielens_on_the_full_catalogue():
    """Level with ALS, near EASE, and far above what is popular; settings as they are, nothing chosen on the test."""
    folder = shared.data("ml-latest-small")
    train, test = rw.recommend.Interactions.read(folder).active(5).split((0.8, 0.2), seed=3, spare_held_out=False)
    models: dict[str, Any] = {
        "popular": rw.recommend.Popularity(),
        "ease": rw.recommend.EASE(),
        "als": rw.recommend.ALS(),
    }
    models["factors"] = rw.recommend.FactorizationRanker.full_catalogue(progress=False)
    found = {
        name: rw.recommend.evaluate_interactions(
            model.set_params(unknown="popular").fit(train), test, exclude=train
        ).mean["ndcg@10"]
        for name, model in models.items()
    }
    assert min(found["ease"], found["als"], found["factors"]) > found["popular"] + 0.1
    assert found["factors"] > found["als"] - 0.02


def test_other_recommenders_are_chosen_where_there_is_no_torch():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import rankwise as rw\n"
        "rw.ranker('factorization')\n"
        "data = rw.recommend.synthetic_ratings(30, 60, n_ratings=8.0)\n"
        "print(rw.recommend.choose_recommender(data))\n"
        "try: rw.recommend.FactorizationRanker().fit(data)\n"
        "except rw.errors.MissingExtraError as missing: print(missing)\n"
    )
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
    assert "pip install 'rankwise[recommend]'" in outcome.stdout
