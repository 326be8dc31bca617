"""CatBoost's adapter: a loop of one-tree models is one model, and CatBoost's own training."""

import catboost
import numpy as np
import pytest

import rankwise as rw
from rankwise.rankers.trees.catboost.ranker import CatBoost
from rankwise.rankers.trees.protocol import Settings
from tests.refusals import refusal, refuses

SMALL = {"leaves": 8, "threads": 1, "rounds": 10, "learning_rate": 0.1}


def ranker(objective="xendcg", **changes):
    return rw.CatBoostRanker(objective, **SMALL | changes)


def test_a_leaf_is_newtons_step_shrunk_by_average_documents():
    lists = rw.RankingDataset.from_sizes([[0.0], [1.0], [1.0], [0.0], [1.0]], [0, 2, 1, 0, 1], [3, 2])
    found = rw.objective("lambdarank")(np.zeros(5), lists.labels, lists.offsets)
    for shrinkage in (0.0, 3.0):
        model = ranker("lambdarank", rounds=1, leaves=2, l2_leaf_reg=shrinkage).fit(lists)
        for value in (0.0, 1.0):
            rows = lists.features[:, 0] == value
            step = found.numerator[rows].sum() / (found.hessian[rows].sum() + shrinkage * found.hessian.mean())
            assert model.predict([[value]]) == pytest.approx(-0.1 * step, rel=1e-5)


def test_a_native_objective_is_catboosts_own_training(data):
    """Round by round from outside, or all at once inside: the same trees, where nothing is drawn."""
    quiet = {"bootstrap_type": "No", "random_strength": 0.0, "l2_leaf_reg": 2.0, "border_count": 64}
    weights = np.linspace(0.5, 2.0, data.n_queries)
    model = ranker("native:QueryRMSE", rounds=20, **quiet).fit(data.with_(weights=weights))
    groups = {"group_id": np.repeat(np.arange(40), data.sizes), "group_weight": np.repeat(weights, data.sizes)}
    theirs = catboost.CatBoost(
        {"loss_function": "QueryRMSE", "iterations": 20, "learning_rate": 0.1, "depth": 3, "thread_count": 1}
        | {"has_time": True, "logging_level": "Silent", "allow_writing_files": False, **quiet}
    ).fit(catboost.Pool(data.features, data.labels, **groups))
    assert np.allclose(model.predict(data), theirs.predict(data.features), atol=1e-6)


def test_parameters_of_a_native_objective_are_passed_on(data):
    fits = [ranker(f"native:YetiRank{more}", rounds=3).fit(data) for more in ("", ":mode=MRR", ":permutations=2")]
    assert len({fit.predict(data).tobytes() for fit in fits}) == 3
    with refusal(what="unknown objective of catboost itself", got="'YetiRang'", hint="…'YetiRank'"):
        ranker("native:YetiRang:mode=MRR").fit(data)
    with refusal(what="CatBoost cannot train so with native:YetiRank:mode=none"):
        ranker("native:YetiRank:mode=none").fit(data)


def test_noise_fades_as_catboost_lets_it():
    """CatBoost multiplies it by m / (1 + m), m = documents · exp(−trees · learning rate)."""
    lists = rw.synthetic(n_queries=10, n_docs=10, seed=1)
    library = CatBoost()
    settings = Settings(None, 0.1, 8, 1, 1, {"random_strength": 2.0})
    growth = library.grow(settings, library.matrices(settings, lists, (), 0), 0, None)
    assert growth._drawing()["random_strength"] == pytest.approx(2.0)
    growth.trees = 46
    left = lists.n_docs * np.exp(-4.6)
    assert growth._drawing()["random_strength"] == pytest.approx(
        2.0 * left / (1 + left) * (1 + lists.n_docs) / lists.n_docs
    )


def test_rounds_draw_anew_and_seeds_repeat(data):
    drawn = {"bootstrap_type": "Bernoulli", "subsample": 0.5}
    one, two = ranker(seed=1, **drawn).fit(data), ranker(seed=2, **drawn).fit(data)
    assert np.array_equal(ranker(seed=1, **drawn).fit(data).predict(data), one.predict(data))
    assert not np.array_equal(one.predict(data), two.predict(data))
    quiet = [ranker("lambdarank", seed=seed).fit(data).predict(data) for seed in (1, 2)]
    assert np.array_equal(*quiet)


def test_leaves_become_the_least_depth_that_has_them(data):
    for leaves, expected in ((2, 2), (3, 4), (7, 8), (31, 32), (32, 32)):
        booster = ranker(rounds=2, leaves=leaves).fit(data).model_.booster
        assert booster.get_tree_leaf_counts().tolist() == [expected] * 2
    assert ranker(rounds=1, depth=5).fit(data).model_.booster.get_tree_leaf_counts() == [32]


@pytest.mark.parametrize(("policy", "most"), [("Lossguide", 7), ("Depthwise", 8)])
def test_other_trees_have_as_many_leaves_as_they_are_asked_for(policy, most, data):
    booster = ranker(rounds=4, leaves=7, min_documents=1, grow_policy=policy).fit(data).model_.booster
    assert booster.get_tree_leaf_counts().max() == most


