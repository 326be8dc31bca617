"""Several processes of ``rankwise serve`` on one socket, and their parent.

The parent holds no models: it copies their folders, so that all processes load the same bytes, and replaces them in two
steps, first loading them everywhere, then serving them, or neither.
"""

import contextlib
import math
import multiprocessing
import os
import shutil
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client.multiprocess import mark_process_dead

from rankwise import check
from rankwise.language import registry
from rankwise.models import storage
from rankwise.wings.serve.http import Service, log
from rankwise.wings.serve.prometheus import FOLDER
from rankwise.wings.serve.server import HANG_UP, ServerSettings, log_as_json, serve

if TYPE_CHECKING:
    from rankwise.wings.serve.served import ServedModel

_LOOK = 0.2  # seconds between two looks at signals and processes


class _Process:
    """One of several processes, and the pipe by which it is told what to do."""

    def __init__(self, settings: ServerSettings, folders: Mapping[str, Path], listening: socket.socket) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.pipe, theirs = spawn.Pipe()
        self.ready = False
        self.process = spawn.Process(
            target=_work, args=(settings, folders, registry.pickle_registry(), listening, theirs)
        )
        self.process.start()
        theirs.close()

    def tell(self, *words: object) -> None:
        with contextlib.suppress(OSError):  # it has ended
            self.pipe.send(words)


class WorkerProcesses:
    """The parent of several processes: starts them, again if one dies, passes signals on, and holds no model."""

    def __init__(self, settings: ServerSettings, listening: socket.socket, folder: Path) -> None:
        self.settings, self.listening, self.folder = settings, listening, folder
        self.stopping = self.wanted = False
        self.generation = 0
        self.all: list[_Process] = []

    def run(self, started: Callable[[], None]) -> None:
        """Serve until a signal says stop."""
        signals = {signal.SIGTERM: self._stop, signal.SIGINT: self._stop}
        signals |= {HANG_UP: self._reload_soon} if HANG_UP else {}
        before = {number: signal.signal(number, handler) for number, handler in signals.items()}
        os.environ[FOLDER] = str(self.folder / "metrics")
        try:
            Path(os.environ[FOLDER]).mkdir()
            self.folders = self._copied()
            self.all = [self._start() for _ in range(self.settings.workers)]
            for one in self.all:
                if (wrong := self._reply(one)) is not None and not self.stopping:
                    raise check.InputError(wrong)
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
        copies: dict[str, Path] = {}
        try:
            for number, (name, path) in enumerate(self.settings.folders.items()):
                copies[name] = self.folder / f"models-{self.generation}-{number}"
                description, files = storage.read(path)
                if "contents" in description:  # its files keep their names; who loads the copy verifies them
                    shutil.copytree(path, copies[name])
                else:
                    storage.write(copies[name], description, files)
        except BaseException:
            _remove(copies)
            raise
        return copies

    def _look(self) -> None:
        """Start processes that have ended again, and load models anew if that is wanted."""
        wait([one.process.sentinel for one in self.all], _LOOK)
        for place, one in enumerate(self.all):
            if one.process.exitcode is not None and not self.stopping:
                log.error("a process ended with %s and is started again", one.process.exitcode)
                mark_process_dead(one.process.pid)  # type: ignore[no-untyped-call]  # it serves its models no more
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
        except Exception as unreadable:  # whatever it is, the models that are served stay
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
        _remove(old if wrong is None else new)

    def _reply(self, one: _Process) -> check.Message | None:
        """Return what is wrong by the answer of a process, or None."""
        while not one.pipe.poll(_LOOK):
            if self.stopping:
                return check.Message("the service is stopping", end="")
        try:
            return one.pipe.recv()  # type: ignore[no-any-return]
        except (EOFError, OSError):
            return check.Message("a process ended while it loaded the models", end="")

    def _end(self) -> None:
        self.listening.close()
        for one in self.all:
            one.process.terminate()
        for one in self.all:
            one.process.join(math.ceil(self.settings.limits.seconds) + 10)
            one.process.kill()
            one.process.join()


def _remove(folders: Mapping[str, Path]) -> None:
    for folder in folders.values():
        shutil.rmtree(folder, ignore_errors=True)


def _work(
    settings: ServerSettings,
    folders: Mapping[str, Path],
    registered: list[bytes],
    listening: socket.socket,
    parent: Connection,
) -> None:
    """Serve as one of several processes."""
    if HANG_UP:
        signal.signal(HANG_UP, signal.SIG_IGN)  # the parent loads models anew in all of them
    log_as_json(settings.log_level)
    registry.restore_registry(registered)
    try:
        service = settings.service(folders)
    except Exception as wrong:  # the parent says it
        parent.send(check.Message.of(wrong))
        return
    threading.Thread(target=_obey, args=(service, settings, parent), daemon=True).start()
    serve(service, listening, lambda: parent.send(None))


def _obey(service: Service, settings: ServerSettings, parent: Connection) -> None:
    """Do what the parent says: load models, then serve them or drop them; stop where it is gone."""
    models: dict[str, ServedModel] | None = None
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
                models, wrong = None, check.Message.of(raised)
            parent.send(wrong)
        elif what == "serve" and models is not None:
            service.replace(models)
        else:
            models = None
