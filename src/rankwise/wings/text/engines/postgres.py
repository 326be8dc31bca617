"""Postgres: its full-text search, the nearest vectors of pgvector, and both fused in one query."""

import json
import math
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias, Unpack

import numpy as np
from numpy.typing import ArrayLike

from rankwise import check
from rankwise.wings.text.documents import Documents, unit_vectors
from rankwise.wings.text.engines.engine import Engine, Hits, Ids, Opening, about, batches, quoted

Encode: TypeAlias = Callable[[list[str]], ArrayLike]
_VECTOR, _LONGEST, _POSITIONS = "vector", 500, 255
_LEXICAL = "SELECT {id} AS id, {score} AS score FROM {table} WHERE ({match}) {among} ORDER BY 2 DESC, 1 LIMIT %(k)s"
_DENSE = (
    "SELECT {id} AS id, coalesce(nullif(1 - ({vector} <=> %(vector)s::vector), 'NaN'), 0) AS score "  # 0 of no words
    "FROM {table} WHERE {vector} IS NOT NULL {among} "
    "ORDER BY {vector} <=> %(vector)s::vector LIMIT %(k)s"
)
_RANKED = "SELECT id, 1.0 / (60 + row_number() OVER (ORDER BY score DESC, id)) AS score FROM ({}) AS one"
_HYBRID = "SELECT id, sum(score)::float FROM (({}) UNION ALL ({})) AS found GROUP BY id ORDER BY 2 DESC, 1 LIMIT %(k)s"


class Postgres(Engine):
    """A table of Postgres, whose ``fields`` are columns of tsvectors.

    ``server`` is a connection string, which is never shown. Without ``encode`` scores are the sum of ts_rank over
    fields. With it, a callable from texts to a matrix, documents are found by words and by the cosine of the column
    ``vector`` in one query, and the score is the sum of 1/(60 + rank); ``by``, which is then ``"hybrid"``, may be
    ``"lexical"`` or ``"dense"``.
    ``timeout`` are seconds for a connection, and for a query. Needs ``pip install 'rankwise[engines]'``.
    """

    name = "Postgres"
    modules = ("psycopg",)
    hints: ClassVar = {
        "authentication": "check user and password",
        "stack depth": "ask with fewer words",
        "statement timeout": "raise timeout=, or ask for fewer documents",
        'type "vector"': "install pgvector on the server: CREATE EXTENSION vector",
        "does not exist": "check table, id and fields; Postgres.index(documents, server) makes a table",
        "connection": "check that the server runs, and the connection string; what was asked can be asked again",
    }

    def __init__(
        self,
        server: str,
        *,
        table: str = "documents",
        encode: Encode | None = None,
        by: str | None = None,
        timeout: float = 60.0,
        **opening: Unpack[Opening],
    ) -> None:
        by = by or ("hybrid" if encode else "lexical")
        check.choice("by", by, ["hybrid", "lexical", "dense"] if encode else ["lexical"])
        self.table, self.encode, self.by = table, encode, by

        def connect() -> tuple[Any, str]:  # its repr shows nothing
            return _connected(type(self), server, timeout)

        self._open = connect
        (self._db, where), self._process = self._open(), os.getpid()
        found = self.ask(where, self._rows, "SELECT obj_description(to_regclass(%(name)s))", {"name": quoted(table)})
        described = json.loads(found[0][0]) if (found[0][0] or "").startswith("{") else {}
        super().__init__(where, described, **opening)

    def __del__(self) -> None:
        """Close the connection."""
        if hasattr(self, "_db") and self._process == os.getpid():
            self._db.close()

    @property
    def scored(self) -> tuple[str, ...]:
        """What :meth:`scores` has a column for: the fields, and the vector."""
        return (*self.fields, *([_VECTOR] if self.encode else []))

    @classmethod
    def index(
        cls,
        documents: Documents,
        server: str,
        *,
        table: str = "documents",
        encode: Encode | None = None,
        force: bool = False,
        progress: bool | None = None,
    ) -> "Postgres":
        """Make a table with the words of documents, and their vectors, in one transaction."""
        sql: Any = check.optional("psycopg.sql", "engines")
        vectors = None if encode is None else documents.encoded(encode, progress=progress)
        columns = {"id": "text PRIMARY KEY"} | dict.fromkeys(documents.fields, "tsvector")
        columns |= {} if vectors is None else {_VECTOR: f"vector({vectors.shape[1]})"}
        new, old = quoted(f"{table[:30]}-{secrets.token_hex(8)}"), quoted(table)
        db, where = _connected(cls, server, 0)

        def fill() -> None:
            if db.execute("SELECT to_regclass(%s)", [old]).fetchone()[0] and not force:
                raise check.error("the table is there already and is kept", got=table, hint="set force=True")
            if vectors is not None:
                db.execute("CREATE EXTENSION IF NOT EXISTS vector")
            db.execute(f"CREATE TABLE {new}({', '.join(f'{quoted(one)} {kind}' for one, kind in columns.items())})")
            rows = (row for batch in batches(documents, progress, cls.name) for row in batch)
            with db.cursor() as cursor, cursor.copy(f"COPY {new} FROM STDIN") as copy:
                for place, (name, *texts) in enumerate(rows):
                    vector = [] if vectors is None else [_as_text(vectors[place])]
                    copy.write_row((name, *map(_lexemes, texts), *vector))
            for field in documents.fields:
                db.execute(f"CREATE INDEX ON {new} USING gin ({quoted(field)})")
            db.execute(f"COMMENT ON TABLE {new} IS {sql.Literal(json.dumps(about(documents))).as_string(db)}")
            db.execute(f"DROP TABLE IF EXISTS {old}")
            db.execute(f"ALTER TABLE {new} RENAME TO {old}")

        with db, db.transaction():  # commits at the end, or takes all back
            cls.ask(where, fill)
        return cls(server, table=table, encode=encode)

    def _rows(self, query: str, values: Mapping[str, object]) -> list[Any]:
        if self._db.closed or self._process != os.getpid():  # of a fork both would read the answers
            (self._db, _), self._process = self._open(), os.getpid()
        try:
            return list(self._db.execute(query, values).fetchall())
        except Exception:  # the connection may be that of other threads too
            raise
        except BaseException:  # Ctrl-C, after which it may wait for something
            self._db.close()
            raise

    def _prepared(self, texts: Sequence[str]) -> Sequence[Any]:
        words = super()._prepared(texts)
        if self.encode is None:
            return [(one, "") if one else () for one in words]
        asked = [place for place, text in enumerate(texts) if text.strip()]  # stop words alone have a vector
        found: dict[int, str] = {}
        if asked:
            vectors = unit_vectors("encode", self.encode([texts[place] for place in asked]), len(asked))
            found = dict(zip(asked, map(_as_text, vectors), strict=True))
        return [(one, found[place]) if place in found else () for place, one in enumerate(words)]

    def _hits(self, query: tuple[list[str], str], fields: tuple[str, ...], k: int, among: Ids) -> Hits:
        by = self.by if among is None else "dense" if fields == (_VECTOR,) else "lexical"
        asked = "replace(plainto_tsquery(%(words)s)::text, ' & ', ' | ')::tsquery"  # its own words, any of them
        words = " ".join(query[0])
        if self.analyzer is not None:
            asked, words = "%(words)s::tsquery", " | ".join(map(_lexeme, query[0]))
        names = {"id": _name(self.id), "table": _name(self.table), "vector": _name(_VECTOR)}
        names["among"] = "" if among is None else f"AND {names['id']}::text = ANY(%(among)s)"
        names["score"] = " + ".join(f"ts_rank(coalesce({_name(one)}, ''), {asked}, 1)" for one in fields)
        names["match"] = " OR ".join(f"{_name(one)} @@ {asked}" for one in fields)
        lexical, dense = (form.format(**names) for form in (_LEXICAL, _DENSE))
        both = _HYBRID.format(_RANKED.format(lexical), _RANKED.format(dense))
        statement = {"lexical": lexical, "dense": dense, "hybrid": both}[by]
        return self._rows(statement, {"words": words, "vector": query[1], "k": k, "among": among})


