"""Features that search engines logged, read as data: the LTR plugin of Elasticsearch and OpenSearch, and Vespa.

``rankwise serve --log-features`` writes the form of the plugin; a category is ``{"category": value}`` there.
"""

import contextlib
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from rankwise import RankingDataset, check
from rankwise.base.arrays import Json
from rankwise.data.io import read_lines, shown, without_repeats
from rankwise.evaluation import Run, qrels_frame

SUFFIXES = (".jsonl", ".ndjson")
_QUERY = ("query_id", "qid", "query")
_VESPA = ("matchfeatures", "summaryfeatures", "rankfeatures")
_VESPA_ID = re.compile(r"^id:[^:]*:[^:]*::")  # before what the user calls the document, which may have colons
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|NaN|[-+]?Infinity")
_LARGEST = float(np.finfo(np.float32).max)
_NO_FEATURE = "vespa.summaryFeatures.cached"  # that Vespa adds to summaryfeatures


def _error(what: str, got: object, where: str, hint: str = "pass responses as the engine returns them") -> Exception:
    return check.error(what, got=repr(got)[:80], where=where, hint=hint)


class _Category(NamedTuple):
    """A value of a categorical feature."""

    value: str | float


def read_feature_log(
    source: str | Path | Mapping[Any, Any] | Iterable[Json],
    *,
    labels: Run | None = None,
    log: str | None = None,
    document: str | None = None,
    repeated: str = "error",
) -> RankingDataset:
    """Read the features that a search engine logged with its responses, as documents with named features.

    ``source`` is responses by query id; or objects ``{"query_id": "q1", "response": {…}}`` (or ``qid``, or ``query``;
    the keys of the response may stand beside it); or a file of these as JSON lines. Responses are those of

    - Elasticsearch and OpenSearch with the LTR plugin, whose hits have ``fields._ltrlog``. ``log`` names the entry of
      the log, where there are several;
    - Vespa, whose hits have ``matchfeatures``, ``summaryfeatures`` or ``rankfeatures``;
    - ``rankwise serve --log-features``, with categories by their values.

    A feature without a value is missing, NaN. Several responses to a query are one list. Documents are known by their
    ``_id``, or by what the user calls them in Vespa's ``documentid``, ``a::b`` of ``id:shop:item::a::b`` (the whole of
    it where it has a group); ``document`` names another field of theirs. What is not of this form is an error with the
    file and line, or the record, and so are ids that differ by their type alone, 1 and "1". A document that a query has
    twice with different features is an error; with ``repeated="last"`` the last ones count. ``labels``
    are qrels: a file, a table with columns query, document and grade, or nested dictionaries. Documents that they do
    not name have label 0 and were not judged.

    >>> hit = {"_id": "d1", "fields": {"_ltrlog": [{"log": [{"name": "bm25", "value": 2.5}, {"name": "clicks"}]}]}}
    >>> data = read_feature_log({"tv": {"hits": {"hits": [hit]}}}, labels={"tv": {"d1": 2}})
    >>> data.feature_names, data.features.tolist(), data.labels.tolist()
    (('bm25', 'clicks'), [[2.5, nan]], [2.0])
    """
    check.choice("repeated", repeated, ("error", "last"))
    place = shown(source) if isinstance(source, str | Path) else None
    with contextlib.nullcontext() if place is None else check.naming(place):
        data = _read(source, log, document, repeated)
        return data if labels is None else _labelled(data, labels)


