"""One ``fit`` for all rankers: its arguments stand in each class, so that editors and ``help`` show them, and agree."""

import inspect
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from rankwise.rankers import fit_arguments
from rankwise.rankers.base import IterativeRanker
from rankwise.rankers.ensembles.feature import FeatureRanker
from tests.refusals import refusal, refuses

ROUNDS = {"init_model", "resume", "eval_sets", "callback"}
"""Arguments that say how a ranker learns; all others say from what."""
LACKS: dict[type, set[str]] = {
    rw.LightGBMRanker: set(),
    rw.XGBoostRanker: set(),
    rw.CatBoostRanker: set(),
    rw.NeuralRanker: set(),
    rw.bagged: set(),
    rw.blended: set(),
    rw.distilled: set(),
    rw.AutoRanker: ROUNDS,
    FeatureRanker: set(),
}
EXPECTED = inspect.signature(IterativeRanker.fit, eval_str=True).parameters
DATA = {name: one for name, one in EXPECTED.items() if name not in (*ROUNDS, "self", "X", "y", "others")}


def arguments(function: Any) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function, eval_str=True).parameters)


@pytest.mark.parametrize("ranker", LACKS, ids=lambda one: one.__name__)
def test_every_ranker_is_trained_with_the_same_arguments(ranker):
    expected = {name: one for name, one in EXPECTED.items() if name not in LACKS[ranker]}
    found = arguments(ranker.fit)
    assert list(found.items()) == list(expected.items()), "as IterativeRanker.fit, but for LACKS"


@pytest.mark.parametrize("function", [rw.blended.of_fitted, fit_arguments.parts], ids=lambda one: one.__qualname__)
def test_whatever_reads_data_takes_all_of_it(function):
    found = arguments(function)
    assert {name: found[name].annotation for name in DATA} == {name: one.annotation for name, one in DATA.items()}


# Validation data by LightGBM's and XGBoost's names; the contract suite trains every ranker with them.


def parts_of(data: rw.RankingDataset) -> tuple[Any, Any]:
    return data.features, data.labels


@pytest.mark.parametrize("queries", ["eval_group", "eval_qid"])
def test_an_eval_set_is_validation_data(data, valid, queries):
    ranker = rw.LightGBMRanker(rounds=20, patience=2, threads=1)
    beside: dict[str, Any] = {"eval_group": [valid.sizes], "eval_qid": [valid.qids()]}
    fitted = ranker.fit(*parts_of(data), group=data.sizes, eval_set=[parts_of(valid)], **{queries: beside[queries]})
    history, scores = fitted.history_, fitted.predict(valid)
    assert history["ndcg@10"]
    again = ranker.fit(rw.RankingDataset(data.features, data.labels, data.offsets), valid)
    assert again.history_ == history
    np.testing.assert_array_equal(again.predict(valid), scores)


def test_none_is_no_eval_set(data):
    nothing: Any = {"eval_set": None, "eval_group": None, "eval_qid": None}
    assert set(rw.LightGBMRanker(rounds=1, threads=1).fit(data, **nothing).history_) == {"loss"}


@pytest.mark.parametrize(
    ("passed", "fields"),
    [
        (
            lambda one, sizes: {"eval_group": [sizes]},
            {"what": "eval_set must be a list with one entry", "got": "nothing"},
        ),
        (
            lambda one, sizes: {"eval_set": [one, one]},
            {"got": "2 entries", "hint": "pass eval_set=[(X, y)]…eval_sets=…"},
        ),
        (
            lambda one, sizes: {"eval_set": [one], "eval_group": sizes},
            {"what": "eval_group must be a list with one entry", "got": "ndarray"},
        ),
        (lambda one, sizes: {"eval_set": [one]}, {"what": "either qid or group…"}),
        (lambda one, sizes: {"eval_set": [one[0]], "eval_group": [sizes]}, {"what": "labels are needed…"}),
        (lambda one, sizes: {"eval_set": [(*one, sizes)]}, {"what": "…must be (X, y)", "got": "3 parts"}),
        (
            lambda one, sizes: {"eval_set": [one], "eval_group": [sizes], "valid": (*one, one[1])},
            {"what": "validation data were passed twice"},
        ),
    ],
)
def test_an_eval_set_that_is_malformed_is_rejected(data, passed, fields):
    refuses(lambda: rw.LightGBMRanker(rounds=1).fit(data, **passed(parts_of(data), data.sizes)), **fields)


# Hints name what the function that was called has.


def test_a_table_without_a_column_of_queries_is_told_how_to_name_it():
    rows = pl.DataFrame({"session": np.repeat(range(3, 9), 5), "label": np.arange(30) % 3, "x": np.arange(30.0) % 7})
    fitted = rw.LightGBMRanker(rounds=1, min_documents=1, threads=1).fit(rows.rename({"session": "qid"}))
    asked = r"got 'qid'. Hint: use RankingDataset.from_frame\(…, query=…\), one of session"
    for call in (rw.LightGBMRanker().fit, fitted.rank, lambda table: rw.explain(fitted, table)):
        with pytest.raises(ValueError, match=asked):
            call(rows)
    text = rows.rename({"session": "qid"}).with_columns(shop=pl.lit("north"))
    with refusal(hint="…leave it out with RankingDataset.from_frame(…, features=['!shop'])"):
        rw.LightGBMRanker().fit(text)
    assert rw.RankingDataset.from_frame(rows, query="session").n_queries == 6


def test_a_missing_feature_is_named_and_not_a_column_of_text():
    rows = pl.DataFrame({"x": np.arange(30.0), "y": np.arange(30.0) % 7})
    labels, qids = np.arange(30) % 2, np.repeat(np.arange(6), 5)
    model = rw.LightGBMRanker(rounds=1, min_documents=1, threads=1).fit(rows, labels, qid=qids)
    table = rows.with_columns(title=pl.lit("a hat"))
    assert model.predict(table).shape == (30,)
    for wrong, hint in ((table.drop("x"), "pass the columns of training"), (table.rename({"x": "xx"}), "rename 'xx'")):
        with pytest.raises(ValueError, match=f"a feature that these data do not have: got no 'x' among .*Hint: {hint}"):
            model.predict(wrong)


def test_labels_that_are_too_few_are_blamed_themselves():
    matrix, qids = np.random.default_rng(0).random((10, 2)), np.repeat([1, 2], 5)
    for rows in (matrix, pl.DataFrame(matrix, schema=["a", "b"])):
        with refusal(what="y must be one label per document", got="3 labels for 10 documents"):
            rw.LightGBMRanker().fit(rows, [1, 0, 1], qid=qids)
        with refusal(what="y must be one label per document", got="8 labels for 10 documents"):
            rw.LightGBMRanker().fit(rows, [1, 0] * 4, group=[5, 5])
        with refusal(what="qid must be one id per document", got="shape (5,) for 10 documents"):
            rw.LightGBMRanker().fit(rows, [1, 0] * 5, qid=qids[:5])
