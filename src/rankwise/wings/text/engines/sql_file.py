"""What SQLite and DuckDB share: a table of documents in a file, and beside it what describes it."""

import json
from pathlib import Path
from typing import Any, ClassVar, Self, Unpack

from rankwise.base import files
from rankwise.wings.text.documents import Documents
from rankwise.wings.text.engines.engine import Engine, Opening, about, quoted


class SqlFile(Engine):
    """A table in a file, which is only read."""

    tables: ClassVar[str]
    """Where the database lists its tables, by name."""

    def __init__(self, path: str | Path, *, table: str = "documents", **opening: Unpack[Opening]) -> None:
        self.where, self.table = str(path), table
        there = self.ask(path, self._rows, f"SELECT 1 FROM {self.tables} = 'rankwise'")  # noqa: S608
        found = self.ask(path, self._rows, "SELECT about FROM rankwise WHERE name = ?", table) if there else []
        self.made = bool(found)
        super().__init__(path, json.loads(found[0][0]) if found else {}, **opening)

    @classmethod
    def index(
        cls, documents: Documents, path: str | Path, *, force: bool = False, progress: bool | None = None
    ) -> Self:
        """Make a file with the words of documents, whole or not at all."""
        with files.replacing(path, force=force) as new:
            try:
                cls.ask(path, cls._fill, new, documents, progress)
            finally:
                Path(f"{new}.wal").unlink(missing_ok=True)  # what DuckDB leaves where it was interrupted
        return cls(path)

    @classmethod
    def _fill(cls, new: Path, documents: Documents, progress: bool | None) -> None:
        """Write a table ``documents`` with its index, and what :meth:`_describe` does."""
        raise NotImplementedError

    @staticmethod
    def _describe(db: Any, documents: Documents) -> None:
        db.execute("CREATE TABLE rankwise(name VARCHAR, about VARCHAR)")
        db.execute("INSERT INTO rankwise VALUES ('documents', ?)", [json.dumps(about(documents))])

    def _rows(self, query: str, *values: object) -> list[Any]:
        raise NotImplementedError

    def _names(self) -> tuple[str, str]:
        return quoted(self.id), quoted(self.table)
