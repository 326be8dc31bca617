"""The server of ``rankwise serve``: a socket, one process or several that answer on it, and their signals.

SIGTERM and Ctrl-C stop it once requests in flight are answered, SIGHUP loads the models anew. Of several processes the
parent holds no models: it copies their folders, so that all load the same bytes, and replaces them in two steps, first
loading them everywhere, then serving them, or neither.
"""

import contextlib
import json
import logging
import math
import multiprocessing
import os
import shutil
import signal
import socket
import tempfile
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from rankwise import check, registry
from rankwise.arrays import Json, Keywords
from rankwise.rankers import storage
from rankwise.rankers.base import Ranker
from rankwise.rankers.table import load
from rankwise.serving.feature_log import FeatureLog
from rankwise.serving.http import Served, Service, log
from rankwise.serving.measures import FOLDER
from rankwise.serving.requests import RequestLimits

LEVELS = ("debug", "info", "warning", "error")
_MOST = 1024  # connections of a process
_LOOK = 0.2  # seconds between two looks at signals and processes
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_HANG_UP = getattr(signal, "SIGHUP", None)  # which Windows does not have


@dataclass(frozen=True)
class Settings:
    """What is served, and how."""

    folders: Mapping[str, Path]
    """Models by name."""
    production: str = ""
    limits: RequestLimits = field(default_factory=RequestLimits)
    examples: list[Json] = field(default_factory=list)
    hosts: frozenset[str] = frozenset()
    feature_log: FeatureLog | None = None
    log_level: str = "warning"
    workers: int = 1

    def models(self, folders: Mapping[str, Path] | None = None) -> dict[str, Served]:
        """Load all models, or raise."""
        return {name: Served(name, model) for name, model in self._loaded(folders).items()}

    def service(self, folders: Mapping[str, Path] | None = None) -> Service:
        """Load all models and return the service."""
        options: Keywords = {"hosts": self.hosts, "feature_log": self.feature_log}
        return Service(self._loaded(folders), self.production, self.limits, self.examples, **options)

    def _loaded(self, folders: Mapping[str, Path] | None) -> dict[str, Ranker]:
        log.debug("loading models", extra={"facts": {"process": os.getpid()}})
        return {name: load(path) for name, path in (folders or self.folders).items()}


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


def run(settings: Settings, listening: socket.socket, started: Callable[[], None] = lambda: None) -> None:
    """Serve until SIGTERM or Ctrl-C; ``started`` is called once all models are loaded."""
    _log_as_json(settings.log_level)
    if settings.workers == 1:
        serve(settings.service(), listening, started, reload=settings.models)
    else:
        with tempfile.TemporaryDirectory(prefix="rankwise-serve-") as folder:
            _Processes(settings, listening, Path(folder)).run(started)


def serve(
    service: Service,
    listening: socket.socket,
    started: Callable[[], None] = lambda: None,
    reload: Callable[[], dict[str, Served]] | None = None,
) -> None:
    """Serve in this process; ``reload`` loads the models anew after SIGHUP."""
    wanted = threading.Event()
    if _HANG_UP and reload is not None and threading.current_thread() is threading.main_thread():
        signal.signal(_HANG_UP, lambda *_: wanted.set())
        threading.Thread(target=_reloading, args=(service, wanted, reload), daemon=True).start()
    _Server(service, started).run(sockets=[listening])


def _reloading(service: Service, wanted: threading.Event, reload: Callable[[], dict[str, Served]]) -> None:
    while wanted.wait():
        wanted.clear()
        try:
            models = reload()
        except Exception as wrong:  # whatever it is, the models that are served stay
            log.error("models were not loaded anew: %s", wrong)
        else:
            service.replace(models)
            log.warning("models were loaded anew", extra={"facts": {"versions": _versions(models)}})


def _versions(models: Mapping[str, Served]) -> dict[str, str]:
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
        """Make room for a connection: an idle one goes where its client has half of all, or all are taken."""
        self.waited[one] = 0, None
        same = [other for other in self.waited if other.peer == one.peer]
        crowd = same if len(same) > _MOST // 2 else list(self.waited) if len(self.waited) >= _MOST else []
        oldest = next((other for other in crowd if other is not one and _is_idle(other)), None)
        if oldest is not None:
            self.waited.pop(oldest)
            oldest.transport.abort()
        elif len(same) > _MOST // 2:
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


class _Process:
    """One of several processes, and the pipe by which it is told what to do."""

    def __init__(self, settings: Settings, folders: Mapping[str, Path], listening: socket.socket) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.pipe, theirs = spawn.Pipe()
        self.ready = False
        self.process = spawn.Process(target=_work, args=(settings, folders, registry.parcels(), listening, theirs))
        self.process.start()
        theirs.close()

    def tell(self, *words: object) -> None:
        with contextlib.suppress(OSError):  # it has ended
            self.pipe.send(words)


