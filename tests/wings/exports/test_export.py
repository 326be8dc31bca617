"""Models elsewhere: every format is read back by its own reader, or by one written here from the format's documents."""

import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import treelite

import rankwise as rw
from rankwise.rankers.table import ranker_class
from rankwise.wings.exports.export import FORMATS, write
from rankwise.wings.exports.solr import before_slack
from tests.cli.running import run
from tests.refusals import refusal, refuses

NAMES = [f"attribute(f{j})" for j in range(8)]
NATIVE = {"lightgbm": "rank_xendcg", "xgboost": "rank:ndcg", "catboost": "QueryRMSE"}
SMALL: dict[str, Any] = {"rounds": 8, "leaves": 12, "min_documents": 3, "learning_rate": 0.2, "threads": 1}
TREES = [(library, objective) for library in NATIVE for objective in ("lambdarank", "xendcg", "native")]


def documents(n_docs: int, *, missing: float, seed: int = 0) -> np.ndarray:
    """Rows that lie on thresholds too: values are few, and midpoints between them are among the values."""
    rng = np.random.default_rng(seed)
    rows = np.round(rng.normal(0, 3, (n_docs, 8)) * 4) / 8
    rows[rng.random(rows.shape) < missing] = np.nan
    return rows.astype(np.float32)


def lists(*, missing: float, categorical: tuple[int, ...] = (), codes: int = 40) -> rw.RankingDataset:
    rng = np.random.default_rng(1)
    rows = documents(900, missing=missing)
    labels = np.clip(np.nan_to_num(rows[:, 0]) + np.abs(np.nan_to_num(rows[:, 1])) + rng.normal(0, 1, 900), 0, 4)
    labels = labels.round()
    for column in categorical:
        rows[:, column] = (7 * labels + rng.integers(0, codes - 28, 900)) % codes
        rows[rng.random(900) < missing, column] = np.nan
    return rw.RankingDataset(rows, labels, np.arange(0, 901, 15), feature_names=NAMES, categorical=categorical)


@pytest.fixture(scope="module")
def models() -> dict[tuple[str, str, bool], Any]:
    """Each library with our objectives and its own, trained with and without missing values."""
    found: dict[tuple[str, str, bool], Any] = {}
    for missing in (False, True):
        data = lists(missing=0.15 if missing else 0.0)
        for library, objective in TREES:
            text = f"native:{NATIVE[library]}" if objective == "native" else objective
            found[library, objective, missing] = ranker_class(library)(text, **SMALL).fit(data)
    return found


