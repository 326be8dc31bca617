"""SQLite: full-text search by FTS5, which Python's own SQLite has."""

import contextlib
import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from rankwise.base import files
from rankwise.wings.text.analyzer import Analyzer
from rankwise.wings.text.documents import Documents
from rankwise.wings.text.engines.engine import Engine, Hits, Ids, about, batches, quoted


class SQLite(Engine):
    """A table of FTS5 in a file, which is only read. Of one made elsewhere, name ``table``, ``id`` and ``fields``.

    Scores are BM25 with k₁ 1.2 and b 0.75 of all fields as one, where idf is ln((N − df + ½)/(df + ½)), at least 10⁻⁶.
    ``timeout`` are the seconds to wait for a program that has locked the file.

    >>> import tempfile, rankwise as rw
    >>> pages = rw.text.Documents({"mean": "mean of an array", "sum": "sum of it", "t": "trace"}, fields=("text",))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     engine = SQLite.index(pages, f"{folder}/pages.db")
    ...     engine.search(["the mean"])["document"].to_list()
    ['mean']
    """

    name = "SQLite"
    modules = ("sqlite3",)
    hints: ClassVar = {
        "unable to open": "check the path; SQLite.index(documents, path) makes the file",
        "no such module": "use a Python whose SQLite has FTS5",
        "locked": "let the other program finish, or raise timeout=",
    }

    def __init__(
        self,
        path: str | Path,
        *,
        table: str = "documents",
        id: str = "id",  # noqa: A002 (the usual name of the column)
        fields: Sequence[str] | None = None,
        analyzer: Analyzer | None = None,
        timeout: float = 60.0,
    ) -> None:
        self.where, self.table, self.timeout = str(path), table, timeout
        there = self.ask(path, self._rows, "SELECT 1 FROM sqlite_master WHERE name = 'rankwise'")
        found = self.ask(path, self._rows, "SELECT about FROM rankwise WHERE name = ?", table) if there else []
        super().__init__(path, json.loads(found[0][0]) if found else {}, id, fields, analyzer)

    @classmethod
    def index(
        cls, documents: Documents, path: str | Path, *, force: bool = False, progress: bool | None = None
    ) -> "SQLite":
        """Make a file with the words of documents, whole or not at all."""

        def fill(new: Path) -> None:
            names = ", ".join(["id UNINDEXED", *map(quoted, documents.fields)])
            with contextlib.closing(sqlite3.connect(new)) as db, db:
                db.execute("PRAGMA synchronous = OFF")  # what breaks off is never renamed
                db.execute(f"CREATE VIRTUAL TABLE documents USING fts5({names}, tokenize = \"ascii tokenchars '_'\")")
                insert = f"INSERT INTO documents VALUES (?{', ?' * len(documents.fields)})"  # noqa: S608 (marks)
                for rows in batches(documents, progress, cls.name):
                    db.executemany(insert, rows)
                db.execute("INSERT INTO documents(documents) VALUES ('optimize')")
                db.execute("CREATE TABLE rankwise(name, about)")
                db.execute("INSERT INTO rankwise VALUES ('documents', ?)", (json.dumps(about(documents)),))

        with files.replacing(path, force=force) as new:
            cls.ask(path, fill, new)
        return cls(path)

    def _rows(self, query: str, *values: object) -> list[Any]:
        uri = f"{Path(self.where).resolve().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=self.timeout)) as db:
            return db.execute(query, values).fetchall()

    def _hits(self, query: list[str], fields: tuple[str, ...], k: int, among: Ids) -> Hits:
        table, id_ = quoted(self.table), quoted(self.id)
        wanted = f"AND CAST({id_} AS TEXT) IN (SELECT value FROM json_each(?))" if among else ""  # noqa: S608
        match = f"{{{' '.join(map(quoted, fields))}}} : ({' OR '.join(map(quoted, query))})"
        values = (match, *([json.dumps(among)] if among else []), k)
        return self._rows(
            f"SELECT {id_}, -rank FROM {table} WHERE {table} MATCH ? {wanted} ORDER BY rank LIMIT ?",  # noqa: S608
            *values,
        )
