"""Reading OpenSearch's User Behavior Insights: searches and events as JSON lines."""

import itertools
import json
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from rankwise import check
from rankwise.base.arrays import Json, Keywords
from rankwise.base.tables import count
from rankwise.data.io import read_lines, without_repeats
from rankwise.wings.clicks.logs.log import Log
from rankwise.wings.clicks.logs.reading import LAST_POSITION, LogRows, add_up, left_out, naming_files
from rankwise.wings.clicks.logs.sessions import day, instant

_DOCUMENT, _POSITION = "event_attributes.object.object_id", "event_attributes.position.ordinal"
_HITS = "query_response_hit_ids"
_NAMED, _SHOWN = 6, 3  # actions in a note, bad records in an error
_SCALARS = str | int | float | bool
_DIGITS = re.compile("[0-9]+")


def read_ubi(
    *files: str | Path,
    clicked: Collection[str] = ("click",),
    shown: Collection[str] | None = ("impression",),
    ranker: str | None = None,
    segment: str | None = None,
    first: int | None = None,
    sessions: bool | None = None,
    errors: Literal["raise", "drop"] = "raise",
) -> Log:
    r"""Read a click log in the form of OpenSearch's User Behavior Insights (UBI).

    ``files`` hold the indices ``ubi_queries`` and ``ubi_events``, apart or together, as JSON lines: records, or what
    the bulk API reads, plain or compressed. ``clicked`` lists the actions that count as a click, ``shown`` those that
    report a document as shown; ``shown=None`` uses the hits that the searches returned (``query_response_hit_ids``)
    where the page does not report what it shows. ``ranker`` and ``segment`` name a field of the event or its search,
    such as ``"query_attributes.ranker"``.

    A query is the text that the user wrote: that of the event, else that of its search. An impression is a search
    (``query_id``); where it shows another document at a position that it has shown, a new impression begins. A document
    counts once in a search, at its first position, and was clicked if any of the events that count as clicks names it.
    What cannot be joined is left out, with its number in ``log.notes``. A record that cannot be used (no JSON object,
    hits that are no list, a bulk ``delete`` …) is an error with its file and line; ``errors="drop"`` leaves such
    records out. Displays are in the order of their times; those of a search of which one has no time, in that of the
    files. Days are those of ``timestamp`` in UTC, if all
    displays have one.

    Positions are counted from 0 by some applications and from 1 by others, also in one file. Each ``application`` is
    looked at apart: one with events at position 0 counts from 0, and 1 is added. Where applications differ there is a
    warning; where one application has both kinds of lists there is an error, which ``first=0`` or ``first=1`` resolves.

    >>> import tempfile
    >>> search = {"query_id": "s1", "user_query": "tv", "client_id": "u1", "application": "shop"}
    >>> events = [search | {"action_name": action, "event_attributes": {"object": {"object_id": name},
    ...           "position": {"ordinal": place}}}
    ...           for action, name, place in [("impression", "a", 0), ("impression", "b", 1), ("click", "b", 1)]]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "ubi.ndjson")
    ...     _ = path.write_text("\n".join(json.dumps(record) for record in [search, *events]))
    ...     log = read_ubi(path)
    >>> log
    Log(1 impressions, 1 queries, 2 pairs, 1 rankers, positions 1 to 2, 0.5000 clicks a document)
    >>> log.notes
    ('1 search and 3 events read: 2 impression, 1 click', 'positions were counted from 0: 1 was added')
    """
    if not files:
        raise check.error("a log of User Behavior Insights needs files", hint="pass those of queries and of events")
    names = {role: name for role, name in (("ranker", ranker), ("segment", segment)) if name is not None}
    records = _Records(frozenset(clicked), None if shown is None else frozenset(shown), names)
    paths = [check.readable(path) for path in files]
    with naming_files(paths):
        for number, path in enumerate(paths):
            for line, content in read_lines(path):
                records.add_line(content, (number, line))
        return _log(records, paths, first=first, sessions=sessions, errors=errors)


