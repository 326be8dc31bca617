"""A search in service: what :class:`rankwise.text.Search` answers, over HTTP, beside the scores of its model."""

import threading
from pathlib import Path
from typing import Any, NamedTuple

import rankwise as rw
from rankwise import check
from rankwise.base.arrays import Json
from rankwise.models import storage
from rankwise.wings.serve.request_parsing import LONG, RequestedQuery, RequestError, parse, shown
from rankwise.wings.serve.served import ServedModel

FORMS = {"search": ("query",), "why": ("query", "document", "other")}
"""Path -> the texts that a request has; ``k`` may stand beside them."""


class Searched(NamedTuple):
    """What a request found; its features can be logged as those of a request to ``/score``."""

    queries: list[RequestedQuery]
    documents: int
    said: Json
    found: "rw.text.SearchResult"


class ServedSearch(ServedModel):
    """A search in service; ``/score`` and ``/explain`` ask its model about features."""

    methods = (*ServedModel.methods, *FORMS)

    def __init__(self, name: str, search: "rw.text.Search") -> None:
        index = search.pages
        known = f"{search.depth} {list(search.runs)} {index.analyzer} {index.bm25} {index.fields} {index.ids.tolist()}"
        super().__init__(name, search.model, known.encode() + index.arrays["norms"].tobytes())
        self.finder = search

    def about(self) -> Json:
        """Return what ``/models`` says of it."""
        pages = self.finder.pages
        about = {"documents": len(pages), "fields": pages.fields, "runs": list(self.finder.runs)}
        return super().about() | {"search": about | {"depth": self.finder.depth}}

    def read(self, body: bytes, most: int, method: str = "score") -> Any:
        """Read a request, and find what it searches."""
        if method not in FORMS:
            return super().read(body, most, method)
        said, keys = parse(body), FORMS[method]
        if not isinstance(said, dict) or not {*said} <= {*keys, "k"} or not all(type(said.get(n)) is str for n in keys):
            hint = 'pass {"' + '": "…", "'.join(keys) + '": "…"}, with "k": 10 if you like'
            raise RequestError(422, f"a request to /{method} has other keys, or values", got=shown(said), hint=hint)
        found = self.finder(said["query"], min(check.integer("k", said.get("k", 10), least=1), most))
        words = {"id": said["query"][:LONG], "ids": found.documents.tolist()}
        return Searched([RequestedQuery(found.matrix, words)], len(found.documents), said, found)

    def search(self, asked: Searched, _: threading.Event) -> Json:
        """Return the documents of a search."""
        return {"model": self.name, "version": self.version, **asked.found.to_dict()}

    def why(self, asked: Searched, _: threading.Event) -> Json:
        """Return why one document of a search is above another."""
        why = asked.found.explain(asked.said["document"], asked.said["other"])
        return {"model": self.name, "version": self.version, **why.to_dict()}


def served(name: str, model: Any) -> ServedModel:
    """Put a model or a search in service."""
    return ServedSearch(name, model) if hasattr(model, "pages") else ServedModel(name, model)


def opened(folder: Path) -> Any:
    """Load a model or a search."""
    return rw.text.Search.load(folder) if storage.read(folder)[0].get("kind") == "search" else rw.load(folder)
