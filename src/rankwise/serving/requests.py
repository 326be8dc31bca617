"""Documents of requests: from JSON to a matrix with the columns of training, or an error that names the place."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple, NoReturn

import numpy as np

from rankwise import check
from rankwise.arrays import Floats, Json
from rankwise.data.categories import is_numeric
from rankwise.data.dataset import RankingDataset
from rankwise.rankers.schema import Schema
from rankwise.sparse import dense

_KEYS = ("documents", "features", "rows", "id", "ids", "labels")
_NUMBERS = {float, int, bool, type(None)}
_FORM = 'pass {"documents": [{"feature": value, …}, …]} or {"features": [name, …], "rows": [[value, …], …]}'


class RequestError(ValueError):
    """A request that is not answered: its HTTP status, and the parts of the sentence."""

    def __init__(self, status: int, what: str, *, got: object = None, where: str = "", hint: str = "") -> None:
        super().__init__(check.error(what, got=got, where=where, hint=hint).args[0])
        self.status = status
        self.parts = {"what": what, "got": None if got is None else str(got), "where": where, "hint": hint}

    @classmethod
    def of(cls, wrong: ValueError) -> "RequestError":
        """Return an error of the package as the answer to a request."""
        start, _, hint = str(wrong).partition(" Hint: ")
        what, _, got = start.rstrip(".").partition(": got ")
        return wrong if isinstance(wrong, cls) else cls(422, what, got=got or None, hint=hint.rstrip("."))


class Query(NamedTuple):
    """The documents of one query."""

    features: Floats
    query: dict[str, Any]
    """The request's own words: ids and labels where it has some."""


