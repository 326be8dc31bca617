"""The scorer: the same bits as the library, whatever the trees, and whatever is handed to it."""

import subprocess
import sys
import threading
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from rankwise.models.formats.tree_arrays import LEAF, Nodes, below
from rankwise.models.scoring.quickscorer import questions, score
from rankwise.rankers.table import ranker_class
from tests.refusals import refusal, refuses

SMALL: dict[str, Any] = {"rounds": 10, "leaves": 12, "min_documents": 2, "learning_rate": 0.2, "threads": 1}
LIBRARIES = ("lightgbm", "xgboost", "catboost")


def rows_of(data: rw.RankingDataset, n_docs: int = 400, missing: float = 0.2) -> np.ndarray:
    rng = np.random.default_rng(5)
    rows = data.features[rng.integers(0, data.n_docs, n_docs)]
    rows[rng.random(rows.shape) < missing] = np.nan
    return rows


def with_missing(data: rw.RankingDataset) -> rw.RankingDataset:
    features = data.features.copy()
    features[np.random.default_rng(4).random(features.shape) < 0.15] = np.nan
    return data.with_(features=features)


@pytest.fixture(scope="module", params=LIBRARIES)
def model(request, data):
    return ranker_class(request.param)("xendcg", **SMALL).fit(with_missing(data))


@pytest.mark.parametrize("n_docs", [0, 1, 15, 16, 17, 300])
def test_scores_are_those_of_predict_to_the_last_bit(model, data, n_docs):
    scorer = model.scorer()
    assert scorer.rearranged
    for missing in (0.0, 0.3):
        rows = rows_of(data, n_docs, missing)
        scores = scorer(rows)
        assert scores.dtype == np.float64
        np.testing.assert_array_equal(scores, model.predict(rows) if n_docs else np.zeros(0))