def _log(records: "_Records", paths: Sequence[Path], *, first: int | None, sessions: bool | None, errors: str) -> Log:
    searches, events = count(records.n_searches, "search", "searches"), count(records.actions.total(), "event")
    common = ", ".join(f"{amount:,} {action}" for action, amount in records.actions.most_common(_NAMED))
    notes = [f"{searches} and {events} read" + (f": {common}" if common else "")]
    if records.broken:
        check.choice("way to treat bad rows", errors, ("raise", "drop"))
        places = sorted(itertools.chain(*records.broken.values()))
        where = [f"{paths[number]}, line {line}" for number, line in places[:_SHOWN]]
        lines = records.actions.total() + records.n_searches + len(places)
        notes += left_out({what: len(listed) for what, listed in records.broken.items()}, lines, where, errors)
    if not records.displays:
        what = "events that report what was shown" if records.shown is not None else f"searches with {_HITS}"
        hint = f"`set shown=…`, some of {', '.join(map(repr, records.actions))}, or None for the searches' hits"
        raise check.error(f"a click log needs {what}", got="none", hint=hint if records.shown is not None else "")
    table, more = records.joined()
    if not table:
        raise check.error("searches must have the text of their query", got="; ".join(more), hint="add the queries")
    texts: Keywords = dict.fromkeys(table[0], pl.String()) | {"position": pl.Int64(), "clicked": pl.Int8()}
    frame = pl.DataFrame(table, schema={name: kind for name, kind in texts.items() if name != "place"})
    if timeless := frame.select(day(pl.col("time"), pl.String()).is_null().sum()).item():
        if frame["time"].count():
            more += [f"times are not known: {timeless:,} displays have no timestamp that can be read"]
        frame = frame.drop("time")
    if strangers := frame["user"].null_count():
        more += [f"users are not known: {strangers:,} displays have no client_id"]
        frame = frame.drop("user")
    return add_up(
        LogRows(frame.lazy(), lambda row: f"{paths[table[row]['place'][0]]}, line {table[row]['place'][1]}"),
        by="application",
        first=first if records.shown is not None else 1,
        sessions=sessions,
        errors=errors,
        notes=(*notes, *more),
    )


