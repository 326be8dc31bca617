"""The server of ``rankwise serve``: a socket, connections, logs, and signals.

SIGTERM and Ctrl-C stop it once requests in flight are answered, SIGHUP loads the models anew.
"""

import contextlib
import json
import logging
import math
import os
import signal
import socket
import tempfile
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import uvicorn

from rankwise import check
from rankwise.base.arrays import Json, Keywords
from rankwise.check.parameters import AtLeast, OneOf
from rankwise.wings.serve.feature_log_writer import FeatureLog
from rankwise.wings.serve.http import Service, log
from rankwise.wings.serve.request_parsing import RequestLimits
from rankwise.wings.serve.searching import opened, served
from rankwise.wings.serve.served import ServedModel

LEVELS = ("debug", "info", "warning", "error")
_MOST, _OF_ONE = 1536, 1024  # connections of a process, and of one client, which may be a proxy with all requests
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
HANG_UP = getattr(signal, "SIGHUP", None)  # which Windows does not have


@dataclass(frozen=True)
class ServerSettings:
    """What is served, and how."""

    folders: Mapping[str, Path]
    """Models by name."""
    production: str = ""
    limits: RequestLimits = field(default_factory=RequestLimits)
    examples: list[Json] = field(default_factory=list)
    hosts: frozenset[str] = frozenset()
    feature_log: FeatureLog | None = None
    log_level: Annotated[
        str, OneOf(LEVELS), "What is logged, as lines of JSON; info has one for each request."
    ] = "warning"  # fmt: skip
    workers: Annotated[int, AtLeast(1), "Processes that answer requests, each with all models."] = 1

    def models(self, folders: Mapping[str, Path] | None = None) -> dict[str, ServedModel]:
        """Load all models, or raise."""
        return {name: served(name, model) for name, model in self._loaded(folders).items()}

    def service(self, folders: Mapping[str, Path] | None = None) -> Service:
        """Load all models and return the service."""
        options: Keywords = {"hosts": self.hosts, "feature_log": self.feature_log}
        return Service(self._loaded(folders), self.production, self.limits, self.examples, **options)

    def _loaded(self, folders: Mapping[str, Path] | None) -> dict[str, Any]:
        log.debug("loading models", extra={"facts": {"process": os.getpid()}})
        return {name: opened(path) for name, path in (folders or self.folders).items()}


def hosts(address: str, names: list[str]) -> frozenset[str]:
    """Return the names that requests may call the service by: none are all of them.

    A service on this machine alone is called by loopback names, so that pages of other sites, whose names lead here,
    cannot ask it.

    >>> sorted(hosts("127.0.0.1", [])), hosts("0.0.0.0", []), sorted(hosts("0.0.0.0", ["rank.example"]))[-1]
    (['127.0.0.1', '::1', 'localhost'], frozenset(), 'rank.example')
    """
    loopback = address in _LOOPBACK or address.startswith("127.")
    return frozenset({*_LOOPBACK, address, *(name.lower() for name in names)} if loopback or names else ())


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address; port 0 is a free one."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as taken:
        hint = "`choose another port|use --port N`, or 0 for a free one"
        raise check.error(f"cannot listen on {host}:{port}", got=str(taken.strerror).lower(), hint=hint) from None
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # which uvicorn forgets of a socket by its number
    return listening


def run(settings: ServerSettings, listening: socket.socket, started: Callable[[], None] = lambda: None) -> None:
    """Serve until SIGTERM or Ctrl-C; ``started`` is called once all models are loaded."""
    from rankwise.wings.serve.processes import WorkerProcesses

    log_as_json(settings.log_level)
    _allow_files(_MOST + 512)
    if settings.workers == 1:
        reload = _hang_ups()  # from here on: loading takes a while
        serve(settings.service(), listening, started, settings.models, reload)
    else:
        with tempfile.TemporaryDirectory(prefix="rankwise-serve-") as folder:
            WorkerProcesses(settings, listening, Path(folder)).run(started)


def _allow_files(count: int) -> None:
    """Raise the limit of open files and connections, of this process and those that it starts, as far as it may."""
    try:
        import resource
    except ImportError:  # Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def serve(
    service: Service,
    listening: socket.socket,
    started: Callable[[], None] = lambda: None,
    reload: Callable[[], dict[str, ServedModel]] | None = None,
    wanted: threading.Event | None = None,
) -> None:
    """Serve in this process; ``reload`` loads the models anew whenever it is ``wanted``."""
    if reload is not None and wanted is not None:
        threading.Thread(target=_reloading, args=(service, wanted, reload), daemon=True).start()
    _Server(service, started).run(sockets=[listening])


