"""Solr, by its JSON request API."""

from rankwise.base.arrays import Json
from rankwise.wings.text.engines.engine import Hits, Ids
from rankwise.wings.text.engines.http import HttpEngine


class Solr(HttpEngine):
    """A collection of Solr, ``Solr("http://host:8983/solr", "collection", fields=…)``, which its own tools have filled.

    Scores are Lucene's BM25, the sum over fields. Tested with answers that we wrote, not with a server;
    :class:`HttpEngine` tells about addresses and keys.
    """

    name = "Solr"

    def _found(self, query: list[str], fields: tuple[str, ...], k: int, among: Ids) -> tuple[Hits, bool]:
        should = [{"field": {"f": field, "query": word}} for field in fields for word in query]
        body: Json = {"query": {"bool": {"should": should}}, "fields": [self.id, "score"], "limit": k}
        if among is not None:
            body["filter"] = [{"terms": {"f": self.id, "separator": "\n", "query": "\n".join(among)}}]
        answer = self._server.ask("POST", f"{self._path}/query", body)
        hits = [(hit[self.id], float(hit["score"])) for hit in answer["response"]["docs"]]
        return hits, not answer["responseHeader"].get("partialResults")
