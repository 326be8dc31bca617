"""DuckDB: full-text search by its extension ``fts``."""

import importlib.resources
import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from rankwise import check
from rankwise.base import files
from rankwise.wings.text.analyzer import Analyzer
from rankwise.wings.text.documents import Documents
from rankwise.wings.text.engines.engine import Engine, Hits, Ids, about, batches, quoted

_INDEX = "PRAGMA create_fts_index('documents', 'id', {}, stemmer = 'none', stopwords = 'none', ignore = '\\s+', strip_accents = 0, lower = 0)"  # noqa: E501


class DuckDB(Engine):
    """A table with an index of ``fts`` in a file, which is only read. Of others, name ``table``, ``id`` and ``fields``.

    Scores are BM25 with k₁ 1.2 and b 0.75 of all fields as one, with a decimal logarithm; a word that a query repeats
    counts once. Needs ``pip install 'rankwise[engines]'``.
    """

    name = "DuckDB"
    modules = ("duckdb", "_duckdb")
    hints: ClassVar = {
        "does not exist!": "index the documents again, or create an index by DuckDB's PRAGMA create_fts_index",
        "does not exist": "check the path; DuckDB.index(documents, path) makes the file",
        "extension": "install duckdb-extension-fts of the version of duckdb: pip install 'rankwise[engines]'",
        "set lock": "let the other program close the file",
        "different configuration": "close the other connection to the file in this program",
        "version": "index the documents again with this version of duckdb, or install that which made the file",
    }

    def __init__(
        self,
        path: str | Path,
        *,
        table: str = "documents",
        id: str = "id",  # noqa: A002 (the usual name of the column)
        fields: Sequence[str] | None = None,
        analyzer: Analyzer | None = None,
    ) -> None:
        self.table, self._db = table, self.ask(path, _opened, path, True)
        there = self.ask(path, self._rows, "SELECT 1 FROM duckdb_tables() WHERE table_name = 'rankwise'")
        found = self.ask(path, self._rows, "SELECT about FROM rankwise WHERE name = ?", table) if there else []
        super().__init__(path, json.loads(found[0][0]) if found else {}, id, fields, analyzer)

    @classmethod
    def index(
        cls, documents: Documents, path: str | Path, *, force: bool = False, progress: bool | None = None
    ) -> "DuckDB":
        """Make a file with the words of documents, whole or not at all."""

        def fill(new: Path) -> None:
            names = ["id", *documents.fields]
            with _opened(new, False) as db:
                db.execute(f"CREATE TABLE documents({', '.join(quoted(name) + ' VARCHAR' for name in names)})")
                insert = f"INSERT INTO documents SELECT {', '.join(['unnest(?)'] * len(names))}"
                for rows in batches(documents, progress, cls.name):
                    db.execute(insert, [list(column) for column in zip(*rows, strict=True)])
                db.execute(_INDEX.format(", ".join("'" + name.replace("'", "''") + "'" for name in documents.fields)))
                db.execute("CREATE TABLE rankwise(name VARCHAR, about VARCHAR)")
                db.execute("INSERT INTO rankwise VALUES ('documents', ?)", [json.dumps(about(documents))])

        with files.replacing(path, force=force) as new:
            cls.ask(path, fill, new)
        return cls(path)

    def _rows(self, query: str, *values: object) -> list[Any]:
        with self._db.cursor() as cursor:
            return list(cursor.execute(query, values).fetchall())

    def _hits(self, query: list[str], fields: tuple[str, ...], k: int, among: Ids) -> Hits:
        score = f"{quoted(f'fts_main_{self.table}')}.match_bm25({quoted(self.id)}, ?, fields := ?) AS score"
        wanted = f"AND CAST({quoted(self.id)} AS VARCHAR) IN (SELECT unnest(?))" if among else ""
        return self._rows(
            f"SELECT {quoted(self.id)}, {score} FROM {quoted(self.table)} "  # noqa: S608
            f"WHERE score IS NOT NULL {wanted} ORDER BY score DESC LIMIT ?",
            *(" ".join(query), ",".join(fields), *([among] if among else []), k),
        )


def _opened(path: str | Path, read_only: bool) -> Any:
    """Open a file with the extension, that of the wheel where it is installed; nothing is fetched from elsewhere."""
    duckdb: Any = check.optional("duckdb", "engines")
    db = duckdb.connect(str(path), read_only=read_only, config={"autoinstall_known_extensions": False})
    extension = "fts"
    if importlib.util.find_spec("duckdb_extension_fts"):
        folder = importlib.resources.files("duckdb_extension_fts") / "extensions" / f"v{duckdb.__version__}"
        extension = "'" + str(folder / "fts.duckdb_extension").replace("'", "''") + "'"
    db.execute(f"LOAD {extension}")
    return db
