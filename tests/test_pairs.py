"""Features in pairs: every kind of data with every kind of ranker, and what is done with the model then.

Each pair works, with numbers that agree, or is refused by an error of ours: never by a KeyError or the like. Every
fifth pair, with a third of what is done, runs by default; all run under ``make test-all``.
"""

import functools
import json
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone

import rankwise as rw
from rankwise import check
from rankwise.wings.exports.export import FORMATS
from tests import tiers

TREES: dict[str, Any] = {"rounds": 2, "leaves": 4, "min_documents": 2, "threads": 1}
NET: dict[str, Any] = {"epochs": 4, "hidden": (4,), "learning_rate": 0.05, "threads": 1, "device": "cpu"}
NAMES = ["a", "b", "c d", "e"]


class Linear(rw.Ranker):
    """A ranker of one's own."""

    name = "linear_of_pairs"

    def _fit(self, train: Any, valid: rw.RankingDataset | None) -> None:
        features = np.nan_to_num(np.asarray(train.features.todense() if train.is_sparse else train.features))
        self.weights_ = features.T @ (train.labels - train.labels.mean())

    def _predict(self, features: Any, offsets: Any) -> Any:
        return (
            np.nan_to_num(np.asarray(features.todense() if hasattr(features, "todense") else features)) @ self.weights_
        )


@pytest.fixture(autouse=True)
def name() -> None:
    rw.register(Linear.name, Linear)


# The first table: kinds of data.


def plain() -> Any:
    data = rw.synthetic(n_queries=20, n_docs=8, n_features=4, seed=3)
    features = data.features.copy()
    features[:, 1] = np.repeat(np.arange(data.n_queries) % 3, data.sizes)
    return data.with_(features=features, labels=np.minimum(data.labels, 3.0), query_ids=np.arange(data.n_queries))


