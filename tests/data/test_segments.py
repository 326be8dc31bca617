"""Segments of queries by feature, mapping, array and traffic; what is no segment is refused."""

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from rankwise.data.segments import segments_of
from tests.refusals import refuses

IDS = np.array(["a", "b", "c"])
DATA = rw.RankingDataset(
    np.array([[0.0, 1.5], [0.0, 2.0], [1.0, 3.0], [np.nan, 3.0], [np.nan, 4.0]], np.float32),
    [0, 1, 1, 0, 1],
    [0, 2, 3, 5],
    feature_names=["device", "bm25"],
    categorical=[0],
    categories={0: ["phone", "tv"]},
    query_ids=IDS,
    weights=[1.0, 5.0, 2.0],
)


def found(segment, data=DATA, **options):
    options = {"weights": data.weights, "data": data} | options
    return {name: labels.tolist() for name, labels in segments_of(segment, data.query_ids, **options).items()}


@pytest.mark.parametrize(
    ("segment", "expected"),
    [
        ("device", {"device": ["phone", "tv", "missing"]}),
        (0, {"device": ["phone", "tv", "missing"]}),
        ({"b": 2, "a": 1, "c": 1.5, "z": 9}, {"segment": ["1", "2", "1.5"]}),
        (np.array([1, 2, 1]), {"segment": ["1", "2", "1"]}),
        ([1, None, ""], {"segment": ["1", "missing", "empty"]}),
        (["x", "missing", float("nan")], {"segment": ["x", "missing", "(missing)"]}),
        (pl.Series("market", ["de", "fr", "de"]), {"market": ["de", "fr", "de"]}),
        (
            {"m": np.array([True, False, True]), "n": {"a": 1, "b": 1, "c": 1}},
            {"m": ["True", "False", "True"], "n": ["1"] * 3},
        ),
        ("traffic", {"traffic": ["tail", "head", "torso"]}),
        (["device", np.array([1, 2, 3])], {"device": ["phone", "tv", "missing"], "segment": ["1", "2", "3"]}),
        ([np.array([1, 1, 1]), np.array([2, 2, 2])], {"segment": ["1"] * 3, "segment 2": ["2"] * 3}),
    ],
)
def test_every_kind_of_segment(segment, expected):
    assert found(segment) == expected


def test_integer_ids_and_their_texts_are_the_same():
    assert segments_of({"7": "x", 8: "y"}, np.array([8, 7]))["segment"].tolist() == ["y", "x"]


def test_what_is_known_comes_first():
    assert found("device", known={"device": np.array(["k", "k", "k"], object)}) == {"device": ["k"] * 3}


@pytest.mark.parametrize(
    ("segment", "fields"),
    [
        ("bm25", {"what": "a segment must be the same for all…", "got": "'2' of 'bm25'", "where": "row 1 (query 'a')"}),
        ("devise", {"what": "…segment…", "got": "'devise'"}),
        ({"a": 1, "b": 2}, {"what": "a segment is missing", "where": "query 'c'"}),
        (np.array([1, 2]), {"what": "segments must be one value per query", "got": "shape (2,) for 3 queries"}),
        (7, {"what": "…segment…"}),
        ([], {"what": "segments need a feature, or a value for each query"}),
    ],
)
def test_what_is_no_segment_is_refused(segment, fields):
    refuses(lambda: found(segment), **fields)


def test_names_need_features_and_traffic_needs_weights():
    refuses(lambda: segments_of("device", IDS), got="'device', of no data", hint="…{query: value, …}}")
    refuses(lambda: segments_of("traffic", IDS), what="head, torso and tail need…")


def test_head_torso_and_tail_by_hand():
    counts = [4, 1, 1, 1, 1, 1]  # 9 in all: the first has a third; those with one each are alike and begin after it
    assert rw.data.traffic_segments(counts).tolist() == ["head", *["torso"] * 5]
    assert rw.data.traffic_segments([3, 2.5, 2, 1, 0.5]).tolist() == ["head", "torso", "torso", "tail", "tail"]
    assert rw.data.traffic_segments([30, 5, 4, 3]).tolist() == ["head", "tail", "tail", "tail"]
    refuses(lambda: rw.data.traffic_segments([-1.0, 2.0]))


def test_numbers_of_traffic_are_counts():
    counts = {"a": 60, "b": 5, "c": np.int64(30)}
    assert segments_of({"traffic": counts}, IDS)["traffic"].tolist() == ["head", "tail", "torso"]
    assert segments_of({"traffic": np.array([1, 1, 9])}, IDS)["traffic"].tolist() == ["tail", "tail", "head"]
    named = {"traffic": {"a": "head", "b": "tail", "c": "tail"}, "rank": counts}
    both = segments_of(named, IDS)
    assert both["traffic"].tolist() == ["head", "tail", "tail"]
    assert both["rank"].tolist() == ["60", "5", "30"]
