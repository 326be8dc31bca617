"""Lists of texts from rows, whatever these were read from: a row holds a whole list, or one document of it."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.arrays import offsets_of
from rankwise.data.columns import COLUMNS
from rankwise.plain import Json, Keywords
from rankwise.rerank.data.columns import Roles
from rankwise.rerank.data.texts import text_of

if TYPE_CHECKING:
    from rankwise.rerank.data.lists import Lists

Made = TypeVar("Made", bound="Lists")

_LETTERS = 60  # of a value in an error
NUMBERS = {
    column.in_text_rows[0]: column.name
    for column in COLUMNS
    if column.per == "document" and column.kind == "number" and column.in_text_rows
}
"""What a row with one document calls a column of numbers, and what it is called for all documents."""


class _List:
    """One list while it is gathered."""

    def __init__(self, query: str, place: int) -> None:
        self.query, self.place = query, place
        self.documents: list[str] = []
        self.places: list[int] = []
        self.ids: dict[Any, None] = {}
        self.numbers: dict[str, list[float]] = {}
        self.weight = 1.0


def gather(
    cls: type[Made], rows: Iterable[tuple[int, Mapping[str, Any]]], roles: Roles, place: Callable[[int], str]
) -> Made:
    """Build lists from numbered rows; ``place`` says where the row of a number is, such as its line.

    Rows with one document each are put together by the id of the query, or by its text where there are no ids; they
    need not lie together.
    """
    lists: list[_List] = []
    known: dict[Any, _List] = {}
    nested: bool | None = None
    for number, row in rows:
        where = place(number)
        values = {role: _cell(row, name, where) for role, name in roles.named.items()}
        if "document" in values:
            is_nested = isinstance(values["document"], list | tuple | np.ndarray)
            if nested is not None and is_nested != nested:
                what = "either every row has one document, or every row has a list of them"
                raise check.error(what, got="both" if nested else "a list after single ones", where=where)
            nested = is_nested
        else:
            nested, values = True, values | _judged(row, roles, where)
        query = _text("query", values["query"], where)
        key = _id("query", values["query_id"], where) if "query_id" in values else None
        group = (query if key is None else key) if not nested or key is not None else number
        one = known.get(group)
        if one is None:
            one = known[group] = _List(query, number)
            lists.append(one)
        elif nested:
            hint = "join the lists of a query, or give the second one another id"
            raise check.error("query ids must all be different", got=f"{key!r} again", where=where, hint=hint)
        elif one.query != query:
            what = "a query has the same text in all rows"
            got = f"{query[:_LETTERS]!r}, and {one.query[:_LETTERS]!r} at {place(one.place)}"
            raise check.error(what, got=got, where=where)
        _add(one, values, number, where, place, nested=bool(nested))
    if not lists:
        raise check.error("there are no rows", hint="give at least one query with its documents")
    return _built(cls, lists, list(known), roles, place)


def _add(one: _List, values: Json, number: int, where: str, place: Callable[[int], str], *, nested: bool) -> None:
    """Put the documents of a row on a list."""
    documents = list(values["document"]) if nested else [values["document"]]
    if not documents:
        raise check.error("every query needs at least one document", where=where, hint="leave such queries out")
    one.documents += [_text("document", value, where) for value in documents]
    one.places += [number] * len(documents)
    for role, name in NUMBERS.items():
        if role in values:
            one.numbers.setdefault(name, []).extend(_numbers(role, values[role], len(documents), where, nested=nested))
    if "document_id" in values:
        for value in _entries("document_id", values["document_id"], len(documents), where, nested=nested):
            key = _id("document", value, where)
            if key in one.ids:
                what = "a document may stand only once under a query"
                raise check.error(what, got=f"{key!r} again", where=where, hint="leave one of the two out")
            one.ids[key] = None
    if "weight" in values:
        weight = _number("weight", values["weight"], where)
        if one.places[0] != number and weight != one.weight:
            what = "a query has the same weight in all rows"
            raise check.error(what, got=f"{weight:g}, and {one.weight:g} at {place(one.place)}", where=where)
        if not 0.0 <= weight < np.inf:
            raise check.error("weights must be finite and not negative", got=f"{weight:g}", where=where)
        one.weight = weight


def _built(cls: type[Made], lists: list[_List], keys: list[Any], roles: Roles, place: Callable[[int], str]) -> Made:
    offsets = offsets_of([len(one.documents) for one in lists])
    columns: Keywords = {
        name: [value for one in lists for value in one.numbers[name]]
        for name in NUMBERS.values()
        if name in lists[0].numbers
    }
    labels = columns.pop("labels", None)
    if "document_id" in roles.named:
        columns["document_ids"] = _alike("document ids", [key for one in lists for key in one.ids])
    if "query_id" in roles.named:
        columns["query_ids"] = _alike("query ids", keys)
    if "weight" in roles.named:
        columns["weights"] = [one.weight for one in lists]
    places = [number for one in lists for number in one.places]
    columns["rows"] = _rows(places)
    documents = (text for one in lists for text in one.documents)
    with check.placing(lambda row: place(places[row])):
        return cls((one.query for one in lists), documents, labels, offsets, **columns)


def _rows(places: list[int]) -> NDArray[np.int64] | None:
    """Return which in the order of the rows each document was; None where they lie so."""
    order = np.argsort(places, kind="stable")
    return None if (np.diff(order) == 1).all() else np.argsort(order)


def _judged(row: Mapping[str, Any], roles: Roles, where: str) -> Json:
    """Put relevant documents, with label 1, and others, with label 0, on one list."""
    documents: list[Any] = []
    labels: list[float] = []
    for names, label in ((roles.positive, 1.0), (roles.negative, 0.0)):
        for name in names:
            value = _cell(row, name, where)
            texts = list(value) if isinstance(value, list | tuple | np.ndarray) else [value]
            documents += texts
            labels += [label] * len(texts)
    return {"document": documents, "label": labels}


def _cell(row: Mapping[str, Any], name: str, where: str) -> Any:
    if name not in row:
        raise check.error(f"there is no {name!r}", where=where, hint="every row has what the first one has")
    return row[name]


def _text(what: str, value: object, where: str) -> str:
    text = text_of(value)
    if text is None:
        raise check.error(f"the {what} must be text", got=_short(value), where=where)
    return text


def _id(what: str, value: object, where: str) -> int | str:
    if isinstance(value, str | int | np.integer) and not isinstance(value, bool):
        return value if isinstance(value, str) else int(value)
    raise check.error(f"the id of a {what} must be an integer or text", got=_short(value), where=where)


def _alike(what: str, ids: list[Any]) -> list[Any]:
    """Return ids of one type: text, unless all are integers."""
    if all(isinstance(one, int) for one in ids):
        return ids
    check.different_as_text(what, ids)
    return [str(one) for one in ids]


def _entries(role: str, value: Any, count: int, where: str, *, nested: bool) -> list[Any]:
    """The values of a column, one for each document of the row."""
    if not nested:
        return [value]
    if not isinstance(value, list | tuple | np.ndarray) or len(value) != count:
        got = f"{len(value)}" if isinstance(value, list | tuple | np.ndarray) else _short(value)
        raise check.error(f"there must be one {role} for each of {count} documents", got=got, where=where)
    return list(value)


def _numbers(role: str, value: Any, count: int, where: str, *, nested: bool) -> list[float]:
    return [_number(role, one, where) for one in _entries(role, value, count, where, nested=nested)]


def _number(role: str, value: object, where: str) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise check.error(f"a {role} must be a number", got=_short(value), where=where) from None


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LETTERS else f"{text[:_LETTERS]}…"
