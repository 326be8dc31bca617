"""Trees and sums as SQL, in SQLite; tests/integrations/test_sql.py runs the same models in DuckDB and PostgreSQL."""

import sqlite3
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import rankwise as rw
from rankwise.models.forests.forest import ForestModel
from rankwise.models.formats.tree_arrays import LEAF
from rankwise.models.sums import SumModel
from rankwise.rankers.table import ranker_class
from rankwise.wings.exports.sql import halfway, query
from rankwise.wings.exports.tree_json import depths_of
from tests.refusals import refusal
from tests.wings.exports import test_export, test_linear, test_query_forest

NAMES = test_export.NAMES
WORDS = tuple(f'it\'s "{k}" \\' for k in range(40))
CATEGORIES: dict[str, dict[str, Any]] = {
    "lightgbm": {"min_data_per_group": 2, "cat_smooth": 1.0},
    "xgboost": {"max_cat_to_onehot": 2},
}


class Case(NamedTuple):
    """A model, rows as it reads them, and the same rows as a database has them."""

    model: Any
    rows: np.ndarray
    table: list[list[Any]]


def plain(model: Any, n_rows: int = 10_000) -> Case:
    """Doubles that are no float32, missing values, and the doubles on either side of where a split divides them."""
    rng = np.random.default_rng(5)
    rows = rng.normal(0, 3, (n_rows, 8))
    rows[rng.random(rows.shape) < 0.2] = np.nan
    if isinstance(model.model_, ForestModel):
        nodes = model.model_.nodes()
        splits = np.flatnonzero((nodes.feature != LEAF) & np.isfinite(nodes.threshold))
        ends = np.zeros((2 * splits.size, 8))
        for side, values in enumerate((halfway(nodes.threshold), np.nextafter(halfway(nodes.threshold), np.inf))):
            ends[np.arange(splits.size) + side * splits.size, nodes.feature[splits]] = values[splits]
        rows = np.concatenate([rows, ends])
    rows = rows[(np.abs(np.nan_to_num(rows)) < 3.4e38).all(axis=1)]
    beyond = rng.random((min(400, len(rows)), 8))
    rows[: len(beyond)][beyond < 0.2], rows[: len(beyond)][beyond < 0.1] = -np.inf, np.inf
    doubles = np.where(
        np.isinf(rows) & (rng.random(rows.shape) < 0.5), np.sign(rows) * 1e39, rows
    )  # as float32 the same
    return Case(model, rows, [[None if np.isnan(one) else float(one) for one in row] for row in doubles])


def categories(library: str, missing: float) -> Case:
    """A column of texts and one of plain codes, with values that training did not see."""
    data = test_export.lists(missing=missing, categorical=(2, 5)).with_(categories={2: WORDS})
    model = ranker_class(library)("xendcg", **test_export.SMALL, **CATEGORIES[library]).fit(data)
    assert len(model.model_.nodes().categories) > 5
    rows = np.concatenate([data.features] * 12)[:10_000].astype(np.float64)
    rows[:200, 2], rows[100:300, 5], rows[300:400, 5] = np.nan, np.nan, 400
    table: list[list[Any]] = [[None if np.isnan(one) else float(one) for one in row] for row in rows]
    for number, row in enumerate(table):
        row[2] = "never seen" if number < 100 else None if row[2] is None else WORDS[int(row[2])]
    return Case(model, rows, table)


def deep() -> Case:
    """A tree of 200 levels, which no parser has room for in one expression: each split cuts off one leaf."""
    rng = np.random.default_rng(2)
    model = rw.LightGBMRanker("xendcg", rounds=1, threads=1).fit(test_export.lists(missing=0.1))
    head, _, rest = model.model_.content().decode().partition("\nTree=0\n")
    splits, nothing = range(200), [0] * 201
    tree: dict[str, Any] = {
        "num_leaves": [201], "num_cat": [0], "split_feature": rng.integers(0, 8, 200), "split_gain": nothing[:-1],
        "threshold": np.linspace(-12, 4, 200) + rng.normal(size=200),
        "decision_type": rng.choice([8, 10], 200, p=[0.98, 0.02]),  # 8: NaN right, 10: left
        "left_child": [~k for k in splits], "right_child": [*splits[1:], ~200], "leaf_value": rng.normal(size=201),
        "leaf_weight": nothing, "leaf_count": nothing, "internal_value": nothing[:-1], "internal_weight": nothing[:-1],
        "internal_count": nothing[:-1], "is_linear": [0], "shrinkage": [1],
    }  # fmt: skip
    body = "".join(f"{name}={' '.join(map(str, values))}\n" for name, values in tree.items()) + "\n\n"
    head = "\n".join(f"tree_sizes={len(body) + 7}" if "tree_sizes" in line else line for line in head.split("\n"))
    content = f"{head}\nTree=0\n{body}{rest[rest.index('end of trees') :]}"
    model.model_ = model.library.forest.read(content.encode(), model.model_.schema)
    assert depths_of(model.model_.nodes()).max() == 200
    case = plain(model)
    assert np.unique(expected(case)).size > 100
    return case


