"""The four walks of CONTRIBUTING.md, traced: ``python -m tests.walks`` prints their table, and ``… a`` the functions of
one.

Counted are the functions of rankwise that a second call in a process enters, and their files: after imports, and with
compiled kernels. Rooms change between a function and the next that is entered for the first time.
"""

import asyncio
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import polars as pl

import rankwise as rw
from tests.processes import environment

ROOT = str(Path(rw.__file__).parent)
TITLES = {
    "a": '`rw.LightGBMRanker("xendcg").fit(data, valid)` to the first tree',
    "b": "`rankwise train data.csv -o m` to the first tree",
    "c": "from a click log to the verdict of `rw.clicks.compare`",
    "d": "a request to `rankwise serve`, to its answer",
}


class Walk:
    """The functions of the package that are entered, in the order of their first time."""

    def __init__(self) -> None:
        self.entered: dict[tuple[str, str], None] = {}

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Note a function; comprehensions and the like are parts of one."""
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(ROOT) and not code.co_qualname.endswith(">"):
            self.entered.setdefault((Path(code.co_filename).relative_to(ROOT).as_posix(), code.co_qualname))

    def begin(self) -> None:
        """Note what is entered from now on, in this thread and in those that it starts."""
        threading.setprofile(self)
        sys.setprofile(self)

    def end(self, *_: object, **__: object) -> None:
        """Print what was entered, and leave the process."""
        sys.setprofile(None)
        threading.setprofile(None)
        for file, function in self.entered:
            print(file, function)
        sys.stdout.flush()
        os._exit(0)

    def end_at_first_tree(self) -> None:
        """Begin, and end where LightGBM would grow a tree."""
        import lightgbm

        vars(lightgbm)["train"] = self.end
        self.begin()


def parts(seed: int) -> tuple[rw.RankingDataset, ...]:
    """Return queries to train on, and queries to validate."""
    return rw.split(rw.synthetic(n_queries=60, n_docs=20, seed=seed), (0.7, 0.3), seed=0)


def training(walk: Walk) -> None:
    """Train; of the second training's own are the expressions of its objective and its metric."""
    rw.LightGBMRanker("listnet", threads=1, rounds=2, metrics=["ap"]).fit(*parts(1))
    data, valid = parts(2)
    ranker = rw.LightGBMRanker("xendcg", threads=1)
    walk.end_at_first_tree()
    ranker.fit(data, valid)


def command(walk: Walk) -> None:
    """Train at the command line, on a file that was not read before."""
    from rankwise.cli.app import app

    def run(*words: str) -> None:
        app(["train", *words, "--no-progress"], prog_name="rankwise", standalone_mode=False)

    for seed in (1, 2):
        rw.data.to_frame(parts(seed)[0]).write_csv(f"{seed}.csv")
    sys.stdout = sys.stderr
    run("1.csv", "-o", "first", "--rounds", "2", "--objective", "listnet")
    sys.stdout = sys.__stdout__
    walk.end_at_first_tree()
    run("2.csv", "-o", "second")


def decision(walk: Walk) -> None:
    """Read a log, estimate its position bias, train on it, and decide."""
    sets = {seed: click_log(seed, f"{seed}.parquet") for seed in (1, 2)}
    roles = ("query", "document", "impression", "position", "clicked", "ranker")
    columns: Any = {role: role for role in roles}

    def decide(seed: int, objective: str) -> None:
        data = sets[seed]
        log = rw.clicks.read(f"{seed}.parquet", **columns)
        bias = rw.clicks.propensities(log)
        rest, held_out = rw.clicks.split(log, 0.4, seed=0)
        ranker = rw.LightGBMRanker(objective, rounds=2, threads=1)
        ranker.fit(rw.clicks.targets(rest, data, bias, labels="offset"))
        rw.clicks.compare({"new": ranker, "production": lambda features: features[:, 1]}, held_out, bias, data)

    decide(1, "listnet")
    walk.begin()
    decide(2, "plrank")
    walk.end()


def click_log(seed: int, path: str) -> rw.RankingDataset:
    """Write what two rankers showed, with a row for each document; return the documents."""
    data = rw.synthetic(n_queries=100, n_docs=10, seed=seed)
    data = data.with_(query_ids=np.arange(100), document_ids=np.arange(data.n_docs))
    examined, rng = np.array([1.0, 0.68, 0.44, 0.32, 0.22]), np.random.default_rng(seed)
    rows = []
    for impression in range(4000):
        query, ranker = rng.integers(100), impression % 2
        documents = np.arange(*data.offsets[query : query + 2])
        documents = documents[np.argsort(-data.features[documents, ranker])][: examined.size]
        clicked = rng.random(documents.size) < examined[: documents.size] * (0.1 + 0.2 * data.labels[documents])
        positions = np.arange(1, documents.size + 1)
        shown = {"document": documents, "position": positions, "clicked": clicked.astype(int)}
        rows.append(pl.DataFrame({"query": query, "impression": impression, "ranker": "ab"[ranker], **shown}))
    pl.concat(rows).write_parquet(path)
    return data


def request(walk: Walk) -> None:
    """Ask a service for scores, as a server hands it a request."""
    from rankwise.wings.serve.http import Service

    data = parts(1)[0]
    ranker = rw.LightGBMRanker("xendcg", rounds=2, threads=1).fit(data)
    service = Service({"model": ranker}).application()
    body = json.dumps({"features": data.feature_names, "rows": data.features[:5].tolist()}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    scope = {"type": "http", "method": "POST", "path": "/score", "query_string": b"", "headers": headers}

    async def answers() -> None:
        for walked in (False, True):
            sent: list[Any] = []

            async def receive() -> Any:
                return {"type": "http.request", "body": body, "more_body": False}

            async def send(message: Any, sent: list[Any] = sent) -> None:
                sent.append(message)

            if walked:
                walk.begin()
            await service({**scope}, receive, send)
            assert sent[0]["status"] == 200, sent
        walk.end()

    asyncio.run(answers())


WALKS: dict[str, Callable[[Walk], None]] = {"a": training, "b": command, "c": decision, "d": request}


def entered(walk: str) -> list[tuple[str, str]]:
    """Take a walk in a process of its own; return files and functions, in the order of their first time."""
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run(
            [sys.executable, "-m", "tests.walks", walk],
            cwd=folder,
            env=environment(PYTHONPATH=os.pathsep.join(sys.path)),
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
    places = [tuple(line.split(" ", 1)) for line in ran.stdout.splitlines()]
    assert len(places) > 5, ran.stderr
    return [(file, function) for file, function in places]


def row(walk: str, places: list[tuple[str, str]]) -> str:
    """Return the line of a walk: its functions, its files, and how often the room changes."""
    rooms = [file.removeprefix("wings/").partition("/")[0] for file, _ in places]
    changes = sum(one != other for one, other in itertools.pairwise(rooms))
    return f"| ({walk}) {TITLES[walk]} | {len(places)} | {len({file for file, _ in places})} | {changes} |"


if __name__ == "__main__":
    if sys.argv[1:]:
        WALKS[sys.argv[1]](Walk())
    else:
        print("| walk | functions | files | changes of room |\n|---|--:|--:|--:|")
        for name in WALKS:
            print(row(name, entered(name)), flush=True)
