"""The application of ``rankwise serve``: scores and explanations of several models over HTTP, health and metrics."""

import asyncio
import base64
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import resources
from string import Template
from typing import Any

import numpy as np
import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from rankwise import check
from rankwise.arrays import Json
from rankwise.evaluation.explanation import explain
from rankwise.rankers.base import Ranker
from rankwise.report import html
from rankwise.serving.measures import Measures
from rankwise.serving.requests import RequestedQuery, RequestError, RequestReader
from rankwise.threads import thread_count

_METHODS = ("score", "explain")
_SMALL = 2**20  # bytes of a request that takes a few milliseconds


@dataclass(frozen=True)
class RequestLimits:
    """Limits of one request."""

    megabytes: float = 16.0
    documents: int = 10_000
    seconds: float = 10.0


class Served:
    """A model in service."""

    def __init__(self, name: str, model: Ranker) -> None:
        self.name, self.model, self.scorer, self.reader = name, model, model.scorer(), RequestReader(model._schema)
        digest = hashlib.sha256(json.dumps(model._description(), sort_keys=True).encode())
        for _, content in sorted(model._files().items()):
            digest.update(content)
        self.version = digest.hexdigest()[:12]
        self.quick = self.scorer.rearranged
        self.card = model.card()

    def about(self) -> Json:
        """Return what ``/models`` says of it."""
        schema = self.model._schema
        features = {"features": schema.names, "n_features": schema.count, "categories": self.model.categories_}
        return {"name": self.name, "version": self.version, "ranker": repr(self.model), **features, "card": self.card}

    def score(self, body: bytes, most: int) -> tuple[Json, int]:
        """Return scores and ranks of every query of a request, and the number of documents."""
        request = _parsed(body)
        queries = self.reader.read(request, most)
        answers = [self._scored(query) for query in queries]
        answer = {"queries": answers} if "queries" in request else answers[0]
        return {"model": self.name, "version": self.version, **answer}, sum(len(one.features) for one in queries)

    def _scored(self, query: RequestedQuery) -> Json:
        scores = self.scorer(query.features, np.array([0, len(query.features)]))
        ranks = np.empty(scores.size, np.int64)
        ranks[np.argsort(-scores, kind="stable")] = np.arange(1, scores.size + 1)
        names = {name: query.words[name] for name in ("id", "ids") if name in query.words}
        return names | {"scores": scores, "ranks": ranks}

    def explain(self, body: bytes, most: int) -> tuple[Json, int]:
        """Return what features add to the scores of one query's documents."""
        queries = self.reader.read(_parsed(body), most)
        if len(queries) != 1 or not len(queries[0].features):
            raise RequestError(422, "one query with documents is explained at a time", got=f"{len(queries)} queries")
        explanation = explain(self.model, self.reader.dataset(queries[0]))
        return {"model": self.name, "version": self.version, **explanation.to_dict()}, len(queries[0].features)


