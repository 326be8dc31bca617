"""Features that search engines logged, read as data: the LTR plugin of Elasticsearch and OpenSearch, and Vespa."""

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rankwise import check
from rankwise.arrays import Json
from rankwise.data.compressed import read_lines, shown
from rankwise.data.dataset import RankingDataset
from rankwise.evaluation.systems import Run
from rankwise.evaluation.trec import qrels_frame

_QUERY = ("query_id", "qid", "query")
_VESPA = ("matchfeatures", "summaryfeatures", "rankfeatures")
_NO_FEATURE = "vespa.summaryFeatures.cached"  # that Vespa adds to summaryfeatures


def read_feature_log(
    source: str | Path | Mapping[Any, Any] | Iterable[Json],
    *,
    labels: Run | None = None,
    log: str | None = None,
    document: str | None = None,
) -> RankingDataset:
    """Read the features that a search engine logged with its responses, as documents with named features.

    ``source`` is responses by query id; or objects ``{"query_id": "q1", "response": {…}}`` (or ``qid``, or ``query``;
    the keys of the response may stand beside it); or a file of these as JSON lines. Responses are those of

    - Elasticsearch and OpenSearch with the LTR plugin, whose hits have ``fields._ltrlog``. ``log`` names the entry of
      the log, where there are several;
    - Vespa, whose hits have ``matchfeatures``, ``summaryfeatures`` or ``rankfeatures``.

    A feature without a value is missing, NaN. Several responses to a query are one list. Documents are known by their
    ``_id``, or by what follows ``::`` in Vespa's ``documentid``; ``document`` names another field of theirs. ``labels``
    are qrels: a file, a table with columns query, document and grade, or nested dictionaries. Documents that they do
    not name have label 0 and were not judged.

    >>> hit = {"_id": "d1", "fields": {"_ltrlog": [{"log": [{"name": "bm25", "value": 2.5}, {"name": "clicks"}]}]}}
    >>> data = read_feature_log({"tv": {"hits": {"hits": [hit]}}}, labels={"tv": {"d1": 2}})
    >>> data.feature_names, data.features.tolist(), data.labels.tolist()
    (('bm25', 'clicks'), [[2.5, nan]], [2.0])
    """
    queries: dict[str, dict[str, dict[str, float]]] = {}  # query -> document -> features
    for where, query, hit in _hits(source):
        name, features = _document(hit, document, where), _features(hit, log, where)
        if queries.setdefault(query, {}).setdefault(name, features) != features:
            what, hint = "a document was logged twice with different features", "give each search a query id of its own"
            raise check.error(what, got=repr(name), where=f"query {query!r}, {where}", hint=hint)
    documents = list(itertools.chain(*(listed.values() for listed in queries.values())))
    if not documents:
        raise check.error("the log holds no documents", got="responses without hits")
    names = list(dict.fromkeys(itertools.chain(*documents)))
    data = RankingDataset.from_sizes(
        [[features.get(name, np.nan) for name in names] for features in documents],
        np.zeros(len(documents)),
        [len(listed) for listed in queries.values()],
        feature_names=names,
        query_ids=list(queries),
        document_ids=list(itertools.chain(*queries.values())),
        judged=np.zeros(len(documents)),
    )
    return data if labels is None else _labelled(data, labels)


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


def _hits(source: Any) -> Iterator[tuple[str, str, Json]]:
    """Iterate over hits: where they stand, their query, and the hit."""
    for where, key, record in _records(source):
        response = record.get("response", record) if isinstance(record, Mapping) else None
        if not isinstance(response, Mapping) or not {"hits", "root"} & response.keys():
            what = "a record must be a response of Elasticsearch, OpenSearch or Vespa, with hits or root"
            hint = "pass the responses of a multi search one by one, each with its query"
            raise check.error(what, got=repr(record)[:80], where=where, hint=hint)
        query = key if key is not None else next((record[name] for name in _QUERY if name in record), None)
        if not isinstance(query, str | int | np.integer):
            hint = 'write {"query_id": …, "response": {…}}, or pass responses by query id'
            raise check.error("a response must name its query by an id", got=repr(record)[:80], where=where, hint=hint)
        outer = response["hits"] if "hits" in response else response["root"]
        hits = outer.get("hits" if "hits" in response else "children", []) if isinstance(outer, Mapping) else None
        if not isinstance(hits, list) or not all(isinstance(hit, Mapping) for hit in hits):
            what = "hits must be a list at hits.hits, or at root.children of Vespa"
            raise check.error(what, got=repr(outer)[:80], where=where, hint="pass responses as the engine returns them")
        yield from ((where, str(query), hit) for hit in hits)


def _records(source: Any) -> Iterator[tuple[str, Any, Any]]:
    """Iterate over records: where they stand, their query where that is known, and the record."""
    if isinstance(source, str | Path):
        for number, line in read_lines(check.readable(source)):
            where = f"line {number} of {shown(source)}"
            if line.strip():
                with check.library("JSON", where):
                    record = json.loads(line)
                yield where, None, record
    elif isinstance(source, Mapping):
        check.different_as_text("query ids", list(source))
        for query, responses in source.items():
            for response in responses if isinstance(responses, list) else [responses]:
                yield f"query {query!r}", query, response
    else:
        yield from ((f"record {number}", None, record) for number, record in enumerate(source))


def _document(hit: Json, document: str | None, where: str) -> str:
    """Return the id of a document."""
    fields = {**hit.get("fields", {}), **hit.get("_source", {})}
    name = fields.get(document) if document is not None else hit.get("_id")
    if document is None and name is None:
        name = str(fields.get("documentid") or hit.get("id") or "").rpartition("::")[2]
    if isinstance(name, list) and len(name) == 1:  # Elasticsearch has lists in fields
        name = name[0]
    if name in (None, "") or isinstance(name, list | Mapping):
        hint = f"`set document=…` to the field that holds it: {', '.join(fields)}"
        raise check.error("a hit has no id", got=repr(hit)[:80], where=where, hint=hint)
    return str(name)


def _features(hit: Json, log: str | None, where: str) -> dict[str, float]:
    """Return the features of a hit by name, NaN where they have no value."""
    fields = hit.get("fields", {})
    values: Mapping[str, Any] = {
        name: value for kind in _VESPA for name, value in fields.get(kind, {}).items() if name != _NO_FEATURE
    }
    if fields.get("_ltrlog"):
        entries = fields["_ltrlog"][0] if isinstance(fields["_ltrlog"], list) else fields["_ltrlog"]
        if log is None and len(entries) != 1:
            what, hint = "the log of a hit has several entries", "`set log=…` to one of them"
            raise check.error(what, got=", ".join(entries), where=where, hint=hint)
        listed = entries[check.choice("entry of the log", next(iter(entries)) if log is None else log, entries)]
        values = listed if isinstance(listed, Mapping) else {one["name"]: one.get("value") for one in listed}
    if not values:
        hint = "log with ext.ltr_log of the plugin, or match-features of Vespa's rank profile"
        raise check.error("a hit has no logged features", got=repr(hit)[:80], where=where, hint=hint)
    try:
        numbers = {name: np.nan if value is None else float(value) for name, value in values.items()}
    except (TypeError, ValueError):
        hint = "leave tensors and text out of what is logged"
        raise check.error("logged features must be numbers", got=repr(values)[:80], where=where, hint=hint) from None
    return {name: np.nan if np.isnan(value) else value for name, value in numbers.items()}  # one NaN equals itself
