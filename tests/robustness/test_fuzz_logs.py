"""Damaged logs of search engines, JSON lines, are read as another reader finds them, or refused with file and line.

The other readers are written here, plainly, by what the documentation of the formats says.
"""

import copy
import datetime as dt
import json
import math
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from tests.robustness import fuzzing

pytestmark = pytest.mark.slow
OF_ALL_LINES = (
    "holds no documents",
    "a click log needs",
    "must have the text",
    "must all be counted",
    "must have one user",
)
VALUES: tuple[Any, ...] = (None, True, False, 0, 1, "1", 2, 1.0, 1.5, -1, "", "a", "abc", "b", [], ["a"], [1, "1"], {})
VALUES += (
    {"name": "bm25", "value": 1},
    {"bm25": 1.0},
    "2.5",
    "NaN",
    "1_0",
    "\u0663",
    1e39,
    10**400,
    math.nan,
    math.inf,
)
VALUES += ("\ud800", "a\0", "id:shop:item::a::b", "id:shop:item::x::b", "id:shop:item:g=7:b", "q1", "s1", "impression")
TIMES: tuple[Any, ...] = (
    "2024-05-01T10:00:00+02:00",
    "2024-05-01T09:00:00Z",
    "2024-05-01T08:30:00.5-01:00",
    1714554000000,
    1714550400,
)
TIMES += ("2024-05-01", "2024-05-01T0\u0663:00:00Z", "2024-05-01 09:00,", "yesterday")


class Bad(Exception):
    """The other reader refuses the file."""


def expect(condition: object) -> None:
    if not condition:
        raise Bad


def lines(content: bytes) -> list[bytes]:
    return [line for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip()]


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    expect(len({name for name, _ in pairs}) == len(pairs))
    return dict(pairs)


def loaded(line: bytes) -> Any:
    try:
        return json.loads(line, object_pairs_hook=once)
    except (ValueError, RecursionError):
        raise Bad from None


def is_text(value: object) -> bool:
    """Whether this is text that an id may be: not empty, without lone surrogates and characters that NumPy cuts off."""
    return isinstance(value, str) and value != "" and "\0" not in value and not re.search("[\ud800-\udfff]", value)


def is_id(value: object) -> bool:
    return is_text(value) or (isinstance(value, int) and not isinstance(value, bool))