def blend() -> Case:
    """Trees of two libraries and a linear model with values within the query; the lists are of one document each."""
    data = test_export.lists(missing=0.1)
    members = [ranker_class(library)("xendcg", **test_export.SMALL) for library in ("lightgbm", "xgboost")]
    model = rw.blended([*members, rw.LinearRanker(threads=1)], folds=2).fit(data)
    assert isinstance(model.model_, SumModel)
    return plain(model)


CASES: dict[str, Callable[[], Case]] = {
    "lightgbm": lambda: plain(trained("lightgbm")),
    "lightgbm, complete": lambda: plain(trained("lightgbm", 0.0)),
    "xgboost": lambda: plain(trained("xgboost")),
    "catboost": lambda: plain(trained("catboost")),
    "lightgbm, categories": lambda: categories("lightgbm", 0.1),
    "lightgbm, categories never missing": lambda: categories("lightgbm", 0.0),
    "xgboost, categories": lambda: categories("xgboost", 0.1),
    "deep": deep,
    "blend": blend,
}


def trained(library: str, missing: float = 0.15) -> Any:
    return ranker_class(library)("xendcg", **test_export.SMALL).fit(test_export.lists(missing=missing))


def expected(case: Case) -> np.ndarray:
    """The scores of rows that are each a query of its own."""
    lists = rw.RankingDataset(case.rows, np.zeros(len(case.rows)), np.arange(len(case.rows) + 1))
    scores: np.ndarray = case.model.predict(
        lists.with_(feature_names=NAMES) if case.model.model_.needs_lists else case.rows
    )
    return scores


def created(case: Case) -> tuple[str, list[tuple[Any, ...]]]:
    """Return the statement that creates the table, and its rows."""
    kinds = ["TEXT" if any(isinstance(row[j], str) for row in case.table) else "DOUBLE PRECISION" for j in range(8)]
    columns = ", ".join(f'"{name}" {kind}' for name, kind in zip(NAMES, kinds, strict=True))
    rows = [(number, number, *row) for number, row in enumerate(case.table)]
    return f"CREATE TABLE documents (qid INTEGER, document INTEGER, {columns})", rows


def in_order(found: list[tuple[int, int, float]]) -> np.ndarray:
    assert all(isinstance(row[2], float) for row in found)
    return np.array([score for _, _, score in sorted(found)])


def in_sqlite(case: Case, text: str) -> np.ndarray:
    statement, rows = created(case)
    with sqlite3.connect(":memory:") as database:
        database.execute(statement)
        database.executemany(f"INSERT INTO documents VALUES ({', '.join('?' * 10)})", rows)  # noqa: S608
        return in_order(database.execute(text).fetchall())


@pytest.mark.parametrize("name", CASES)
def test_ten_thousand_documents_score_the_same_in_sqlite(name, tmp_path):
    case = CASES[name]()
    scores = expected(case)
    assert len(scores) >= 10_000
    assert np.ptp(scores) > 0.2
    text = rw.export(case.model, tmp_path / "model.sql", "sql").read_text()
    np.testing.assert_allclose(in_sqlite(case, text), scores, atol=1e-6, rtol=0)


@pytest.mark.parametrize("library", ["lightgbm", "xgboost", "catboost", "blend"])
def test_values_within_the_query(library, tmp_path):
    if library == "blend":
        trees = rw.LightGBMRanker("xendcg", rounds=20, leaves=8, transform="raw+query", threads=1)
        model: Any = rw.blended([trees, rw.LinearRanker(threads=1)], folds=2).fit(test_linear.lists())
    else:
        model = test_query_forest.trained(library)
    path, fresh = rw.export(model, tmp_path / "model.sql", "sql"), test_linear.lists(500, 20, seed=2)
    np.testing.assert_allclose(test_linear.in_sqlite(path, fresh), model.predict(fresh), atol=1e-6, rtol=0)


