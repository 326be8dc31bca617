"""XGBoost's adapter: its leaves are Newton's steps, its files and parameters XGBoost's own."""

import json
from typing import Any

import numpy as np
import pytest
import xgboost as xgb

import rankwise as rw
from tests.refusals import refusal, refuses

SMALL = {"leaves": 7, "min_documents": 5, "threads": 1, "rounds": 10, "learning_rate": 0.1}


@pytest.fixture(scope="module")
def data():
    return rw.synthetic(n_queries=40, n_features=12, n_docs=20, seed=3)


def ranker(objective="xendcg", **changes):
    return rw.XGBoostRanker(objective, **SMALL | changes)


def matrix(data, **columns):
    return xgb.DMatrix(data.features, data.labels, group=data.sizes, nthread=1, **columns)


def test_a_leaf_is_newtons_step_shrunk_by_one_average_document():
    lists = rw.RankingDataset.from_sizes([[0.0], [1.0], [1.0], [0.0], [1.0]], [0, 2, 1, 0, 1], [3, 2])
    model = ranker("lambdarank", rounds=1, min_documents=1, leaves=2).fit(lists)
    found = rw.objective("lambdarank")(np.zeros(5), lists.labels, lists.offsets)
    for value in (0.0, 1.0):
        rows = lists.features[:, 0] == value
        step = found.numerator[rows].sum() / (found.hessian[rows].sum() + found.hessian.mean())
        assert model.predict([[value]]) == pytest.approx(-0.1 * step, rel=1e-5)


def test_a_loss_times_a_constant_grows_the_same_trees(data):
    once, often = ranker("listnet").fit(data), ranker("1024 * listnet").fit(data)
    assert np.array_equal(once.predict(data), often.predict(data))


def test_min_documents_counts_average_documents(data):
    def leaves(**changes):
        return ranker("listnet", rounds=1, leaves=64, **changes).fit(data).model_.booster.get_dump()[0].count("leaf=")

    assert leaves(min_documents=100) < leaves(min_documents=20) < leaves(min_documents=1)
    assert leaves(min_documents=100, min_child_weight=0.0) == leaves(min_documents=1, min_child_weight=0.0)
    with refusal(what="the model learned nothing from 40 queries", got="…min_documents=100000…"):
        ranker(min_documents=100_000).fit(data)
    for objective in ("listnet", "native:rank:ndcg"):  # XGBoost's own limit, in whose place ours has no effect
        with refusal(got="no split of …documents that improves the loss"):
            ranker(objective, min_documents=3, min_child_weight=1e9).fit(data)


@pytest.mark.parametrize("policy", ["lossguide", "depthwise"])
@pytest.mark.parametrize("method", ["hist", "approx"])
def test_trees_have_as_many_leaves_as_they_are_asked_for(policy, method, data):
    model = ranker("listnet", rounds=3, leaves=13, min_documents=1, grow_policy=policy, tree_method=method).fit(data)
    assert max(dump.count("leaf=") for dump in model.model_.booster.get_dump()) == 13


def test_a_round_whose_draws_allow_no_split_is_not_the_last_where_hessians_are_not_floored(data):
    # At equal scores they add up to nothing but noise: a draw that leaves them negative grows no tree, the next may.
    text = "plrank(metric=dcg, cutoff=10, samples=20, draws=independent, baseline=False, curvature=estimated)"
    raw: dict[str, Any] = {"floor_hessian": False, "min_child_weight": 0.0, "reg_lambda": 1.0, "rounds": 30, "seed": 1}
    model = ranker(text, **raw).fit(data)
    split = [dump.count("\n") > 1 for dump in model.model_.booster.get_dump()]
    assert (len(split), split[0], split[-1], model.stopped_) == (30, False, True, "rounds")
    first = data.stream(1).at(0)
    assert rw.objective(text)(np.zeros(data.n_docs), data.labels, data.offsets, first).hessian.sum() < 0.0
    assert model.history_["loss"][-1] < model.history_["loss"][0]
    with refusal(what="the model learned nothing from 40 queries"):  # and no split ever is an error, after all rounds
        ranker(text, **raw | {"min_child_weight": 1e6}).fit(data)


