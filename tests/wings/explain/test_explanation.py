"""Explanations: contributions add up to scores and to their differences, and tables name features and values."""

from typing import Any

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from rankwise.base.tables import Table
from tests.refusals import refusal, refuses

KINDS = ("LightGBMRanker", "XGBoostRanker", "CatBoostRanker", "NeuralRanker")
SETTINGS: dict[str, Any] = {"NeuralRanker": {"hidden": (16, 8), "epochs": 3, "device": "cpu"}}


@pytest.fixture(scope="module")
def data():
    lists = rw.synthetic(n_queries=40, n_docs=12, n_features=8, seed=3)
    names = np.array([f"d{row}" for row in range(lists.n_docs)])
    return lists.with_(query_ids=[f"topic {q}" for q in range(lists.n_queries)], document_ids=names)


def trained(kind, data):
    settings = SETTINGS.get(kind, {"rounds": 30, "leaves": 7, "min_documents": 5})
    return getattr(rw, kind)("softmax_ce", threads=1, **settings).fit(data)


@pytest.fixture(scope="module", params=KINDS)
def model(request, data):
    return trained(request.param, data)


@pytest.fixture(scope="module")
def trees(data):
    return trained("LightGBMRanker", data)


def texts(table: Table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.cells()]


def test_contributions_add_up_to_scores_and_to_their_differences(model, data):
    why = rw.explain(model, data, "topic 5")
    own = data.take([5])
    order = np.argsort(-model.predict(own), kind="stable")
    np.testing.assert_array_equal(why.documents, own.document_ids[order])
    np.testing.assert_array_equal(why.scores, model.predict(own)[order])
    np.testing.assert_array_equal(why.ranks, np.arange(1, own.n_docs + 1))
    np.testing.assert_allclose(why.start + why.contributions.sum(1), why.scores, atol=1e-5)
    assert why.error < 1e-5
    for below in (1, own.n_docs - 1):
        apart = why.versus(why.documents[0], why.documents[below])
        assert apart.contributions.sum() == pytest.approx(why.scores[0] - why.scores[below], abs=1e-5)
        assert apart.start + apart.contributions.sum() == pytest.approx(apart.end, abs=1e-5)
        np.testing.assert_allclose(apart.contributions, why.contributions[0] - why.contributions[below])


def test_trees_leave_nothing_over_and_nets_say_how_much(model, data):
    why = rw.explain(model, data, "topic 5")
    said = "left over" in repr(why)
    if isinstance(model, rw.NeuralRanker):
        net = model.model_
        away, gradients = net._gradients(data.take([5]).features, net.transform.average())
        parts = {
            document: row.sum() for document, row in zip(data.take([5]).document_ids, away * gradients, strict=True)
        }
        expected = [score - why.start - parts[name] for score, name in zip(why.scores, why.documents, strict=True)]
        np.testing.assert_allclose(why.left, expected, atol=1e-6)
        assert said
        assert f"{np.abs(why.left).max():.2g}" in repr(why.take(why.documents))
    else:
        assert not why.left.any()
        assert not said


def test_tables_show_the_largest_features_and_the_others_in_one_row(trees, data):
    why = rw.explain(trees, data, "topic 5")
    part = why.document(why.documents[3])
    rows = texts(part.table(top=2))
    order = np.argsort(-np.abs(why.contributions[3]))
    assert [row[0] for row in rows] == [
        "mean score", data.feature_names[order[0]], data.feature_names[order[1]], "6 other features", "score",
    ]  # fmt: skip
    place = data.document_ids.tolist().index(why.documents[3])
    assert float(rows[1][1]) == pytest.approx(data.features[place, order[0]], rel=1e-6)
    numbers = [float(row[-1].replace("−", "-")) for row in rows]
    assert sum(numbers[:-1]) == pytest.approx(numbers[-1], abs=0.003)
    whole = texts(part.table(top=8))
    assert not any("other" in row[0] for row in whole)
    text = repr(why)
    assert "The first 3 of" in text
    assert "2 other features" not in why.table(top=8).text()
    shown = [row[0] for row in texts(why.table(top=1))]
    assert shown[-2:] == ["7 other features", "score"]


def test_frames_hold_every_feature_by_size(trees, data):
    why = rw.explain(trees, data, "topic 5")
    frame = why.to_frame()
    assert frame.columns == ["query", "document", "rank", "label", "score", "feature", "value", "contribution"]
    assert frame.height == len(why.documents) * 8
    first = frame.filter(pl.col("rank") == 1)
    assert first["contribution"].abs().is_sorted(descending=True)
    assert first["contribution"].to_numpy().sum() + why.start == pytest.approx(why.scores[0])
    apart = why.versus(why.documents[0], why.documents[1]).to_frame()
    assert apart.columns == ["feature", *(f"value of {name}" for name in why.documents[:2]), "contribution"]
    document = why.to_dict()
    assert [one["rank"] for one in document["documents"]] == list(range(1, len(why.documents) + 1))
    assert len(document["documents"][0]["contributions"]) == 8


