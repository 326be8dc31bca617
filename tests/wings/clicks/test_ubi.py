"""User Behavior Insights: equal to a join by hand, and what does not fit is counted."""

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import rankwise as rw
from tests import shared
from tests.refusals import refusal, refuses


def event(action: str, search: Any, document: Any, position: Any, **fields: Any) -> dict[str, Any]:
    attributes = {"object": {"object_id": document}, "position": {"ordinal": position}}
    common = {"application": "shop", "action_name": action, "client_id": "u1", "user_query": "tv"}
    common |= {"timestamp": "2024-05-01T08:00:01Z"}
    return common | {"query_id": search, "event_attributes": attributes} | fields


def written(path: Path, *records: Any) -> Path:
    path.write_text("\n".join(json.dumps(record) for record in records))
    return path


def test_the_sample_is_equal_to_a_join_by_hand() -> None:
    path = shared.data("ubi-esci/ubi_queries_events.ndjson.gz")
    with gzip.open(path, "rt") as file:
        records = [record for line in file if "index" not in (record := json.loads(line))]
    searches = pl.DataFrame(
        [(record["query_id"], record["user_query"]) for record in records if "action_name" not in record],
        schema=["search", "text"],
        orient="row",
    )
    flat = []
    for record in records:
        if "action_name" in record:
            attributes = record["event_attributes"] or {}
            document = (attributes.get("object") or {}).get("object_id")
            ordinal = (attributes.get("position") or {}).get("ordinal")
            keys = ("action_name", "query_id", "user_query", "application")
            flat.append((*(record.get(key) for key in keys), document, ordinal))
    names = ["action", "search", "text", "application", "document", "position"]
    events = pl.DataFrame(flat, schema=names, orient="row", infer_schema_length=None)
    assert (searches.height, events.height) == (473, 3448)

    texts = searches.filter(pl.col("text") != "").unique("search", keep="last", maintain_order=True)
    clicks = events.filter(pl.col("action") == "click").select("search", "document", clicked=1.0).unique()
    shown = (
        events.filter(pl.col("action") == "impression")
        .join(texts, on="search", how="left")
        .with_columns(query=pl.coalesce("text", "text_right"))
        .filter(pl.col("query").is_not_null())
    )
    joined = (
        shown.join(clicks, on=["search", "document"], how="left")
        .with_columns(position=pl.col("position") + (pl.col("application") == "esci_ubi_sample"))
        .group_by("query", "document", "position")
        .agg(impressions=pl.len().cast(pl.Float64), clicks=pl.col("clicked").sum())
        .sort("query", "document", "position")
    )
    with pytest.warns(UserWarning, match="from 0 by the application 'esci_ubi_sample'.*from 1 by 'Chorus'") as warned:
        log = rw.clicks.read_ubi(path)
    assert len(warned) == 1
    assert log.to_frame().select(joined.columns).equals(joined)
    assert log.notes[0].startswith("473 searches and 3,448 events read: 1,999 impression")
    unmatched = events.filter(pl.col("action") == "click").join(shown, on=["search", "document"], how="anti")
    left_out = [1999 - shown.height, unmatched.height]
    assert [note.split()[0] for note in log.notes if "left out" in note] == [str(number) for number in left_out]


def test_queries_and_events_apart_and_other_actions_as_clicks(tmp_path: Path) -> None:
    searches = written(
        tmp_path / "queries.ndjson",
        {"create": {"_index": "ubi_queries"}},
        {"query_id": "s1", "user_query": "tv", "query_attributes": {"arm": "new"}},
        {
            "_index": "ubi_queries",
            "_source": {"query_id": "s2", "user_query": "radio", "query_attributes": {"arm": "old"}},
        },
    )
    bare = {"user_query": None}
    events = written(
        tmp_path / "events.ndjson",
        event("view", "s1", "a", 1, **bare),
        event("view", "s1", "b", 2, **bare),
        event("cart", "s1", "b", 2, **bare),
        event("click", "s1", "a", 1, **bare),
        event("view", "s2", "a", "1", **bare),
    )
    log = rw.clicks.read_ubi(searches, events, clicked=("cart",), shown=("view",), ranker="query_attributes.arm")
    columns = ["query", "document", "position", "ranker", "impressions", "clicks"]
    assert log.to_frame().select(columns).rows() == [
        ("radio", "a", 1, "old", 1.0, 0.0),
        ("tv", "a", 1, "new", 1.0, 0.0),
        ("tv", "b", 2, "new", 1.0, 1.0),
    ]
    assert log.notes == ("2 searches and 5 events read: 3 view, 1 cart, 1 click",)


