"""A server of one file on this machine, which can break off, refuse, and name versions."""

import contextlib
import http.server
import re
import threading
from collections.abc import Iterator
from typing import Any


class Server:
    """Serves one file on 127.0.0.1, with or without ranges, whole or breaking off."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.ranges = True
        self.stop_after: int | None = None
        self.stop_at: int | None = None
        """Which answer breaks off, counted from 1; every one by default."""
        self.asked: list[str | None] = []
        self.conditions: list[str | None] = []
        self.allowed: str | None = None
        """The header of a name and a password, if the server asks for them."""
        self.status: int | None = None
        self.etag: str | None = None
        self.url = ""

    def answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        wanted = handler.headers["Range"]
        self.asked.append(wanted)
        self.conditions.append(handler.headers["If-Range"])
        if self.allowed not in (None, handler.headers["Authorization"]):
            handler.send_error(401)
            return
        if self.status:
            handler.send_error(self.status)
            return
        begin, end = self.bounds(wanted)
        if begin >= len(self.content):
            handler.send_error(416)
            return
        body = self.content[begin:end]
        partial = bool(wanted) and self.ranges
        handler.send_response(206 if partial else 200)
        handler.send_header("Content-Length", str(len(body)))
        if self.etag is not None:
            handler.send_header("ETag", self.etag)
        if partial:
            handler.send_header("Content-Range", f"bytes {begin}-{end - 1}/{len(self.content)}")
        handler.end_headers()
        stop = self.stop_after if self.stop_at in (None, len(self.asked)) else None
        handler.wfile.write(body if stop is None else body[:stop])

    def bounds(self, wanted: str | None) -> tuple[int, int]:
        """First and last byte of a range: from … to, from … on, or the last so many."""
        size = len(self.content)
        first, last = re.fullmatch(r"bytes=(\d*)-(\d*)", wanted if wanted and self.ranges else "bytes=0-").groups()  # type: ignore[union-attr]
        if not first:
            return max(0, size - int(last)), size
        return int(first), min(size, int(last) + 1) if last else size


@contextlib.contextmanager
def serving(content: bytes, name: str = "archive") -> Iterator[Server]:
    server = Server(content)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            # Who looks at the headers alone hangs up.
            with contextlib.suppress(ConnectionError):
                server.answer(self)

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        server.url = f"http://127.0.0.1:{listening.server_port}/{name}"
        try:
            yield server
        finally:
            listening.shutdown()
            thread.join()


Answer = tuple[int, dict[str, str], bytes] | tuple[Any, Any]


@contextlib.contextmanager
def scripted(answers: list[Answer], name: str = "rows.txt") -> Iterator[Server]:
    """Serve a list of answers, status, headers and body, one after another; the last one is repeated.

    Of a pair of answers, the first is for who asks for a range.
    """
    with serving(b"", name) as server:

        def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
            now: Any = answers[min(len(server.asked), len(answers) - 1)]
            status, headers, body = now if len(now) == 3 else now[handler.headers["Range"] is None]
            server.asked.append(handler.headers["Range"])
            server.conditions.append(handler.headers["If-Range"])
            handler.protocol_version = "HTTP/1.1"
            handler.send_response_only(status)
            if not any(value.endswith("2038 00:00:00 GMT") for value in headers.values()):
                handler.send_header("Date", "Fri, 01 Jan 2038 00:00:00 GMT")
            for key, value in {"Connection": "close", **headers}.items():
                handler.send_header(key, value)
            handler.end_headers()
            handler.wfile.write(body)
            handler.close_connection = True

        server.answer = answer  # type: ignore[method-assign]
        yield server
