"""The page on which people judge, served to this machine: who has the token may ask, and nobody else."""

import contextlib
import hmac
import json
import secrets
import signal
import socket
import threading
from collections.abc import Iterator
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from rankwise import check
from rankwise.base import pages
from rankwise.base.arrays import Json
from rankwise.wings.judging.task import JudgingTask

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_LARGEST = 2**16  # bytes of an answer
_SECONDS = 60.0  # for which a connection may say nothing


class RefusedError(Exception):
    """A request that is not answered, with its status and a sentence."""


class Server(ThreadingHTTPServer):
    """The server; ``address`` is what judges open, with the token."""

    daemon_threads = True

    def __init__(self, task: JudgingTask, host: str = "127.0.0.1", port: int = 0, token: str = "") -> None:
        self.task, self.token = task, token or secrets.token_urlsafe(24)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.page, self.policy = pages.of_package("rankwise.wings.judging", "judge")
        try:
            super().__init__((host, port), _Handler)
        except OSError as taken:
            hint = "`choose another port|use --port N`, or 0 for a free one"
            got = str(taken.strerror).lower()
            raise check.error(f"cannot listen on {host}:{port}", got=got, hint=hint) from None
        self.loopback = host in LOOPBACK or host.startswith("127.")
        self.cookie = f"rankwise-judge-{self.server_port}"  # browsers share cookies between ports
        shown = f"[{host}]" if ":" in host else host
        self.address = f"http://{shown}:{self.server_port}/?token={self.token}"

    def server_bind(self) -> None:
        """Take the address, without asking the network for this machine's name."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that went away."""


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version, server_version, sys_version, timeout = "HTTP/1.1", "rankwise", "", _SECONDS

    def do_GET(self) -> None:
        """Answer with the page, or with what a judge sees next."""
        self._answer(self._get)

    def do_POST(self) -> None:
        """Take an answer of a judge."""
        self._answer(self._post)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 (the name of the standard library)
        """Log nothing: the address has the token."""

    def _answer(self, respond: Any) -> None:
        try:
            self._check_host()
            respond()
        except RefusedError as refused:
            status, what = refused.args
            self.close_connection = True
            self._send(status, json.dumps({"error": what}), "application/json")
        except ValueError as wrong:
            self._send(422, json.dumps({"error": str(wrong)}), "application/json")
        except (ConnectionError, TimeoutError):
            self.close_connection = True
        except OSError as failed:  # of the file: the page shows it, and the judge says it again
            self._send(507, json.dumps({"error": f"the answer was not saved: {failed.strerror}"}), "application/json")

    def _get(self) -> None:
        url = urlsplit(self.path)
        words = parse_qs(url.query)
        if url.path == "/" and "token" in words:
            self._require(words["token"][0])
            cookie = f"{self.server.cookie}={self.server.token}; HttpOnly; SameSite=Strict; Path=/"
            self._send(303, "", "text/plain", {"Location": "/", "Set-Cookie": cookie})
            return
        self._require(self._token())
        if url.path == "/":
            self._send(200, self.server.page, "text/html", {"Content-Security-Policy": self.server.policy})
        elif url.path == "/state":
            self._send_json(self.server.task.state(words.get("judge", [""])[0]))
        else:
            raise RefusedError(404, "there is no such page")

    def _post(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit() and len(length) < 9 and int(length) <= _LARGEST):
            raise RefusedError(413, f"an answer has a length of at most {_LARGEST} bytes")
        body = self.rfile.read(int(length))
        self._require(self._token())
        origin = self.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != self.headers.get("Host"):
            raise RefusedError(403, "the request comes from another page")
        if self.headers.get_content_type() != "application/json":
            raise RefusedError(415, "an answer is JSON")
        said = _parsed(body)
        task = self.server.task
        if self.path == "/answer":
            words = {name: _text(said, name) for name in ("query", "document")}
            self._send_json(task.answer(_text(said, "judge"), **words, grade=said.get("grade")))
        elif self.path in ("/undo", "/again"):
            self._send_json(getattr(task, self.path[1:])(_text(said, "judge")))
        else:
            raise RefusedError(404, "there is no such page")

    def _check_host(self) -> None:
        """Refuse requests by names that are not this machine's, as pages of other sites make them."""
        host = urlsplit(f"//{self.headers.get('Host', '')}").hostname
        if self.server.loopback and host not in {*LOOPBACK, self.server.server_address[0]}:
            raise RefusedError(421, "the page is not served by this name")

    def _token(self) -> str:
        cookies: SimpleCookie = SimpleCookie()
        with contextlib.suppress(CookieError):
            cookies.load(self.headers.get("Cookie", ""))
        found = cookies.get(self.server.cookie)
        return found.value if found else self.headers.get("Authorization", "").removeprefix("Bearer ")

    def _require(self, token: str) -> None:
        if not hmac.compare_digest(token.encode(), self.server.token.encode()):
            raise RefusedError(403, "open the address that rankwise judge serve printed, with its token")

    def _send_json(self, content: Json) -> None:
        self._send(200, json.dumps(content), "application/json")

    def _send(self, status: int, content: str, kind: str, more: Json | None = None) -> None:
        body = content.encode("utf-8", "replace")
        headers = {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store",
        }
        headers |= {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", **(more or {})}
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def _parsed(body: bytes) -> Json:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise RefusedError(400, "an answer is a JSON object")
    return said


def _text(said: Json, name: str) -> str:
    value = said.get(name)
    if not isinstance(value, str):
        raise check.error(f"{name} must be text", got=repr(value)[:80])
    return value


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[None]:
    """End a ``with`` block without an error by Ctrl-C or SIGTERM."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop) if threading.current_thread() is threading.main_thread() else None
    try:
        with contextlib.suppress(KeyboardInterrupt):
            yield
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)