class Reader:
    """Reads requests for one model: columns by name in any order, categories by value, null for a missing value.

    >>> reader = Reader(Schema(2, ("colour", "size"), categorical=(0,), categories={0: ("red", "blue")}))
    >>> (query,) = reader.read({"documents": [{"size": 3, "colour": "blue"}, {"size": None, "colour": "pink"}]}, 10)
    >>> query.features
    array([[ 1.,  3.],
           [nan, nan]], dtype=float32)
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._codes = {
            column: {value: float(code) for code, value in enumerate(values)}
            for column, values in schema.categories.items()
        }
        self._order = lru_cache(maxsize=64)(self._places)

    def read(self, body: object, most: int) -> list[Query]:
        """Return the queries of a request with ``most`` documents in all; a body is one query, or a list of them."""
        if not isinstance(body, dict):
            raise RequestError(422, "a request must be a JSON object", got=type(body).__name__, hint=_FORM)
        if "queries" not in body:
            parts, places = [body], [""]
        elif len(body) == 1 and isinstance(body["queries"], list):
            parts, places = body["queries"], [f"queries[{number}]." for number in range(len(body["queries"]))]
        else:
            raise RequestError(422, "queries must be a list, and nothing stands beside it", got=", ".join(body))
        queries = []
        for part, place in zip(parts, places, strict=True):
            queries.append(self._query(part, place, most))
            most -= len(queries[-1].features)
        return queries

    def _query(self, query: Any, place: str, most: int) -> Query:
        if not isinstance(query, dict) or ("documents" in query) == ("rows" in query):
            got = ", ".join(query) or "nothing" if isinstance(query, dict) else type(query).__name__
            raise RequestError(422, "a query must have either documents or rows", got=got, where=place, hint=_FORM)
        for key in query.keys() - set(_KEYS):
            raise RequestError(422, "unknown key of a query", got=repr(key), hint=check.suggestion(key, _KEYS))
        name = "documents" if "documents" in query else "rows"
        rows, kind, place = query[name], dict if name == "documents" else list, place + name
        if not isinstance(rows, list) or not set(map(type, rows)) <= {kind}:
            what = f"{name} must be a list of JSON {'objects' if kind is dict else 'arrays'}"
            raise RequestError(422, what, where=place, hint=_FORM)
        if len(rows) > most:
            hint = "send fewer documents at a time, or start the service with a larger limit"
            raise RequestError(422, "the request has too many documents", got=f"{len(rows)} of {most}", hint=hint)
        for key, kinds in {"ids": {str, int}, "labels": _NUMBERS}.items():
            values = query.get(key, [])
            if not isinstance(values, list) or (key in query and len(values) != len(rows)):
                raise RequestError(422, f"{key} must be a list with a value for each document", where=place)
            if not set(map(type, values)) <= kinds or (key == "ids" and len(set(map(str, values))) < len(values)):
                what = "ids must be text or whole numbers, all different" if key == "ids" else "labels must be numbers"
                raise RequestError(422, what, where=place)
        if not rows:
            return Query(np.empty((0, self.schema.count), np.float32), query)
        names = query.get("features")
        if kind is dict:
            names = list(rows[0])
            rows = _values(rows, names, place)
        return Query(self._matrix(rows, names, place), query)

    def _matrix(self, rows: list[Sequence[Any]], names: Any, place: str) -> Floats:
        """Return rows of values as a matrix with the columns of training."""
        if names is None or self.schema.names is None:
            if names is not None or self.schema.names is not None:
                what = "the model knows its features by their " + ("names" if names is None else "numbers alone")
                hint = (
                    "name the columns of rows in features" if names is None else "pass rows, in the order of training"
                )
                raise RequestError(422, what, got="rows without names" if names is None else "names", hint=hint)
            order = tuple(range(self.schema.count))
        else:
            if not isinstance(names, list) or not set(map(type, names)) <= {str}:
                raise RequestError(422, "features must be a list of names", got=_shown(names))
            order = self._order(tuple(names))
        if set(map(len, rows)) != {len(order)}:
            row = next(number for number, values in enumerate(rows) if len(values) != len(order))
            what = f"a row must have a value for each of {len(order)} features"
            raise RequestError(422, what, got=len(rows[row]), where=f"{place}[{row}]")
        if self._codes:
            rows = self._coded(rows, order, place)
        with np.errstate(over="ignore"):  # infinite in float32, for predict too
            try:
                matrix = np.array(rows)
            except ValueError:  # lists among numbers
                matrix = np.empty(0, object)
            if matrix.ndim != 2 or matrix.dtype.kind not in "fiub":  # null, or what is no number
                if not set(map(type, chain.from_iterable(rows))) <= _NUMBERS:
                    self._reject_value(rows, order, place)
                matrix = np.array(rows, np.float32)
            matrix = matrix.astype(np.float32, copy=False)
        return matrix if order == tuple(range(len(order))) else np.ascontiguousarray(matrix[:, order])

    def _places(self, names: tuple[str, ...]) -> tuple[int, ...]:
        """Return where each feature of training is among the names of a request."""
        if len(set(names)) < len(names):
            got = next(name for place, name in enumerate(names) if name in names[:place])
            raise RequestError(422, "features must name each column once", got=f"{got!r} again")
        try:
            order = tuple(self.schema.places(names))
        except ValueError as missing:
            raise RequestError.of(missing) from None
        for place in sorted({*range(len(names))} - set(order)):
            hint = check.suggestion(names[place], self.schema.names or ())
            hint = hint if hint.startswith("did") else "leave it out: GET /models lists the features of each model"
            raise RequestError(422, "the model has no such feature", got=repr(names[place]), hint=hint)
        return order

    def _coded(self, rows: list[Sequence[Any]], order: tuple[int, ...], place: str) -> list[Sequence[Any]]:
        """Replace the values of categories by their codes."""
        coded = [list(row) for row in rows]
        for column, codes in self._codes.items():
            numeric = is_numeric(self.schema.categories[column])
            for number, row in enumerate(coded):
                value = row[order[column]]
                if value is not None and (isinstance(value, list | dict) or isinstance(value, str) == numeric):
                    what = f"categories must be {'numbers' if numeric else 'text'}, as in training"
                    where = f"{place}[{number}], {self.schema.name(column)}"
                    raise RequestError(422, what, got=_shown(value), where=where)
                row[order[column]] = codes.get(value)
        return list(coded)

    def _reject_value(self, rows: list[Sequence[Any]], order: tuple[int, ...], place: str) -> NoReturn:
        number, column = next(
            (number, order.index(j)) for number, row in enumerate(rows) for j, value in enumerate(row)
            if type(value) not in _NUMBERS
        )  # fmt: skip
        got, where = _shown(rows[number][order[column]]), f"{place}[{number}], {self.schema.name(column)}"
        raise RequestError(422, "a value must be a number, or null where it is missing", got=got, where=where)

    def dataset(self, query: Query) -> RankingDataset:
        """Return a query as data to explain; documents without labels are not judged."""
        count, schema = len(query.features), self.schema
        labels = query.query.get("labels", [None] * count)
        return RankingDataset(
            query.features,
            [label or 0.0 for label in labels],
            [0, count],
            judged=[label is not None for label in labels],
            query_ids=[str(query.query.get("id", "0"))],
            document_ids=[str(name) for name in query.query.get("ids", range(count))],
            feature_names=schema.names,
            categorical=schema.categorical,
            categories=schema.categories,
        )


def _values(documents: list[dict[str, Any]], names: list[str], place: str) -> list[Sequence[Any]]:
    """Return the values of documents in the order of ``names``, which all of them have, and no others."""
    if len(names) < 2:
        values: Any = lambda document: tuple(document[name] for name in names)  # noqa: E731
    else:
        values = itemgetter(*names)  # ten times as fast as a loop
    try:
        if set(map(len, documents)) == {len(names)}:
            return list(map(values, documents))
    except KeyError:
        pass
    number, other = next((n, one) for n, one in enumerate(documents) if one.keys() != documents[0].keys())
    name = next(iter(documents[0].keys() ^ other.keys()))
    got = f"{name!r} in {'this one' if name in other else 'the first'} alone"
    hint = "pass null for a value that is missing"
    raise RequestError(422, "all documents must have the same features", got=got, where=f"{place}[{number}]", hint=hint)


def examples(data: RankingDataset, most: int = 50) -> list[Json]:
    """Return the first queries of a data set in the form of requests, with ids and labels.

    >>> data = RankingDataset([[0.1, 1], [np.nan, 0]], [2, 0], [0, 2], categorical=[1], categories={1: ("red", "blue")})
    >>> examples(data)
    [{'id': 0, 'ids': [0, 1], 'labels': [2.0, 0.0], 'rows': [[0.1, 'blue'], [None, 'red']]}]
    """

    def value(number: np.float32, column: int) -> float | str | None:
        listed = data.categories.get(column)
        return None if np.isnan(number) else listed[int(number)] if listed else float(str(number))

    queries: list[Json] = []
    for number in range(min(most, data.n_queries)):
        one = data.take([number])
        judged = np.ones(one.n_docs) if one.judged is None else one.judged
        queries.append(
            {
                "id": number if one.query_ids is None else one.query_ids[0].item(),
                "ids": list(range(one.n_docs)) if one.document_ids is None else one.document_ids.tolist(),
                "labels": [
                    label if seen == 1 else None for label, seen in zip(one.labels.tolist(), judged, strict=True)
                ],
                **({} if data.feature_names is None else {"features": list(data.feature_names)}),
                "rows": [[value(x, j) for j, x in enumerate(row)] for row in dense(one.features)],
            }
        )
    return queries


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
