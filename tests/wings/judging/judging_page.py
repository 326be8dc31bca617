"""``rankwise judge serve`` for tests: another process, and requests to it."""

import http.client
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

from tests.processes import HANG, environment


def write_task(folder: Path, documents: dict[str, Any], queries: dict[str, str], rows: str) -> Path:
    """Write the three files that judges are shown, and return the plan."""
    texts = {"docs": {key: one if isinstance(one, dict) else {"text": one} for key, one in documents.items()}}
    texts["queries"] = {key: {"text": one} for key, one in queries.items()}
    for name, records in texts.items():
        lines = [json.dumps({"_id": key, **record}) for key, record in records.items()]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    plan = folder / "plan.csv"
    plan.write_text(rows, encoding="utf-8")
    return plan


class JudgeServe:
    """``rankwise judge serve`` in another process."""

    def __init__(self, plan: Path, *words: object) -> None:
        files = ("--documents", plan.with_name("docs.jsonl"), "--queries", plan.with_name("queries.jsonl"))
        command = [sys.executable, "-m", "rankwise", "judge", "serve", *map(str, (plan, *files, *words))]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(NO_COLOR="1")
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert "judge at http" in line, self.process.communicate(timeout=HANG)
        self.address = line.split()[-1]
        self.token = self.address.rpartition("=")[2]
        self.port = int(self.address.split(":")[2].split("/")[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End it where the test has not."""
        if self.process.returncode is None:
            self.process.kill()
            self.process.communicate(timeout=HANG)

    def ask(self, path: str, body: Any = None, **headers: str | None) -> tuple[int, Any]:
        return ask(self.port, self.token, path, body, **headers)

    def stop(self) -> str:
        """End it by SIGTERM, and return what it printed."""
        self.process.terminate()
        out, err = self.process.communicate(timeout=HANG)
        assert self.process.returncode == 0, err
        return out + err


def ask(port: int, token: str, path: str, body: Any = None, **headers: str | None) -> tuple[int, Any]:
    """Send a request with a token, and return status and content; headers of None are left out."""
    sent = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", **headers}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG)
    content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in sent.items() if value is not None}
    connection.request("GET" if body is None else "POST", path, content, named)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    is_json = (response.getheader("Content-Type") or "").startswith("application/json")
    return response.status, json.loads(text) if is_json else (dict(response.getheaders()), text)