def by_document(data: Any, seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(0.2, 1.0, data.n_docs)


def with_missing(data: Any) -> Any:
    holes = (by_document(data)[:, None] > 0.8) & (np.arange(4) != 1)  # the second is the segment of queries
    return data.with_(features=np.where(holes, np.nan, data.features))


def with_categories(data: Any, values: tuple[str, ...] | None = None) -> Any:
    features = data.features.copy()
    features[:, 3] = np.arange(data.n_docs) % 3
    listed: Any = {"feature_names": NAMES, "categorical": [3]}
    listed |= {} if values is None else {"categories": {3: values}}
    return rw.RankingDataset(features, data.labels, data.offsets, query_ids=data.query_ids, **listed)


def with_short_queries(data: Any) -> Any:
    sizes = np.stack([np.ones_like(data.sizes), data.sizes - 1], axis=1).ravel()
    ids = 1000 * data.query_ids[0] + np.arange((sizes > 0).sum())
    return rw.RankingDataset.from_sizes(data.features, data.labels, sizes[sizes > 0], query_ids=ids)


def sparse(data: Any) -> Any:
    from scipy.sparse import csr_array

    return data.with_(features=csr_array(np.where(data.features > 0.3, data.features, 0.0).astype(np.float32)))


def on_disk(data: Any, folder: Path) -> Any:
    path = folder / f"{data.query_ids[0]}.parquet"
    if not path.exists():
        rw.write_data(data.with_(feature_names=NAMES), path)
    return rw.open_data(path)


DATA: dict[str, Callable[[Any, Path], Any]] = {
    "plain": lambda data, _: data,
    "named features": lambda data, _: data.with_(feature_names=NAMES),
    "weights": lambda data, _: data.with_(weights=np.arange(1.0, 1.0 + data.n_queries)),
    "document weights": lambda data, _: data.with_(document_weights=by_document(data)),
    "document rewards": lambda data, _: data.with_(document_rewards=by_document(data)),
    "categories": lambda data, _: with_categories(data, ("red", "missing", "blue")),
    "codes of categories": lambda data, _: with_categories(data),
    "missing values": lambda data, _: with_missing(data),
    "sparse": lambda data, _: sparse(data),
    "on disk": on_disk,
    "named labels": lambda data, _: data.with_(more_labels={"purchase": (data.labels > 1).astype(float)}),
    "init scores": lambda data, _: data.with_(init_scores=by_document(data)),
    "positions": lambda data, _: data.with_(
        positions=np.arange(data.n_docs) - np.repeat(data.offsets[:-1], data.sizes) + 1
    ),
    "propensities": lambda data, _: data.with_(propensities=by_document(data), labels=(data.labels > 1).astype(float)),
    "teacher scores": lambda data, _: data.with_(teacher_scores=by_document(data)),
    "groups": lambda data, _: data.with_(groups=np.array(["x", "y"])[np.arange(data.n_docs) % 2]),
    "string ids": lambda data, _: data.with_(
        query_ids=[f"q {number}" for number in data.query_ids],
        document_ids=[f"d\u202e{number}" for number in range(data.n_docs)],
    ),
    "queries of one document": lambda data, _: with_short_queries(data),
    "binary labels": lambda data, _: data.with_(labels=(data.labels > 1).astype(float)),
}

# The second table: rankers, trained on data, and valid where they need some.


def lightgbm(objective: str = "lambdarank", **more: Any) -> rw.LightGBMRanker:
    return rw.LightGBMRanker(objective, **TREES | more)


RANKERS: dict[str, Callable[[], Any]] = {
    "lightgbm": lightgbm,
    "lightgbm with linear leaves": lambda: lightgbm(linear_tree=True),
    "native lightgbm": lambda: lightgbm("native:lambdarank"),
    "debiased": lambda: lightgbm(debias=True),
    "of purchases": lambda: lightgbm("on(purchase, xendcg)"),
    "of positions": lambda: lightgbm("positioned(xendcg)"),
    "of a teacher": lambda: lightgbm("0.5*distil + 0.5*xendcg"),
    "xgboost": lambda: rw.XGBoostRanker("xendcg", **TREES),
    "catboost": lambda: rw.CatBoostRanker("xendcg", **TREES),
    "neural": lambda: rw.NeuralRanker("softmax_ce", **NET),
    "attention": lambda: rw.NeuralRanker("softmax_ce", **NET | {"attention": 1}),
    "own": Linear,
    "bag": lambda: rw.bagged(lightgbm(), folds=2),
    "bag of attention": lambda: rw.bagged(rw.NeuralRanker("softmax_ce", **NET | {"attention": 1}), folds=2),
    "bag of own": lambda: rw.bagged(Linear(), folds=2),
    "blend of trees": lambda: rw.blended([lightgbm(), lightgbm("xendcg")], folds=2, weights="average"),
    "blend": lambda: rw.blended([lightgbm(), rw.XGBoostRanker("xendcg", **TREES), Linear(), 0], folds=2),
    "distilled": lambda: rw.distilled(rw.XGBoostRanker("xendcg", **TREES), lightgbm()),
    "calibrated": lambda: rw.CalibratedRanker(lightgbm(), method="platt"),
    "calibrated by segment": lambda: rw.CalibratedRanker(lightgbm(), method="platt", segment=1),
    "calibrated bag": lambda: rw.CalibratedRanker(rw.bagged(lightgbm(), folds=2)),
    "calibrated attention": lambda: rw.CalibratedRanker(
        rw.NeuralRanker("softmax_ce", **NET | {"attention": 1, "epochs": 15}), method="platt", segment=1
    ),
    "search": lambda: rw.AutoRanker(None, recipes=[lightgbm(), Linear()], folds=2, threads=1, progress=False),
}

# What is done with a model; each raises AssertionError where numbers do not agree.


def saved(model: Any, data: Any, folder: Path) -> None:
    loaded = rw.load(model.save(folder / "model"))
    np.testing.assert_array_equal(loaded.predict(data), model.predict(data))
    np.testing.assert_array_equal(loaded.scorer()(data), model.scorer()(data))
    assert repr(loaded.card()).isprintable()


def saved_init(model: Any, data: Any, folder: Path) -> None:
    np.testing.assert_array_equal(rw.load(model.save(folder / "other")).predict(data), model.predict(data))


def close(one: Any, other: Any, model: Any) -> None:
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def scored(model: Any, data: Any, folder: Path) -> None:
    scorer, expected = model.scorer(), model.predict(data)
    close(scorer(data), expected, model)
    first, last = data.offsets[3:5]
    one = data.take([3])
    close(scorer(one), expected[first:last], model)
    close(scorer(one.features, np.array([0, last - first])), expected[first:last], model)
    assert scorer(np.zeros((0, data.n_features), np.float32)).shape == (0,)


def scored_as_a_matrix(model: Any, data: Any, folder: Path) -> None:
    close(model.scorer()(data.features), model.predict(data.features), model)


def table(data: Any) -> pl.DataFrame:
    names = list(data.feature_names or [f"x{number}" for number in range(data.n_features)])
    matrix = data.features.toarray() if data.is_sparse else np.asarray(data.features)
    columns: dict[str, Any] = {name: matrix[:, number] for number, name in enumerate(names)}
    for number, listed in data.categories.items():
        columns[names[number]] = [None if np.isnan(code) else listed[int(code)] for code in matrix[:, number]]
    return pl.DataFrame(columns)


def scored_as_a_table(model: Any, data: Any, folder: Path) -> None:
    rows = table(data)
    given = rows.with_columns(qid=pl.Series(data.qids())) if model.needs_lists else rows
    expected = model.predict(given)
    close(expected, model.predict(data), model) if not hasattr(model, "curves_") else None
    shuffled = np.random.default_rng(0).permutation(len(given))
    close(model.scorer()(given[shuffled.tolist()]), expected[shuffled], model)


def ranked(model: Any, data: Any, folder: Path) -> None:
    ranking = model.rank(data, cutoff=3)
    assert ranking["score"].to_list() == pytest.approx(model.predict(data)[ranking["row"].to_numpy()].tolist())


def explained(model: Any, data: Any, folder: Path) -> None:
    np.testing.assert_allclose(model.explain(data).sum(axis=1), model.predict(data), rtol=1e-4, atol=1e-5)


def explained_query(model: Any, data: Any, folder: Path) -> None:
    rw.explain(model, data.take([2]))


def evaluated(model: Any, data: Any, folder: Path) -> None:
    assert rw.evaluate(model, data).mean == pytest.approx(rw.evaluate(model.predict(data), data).mean, nan_ok=True)


def calibrated(model: Any, data: Any, folder: Path) -> None:
    again = rw.calibrate(model, data, "platt")
    p = again.predict(data)
    assert ((p >= 0.0) & (p <= 1.0)).all()
    np.testing.assert_array_equal(rw.load(again.save(folder / "again")).predict(data), p)


def taught(model: Any, data: Any, folder: Path) -> None:
    student = rw.distilled(model, lightgbm()).fit(data)
    np.testing.assert_array_equal(rw.load(student.save(folder / "student")).predict(data), student.predict(data))


def cloned(model: Any, data: Any, folder: Path) -> None:
    with pytest.raises(ValueError, match="not trained yet"):
        clone(model).predict(data)
    repr(model)


def served(model: Any, data: Any, folder: Path) -> None:
    pytest.importorskip("starlette", reason="needs the extra serve")
    from rankwise.wings.serve.served import ServedModel

    service, rows = ServedModel("model", model), table(data)
    lists = [
        rows[first:last] for first, last in zip(data.offsets[:-1].tolist(), data.offsets[1:].tolist(), strict=True)
    ]
    named = model.model_.schema.names is not None
    queries = [{"documents": one.fill_nan(None).to_dicts() if named else json_rows(one)} for one in lists]
    answer = service.score(service.read(json.dumps({"queries": queries}).encode(), 10_000), threading.Event())
    close(np.concatenate([one["scores"] for one in answer["queries"]]), model.predict(data), model)


def json_rows(rows: pl.DataFrame) -> list[list[float | None]]:
    return [list(row) for row in rows.fill_nan(None).iter_rows()]


def exported(kind: str) -> Callable[[Any, Any, Path], None]:
    def write(model: Any, data: Any, folder: Path) -> None:
        path = rw.export(model, folder / f"exported.{kind}", kind, names=None if data.feature_names else list("wxyz"))
        assert path.exists()
        if kind == "onnx":
            import onnxruntime

            session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
            features = data.features.toarray() if data.is_sparse else np.asarray(data.features)
            (scores,) = session.run(["scores"], {"features": features.astype(np.float32)})
            close(scores, model.predict(data), model)

    return write


USES: dict[str, Callable[[Any, Any, Path], None]] = {
    "save": saved_init,
    "save and scorer": saved,
    "scorer": scored,
    "scorer of a matrix": scored_as_a_matrix,
    "scorer of a table": scored_as_a_table,
    "rank": ranked,
    "explain": explained,
    "explain a query": explained_query,
    "evaluate": evaluated,
    "calibrate": calibrated,
    "teach": taught,
    "clone": cloned,
    "serve": served,
    **{f"export to {kind}": exported(kind) for kind in FORMATS},
}


def refused(do: Callable[[], Any]) -> Any:
    """Return what a call returns, or None where an error of ours refuses it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return do()
        except (ValueError, TypeError) as error:
            if not isinstance(error.args[0] if error.args else None, check.Message):
                raise
            return error


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pairs")


@functools.cache
def parts(kind: str, folder: Path) -> tuple[rw.RankingDataset, rw.RankingDataset]:
    data = plain()
    fresh = data.with_(
        features=data.features + np.array([0.1, 0.0, 0.1, 0.1], np.float32), query_ids=data.query_ids + 100
    )
    return DATA[kind](data, folder), DATA[kind](fresh, folder)


NEEDS = {
    "debiased": ("propensities",),
    "of purchases": ("named labels",),
    "of positions": ("positions",),
    "of a teacher": ("teacher scores",),
}
"""Rankers that need a column."""
REFUSED = {
    "document weights": ("distilled",),
    "document rewards": tuple(one for one in RANKERS if one not in ("own", "bag of own", "search")),
    **dict.fromkeys(
        ("categories", "codes of categories"), ("neural", "attention", "bag of attention", "calibrated attention")
    ),
    "init scores": tuple(
        one
        for one in RANKERS
        if one.startswith(("native", "own", "blend", "calibrated", "distilled", "search", "bag of own"))
    ),
}
"""Data from which these rankers cannot learn, beside those that lack a column."""


ALWAYS = ("save", "rank", "evaluate", "clone")
"""What is never refused."""
EVERY = [
    (kind, ranker)
    for row, kind in enumerate(DATA)
    for column, ranker in enumerate(RANKERS)
    if tiers.ALL or (row + column) % 5 == 0
]


@pytest.mark.parametrize(("kind", "ranker"), EVERY)
def test_pairs_work_or_are_refused(kind, ranker, folder, tmp_path):
    train, fresh = parts(kind, folder)
    model = refused(lambda: RANKERS[ranker]().fit(train, fresh))
    learns = ranker not in REFUSED.get(kind, ()) and kind in NEEDS.get(ranker, (kind,))
    assert isinstance(model, Exception) != learns, model
    uses = list(USES) if tiers.ALL else list(USES)[len(kind) % 3 :: 3]
    for use in () if isinstance(model, Exception) else uses:
        (tmp_path / use).mkdir()
        try:
            answer = refused(functools.partial(USES[use], model, fresh, tmp_path / use))
        except Exception as error:
            raise AssertionError(f"{use}: {type(error).__name__}: {error}") from error
        assert answer is None or use not in ALWAYS, f"{use}: {answer}"
