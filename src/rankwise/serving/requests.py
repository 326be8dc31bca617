"""Documents of requests: from JSON to a matrix with the columns of training, or an error that names the place."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from rankwise import check
from rankwise.arrays import Floats, Json
from rankwise.data.categories import is_numeric
from rankwise.data.dataset import RankingDataset
from rankwise.data.frames import to_frame
from rankwise.rankers.schema import Schema

_KEYS = ("documents", "features", "rows", "id", "ids", "labels")
_NUMBERS = {float, int, bool, type(None)}
_LONG = 100  # characters of a name, and names beyond those of the model, that an error looks at
_HINT = 'pass {"documents": [{"feature": value, …}, …]} or {"features": [name, …], "rows": [[value, …], …]}'


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


class RequestedQuery(NamedTuple):
    """The documents of one query, and the request's own words: ids and labels where it has some."""

    features: Floats
    words: Json


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
            what, got = "a query must be an object with either documents or rows", _shown(query)
            raise RequestError(422, what, got=got, where=place.rstrip("."), hint=_HINT)
        for key in query.keys() - set(_KEYS):
            raise RequestError(
                422, "unknown key of a query", got=_shown(key), hint=check.suggestion(key[:_LONG], _KEYS)
            )
        if "documents" in query and "features" in query:
            raise RequestError(422, "documents name their features themselves", where=place.rstrip("."), hint=_HINT)
        name, kind = ("documents", dict) if "documents" in query else ("rows", list)
        rows, place = query[name], place + name
        if not isinstance(rows, list) or not set(map(type, rows)) <= {kind}:
            raise RequestError(422, f"{name} must be a list of JSON {kind.__name__}s", where=place, hint=_HINT)
        if len(rows) > most:
            raise _too_many("documents", len(rows), most)
        _check_column("ids", query, {str, int}, len(rows))
        _check_column("labels", query, _NUMBERS, len(rows))
        if not rows:
            return RequestedQuery(np.empty((0, self.schema.count), np.float32), query)
        names: Any = list(rows[0]) if kind is dict else query.get("features")
        return RequestedQuery(self._matrix(_values(rows, names, place) if kind is dict else rows, names, place), query)

    def _matrix(self, rows: list[Sequence[Any]], names: Any, place: str) -> Floats:
        """Return rows of values as a matrix with the columns of training."""
        if (names is None) != (self.schema.names is None):
            what = "the model knows its features by their " + ("names" if names is None else "numbers alone")
            raise RequestError(422, what, hint="name the columns in features" if names is None else "pass rows alone")
        if names is not None and (not isinstance(names, list) or not set(map(type, names)) <= {str}):
            raise RequestError(422, "features must be a list of names", got=_shown(names))
        order = tuple(range(self.schema.count)) if names is None else self._order(tuple(names))
        if set(map(len, rows)) != {len(order)}:
            row = next(number for number, values in enumerate(rows) if len(values) != len(order))
            what = f"a row must have a value for each of {len(order)} features"
            raise RequestError(422, what, got=len(rows[row]), where=f"{place}[{row}]")
        if self.schema.categories:
            coded = [list(row) for row in rows]
            for column, values in self.schema.categories.items():
                self._encode(coded, order[column], {value: code for code, value in enumerate(values)}, place, column)
            rows = list(coded)
        with np.errstate(over="ignore"):  # infinite in float32, for predict too
            try:
                matrix = np.array(rows)  # of numbers alone
                plain = matrix.ndim == 2 and matrix.dtype.kind in "fiub"
            except ValueError:  # lists among numbers
                plain = False
            if not plain:
                self._check_values(rows, order, place)
                matrix = np.array(rows, np.float32)
            matrix = matrix.astype(np.float32, copy=False)
        return matrix if order == tuple(range(len(order))) else np.ascontiguousarray(matrix[:, order])

    def _places(self, names: tuple[str, ...]) -> tuple[int, ...]:
        """Return where each feature of training is among the names of a request."""
        if len(names) > 2 * self.schema.count + _LONG:  # looking for the wrong one would take long
            raise RequestError(422, f"the model has {self.schema.count} features", got=f"{len(names)} names")
        try:
            check.named_once(names)
            order = tuple(self.schema.places(names))
        except ValueError as wrong:
            raise RequestError.of(wrong) from None
        for name in sorted(set(names) - {names[place] for place in order}):
            hint = check.suggestion(name[:_LONG], self.schema.names or ())
            raise RequestError(422, "the model has no such feature", got=_shown(name), hint=hint)
        return order

    def _encode(self, rows: list[list[Any]], place: int, codes: dict[Any, int], where: str, column: int) -> None:
        """Replace the values of a categorical column by their codes; one that training did not see is missing."""
        numeric = is_numeric(list(codes))
        for number, row in enumerate(rows):
            value = row[place]
            if value is not None and (isinstance(value, list | dict) or isinstance(value, str) == numeric):
                what = f"categories must be {'numbers' if numeric else 'text'}, as in training"
                where = f"{where}[{number}], {self.schema.name(column)}"
                raise RequestError(422, what, got=_shown(value), where=where)
            row[place] = codes.get(value)

    def _check_values(self, rows: list[Sequence[Any]], order: tuple[int, ...], place: str) -> None:
        if set(map(type, chain.from_iterable(rows))) <= _NUMBERS:
            return
        number, j = next((i, j) for i, row in enumerate(rows) for j, x in enumerate(row) if type(x) not in _NUMBERS)
        what, where = "a value must be a number, or null where it is missing", self.schema.name(order.index(j))
        raise RequestError(422, what, got=_shown(rows[number][j]), where=f"{place}[{number}], {where}")

    def dataset(self, query: RequestedQuery) -> RankingDataset:
        """Return a query as data to explain; a document without a label is not judged."""
        count, schema = len(query.features), self.schema
        labels = query.words.get("labels", [None] * count)
        return RankingDataset(
            query.features,
            [label or 0.0 for label in labels],
            [0, count],
            judged=[label is not None for label in labels],
            query_ids=[str(query.words.get("id", 0))],
            document_ids=[str(name) for name in query.words.get("ids", range(count))],
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
    got = f"{name!r} in {'this one' if name in documents[number] else 'the first'} alone"
    what, hint = "all documents must have the same features", "pass null for a value that is missing"
    raise RequestError(422, what, got=got, where=f"{place}[{number}]", hint=hint)


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


def _shown(value: object) -> str:
    if isinstance(value, list | dict):
        return "a JSON array" if isinstance(value, list) else "a JSON object"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