class _Processes:
    """The parent of several processes: starts them, again if one dies, passes signals on, and holds no model."""

    def __init__(self, settings: Settings, listening: socket.socket, folder: Path) -> None:
        self.settings, self.listening, self.folder = settings, listening, folder
        self.stopping = self.wanted = False
        self.generation = 0
        self.all: list[_Process] = []

    def run(self, started: Callable[[], None]) -> None:
        """Serve until a signal says stop."""
        heard = {signal.SIGTERM: self._stop, signal.SIGINT: self._stop}
        heard |= {_HANG_UP: self._reload_soon} if _HANG_UP else {}
        before = {number: signal.signal(number, handler) for number, handler in heard.items()}
        os.environ[FOLDER] = str(self.folder / "metrics")
        try:
            Path(os.environ[FOLDER]).mkdir()
            self.folders = self._copied()
            self.all = [self._start() for _ in range(self.settings.workers)]
            for one in self.all:
                if (wrong := self._reply(one)) is not None and not self.stopping:
                    raise ValueError(wrong)
                one.ready = True
            started()
            while not self.stopping:
                self._look()
        finally:
            self._end()
            del os.environ[FOLDER]
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, *_: object) -> None:
        self.stopping = True

    def _reload_soon(self, *_: object) -> None:
        self.wanted = True

    def _start(self) -> _Process:
        return _Process(self.settings, self.folders, self.listening)

    def _copied(self) -> dict[str, Path]:
        """Copy the models, verified, to a folder that nobody changes."""
        self.generation += 1
        copies = {}
        for number, (name, path) in enumerate(self.settings.folders.items()):
            copies[name] = self.folder / f"models-{self.generation}-{number}"
            storage.write(copies[name], *storage.read(path))
        return copies

    def _look(self) -> None:
        """Start processes that have ended again, and load models anew if that is wanted."""
        wait([one.process.sentinel for one in self.all], _LOOK)
        for place, one in enumerate(self.all):
            if one.process.exitcode is not None and not self.stopping:
                log.error("a process ended with %s and is started again", one.process.exitcode)
                self.all[place] = self._start()
            elif not one.ready and one.pipe.poll():
                one.ready = self._reply(one) is None
        if self.wanted and not self.stopping and all(one.ready for one in self.all):
            self.wanted = False
            self._reload()

    def _reload(self) -> None:
        """Load the models anew in all processes, and serve them if all could."""
        old = self.folders
        try:
            new = self._copied()
        except (OSError, ValueError) as unreadable:
            log.error("models were not loaded anew: %s", unreadable)
            return
        for one in self.all:
            one.tell("load", new)
        wrongs = [self._reply(one) for one in self.all]
        wrong = next(filter(None, wrongs), None)
        for one in self.all:
            one.tell("serve" if wrong is None else "drop")
        if wrong is None:
            self.folders = new
            log.warning("models were loaded anew", extra={"facts": {"processes": len(self.all)}})
        else:
            log.error("models were not loaded anew: %s", wrong)
        for folder in (old if wrong is None else new).values():
            shutil.rmtree(folder, ignore_errors=True)

    def _reply(self, one: _Process) -> str | None:
        """Return what is wrong by the answer of a process, or None."""
        while not one.pipe.poll(_LOOK):
            if self.stopping:
                return "the service is stopping"
        try:
            return one.pipe.recv()  # type: ignore[no-any-return]
        except (EOFError, OSError):
            return "a process ended while it loaded the models"

    def _end(self) -> None:
        self.listening.close()
        for one in self.all:
            one.process.terminate()
        for one in self.all:
            one.process.join(math.ceil(self.settings.limits.seconds) + 10)
            one.process.kill()
            one.process.join()


def _work(
    settings: Settings,
    folders: Mapping[str, Path],
    registered: list[bytes],
    listening: socket.socket,
    parent: Connection,
) -> None:
    """Serve as one of several processes."""
    if _HANG_UP:
        signal.signal(_HANG_UP, signal.SIG_IGN)  # the parent loads models anew in all of them
    _log_as_json(settings.log_level)
    registry.receive(registered)
    try:
        service = settings.service(folders)
    except Exception as wrong:  # the parent says it
        parent.send(str(wrong))
        return
    threading.Thread(target=_obey, args=(service, settings, parent), daemon=True).start()
    serve(service, listening, lambda: parent.send(None))


def _obey(service: Service, settings: Settings, parent: Connection) -> None:
    """Do what the parent says: load models, then serve them or drop them; stop where it is gone."""
    models: dict[str, Served] | None = None
    while True:
        try:
            what, *folders = parent.recv()
        except (EOFError, OSError):
            os.kill(os.getpid(), signal.SIGTERM)
            return
        if what == "load":
            try:
                models, wrong = settings.models(*folders), None
            except Exception as raised:  # the parent says it
                models, wrong = None, str(raised)
            parent.send(wrong)
        elif what == "serve" and models is not None:
            service.replace(models)
        else:
            models = None


class _JsonLines(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        facts = getattr(record, "facts", {})
        line = {"time": self.formatTime(record), "level": record.levelname.lower(), "message": record.getMessage()}
        if record.exc_info:
            facts = {**facts, "error": "".join(traceback.format_exception(*record.exc_info))}
        return json.dumps(line | facts, default=str)


def _log_as_json(level: str) -> None:
    """Write logs of the service and of uvicorn to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(_JsonLines("%(message)s"))
    for name in (log.name, "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level.upper())