@dataclass
class _Records:
    """What was read of searches and events."""

    clicked: frozenset[str]
    shown: frozenset[str] | None
    names: dict[str, str]
    n_searches: int = 0
    actions: Counter[str] = field(default_factory=Counter)
    searches: dict[str | None, Json] = field(default_factory=dict)
    """Fields of each search."""
    displays: list[Json] = field(default_factory=list)
    clicks: dict[tuple[str | None, str | None], list[Any]] = field(default_factory=dict)
    """The positions of clicks, by search and document."""
    broken: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Where records are that cannot be used, by what is wrong with them."""
    types: dict[tuple[str, str], type] = field(default_factory=dict)
    """How ids were written, by role and text."""

    def add_line(self, content: bytes, place: tuple[int, int]) -> None:
        """Add the search or event of a line; a line of the bulk API that names the index has none."""
        try:
            record = json.loads(content, object_pairs_hook=without_repeats)
        except (ValueError, RecursionError):
            record = None
        try:
            if not (isinstance(record, dict) and len(record) == 1 and isinstance(_of_bulk(record), dict)):
                self._add(record.get("_source", record) if isinstance(record, dict) else None, place)
        except _BadRecordError as wrong:
            self.broken.setdefault(str(wrong), []).append(place)

    def _add(self, record: Any, place: tuple[int, int]) -> None:
        if not isinstance(record, dict):
            raise _BadRecordError("no JSON object")
        action = record.get("action_name")
        if action is None:
            if "event_attributes" in record or record.get("query_id") in (None, ""):
                raise _BadRecordError("neither the query_id of a search nor the action_name of an event")
            fields = self._common(record, "search")
            hits = record.get(_HITS) if self.shown is None else None
            if not isinstance(hits, list | None):
                raise _BadRecordError(f"{_HITS} that are no list")
            ids = [self._id("hit", one) for one in hits or ()]
            if None in ids:
                raise _BadRecordError("a hit without an id")
            display = self._display(record, fields, place) if ids else {}
            self.n_searches += 1
            facts = {name: fields[name] for name in ("query", "application", *self.names) if fields[name]}
            self.searches.setdefault(fields["impression"], {}).update(facts)
            self.displays += [display | {"document": one, "position": rank} for rank, one in enumerate(ids, 1)]
            return
        if not isinstance(action, str) or not check.is_id_text(action):
            raise _BadRecordError("an action_name that is no text")
        is_shown, is_click = action in (self.shown or ()), action in self.clicked
        if is_shown or is_click:
            fields = self._common(record, "event")
            document, position = self._id("document", _field(record, _DOCUMENT)), _position(_field(record, _POSITION))
            if is_shown:
                if position is None:
                    raise _BadRecordError("a position that is not an integer from 0")
                at = {"document": document, "position": position}
                self.displays.append(self._display(record, fields, place) | at)
            if is_click:
                self.clicks.setdefault((fields["impression"], document), []).append(position)
        self.actions[action] += 1

    def _common(self, record: Json, kind: str) -> Json:
        """Return the fields that searches and events have."""
        common: Json = {role: self._id(role, _field(record, path), _SCALARS) for role, path in self.names.items()}
        for role, name in (("query", "user_query"), ("application", "application")):
            common[role] = self._id(name, record.get(name))
        return common | {"impression": self._id(f"query_id of {kind}", record.get("query_id"))}

    def _display(self, record: Json, fields: Json, place: tuple[int, int]) -> Json:
        user, time = self._id("client_id", record.get("client_id")), record.get("timestamp")
        time = None if time is None else str(time).encode("ascii", "replace").decode()  # what is not ASCII is no time
        return fields | {"user": user, "time": time, "place": place}

    def _id(self, role: str, value: Any, kinds: Any = str | int) -> str | None:
        """Return an id as text, None where there is none; one that is written as 1 and as "1" may be two."""
        if value is None or value == "":
            return None
        if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not _SCALARS):
            raise _BadRecordError(f"a {role.partition(' ')[0]} that is neither text nor an integer")
        text = str(value)
        if not check.is_id_text(text):
            raise _BadRecordError(f"a {role.partition(' ')[0]} with characters that ids cannot have")
        if self.types.setdefault((role, text), type(value)) is not type(value):
            raise _BadRecordError(f"a {role.partition(' ')[0]} that is text here and a number elsewhere")
        return text

    def joined(self) -> tuple[list[Json], list[str]]:
        """Return a row for each document that was shown with whether it was clicked, and notes on what does not fit."""
        rows: list[Json] = []
        position_of: dict[tuple[str | None, str | None], Any] = {}
        lists: dict[str | None, list[set[Any]]] = {}
        nameless = again = 0
        for display in _in_order(self.displays):
            search, document, position = display["impression"], display["document"], display["position"]
            fields = self.searches.get(search, {})
            row = display | {name: value for name, value in fields.items() if not display[name]}
            if not row["query"]:
                nameless += 1
            elif document is not None and (search, document) in position_of:
                again += 1
            else:
                pages = lists.setdefault(search, [set()])
                if position in pages[-1]:
                    pages.append(set())
                pages[-1].add(position)
                position_of[search, document] = position
                name = search if len(pages) == 1 or search is None else f"{search}, list {len(pages)}"
                clicked = int((search, document) in self.clicks)
                rows.append(row | {"impression": name, "position": position, "clicked": clicked})
        matched = {key: positions for key, positions in self.clicks.items() if key in position_of}
        notes = {
            "displays left out: neither the event nor its search has a user_query": nameless,
            "displays left out: their search had shown the document already": again,
            "clicks left out: no event shows the document in their search": sum(map(len, self.clicks.values()))
            - sum(map(len, matched.values())),
            "further clicks on a document of a search count once": sum(len(one) - 1 for one in matched.values()),
            "documents were clicked at another position than they were shown, and the latter counts": sum(
                positions[0] != position_of[key] for key, positions in matched.items()
            ),
            "searches show several lists, which count as impressions of their own": sum(
                len(pages) > 1 for pages in lists.values()
            ),
        }
        return rows, [f"{amount:,} {what}" for what, amount in notes.items() if amount]


def _field(record: Any, path: str) -> Any:
    for name in path.split("."):
        record = record.get(name) if isinstance(record, dict) else None
    return record


def _of_bulk(record: Json) -> Any:
    """Return what follows index or create in a line of the bulk API."""
    return record.get("index", record.get("create"))


def _position(value: Any) -> int | None:
    """Return a position, as which 1, 1.0 and "1" are the same; None for what is no integer from 0."""
    if isinstance(value, str) and _DIGITS.fullmatch(value.strip()):
        value = int(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and 0 <= value <= LAST_POSITION and value == int(value) else None


def _in_order(displays: Sequence[Json]) -> Sequence[Json]:
    """Return displays in the order of time; those of a search that lacks times stay as they are in the files."""
    times = pl.DataFrame({"time": [one["time"] for one in displays]}, schema={"time": pl.String})
    seconds = times.select(instant(pl.col("time"))).to_series().to_list()
    timeless = {one["impression"] for one, time in zip(displays, seconds, strict=True) if time is None}
    keys = [0.0 if one["impression"] in timeless else time for one, time in zip(displays, seconds, strict=True)]
    return [displays[row] for row in np.argsort(np.array(keys, np.float64), kind="stable")]


class _BadRecordError(Exception):
    """What is wrong with a record."""