def test_nothing_learned_names_min_documents_only_where_it_has_an_effect():
    lists = rw.RankingDataset.from_sizes([[0.0], [0.0], [1.0], [1.0]], [1, 0, 1, 0], [4])
    with refusal(rw.errors.NothingLearnedError, got="no split of 4 documents that improves the loss"):
        ranker("native:QueryRMSE", min_documents=50).fit(lists)
    with refusal(rw.errors.NothingLearnedError, got="…that leaves min_documents=50 on each side…"):
        ranker(grow_policy="Lossguide", min_documents=50).fit(lists)


@pytest.mark.parametrize("policy", ["Lossguide", "Depthwise"])
def test_other_trees_are_cut_and_continued_too(policy, data, valid):
    settings = {"grow_policy": policy, "leaves": 6, "min_documents": 10, "learning_rate": 0.4}
    model = ranker("lambdarank", rounds=40, patience=3, **settings).fit(data, valid)
    assert model.model_.n_trees == model.best_round_ < 40
    assert model.score(valid) == pytest.approx(max(model.history_["ndcg@10"]))
    if policy == "Lossguide":
        assert max(model.model_.booster.get_tree_leaf_counts()) <= 6
    assert model.importances("split").sum() == sum(model.model_.booster.get_tree_leaf_counts() - 1)
    short = ranker("lambdarank", rounds=3, **settings).fit(data)
    longer = ranker("lambdarank", rounds=2, **settings).fit(data, init_model=short)
    once = ranker("lambdarank", rounds=5, **settings).fit(data)
    assert np.array_equal(longer.predict(valid), once.predict(valid))


def test_contributions_that_do_not_add_up_are_refused(data, monkeypatch):
    model = ranker(rounds=2).fit(data)
    right = model.explain(data)
    monkeypatch.setattr(catboost.CatBoost, "get_feature_importance", lambda *_, **__: right + 0.1)
    with refusal(what="…contributions do not add up to the scores…", hint="…leave out grow_policy"):
        model.explain(data)


def test_a_model_of_many_trees_is_small_and_repeats(data):
    """Sums of models pile up the notes of each; they are taken off, with the clocks in them."""
    first, second = (ranker(rounds=70, leaves=2).fit(data).model_.content() for _ in range(2))
    assert first == second
    assert len(first) < 30_000


def categories(seed, n=2000):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 300, n)
    effect = np.random.default_rng(9).normal(size=300)
    features = np.column_stack([rng.normal(size=n), codes, rng.normal(size=n)])
    labels = np.clip(np.round(features[:, 0] + 2 * effect[codes] + 1), 0, 4)
    return rw.RankingDataset.from_sizes(features, labels, [20] * (n // 20), categorical=[1])


def test_many_categories_become_statistics_of_the_labels(tmp_path):
    lists, others = categories(0), categories(1)
    model = ranker("lambdarank", rounds=15, learning_rate=0.3).fit(lists)
    plain = ranker("lambdarank", rounds=15, learning_rate=0.3).fit(lists.with_(categorical=()))
    assert model.score(others) > plain.score(others) + 0.05
    assert model.importances("split")[1] > 0
    model.save(tmp_path / "model")
    assert np.array_equal(rw.load(tmp_path / "model").predict(others), model.predict(others))
    checkpointed = ranker(
        "lambdarank", rounds=9, learning_rate=0.3, checkpoint=tmp_path / "kept", checkpoint_every=4
    ).fit(lists)
    once = ranker("lambdarank", rounds=9, learning_rate=0.3).fit(lists)
    assert np.array_equal(checkpointed.predict(others), once.predict(others))
    again = ranker("lambdarank", rounds=15, learning_rate=0.3, checkpoint=tmp_path / "kept", checkpoint_every=4)
    assert np.array_equal(again.fit(lists, resume=True).predict(others), model.predict(others))
    with refusal(what="a CatBoost model that holds statistics of categories cannot be continued on other data"):
        ranker("lambdarank", rounds=9).fit(others, init_model=model)


def test_codes_of_categories_must_be_whole():
    lists = rw.RankingDataset.from_sizes([[0.0], [-1.0], [1.5]], [0, 1, 1], [3], categorical=[0])
    with refusal(what="the codes of a categorical column must be whole numbers", got="1.5", where="row 2, column 0"):
        ranker().fit(lists)


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        (
            {"boosting_type": "Ordered"},
            {"what": "CatBoostRanker cannot be trained so", "got": "boosting_type=Ordered keeps a model…"},
        ),
        ({"task_type": "GPU"}, {"got": "task_type=GPU would copy the data…"}),
        ({"langevin": True}, {"got": "langevin acts across rounds…"}),
        ({"save_snapshot": True}, {"got": "save_snapshot is what rankwise takes care of itself"}),
        ({"bootstrap_type": "Bernouli"}, {"what": "CatBoost cannot train so", "got": "…Bernouli…"}),
        ({"feature_border_type": "None"}, {"what": "CatBoost cannot train so"}),
    ],
)
def test_bad_settings_say_so(changes, fields, data):
    refuses(lambda: ranker(**changes).fit(data), **fields)
