from rankwise.wings.text.engines.duckdb import DuckDB as DuckDB
from rankwise.wings.text.engines.engine import Engine as Engine
from rankwise.wings.text.engines.postgres import Postgres as Postgres
from rankwise.wings.text.engines.sqlite import SQLite as SQLite
from rankwise.wings.text.engines.tantivy import Tantivy as Tantivy