def test_what_does_not_fit_is_counted(tmp_path: Path) -> None:
    path = written(
        tmp_path / "ubi.ndjson",
        event("impression", "s1", "a", 1, timestamp="2024-05-01T08:00:01Z"),
        event("impression", "s1", "b", 2, timestamp="2024-05-01T08:00:02Z"),
        event("impression", "s1", "c", 1, timestamp="2024-05-01T08:00:03Z"),  # the list was loaded again
        event("impression", "s1", "a", 2, timestamp="2024-05-01T08:00:04Z"),
        event("impression", "s2", "a", 1, user_query="", client_id=None),
        event("click", "s1", "a", 2),
        event("click", "s1", "a", 1),
        event("click", "s1", "z", 9),
    )
    log = rw.clicks.read_ubi(path)
    assert log.notes[1:] == (
        "1 displays left out: neither the event nor its search has a user_query",
        "1 displays left out: their search had shown the document already",
        "1 clicks left out: no event shows the document in their search",
        "1 further clicks on a document of a search count once",
        "1 documents were clicked at another position than they were shown, and the latter counts",
        "1 searches show several lists, which count as impressions of their own",
    )
    assert log.sessions is not None
    assert sorted(log.sessions.offsets[1:] - log.sessions.offsets[:-1]) == [1, 2]
    assert log.to_frame()["clicks"].to_list() == [1.0, 0.0, 0.0]


def test_days_are_those_of_the_timestamps_in_utc(tmp_path: Path) -> None:
    times = ("2024-05-01T23:30:00.250-02:00", "2024-05-02T00:10:00+0100", 1714608000000)
    events = [event("impression", f"s{i}", "a", 1, timestamp=time) for i, time in enumerate(times)]
    path = written(tmp_path / "ubi.ndjson", *events)
    log = rw.clicks.read_ubi(path)
    assert log.days is not None
    assert log.sessions is not None
    assert log.sessions.days is not None
    assert sorted(log.sessions.days.tolist()) == [19_844, 19_845, 19_845]  # 1, 2 and 2 May
    assert log.days.impressions.tolist() == [1.0, 2.0]
    events.append(event("impression", "s4", "a", 1, timestamp="yesterday"))
    log = rw.clicks.read_ubi(written(path, *events))
    assert log.days is None
    assert log.notes[-1] == "times are not known: 1 displays have no timestamp that can be read"


def test_hits_of_the_searches_where_pages_report_nothing(tmp_path: Path) -> None:
    search = {"query_id": "s1", "user_query": "tv", "query_response_hit_ids": ["a", 7]}
    path = written(tmp_path / "ubi.ndjson", search, event("click", "s1", "7", 1))
    with refusal(what="a click log needs events that report what was shown", hint="…'click'…"):
        rw.clicks.read_ubi(path)
    log = rw.clicks.read_ubi(path, shown=None)
    assert log.to_frame().select("document", "position", "clicks").rows() == [("7", 2, 1.0), ("a", 1, 0.0)]
    assert any("no client_id" in note for note in log.notes)


def test_bad_events_are_errors_with_file_and_line(tmp_path: Path) -> None:
    good = [event("impression", "s1", "a", 1), event("impression", "s1", "b", 2)]
    path = written(tmp_path / "ubi.ndjson", *good, event("impression", "s1", None, 3))
    refuses(lambda: rw.clicks.read_ubi(path), got="1 row with no document (of 3)", where="…ubi.ndjson, line 3…")
    assert rw.clicks.read_ubi(path, errors="drop").notes[1:] == ("1 row with no document left out",)
    path.write_text(path.read_text() + "\n{")
    refuses(lambda: rw.clicks.read_ubi(path), got="1 row with no JSON object (of 4)", where="…ubi.ndjson, line 4")
    refuses(rw.clicks.read_ubi, what="a log of User Behavior Insights needs files")
    with refusal(what="searches must have the text of their query"):
        rw.clicks.read_ubi(written(tmp_path / "ubi.ndjson", event("impression", "s1", "a", 1, user_query=None)))


