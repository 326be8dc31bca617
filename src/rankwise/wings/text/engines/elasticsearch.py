"""Elasticsearch and OpenSearch, by the forms of HTTP that both have."""

import contextlib
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Self
from urllib.parse import quote

from rankwise import check
from rankwise.base.arrays import Json
from rankwise.wings.text.documents import Documents
from rankwise.wings.text.engines.engine import Hits, Ids, about, batches
from rankwise.wings.text.engines.http import HttpEngine, Server


class Elasticsearch(HttpEngine):
    """An index of Elasticsearch, ``Elasticsearch("https://host:9200", "index")``, whose documents are their ``_id``.

    Scores are Lucene's BM25, the sum over fields. Without ``analyzer``, a field reads a query as its mapping says.
    Tested with answers that we wrote, not with a server; :class:`HttpEngine` tells about addresses and keys.
    """

    name = "Elasticsearch"

    @classmethod
    def index(
        cls,
        documents: Documents,
        address: str,
        collection: str = "documents",
        *,
        force: bool = False,
        progress: bool | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 60.0,
    ) -> Self:
        """Fill a new index, which then gets its name as an alias; one that breaks off is removed."""
        server = Server(cls, address, headers, timeout)
        fields, new = documents.fields, f"{collection}-{secrets.token_hex(8)}"
        old = [*(server.ask("GET", f"/{quote(collection, safe='')}/_mapping", absent=True) or ())]
        if old and not force:
            raise check.error("the index is there already and is kept", got=collection, hint="set force=True")
        properties = {field: {"type": "text", "analyzer": "whitespace"} for field in fields}
        server.ask("PUT", f"/{new}", {"mappings": {"_meta": {"rankwise": about(documents)}, "properties": properties}})
        try:
            for rows in batches(documents, progress, cls.name):
                pairs = (({"index": {"_id": one}}, dict(zip(fields, texts, strict=True))) for one, *texts in rows)
                if server.ask("POST", f"/{new}/_bulk", [line for pair in pairs for line in pair])["errors"]:
                    raise check.error(f"{cls.name} refused documents", where=server.where, hint=cls.again)
            server.ask("POST", f"/{new}/_refresh")
            actions: list[Json] = [{"remove_index": {"index": one}} for one in old]
            server.ask("POST", "/_aliases", {"actions": [*actions, {"add": {"index": new, "alias": collection}}]})
        except BaseException:
            with contextlib.suppress(check.InputError):
                server.ask("DELETE", f"/{new}")
            raise
        return cls(address, collection, headers=headers, timeout=timeout)

    def _described(self) -> Json:
        indexes: Json = self._server.ask("GET", f"{self._path}/_mapping")
        notes: list[Json] = [one["mappings"].get("_meta", {}) for one in indexes.values()]
        return notes[0].get("rankwise", {}) if notes else {}

    def _prepared(self, texts: Sequence[str]) -> Sequence[Any]:
        return texts if self.analyzer is None else [" ".join(words) for words in super()._prepared(texts)]

    def _found(self, query: str, fields: tuple[str, ...], k: int, among: Ids) -> tuple[Hits, bool]:
        asked: Json = {"should": [{"match": {field: {"query": query}}} for field in fields], "minimum_should_match": 1}
        if among is not None:
            asked["filter"] = {"ids": {"values": among}}
        path = f"{self._path}/_search?allow_partial_search_results=false"
        answer = self._server.ask("POST", path, {"size": k, "_source": False, "query": {"bool": asked}})
        return [(hit["_id"], float(hit["_score"])) for hit in answer["hits"]["hits"]], not answer["timed_out"]


class OpenSearch(Elasticsearch):
    """An index of OpenSearch; everything is as in :class:`Elasticsearch`."""

    name = "OpenSearch"
