"""Vespa, by its query API."""

from typing import Any

from rankwise.wings.text.engines.engine import Hits, Ids
from rankwise.wings.text.engines.http import HttpEngine


class Vespa(HttpEngine):
    """A schema of Vespa, ``Vespa("http://host:8080", "schema", fields=…)``, whose application is deployed and fed.

    Scores are those of the rank profile ``ranking``, such as one with the sum of ``bm25(field)``; ``id`` is a field of
    the schema. Tested with answers that we wrote, not with a server; :class:`HttpEngine` tells about
    addresses and keys.
    """

    name = "Vespa"

    def __init__(self, address: str, collection: str, *, ranking: str = "default", **asking: Any) -> None:
        super().__init__(address, collection, **asking)
        self._form = {"ranking": ranking, "timeout": f"{self._server.timeout}s"}

    def _found(self, query: list[str], fields: tuple[str, ...], k: int, among: Ids) -> tuple[Hits, bool]:
        where = " or ".join(f"{field} contains {_text(word)}" for field in fields for word in query)
        chosen = "" if among is None else f" and {self.id} in ({', '.join(map(_text, among))})"
        yql = f"select {self.id} from {self.collection} where ({where}){chosen}"  # noqa: S608
        root = self._server.ask("POST", "/search/", {"yql": yql, "hits": k, **self._form})["root"]
        hits = [(hit["fields"][self.id], float(hit["relevance"])) for hit in root.get("children", ())]
        return hits, root.get("coverage", {}).get("full", True) and "errors" not in root


def _text(word: str) -> str:
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