def _read(source: Any, log: str | None, document: str | None, repeated: str) -> RankingDataset:
    """Read documents with their features."""
    queries: dict[str, dict[str, tuple[str | int, dict[str, Any]]]] = {}  # query -> document -> its id, its features
    types: dict[str, type] = {}
    for where, query, hit in _hits(source):
        if types.setdefault(str(query), type(query)) is not type(query):
            what, hint = "query ids must not differ by their type alone", "make all of them text, or all integers"
            raise check.error(what, got=f"{query} and {str(query)!r}", where=where, hint=hint)
        full, name = _document(hit, document, where)
        features = _features(hit, log, where)
        listed = queries.setdefault(str(query), {})
        known, logged = listed.setdefault(name, (full, features))
        if known != full:
            what, hint = "two documents have the same id", "`set document=…` to a field that tells them apart"
            raise check.error(what, got=f"{known!r} and {full!r}", where=f"query {str(query)!r}, {where}", hint=hint)
        if repeated == "last":
            listed[name] = full, features
        elif logged != features:
            what = "a document was logged twice with different features"
            hint = "give each search a query id of its own, or `set repeated='last'`"
            raise check.error(what, got=repr(name), where=f"query {str(query)!r}, {where}", hint=hint)
    documents = [features for of_query in queries.values() for _, features in of_query.values()]
    if not documents:
        raise check.error("the log holds no documents", got="responses without hits")
    names = list(dict.fromkeys(itertools.chain(*documents)))
    columns = [[features.get(name, np.nan) for features in documents] for name in names]
    categorical = [n for n, column in enumerate(columns) if any(isinstance(value, _Category) for value in column)]
    categories = {number: _encode(columns[number], names[number]) for number in categorical}
    matrix = np.array(columns, np.float64).T
    beyond = np.isfinite(matrix) & (np.abs(matrix) > _LARGEST)
    return RankingDataset.from_sizes(
        np.where(beyond, np.copysign(_LARGEST, matrix), matrix),
        np.zeros(len(documents)),
        [len(listed) for listed in queries.values()],
        feature_names=names,
        query_ids=list(queries),
        document_ids=list(itertools.chain(*queries.values())),
        judged=np.zeros(len(documents)),
        categorical=categorical,
        categories=categories,
    )


def _encode(column: list[Any], name: str) -> tuple[str | float, ...]:
    """Replace the categories of a column by codes, and return them in the order in which they came."""
    codes: dict[str | float, int] = {}
    for place, value in enumerate(column):
        if isinstance(value, _Category):
            column[place] = codes.setdefault(value.value, len(codes))
        elif not np.isnan(value):
            hint = "log a feature in one form"
            raise check.error("a feature has categories and plain numbers", got=repr(value), where=name, hint=hint)
    if len({isinstance(value, str) for value in codes}) > 1:
        raise check.error("categories of a feature must be texts, or numbers", got="both", where=name)
    return tuple(codes)


def _labelled(data: RankingDataset, qrels: Run) -> RankingDataset:
    """Join documents with their grades; those without stay unjudged."""
    rows = pl.DataFrame({"query": data.qids(), "document": data.document_ids})
    highest = qrels_frame(qrels).group_by("query", "document").agg(pl.col("grade").max())  # of its aspects
    grades = rows.join(highest, on=["query", "document"], how="left", maintain_order="left")["grade"]
    if grades.null_count() == len(grades):
        hint = "check that both spell the ids of queries and documents alike"
        raise check.error("log and labels have no document in common", got=repr(data), hint=hint)
    numbers = grades.fill_null(0).to_numpy()
    return data.with_(labels=numbers.clip(0), judged=np.where(grades.is_null(), 0, np.where(numbers < 0, -1, 1)))


def _hits(source: Any) -> Iterator[tuple[str, str | int, Json]]:
    """Iterate over hits: where they stand, their query, and the hit."""
    for where, key, record in _records(source):
        response = record.get("response", record) if isinstance(record, Mapping) else None
        if not isinstance(response, Mapping) or not {"hits", "root"} & response.keys():
            what = "a record must be a response of Elasticsearch, OpenSearch or Vespa, with hits or root"
            raise _error(what, record, where, "pass the responses of a multi search one by one, each with its query")
        query: Any = key if key is not None else next((record[name] for name in _QUERY if name in record), None)
        if not _is_id(query):
            hint = 'write {"query_id": …, "response": {…}}, or pass responses by query id'
            raise _error("a response must name its query by an id", record, where, hint)
        outer = response["hits"] if "hits" in response else response["root"]
        hits = outer.get("hits" if "hits" in response else "children", []) if isinstance(outer, Mapping) else None
        if not isinstance(hits, list) or not all(isinstance(hit, Mapping) for hit in hits):
            raise _error("hits must be a list at hits.hits, or at root.children of Vespa", outer, where)
        if "hits" not in response and outer.get("errors"):
            hint = "log this search anew, or leave it out"
            raise _error("Vespa reports an error, so that hits may be missing", outer["errors"], where, hint)
        yield from ((where, query, hit) for hit in hits)