def test_more_columns_than_databases_have_are_refused(tmp_path):
    rng = np.random.default_rng(0)
    data = rw.RankingDataset(
        rng.normal(size=(200, 900)), np.tile([0, 1, 2, 0, 1], 40), np.arange(0, 201, 5),
        feature_names=[f"feature {number}" for number in range(900)],
    )  # fmt: skip
    model = rw.LinearRanker(transform="standard", l2=1.0, threads=1).fit(data)
    with refusal(what="a query must have at most 1,600 columns, which all databases read", got="1,802"):
        rw.export(model, tmp_path / "model.sql", "sql")


def test_whole_numbers_are_columns_too(tmp_path):
    case = plain(trained("lightgbm"), 500)
    rows = np.where(np.abs(case.rows) < 1e6, case.rows * 3, np.nan).round()
    table = [[None if np.isnan(one) else int(one) for one in row] for row in rows.tolist()]
    whole = Case(case.model, rows, table)
    path = rw.export(case.model, tmp_path / "model.sql", "sql")
    statement, _ = created(whole)
    assert "DOUBLE PRECISION" in statement
    with sqlite3.connect(":memory:") as database:
        database.execute(statement.replace("DOUBLE PRECISION", "INTEGER"))
        database.executemany(f"INSERT INTO documents VALUES ({', '.join('?' * 10)})", created(whole)[1])  # noqa: S608
        scores = in_order(database.execute(path.read_text()).fetchall())
    np.testing.assert_allclose(scores, expected(whole), atol=1e-6, rtol=0)


def test_columns_that_no_split_asks_for_are_not_read(tmp_path):
    data = test_export.lists(missing=0.1)
    model = rw.LightGBMRanker("xendcg", rounds=1, leaves=2, threads=1).fit(data)
    text = rw.export(model, tmp_path / "model.sql", "sql").read_text()
    assert sum(f'"{name}"' in text for name in NAMES) == 1


def test_nets_and_what_is_too_large_are_refused(tmp_path, monkeypatch):
    with (
        monkeypatch.context() as smaller,
        refusal(
            what="a query must have at most 900 bytes, which all databases read",
            hint="train fewer or smaller trees, rounds=… and leaves=…, a LinearRanker with transform=…",
        ),
    ):
        smaller.setattr("rankwise.wings.exports.sql.MOST", 900)
        rw.export(trained("lightgbm"), tmp_path / "model.sql", "sql")
    data = test_export.lists(missing=0.1)
    net = rw.NeuralRanker(epochs=1, hidden=(4,), threads=1, device="cpu").fit(data)
    with refusal(what="a query in SQL is written of linear models, trees and sums of them", got="a net"):
        rw.export(net, tmp_path / "model.sql", "sql")
    listed = test_export.lists(missing=0.1, categorical=(2,)).with_(categories={2: (*map(str, range(39)), "\0")})
    zero = rw.LightGBMRanker("xendcg", **test_export.SMALL, **CATEGORIES["lightgbm"]).fit(listed)
    with refusal(what="a category in SQL has no character 0", got=repr("\0")):
        rw.export(zero, tmp_path / "model.sql", "sql")
    assert not list(tmp_path.iterdir())


def test_a_query_reads_any_table():
    """Another transform may stand between the table and the model: columns are named by who calls."""
    from rankwise.wings.exports.sql import SqlSteps, score

    model = trained("lightgbm").model_
    steps = SqlSteps([f'"{name}" AS a{number}' for number, name in enumerate(NAMES)], table="(SELECT * FROM documents)")
    steps.add(f"a{number} AS b{number}" for number in range(8))
    case = plain(trained("lightgbm"), 50)
    text = steps.select(score(model, {number: f"b{number}" for number in range(8)}, steps, model.schema))
    np.testing.assert_allclose(in_sqlite(case, text), expected(case), atol=1e-12)
    np.testing.assert_allclose(in_sqlite(case, query(model, NAMES)), expected(case), atol=1e-12)
