"""``rankwise serve`` for tests, on loopback at a port that the system chooses."""

import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
from typing import Any, Self

from tests.processes import HANG, environment


class Running:
    """``rankwise serve`` in another process."""

    def __init__(self, *words: object) -> None:
        self.words = [str(word) for word in words]
        command = [sys.executable, "-m", "rankwise", "serve", *self.words, "--port", "0"]
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by stop; a pipe would fill up)
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self._log, text=True, env=environment(NO_COLOR="1")
        )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        assert "serving" in self.line, self.log()
        self.port = int(self.line.strip().rpartition(":")[2])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End it where the test has not."""
        if self.process.poll() is None:
            self.stop()

    def log(self) -> str:
        log = self._log.fileno()
        return os.pread(log, os.fstat(log).st_size, 0).decode()  # the processes write where this file object is

    def logged(self) -> list[dict[str, Any]]:
        """The lines of the log."""
        return [json.loads(line) for line in self.log().splitlines()]

    def ask(self, path: str, body: object = None, *, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=HANG)
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("GET" if body is None else "POST", path, content, headers or {})
        response = connection.getresponse()
        self.answered = {name.lower(): value for name, value in response.getheaders()}
        text = response.read()
        connection.close()
        is_json = response.getheader("content-type") == "application/json"
        return response.status, json.loads(text) if is_json else text.decode()

    def stop(self) -> int:
        """Stop by SIGTERM, and return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.end()

    def end(self) -> int:
        """Wait for the end, and return the exit code."""
        self.process.communicate(timeout=HANG)
        self._log.close()
        return self.process.returncode
