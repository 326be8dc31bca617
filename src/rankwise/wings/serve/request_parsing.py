"""Documents of requests: from JSON to a matrix with the columns of training, or an error that names the place."""

import json
import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

import numpy as np
import orjson

from rankwise import RankingDataset, check
from rankwise.base.arrays import Floats, Json
from rankwise.check.parameters import AtLeast, Option
from rankwise.data import to_frame
from rankwise.data.categories import is_numeric
from rankwise.models import Schema

_KEYS = ("documents", "features", "rows", "id", "ids", "labels")
_NUMBERS = {float, int, bool, type(None)}
LONG = 100  # characters of a name, and names beyond those of the model, that an error looks at
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"\s*(:?)', re.DOTALL)  # and whether it is a key
_NO_NUMBER = re.compile(rb"(?<![\w\"])-?(?:nan|inf|infinity)(?![\w\"])", re.IGNORECASE)
_MISSING = "write null where a value is missing"
_HINT = 'pass {"documents": [{"feature": value, …}, …]} or {"features": [name, …], "rows": [[value, …], …]}'


@dataclass(frozen=True)
class RequestLimits:
    """Limits of one request."""

    megabytes: Annotated[
        float, AtLeast(0), "Size of a request at most; larger ones are rejected with status 413.",
        Option("max-megabytes"),
    ] = 16.0  # fmt: skip
    documents: Annotated[
        int, AtLeast(1), "Documents of a request at most; more are rejected with status 422.", Option("max-documents")
    ] = 10_000
    seconds: Annotated[
        float, AtLeast(0.001), "Seconds for a request, which then ends with status 504, and for a graceful stop.",
        Option("timeout"),
    ] = 10.0  # fmt: skip


class RequestError(check.InputError):
    """A request that is not answered, and its HTTP status."""

    def __init__(self, status: int, what: str, *, got: object = None, where: str = "", hint: str = "") -> None:
        super().__init__(check.error(what, got=got, where=where, hint=hint).message)
        self.status = status


class RequestedQuery(NamedTuple):
    """The documents of one query, and the request's own words: ids and labels where it has some."""

    features: Floats
    words: Json
    unknown: Mapping[int, int] = MappingProxyType({})
    """Categorical column -> how many of its values training did not see."""


def parse(body: bytes) -> Any:
    """Read JSON in which no object names a key twice.

    >>> parse(b'{"rows": [[1]]}')
    {'rows': [[1]]}
    >>> parse(b'{"rows": [], "rows": [[1]]}')
    Traceback (most recent call last):
    rankwise.wings.serve.request_parsing.RequestError: an object has the same key twice: got 'rows'. Hint: keep one ...
    """
    try:
        request = orjson.loads(body)
    except orjson.JSONDecodeError as broken:
        hint = _MISSING if _NO_NUMBER.search(body, max(broken.pos - 2, 0)) else ""
        raise RequestError(400, "the body is not JSON", got=str(broken)[:LONG], hint=hint) from None
    # Each key has a colon, and strings may have further ones: as many colons as keys means that no key came twice
    colons = np.count_nonzero(
        np.frombuffer(body, np.uint8) == ord(":")
    )  # body.count takes a quarter of the parser's time
    maybe = colons != _keys_and_colons(request) or (b"\\" in body and b"\\u003" in body)  # the first is a quick look
    if maybe and sum(map(len, _STRING.findall(body))) > _count_keys(request):
        what, hint = "an object has the same key twice", "keep one of the two"
        raise RequestError(400, what, got=_repeated_key(body), hint=hint)
    return request


def _keys_and_colons(request: Any) -> int:
    """Count the keys of a request as it should be, and the colons of its ids."""
    parts = request.get("queries", ()) if isinstance(request, dict) else ()
    count = 0
    for part in (request, *parts) if isinstance(parts, list) else (request,):
        if isinstance(part, dict):
            documents, ids = part.get("documents", ()), part.get("ids", ())
            count += len(part) + str(part.get("id")).count(":")
            if isinstance(documents, list) and set(map(type, documents)) == {dict}:
                count += sum(map(len, documents))
            if isinstance(ids, list) and set(map(type, ids)) == {str}:
                count += "".join(ids).count(":")
    return count


