"""A server in the process that gives recorded answers, one after another, and keeps what it was asked."""

import contextlib
import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple


class Asked(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: Any


class Recorded(NamedTuple):
    address: str
    asked: list[Asked]


@contextlib.contextmanager
def recorded(*answers: Any) -> Iterator[Recorded]:
    """Serve answers: JSON, a pair of status and JSON, or a function that gets the handler."""
    asked: list[Asked] = []
    left = list(answers)

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            lines = "ndjson" in self.headers.get("Content-Type", "")
            body = [*map(json.loads, content.splitlines())] if lines else json.loads(content) if content else None
            asked.append(Asked(self.command, self.path, dict(self.headers), body))
            answer = left.pop(0)
            if callable(answer):
                answer(self)
                return
            status, body = answer if isinstance(answer, tuple) else (200, answer)
            give(self, status, body if isinstance(body, bytes) else json.dumps(body).encode())

        do_GET = do_POST = do_PUT = do_DELETE = answer

        def log_message(self, *words: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield Recorded(f"http://127.0.0.1:{server.server_port}", asked)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert not left, f"not asked for: {left}"


def give(handler: Any, status: int, content: bytes, length: int | None = None, **headers: str) -> None:
    """Send an answer; with another ``length`` it breaks in the middle."""
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(length or len(content)))
    handler.end_headers()
    handler.wfile.write(content)
