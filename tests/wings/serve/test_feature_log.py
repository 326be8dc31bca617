"""Logged features in the forms that the engines document, joined with judgements."""

import json
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from tests.refusals import refuses


def plugin(*documents: Any, form: str = "list", **more: Any) -> Any:
    """A response of the LTR plugin: as it is today, a list of names and values, or as it was, values by name."""
    hits = []
    for name, features in documents:
        entry = [{"name": key} | ({} if value is None else {"value": value}) for key, value in features.items()]
        old = {key: value for key, value in features.items() if value is not None}
        logged = [{"main": entry} | more] if form == "list" else {"main": old} | more
        hits.append(
            {
                "_index": "shop",
                "_id": name,
                "_score": 1.0,
                "_source": {"sku": f"s-{name}"},
                "fields": {"_ltrlog": logged},
            }
        )
    return {"took": 1, "hits": {"total": {"value": len(hits)}, "hits": hits}}


def vespa(*documents: Any, kind: str = "matchfeatures") -> Any:
    """A response of Vespa."""
    children = [
        {
            "id": f"index:content/0/{name}",
            "relevance": 0.5,
            "fields": {"documentid": f"id:shop:item::{name}", kind: features},
        }
        for name, features in documents
    ]
    return {"root": {"id": "toplevel", "fields": {"totalCount": len(children)}, "children": children}}


def hit(**fields: Any) -> Any:
    """A response with one hit."""
    return {"hits": {"hits": [{"_id": "d", **fields}]}}


def child(kind: str, name: str) -> Any:
    """A hit of Vespa."""
    return {"fields": {"documentid": f"id:{kind}:item::{name}", "matchfeatures": {"bm25": 1.0}}}


FIRST = ("d1", {"bm25": 2.5, "clicks": 7.0}), ("d2", {"bm25": 1.0, "clicks": None})
SECOND = (("d1", {"bm25": 0.25, "clicks": 3.0, "age": 1.0}),)
LABELS = {"tv": {"d2": 2, "d9": 1}, "radio": {"d1": -1}}


@pytest.mark.parametrize("form", ["list", "mapping"])
def test_the_plugins_log_with_judgements(form, tmp_path):
    responses = {"tv": plugin(*FIRST, form=form), "radio": plugin(*SECOND, form=form)}
    data: Any = rw.data.read_feature_log(responses, labels=LABELS)
    assert data.feature_names == ("bm25", "clicks", "age")
    np.testing.assert_array_equal(
        data.features, np.array([[2.5, 7, np.nan], [1, np.nan, np.nan], [0.25, 3, 1]], np.float32)
    )
    assert (data.query_ids.tolist(), data.document_ids.tolist()) == (["tv", "radio"], ["d1", "d2", "d1"])
    assert (data.labels.tolist(), data.judged.tolist()) == ([0, 2, 0], [0, 1, -1])
    path = tmp_path / "log.jsonl"
    lines = [{"query_id": query, "response": response} for query, response in responses.items()]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    qrels = tmp_path / "qrels.txt"
    qrels.write_text("tv 0 d2 2\nradio 0 d1 -1\n")
    for source in (path, lines, [{"qid": query, **response} for query, response in responses.items()]):
        again: Any = rw.data.read_feature_log(source, labels=qrels)
        np.testing.assert_array_equal(again.features, data.features)
        assert again.labels.tolist() == data.labels.tolist()
        assert again.query_ids.tolist() == ["tv", "radio"]


@pytest.mark.parametrize("kind", ["matchfeatures", "summaryfeatures", "rankfeatures"])
def test_vespas_features(kind):
    documents = ("a::7", {"bm25(title)": 2.5}), ("8", {"bm25(title)": 1.5, "attribute(age)": 3})
    data: Any = rw.data.read_feature_log(
        {"tv": [vespa(documents[0], kind=kind), vespa(documents[1], kind=kind)], "radio": vespa()}
    )
    assert data.feature_names == ("bm25(title)", "attribute(age)")
    assert data.document_ids.tolist() == ["a::7", "8"]
    assert data.query_ids.tolist() == ["tv"]
    assert not data.is_labelled
    np.testing.assert_array_equal(data.features, np.array([[2.5, np.nan], [1.5, 3]], np.float32))