@pytest.mark.parametrize("builtin", ["rank:ndcg", "rank:pairwise"])
def test_native_objectives_are_xgboosts_own(builtin, data):
    weights = np.linspace(0.5, 2.0, data.n_queries)
    model = ranker(f"native:{builtin}", gamma=0.01).fit(data.with_(weights=weights))
    params = {"objective": builtin, "learning_rate": 0.1, "max_leaves": 7, "max_depth": 0, "grow_policy": "lossguide"}
    params |= {"nthread": 1, "base_score": 0.0, "gamma": 0.01}
    binned = xgb.QuantileDMatrix(data.features, data.labels, group=data.sizes, weight=weights, nthread=1)
    theirs = xgb.train(params, binned, num_boost_round=10)
    assert np.array_equal(model.predict(data), theirs.predict(matrix(data)))


@pytest.mark.parametrize(("method", "weighted"), [("hist", True), ("approx", False)])
def test_our_callable_in_their_loop_grows_the_rankers_trees(method, weighted, data):
    weights = np.linspace(0.5, 2.0, data.n_queries) if weighted else None
    data = data.with_(query_ids=np.arange(data.n_queries), weights=weights)
    own = {"reg_lambda": 0.5, "min_child_weight": 0.01, "tree_method": method, "max_bin": 1024}
    model = ranker("stochastic(lambdarank, samples=2)", seed=4, **own).fit(data)
    params = {"learning_rate": 0.1, "max_leaves": 7, "max_depth": 0, "grow_policy": "lossguide"}
    params |= own | {"nthread": 1, "base_score": 0.0, "seed": 4, "disable_default_eval_metric": 1}
    params |= {"objective": "rank:ndcg"}  # for reg:squarederror approx would bin as if all Hessians were 1
    seen: dict[str, Any] = {}
    text = "stochastic(lambdarank, samples=2)"
    theirs = xgb.train(
        params,
        matrix(data, weight=weights),
        num_boost_round=10,
        obj=rw.objectives.xgboost_objective(text, seed=4, query_ids=data.query_ids, relative=False),
        custom_metric=rw.metrics.xgboost_metric("ndcg@5"),
        evals=[(matrix(data, weight=weights), "train")],
        evals_result=seen,
        verbose_eval=False,
    )
    # XGBoost keeps weights in float32; with them it also draws bins by weight, unless every value has its own
    assert np.allclose(theirs.predict(matrix(data), output_margin=True), model.predict(data), atol=1e-5)
    expected = rw.evaluate(model, data, ["ndcg@5"]).mean["ndcg@5"]
    assert seen["train"]["ndcg@5"][-1] == pytest.approx(expected, abs=1e-5)  # XGBoost prints five digits


@pytest.mark.parametrize("objective", ["plrank", "xendcg"])
def test_workers_of_a_cluster_draw_as_one_machine(objective, data, monkeypatch):
    """XGBoost tells them no ids: queries are numbered over all workers, so that no two of them share draws."""
    cut = data.n_queries // 3
    parts = data.take(slice(None, cut)), data.take(slice(cut, None))
    margins = np.linspace(-1.0, 1.0, data.n_docs, dtype=np.float32)

    def derived(part, margins):
        matrix = xgb.DMatrix(part.features, part.labels, group=part.sizes, nthread=1)
        return rw.objectives.xgboost_objective(objective, relative=False)(margins, matrix)

    expected = derived(data, margins)
    assert not np.array_equal(expected[0][parts[0].n_docs :], derived(parts[1], margins[parts[0].n_docs :])[0])
    for rank, (part, documents) in enumerate(zip(parts, np.split(margins, [parts[0].n_docs]), strict=True)):
        others = np.array([one.n_queries if other != rank else 0 for other, one in enumerate(parts)])
        monkeypatch.setattr(xgb.collective, "is_distributed", lambda: True)
        monkeypatch.setattr(xgb.collective, "get_rank", lambda rank=rank: rank)
        monkeypatch.setattr(xgb.collective, "get_world_size", lambda: 2)
        monkeypatch.setattr(xgb.collective, "allreduce", lambda counts, _, others=others: counts + others)
        rows = slice(None, part.n_docs) if rank == 0 else slice(-part.n_docs, None)
        for ours, whole in zip(derived(part, documents), expected, strict=True):
            np.testing.assert_array_equal(ours, whole[rows])


