"""DuckDB: full-text search by its extension ``fts``."""

import importlib.resources
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Unpack

from rankwise import check
from rankwise.wings.text.documents import Documents
from rankwise.wings.text.engines.engine import Hits, Ids, Opening, Result, batches, quoted
from rankwise.wings.text.engines.sql_file import SqlFile

_INDEX = (
    "PRAGMA create_fts_index('documents', 'id', {}, stemmer = 'none', stopwords = 'none', ignore = '\\s+', "
    "strip_accents = 0, lower = 0)"
)


_SORTED = "CREATE OR REPLACE TABLE {0}.terms AS SELECT * FROM {0}.terms ORDER BY termid, docid"
_FIND = """WITH words AS (SELECT termid, df FROM {0}.dict WHERE term IN (SELECT unnest(?))),
found AS (
SELECT docid, termid, count(*) AS tf FROM {0}.terms WHERE termid IN (SELECT termid FROM words)
AND fieldid IN (SELECT fieldid FROM {0}.fields WHERE field IN (SELECT unnest(?))) GROUP BY docid, termid)
SELECT name, sum(log((num_docs - df + 0.5) / (df + 0.5) + 1) * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * len / avgdl)))
FROM found JOIN words USING (termid) JOIN {0}.docs USING (docid), {0}.stats {1}
GROUP BY name ORDER BY 2 DESC, 1 LIMIT ?"""
"""What ``match_bm25`` computes, without the table of documents and, where terms are sorted, with few of them read."""


class DuckDB(SqlFile):
    """A table with an index of ``fts`` in a file, which is only read.

    Scores are BM25 with k₁ 1.2 and b 0.75 of all fields as one, with a decimal logarithm; a word that a query repeats
    counts once. Needs ``pip install 'rankwise[engines]'``.
    """

    name = "DuckDB"
    modules = ("duckdb", "_duckdb")
    tables = "duckdb_tables() WHERE table_name"
    hints: ClassVar = {
        "does not exist!": "check table=, or make the index by DuckDB's PRAGMA create_fts_index",
        "does not exist": "check the path; DuckDB.index(documents, path) makes the file",
        "fts.duckdb_extension": "pip install 'rankwise[engines]': the extension has the version of duckdb",
        "set lock": "let the other program close the file",
        "different configuration": "close the other connection to the file in this program",
        "version": "index the documents again with this version of duckdb, or install that which made the file",
    }

    def __init__(self, path: str | Path, *, table: str = "documents", **opening: Unpack[Opening]) -> None:
        self._db, self._schema = self.ask(path, _opened, path, True), quoted(f"fts_main_{table}")
        super().__init__(path, table=table, **opening)
        known = self.ask(path, self._rows, f"SELECT field FROM {self._schema}.fields")  # noqa: S608
        for field in self.fields:  # in one that is not there nothing would be found
            check.choice("field", field, [row[0] for row in known])
        if self.made:
            check.choice("id", self.id, ["id"])

    @classmethod
    def ask(cls, where: object, call: Callable[..., Result], *arguments: Any) -> Result:
        """Call something of DuckDB's, which makes a RuntimeError of Ctrl-C."""
        try:
            return super().ask(where, call, *arguments)
        except RuntimeError as stopped:
            if "interrupted" not in str(stopped):
                raise
        raise KeyboardInterrupt

    @classmethod
    def _fill(cls, new: Path, documents: Documents, progress: bool | None) -> None:
        names = ["id", *documents.fields]
        with _opened(new, False) as db:
            db.execute(f"CREATE TABLE documents({', '.join(quoted(name) + ' VARCHAR' for name in names)})")
            insert = f"INSERT INTO documents SELECT {', '.join(['unnest(?)'] * len(names))}"
            for rows in batches(documents, progress, cls.name):
                db.execute(insert, [list(column) for column in zip(*rows, strict=True)])
            db.execute(_INDEX.format(", ".join(map(_text, documents.fields))))
            db.execute(_SORTED.format("fts_main_documents"))
            cls._describe(db, documents)

    def _rows(self, query: str, *values: object) -> list[Any]:
        with self._db.cursor() as cursor:
            return list(cursor.execute(query, values).fetchall())

    def _hits(self, query: list[str], fields: tuple[str, ...], k: int, among: Ids) -> Hits:
        chosen, order = "IN (SELECT unnest(?))", [*([among] if among else []), k]
        if self.made:  # whose terms are words of the analyzer
            statement = _FIND.format(self._schema, f"WHERE name {chosen}" if among else "")
            return self._rows(statement, query, [*fields], *order)
        id_, table = self._names()
        score = f"{self._schema}.match_bm25({id_}, ?, fields := ?) AS score"
        where = f"score IS NOT NULL{f' AND CAST({id_} AS VARCHAR) {chosen}' if among else ''}"
        find = f"SELECT {id_}, {score} FROM {table} WHERE {where} ORDER BY score DESC, {id_} LIMIT ?"  # noqa: S608
        return self._rows(find, " ".join(query), ",".join(fields), *order)


def _text(text: object) -> str:
    return "'" + str(text).replace("'", "''") + "'"


def _opened(path: str | Path, read_only: bool) -> Any:
    """Open a file with the extension, that of the wheel where it is installed; nothing is fetched from elsewhere."""
    duckdb: Any = check.optional("duckdb", "engines")
    db = duckdb.connect(str(path), read_only=read_only, config={"autoinstall_known_extensions": False})
    extension = "fts"
    if importlib.util.find_spec("duckdb_extension_fts"):
        folder = importlib.resources.files("duckdb_extension_fts") / "extensions" / f"v{duckdb.__version__}"
        extension = _text(folder / "fts.duckdb_extension")
    db.execute(f"LOAD {extension}")
    return db