class Service:
    """Models in service, one of which is production: it answers requests that name no model."""

    def __init__(
        self,
        models: Mapping[str, Ranker],
        production: str = "",
        limits: RequestLimits | None = None,
        examples: Sequence[Json] = (),
    ) -> None:
        self.models = {name: Served(name, model) for name, model in models.items()}
        self.production = check.choice("production", production or next(iter(models)), models)
        self.limits, self.examples = limits or RequestLimits(), examples
        self._measures = Measures({one.name: one.version for one in self.models.values()}, self.production)
        threads = {"score": thread_count(), "explain": 1}  # libraries share state when they explain
        self._pools = {method: ThreadPoolExecutor(count, method) for method, count in threads.items()}
        self._page, self._policy = _page()

    def application(self) -> Starlette:
        """Return the ASGI application."""
        prefixes, gets = (
            ("", "/models/{name:path}"),
            {"/": self._compare, "/models": self._list, "/metrics": self._metrics},
        )
        routes = [
            *(Route(f"{prefix}/{end}", self._answer, methods=["POST"]) for prefix in prefixes for end in _METHODS),
            *(Route(path, endpoint) for path, endpoint in gets.items()),
            *(Route(path, self._example) for path in ("/examples", "/examples/{number:int}")),
            Route("/health", self._health),
        ]
        return Starlette(routes=routes, exception_handlers={HTTPException: _failed, Exception: _failed})

    async def _answer(self, request: Request) -> Response:
        """Score or explain documents, within the limits."""
        start, documents, response = time.perf_counter(), 0, None
        name, method = request.path_params.get("name", self.production), request.scope["path"].rpartition("/")[2]
        if name not in self.models:
            hint = check.suggestion(name, self.models)
            return _error(RequestError(404, "there is no such model", got=repr(name), hint=hint))
        try:
            async with asyncio.timeout(self.limits.seconds):
                body = await _body(request, self.limits.megabytes)
                model, most = self.models[name], self.limits.documents
                if method == "score" and model.quick and len(body) <= _SMALL:
                    content, documents = model.score(body, most)  # another thread would take longer
                else:
                    run = asyncio.get_running_loop().run_in_executor
                    content, documents = await run(self._pools[method], getattr(model, method), body, most)
            response = _json(content)
        except TimeoutError:
            what, hint = f"the request took longer than {self.limits.seconds:g} s", "send fewer documents at a time"
            response = _error(RequestError(504, what, hint=hint))
        except ValueError as wrong:
            response = _error(wrong)
        except ClientDisconnect:
            response = Response(status_code=400)  # nobody reads it
        finally:
            status = 500 if response is None else response.status_code
            self._measures.request(name, method, status, time.perf_counter() - start, documents)
        return response

    async def _list(self, _: Request) -> Response:
        return _json({"production": self.production, "models": [one.about() for one in self.models.values()]})

    async def _health(self, _: Request) -> Response:
        return _json({"status": "ok", "production": self.production})

    async def _metrics(self, _: Request) -> Response:
        return Response(self._measures.text(), media_type=self._measures.media_type)

    async def _compare(self, _: Request) -> Response:
        return HTMLResponse(self._page, headers={"Content-Security-Policy": self._policy})

    async def _example(self, request: Request) -> Response:
        number = request.path_params.get("number")
        if number is None:
            return _json({"queries": [str(query.get("id", place)) for place, query in enumerate(self.examples)]})
        if number >= len(self.examples):
            return _error(RequestError(404, "there is no such example", got=number))
        return _json(self.examples[number])


async def _failed(_: Request, wrong: Exception) -> Response:
    if isinstance(wrong, HTTPException):
        return _error(RequestError(wrong.status_code, wrong.detail.lower()))
    return _error(RequestError(500, "internal error", hint="see the log of the service"))


async def _body(request: Request, megabytes: float) -> bytes:
    chunks, left = [], int(megabytes * 2**20)
    too_large = RequestError(413, f"the body is larger than {megabytes:g} MB", hint="send fewer documents at a time")
    if int(request.headers.get("content-length", "0")) > left:
        raise too_large
    async for chunk in request.stream():
        left -= len(chunk)
        if left < 0:
            raise too_large
        chunks.append(chunk)
    return b"".join(chunks)


def _parsed(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as broken:
        raise RequestError(400, "the body is not JSON", got=str(broken)) from None


def _json(content: object, status: int = 200) -> Response:
    options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
    return Response(orjson.dumps(content, option=options), status, media_type="application/json")


def _error(wrong: ValueError) -> Response:
    error = RequestError.of(wrong)
    return _json({"error": {"message": str(error), **error.parts}}, error.status)


def _page() -> tuple[str, str]:
    """Return the page at ``/`` and its content security policy: its own script, and requests to this service."""
    markup = resources.files("rankwise.serving").joinpath("page.html").read_text(encoding="utf-8")
    script = resources.files("rankwise.serving").joinpath("page.js").read_text(encoding="utf-8")
    script = '(() => {\n"use strict";\n' + html.file("words.js") + script + "})();\n"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    policy = f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
    policy += "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    page = Template(markup).substitute(style=html.file("page.css"), script=script)
    return page, policy
