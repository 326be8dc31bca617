"""The application of ``rankwise serve``: scores and explanations of several models over HTTP, health and metrics."""

import asyncio
import logging
import re
import secrets
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rankwise import check
from rankwise.base import pages
from rankwise.base.arrays import Json
from rankwise.base.threads import thread_count
from rankwise.models import Schema
from rankwise.wings.serve import openapi
from rankwise.wings.serve.feature_log_writer import FeatureLog
from rankwise.wings.serve.prometheus import PrometheusMetrics
from rankwise.wings.serve.request_parsing import LONG, RequestedQuery, RequestError, RequestLimits, shown
from rankwise.wings.serve.searching import FORMS, ServedSearch, served
from rankwise.wings.serve.served import Asked, ServedModel

_SMALL, _FEW = 2**20, 1000  # bytes, and documents and queries, of a request that takes a few milliseconds
_DIGITS = 9  # of a number in a path or a header
_ID = re.compile(rb"[\w.:/+=-]{1,128}")  # of a request, as its client may name it

log = logging.getLogger("rankwise.serve")


class Service:
    """Models and searches in service, one of which is production: it answers requests that name no model.

    ``hosts`` are the names that requests may have in their Host header, all of them where it is empty. Features of a
    sample of requests are appended to ``feature_log``.
    """

    def __init__(
        self,
        models: Mapping[str, Any],
        production: str = "",
        limits: RequestLimits | None = None,
        examples: Sequence[Json] = (),
        *,
        hosts: Collection[str] = (),
        feature_log: FeatureLog | None = None,
    ) -> None:
        self.production = check.choice("production", production or next(iter(models)), models)
        self.limits, self.examples, self.hosts, self.feature_log = (
            limits or RequestLimits(),
            examples,
            hosts,
            feature_log,
        )
        self.stopping = False
        self._measures, self._counting = PrometheusMetrics(), False
        self.replace({name: served(name, model) for name, model in models.items()})
        threads = {"score": thread_count(), "explain": 1}  # libraries share state when they explain
        self._pools = {method: ThreadPoolExecutor(count, method) for method, count in threads.items()}
        self._pools |= {"search": self._pools["score"], "why": self._pools["explain"]}

    def replace(self, models: dict[str, ServedModel]) -> None:
        """Serve other models by the same names; requests that are being answered keep theirs."""
        self.models = models
        self._measures.serving({one.name: one.version for one in models.values()}, self.production)

    def application(self) -> Starlette:
        """Return the ASGI application."""
        prefixes = ("", "/models/{name:path}")
        gets = {
            "/": self._compare,
            "/models": self._list,
            "/metrics": self._metrics,
            "/health": self._health,
            "/ready": self._ready,
            "/openapi.json": self._openapi,
            "/examples": self._examples,
            "/examples/{number}": self._example,
        }
        routes = [
            *(Route(f"{prefix}/{end}", self._answer, methods=["POST"]) for prefix in prefixes for end in self._pools),
            *(Route(path, endpoint) for path, endpoint in gets.items()),
        ]
        gate = Middleware(_Gate, service=self)
        return Starlette(routes=routes, middleware=[gate], exception_handlers={HTTPException: _failed})

    async def _answer(self, request: Request) -> Response:
        """Score or explain documents, within the limits."""
        start, asked, response = time.perf_counter(), None, None
        name, method = request.path_params.get("name", self.production), request.scope["path"].rpartition("/")[2]
        if name not in self.models:
            hint = check.suggestion(name[:LONG], self.models)
            return _error(RequestError(404, "there is no such model", got=shown(name), hint=hint))
        model, most, stop = self.models[name], self.limits.documents, threading.Event()
        if method not in model.methods:
            hint = "serve the folder of a search: rankwise text save"
            return _error(RequestError(404, "the model does not search", got=shown(name), hint=hint))
        request.scope["rankwise"] |= {"model": name, "version": model.version}
        try:
            async with asyncio.timeout(self.limits.seconds):
                body = await _body(request, self.limits.megabytes)
                run, pool = asyncio.get_running_loop().run_in_executor, self._pools[method]
                quick = method == "score" and model.quick  # another thread would take longer
                small = quick and len(body) <= _SMALL
                asked = model.read(body, most) if small else await run(pool, model.read, body, most, method)
                if small and asked.documents + len(asked.queries) <= _FEW:
                    content = model.score(asked, stop)
                else:
                    content = await run(pool, getattr(model, method), asked, stop)
            response = _json(content)
            self._count(model, asked)
            if self.feature_log is not None and self.feature_log.takes(request.scope["rankwise"]["id"]):
                about = {key: request.scope["rankwise"][key] for key in ("id", "model", "version")}
                response.background = BackgroundTask(self._log_features, asked.queries, model.schema, about)
        except TimeoutError:
            what, hint = f"the request took longer than {self.limits.seconds:g} s", "send fewer documents at a time"
            response = _error(RequestError(504, what, hint=hint))
        except ValueError as wrong:
            response = _error(wrong)
        except ClientDisconnect:
            response = Response(status_code=400)  # nobody reads it
        finally:
            stop.set()  # what still runs in a thread
            status, documents = 500 if response is None else response.status_code, asked.documents if asked else 0
            self._measures.request(name, method, status, time.perf_counter() - start, documents)
            request.scope["rankwise"]["documents"] = documents
        return response

    def _log_features(self, queries: list[RequestedQuery], schema: Schema, about: Json) -> None:
        try:
            if self.feature_log is not None:
                self.feature_log.write(queries, schema, about)
        except OSError as failed:  # the request was answered
            log.error("features were not logged: %s", failed.strerror, extra={"facts": {"id": about["id"]}})

    def _count(self, model: ServedModel, asked: Asked) -> None:
        """Count values, which the metrics hear of once a second: there may be many features."""
        model.count(asked)
        if not self._counting:
            self._counting = True
            asyncio.get_running_loop().call_later(1.0, self._tell, model)

    def _tell(self, *models: ServedModel) -> None:
        self._counting = False
        for model in {*models, *self.models.values()}:
            self._measures.values(model.name, model.counted())

    async def _list(self, _: Request) -> Response:
        return _json({"production": self.production, "models": [one.about() for one in self.models.values()]})

    async def _health(self, _: Request) -> Response:
        return _json({"status": "ok", "production": self.production})

    async def _ready(self, _: Request) -> Response:
        if self.stopping:
            return _error(RequestError(503, "the service is stopping"))
        return _json({"status": "ready", "models": {one.name: one.version for one in self.models.values()}})

    async def _openapi(self, _: Request) -> Response:
        models, searches = self.models.values(), any(isinstance(one, ServedSearch) for one in self.models.values())
        listed = [(one.name, one.schema) for one in models]
        return _json(openapi.document(listed, self.limits, FORMS if searches else None))

    async def _metrics(self, _: Request) -> Response:
        self._tell()
        return Response(self._measures.text(), media_type=self._measures.media_type)

    async def _compare(self, _: Request) -> Response:
        name = "search" if isinstance(self.models[self.production], ServedSearch) else "page"
        content, policy = pages.of_package("rankwise.wings.serve", name)
        return HTMLResponse(content, headers={"Content-Security-Policy": policy})

    async def _examples(self, _: Request) -> Response:
        return _json({"queries": [str(query.get("id", place)) for place, query in enumerate(self.examples)]})

    async def _example(self, request: Request) -> Response:
        text = request.path_params["number"]
        if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
            what, where = f"the number of an example has 1 to {_DIGITS} digits", "the path /examples/N"
            hint = f"ask for 0 to {len(self.examples) - 1}" if self.examples else "start the service with --examples"
            return _error(RequestError(400, what, got=shown(text), where=where, hint=hint))
        if int(text) >= len(self.examples):
            return _error(RequestError(404, "there is no such example", got=text))
        return _json(self.examples[int(text)])


