"""Lists of texts from rows, whatever these were read from: a row holds a whole list, or one document of it."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict, TypeVar

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.arrays import Json, Keywords, offsets_of
from rankwise.data.columns import COLUMNS
from rankwise.rerank.data.texts import text_of

if TYPE_CHECKING:
    from rankwise.rerank.data.lists import Lists

ListsType = TypeVar("ListsType", bound="Lists")

_LETTERS = 60  # of a value, in an error
NUMBERS = {
    column.in_text_rows[0]: column.name
    for column in COLUMNS
    if column.per == "document" and column.kind == "number" and column.in_text_rows
}
"""Names of columns of numbers: in a row with one document, and for all documents."""
Names = str | Sequence[str] | None

_SHOWN = 20  # columns in an error
_USUAL = {
    column.in_text_rows[0]: column.in_text_rows
    for column in sorted(COLUMNS, key=lambda column: column.kind != "text")  # errors name texts first
    if column.in_text_rows
}
"""Usual names of the column of each role."""
_PER_DOCUMENT = [column.in_text_rows[0] for column in COLUMNS if column.in_text_rows and column.per == "document"]


class TextColumns(TypedDict, total=False):
    """Names of the columns of rows with texts; see :func:`rankwise.rerank.read`."""

    query: str | None
    document: str | None
    label: str | None
    query_id: str | None
    document_id: str | None
    teacher_score: str | None
    document_weight: str | None
    propensity: str | None
    weight: str | None
    positive: Names
    negative: Names
    to_score: bool


class TextRoles:
    """The column of each role: as named, or by its usual name."""

    def __init__(
        self,
        columns: Collection[str],
        *,
        positive: Names = None,
        negative: Names = None,
        to_score: bool = False,
        **named: str | None,
    ) -> None:
        self.columns = columns
        self.named: dict[str, str] = {}
        for role in named:
            if role not in _USUAL:
                raise check.unexpected("reading lists of texts", role, check.suggestion(role, _USUAL).rstrip("?"))
        for role, usual in _USUAL.items():
            name = named.get(role)
            if name is not None:
                self.named[role] = self._present(name, role)
            elif column := next((spelling for spelling in usual if spelling in columns), None):
                self.named[role] = column
        self.positive, self.negative = self._several(positive, "positive"), self._several(negative, "negative")
        if self.positive or self.negative:
            self.named = {role: name for role, name in self.named.items() if role in ("query", "query_id", "weight")}
        elif "document" not in self.named:
            raise self._missing("document", "or name columns of relevant and other documents: positive=…, negative=…")
        elif "label" not in self.named and not to_score and "teacher_score" not in self.named:
            raise self._missing("label", "or set to_score=True if the documents are only to be scored")
        if "query" not in self.named:
            raise self._missing("query", "")

    @property
    def used(self) -> list[str]:
        """Columns that are read."""
        return list(dict.fromkeys((*self.named.values(), *self.positive, *self.negative)))

    def _several(self, names: Names, role: str) -> list[str]:
        return [self._present(name, role) for name in ([names] if isinstance(names, str) else names or ())]

    def _present(self, name: str, role: str) -> str:
        if name not in self.columns:
            hint = check.suggestion(name, self.columns).rstrip("?")
            raise check.error(f"there is no column for the role {role}", got=repr(name), hint=hint)
        return name

    def _missing(self, role: str, otherwise: str) -> ValueError:
        listed = ", ".join(map(repr, list(self.columns)[:_SHOWN]))
        hint = f"set {role}= to the name of a column" + (f", {otherwise}" if otherwise else "")
        return check.error(f"no column is called {role!r}", got=f"columns {listed or 'of no name'}", hint=hint)


Row = Mapping[str, object]
Id = int | str


class _List:
    """One list while it is built."""

    def __init__(self, query: str, row: int) -> None:
        self.query, self.row = query, row
        self.documents: list[str] = []
        self.rows: list[int] = []
        self.ids: dict[Id, None] = {}
        self.numbers: dict[str, list[float]] = {}
        self.weight = 1.0


def gather(
    cls: type[ListsType], rows: Iterable[tuple[int, Row]], roles: TextRoles, place: Callable[[int], str]
) -> ListsType:
    """Build lists from numbered rows; ``place`` describes where a row is, such as its line, for errors.

    Rows with one document each are joined by the id of the query, or by its text where there are no ids; they need not
    be adjacent.
    """
    lists: list[_List] = []
    by_query: dict[Id, _List] = {}
    nested: bool | None = None
    for number, row in rows:
        where = place(number)
        values: Json = {role: _cell(row, name, where) for role, name in roles.named.items()}
        if "document" in values:
            is_nested = isinstance(values["document"], list | tuple | np.ndarray)
            if nested is not None and is_nested != nested:
                what = "either every row has one document, or every row has a list of them"
                raise check.error(what, got="both" if nested else "a list after single ones", where=where)
            nested = is_nested
            if not nested:
                values |= {role: [values[role]] for role in _PER_DOCUMENT if role in values}
        else:
            nested, values = True, values | _judged(row, roles, where)
        query = _text("query", values["query"], where)
        key = _id("query", values["query_id"], where) if "query_id" in values else None
        group = (query if key is None else key) if not nested or key is not None else number
        entry = by_query.get(group)
        if entry is None:
            entry = by_query[group] = _List(query, number)
            lists.append(entry)
        elif nested:
            hint = "join the lists of a query, or give the second one another id"
            raise check.error("query ids must all be different", got=f"{key!r} again", where=where, hint=hint)
        elif entry.query != query:
            what = "a query has the same text in all rows"
            got = f"{query[:_LETTERS]!r}, and {entry.query[:_LETTERS]!r} at {place(entry.row)}"
            raise check.error(what, got=got, where=where)
        _add(entry, values, number, where, place)
    if not lists:
        raise check.error("there are no rows", hint="give at least one query with its documents")
    return _built(cls, lists, list(by_query), roles, place)


def _add(entry: _List, values: Json, number: int, where: str, place: Callable[[int], str]) -> None:
    """Append the documents of a row to a list."""
    documents = list(values["document"])
    if not documents:
        raise check.error("every query needs at least one document", where=where, hint="leave such queries out")
    entry.documents += [_text("document", value, where) for value in documents]
    entry.rows += [number] * len(documents)
    for role, name in NUMBERS.items():
        if role in values:
            entries = _entries(role, values[role], len(documents), where)
            entry.numbers.setdefault(name, []).extend(_number(role, value, where) for value in entries)
    if "document_id" in values:
        for value in _entries("document_id", values["document_id"], len(documents), where):
            key = _id("document", value, where)
            if key in entry.ids:
                what = "a document may stand only once under a query"
                raise check.error(what, got=f"{key!r} again", where=where, hint="leave one of the two out")
            entry.ids[key] = None
    if "weight" in values:
        weight = _number("weight", values["weight"], where)
        if entry.rows[0] != number and weight != entry.weight:
            what = "a query has the same weight in all rows"
            raise check.error(what, got=f"{weight:g}, and {entry.weight:g} at {place(entry.row)}", where=where)
        if not 0.0 <= weight < np.inf:
            raise check.error("weights must be finite and not negative", got=f"{weight:g}", where=where)
        entry.weight = weight


def _built(
    cls: type[ListsType], lists: list[_List], keys: list[Id], roles: TextRoles, place: Callable[[int], str]
) -> ListsType:
    offsets = offsets_of([len(entry.documents) for entry in lists])
    columns: Keywords = {
        name: [value for entry in lists for value in entry.numbers[name]]
        for name in NUMBERS.values()
        if name in lists[0].numbers
    }
    labels = columns.pop("labels", None)
    if "document_id" in roles.named:
        columns["document_ids"] = _of_one_type("document ids", [key for entry in lists for key in entry.ids])
    if "query_id" in roles.named:
        columns["query_ids"] = _of_one_type("query ids", keys)
    if "weight" in roles.named:
        columns["weights"] = [entry.weight for entry in lists]
    numbers = [number for entry in lists for number in entry.rows]
    columns["rows"] = _rows(numbers)
    documents = (text for entry in lists for text in entry.documents)
    with check.placing(lambda row: place(numbers[row])):
        return cls((entry.query for entry in lists), documents, labels, offsets, **columns)


def _rows(numbers: list[int]) -> NDArray[np.int64] | None:
    """Return the place of each document in the order of the rows; None where that is the order of the lists."""
    order = np.argsort(numbers, kind="stable")
    return None if (np.diff(order) == 1).all() else np.argsort(order)


def _judged(row: Row, roles: TextRoles, where: str) -> Json:
    """Return one list of the relevant documents, with label 1, and the others, with label 0."""
    documents: list[object] = []
    labels: list[float] = []
    for names, label in ((roles.positive, 1.0), (roles.negative, 0.0)):
        for name in names:
            value = _cell(row, name, where)
            texts = list(value) if isinstance(value, list | tuple | np.ndarray) else [value]
            documents += texts
            labels += [label] * len(texts)
    return {"document": documents, "label": labels}


def _cell(row: Row, name: str, where: str) -> object:
    if name not in row:
        raise check.error(f"there is no {name!r}", where=where, hint="every row has what the first one has")
    return row[name]


def _text(what: str, value: object, where: str) -> str:
    text = text_of(value)
    if text is None:
        raise check.error(f"the {what} must be text", got=_short(value), where=where)
    return text


def _id(what: str, value: object, where: str) -> Id:
    if isinstance(value, str | int | np.integer) and not isinstance(value, bool):
        return value if isinstance(value, str) else int(value)
    raise check.error(f"the id of a {what} must be an integer or text", got=_short(value), where=where)


def _of_one_type(what: str, ids: list[Id]) -> list[Id]:
    """Return ids of one type: text, unless all are integers."""
    if all(isinstance(key, int) for key in ids):
        return ids
    check.different_as_text(what, ids)
    return [str(key) for key in ids]


def _entries(role: str, value: object, count: int, where: str) -> list[object]:
    """Return the values of a column, one for each document of the row."""
    if not isinstance(value, list | tuple | np.ndarray) or len(value) != count:
        got = f"{len(value)}" if isinstance(value, list | tuple | np.ndarray) else _short(value)
        raise check.error(f"there must be one {role} for each of {count} documents", got=got, where=where)
    return list(value)


def _number(role: str, value: object, where: str) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise check.error(f"a {role} must be a number", got=_short(value), where=where) from None


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LETTERS else f"{text[:_LETTERS]}…"