def _connected(engine: type[Engine], server: str, timeout: float) -> tuple[Any, str]:
    """Connect, and return the place without what is secret: the library's own words about a bad string may quote it."""
    psycopg: Any = check.optional("psycopg", "engines")
    try:
        parts = psycopg.conninfo.conninfo_to_dict(server)
    except psycopg.Error:
        parts = None
    if parts is None:
        hint = "write host=… dbname=… user=… password='…'"
        raise check.error("the connection string cannot be read", got=f"{len(server)} characters", hint=hint)
    where = f"{parts.get('host', 'localhost')}/{parts.get('dbname', '')}"
    limits = {
        "connect_timeout": max(2, math.ceil(timeout or 60)),
        "options": f"{parts.get('options', '')} -c statement_timeout={timeout * 1000:.0f}",
    }
    return engine.ask(where, lambda: psycopg.connect(server, autocommit=True, **limits)), where


def _name(name: str) -> str:
    return quoted(name).replace("%", "%%")  # in queries with parameters


def _lexeme(word: str) -> str:
    return "'" + word[:_LONGEST].replace("\\", "\\\\").replace("'", "''") + "'"


def _lexemes(text: str) -> str:
    """Return a text as Postgres writes a tsvector."""
    places: dict[str, list[str]] = {}
    for place, word in enumerate(text.split(), 1):
        places.setdefault(_lexeme(word), []).append(str(place))
    return " ".join(f"{word}:{','.join(found[:_POSITIONS])}" for word, found in places.items())


def _as_text(vector: ArrayLike) -> str:
    return str(np.asarray(vector, np.float64).tolist())