@pytest.mark.parametrize("objective", ["lambdarank", "native"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_models_of_complete_data_and_the_librarys_own_objectives(library, objective, data):
    natives = {"lightgbm": "native:lambdarank", "xgboost": "native:rank:pairwise", "catboost": "native:YetiRank"}
    trained = ranker_class(library)(natives[library] if objective == "native" else objective, **SMALL).fit(data)
    rows = rows_of(data)
    np.testing.assert_array_equal(trained.scorer()(rows), trained.predict(rows))


def test_values_on_the_thresholds_and_beside_them(model):
    nodes = model.model_.nodes()
    splits = nodes.feature != LEAF
    exact, rows = nodes.threshold[splits], np.zeros((0, nodes.n_features), np.float32)
    most = np.finfo(np.float32).max  # CatBoost tells missing values by a border at the smallest number of all
    for value in (exact, np.nextafter(exact, most), np.nextafter(exact, -most)):
        block = np.zeros((exact.size, nodes.n_features), np.float32)
        block[np.arange(exact.size), nodes.feature[splits]] = value
        rows = np.vstack([rows, block])
    rows = np.vstack([rows, np.full((1, nodes.n_features), 3.4e38, np.float32), -rows[:50]])
    np.testing.assert_array_equal(model.scorer()(rows), model.predict(rows))


@pytest.mark.parametrize("leaves", [32, 33, 100])
@pytest.mark.parametrize("library", LIBRARIES)
def test_trees_of_more_leaves_than_a_word_has_bits(library, leaves, whole):
    large: Any = ranker_class(library)("xendcg", **SMALL | {"leaves": leaves, "rounds": 4, "min_documents": 1}).fit(
        whole
    )
    nodes = large.model_.nodes()
    most = max(int((nodes.feature[first:last] == LEAF).sum()) for first, last in nodes.trees())
    assert most > 32 or leaves == 32
    rows = rows_of(whole)
    np.testing.assert_array_equal(large.scorer()(rows), large.predict(rows))


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_categories(library, data):
    rng = np.random.default_rng(2)
    features = data.features.copy()
    features[:, 2] = (7 * data.labels + rng.integers(0, 40, data.n_docs)) % 70
    features[rng.random(data.n_docs) < 0.1, 2] = np.nan
    native = {"min_data_per_group": 2, "cat_smooth": 1.0} if library == "lightgbm" else {"max_cat_to_onehot": 2}
    trained: Any = ranker_class(library)("xendcg", **SMALL, **native)
    trained.fit(rw.RankingDataset(features, data.labels, data.offsets, categorical=[2]))
    assert len(trained.model_.nodes().categories) > 3
    rows = features.copy()
    rows[:9, 2] = [0, 69, 70, 71, 500, 31, 32, 63, 64]
    scorer = trained.scorer()
    assert scorer.rearranged
    np.testing.assert_array_equal(scorer(rows), trained.predict(rows))


def walk(nodes: Nodes, row: np.ndarray) -> float:
    """What nodes mean, said once more."""
    total = nodes.base
    for node in nodes.roots.tolist():
        while nodes.feature[node] != LEAF:
            value = row[nodes.feature[node]]
            if np.isnan(value):
                left = bool(nodes.missing_left[node])
            elif node in nodes.categories:
                left = int(value) in nodes.categories[node]
            else:
                left = bool(value <= nodes.threshold[node])
            node = nodes.left[node] if left else nodes.right[node]
        total += nodes.value[node]
    return float(total)


@pytest.mark.parametrize("seed", range(5))
def test_random_trees_against_walking_through_them(seed):
    rng = np.random.default_rng(seed)
    columns: dict[str, list[Any]] = {name: [] for name in ("feature", "threshold", "left", "right", "missing", "value")}
    categories = {}

    def grow(depth: int) -> int:
        here = len(columns["feature"])
        leaf = depth == 0 or rng.random() < 0.15
        row = (
            (-1, 0, 0, 0, False, rng.normal())
            if leaf
            else (rng.integers(5), rng.integers(-3, 4), 0, 0, rng.random() < 0.5, 0)
        )
        for name, value in zip(columns, row, strict=True):
            columns[name].append(value)
        if not leaf:
            if columns["feature"][here] == 4:
                categories[here] = tuple(sorted(set(rng.integers(0, 70, 20).tolist())))
            columns["left"][here] = grow(depth - 1)
            columns["right"][here] = grow(depth - 1)
        return here

    roots = [grow(int(depth)) for depth in rng.integers(0, 8, 6)]
    kinds = (np.int32, np.float32, np.int32, np.int32, np.bool_, np.float64)
    arrays: list[Any] = [np.array(column, kind) for column, kind in zip(columns.values(), kinds, strict=True)]
    rest: Any = (categories, 5, 0.75)
    nodes = Nodes(np.array(roots, np.int32), *arrays, *rest)
    rows = rng.integers(-4, 5, (100, 5)).astype(np.float32)
    rows[:, 4] = rng.integers(0, 80, 100)
    rows[rng.random(rows.shape) < 0.2] = np.nan
    rows.flags.writeable = False
    expected = [walk(nodes, row) for row in rows]
    np.testing.assert_allclose(score(questions(nodes), rows), expected, atol=1e-12, rtol=0)


def test_doubles_are_rounded_down():
    doubles = np.array([0.1, -0.1, 0.5, 1e300, -1e300, 3.4e38])
    rounded = below(doubles)
    assert rounded.dtype == np.float32
    assert (rounded.astype(np.float64) <= doubles).all()
    assert (np.nextafter(rounded[:3], np.float32(np.inf)).astype(np.float64) > doubles[:3]).all()
    assert rounded[2] == 0.5
    assert rounded[3] == np.finfo(np.float32).max
    assert rounded[4] == -np.inf


def test_whatever_predict_takes_is_taken(model, data):
    scorer, rows = model.scorer(), rows_of(data)
    expected = model.predict(rows)
    for given in (rows.astype(np.float64), np.asfortranarray(rows), rows.tolist(), rows[::-1][::-1]):
        np.testing.assert_array_equal(scorer(given), expected)
    np.testing.assert_array_equal(scorer(data), model.predict(data))
    refuses(lambda: scorer(rows[:, :11]), what="the model was trained on 12 features", got="11")
    refuses(lambda: scorer(rows[0]), what="features must be a matrix of numbers, one row per document")


def test_columns_of_tables_are_found_by_name(data):
    names = [f"x{j}" for j in range(12)]
    trained = rw.LightGBMRanker("xendcg", **SMALL).fit(data.with_(feature_names=names))
    frame = pl.DataFrame({name: data.features[:50, j] for j, name in reversed(list(enumerate(names)))})
    np.testing.assert_array_equal(trained.scorer()(frame), trained.predict(data.features[:50]))


def test_the_library_scores_what_cannot_be_rearranged(data):
    features = data.features.copy()
    features[:, 2] = 3 * data.labels + np.random.default_rng(0).integers(0, 2, data.n_docs)
    for trained in (
        rw.LightGBMRanker("xendcg", **SMALL, linear_tree=True).fit(data),
        rw.CatBoostRanker("xendcg", **SMALL).fit(
            rw.RankingDataset(features, data.labels, data.offsets, categorical=[2])
        ),
        rw.NeuralRanker("softmax_ce", hidden=(8,), epochs=2, threads=1, device="cpu").fit(data),
    ):
        scorer = trained.scorer()
        assert not scorer.rearranged
        assert trained.name in repr(scorer)
        np.testing.assert_array_equal(scorer(features[:70]), trained.predict(features[:70]))


def test_training_again_leaves_a_scorer_as_it_was(data):
    for trained in (
        rw.LightGBMRanker("xendcg", **SMALL),
        rw.LightGBMRanker("xendcg", **SMALL, linear_tree=True),
        rw.NeuralRanker("softmax_ce", hidden=(8,), epochs=1, threads=1, device="cpu"),
    ):
        scorer = trained.fit(data).scorer()
        before = scorer(data.features[:40])
        trained.fit(data.take(slice(0, 20)))
        np.testing.assert_array_equal(scorer(data.features[:40]), before)
        assert not np.array_equal(trained.predict(data.features[:40]), before)


def test_rankers_that_cannot_have_one(data):
    named = data.with_(document_ids=np.arange(data.n_docs) % 20)
    factors = rw.recommend.FactorizationRanker("softmax_ce", factors=2, epochs=1, threads=1, device="cpu").fit(named)
    refuses(factors.scorer, what="FactorizationRanker scores ids of users and items, and no features")
    refuses(lambda: rw.LightGBMRanker().scorer(), what="this LightGBMRanker is not trained yet")


def test_threads_share_a_scorer(model, data):
    scorer, rows = model.scorer(), rows_of(data, 500)
    expected = scorer(rows)
    wrong: list[int] = []

    def work(first: int) -> None:
        part = slice(first, first + 200)
        wrong.extend(first for _ in range(30) if not np.array_equal(scorer(rows[part]), expected[part]))

    workers = [threading.Thread(target=work, args=(100 * k,)) for k in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_rows_that_cannot_be_written_compile_nothing_new(model, data):
    """A served query must not wait for the compiler."""
    from rankwise.models.scoring.quickscorer import _kernel

    scorer, rows = model.scorer(), rows_of(data)
    known = len(_kernel.signatures)
    locked = rows.copy()
    locked.flags.writeable = False
    scorer(rows), scorer(locked), scorer(rows[3:9])
    assert len(_kernel.signatures) == known


def test_a_model_from_disk_in_a_fresh_process(data, tmp_path):
    model = rw.LightGBMRanker("xendcg", **SMALL).fit(data)
    model.save(tmp_path / "model")
    np.save(tmp_path / "rows.npy", rows_of(data))
    code = (
        "import sys, numpy as np, rankwise as rw\n"
        "model, rows = rw.load(sys.argv[1] + '/model'), np.load(sys.argv[1] + '/rows.npy')\n"
        "np.save(sys.argv[1] + '/scores.npy', model.scorer()(rows))"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "scores.npy"), model.predict(rows_of(data)))


# One rule for all scorers: equal to predict, or refused.


class Counting(rw.Ranker):
    """Adds the number of documents of a query to a feature where it knows the queries."""

    def _fit(self, train, valid):
        self.nothing_ = 0

    def _predict(self, features, offsets):
        sizes = 0 if offsets is None else np.repeat(np.diff(offsets), np.diff(offsets))
        return features[:, 0] + sizes


NET: dict[str, Any] = {"hidden": (4,), "epochs": 4, "learning_rate": 0.05, "threads": 1, "device": "cpu"}
RULED: dict[str, Any] = {
    "trees": lambda: rw.LightGBMRanker("xendcg", **SMALL),
    "net": lambda: rw.NeuralRanker("softmax_ce", **NET),
    "attention": lambda: rw.NeuralRanker("softmax_ce", **NET, attention=1),
    "bag of attention": lambda: rw.bagged(rw.NeuralRanker("softmax_ce", **NET, attention=1), folds=2),
    "features within queries": lambda: rw.NeuralRanker("softmax_ce", **NET, transform="quantile+query"),
    "own": Counting,
    "blend": lambda: rw.blended([Counting(), rw.NeuralRanker("softmax_ce", **NET, attention=1)], folds=2),
    "calibrated": lambda: rw.CalibratedRanker(rw.LightGBMRanker("xendcg", **SMALL), segment=1, method="platt"),
    "calibrated attention": lambda: rw.CalibratedRanker(
        rw.NeuralRanker("softmax_ce", **NET, attention=1), segment=1, method="platt"
    ),
}


@pytest.mark.parametrize("name", RULED)
def test_several_queries_are_scored_as_predict_does(name, data):
    features = data.features.copy()
    features[:, 1] = np.repeat(np.arange(data.n_queries) % 3, data.sizes)
    names = [f"x{j}" for j in range(12)]
    train, fresh = rw.split(data.with_(features=features, feature_names=names), (0.6, 0.4), seed=0)
    model = RULED[name]().fit(train, fresh)
    scorer, expected = model.scorer(), model.predict(fresh)
    np.testing.assert_array_equal(scorer(fresh), expected)
    np.testing.assert_array_equal(scorer(fresh.features, fresh.offsets), expected)
    first = slice(*fresh.offsets[:2])
    one = fresh.take([0])
    for given in (one, one.features, pl.DataFrame(one.features, schema=names)):
        known = np.array([0, one.n_docs]) if name == "own" and given is not one else None
        np.testing.assert_allclose(scorer(given, known), expected[first], rtol=1e-5, atol=1e-6)
    order = np.random.default_rng(0).permutation(fresh.n_docs)
    table = pl.DataFrame(fresh.features[order], schema=names).with_columns(qid=pl.Series(fresh.qids()[order]))
    for given in (table,) if model.needs_lists else (table, fresh.features):
        if name == "calibrated":
            with refusal(what="documents of several segments are of one query or of several, which have other curves"):
                scorer(given)
        else:
            np.testing.assert_allclose(scorer(given), model.predict(given), rtol=1e-12)
    assert scorer(np.zeros((0, 12), np.float32)).shape == (0,)
    assert scorer(np.zeros((0, 12)), np.array([0])).shape == (0,)
    with refusal(what="offsets must cover every row: begin with 0 and end with the number of rows"):
        scorer(fresh.features, np.array([0, 3]))