def test_entries_fields_and_pages_that_overlap():
    several = plugin(*FIRST, rescore=[{"name": "bm25", "value": 9.0}])
    assert rw.data.read_feature_log({"tv": several}, log="rescore").features.tolist() == [[9.0], [9.0]]
    data: Any = rw.data.read_feature_log({"tv": [plugin(*FIRST), plugin(FIRST[1])]}, document="sku")
    assert data.document_ids.tolist() == ["s-d1", "s-d2"]


def test_ids_as_engines_write_them():
    log = {"_ltrlog": [{"main": [{"name": "bm25", "value": 1.0}]}]}
    hits = [{"_id": 0, "fields": {"sku": ["s1"], **log}}]  # Elasticsearch has lists in fields
    for document, expected in ((None, "0"), ("sku", "s1")):
        data: Any = rw.data.read_feature_log({"tv": {"hits": {"hits": hits}}}, document=document)
        assert data.document_ids.tolist() == [expected]
    features = {"bm25": 1.0, "vespa.summaryFeatures.cached": 0.0}
    hits = [{"id": name, "fields": {"summaryfeatures": features}} for name in ("id:shop:item::d1", "index:c/0/4a")]
    data = rw.data.read_feature_log({"tv": {"root": {"children": hits}}})
    assert data.document_ids.tolist() == ["d1", "index:c/0/4a"]
    assert data.feature_names == ("bm25",)


def test_vespas_ids_may_have_colons_and_groups():
    names = [child("shop", name) for name in ("a::b", "x::b", "")]
    names[2]["fields"]["documentid"] = "id:shop:item:g=7:b"
    data: Any = rw.data.read_feature_log({"tv": {"root": {"children": names}}})
    assert data.document_ids.tolist() == ["a::b", "x::b", "id:shop:item:g=7:b"]


def test_values_beyond_float32_and_as_text():
    features = {"large": -1e39, "text": "2.5", "none": "NaN", "endless": "Infinity"}
    data = rw.data.read_feature_log({"tv": hit(fields={"matchfeatures": features})})
    np.testing.assert_array_equal(data.features, [[-np.finfo(np.float32).max, 2.5, np.nan, np.inf]])


def test_grades_of_several_aspects_are_one_label():
    qrels = {"query": ["tv"] * 2, "aspect": ["1", "2"], "document": ["d1"] * 2, "grade": [1, 3]}
    data = rw.data.read_feature_log({"tv": plugin(*FIRST)}, labels=pl.DataFrame(qrels))
    assert data.labels.tolist() == [3, 0]


def test_collectors_rows_are_a_table(tmp_path):
    path = tmp_path / "Vespa-training-data.csv"
    path.write_text("query_id,doc_id,relevance_label,relevance_score,match_bm25\nq,d1,1.0,0.5,2.5\nq,d2,0.0,0.1,\n")
    data: Any = rw.read_csv(path, query="query_id", label="relevance_label", document="doc_id", features=["match_bm25"])
    np.testing.assert_array_equal(data.features, np.array([[2.5], [np.nan]], np.float32))


