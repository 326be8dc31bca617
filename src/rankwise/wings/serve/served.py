"""A model in service: what it answers to a request."""

import hashlib
import json
import threading
from typing import Any, NamedTuple

import numpy as np

from rankwise import Ranker, explain
from rankwise.base.arrays import Json
from rankwise.wings.serve.request_parsing import RequestedQuery, RequestError, RequestReader, parse

_PART = 128  # documents that are explained before the next look at the clock


class Asked(NamedTuple):
    """What a request asks about: queries, and whether it came as a list of them."""

    queries: list[RequestedQuery]
    batch: bool
    documents: int


class ServedModel:
    """A model in service; ``other`` is what its version depends on beside its files."""

    methods: tuple[str, ...] = ("score", "explain")
    """What it answers, and the ends of its paths."""

    def __init__(self, name: str, model: Ranker, other: bytes = b"") -> None:
        self.schema = model.model_.schema
        self.name, self.model, self.scorer, self.reader = name, model, model.scorer(), RequestReader(self.schema)
        description, files = model.saved()
        digest = hashlib.sha256(json.dumps(description, sort_keys=True).encode() + other)
        for _, content in sorted(files.items()):
            digest.update(content)
        self.version = digest.hexdigest()[:12]
        self.quick = self.scorer.rearranged
        self.card = model.card()
        self.missing, self.unknown = np.zeros((2, self.schema.count), np.int64)

    def about(self) -> Json:
        """Return what ``/models`` says of it."""
        schema = self.schema
        features = {"features": schema.names, "n_features": schema.count, "categories": self.model.categories_}
        return {"name": self.name, "version": self.version, "ranker": repr(self.model), **features, "card": self.card}

    def read(self, body: bytes, most: int, method: str = "score") -> Any:
        """Read a request to a method, with at most so many documents."""
        request = parse(body)
        queries = self.reader.read(request, most)
        return Asked(queries, "queries" in request, sum(len(one.features) for one in queries))

    def score(self, asked: Asked, stop: threading.Event) -> Json:
        """Return scores and ranks of every query of a request."""
        answers = []
        for query in asked.queries:
            if stop.is_set():
                return {}  # nobody waits for it
            answers.append(self._scored(query))
        answer = {"queries": answers} if asked.batch else answers[0]
        return {"model": self.name, "version": self.version, **answer}

    def _scored(self, query: RequestedQuery) -> Json:
        scores = self.scorer(query.features, np.array([0, len(query.features)]))
        ranks = np.empty(scores.size, np.int64)
        ranks[np.argsort(-scores, kind="stable")] = np.arange(1, scores.size + 1)
        names = {name: query.words[name] for name in ("id", "ids") if name in query.words}
        return names | {"scores": scores, "ranks": ranks}

    def explain(self, asked: Asked, stop: threading.Event) -> Json:
        """Return what features add to the scores of one query's documents, some at a time until it should stop."""
        if len(asked.queries) != 1 or not asked.documents:
            got = f"{len(asked.queries)} queries"
            raise RequestError(422, "one query with documents is explained at a time", got=got)
        size = asked.documents if self.model.needs_lists else _PART
        answer: Json = {}
        documents: list[Json] = []
        for first in range(0, asked.documents, size):
            if stop.is_set():
                return {}  # nobody waits for it
            part = explain(self.model, self.reader.dataset(asked.queries[0], slice(first, first + size))).to_dict()
            documents += part.pop("documents")
            largest = {name: max(part[name], answer.get(name, 0.0)) for name in ("error", "left_over")}
            answer = part | largest
        documents = [documents[row] for row in np.argsort([-one["score"] for one in documents], kind="stable")]
        ranked = [one | {"rank": rank} for rank, one in enumerate(documents, 1)]
        return {"model": self.name, "version": self.version, **answer, "documents": ranked}

    def count(self, asked: Asked) -> None:
        """Add up values that are missing and categories that are unknown, by feature."""
        parts = [query.features for query in asked.queries if len(query.features)]
        if parts:
            self.missing += np.isnan(parts[0] if len(parts) == 1 else np.vstack(parts)).sum(0)
        for query in asked.queries:
            for column, unknown in query.unknown.items():
                self.unknown[column] += unknown

    def counted(self) -> list[tuple[str, int, int]]:
        """Return what was counted since the last time: features, missing values, unknown categories."""
        seen = [(self.schema.title(j), self.missing[j], self.unknown[j]) for j in np.flatnonzero(self.missing).tolist()]
        self.missing[:], self.unknown[:] = 0, 0
        return [(feature, int(missing - unknown), int(unknown)) for feature, missing, unknown in seen]