def _count_keys(value: Any) -> int:
    """Count the keys of all objects in a value of JSON, however deep."""
    count, left = 0, [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            count += len(one)
            one = one.values()
        if not isinstance(one, str | int | float | None):
            left.extend(inner for inner in one if isinstance(inner, list | dict))
    return count


def _repeated_key(body: bytes) -> str | None:
    """Return the key that an object has twice; None where it is nested too deeply for Python's own reader."""

    def first(pairs: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise KeyError(key)
            seen.add(key)

    try:
        json.loads(body, object_pairs_hook=first)
    except KeyError as repeated:
        return shown(repeated.args[0])
    except RecursionError:
        pass
    return None


class RequestReader:
    """Reads requests for one model: columns by name in any order, categories by value, null for a missing value.

    >>> reader = RequestReader(Schema(2, ("colour", "size"), categorical=(0,), categories={0: ("red", "blue")}))
    >>> (query,) = reader.read({"documents": [{"size": 3, "colour": "blue"}, {"size": None, "colour": "pink"}]}, 10)
    >>> query.features
    array([[ 1.,  3.],
           [nan, nan]], dtype=float32)
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._longest = LONG + max(map(len, schema.names or ("",)), default=0)
        self._codes = {
            column: ({value: code for code, value in enumerate(values)}, is_numeric(list(values)))
            for column, values in schema.categories.items()
        }
        self._order = lru_cache(maxsize=64)(self._places)

    def read(self, body: Any, most: int) -> list[RequestedQuery]:
        """Return the queries of a request with ``most`` documents in all; a body is one query, or a list of them."""
        parts: Any = body.get("queries", [body]) if isinstance(body, dict) else None
        if not isinstance(body, dict) or not isinstance(parts, list) or ("queries" in body and len(body) > 1):
            raise RequestError(422, "a request must be one query, or an object with a list of queries", hint=_HINT)
        if len(parts) > most:
            raise _too_many("queries", len(parts), most)
        queries = []
        for number, part in enumerate(parts):
            queries.append(self._query(part, f"queries[{number}]." if "queries" in body else "", most))
            most -= len(queries[-1].features)
        return queries

    def _query(self, query: Any, place: str, most: int) -> RequestedQuery:
        if not isinstance(query, dict) or ("documents" in query) == ("rows" in query):
            what, got = "a query must be an object with either documents or rows", shown(query)
            raise RequestError(422, what, got=got, where=place.rstrip("."), hint=_HINT)
        for key in query.keys() - set(_KEYS):
            raise RequestError(422, "unknown key of a query", got=shown(key), hint=check.suggestion(key[:LONG], _KEYS))
        if "documents" in query and "features" in query:
            raise RequestError(422, "documents name their features themselves", where=place.rstrip("."), hint=_HINT)
        name, kind = ("documents", dict) if "documents" in query else ("rows", list)
        rows, place = query[name], place + name
        if not isinstance(rows, list) or not set(map(type, rows)) <= {kind}:
            raise RequestError(422, f"{name} must be a list of JSON {kind.__name__}s", where=place, hint=_HINT)
        if len(rows) > most:
            raise _too_many("documents", len(rows), most)
        if type(query.get("id", 0)) not in (str, int):
            what, hint = "an id must be text or a whole number", 'write {"id": "q1", …}, or leave it out'
            raise RequestError(400, what, got=shown(query["id"]), where=place.removesuffix(name) + "id", hint=hint)
        _check_column("ids", query, {str, int}, len(rows))
        _check_column("labels", query, _NUMBERS, len(rows))
        if not rows:
            return RequestedQuery(np.empty((0, self.schema.count), np.float32), query)
        names: Any = list(rows[0]) if kind is dict else query.get("features")
        values = _values(rows, names, place) if kind is dict else rows
        unknown: dict[int, int] = {}
        return RequestedQuery(self._matrix(values, names, place, unknown), query, unknown)

    def _matrix(self, rows: list[Sequence[Any]], names: Any, place: str, unknown: dict[int, int]) -> Floats:
        """Return rows of values as a matrix with the columns of training; unknown categories are counted."""
        if (names is None) != (self.schema.names is None):
            what = "the model knows its features by their " + ("names" if names is None else "numbers alone")
            raise RequestError(422, what, hint="name the columns in features" if names is None else "pass rows alone")
        if names is not None and (not isinstance(names, list) or not set(map(type, names)) <= {str}):
            raise RequestError(422, "features must be a list of names", got=shown(names))
        order = tuple(range(self.schema.count)) if names is None else self._order(tuple(names))
        if set(map(len, rows)) != {len(order)}:
            row = next(number for number, values in enumerate(rows) if len(values) != len(order))
            what = f"a row must have a value for each of {len(order)} features"
            raise RequestError(422, what, got=len(rows[row]), where=f"{place}[{row}]")
        if self._codes:
            coded = [list(row) for row in rows]
            for column in self._codes:
                if count := self._encode(coded, order[column], place, column):
                    unknown[column] = count
            rows = list(coded)
        try:  # arrays take numbers alone, where NumPy would convert texts, in time and memory that they choose
            flat = np.frombuffer(b"".join([array("d", row) for row in rows]))
        except TypeError:
            self._check_values(rows, order, place)
            flat = np.array(rows, np.float64)
        with np.errstate(over="ignore"):  # infinite in float32, for predict too
            matrix = flat.reshape(len(rows), len(order)).astype(np.float32)
        return matrix if order == tuple(range(len(order))) else np.ascontiguousarray(matrix[:, order])

    def _places(self, names: tuple[str, ...]) -> tuple[int, ...]:
        """Return where each feature of training is among the names of a request."""
        if len(names) > 2 * self.schema.count + LONG:  # looking for the wrong one would take long
            raise RequestError(422, f"the model has {self.schema.count} features", got=f"{len(names)} names")
        if long := next((name for name in names if len(name) > self._longest), None):
            raise RequestError(422, "the model has no such feature", got=shown(long))
        check.require_unique_names(names)
        order = tuple(self.schema.column_indices(names))
        for name in sorted(set(names) - {names[place] for place in order}):
            hint = check.suggestion(name[:LONG], self.schema.names or ())
            raise RequestError(422, "the model has no such feature", got=shown(name), hint=hint)
        return order

    def _encode(self, rows: list[list[Any]], place: int, where: str, column: int) -> int:
        """Replace the values of a categorical column by their codes, and count those that training did not see."""
        (codes, numeric), unknown = self._codes[column], 0
        for number, row in enumerate(rows):
            value = row[place]
            if value is not None and (isinstance(value, list | dict) or isinstance(value, str) == numeric):
                what = f"categories must be {'numbers' if numeric else 'text'}, as in training"
                where = f"{where}[{number}], {self.schema.name(column)}"
                raise RequestError(422, what, got=shown(value), where=where)
            row[place] = None if value is None else codes.get(value)
            unknown += value is not None and row[place] is None
        return unknown

    def _check_values(self, rows: list[Sequence[Any]], order: tuple[int, ...], place: str) -> None:
        if set(map(type, chain.from_iterable(rows))) <= _NUMBERS:
            return
        number, j = next((i, j) for i, row in enumerate(rows) for j, x in enumerate(row) if type(x) not in _NUMBERS)
        what, where = "a value must be a number, or null where it is missing", self.schema.name(order.index(j))
        hint = _MISSING if str(rows[number][j])[:9].lower() in ("", "nan", "na", "null", "none") else ""
        raise RequestError(422, what, got=shown(rows[number][j]), where=f"{place}[{number}], {where}", hint=hint)

    def dataset(self, query: RequestedQuery, rows: slice = slice(None)) -> RankingDataset:
        """Return documents of a query as data to explain; one without a label is not judged."""
        count, schema = len(query.features), self.schema
        labels = query.words.get("labels", [None] * count)[rows]
        return RankingDataset(
            query.features[rows],
            [label or 0.0 for label in labels],
            [0, len(labels)],
            judged=[label is not None for label in labels],
            query_ids=[str(query.words.get("id", 0))],
            document_ids=[str(name) for name in query.words.get("ids", range(count))[rows]],
            feature_names=schema.names,
            categorical=schema.categorical,
            categories=schema.categories,
        )


def _too_many(what: str, count: int, most: int) -> RequestError:
    hint = "send fewer at a time, or start the service with a larger --max-documents"
    return RequestError(422, f"the request has too many {what}", got=f"{count} of {most}", hint=hint)


def _values(documents: list[Json], names: list[str], place: str) -> list[Sequence[Any]]:
    """Return the values of documents in the order of ``names``, which all of them have, and no others."""
    values: Any = itemgetter(*names) if len(names) > 1 else lambda document: [document[name] for name in names]
    try:
        if set(map(len, documents)) == {len(names)}:
            return list(map(values, documents))
    except KeyError:
        pass
    number = next(number for number, one in enumerate(documents) if one.keys() != documents[0].keys())
    name = min(documents[0].keys() ^ documents[number].keys())
    got = f"{shown(name)} in {'this one' if name in documents[number] else 'the first'} alone"
    what = "all documents must have the same features"
    raise RequestError(422, what, got=got, where=f"{place}[{number}]", hint=_MISSING)


def _check_column(name: str, query: Json, kinds: set[type], count: int) -> None:
    values = query.get(name, [None] * count)
    if not isinstance(values, list) or len(values) != count:
        raise RequestError(422, f"{name} must be a list with a value for each document")
    if name in query and not set(map(type, values)) <= kinds:
        raise RequestError(422, f"{name} must be {'text or whole numbers' if name == 'ids' else 'numbers or null'}")
    if name == "ids" and name in query and len(set(map(str, values))) < count:
        raise RequestError(422, "ids must all be different")


def examples(data: RankingDataset, most: int = 50) -> list[Json]:
    """Return the first queries of a data set in the form of requests, with ids and labels.

    >>> data = RankingDataset([[0.5, 1], [np.nan, 0]], [2, 0], [0, 2], categorical=[1], categories={1: ("red", "blue")})
    >>> examples(data)
    [{'id': 0, 'ids': [0, 1], 'labels': [2.0, 0.0], 'rows': [[0.5, 'blue'], [None, 'red']]}]
    """
    named = data if data.feature_names else data.with_(feature_names=[str(j) for j in range(data.n_features)])
    queries: list[Json] = []
    for number in range(min(most, data.n_queries)):
        one = named.take([number])
        seen = [True] * one.n_docs if one.judged is None else (one.judged == 1).tolist()
        values = to_frame(one).select(one.feature_names).fill_nan(None)
        query: Json = {"id": number if one.query_ids is None else one.query_ids[0].item()}
        query["ids"] = list(range(one.n_docs)) if one.document_ids is None else one.document_ids.tolist()
        query["labels"] = [y if judged else None for y, judged in zip(one.labels.tolist(), seen, strict=True)]
        query |= {"features": values.columns} if data.feature_names else {}
        queries.append(query | {"rows": [list(row) for row in values.iter_rows()]})
    return queries


def shown(value: object) -> str:
    """Write a value of a request in at most 40 characters."""
    if isinstance(value, list | dict):
        return "a JSON array" if isinstance(value, list) else "a JSON object"
    text = repr(value[:LONG] if isinstance(value, str) else value)
    return text if len(text) <= 40 else f"{text[:40]}…"