def test_a_matrix_without_groups_is_an_error(data):
    with refusal(what="the DMatrix has no groups", hint="pass qid=…"):
        xgb.train(
            {"nthread": 1}, xgb.DMatrix(data.features, data.labels), obj=rw.objectives.xgboost_objective("xendcg")
        )


def test_the_file_names_an_objective_and_the_features(data, tmp_path):
    model = ranker(rounds=2).fit(data)
    path = model.save(tmp_path / "model") / "model.ubj"
    booster = xgb.Booster(model_file=path)
    assert booster.feature_names == list(data.feature_names)
    text = json.loads(booster.save_config())["learner"]
    assert text["objective"]["name"] == "rank:ndcg"
    names = [f"a[{number}]" for number in range(12)]  # XGBoost cannot hold these
    odd = ranker(rounds=2).fit(data.with_(feature_names=names))
    assert list(odd.feature_names_in_) == names
    assert odd.model_.booster.feature_names is None
    assert np.array_equal(odd.predict(data.features), model.predict(data))


def test_sampling_differs_from_round_to_round(data):
    """Setting parameters between rounds must not set the generator back."""
    model = ranker("listnet", rounds=6, subsample=0.5, leaves=2).fit(data)
    covers = [tree.split("cover=")[1].split("\n")[0] for tree in model.model_.booster.get_dump(with_stats=True)]
    assert len(set(covers)) == 6


def test_several_trees_a_round_count_as_one(data):
    model = ranker(rounds=4, num_parallel_tree=3, subsample=0.5).fit(data)
    assert model.model_.n_trees == 4
    assert len(model.model_.booster.get_dump()) == 12


def test_an_older_model_of_finer_bins_is_scored_by_its_own_borders(data):
    """Bins of new data would tell documents apart otherwise than the older trees do."""
    older = ranker(rounds=5, max_bin=256).fit(data)
    newer = ranker(rounds=1, max_bin=4).fit(data, init_model=older)
    objective = rw.objective("xendcg")
    expected = objective(older.predict(data), data.labels, data.offsets, data.stream(0).at(5)).value.mean()
    assert newer.history_["loss"][0] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"booster": "gblinear"}, {"what": "…cannot be trained so", "got": "booster=gblinear grows no trees"}),
        ({"booster": "dart"}, {"got": "booster=dart changes earlier trees…", "hint": "train without valid"}),
        ({"tree_method": "exact"}, {"got": "tree_method=exact counts the depth…"}),
        ({"process_type": "update"}, {"got": "process_type=update grows no trees"}),
        ({"base_score": 0.5}, {"got": "base_score moves all scores alike…"}),
        (
            {"objective": "native:rank:map"},
            {"what": "XGBoost cannot train with native:rank:map", "got": "…binary labels"},
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:.* of training queries")
def test_bad_settings_say_so(changes, fields, data):
    refuses(lambda: ranker(**changes).fit(data, data), **fields)


def test_dart_trains_without_validation(data):
    model = ranker("lambdarank", booster="dart", rate_drop=0.2, rounds=6).fit(data)
    assert rw.evaluate(model, data).mean["ndcg@10"] > rw.evaluate(np.zeros(data.n_docs), data).mean["ndcg@10"] + 0.05


def test_codes_of_categories_must_be_whole_and_not_negative():
    for bad in (0.5, -1.0):
        lists = rw.RankingDataset.from_sizes([[0.0], [bad], [1.0]], [0, 1, 1], [3], categorical=[0])
        with refusal(what="…categorical column must be whole numbers of 0 or more", where="row 1, column…"):
            ranker().fit(lists)