def test_categories_are_shown_by_value_and_missing_values_as_such():
    rng = np.random.default_rng(1)
    colours = rng.choice(["red", "green", "blue"], 200)
    frame = pl.DataFrame(
        {
            "qid": np.repeat(np.arange(20), 10),
            "label": (colours == "green").astype(int),
            "colour": colours,
            "size": np.where(rng.random(200) < 0.2, np.nan, rng.random(200)),
        }
    ).with_columns(pl.col("colour").cast(pl.Enum(["red", "green", "blue"])))
    data = rw.RankingDataset.from_frame(frame)
    settings: Any = {
        "rounds": 5,
        "leaves": 3,
        "min_documents": 2,
        "min_data_per_group": 1,
        "cat_smooth": 1,
        "threads": 1,
    }
    model = rw.LightGBMRanker("softmax_ce", **settings).fit(data)
    for form in (data, frame):
        why = rw.explain(model, form, 0)
        assert why.features == ("colour", "size")
        assert [row[0] for row in why.values] == frame["colour"].to_numpy()[why.documents].tolist()
        sizes = frame["size"].to_numpy()[why.documents]
        for (_, value), size in zip(why.values, sizes, strict=True):
            assert value is None if np.isnan(size) else float(value or "nan") == pytest.approx(size, rel=1e-6)
    hole = int(why.documents[np.argmax(np.isnan(sizes))])
    assert why.document(hole).to_frame().filter(pl.col("feature") == "size")["value"].to_list() == [None]
    assert why.values[0][0] == "green"
    assert "green" in repr(why.document(why.documents[0]))


def test_features_without_names_count_from_1_as_in_letor_files(data):
    plain = data.with_(feature_names=None, document_ids=None, query_ids=None)
    why = rw.explain(trained("LightGBMRanker", plain), plain, 2)
    assert why.features == tuple(f"feature {j}" for j in range(1, 9))
    assert sorted(why.documents.tolist()) == list(range(plain.sizes[2]))
    assert why.query == 2


def test_what_is_not_there_is_an_error_with_what_is_near(trees, data):
    with refusal(what="there is no such query", got="'topik 5'", hint="the nearest of 40 are 'topic 5',…"):
        rw.explain(trees, data, "topik 5")
    with refusal(what="there is no such query", got="'zzz'", hint="there are 40, such as 'topic 0', 'topic 1',…"):
        rw.explain(trees, data, "zzz")
    with refusal(what="one query is explained at a time", got="40 queries", hint="name a query, such as 'topic 0',…"):
        rw.explain(trees, data)
    assert rw.explain(trees, data.take([3])).query == "topic 3"
    why = rw.explain(trees, data, "topic 5")
    refuses(lambda: why.document("d"), what="there is no such document", got="'d'", where="query 'topic 5'")
    refuses(lambda: why.versus(why.documents[0], why.documents[0]), what="a document does not rank above itself")
    refuses(lambda: why.take([]), what="there is nothing to explain", got="no document")
    refuses(lambda: why.table(top=0), what="top must be a whole number of at least 1")
    with refusal(what="…which only rankers of features know", got="function"):
        rw.explain(lambda data: data, data, "topic 5")  # type: ignore[arg-type]


def test_the_lower_document_may_be_named_first(trees, data):
    why = rw.explain(trees, data, "topic 5")
    first, last = why.documents[0], why.documents[-1]
    down = why.versus(last, first)
    assert "ranks below" in down.title
    np.testing.assert_array_equal(down.contributions, -why.versus(first, last).contributions)


def test_some_documents_keep_their_ranks(trees, data):
    why = rw.explain(trees, data, "topic 5")
    some = why.take([why.documents[7], why.documents[2]])
    assert some.ranks.tolist() == [3, 8]
    assert some.table().header == ("rank", "3", "8")
    np.testing.assert_array_equal(some.contributions, why.contributions[[2, 7]])


def test_long_names_are_cut_in_tables_and_whole_in_frames(trees, data):
    names = np.array([f"https://example.org/some/long/path/{row:04}/index.html" for row in range(data.n_docs)])
    why = rw.explain(trees, data.with_(document_ids=names), "topic 5")
    assert all(len(cell) <= 24 for cell in texts(why.table())[0])
    assert set(why.to_frame()["document"]) <= set(names.tolist())
    apart = why.versus(why.documents[0], why.documents[1])  # cut, they are the same
    assert list(apart.values) == ["value of rank 1", "value of rank 2"]
    assert why.documents[0] in apart.title


def test_figures(trees, data, tmp_path):
    why = rw.explain(trees, data, "topic 5")
    one, other = why.documents[:2]
    for thing, name in ((why, "all.png"), (why.document(one), "one.svg"), (why.versus(one, other), "two.svg")):
        path = thing.plot(tmp_path / name, top=3)
        assert path.stat().st_size > 5000
        with pytest.raises(FileExistsError):
            thing.plot(path, top=3)
    with refusal(what="a figure holds 8 documents at most", got="9"):
        why.take(why.documents[:9]).plot(tmp_path / "many.png")
