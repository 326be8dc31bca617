"""The server of ``rankwise serve``: a socket, and one process or several that answer on it."""

import base64
import json
import math
import os
import socket
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from rankwise import check, registry
from rankwise.arrays import Keywords
from rankwise.rankers.table import load
from rankwise.serving.http import RequestLimits, Service
from rankwise.serving.measures import FOLDER

_MOST = 1024  # connections of a process; further ones get status 503
_SETTINGS = "RANKWISE_SERVE"
"""The environment variable that names the file of settings, for the processes that uvicorn starts."""


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


def run(service: Service, folders: Mapping[str, Path], listening: socket.socket, workers: int) -> None:
    """Serve until SIGTERM or Ctrl-C; requests in flight are finished first, within the time of one request.

    With several ``workers``, each process loads the models from ``folders``.
    """
    seconds = math.ceil(service.limits.seconds)
    options: Keywords = {"log_level": "warning", "timeout_graceful_shutdown": seconds, "limit_concurrency": _MOST}
    if workers == 1:
        uvicorn.Server(uvicorn.Config(service.application(), **options)).run(sockets=[listening])
        return
    with tempfile.TemporaryDirectory(prefix="rankwise-serve-") as folder:
        settings = {
            "models": {name: str(path.resolve()) for name, path in folders.items()},
            "production": service.production,
            "limits": asdict(service.limits),
            "examples": service.examples,
            "registered": [base64.b64encode(parcel).decode() for parcel in registry.parcels()],
        }
        path = Path(folder, "settings.json")
        path.write_text(json.dumps(settings), encoding="utf-8")
        os.environ |= {_SETTINGS: str(path), FOLDER: folder}
        uvicorn.run(f"{__name__}:from_settings", factory=True, fd=listening.fileno(), workers=workers, **options)


def from_settings() -> Starlette:
    """Return the application of one of several processes."""
    settings = json.loads(Path(os.environ[_SETTINGS]).read_text(encoding="utf-8"))
    registry.receive(map(base64.b64decode, settings["registered"]))
    models = {name: load(path) for name, path in settings["models"].items()}
    limits = RequestLimits(**settings["limits"])
    return Service(models, settings["production"], limits, settings["examples"]).application()
