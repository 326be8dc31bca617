"""Texts by id, from JSON lines or tables: queries, and the documents of a corpus that are on a list."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rankwise import check
from rankwise.base.arrays import Json
from rankwise.data.columns import is_text
from rankwise.data.io import file_formats

TextSource = Mapping[str, Any] | str | Path | Callable[[Collection[str]], Mapping[str, Any]]
"""A file, a dictionary of ids and texts, or a function that returns the dictionary of some ids."""

IDS = ("_id", "id", "docid", "doc_id", "query_id", "qid")
"""Fields that may hold the id of a text."""
BODIES = ("text", "contents", "body")
"""Fields that may hold the text of a document."""
_SHOWN = 80


def text_of(value: object) -> str | None:
    """Return the text of a document: a str, or title and text of an object; None where there is none.

    >>> text_of("a hat"), text_of({"title": "Hats", "text": "of all kinds"}), text_of({"colour": "red"})
    ('a hat', 'Hats of all kinds', None)
    """
    if isinstance(value, str):
        return value if is_text(value) else None
    if isinstance(value, Mapping):
        body = next((value[name] for name in BODIES if name in value), None)
        title = value.get("title") or ""
        if is_text(body) and is_text(title):
            return f"{title} {body}".strip()
    return None


def read_texts(source: TextSource, ids: Collection[str] | None = None) -> dict[str, str]:
    r"""Read texts by id: JSON lines with ``_id``, ``text`` and perhaps ``title``, or lines ``id<TAB>text``.

    Of a file, only the texts of ``ids`` are kept: a corpus may be far larger than memory.
    """
    if callable(source):
        source = source(ids or ())
    if isinstance(source, Mapping):
        check.different_as_text("ids of texts", list(source))
        for key, value in source.items():
            if text_of(value) is None:
                raise check.error("a text must be a str", got=repr(value)[:_SHOWN], where=f"id {key!r}")
        return {str(key): str(text_of(value)) for key, value in source.items()}
    texts: dict[str, str] = {}
    for number, key, value in read_records(source):
        if ids is not None and key not in ids:
            continue
        where = f"line {number} of {file_formats.shown(source)}"
        if key in texts:
            raise check.error("an id may stand only once in a file of texts", got=repr(key), where=where)
        text = text_of(value)
        if text is None:
            hint = f"each line must have a text, called {' or '.join(map(repr, BODIES))}"
            raise check.error("there is no text", got=f"the object of id {key!r}", where=where, hint=hint)
        texts[key] = text
    return texts


def read_objects(path: str | Path) -> Iterator[tuple[int, Json]]:
    """Iterate over the objects of a file of JSON lines, with the numbers of their lines."""
    for number, line in file_formats.read_lines(path):
        yield number, _object(line, number, path)


def _object(line: bytes, number: int, path: str | Path) -> Json:
    where = f"line {number} of {file_formats.shown(path)}"
    try:
        value = json.loads(line, object_pairs_hook=file_formats.without_repeats)
    except (ValueError, RecursionError) as broken:
        why = (
            f"{broken.msg.lower().removesuffix(' at')} at column {broken.colno}"
            if isinstance(broken, json.JSONDecodeError)
            else broken
        )
        hint = "write one JSON object on each line, in UTF-8"
        raise check.error("a line cannot be read as JSON", got=why, where=where, hint=hint) from broken
    if not isinstance(value, dict):
        shown = line[:_SHOWN].decode("utf-8", "replace")
        hint = 'write one object on each line, such as {"query": …, "documents": […], "labels": […]}'
        raise check.error("a line must hold a JSON object", got=repr(shown), where=where, hint=hint)
    return value


def id_of(record: Mapping[str, Any], ids: Sequence[str], where: str) -> str:
    """Return the id of a record, from the first of the fields ``ids`` that it has."""
    key = next((record[name] for name in ids if name in record), None)
    if isinstance(key, bool) or not isinstance(key, str | int) or key == "":
        hint = f"name it {' or '.join(map(repr, ids))}: text, or an integer"
        raise check.error("a text must have an id", got=f"{key!r}", where=where, hint=hint)
    return str(key)


def read_records(path: str | Path, ids: Sequence[str] = IDS) -> Iterator[tuple[int, str, object]]:
    """Iterate over line, id and value (a text, or an object) of each record; the first line tells JSON from columns.

    The id of an object is in the first of the fields ``ids`` that it has.
    """
    is_json = None
    for number, line in file_formats.read_lines(path):
        where = f"line {number} of {file_formats.shown(path)}"
        if is_json is None:
            is_json = line.lstrip().startswith(b"{")
        if is_json:
            record = _object(line, number, path)
            yield number, id_of(record, ids, where), record
            continue
        try:
            name, tab, text = line.decode().rstrip("\r\n").partition("\t")
        except UnicodeDecodeError as broken:
            raise check.error("text must be UTF-8", where=where) from broken
        if not tab:
            hint = "a file of texts holds lines 'id<TAB>text', or JSON objects"
            raise check.error("there is no tab in the line", got=repr(name[:_SHOWN]), where=where, hint=hint)
        yield number, name, text.replace("\t", " ")