def _records(source: Any) -> Iterator[tuple[str, Any, Any]]:
    """Iterate over records: where they stand, their query where that is known, and the record."""
    if isinstance(source, str | Path):
        for number, line in read_lines(check.readable(source)):
            where = f"line {number} of {shown(source)}"
            with check.library("JSON", where, hint="write one JSON object on each line, in UTF-8"):
                record = json.loads(line, object_pairs_hook=without_repeats)
            yield where, None, record
    elif isinstance(source, Mapping):
        check.different_as_text("query ids", list(source))
        for query, responses in source.items():
            for response in responses if isinstance(responses, list) else [responses]:
                yield f"query {query!r}", query, response
    elif isinstance(source, Iterable):
        yield from ((f"record {number}", None, record) for number, record in enumerate(source))
    else:
        hint = "pass a file of JSON lines, responses by query id, or a list of them"
        raise check.error("a feature log must have responses", got=type(source).__name__, hint=hint)


def _is_id(value: object) -> bool:
    """Whether this is an integer, or text that can be an id."""
    if isinstance(value, str):
        return check.is_id_text(value)
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _fields(hit: Json, name: str, where: str) -> Json:
    """Return an object of a hit by its name, empty where there is none."""
    value = hit.get(name, {})
    if not isinstance(value, Mapping):
        raise _error(f"{name} of a hit must be an object", value, where)
    return dict(value)


def _document(hit: Json, document: str | None, where: str) -> tuple[str | int, str]:
    """Return the id of a document as it was logged, and by which it is known."""
    fields = _fields(hit, "fields", where) | _fields(hit, "_source", where)
    full = fields.get(document) if document is not None else hit.get("_id")
    of_vespa = document is None and full is None
    if of_vespa:
        full = next((one for one in (fields.get("documentid"), hit.get("id")) if one not in (None, "")), None)
    if isinstance(full, list) and len(full) == 1:  # Elasticsearch has lists in fields
        full = full[0]
    name = _VESPA_ID.sub("", str(full)) if of_vespa else str(full)
    if not _is_id(full) or not name:
        raise _error("a hit has no id", hit, where, f"`set document=…` to the field that holds it: {', '.join(fields)}")
    return full, name  # type: ignore[return-value]


def _features(hit: Json, log: str | None, where: str) -> dict[str, Any]:
    """Return the features of a hit by name, NaN where they have no value."""
    fields = _fields(hit, "fields", where)
    logged = fields.get("_ltrlog")
    if logged:
        pairs = _of_plugin(logged, log, where)
    else:
        parts = [_fields(fields, kind, where) for kind in _VESPA]
        pairs = [(name, value) for part in parts for name, value in part.items() if name != _NO_FEATURE]
    if not pairs:
        hint = "log with ext.ltr_log of the plugin, or match-features of Vespa's rank profile"
        raise _error("a hit has no logged features", hit, where, hint)
    features: dict[str, Any] = {}
    for name, value in pairs:
        if not isinstance(name, str) or not check.is_id_text(name):
            raise _error("a logged feature must have a name", name, where, "")
        number = _number(value)
        if number is None:
            what, hint = "logged features must be numbers", "leave tensors and text out of what is logged"
            raise check.error(what, got=f"{value!r:.80} for {name}", where=where, hint=hint)
        if name in features and (logged or repr(features[name]) != repr(number)):
            raise check.error("a hit has a feature twice", got=repr(name), where=where)
        features[name] = number
    return features


def _of_plugin(logged: Any, log: str | None, where: str) -> list[tuple[Any, Any]]:
    """Return names and values of an entry of the plugin's log."""
    if isinstance(logged, list) and len(logged) == 1:
        logged = logged[0]
    if not isinstance(logged, Mapping):
        raise _error("_ltrlog of a hit must have entries by name", logged, where)
    if log is None and len(logged) > 1:
        what, hint = "the log of a hit has several entries", "`set log=…` to one of them"
        raise check.error(what, got=", ".join(map(str, logged)), where=where, hint=hint)
    with check.naming(where):
        entry = logged[check.choice("entry of the log", log, logged)] if log is not None else [*logged.values(), []][0]
    if isinstance(entry, Mapping):
        return list(entry.items())
    if not isinstance(entry, list) or not all(isinstance(one, Mapping) and "name" in one for one in entry):
        raise _error("an entry of _ltrlog must list names and values", entry, where)
    return [(one["name"], one.get("value")) for one in entry]


def _number(value: object) -> float | _Category | None:
    """Return the value of a feature, NaN where it has none; None for what is no number and no category."""
    if value is None:
        return np.nan
    if isinstance(value, Mapping) and value.keys() == {"category"} and isinstance(value["category"], str | int | float):
        return _Category(value["category"])
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        return None
    try:
        number = float(value) if isinstance(value, str | int | float | np.number) else None
    except OverflowError:
        return None
    return np.nan if number is not None and np.isnan(number) else number  # one NaN equals itself