def _hang_ups() -> threading.Event:
    """Return an event that SIGHUP sets, which would end the process otherwise."""
    reload = threading.Event()
    if HANG_UP and threading.current_thread() is threading.main_thread():
        signal.signal(HANG_UP, lambda *_: reload.set())
    return reload


def _reloading(service: Service, wanted: threading.Event, reload: Callable[[], dict[str, ServedModel]]) -> None:
    while wanted.wait():
        wanted.clear()
        try:
            models = reload()
        except Exception as wrong:  # whatever it is, the models that are served stay
            log.error("models were not loaded anew: %s", wrong)
        else:
            service.replace(models)
            log.warning("models were loaded anew", extra={"facts": {"versions": _versions(models)}})


def _versions(models: Mapping[str, ServedModel]) -> dict[str, str]:
    return {name: one.version for name, one in models.items()}


class _Server(uvicorn.Server):
    """A server that exits with 0 after a signal, and closes connections which keep others out."""

    def __init__(self, service: Service, started: Callable[[], None]) -> None:
        seconds = math.ceil(service.limits.seconds)
        options: Keywords = {"timeout_graceful_shutdown": seconds, "limit_concurrency": _MOST, "access_log": False}
        super().__init__(uvicorn.Config(service.application(), **options, log_config=None, ws="none"))
        self.config.load()
        self._service, self._tell, self._connections = service, started, _Connections(seconds)
        self.config.http_protocol_class = _limited(self.config.http_protocol_class, self._connections)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so: signals are heard from here on."""
        await super().startup(sockets=sockets)
        self._tell()

    async def on_tick(self, counter: int) -> bool:
        """Do what is to be done ten times a second."""
        if counter % 10 == 0:
            self._connections.close_idle()
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop; uvicorn would also raise the signal again in the end, and exit with its number."""
        self._service.stopping = True
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True


class _Connections:
    """Open connections, the oldest first, and how long each has waited for the head of a request."""

    def __init__(self, seconds: float) -> None:
        self.waited: dict[Any, tuple[int, Any]] = {}  # seconds, and the last request
        self.seconds = seconds

    def add(self, one: Any) -> None:
        """Make room for a connection: an idle one goes where its client has too many, or all are taken.

        One that is new, or was just answered, is not idle: its next request may be on the way.
        """
        self.waited[one] = 0, None
        same = [other for other in self.waited if other.peer == one.peer]
        crowd = same if len(same) > _OF_ONE else list(self.waited) if len(self.waited) >= _MOST else []
        oldest = next((other for other in crowd if self.waited[other][0] and _is_idle(other)), None)
        if oldest is not None:
            self.waited.pop(oldest)
            oldest.transport.abort()
        elif len(same) > _OF_ONE:
            self.waited.pop(one)
            one.transport.write(_FULL)
            one.transport.close()

    def close_idle(self) -> None:
        """Close connections that have been without a whole head of a request for too long; called once a second."""
        for one, (waited, last) in list(self.waited.items()):
            waited = waited + 1 if _is_idle(one) and one.cycle is last else 0
            self.waited[one] = waited, one.cycle
            if waited > self.seconds:
                one.transport.close()


def _is_idle(connection: Any) -> bool:
    return connection.cycle is None or connection.cycle.response_complete


def _limited(protocol: Any, connections: _Connections) -> Any:
    """Return uvicorn's protocol, whichever it has chosen, with connections that are counted."""

    class Limited(protocol):  # type: ignore[misc]
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.peer = (transport.get_extra_info("peername") or ("",))[0]
            connections.add(self)

        def connection_lost(self, exc: Exception | None) -> None:
            connections.waited.pop(self, None)
            super().connection_lost(exc)

    return Limited


class _JsonLines(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        facts = getattr(record, "facts", {})
        line = {"time": self.formatTime(record), "level": record.levelname.lower(), "message": record.getMessage()}
        if record.exc_info:
            facts = {**facts, "error": "".join(traceback.format_exception(*record.exc_info))}
        return json.dumps(line | facts, default=str)


def log_as_json(level: str) -> None:
    """Write logs of the service and of uvicorn to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(_JsonLines("%(message)s"))
    for name in (log.name, "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level.upper())