SEARCH = {"query_id": "s1", "user_query": "tv"}
SHOWN = event("impression", "s1", "a", 1)


@pytest.mark.parametrize(
    ("records", "arguments", "sentence"),
    [
        ([SHOWN, {"delete": {"_id": "1"}}], {}, "1 row with neither the query_id of a search nor the action_name"),
        ([SHOWN, {"_source": "abc"}], {}, "1 row with no JSON object"),
        (
            [SHOWN, SEARCH | {"query_response_hit_ids": "abc"}],
            {"shown": None},
            "query_response_hit_ids that are no list",
        ),
        ([SHOWN, SEARCH | {"query_response_hit_ids": [["a"]]}], {"shown": None}, "a hit that is neither text nor an"),
        (
            [SHOWN, SEARCH | {"query_response_hit_ids": ["1", 1]}],
            {"shown": None},
            "a hit that is text here and a number",
        ),
        ([SHOWN, event("impression", 1.0, "a", 1)], {}, "a query_id that is neither text nor an integer"),
        ([SHOWN, event("impression", "s2", 7, 1), event("click", "s1", "7", 1)], {}, "a document that is text here"),
        ([SHOWN, event("impression", "s1", "b\0", 2)], {}, "a document with characters that ids cannot have"),
        ([SHOWN, event("impression", "s1", "b", True)], {}, "a position that is not an integer from 0"),
        ([SHOWN, event("impression", "s1", "b", [1])], {}, "a position that is not an integer from 0"),
        ([SHOWN, event("impression", "s1", "b", 0)], {"first": 1}, "a position that is not an integer from 1"),
        ([SHOWN, event("impression", "s1", "b", 2, user_query={"a": 1})], {}, "a user_query that is neither text nor"),
        ([SHOWN, event("impression", "s1", "b", 2, application=["x"])], {}, "an? application that is neither text nor"),
        ([SHOWN, SHOWN | {"action_name": None}], {}, "neither the query_id of a search nor the action_name"),
        ([SHOWN, SHOWN | {"action_name": 7}], {}, "an action_name that is no text"),
    ],
)
def test_records_that_cannot_be_used(records: Any, arguments: Any, sentence: str, tmp_path: Path) -> None:
    path = written(tmp_path / "ubi.ndjson", *records)
    with pytest.raises(
        ValueError, match=rf"1 row with .*{sentence.removeprefix('1 row with ')}.*ubi\.ndjson, line [23]"
    ):
        rw.clicks.read_ubi(path, **arguments)
    if "shown" not in arguments:
        assert "left out" in "".join(rw.clicks.read_ubi(path, **arguments, errors="drop").notes)


def test_displays_are_in_the_order_of_time_in_any_zone(tmp_path: Path) -> None:
    later = event("impression", "s1", "a", 3, timestamp="2024-05-01T09:00:00Z")
    times = [("2024-05-01T10:00:00+02:00", 1), (1714550400000, 1), ("yesterday", 3)]  # twice 8 in UTC
    for time, position in times:
        earlier = event("impression", "s1", "a", 1, timestamp=time)
        log = rw.clicks.read_ubi(written(tmp_path / "ubi.ndjson", later, earlier))
        assert log.positions.tolist() == [position]


def test_one_application_with_both_kinds_of_lists_is_an_error(tmp_path: Path) -> None:
    path = written(
        tmp_path / "ubi.ndjson",
        event("impression", "s1", "a", 0),
        event("impression", "s1", "b", 1),
        event("impression", "s2", "a", 1),
    )
    with refusal(what="positions of the application 'shop' must all be counted from 0, or all from 1"):
        rw.clicks.read_ubi(path)
    assert rw.clicks.read_ubi(path, first=0).positions.tolist() == [1, 2, 2]