def number(value: Any) -> float:
    """The value of a feature; nan where there is none."""
    if value is None:
        return math.nan
    if isinstance(value, str):
        expect(re.fullmatch(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|NaN|[-+]?Infinity", value))
    else:
        expect(isinstance(value, int | float))
    try:
        return float(value)
    except OverflowError:
        raise Bad from None


def feature_log(content: bytes) -> dict[tuple[str, str], dict[str, float]]:
    """Features by query and document."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    written: dict[tuple[str, str], Any] = {}
    kinds: dict[str, type] = {}
    for line in lines(content):
        record = loaded(line)
        expect(isinstance(record, dict))
        response = record.get("response", record)
        expect(isinstance(response, dict) and ("hits" in response or "root" in response))
        query = next((record[name] for name in ("query_id", "qid", "query") if name in record), None)
        expect(is_id(query))
        expect(kinds.setdefault(str(query), type(query)) is type(query))
        is_vespa = "hits" not in response
        outer = response["root" if is_vespa else "hits"]
        expect(isinstance(outer, dict))
        expect(not (is_vespa and outer.get("errors")))
        hits = outer.get("children" if is_vespa else "hits", [])
        expect(isinstance(hits, list))
        for hit in hits:
            expect(isinstance(hit, dict))
            fields, source = hit.get("fields", {}), hit.get("_source", {})
            expect(isinstance(fields, dict) and isinstance(source, dict))
            full = hit.get("_id")
            if full is None:
                both = {**fields, **source}
                full = next((one for one in (both.get("documentid"), hit.get("id")) if one not in (None, "")), None)
            if isinstance(full, list) and len(full) == 1:
                full = full[0]
            expect(is_id(full))
            short = str(full)
            if hit.get("_id") is None and re.match("id:[^:]*:[^:]*::", short):
                short = short.split(":", 4)[4]
            expect(short)
            features = of_plugin(fields["_ltrlog"]) if fields.get("_ltrlog") else of_vespa(fields)
            expect(features)
            expect(all(is_text(name) for name in features))
            key = str(query), short
            if key in found:
                expect(type(written[key]) is type(full) and written[key] == full)
                expect(found[key].keys() == features.keys())
                expect(all(same(found[key][name], features[name]) for name in features))
            found[key], written[key] = features, full
    expect(found)
    return found


def same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


def of_plugin(logged: Any) -> dict[str, float]:
    if isinstance(logged, list):
        expect(len(logged) == 1)
        logged = logged[0]
    expect(isinstance(logged, dict) and len(logged) == 1)
    (entry,) = logged.values()
    if isinstance(entry, dict):
        return {name: number(value) for name, value in entry.items()}
    expect(isinstance(entry, list))
    features = {}
    for one in entry:
        expect(isinstance(one, dict) and isinstance(one.get("name"), str) and one["name"] not in features)
        features[one["name"]] = number(one.get("value"))
    return features


def of_vespa(fields: Any) -> dict[str, float]:
    features: dict[str, float] = {}
    for kind in ("matchfeatures", "summaryfeatures", "rankfeatures"):
        part = fields.get(kind, {})
        expect(isinstance(part, dict))
        for name, value in part.items():
            if name != "vespa.summaryFeatures.cached":
                expect(name not in features or same(features[name], number(value)))
                features[name] = number(value)
    return features


def instant(value: Any) -> float | None:
    """Seconds since 1970."""
    text = "" if value is None else str(value).strip(" \t\r\n\f\v")
    form = r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2}(?:[.,][0-9]+)?))?\s*(.*))?"
    if parts := re.fullmatch(form, text):
        date, hour, minute, second, zone = parts.groups()
        if zone and not re.fullmatch(r"[Zz]|UTC|[+-][0-9]{2}(:?[0-9]{2})?", zone):
            return None
        try:
            day = (dt.date.fromisoformat(date) - dt.date(1970, 1, 1)).days
        except ValueError:
            return None
        seconds = float((second or "0").replace(",", "."))
        if int(hour or 0) > 24 or int(minute or 0) > 59 or seconds >= 61:
            return None
        away = 0
        if zone and zone[0] in "+-":
            away = int(zone[1:3]) * 60 + int(zone[3:].removeprefix(":") or 0)
            away = -away if zone[0] == "-" else away
        return day * 86_400 + (int(hour or 0) * 60 + int(minute or 0) - away) * 60 + seconds
    if not re.fullmatch(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?", text):
        return None
    value = float(text)
    scale = next((scale for size, scale in ((11, 1), (14, 1e3), (17, 1e6), (19, 1e9)) if value < 10**size), None)
    return None if scale is None or value < 1e9 else value / scale


def within(record: Any, *path: str) -> Any:
    for name in path:
        record = record.get(name) if isinstance(record, dict) else None
    return record


def position(value: Any) -> int:
    if isinstance(value, str):
        expect(re.fullmatch(r"[0-9]+", value.strip(" \t\r\n")))
        value = int(value)
    expect(isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1)
    expect(0 <= value <= 32_767)
    return int(value)


def ubi(content: bytes, *, use_hits: bool) -> dict[tuple[str, str, int], tuple[float, float]]:
    """Impressions and clicks by query, document and position."""
    searches: dict[str, tuple[str | None, str | None]] = {}
    shown: list[dict[str, Any]] = []
    clicks = set()
    kinds: dict[tuple[str, str], type] = {}

    def identifier(role: str, value: Any) -> str | None:
        if value is None or value == "":
            return None
        expect(is_id(value))
        expect(kinds.setdefault((role, str(value)), type(value)) is type(value))
        return str(value)

    def display(record: Any, document: str | None, place: int) -> None:
        user = identifier("user", record.get("client_id"))
        fields = {"search": search, "query": query, "application": application, "user": user}
        shown.append(fields | {"time": record.get("timestamp"), "document": document, "position": place})

    for line in lines(content):
        record = loaded(line)
        expect(isinstance(record, dict))
        if len(record) == 1 and any(isinstance(record.get(name), dict) for name in ("index", "create")):
            continue
        record = record.get("_source", record)
        expect(isinstance(record, dict))
        action = record.get("action_name")
        if action is None:
            expect("event_attributes" not in record and record.get("query_id") not in (None, ""))
            search = identifier("search", record["query_id"])
            query = identifier("text", record.get("user_query"))
            application = identifier("application", record.get("application"))
            old = searches.get(str(search), (None, None))
            searches[str(search)] = query or old[0], application or old[1]
            if use_hits and record.get("query_response_hit_ids") is not None:
                expect(isinstance(record["query_response_hit_ids"], list))
                for place, one in enumerate(record["query_response_hit_ids"], 1):
                    expect(one not in (None, ""))
                    display(record, identifier("hit", one), place)
            continue
        expect(is_text(action))
        if action == "click" or (action == "impression" and not use_hits):
            search = identifier("search of event", record.get("query_id"))
            query = identifier("text", record.get("user_query"))
            application = identifier("application", record.get("application"))
            document = identifier("document", within(record, "event_attributes", "object", "object_id"))
            if action == "impression":
                place = position(within(record, "event_attributes", "position", "ordinal"))
                display(record, document, place)
            else:
                clicks.add((search, document))
    expect(shown)
    times = [instant(one["time"]) for one in shown]
    timeless = {one["search"] for one, time in zip(shown, times, strict=True) if time is None}
    order = sorted(range(len(shown)), key=lambda row: (0.0 if shown[row]["search"] in timeless else times[row]) or 0.0)
    rows = []
    seen: dict[Any, set[Any]] = {}
    places: dict[Any, list[set[int]]] = {}
    users: dict[Any, set[Any]] = {}
    for one in (shown[row] for row in order):
        query, application = searches.get(one["search"], (None, None)) if one["search"] else (None, None)
        one = one | {"query": one["query"] or query, "application": one["application"] or application}
        if one["query"] is None or (one["document"] is not None and one["document"] in seen.get(one["search"], ())):
            continue
        expect(one["search"] is not None and one["document"] is not None)
        seen.setdefault(one["search"], set()).add(one["document"])
        pages = places.setdefault(one["search"], [set()])
        if one["position"] in pages[-1]:
            pages.append(set())
        pages[-1].add(one["position"])
        users.setdefault((one["query"], one["search"], len(pages)), set()).add(one["user"])
        rows.append(one)
    expect(rows)
    expect(any(None in listed for listed in users.values()) or all(len(listed) == 1 for listed in users.values()))
    for application in {one["application"] for one in rows}:
        own = [one for one in rows if one["application"] == application]
        zeros, ones = (sum(one["position"] == place for one in own) for place in (0, 1))
        expect(not zeros or ones <= 1.1 * zeros)
        for one in own if zeros else ():
            one["position"] += 1
    found: dict[tuple[str, str, int], tuple[float, float]] = {}
    for one in rows:
        key = one["query"], one["document"], one["position"]
        impressions, clicked = found.get(key, (0.0, 0.0))
        found[key] = impressions + 1, clicked + ((one["search"], one["document"]) in clicks)
    return found


def hit(name: Any, features: Any, form: str = "list") -> Any:
    entry = [{"name": key, "value": value} for key, value in features.items()]
    logged = [{"main": entry}] if form == "list" else {"main": features}
    return {"_index": "shop", "_id": name, "_source": {"sku": f"s-{name}"}, "fields": {"_ltrlog": logged}}


def child(name: str, **features: Any) -> Any:
    fields = {"documentid": f"id:shop:item::{name}", "matchfeatures": features}
    return {"id": f"index:content/0/{name}", "relevance": 0.5, "fields": fields}


FEATURES = [
    {"query_id": "q1", "response": {"hits": {"hits": [hit("a", {"bm25": 1.5, "age": 2}), hit("b", {"bm25": 1})]}}},
    {"qid": 7, "hits": {"total": 1, "hits": [hit("a", {"bm25": 0.5, "age": None}, "mapping")]}},
    {"query": "q2", "response": {"root": {"id": "toplevel", "children": [child("a::b", bm25=2.5), child("7", age=1)]}}},
    {"query_id": "q2", "root": {"children": [child("x", bm25=1e3), child("7", age=1)]}},
]


def event(action: str, search: Any, document: Any, ordinal: Any, time: Any, **more: Any) -> Any:
    attributes = {"object": {"object_id": document}, "position": {"ordinal": ordinal}}
    fields = {"action_name": action, "query_id": search, "client_id": "u1", "timestamp": time, "application": "shop"}
    return fields | {"event_attributes": attributes} | more


UBI = [
    {"index": {"_index": "ubi_queries", "_id": "1"}},
    {"query_id": "s1", "user_query": "tv", "application": "shop", "query_response_hit_ids": ["a", "b", "c"]},
    {"_source": {"query_id": "s2", "user_query": "radio", "client_id": "u2", "query_response_hit_ids": ["b", 7]}},
    event("impression", "s1", "a", 1, "2024-05-01T10:00:00+02:00"),
    event("impression", "s1", "b", 2, "2024-05-01T08:00:00.500Z"),
    event("impression", "s1", "c", 1, "2024-05-01T09:30:00+02:00", application=None),
    event("impression", "s1", "a", 3, "2024-05-01T08:30:00Z"),
    event("click", "s1", "a", 1, "2024-05-01T08:40:00Z"),
    event("impression", "s2", 7, "2", "2024-05-02T08:40:00Z", user_query="hifi"),
    event("add_to_cart", "s2", {"odd": 1}, None, 1714550400),
    {"create": {}},
    event("click", "s2", "b", 1, 1714550400),
]
OF_UBI: tuple[Any, ...] = (
    {"delete": {"_index": "ubi_queries", "_id": "1"}},
    {"update": {"_id": "1"}},
    {"doc": {}},
    *TIMES,
    *TIMES,
)


def changed(records: list[Any], chance: random.Random, values: tuple[Any, ...]) -> bytes:
    """Change one to three places of the records, as JSON or as bytes."""
    records = copy.deepcopy(records)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        place: Any = records
        path: list[tuple[Any, Any]] = []
        while isinstance(place, dict | list) and place and (not path or chance.random() < 0.9):
            key = chance.choice(list(place)) if isinstance(place, dict) else chance.randrange(len(place))
            path.append((place, key))
            place = place[key]
        at, key = path[-1]
        kind = chance.choice(("replace", "replace", "replace", "leave out", "copy"))
        if kind == "replace":
            at[key] = copy.deepcopy(chance.choice(values))
        elif kind == "leave out":
            del at[key]
        else:  # of another place, also a whole record
            other = copy.deepcopy(chance.choice((at[key], chance.choice(records))))
            at.insert(key, other) if isinstance(at, list) else at.update({chance.choice(list(at)): other})
        records = records or [{}]
    content = "\n".join(map(json.dumps, records)).encode()
    if chance.random() < 0.05 and (pairs := re.findall(rb'"\w+": "?\w*"?, ', content)):  # a name twice
        pair = chance.choice(pairs)
        content = content.replace(pair, pair + chance.choice((pair, pair.replace(b":", b": 1"))), 1)
    return fuzzing.damaged(content, chance) if chance.random() < 0.3 else content


def read_features(path: Path) -> Any:
    data: Any = rw.data.read_feature_log(path)
    cells = zip(data.qids().tolist(), data.document_ids.tolist(), np.asarray(data.features).tolist(), strict=True)
    return {(query, document): dict(zip(data.feature_names, row, strict=True)) for query, document, row in cells}


def expected_features(content: bytes) -> Any:
    found = feature_log(content)
    names = list(dict.fromkeys(name for features in found.values() for name in features))
    largest = float(np.finfo(np.float32).max)

    def rounded(value: float) -> float:
        return float(np.float32(max(-largest, min(value, largest)) if math.isfinite(value) else value))

    return {key: {name: rounded(features.get(name, math.nan)) for name in names} for key, features in found.items()}


def read_searches(path: Path, *, use_hits: bool) -> Any:
    log = rw.clicks.read_ubi(path, shown=None if use_hits else ("impression",))
    columns = ["query", "document", "position", "impressions", "clicks"]
    return {row[:3]: row[3:] for row in log.to_frame().select(columns).iter_rows()}


READERS: dict[str, tuple[int, list[Any], Callable[[Path], Any], Callable[[bytes], Any]]] = {
    "features": (2500, FEATURES, read_features, expected_features),
    "events": (1200, UBI, lambda path: read_searches(path, use_hits=False), lambda text: ubi(text, use_hits=False)),
    "hits": (800, UBI, lambda path: read_searches(path, use_hits=True), lambda text: ubi(text, use_hits=True)),
}


@pytest.mark.filterwarnings("ignore:positions are counted from 0 by:UserWarning")
@pytest.mark.parametrize("name", READERS)
def test_damaged_logs_are_what_another_reader_finds(tmp_path: Path, name: str) -> None:
    count, records, read, expected = READERS[name]
    path = tmp_path / "damaged.ndjson"
    for case, chance in fuzzing.cases(count):
        content = changed(records, chance, VALUES if name == "features" else VALUES + OF_UBI)
        path.write_bytes(content)
        result = outcome(read, expected, path)
        assert result in {"agreed", "refused"}, f"{result}\n{case}: {content.decode(errors='replace')}"


def outcome(read: Callable[[Path], Any], expected: Callable[[bytes], Any], path: Path) -> str:
    """Return "agreed" or "refused", or what is wrong."""
    found: list[Any] = []
    refusals: list[str] = []

    def reading(place: Path) -> None:
        try:
            found.append(read(place))
        except ValueError as error:
            refusals.append(str(error))
            raise

    try:
        other = expected(path.read_bytes())
    except Bad:
        other = None
    if wrong := fuzzing.complaint(reading, path):
        return wrong
    if (
        refusals
        and not re.search(r"line [0-9]+", refusals[0])
        and not any(part in refusals[0] for part in OF_ALL_LINES)
    ):
        return f"the error names no line: {refusals[0]}"
    if refusals:
        return "refused" if other is None else f"refused what another reader reads: {refusals[0]}"
    if other is None:
        return f"read what another reader refuses: {found[0]}"
    is_same = found[0].keys() == other.keys() and all(
        repr(found[0][key]) == repr(value) for key, value in other.items()
    )
    return "agreed" if is_same else f"read {found[0]}, another reader {other}"