@pytest.mark.parametrize(
    ("source", "arguments", "sentence"),
    [
        ([plugin(*FIRST)], {}, "a response must name its query.*at record 0.*Hint: write"),
        ({"tv": {"error": "timeout"}}, {}, "a record must be a response of Elasticsearch.*at query 'tv'"),
        ([7], {}, "a record must be a response"),
        ({"tv": {"responses": [plugin(*FIRST)]}}, {}, "must be a response.*multi search one by one"),
        ([{"query": {"match": {}}, **plugin(*FIRST)}], {}, "must name its query by an id"),
        ({1: plugin(*FIRST), "1": plugin(*FIRST)}, {}, "query ids must not differ by their type alone"),
        ({"tv": {"hits": []}}, {}, "hits must be a list at hits.hits.*at query 'tv'"),
        ({"tv": {"hits": {"hits": [{"_id": "d", "fields": {"_ltrlog": []}}]}}}, {}, "a hit has no logged features"),
        ({"tv": plugin(*FIRST, other=[])}, {}, "several entries: got main, other at query 'tv'. Hint: set log="),
        ({"tv": plugin(*FIRST)}, {"log": "mian"}, "unknown entry of the log: got 'mian'. Hint: did you mean 'main'"),
        ({"tv": plugin(*FIRST)}, {"document": "asin"}, "a hit has no id.*set document=… to the field.*sku"),
        ({"tv": plugin(*FIRST)}, {"repeated": "frist"}, "unknown repeated: got 'frist'"),
        ({"tv": [plugin(*FIRST), plugin(*SECOND)]}, {}, "logged twice with different features: got 'd1' at query 'tv'"),
        ({"tv": {"hits": {"hits": [{"_id": "d"}]}}}, {}, "a hit has no logged features.*ext.ltr_log"),
        ({"tv": vespa(("1", {"embedding": {"cells": []}}))}, {}, "logged features must be numbers.*leave tensors"),
        ({"tv": vespa()}, {}, "the log holds no documents"),
        ([{"qid": 1, **plugin(*FIRST)}, {"qid": "1", **plugin(*FIRST)}], {}, "must not differ by their type.*record 1"),
        ([{"qid": True, **plugin(*FIRST)}], {}, "must name its query by an id"),
        ({"tv": plugin((1, {"a": 1}), ("1", {"a": 1}))}, {}, "two documents have the same id: got 1 and '1'"),
        ({"tv": {"root": {"children": [child("shop", "7"), child("books", "7")]}}}, {}, "got 'id:shop.*'id:books"),
        ({"tv": hit(_id=1.5)}, {}, "a hit has no id"),
        ({"tv": hit(fields="abc")}, {}, "fields of a hit must be an object: got 'abc' at query 'tv'"),
        ({"tv": hit(fields={"matchfeatures": 7})}, {}, "matchfeatures of a hit must be an object"),
        ({"tv": hit(fields={"_ltrlog": ["main"]})}, {}, "_ltrlog of a hit must have entries"),
        ({"tv": hit(fields={"_ltrlog": [{"main": [7]}]})}, {}, "must list names and values: got .7. at query 'tv'"),
        ({"tv": hit(fields={"_ltrlog": [{"main": [{"name": 7}]}]})}, {}, "a logged feature must have a name"),
        ({"tv": hit(fields={"_ltrlog": [{"m": [{"name": "a"}, {"name": "a"}]}]})}, {}, "a hit has a feature twice"),
        ({"tv": hit(fields={"_ltrlog": [{"main": {"a": "1_0"}}]})}, {}, "must be numbers: got '1_0' for a"),
        ({"tv": hit(fields={"_ltrlog": [{"main": {"a": 10**400}}]})}, {}, "must be numbers"),
        ({"tv": {"root": {"errors": [{"code": 12}]}}}, {}, "Vespa reports an error.*at query 'tv'"),
        (7, {}, "a feature log must have responses: got int"),
        ({"tv": plugin(*FIRST)}, {"labels": {"TV": {"d1": 1}}}, "log and labels have no document in common"),
    ],
)
def test_wrong_logs(source, arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        rw.data.read_feature_log(source, **arguments)


@pytest.mark.parametrize(
    "line", ["{half", '{"query_id": "tv", "query_id": "radio", "hits": {"hits": []}}', "7", "\xff"]
)
def test_a_broken_line_is_named(tmp_path, line):
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps({"query_id": "tv", "response": plugin(*FIRST)}) + f"\n{line}", encoding="latin-1")
    refuses(lambda: rw.data.read_feature_log(path), where="line 2 of …log.jsonl")


def test_the_last_features_of_a_document_count_where_that_is_wanted():
    data = rw.data.read_feature_log(
        [{"query": "tv", **logged(1, 2)["tv"]}, {"query": "tv", **logged(3)["tv"]}], repeated="last"
    )
    assert data.features.tolist() == [[1, 3], [1, 2]]


def logged(*values: object) -> Any:
    hits = [{"_id": str(number), "fields": {"_ltrlog": [{"f": {"x": 1, "y": y}}]}} for number, y in enumerate(values)]
    return {"tv": {"hits": {"hits": hits}}}


def test_categories_are_read_by_their_values():
    data = rw.data.read_feature_log(logged({"category": "red"}, None, {"category": "blue"}, {"category": "red"}))
    assert (data.categorical, data.categories) == ((1,), {1: ("red", "blue")})
    np.testing.assert_array_equal(data.features[:, 1], [0, np.nan, 1, 0])


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (({"category": "red"}, 2.0), "categories and plain numbers: got 2.0"),
        (({"category": "red"}, {"category": 2}), "categor"),
        (({"category": ["red"]},), "must be numbers"),
        (({"category": "red", "more": 1},), "must be numbers"),
    ],
)
def test_categories_that_make_no_sense(values, sentence):
    with pytest.raises(ValueError, match=sentence):
        rw.data.read_feature_log(logged(*values))
