"""A ranker and its expression are one: what ``repr`` writes, ``rw.ranker`` reads."""

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rankwise as rw
from rankwise.language import registry
from rankwise.rankers import table
from tests.refusals import refusal, refuses

OBJECTIVES = st.sampled_from(
    ["lambdarank", "xendcg(gamma=tight)", "0.5*xendcg + 0.5*listnet", "stochastic(lambdarank, scale=0.25)"]
)
METRICS = st.sampled_from([("ndcg@10",), ("ap", "ndcg(gain=linear)@5"), (rw.metric("rbp(p=0.9)"),)])
WORDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
FEATURES = WORDS | st.integers(0, 9)


def some(**values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Some of these parameters."""
    return st.fixed_dictionaries({}, optional=values)


COMMON = {"seed": st.integers(0, 99), "threads": st.none() | st.integers(1, 4), "metrics": METRICS}
TREES = some(
    objective=OBJECTIVES | OBJECTIVES.map(rw.objective) | st.just("native:lambdarank"),
    leaves=st.none() | st.integers(2, 99),
    learning_rate=st.floats(1e-6, 1.0),
    patience=st.none() | st.integers(1, 50),
    checkpoint=st.none() | WORDS | WORDS.map(Path),
    monotone_constraints=st.dictionaries(FEATURES, st.sampled_from([-1, 1]), min_size=1, max_size=2)
    | st.lists(st.sampled_from([-1, 0, 1]), min_size=1, max_size=3),
    **COMMON,
)
NETS = some(objective=OBJECTIVES, hidden=st.none() | st.tuples(st.integers(1, 9)), preset=st.just("2020"), **COMMON)
SINGLES = st.one_of(
    TREES.map(lambda own: rw.LightGBMRanker(**own)),
    some(objective=OBJECTIVES, leaves=st.integers(2, 9), **COMMON).map(lambda own: rw.XGBoostRanker(**own)),
    some(objective=OBJECTIVES, rounds=st.integers(1, 9), **COMMON).map(lambda own: rw.CatBoostRanker(**own)),
    NETS.map(lambda own: rw.NeuralRanker(**own)),
)
BAGS = st.builds(rw.bagged, SINGLES, st.just(3), repeats=st.integers(1, 3), fold_seed=st.none() | st.integers(0, 9))
BLENDS = st.builds(
    rw.blended,
    st.lists(SINGLES | BAGS | FEATURES, min_size=1, max_size=3),
    st.just(3),
    seed=st.integers(0, 9),
    metrics=st.none() | METRICS,
    checkpoint=st.none() | WORDS,
)
ALL = st.one_of(
    SINGLES,
    BAGS,
    BLENDS,
    st.builds(rw.distilled, SINGLES | BAGS | BLENDS | WORDS, SINGLES, weight=st.floats(0, 1), loss=st.just("distil")),
    some(factors=st.integers(1, 9), unknown=st.just("popular")).map(
        lambda own: rw.recommend.FactorizationRanker(**own)
    ),
    some(regularization=st.floats(0.1, 9.0)).map(lambda own: rw.recommend.EASE(**own)),
    some(factors=st.integers(1, 9), seed=st.integers(0, 3)).map(lambda own: rw.recommend.ALS(**own)),
    some(neighbours=st.integers(1, 9)).map(lambda own: rw.recommend.ItemKNN(**own)),
    some(unknown=st.just("error")).map(lambda own: rw.recommend.Popularity(**own)),
    some(minutes=st.none() | st.floats(0.1, 9.0), recipes=st.lists(SINGLES, min_size=1, max_size=2)).map(
        lambda own: rw.AutoRanker(**own)
    ),
)


@pytest.fixture(scope="module", autouse=True)
def libraries() -> None:
    """Import what rankers import when they are made: Hypothesis warns of random numbers drawn then."""
    for name in ("lightgbm(monotone_constraints={0: 1})", "xgboost", "catboost", "neural", "factorization", "auto"):
        repr(rw.ranker(name))


def parameters(value: object) -> object:
    """What must be the same, in comparable form: lists are tuples, objectives and metrics their expressions."""
    if isinstance(value, rw.Ranker):
        return {"class": type(value), **{name: parameters(one) for name, one in value.get_params(deep=False).items()}}
    if isinstance(value, list | tuple):
        return [parameters(one) for one in value]
    if isinstance(value, dict):
        return {key: parameters(one) for key, one in value.items()}
    return str(value) if isinstance(value, rw.Objective | rw.Metric | Path) else value


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(ALL)
def test_what_is_written_reads_back(ranker: rw.Ranker) -> None:
    text = repr(ranker)
    again = rw.ranker(text)
    assert parameters(again) == parameters(ranker)
    assert repr(again) == text
    assert rw.ranker(ranker) is ranker


@pytest.mark.parametrize("name", table.expression_names())
def test_every_ranker_has_an_expression(name: str) -> None:
    inside = {"bagged": "(lightgbm(xendcg))", "blended": "(lightgbm(xendcg), column(0))", "feature": "('price')"}
    inside["distilled"] = "(bagged(lightgbm(xendcg)), neural(softmax_ce))"
    ranker = rw.ranker(name + inside.get(name, "()"))
    assert type(ranker) is table.expression_class(name)
    assert repr(rw.ranker(repr(ranker))) == repr(ranker)
    assert repr(ranker).startswith(name + inside.get(name, "("))


def test_short_forms() -> None:
    for short, full in {
        "xendcg": "lightgbm(xendcg)",
        "neural": "neural(lambdarank)",
        "bagged": "bagged(lightgbm(lambdarank))",
        "bagged(0.5*xendcg, folds=3)": "bagged(lightgbm(0.5*xendcg), folds=3)",
        "lightgbm(objective=xendcg, leaves=None, rounds=500)": "lightgbm(xendcg)",
        "blended(listnet, column(feature=bm25))": "blended(lightgbm(listnet), column('bm25'))",
        "xgboost(native:rank:ndcg)": "xgboost(native:rank:ndcg)",
        "xgboost('native:rank ndcg')": "xgboost('native:rank ndcg')",
    }.items():
        assert repr(rw.ranker(short)) == full


def test_rankers_of_ones_own() -> None:
    class Ridge(rw.Ranker):
        def __init__(self, alpha: Any, scale: float = 1.0) -> None:
            self.alpha, self.scale = alpha, scale

        def _fit(self, train: rw.RankingDataset, valid: rw.RankingDataset | None) -> None:
            self.weights_ = np.zeros(train.n_features)

        def _predict(self, features: Any, offsets: Any) -> Any:
            return features @ self.weights_

    assert repr(Ridge(2.0)) == "Ridge(alpha=2.0)"
    refuses(lambda: rw.ranker("Ridge(alpha=2.0)"), what="unknown ranker or objective", got="'Ridge'")
    rw.register("own_ridge", Ridge)
    try:
        for text in ("own_ridge(alpha=2.0)", "bagged(own_ridge(alpha=1, scale=0.5), folds=3)"):
            assert repr(rw.ranker(text)) == text
        with refusal(what="own_ridge has no such parameter", got="'alhpa'", hint="did you mean 'alpha'"):
            rw.ranker("own_ridge(alhpa=1)")
        assert repr(Ridge(np.eye(2))) == "own_ridge(alpha=<ndarray>)"
    finally:
        registry._entries.pop("own_ridge")

    class Mine(rw.LightGBMRanker):
        pass

    assert repr(Mine("xendcg")) == "Mine(xendcg)"


def test_what_cannot_be_written_does_not_read_back() -> None:
    data = rw.synthetic(n_queries=20, n_docs=5, seed=1)
    trained = rw.LightGBMRanker(rounds=2, leaves=3, threads=1).fit(data)

    def my_loss(scores: Any, labels: Any, offsets: Any) -> Any:
        return scores, scores, scores

    for ranker, text in (
        (rw.LightGBMRanker(lambda *_: None, leaves=7), "<lambda>, leaves=7)"),
        (rw.LightGBMRanker(my_loss), "my_loss)"),
        (rw.LightGBMRanker(metrics=(my_loss,)), "metrics=(<function>,))"),
        (rw.distilled(trained, rw.NeuralRanker()), "(<trained lightgbm(lambdarank, rounds=2, leaves=3, threads=1)>"),
        (rw.distilled("m", rw.NeuralRanker(), unlabelled=data), "unlabelled=<RankingDataset>)"),
    ):
        assert text in repr(ranker)
        with refusal(where="character…"):
            rw.ranker(repr(ranker))
    assert rw.ranker(repr(trained)).get_params() == trained.get_params()


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (
            "bagged(blended(xendcg))",
            {"about": "character 1 of…", "what": "a bag is made of rankers of trees or nets…", "got": "blended"},
        ),
        ("bagged(bagged(xendcg))", {"what": "a bag is made of…", "got": "bagged"}),
        ("bagged(ease)", {"what": "a bag is made of rankers of trees or nets, or of one's own", "got": "ease"}),
        ("bagged(column(0))", {"what": "a bag is made of rankers of trees or nets, or of one's own", "got": "column"}),
        ("bagged(xendcg, listnet)", {"what": "a bag is made of…", "got": "bagged of 2", "hint": "write bagged…"}),
        ("blended(factorization)", {"what": "a blend is made of…", "got": "factorization"}),
        ("blended", {"what": "a blend is made of…", "got": "blended of 0", "hint": "write blended…"}),
        (
            "blended(bagged(xendcg, folds=3))",
            {"what": "bags of a blend must have its folds", "got": "folds=3 and folds=5"},
        ),
        ("distilled(xendcg)", {"what": "…made of a teacher and a student", "got": "distilled of 1"}),
        (
            "bagged(xendcg, fold=3)",
            {"what": "bagged has no such parameter", "got": "'fold'", "hint": "did you mean 'folds'"},
        ),
        ("bagged(xendcg, folds=1)", {"what": "folds must be a whole number of at least 2", "got": "1"}),
        (
            "lightgbm(n_estimators=5)",
            {"what": "'n_estimators' of lightgbm has another name here", "hint": "set rounds"},
        ),
        ("lightgbm(xendcg, listnet)", {"what": "lightgbm has one objective", "got": "listnet"}),
        ("ease(xendcg)", {"what": "ease has no parameter objective", "got": "xendcg"}),
        ("lightgbm(lightgbm)", {"what": "an objective is an object, an expression or a function"}),
        ("column(0)", {"what": "a feature is a member of a blend"}),
        ("ndcg", {"what": "unknown ranker or objective", "got": "'ndcg'"}),
        ("lightgbm(xendcg", {"what": "cannot read the ranker or objective expression", "got": "its end"}),
    ],
)
def test_errors(text: str, fields: dict[str, str]) -> None:
    refuses(lambda: rw.ranker(text), **fields)


def test_only_rankers_and_expressions() -> None:
    for wrong in (5, None, rw.LightGBMRanker, rw.objectives.XENDCG(), ["lightgbm"]):
        with refusal(what="a ranker is an object or an expression"):
            rw.ranker(wrong)  # type: ignore[arg-type]


def test_expressions_are_accepted_where_rankers_are() -> None:
    data = rw.synthetic(n_queries=40, n_docs=8, seed=1)
    text = "lightgbm(xendcg, rounds=4, leaves=3, threads=1)"
    ranker = rw.LightGBMRanker("xendcg", rounds=4, leaves=3, threads=1)
    scores = rw.bagged(text, folds=2).fit(data).predict(data)
    np.testing.assert_array_equal(scores, rw.bagged(ranker, folds=2).fit(data).predict(data))
    ours, theirs = (rw.cross_validate(one, data, 2).scores for one in (text, ranker))
    np.testing.assert_array_equal(ours, theirs)
    found = rw.AutoRanker(None, recipes=[text], folds=2, threads=1, progress=False).fit(data)
    assert found.leaderboard_.chosen.recipe == "lightgbm(xendcg)"
    assert rw.distilled(ranker, text).student.get_params() == ranker.get_params()
    with refusal(about="recipe 1", what="unknown ranker or objective"):
        rw.AutoRanker(None, recipes=["lightgmb"], progress=False).fit(data)


def test_searches_take_expressions() -> None:
    train, valid = rw.split(rw.synthetic(n_queries=40, n_docs=8, seed=1), (0.5, 0.5), seed=0)
    how: dict[str, Any] = {"trials": 2, "space": "none", "search": {"leaves": "whole(3, 9)"}, "threads": 1}
    search = rw.tune(train, valid, ranker="bagged(lightgbm(xendcg, rounds=4), folds=2)", progress=False, **how)
    same = rw.tune(train, valid, "xendcg", ranker="lightgbm", folds=2, fixed={"rounds": 4}, progress=False, **how)
    assert (search.value, search.parameters, search.folds) == (same.value, same.parameters, 2)
    assert "xendcg, rounds=4" in repr(search.ranker())
    with refusal(what="a search is of one ranker, or of bags of one"):
        rw.tune(train, valid, ranker="blended(lightgbm, column(0))", **how)


def test_nothing_is_evaluated() -> None:
    for text in ("__import__('os')", "lightgbm(rounds=__import__('os').system('true'))", "lightgbm(rounds=2*3)"):
        ast.parse(text)  # Python would run it
        with refusal(where="character…"):
            rw.ranker(text)
