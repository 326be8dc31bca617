"""Reading OpenSearch's User Behavior Insights: searches and events as JSON lines."""

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import polars as pl

from rankwise import check
from rankwise.arrays import Json
from rankwise.clicks.logs.days import day
from rankwise.clicks.logs.log import Log
from rankwise.clicks.logs.reading import LogRows, add_up, left_out
from rankwise.data.compressed import read_lines
from rankwise.statistics.tables import count

_DOCUMENT, _POSITION = "event_attributes.object.object_id", "event_attributes.position.ordinal"
_HITS = "query_response_hit_ids"
_NAMED = 6  # actions in a note


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
    What cannot be joined is left out, with its number in ``log.notes``. Days are those of ``timestamp`` in UTC, if all
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
    records = _Records(frozenset(clicked), frozenset(shown or ()), names)
    paths = [check.readable(path) for path in files]
    for number, path in enumerate(paths):
        for line, content in read_lines(path):
            records.add_line(content, (number, line))
    searches, events = count(records.n_searches, "search", "searches"), count(records.actions.total(), "event")
    common = ", ".join(f"{amount:,} {action}" for action, amount in records.actions.most_common(_NAMED))
    notes = [f"{searches} and {events} read" + (f": {common}" if common else "")]
    if records.broken:
        where = [f"{paths[number]}, line {line}" for number, line in records.broken]
        lines = records.actions.total() + records.n_searches + len(records.broken)
        notes += left_out({"no JSON object": len(records.broken)}, lines, where, errors)
    displays = records.displays if shown is not None else records.hits
    if not displays:
        what = "events that report what was shown" if shown is not None else f"searches with {_HITS}"
        hint = f"`set shown=…`, some of {', '.join(map(repr, records.actions))}, or None for the searches' hits"
        raise check.error(f"a click log needs {what}", got="none", hint=hint)
    table, more = records.joined(displays)
    if not table:
        raise check.error("searches must have the text of their query", got="; ".join(more), hint="add the queries")
    frame = pl.DataFrame(
        table, schema_overrides=dict.fromkeys(("position", "time"), pl.String()), infer_schema_length=None
    )
    if timeless := frame.select(day(pl.col("time"), pl.String()).is_null().sum()).item():
        if frame["time"].count():
            more += [f"times are not known: {timeless:,} displays have no timestamp that can be read"]
        frame = frame.drop("time")
    if strangers := frame["user"].null_count():
        more += [f"users are not known: {strangers:,} displays have no client_id"]
        frame = frame.drop("user")
    return add_up(
        LogRows(
            frame.drop("place").lazy(), lambda row: f"{paths[table[row]['place'][0]]}, line {table[row]['place'][1]}"
        ),
        by="application",
        first=first if shown is not None else 1,
        sessions=sessions,
        errors=errors,
        notes=(*notes, *more),
    )


@dataclass
class _Records:
    """What was read of searches and events."""

    clicked: frozenset[str]
    shown: frozenset[str]
    names: dict[str, str]
    n_searches: int = 0
    actions: Counter[str] = field(default_factory=Counter)
    searches: dict[str | None, Json] = field(default_factory=dict)
    """Fields of each search."""
    displays: list[Json] = field(default_factory=list)
    hits: list[Json] = field(default_factory=list)
    clicks: dict[tuple[str | None, str | None], list[Any]] = field(default_factory=dict)
    """The positions of clicks, by search and document."""
    broken: list[tuple[int, int]] = field(default_factory=list)

    def add_line(self, content: bytes, place: tuple[int, int]) -> None:
        """Add the search or event of a line; a line of the bulk API that names the index has none."""
        try:
            record = json.loads(content)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            self.broken.append(place)
        elif not (len(record) == 1 and next(iter(record)) in {"index", "create"}):
            self._add(record.get("_source", record), place)

    def _add(self, record: Json, place: tuple[int, int]) -> None:
        search = _text(record.get("query_id"))
        common = {"query": record.get("user_query"), "application": record.get("application")}
        common |= {role: _text(_field(record, path)) for role, path in self.names.items()}
        display = common | {
            "impression": search,
            "user": _text(record.get("client_id")),
            "time": _text(record.get("timestamp")),
            "place": place,
        }
        if "action_name" not in record:
            self.n_searches += 1
            self.searches.setdefault(search, {}).update({name: value for name, value in common.items() if value})
            ids = enumerate(record.get(_HITS) or (), 1)
            self.hits += [display | {"document": _text(one), "position": rank} for rank, one in ids]
            return
        action = str(record["action_name"])
        self.actions[action] += 1
        document, position = _text(_field(record, _DOCUMENT)), _field(record, _POSITION)
        if action in self.shown:
            self.displays.append(display | {"document": document, "position": position})
        if action in self.clicked:
            self.clicks.setdefault((search, document), []).append(position)

    def joined(self, displays: Sequence[Json]) -> tuple[list[Json], list[str]]:
        """Return a row for each document that was shown with whether it was clicked, and notes on what does not fit."""
        rows: list[Json] = []
        position_of: dict[tuple[str | None, str | None], Any] = {}
        lists: dict[str | None, list[set[Any]]] = {}
        nameless = again = 0
        for display in sorted(displays, key=lambda one: str(one["time"])):  # files are not in the order of time
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
                rows.append(row | {"impression": name, "position": _text(position), "clicked": clicked})
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
    """Return a field within fields, None where there is none."""
    for name in path.split("."):
        record = record.get(name) if isinstance(record, dict) else None
    return record


def _text(value: Any) -> str | None:
    return None if value is None or value == "" else str(value)
