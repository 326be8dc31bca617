"""Models as SQL in DuckDB and PostgreSQL, started for the test: ten thousand documents score as by ``predict``."""

import numpy as np
import pytest

import rankwise as rw
from tests.wings.exports import test_linear, test_query_forest
from tests.wings.exports.test_sql import CASES, NAMES, created, expected, in_order

pytestmark = pytest.mark.integration("duckdb", "pgserver", "psycopg")


@pytest.fixture(scope="module")
def postgres(tmp_path_factory):
    import pgserver
    import psycopg

    server = pgserver.get_server(tmp_path_factory.mktemp("postgres"), cleanup_mode="stop")
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        yield connection
    server.cleanup()


def in_postgres(connection, statement, rows, text):
    connection.execute("DROP TABLE IF EXISTS documents")
    connection.execute(statement)
    with connection.cursor() as cursor, cursor.copy("COPY documents FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)
    return in_order(connection.execute(text).fetchall())


def in_duckdb(statement, rows, text):
    import duckdb
    import pyarrow as pa

    with duckdb.connect() as connection:
        connection.execute(statement)
        filled = pa.table([list(column) for column in zip(*rows, strict=True)], [str(k) for k in range(len(rows[0]))])
        connection.register("filled", filled)
        connection.execute("INSERT INTO documents SELECT * FROM filled")
        return in_order(connection.execute(text).fetchall())


@pytest.mark.parametrize("name", CASES)
def test_trees_and_sums(name, postgres, tmp_path):
    case = CASES[name]()
    text = rw.export(case.model, tmp_path / "model.sql", "sql").read_text()
    statement, rows = created(case)
    assert len(rows) >= 10_000
    for scores in (in_duckdb(statement, rows, text), in_postgres(postgres, statement, rows, text)):
        np.testing.assert_allclose(scores, expected(case), atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", ["REAL", "DOUBLE PRECISION"])
def test_nan_is_missing_and_columns_may_be_floats(kind, postgres, tmp_path):
    case = CASES["lightgbm"]()
    text = rw.export(case.model, tmp_path / "model.sql", "sql").read_text()
    statement, _ = created(case)
    statement = statement.replace("DOUBLE PRECISION", kind)
    values = case.rows.astype(np.float32 if kind == "REAL" else np.float64)  # texts of doubles round to other floats
    rows = [(number, number, *row) for number, row in enumerate(values.tolist())]
    assert np.isnan(case.rows).any()
    for scores in (in_duckdb(statement, rows, text), in_postgres(postgres, statement, rows, text)):
        np.testing.assert_allclose(scores, expected(case), atol=1e-6, rtol=0)


@pytest.mark.parametrize("transform", ["quantile+query", "quantile", "standard", None, "trees"])
def test_values_within_the_query_and_linear_models(transform, postgres, tmp_path):
    trees = transform == "trees"
    model = test_query_forest.trained("lightgbm") if trees else test_linear.trained(transform)
    fresh = test_linear.lists(500, 20, seed=2)
    text = rw.export(model, tmp_path / "model.sql", "sql").read_text()
    columns = ", ".join('"' + name.replace('"', '""') + '" DOUBLE PRECISION' for name in test_linear.NAMES)
    statement = f"CREATE TABLE documents (qid TEXT, document INTEGER, {columns})"
    rows = [
        (str(query), number, *(None if np.isnan(value) else float(value) for value in row))
        for number, (query, row) in enumerate(zip(fresh.qids().tolist(), fresh.features, strict=True))
    ]
    order = sorted(range(len(rows)), key=lambda number: rows[number][:2])
    for scores in (in_duckdb(statement, rows, text), in_postgres(postgres, statement, rows, text)):
        np.testing.assert_allclose(scores, model.predict(fresh)[order], atol=1e-6, rtol=0)


def test_names_that_the_query_itself_uses(postgres, tmp_path):
    names = ["f1", "score", "features", "step1", "select", "F1 ", "é", "a.b"]
    case = CASES["lightgbm"]()
    statement, rows = created(case)
    for old, new in zip(NAMES, names, strict=True):
        statement = statement.replace(f'"{old}"', f'"{new}"')
    text = rw.export(case.model, tmp_path / "model.sql", "sql", names=names).read_text()
    for scores in (in_duckdb(statement, rows, text), in_postgres(postgres, statement, rows, text)):
        np.testing.assert_allclose(scores, expected(case), atol=1e-6, rtol=0)
