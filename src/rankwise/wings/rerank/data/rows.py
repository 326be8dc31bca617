"""Lists of texts from rows, whatever these were read from: a row holds a whole list, or one document of it."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from rankwise import check
from rankwise.base.arrays import Json, Keywords, offsets_of
from rankwise.data.columns import COLUMNS
from rankwise.data.io import text_of

if TYPE_CHECKING:
    from rankwise.wings.rerank.data.lists import Lists

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
_PER_DOCUMENT = ("document", *NUMBERS, "document_id")


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
                raise check.unexpected("reading lists of texts", role, check.suggestion(role, _USUAL))
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
            raise self._missing(
                "document", "or name columns of relevant and other documents: `positive=…`, `negative=…`"
            )
        elif "label" not in self.named and not to_score and "teacher_score" not in self.named:
            raise self._missing("label", "or `set to_score=True` if the documents are only to be scored")
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
            hint = check.suggestion(name, self.columns)
            raise check.error(f"there is no column for the role {role}", got=repr(name), hint=hint)
        return name

    def _missing(self, role: str, otherwise: str) -> ValueError:
        listed = ", ".join(map(repr, list(self.columns)[:_SHOWN]))
        hint = f"`set {role}=` to the name of a column" + (f", {otherwise}" if otherwise else "")
        return check.error(f"no column is called {role!r}", got=f"columns {listed or 'of no name'}", hint=hint)


Row = Mapping[str, object]
Id = int | str


def gather(
    cls: type[ListsType], rows: Iterable[tuple[int, Row]], roles: TextRoles, place: Callable[[int], str]
) -> ListsType:
    """Build lists from numbered rows; ``place`` describes where a row is, such as its line, for errors.

    Rows with one document each are joined by the id of the query, or by its text where there are no ids; they need not
    be adjacent.
    """
    heads: list[tuple[str, float, int]] = []  # text, weight and row of each query
    by_query: dict[Id, int] = {}
    documents: dict[str, list[Any]] = {role: [] for role in _PER_DOCUMENT}
    owners: list[int] = []  # the list of each document
    document_rows: list[int] = []
    ids: set[tuple[int, Id]] = set()
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
        key = _id("query_id", values["query_id"], where) if "query_id" in values else None
        group = (query if key is None else key) if not nested or key is not None else number
        weight = _number("weight", values["weight"], where) if "weight" in values else 1.0
        if not 0.0 <= weight < np.inf:
            raise check.error("weights must be finite and not negative", got=f"{weight:g}", where=where)
        owner = by_query.setdefault(group, len(heads))
        if owner == len(heads):
            heads.append((query, weight, number))
        elif nested:
            hint = "join the lists of a query, or give the second one another id"
            raise check.error("query ids must all be different", got=f"{key!r} again", where=where, hint=hint)
        for name, value, earlier in zip(("text", "weight"), (query, weight), heads[owner], strict=False):
            if value != earlier:
                one, other = (_short(fact) if isinstance(fact, str) else f"{fact:g}" for fact in (value, earlier))
                got = f"{one}, and {other} at {place(heads[owner][2])}"
                raise check.error(f"a query has the same {name} in all rows", got=got, where=where)
        count = len(values["document"])
        if not count:
            raise check.error("every query needs at least one document", where=where, hint="leave such queries out")
        owners += [owner] * count
        document_rows += [number] * count
        for role in _PER_DOCUMENT:
            if role in values:
                entries = values[role]
                if not isinstance(entries, list | tuple | np.ndarray) or len(entries) != count:
                    got = f"{len(entries)}" if isinstance(entries, list | tuple | np.ndarray) else _short(entries)
                    raise check.error(f"there must be one {role} for each of {count} documents", got=got, where=where)
                documents[role] += [_CONVERTED.get(role, _number)(role, value, where) for value in entries]
        for identifier in documents["document_id"][-count:]:
            if (owner, identifier) in ids:
                what = "a document may stand only once under a query"
                raise check.error(what, got=f"{identifier!r} again", where=where, hint="leave one of the two out")
            ids.add((owner, identifier))
    if not heads:
        raise check.error("there are no rows", hint="give at least one query with its documents")
    order = np.argsort(owners, kind="stable")
    flat = {role: [values[row] for row in order.tolist()] for role, values in documents.items() if values}
    columns: Keywords = {name: flat[role] for role, name in NUMBERS.items() if role in flat}
    if "document_id" in flat:
        columns["document_ids"] = _of_one_type("document ids", flat["document_id"])
    if "query_id" in roles.named:
        columns["query_ids"] = _of_one_type("query ids", list(by_query))
    if "weight" in roles.named:
        columns["weights"] = [weight for _, weight, _ in heads]
    columns["rows"] = None if (np.diff(order) == 1).all() else order
    with check.placing(lambda row: place(document_rows[order[row]])):
        texts = [query for query, _, _ in heads]
        return cls(texts, flat["document"], offsets=offsets_of(np.bincount(owners)), **columns)


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


def _id(role: str, value: object, where: str) -> Id:
    if isinstance(value, str | int | np.integer) and not isinstance(value, bool):
        return value if isinstance(value, str) else int(value)
    raise check.error(
        f"the id of a {role.removesuffix('_id')} must be an integer or text", got=_short(value), where=where
    )


def _of_one_type(what: str, ids: list[Id]) -> list[Id]:
    """Return ids of one type: text, unless all are integers."""
    if all(isinstance(key, int) for key in ids):
        return ids
    check.different_as_text(what, ids)
    return [str(key) for key in ids]


def _number(role: str, value: object, where: str) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise check.error(f"a {role} must be a number", got=_short(value), where=where) from None


_CONVERTED: dict[str, Callable[[str, object, str], object]] = {"document": _text, "document_id": _id}


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LETTERS else f"{text[:_LETTERS]}…"
