"""Requests of random models: served scores are those of ``predict``, and nonsense is refused with a sentence."""

import contextlib
import threading
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rankwise as rw
from rankwise import check

pytest.importorskip("starlette", reason="needs the extra serve")
import orjson

from rankwise.wings.serve.request_parsing import RequestError, parse
from rankwise.wings.serve.served import ServedModel
from tests.refusals import refusal

KINDS: dict[str, Any] = {
    "number": st.none() | st.floats(allow_nan=False, width=64, allow_infinity=False) | st.integers(-(2**53), 2**53),
    "flag": st.none() | st.booleans(),
    "text": st.none() | st.sampled_from(["a", "b", "", "missing", "A", "never:seen"]),
    "code": st.none() | st.integers(0, 4) | st.just(9),
}
"""Values of a feature by its kind; of categories training saw the first four at most."""


@st.composite
def requests(draw: st.DrawFn) -> tuple[dict[str, str], list[dict[str, Any]], list[str], str]:
    """Features with their kinds, documents, an order of the columns, and the form of the request."""
    names = draw(st.lists(st.text('ab:é "\\\\', min_size=1, max_size=5), min_size=1, max_size=4, unique=True))
    kinds = {name: draw(st.sampled_from(sorted(KINDS))) for name in names}
    rows = draw(
        st.lists(st.fixed_dictionaries({name: KINDS[kind] for name, kind in kinds.items()}), min_size=1, max_size=6)
    )
    return kinds, rows, draw(st.permutations(names)), draw(st.sampled_from(["documents", "rows", "queries"]))


def trained(kinds: dict[str, str]) -> rw.Ranker:
    rng = np.random.default_rng(len(kinds))
    size, columns = 60, {}
    for name, kind in kinds.items():
        drawn = rng.integers(0, 3, size)
        columns[name] = {
            "number": pl.Series(rng.normal(size=size) * 10.0 ** rng.integers(-3, 9, size)),
            "flag": pl.Series(drawn > 1),
            "text": pl.Series(np.array(["a", "b", "missing"])[drawn]),
            "code": pl.Series(drawn),
        }[kind]
    frame = pl.DataFrame(columns)
    coded = [name for name, kind in kinds.items() if kind in ("text", "code")]
    features = [*kinds]
    frame = frame.with_columns(
        pl.Series("query id", np.repeat(range(6), 10)), pl.Series("the label", np.arange(size) % 3)
    )
    names: Any = {"query": "query id", "label": "the label", "features": features, "categorical": coded}
    data = rw.RankingDataset.from_frame(frame, **names)
    return rw.LightGBMRanker("xendcg", rounds=4, leaves=6, min_documents=1, threads=1, patience=None).fit(data)


@settings(max_examples=25, deadline=None)
@given(requests())
def test_served_scores_are_those_of_predict(case):
    kinds, rows, order, form = case
    model = trained(kinds)
    types = {"number": pl.Float64, "flag": pl.Boolean, "text": pl.String, "code": pl.Int64}
    columns = {name: pl.Series([row[name] for row in rows], dtype=types[kinds[name]], strict=False) for name in kinds}
    expected = model.predict(pl.DataFrame(columns))
    documents = [{name: row[name] for name in order} for row in rows]
    table = {"features": order, "rows": [[row[name] for name in order] for row in rows], "id": "a:b"}
    body = {
        "documents": {"documents": documents},
        "rows": table,
        "queries": {"queries": [table, {"documents": documents}]},
    }
    served = ServedModel("model", model)
    answer = served.score(served.read(orjson.dumps(body[form]), 100), threading.Event())
    for one in answer.get("queries", [answer]):
        np.testing.assert_array_equal(one["scores"], expected)
    assert served.read(orjson.dumps(body[form]), 100).queries[0].words.get("id", "a:b") == "a:b"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "id", "ids"]), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
KEYS = st.sampled_from(["rows", "documents", "features", "ids", "id", "labels", "queries", "other"])


@pytest.fixture(scope="module")
def served() -> ServedModel:
    return ServedModel("model", trained({"a": "number", "b": "text"}))


@settings(max_examples=100, deadline=None)
@given(query=st.dictionaries(KEYS, JSON | st.lists(JSON, max_size=3), max_size=4) | JSON, good=st.booleans())
def test_whatever_is_sent_is_scored_or_refused(served, query, good):
    if good and isinstance(query, dict):
        query = query | {"rows": [[1.5, "a"], [None, None]], "features": ["a", "b"]}
    with contextlib.suppress(check.InputError):  # which is status 400 or 422
        asked = served.read(orjson.dumps(query), 5)
        orjson.dumps(served.score(asked, threading.Event()), option=orjson.OPT_SERIALIZE_NUMPY)


@settings(max_examples=100, deadline=None)
@given(value=JSON, key=st.sampled_from(["a", "a:b", 'q"', "é"]), deep=st.booleans())
def test_a_key_that_is_there_twice_is_always_seen(value, key, deep):
    pair = orjson.dumps(key) + b" : " + orjson.dumps(value)
    around = (b'[{"x": ":"}, [', b"]]") if deep else (b"", b"")
    assert parse(around[0] + b"{" + pair + b"}" + around[1]) is not None
    with refusal(RequestError, what="an object has the same key twice"):
        parse(around[0] + b"{" + pair + b', "z": "\\"::", ' + pair + b"}" + around[1])