@pytest.fixture(scope="module", params=[False, True], ids=["complete", "missing"])
def missing(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def rows_for(data: rw.RankingDataset | None = None) -> np.ndarray:
    """A thousand documents, some with missing values, and values on every side of each threshold."""
    rows = documents(1000, missing=0.0, seed=7)
    rows[500:] = documents(500, missing=0.3, seed=8)
    rows[0], rows[1] = np.float32(3.4e38), np.float32(-3.4e38)
    rows[2], rows[3] = 0.0, np.nan
    return rows


# Readers. Those of Elasticsearch and Vespa do what these do by their documents and sources, in float32 or
# float64 as they compute, and share nothing with the writer.


def read_onnx(path: Path, rows: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (scores,) = session.run(["scores"], {"features": rows})
    assert scores.shape == (len(rows),)
    return np.asarray(scores, np.float64)


def read_treelite(path: Path, rows: np.ndarray) -> np.ndarray:
    model = treelite.Model.deserialize(str(path))
    return np.asarray(treelite.gtil.predict(model, rows, nthread=1), np.float64).reshape(-1)


def read_plugin(path: Path, rows: np.ndarray, names: list[str] = NAMES) -> np.ndarray:
    """As the plugin's XGBoostJsonParser, which refuses what it does not know, and its trees of floats."""
    body = json.loads(path.read_text())
    assert list(body) == ["model"]
    assert list(body["model"]) == ["name", "model"]
    assert body["model"]["model"]["type"] == "model/xgboost+json"
    trees = json.loads(body["model"]["model"]["definition"])
    assert isinstance(trees, list)

    def parse(node: dict[str, Any]) -> None:
        if "leaf" in node:
            assert set(node) == {"nodeid", "leaf"}
            return
        assert set(node) == {"nodeid", "depth", "split", "split_condition", "yes", "no", "missing", "children"}
        assert [child["nodeid"] for child in node["children"]] == [node["yes"], node["no"]]
        assert node["missing"] in (node["yes"], node["no"])
        assert node["split"] in names
        for child in node["children"]:
            parse(child)

    def walk(node: dict[str, Any], row: np.ndarray) -> np.float32:
        while "leaf" not in node:
            value = row[names.index(node["split"])]
            less = np.float32(node["split_condition"]) > value
            left = node["missing"] == node["yes"] if np.isnan(value) else less
            node = node["children"][0 if left else 1]
        return np.float32(node["leaf"])

    with np.errstate(over="ignore"):
        for tree in trees:
            parse(tree)
        return np.array([np.sum([walk(tree, row) for tree in trees], dtype=np.float32) for row in rows], np.float64)


def read_vespa(path: Path, rows: np.ndarray, names: list[str] = NAMES) -> np.ndarray:
    """As Vespa's importers: less than, in doubles, NaN compares false, and categories are texts, missing ones empty."""
    model = json.loads(path.read_text())
    return np.array(
        [
            sum(
                _vespa_lightgbm(model, tree["tree_structure"], row)
                if isinstance(model, dict)
                else _vespa_xgboost(tree, dict(zip(names, row.tolist(), strict=True)))
                for tree in (model["tree_info"] if isinstance(model, dict) else model)
            )
            for row in rows
        ]
    )


def _vespa_xgboost(node: dict[str, Any], values: dict[str, float]) -> float:
    while "leaf" not in node:
        value, limit = values[node["split"]], node["split_condition"]
        yes = not value >= limit if node["missing"] == node["yes"] else value < limit
        wanted = node["yes"] if yes else node["no"]
        node = next(child for child in node["children"] if child["nodeid"] == wanted)
    return float(node["leaf"])


def _vespa_lightgbm(model: dict[str, Any], node: dict[str, Any], row: np.ndarray) -> float:
    assert model["objective"] in ("binary", "regression", "lambdarank", "rank_xendcg")
    categorical = [
        k for k, name in enumerate(model["feature_names"]) if model["feature_infos"].get(name, {}).get("values")
    ]
    tables = dict(zip(categorical, model["pandas_categorical"], strict=True))
    while "leaf_value" not in node:
        value = row[node["split_feature"]]
        if node["decision_type"] == "==":
            table = [text if isinstance(text, str) else "null" for text in tables[node["split_feature"]]]
            if not isinstance(value, str):
                value = "" if np.isnan(value) else f"{value:.0f}"
            left = value in [table[int(k)] for k in node["threshold"].split("||")]
        else:
            value = float(value)
            left = not value >= float(node["threshold"]) if node["default_left"] else value < float(node["threshold"])
        node = node["left_child"] if left else node["right_child"]
    return float(node["leaf_value"])


def read_solr(path: Path, rows: np.ndarray, names: list[str] = NAMES) -> np.ndarray:
    """As Solr's reference guide and MultipleAdditiveTreesModel: floats, at most threshold + 1e-6."""
    model = json.loads(path.read_text())
    assert set(model) == {"class", "name", "features", "params"}
    assert model["class"] == "org.apache.solr.ltr.model.MultipleAdditiveTreesModel"
    places = {feature["name"]: place for place, feature in enumerate(model["features"])}
    assert list(places) == names
    by_zero = model["params"].get("isNullSameAsZero", True)
    assert by_zero in (True, False)  # no text, for which there is no setter

    def walk(node: dict[str, Any], row: np.ndarray) -> np.float32:
        while "feature" in node:
            assert set(node) - {"missing"} == {"feature", "threshold", "left", "right"}
            limit = np.float32(float(node["threshold"])) + np.float32(1e-6)
            value = row[places[node["feature"]]]
            if not by_zero and np.isnan(value):
                node = node[node["missing"]]
            else:
                node = node["left" if np.nan_to_num(value, nan=0.0) <= limit else "right"]
        assert set(node) == {"value"}
        return np.float32(float(node["value"]))

    scores = []
    for row in rows:
        score = np.float32(0.0)
        for tree in model["params"]["trees"]:
            score += np.float32(tree["weight"]) * walk(tree["root"], row)
        scores.append(score)
    return np.array(scores, np.float64)


def read_elastic(path: Path, rows: np.ndarray, names: list[str] = NAMES) -> np.ndarray:
    """As Elasticsearch's TreeNode and WeightedSum: doubles, at most the threshold, absent ones by default_left."""
    body = json.loads(path.read_text())
    assert set(body) == {"description", "inference_config", "definition"}
    extractors = body["inference_config"]["learning_to_rank"]["feature_extractors"]
    assert [list(one) for one in extractors] == [["query_extractor"]] * len(names)
    assert [one["query_extractor"]["feature_name"] for one in extractors] == names
    ensemble = body["definition"]["trained_model"]["ensemble"]
    assert ensemble["aggregate_output"] == {"weighted_sum": {}}
    assert ensemble["feature_names"] == names
    splits = {"node_index", "decision_type", "split_feature", "threshold", "left_child", "right_child", "default_left"}

    def walk(nodes: list[dict[str, Any]], row: list[float]) -> float:
        node = nodes[0]
        while "leaf_value" not in node:
            assert set(node) == splits
            assert node["decision_type"] == "lte"
            value = row[node["split_feature"]]
            left = node["default_left"] if np.isnan(value) else value <= node["threshold"]
            node = nodes[node["left_child" if left else "right_child"]]
        return float(node["leaf_value"])

    trees = [one["tree"]["tree_structure"] for one in ensemble["trained_models"]]
    assert all(node["node_index"] == place for nodes in trees for place, node in enumerate(nodes))
    return np.array([sum(walk(nodes, row) for nodes in trees) for row in rows.tolist()])


READERS = {
    "onnx": read_onnx,
    "treelite": read_treelite,
    "elasticsearch": read_plugin,
    "elastic-ltr": read_elastic,
    "vespa": read_vespa,
    "solr": read_solr,
}


def test_every_format_has_a_reader_here():
    assert [*READERS, "sql"] == list(FORMATS)  # see test_sql.py


@pytest.mark.parametrize(("library", "objective"), TREES)
@pytest.mark.parametrize("name", READERS)
def test_a_thousand_documents_score_the_same_elsewhere(name, library, objective, missing, models, tmp_path):
    model, rows = models[library, objective, missing], rows_for()
    path = rw.export(model, tmp_path / "model", name)
    expected = model.predict(rows)
    assert np.ptp(expected) > 0.5
    np.testing.assert_allclose(READERS[name](path, rows), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("library", NATIVE)
@pytest.mark.parametrize("name", ["onnx", "treelite", "elastic-ltr", "solr"])
def test_sums_have_the_precision_of_the_library(name, library, models, tmp_path):
    """Trees may be added up in another order there, when threads share them."""
    model, rows = models[library, "xendcg", True], rows_for()
    path = rw.export(model, tmp_path / "model", name)
    close = 1e-6 if library == "xgboost" or name == "solr" else 1e-13
    np.testing.assert_allclose(READERS[name](path, rows), model.predict(rows), atol=close, rtol=0)


def on_thresholds(model: Any) -> np.ndarray:
    """Documents whose values are the thresholds themselves, and the float32 on either side."""
    nodes = model.model_.nodes()
    splits = nodes.feature >= 0
    rows = np.zeros((3 * int(splits.sum()), 8), np.float32)
    for k, side in enumerate((-np.inf, None, np.inf)):
        exact = nodes.threshold[splits]
        values = exact if side is None else np.nextafter(exact, np.float32(side))
        block = rows[k * exact.size : (k + 1) * exact.size]
        block[np.arange(exact.size), nodes.feature[splits]] = values
    return rows


@pytest.mark.parametrize("library", NATIVE)
@pytest.mark.parametrize("name", READERS)
def test_no_threshold_moves_by_a_single_float(name, library, models, tmp_path):
    model = models[library, "lambdarank", False]
    rows = on_thresholds(model)
    if name == "solr":  # which adds 1e-6 to thresholds, so that numbers of 1e-13 and less are all the same to it
        rows = rows[((rows == 0.0) | (np.abs(rows) > 2e-13)).all(axis=1)]
        assert len(rows) > 200
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        path = rw.export(model, tmp_path / "model", name)
    np.testing.assert_allclose(READERS[name](path, rows), model.predict(rows), atol=1e-5, rtol=0)


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
@pytest.mark.parametrize("name", ["onnx", "treelite", "vespa"])
def test_categories(name, library, tmp_path):
    data = lists(missing=0.1, categorical=(2, 5))
    native: dict[str, Any] = (
        {"min_data_per_group": 2, "cat_smooth": 1.0} if library == "lightgbm" else {"max_cat_to_onehot": 2}
    )
    model: Any = ranker_class(library)("xendcg", **SMALL, **native).fit(data)
    sets = model.model_.nodes().categories
    assert len(sets) > 5
    assert max(map(len, sets.values())) > 3
    rows = data.features.copy()
    rows[:20, 2] = 400  # a code that training has not seen
    path = rw.export(model, tmp_path / "model", name)
    np.testing.assert_allclose(READERS[name](path, rows), model.predict(rows), atol=1e-5, rtol=0)


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_vespa_asks_for_the_values_of_categories(library, tmp_path):
    """A value that training did not see, and a missing one, go where the library sends a missing one."""
    data = lists(missing=0.1, categorical=(2, 5))
    words = tuple(f"word {k}" for k in range(40))
    data = data.with_(categories={2: words, 5: tuple(range(100, 140))})
    native: dict[str, Any] = (
        {"min_data_per_group": 2, "cat_smooth": 1.0} if library == "lightgbm" else {"max_cat_to_onehot": 2}
    )
    model: Any = ranker_class(library)("xendcg", **SMALL, **native).fit(data)
    path, load = write(model, tmp_path / "model.json", "vespa")
    assert load.endswith(f"of type string there: {NAMES[2]}, {NAMES[5]}")
    rows = data.features[:300].copy()
    rows[:40, 2], rows[40:80, 5] = np.nan, np.nan
    texts = rows.astype(object)
    for column, listed in ((2, words), (5, tuple(map(str, range(100, 140))))):
        texts[:, column] = ["" if np.isnan(code) else listed[int(code)] for code in rows[:, column]]
    texts[:20, 2], texts[40:60, 5] = "never seen", "-7"
    np.testing.assert_allclose(read_vespa(path, texts), model.predict(rows), atol=1e-5, rtol=0)


@pytest.mark.parametrize("text", ["", 'a "quoted" one', "back\\slash", "two\nlines"])
def test_vespa_refuses_categories_that_its_expressions_cannot_hold(text, tmp_path):
    data = lists(missing=0.1, categorical=(2,))
    data = data.with_(categories={2: (*map(str, range(39)), text)})
    model = rw.LightGBMRanker("xendcg", **SMALL, min_data_per_group=2, cat_smooth=1.0).fit(data)
    with pytest.raises(
        ValueError, match=f"categories for Vespa must be printable.*got {re.escape(repr(text))}"
    ) as error:
        rw.export(model, tmp_path / "model.json", "vespa")
    assert NAMES[2] in str(error.value)
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_expressed_says_so(tmp_path):
    data = lists(missing=0.1, categorical=(2,))
    native: dict[str, Any] = {"min_data_per_group": 2, "cat_smooth": 1.0}
    model = rw.LightGBMRanker("xendcg", **SMALL, **native).fit(data)
    for name in ("elasticsearch", "solr"):
        with refusal(got="splits by category, of column 2", hint="…column of 0 and 1 for each category…"):
            rw.export(model, tmp_path / "model", name)
    cat = rw.CatBoostRanker("xendcg", **SMALL).fit(data)
    with pytest.raises(ValueError, match="splits by categories, of which CatBoost keeps statistics or hashes"):
        rw.export(cat, tmp_path / "model", "onnx")
    linear = rw.LightGBMRanker("xendcg", **SMALL, linear_tree=True).fit(lists(missing=0.0))
    with pytest.raises(ValueError, match=r"linear models \(linear_tree\)\. Hint: train without linear_tree"):
        rw.export(linear, tmp_path / "model", "treelite")
    zero = rw.LightGBMRanker("xendcg", **SMALL, zero_as_missing=True).fit(lists(missing=0.0))
    with pytest.raises(ValueError, match="zeros that stand for missing values"):
        rw.export(zero, tmp_path / "model", "vespa")
    assert not list(tmp_path.iterdir())


def test_other_shapes_of_trees(models, tmp_path):
    """Trees that are one leaf, unsymmetric trees of CatBoost, dropped trees of XGBoost, several trees a round."""
    data, rows = lists(missing=0.1), rows_for()
    flat = rw.LightGBMRanker("xendcg", **SMALL).fit(data)
    text = flat.model_.content().decode()
    head, first, rest = text.partition("\nTree=0\n")
    constant = "num_leaves=1\nnum_cat=0\nleaf_value=0.25\nis_linear=0\nshrinkage=1\n\n\n"
    last = rest.index("\nTree=1\n") + 1
    head = re.sub(r"tree_sizes=\d+", f"tree_sizes={len('Tree=0') + 1 + len(constant)}", head)
    schema = flat.model_.schema
    by_hand: Any = flat.library.forest.read((head + first + constant + rest[last:]).encode(), schema)
    flat.model_ = flat.library.forest.read(by_hand.booster.model_to_string().encode(), schema)
    assert flat.model_.n_trees == SMALL["rounds"]
    others = {
        "a constant": flat,
        "unsymmetric": rw.CatBoostRanker("xendcg", **SMALL, grow_policy="Lossguide").fit(data),
        "dart": rw.XGBoostRanker("xendcg", **SMALL, booster="dart", rate_drop=0.5).fit(data),
        "parallel": rw.XGBoostRanker("xendcg", **SMALL, num_parallel_tree=2, subsample=0.5).fit(data),
        "missing right": rw.CatBoostRanker("xendcg", **SMALL, nan_mode="Max").fit(data),
    }
    for what, model in others.items():
        for name in READERS:
            path = rw.export(model, tmp_path / "model", name, force=True)
            scores = READERS[name](path, rows)
            np.testing.assert_allclose(scores, model.predict(rows), atol=1e-5, rtol=0, err_msg=f"{what} {name}")


def test_ranklib_has_given_way_to_elasticsearch(models, tmp_path):
    with refusal(
        got="'ranklib'", hint="set format='elasticsearch': its model/xgboost+json is read by the same plugin…"
    ):
        rw.export(models["lightgbm", "xendcg", True], tmp_path / "model.txt", "ranklib")
    assert not list(tmp_path.iterdir())


def test_thresholds_for_solr_are_those_after_its_slack():
    rng = np.random.default_rng(3)
    exponents = rng.uniform(-40, 38, 20_000)
    usual = rng.normal(0, 30, 20_000)
    thresholds = np.r_[rng.choice([-1, 1], exponents.size) * 10.0**exponents, usual, np.round(usual * 8) / 16, np.inf]
    thresholds = np.r_[thresholds.astype(np.float32), np.array([0.0, 1e-35, -1e-35, 3.4e38, -3.4e38], np.float32)]
    sums = before_slack(thresholds) + np.float32(1e-6)
    exact = sums == thresholds
    assert exact[20_000:60_000].mean() > 0.999
    # Elsewhere no sum is closer: values between, of which 0 is none, are as good as never seen.
    assert (sums <= thresholds).all()
    gap = thresholds[~exact] - sums[~exact]
    assert (gap <= np.maximum(2 * np.spacing(np.abs(thresholds[~exact])), 1.2e-13)).all()
    assert ((sums >= 0) == (thresholds >= 0)).all()


def test_solr_is_told_where_missing_values_go_only_where_that_is_not_where_zero_goes(models, tmp_path):
    for trained_with, form in ((False, True), (True, False)):
        path = rw.export(models["lightgbm", "xendcg", trained_with], tmp_path / f"{trained_with}.json", "solr")
        content = json.loads(path.read_text())
        assert content["name"] == str(trained_with)
        assert ("isNullSameAsZero" not in content["params"]) == form
        assert ('"missing"' not in path.read_text()) == form


# Nets


@pytest.fixture(scope="module")
def net_data() -> rw.RankingDataset:
    return lists(missing=0.1).with_(feature_names=None)


def net(data: rw.RankingDataset, **settings: Any) -> Any:
    return rw.NeuralRanker("softmax_ce", epochs=2, threads=1, device="cpu", **settings).fit(data)


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "elu", "tanh", "sigmoid"])
def test_nets_in_onnx(activation, net_data, tmp_path):
    transform = {"relu": "log1p", "gelu": "raw", "silu": "quantile"}.get(activation, "log1p+standardize")
    model = net(net_data, hidden=(16, 8), activation=activation, batch_norm="all", dropout=0.2, transform=transform)
    rows = rows_for()[4:]
    rows[0] *= np.float32(1e-5)
    path = rw.export(model, tmp_path / "net.onnx", "onnx")
    np.testing.assert_allclose(read_onnx(path, rows), model.predict(rows), atol=1e-5, rtol=1e-5)


def test_nets_of_members_in_onnx(net_data, tmp_path):
    model = net(net_data, hidden=(16, 8), members=3, batch_norm="input", transform="quantile")
    rows = rows_for()[4:]
    path = rw.export(model, tmp_path / "net.onnx", "onnx")
    np.testing.assert_allclose(read_onnx(path, rows), model.predict(rows), atol=1e-5, rtol=1e-5)


def test_a_linear_net_in_elasticsearch(net_data, tmp_path):
    model = net(net_data, hidden=(), transform="standardize", batch_norm="input")
    path = rw.export(model, tmp_path / "linear.json", "elasticsearch", names=NAMES)
    body = json.loads(path.read_text())["model"]
    assert (body["name"], body["model"]["type"]) == ("linear", "model/linear")
    weights = json.loads(body["model"]["definition"])
    assert list(weights) == NAMES
    rows = documents(1000, missing=0.0, seed=9)
    apart = model.predict(rows) - rows.astype(np.float64) @ np.array(list(weights.values()))
    np.testing.assert_allclose(apart, apart[0], atol=1e-5)  # a constant, which changes no ranking


def test_nets_where_only_trees_are_read(net_data, tmp_path):
    model = net(net_data, hidden=(4,), transform="log1p")
    for name in ("treelite", "vespa", "solr"):
        with refusal(what="…takes trees, and no nets", hint="export the net to onnx…"):
            rw.export(model, tmp_path / "net", name, names=NAMES)
    with refusal(what="…takes trees and linear models", got="a net with the logarithm of features"):
        rw.export(model, tmp_path / "net", "elasticsearch", names=NAMES)
    with refusal(got="a net with 1 hidden layers"):
        rw.export(net(net_data, hidden=(4,), transform="raw"), tmp_path / "net", "elasticsearch", names=NAMES)


# Files, names and the command


def test_onnx_says_what_it_is(models, tmp_path):
    path = rw.export(models["xgboost", "lambdarank", False], tmp_path / "mine.onnx", "onnx")
    model = onnx.load(path)
    notes = {note.key: note.value for note in model.metadata_props}
    assert notes == {"ranker": "xgboost", "objective": "lambdarank", "features": "\n".join(NAMES)}
    assert (model.producer_name, model.graph.name) == ("rankwise", "mine")


def test_names_are_those_of_the_other_system(models, net_data, tmp_path):
    model = models["lightgbm", "xendcg", False]
    other = [f"feature_{j}" for j in range(8)]
    path = rw.export(model, tmp_path / "model.json", "elasticsearch", names=other)
    rows = rows_for()[:50]
    np.testing.assert_allclose(read_plugin(path, rows, other), model.predict(rows), atol=1e-5)
    with refusal(what="feature names must be as many as there are features, and all different"):
        rw.export(model, tmp_path / "other.json", "elasticsearch", names=other[:3])
    with refusal(what="the name of a feature must be a rank feature or a function of Vespa", got="'my title'"):
        rw.export(model, tmp_path / "other.json", "vespa", names=["my title", *other[1:]])
    nameless = rw.LightGBMRanker("xendcg", **SMALL).fit(net_data)
    for name, system in (("elasticsearch", "Elasticsearch's plugin"), ("vespa", "Vespa"), ("solr", "Solr")):
        with pytest.raises(ValueError, match=rf"{system} finds features by their names.*name all 8 with names=\[…\]"):
            rw.export(nameless, tmp_path / "other.json", name)


def test_files_are_kept_and_models_checked(models, tmp_path):
    model = models["lightgbm", "xendcg", False]
    path = tmp_path / "model.onnx"
    path.write_text("mine")
    refuses(lambda: rw.export(model, path, "onnx"), FileExistsError, what="…exists already and is kept")
    assert path.read_text() == "mine"
    assert rw.export(model, path, "onnx", force=True) == path
    with refusal(what="unknown format", got="'onx'", hint="did you mean 'onnx'"):
        rw.export(model, tmp_path / "other", "onx")
    with refusal(what="this LightGBMRanker is not trained yet"):
        rw.export(rw.LightGBMRanker(), tmp_path / "other", "onnx")
    with refusal(what="only rankers of trees, nets and linear ones can be exported", got="list"):
        rw.export([1], tmp_path / "other", "onnx")
    assert [one.name for one in tmp_path.iterdir()] == ["model.onnx"]


def test_the_command_writes_what_the_function_writes(models, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = models["lightgbm", "xendcg", False]
    model.save("model")
    result = run("export", "model", "-o", "model.onnx", "--format", "onnx")
    assert "wrote model.onnx" in result.stderr
    assert 'onnxruntime.InferenceSession("model.onnx")' in result.stdout
    assert Path("model.onnx").read_bytes() == rw.export(model, "again", "onnx").read_bytes().replace(b"again", b"model")
    Path("names.txt").write_text("".join(f"name_{j}\n" for j in range(8)))
    run("export", "model", "-o", "es.json", "--format", "elasticsearch", "--names", "names.txt")
    assert "name_3" in Path("es.json").read_text()
    document = json.loads(run("export", "model", "-o", "v.json", "-f", "vespa", "--json").stdout)
    assert document == {
        "model": "model",
        "output": "v.json",
        "format": "vespa",
        "bytes": Path("v.json").stat().st_size,
        "load": 'put it into models/ of the application, and write lightgbm("v.json") in a rank profile',
    }


def test_the_command_is_kind(models, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    models["xgboost", "xendcg", True].save("model")
    Path("there").write_text("mine")

    def refused(*words: str) -> str:
        result = run("export", *words, code=2)
        assert result.stdout == ""
        return " ".join(result.stderr.split())

    assert "there exists already and is kept" in refused("model", "-o", "there", "--format", "onnx")
    assert "did you mean 'treelite'" in refused("model", "-o", "out", "--format", "treelit")
    assert "there is no model nowhere" in refused("nowhere", "-o", "out", "--format", "onnx")
    assert "mkdir -p no" in refused("model", "-o", "no/out", "--format", "onnx")
    assert "there is no file names.txt" in refused("model", "-o", "out", "--format", "vespa", "--names", "names.txt")
    ranklib = refused("model", "-o", "out", "--format", "ranklib")
    assert "--format elasticsearch: its model/xgboost+json is read by the same plugin" in ranklib
