"""SQLite: full-text search by FTS5, which Python's own SQLite has."""

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any, ClassVar, Unpack

from rankwise import check
from rankwise.wings.text.documents import Documents
from rankwise.wings.text.engines.engine import Hits, Ids, Opening, batches, quoted
from rankwise.wings.text.engines.sql_file import SqlFile


class SQLite(SqlFile):
    """A table of FTS5 in a file, which is only read.

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
    tables = "sqlite_master WHERE name"
    hints: ClassVar = {
        "unable to open": "check the path; SQLite.index(documents, path) makes the file",
        "no such module": "use a Python whose SQLite has FTS5",
        "locked": "let the other program finish, or raise timeout=",
    }

    def __init__(
        self, path: str | Path, *, table: str = "documents", timeout: float = 60.0, **opening: Unpack[Opening]
    ) -> None:
        self.timeout = check.number("timeout", timeout, least=0.0)
        super().__init__(path, table=table, **opening)

    @classmethod
    def _fill(cls, new: Path, documents: Documents, progress: bool | None) -> None:
        names = ", ".join(["id UNINDEXED", *map(quoted, documents.fields)])
        with contextlib.closing(sqlite3.connect(new)) as db, db:
            db.execute("PRAGMA synchronous = OFF")  # what breaks off is never renamed
            db.execute(f"CREATE VIRTUAL TABLE documents USING fts5({names}, tokenize = \"ascii tokenchars '_'\")")
            insert = f"INSERT INTO documents VALUES (?{', ?' * len(documents.fields)})"  # noqa: S608 (marks)
            for rows in batches(documents, progress, cls.name):
                db.executemany(insert, rows)
            db.execute("INSERT INTO documents(documents) VALUES ('optimize')")
            cls._describe(db, documents)

    def _rows(self, query: str, *values: object) -> list[Any]:
        uri = f"{Path(self.where).resolve().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=self.timeout)) as db:
            return db.execute(query, values).fetchall()

    def _hits(self, query: list[str], fields: tuple[str, ...], k: int, among: Ids) -> Hits:
        id_, table = self._names()
        id_ = f"{table}.{id_}"  # without the table, a name that no column has would be a text
        chosen = f"AND CAST({id_} AS TEXT) IN (SELECT value FROM json_each(?))" if among else ""  # noqa: S608
        match = f"{{{' '.join(map(quoted, fields))}}} : ({' OR '.join(map(quoted, query))})"
        find = f"SELECT {id_}, -rank FROM {table} WHERE {table} MATCH ? {chosen} ORDER BY rank LIMIT ?"  # noqa: S608
        return self._rows(find, match, *([json.dumps(among)] if among else []), k)