class _Gate:
    """What every request passes: it gets an id, its host is checked, and it is logged in one line."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, headers = time.perf_counter(), dict(scope["headers"])
        given = headers.get(b"x-request-id", b"")
        name = given.decode() if _ID.fullmatch(given) else secrets.token_hex(8)
        about = scope["rankwise"] = {"id": name, "method": scope["method"], "path": scope["path"][:LONG]}

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                about["status"] = message["status"]
                closing = [(b"connection", b"close")] if self.service.stopping else []
                message["headers"] = [*message["headers"], (b"x-request-id", name.encode()), *closing]
            elif not message.get("more_body"):
                about["milliseconds"] = round(1e3 * (time.perf_counter() - start), 3)
            await send(message)

        try:
            wrong = _misdirected(headers.get(b"host", b"").decode("latin-1"), self.service.hosts)
            await (self.app if wrong is None else _error(wrong))(scope, receive, answer)
        except Exception:
            log.exception("the request failed", extra={"facts": {"id": name}})
            if "status" not in about:
                failed = RequestError(500, "internal error", got=f"request {name}", hint="see the log of the service")
                await _error(failed)(scope, receive, answer)
        finally:
            log.info("request", extra={"facts": about})


def _misdirected(host: str, allowed: Collection[str]) -> RequestError | None:
    """Return the error of a request by a name that is not the service's, as pages of other sites make them."""
    name = host.partition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
    if not allowed or name.lower().rstrip(".") in allowed:
        return None
    what, hint = "the service does not know itself by this name", "start the service with --host-name NAME"
    return RequestError(400, what, got=shown(host), where="the header Host", hint=hint)


async def _failed(_: Request, wrong: Exception) -> Response:
    status, what = (wrong.status_code, wrong.detail) if isinstance(wrong, HTTPException) else (500, "internal error")
    return _error(RequestError(status, what.lower()))


async def _body(request: Request, megabytes: float) -> bytes:
    chunks, left = [], int(megabytes * 2**20)
    length = request.headers.get("content-length", "0")
    if len(length) > _DIGITS or int(length) > left:
        raise _too_large(megabytes)
    async for chunk in request.stream():
        left -= len(chunk)
        if left < 0:
            raise _too_large(megabytes)
        chunks.append(chunk)
    return b"".join(chunks)


def _too_large(megabytes: float) -> RequestError:
    return RequestError(413, f"the body is larger than {megabytes:g} MB", hint="send fewer documents at a time")


def _json(content: object, status: int = 200) -> Response:
    options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
    return Response(orjson.dumps(content, option=options), status, media_type="application/json")


def _error(wrong: ValueError) -> Response:
    message = check.Message.of(wrong)
    fields = {"what": message.what, "got": message.got, "where": str(message.where) or message.about}
    return _json({"error": {"message": str(message), **fields, "hint": message.plain}}, getattr(wrong, "status", 422))
