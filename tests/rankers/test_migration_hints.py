"""Arguments with the names of LightGBM, XGBoost, CatBoost and others: the error says what they are called here."""

import inspect
from typing import Any

import pytest

import rankwise as rw
from tests.refusals import refusal, refuses

RANKERS = ("LightGBMRanker", "XGBoostRanker", "CatBoostRanker", "NeuralRanker")
DATA = rw.synthetic(n_queries=6, n_docs=6, seed=1)


@pytest.mark.parametrize("name", RANKERS)
@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("eval_data", r"pass valid=, a RankingDataset or \(X, y, qid\)"),
        ("eval_metric", "set metrics= on the ranker"),
        ("eval_at", "set metrics= on the ranker"),
        ("early_stopping_rounds", "set patience= on the ranker"),
        ("callbacks", r"pass callback=, .*progress=True"),
        ("verbose", "set progress= on the ranker"),
        ("group_id", "pass qid="),
        ("group_weight", "pass sample_weight="),
        ("weights", r"pass sample_weight=.*RankingDataset\(…, weights=…\)"),
        ("sample_weight_eval_set", r"valid=RankingDataset\(…, weights=…\)"),
        ("cat_features", "categorical=…"),
        ("feature_name", "feature_names=…"),
        ("init_score", "pass init_model="),
        ("xgb_model", "pass init_model="),
        ("save_snapshot", "set checkpoint="),
        ("use_best_model", "the best round is kept"),
        ("seed", "set seed= on the ranker"),
        ("valdi", "did you mean 'valid'"),
    ],
)
def test_arguments_of_fit(name: str, theirs: str, ours: str):
    with pytest.raises(TypeError, match=f"fit has no argument '{theirs}'. Hint: .*{ours}"):
        getattr(rw, name)().fit(DATA, **{theirs: 1})


@pytest.mark.parametrize(
    ("name", "library"), [("LightGBMRanker", "LGBMRanker"), ("XGBoostRanker", "XGBRanker"), ("CatBoostRanker", "")]
)
def test_no_argument_of_the_libraries_is_answered_with_a_guess(name: str, library: str):
    module = pytest.importorskip(name.removesuffix("Ranker").lower())
    method = getattr(module, library or name).fit
    ours = inspect.signature(getattr(rw, name).fit).parameters
    no_such_thing = {"feature_weights", "text_features", "embedding_features", "graph", "column_description"}
    accepted = {"eval_set", "eval_group", "eval_qid"}
    for theirs in set(inspect.signature(method).parameters) - set(ours) - no_such_thing - accepted:
        with pytest.raises(TypeError, match="Hint: (pass|set|choose)"):
            getattr(rw, name)().fit(DATA, **{theirs: 1})


def test_arguments_of_predict():
    model = rw.LightGBMRanker(rounds=2, leaves=3, min_documents=2, threads=1).fit(DATA)
    for theirs, ours in {
        "pred_contrib": "explain",
        "num_iteration": "set rounds=",
        "raw_score": "leave it out",
    }.items():
        with pytest.raises(TypeError, match=f"predict has no argument '{theirs}'. Hint: .*{ours}"):
            model.predict(DATA, **{theirs: 1})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [*RANKERS, "FactorizationRanker"])
def test_parameters_of_any_library_are_told_by_the_name_here(name: str):
    make: Any = getattr(rw, name) if name in RANKERS else rw.recommend.FactorizationRanker
    own = make.own_parameters()
    pairs = {
        "n_estimators": ("rounds", "epochs"), "iterations": ("rounds", "epochs"), "num_leaves": ("leaves",),
        "min_child_samples": ("min_documents",), "random_state": ("seed",), "n_jobs": ("threads",),
        "thread_count": ("threads",), "early_stopping_rounds": ("patience",), "od_wait": ("patience",),
        "eval_metric": ("metrics",), "lr": ("learning_rate",), "loss_function": ("objective",),
        "batch_size": ("batch_queries", "batch_users"), "hidden_layer_sizes": ("hidden",), "silent": ("progress",),
    }  # fmt: skip
    for theirs, ours in pairs.items():
        expected = next((one for one in ours if one in own), None)
        if expected is not None:
            with pytest.raises(ValueError, match=f"'{theirs}' .*has another name here. Hint: set {expected}"):
                make(**{theirs: 1})
    for theirs in ("qid", "group", "sample_weight", "valid"):
        with pytest.raises(ValueError, match=f"'{theirs}'.* Hint: pass it to fit"):
            make(**{theirs: 1})
    refuses(lambda: make(eval_set=1), hint="pass valid=…")


@pytest.mark.parametrize(
    ("name", "objective", "native"),
    [
        ("XGBoostRanker", "rank:ndcg", "native:rank:ndcg"),
        ("XGBoostRanker", "rank:pairwise", "native:rank:pairwise"),
        ("LightGBMRanker", "rank_xendcg", "native:rank_xendcg"),
        ("CatBoostRanker", "YetiRank", "native:YetiRank"),
        ("CatBoostRanker", "yetirank", "native:YetiRank"),
        ("CatBoostRanker", "YetiRank:mode=NDCG;top=10", "native:YetiRank:mode=NDCG;top=10"),
    ],
)
def test_objectives_of_the_libraries_are_told_with_their_prefix(name: str, objective: str, native: str):
    settings: dict[str, Any] = {"rounds": 2, "leaves": 4, "min_documents": 1, "threads": 1}
    make: Any = getattr(rw, name)
    with pytest.raises(ValueError, match=f"written with native: before it: got '{objective}'. Hint: write {native}"):
        make(objective, **settings).fit(DATA)
    refuses(lambda: rw.bagged(make(objective, **settings), folds=2).fit(DATA), what="…written with native: before it")
    assert make(native, **settings).fit(DATA).objective == native  # as the hint says


def test_objectives_of_the_libraries_are_not_for_nets():
    with refusal(what="…for their trees, and NeuralRanker has none", hint="choose one of ours…"):
        rw.NeuralRanker("native:lambdarank", epochs=1).fit(DATA)
