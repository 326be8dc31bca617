"""The file to which the service appends the features of its requests; ``read_feature_log`` reads it."""

import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankwise import check
from rankwise.base.arrays import Json
from rankwise.models import Schema
from rankwise.wings.serve.feature_log import SUFFIXES
from rankwise.wings.serve.request_parsing import RequestedQuery

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


@dataclass(frozen=True)
class FeatureLog:
    """A file to which the service appends the features of a sample of its requests.

    A request is in the sample by its id, so that services that pass the same request on agree about it.
    """

    path: Path
    sample: float = 1.0

    def check_target(self) -> "FeatureLog":
        """Check that the file can be written, and that its name is one by which it is read."""
        if self.path.suffix not in SUFFIXES:
            raise check.error("features are logged as JSON lines", got=self.path.name, hint="end its name in .jsonl")
        self.path.open("ab").close()
        return self

    def takes(self, request_id: str) -> bool:
        """Whether a request is in the sample."""
        return zlib.crc32(request_id.encode()) < self.sample * 2**32

    def write(self, queries: Sequence[RequestedQuery], schema: Schema, about: Json) -> None:
        """Append a line for each query; ``about`` has the id of the request, and the model with its version."""
        import orjson

        names, lines = [schema.title(column) for column in range(schema.count)], []
        for number, query in enumerate(queries):
            request = f"{about['id']}-{number}"
            # Documents without ids are this request's: another one of the same query has others
            ids = query.words.get("ids") or [f"{request}-{row}" for row in range(len(query.features))]
            query_id = str(query.words.get("id", request))  # 1 is "1", as for documents
            rows: list[list[Any]] = query.features.tolist()
            for column, values in schema.categories.items():
                for row in rows:
                    row[column] = {"category": values[int(row[column])]} if row[column] == row[column] else None
            hits = [
                {"_id": str(name), "fields": {"_ltrlog": [{"features": dict(zip(names, row, strict=True))}]}}
                for name, row in zip(ids, rows, strict=True)
            ]
            lines.append(orjson.dumps({"query_id": query_id, "request": about, "hits": {"hits": hits}}) + b"\n")
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)  # anew: it may have been rotated
        try:
            _append(file, b"".join(lines))
        finally:
            os.close(file)


def _append(file: int, content: bytes) -> None:
    """Append all of it or nothing, say if the disk is full, and nothing of another process in between."""
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX)  # until it is closed
    size, written = os.fstat(file).st_size, 0
    try:
        while written < len(content):
            written += os.write(file, content[written:])
    except OSError:
        os.ftruncate(file, size)
        raise
