"""How fast and how right ``rankwise serve`` is: requests a second, latencies, and every score held against ``predict``.

    python -m benchmarks.speed.serve [--requests 100000] [--documents 100] [--features 136] [--form rows documents]

One process serves a LightGBM model of 300 trees twice, by ``model.scorer()`` and by LightGBM's own ``Booster.predict``
with one thread, and this one asks for the scores of a query's documents, over loopback on connections that stay open.
The two take turns, 200 requests at a time, so that a busy machine slows both alike. Each score of each answer must be
that of ``predict`` to the last bit. Requests name their features once (``rows``) or in every document (``documents``).
Beside the time on the wall stands the CPU's, of the serving process alone, which other work on the machine does not
lengthen.
"""

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import orjson

import rankwise as rw
from benchmarks.speed.scoring import library_call
from rankwise.base.tables import Table

TURN, QUERIES = 200, 100
NAMES = {"scorer": "model.scorer()", "library": "LightGBM's predict"}


def serve(folder: str) -> None:
    """Serve one model by two names: behind the second is the library."""
    from rankwise.wings.serve import server
    from rankwise.wings.serve.http import Service

    model = rw.load(folder)
    service = Service(dict.fromkeys(NAMES, model))
    predict = library_call(model)
    service.models["library"].scorer = lambda rows, _offsets: predict(rows)  # type: ignore[assignment]
    with server.listen("127.0.0.1", 0) as listening:
        print(listening.getsockname()[1], flush=True)
        server.serve(service, listening)


def bodies(data: rw.RankingDataset, n_docs: int, form: str) -> tuple[list[bytes], list[np.ndarray]]:
    """Requests, and the documents that they are about; values are written with as few digits as name the float32."""
    names = list(data.feature_names or ())
    rows = np.tile(data.features, (-(-QUERIES * n_docs // data.n_docs), 1))
    matrices = [np.ascontiguousarray(rows[first : first + n_docs]) for first in range(0, QUERIES * n_docs, n_docs)]
    texts = []
    for matrix in matrices:
        values = [[float(str(x)) for x in row] for row in matrix]
        named = {"documents": [dict(zip(names, row, strict=True)) for row in values]}
        texts.append(json.dumps({"features": names, "rows": values} if form == "rows" else named).encode())
    return texts, matrices


class Connection:
    """One connection that stays open."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def post(self, path: str, body: bytes) -> bytes:
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        self.writer.write(head.encode() + body)
        await self.writer.drain()
        answer = await self.reader.readuntil(b"\r\n\r\n")
        status, *lines = answer.decode().lower().split("\r\n")
        length = next(int(line.partition(":")[2]) for line in lines if line.startswith("content-length:"))
        content = await self.reader.readexactly(length)
        if " 200 " not in status:
            raise SystemExit(f"{status}: {content.decode()}")
        return content


class Measured:
    """What was measured of one model."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.wall = self.cpu = 0.0
        self.wrong = 0


async def turn(name: str, connections: list[Connection], requests: list[int], texts: Any, expected: Any, to: Measured):
    left = iter(requests)

    async def ask(connection: Connection) -> None:
        for number in left:
            start = time.perf_counter()
            content = await connection.post(f"/models/{name}/score", texts[number])
            to.times.append(1e3 * (time.perf_counter() - start))
            to.wrong += not np.array_equal(orjson.loads(content)["scores"], expected[number])

    start = time.perf_counter()
    await asyncio.gather(*map(ask, connections))
    to.wall += time.perf_counter() - start


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, where Linux tells; else NaN."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return float("nan")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def load(port: int, pid: int, count: int, connections: int, texts: Any, expected: Any) -> dict[str, Measured]:
    opened = [Connection(*await asyncio.open_connection("127.0.0.1", port)) for _ in range(connections)]
    measured = {name: Measured() for name in NAMES}
    for name in NAMES:  # first calls
        await turn(name, opened, list(range(20)), texts, expected, Measured())
    for first in range(0, count, TURN):
        requests = [number % len(texts) for number in range(first, min(first + TURN, count))]
        for name, one in measured.items():
            before = cpu_seconds(pid)
            await turn(name, opened, requests, texts, expected, one)
            one.cpu += cpu_seconds(pid) - before
    for connection in opened:
        connection.writer.close()
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--requests", type=int, default=100_000, help="in all")
    parser.add_argument("--documents", type=int, default=100)
    parser.add_argument("--features", type=int, default=136)
    parser.add_argument("--trees", type=int, default=300)
    parser.add_argument("--leaves", type=int, default=32)
    parser.add_argument("--connections", type=int, nargs="+", default=(1, 4))
    parser.add_argument("--form", nargs="+", choices=("rows", "documents"), default=("rows",))
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    data = rw.synthetic(n_queries=100, n_features=options.features, seed=3)
    data = data.with_(feature_names=[f"feature_{number}" for number in range(options.features)])
    settings = {"rounds": options.trees, "leaves": options.leaves, "patience": None, "threads": 1}
    model = rw.LightGBMRanker("xendcg", **settings).fit(data)
    cells = [(form, connections) for form in options.form for connections in options.connections]
    count = options.requests // (len(cells) * len(NAMES))
    body, wrong = [], 0
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/model")
        command = [sys.executable, "-m", "benchmarks.speed.serve", "--serve", f"{folder}/model"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            try:
                for form, connections in cells:
                    texts, matrices = bodies(data, options.documents, form)
                    expected = [model.predict(matrix) for matrix in matrices]
                    measured = asyncio.run(load(port, server.pid, count, connections, texts, expected))
                    for name, one in measured.items():
                        wrong += one.wrong
                        times = [f"{np.percentile(one.times, share):.2f}" for share in (50, 99)]
                        per_request = f"{1e3 * one.cpu / len(one.times):.2f}"
                        rate = f"{len(one.times) / one.wall:,.0f}"
                        row = (form, str(connections), NAMES[name], *times, per_request, rate)
                        body.append((*row, f"{len(one.times):,}", str(one.wrong)))
            finally:
                with contextlib.suppress(ProcessLookupError):
                    server.terminate()
    header = (
        "form",
        "connections",
        "scored by",
        "median ms",
        "99th percentile",
        "CPU ms",
        "a second",
        "requests",
        "wrong",
    )
    print(f"{options.trees} trees, {options.documents} documents of {options.features} features a request\n")
    print(Table(header=header, rows=tuple(body), align="lrlrrrrrr").text())
    if wrong:
        raise SystemExit(f"{wrong} answers with wrong scores")


if __name__ == "__main__":
    main()
