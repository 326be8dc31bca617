"""Forged model files are refused before the library sees them, in one sentence with the model's path."""

import hashlib
import io
import json
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rankwise as rw
from rankwise import check
from rankwise.base import threads
from rankwise.models import storage
from rankwise.models.formats import flatbuffer, ubjson
from rankwise.wings.recommend.model import verify as verify_factors
from tests.refusals import refusal, refuses

TREES: dict = {"rounds": 3, "leaves": 4, "min_documents": 5, "threads": 1}


@pytest.fixture(scope="module")
def data():
    whole = rw.synthetic(n_queries=30, n_features=4, n_docs=12.0, seed=3)
    features = whole.features.copy()
    features[:, 0] = (3 * whole.labels + np.arange(len(features)) % 3) % 7
    return rw.RankingDataset(features, whole.labels, whole.offsets, categorical=(0,))


def forge(path: Path, content: bytes | None = None, **about) -> None:
    """Put another file, or another description, in the place of those of a model, with right checksums."""
    whole = json.loads((path / "rankwise.json").read_text())
    listed, *_ = (entry for name, entry in whole["files"].items() if name != "training_queries.bin")
    if content is not None:
        (path / listed["name"]).write_bytes(content)
        listed |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    whole = {key: value for key, value in (whole | about).items() if key != "checksum" and value is not ...}
    (path / "rankwise.json").write_text(json.dumps({**whole, "checksum": storage._checksum(whole)}))


def refused(path: Path) -> str:
    with pytest.raises(ValueError) as told:
        rw.load(path)
    assert type(told.value) is check.InputError
    assert str(path) in str(told.value)
    return str(told.value)


@pytest.fixture(scope="module")
def lightgbm(data):
    return rw.LightGBMRanker("xendcg", cat_smooth=1, **TREES).fit(data)


def changed(content: bytes, tree: int, name: str, change) -> bytes:
    """Change a line of a tree, and the length of the tree."""
    head, *trees = content.split(b"\nTree=")
    start, end = trees[tree].split(b"\n" + name.encode() + b"=", 1)
    value, rest = end.split(b"\n", 1)
    new = change(value.split(b" "))
    trees[tree] = start + b"\n" + name.encode() + b"=" + b" ".join(new) + b"\n" + rest
    before, sizes = head.split(b"\ntree_sizes=")
    lengths = [int(size) for size in sizes.split()]
    lengths[tree] += len(b" ".join(new)) - len(value)
    return b"\nTree=".join((before + b"\ntree_sizes=" + " ".join(map(str, lengths)).encode() + b"\n", *trees))


def put(number: bytes, at: int = 0):
    return lambda values: [*values[:at], number, *values[at + 1 :]]


LIGHTGBM = [
    ("left_child", put(b"0"), "a left_child that is no node below at tree 1"),
    ("right_child", put(b"7"), "a right_child that is no node below at tree 1"),
    ("left_child", put(b"-9"), "a left_child that is no node below at tree 1"),
    ("left_child", put(b"-4", 1), "a node with two parents|a node with no parent"),
    ("split_feature", put(b"4"), "4 in split_feature, which must lie between 0 and 3 at tree 1"),
    ("leaf_value", lambda values: values[:-1], "3 where 4 numbers of leaf_value must be at tree 1"),
    ("leaf_value", put(b"0x1"), "something else where 4 numbers of leaf_value must be at tree 1"),
    ("leaf_value", put(b"1-1"), "something in leaf_value that is no number"),
    ("leaf_count", put(b"9" * 30), "something in leaf_count that is no number"),
    ("num_leaves", put(b"0"), "0 in num_leaves, which must lie between 1 and"),
    ("num_leaves", put(b"1000000"), "4 where 1000000 numbers of leaf_value must be"),
    ("decision_type", put(b"13"), "13 in decision_type, which must lie between 0 and 11 at tree 1"),
    ("threshold", put(b"5"), "a node of categories that are not there at tree 1"),
    ("cat_boundaries", put(b"1"), "borders of categories that do not rise from 0 at tree 1"),
    ("cat_threshold", lambda values: [*values, b"1"], "numbers of cat_threshold must be at tree 1"),
    ("shrinkage", lambda values: [b"1\nTree=7"], "no node|not that of the tree|not name=value|which end where"),
]


@pytest.mark.parametrize(("name", "change", "words"), LIGHTGBM, ids=[f"{one[0]}: {one[2][:30]}" for one in LIGHTGBM])
def test_lightgbm(lightgbm, tmp_path, name, change, words):
    path = lightgbm.save(tmp_path / "model")
    content = lightgbm.model_.content()
    forge(path, changed(content, 1, name, lambda values: values))
    rw.load(path)
    forge(path, changed(content, 1, name, change))
    message = refused(path)
    assert "the model file is damaged or forged: got" in message
    assert any(word in message for word in words.split("|")), message


def test_lightgbm_around_the_trees(lightgbm, tmp_path):
    path, content = lightgbm.save(tmp_path / "model"), lightgbm.model_.content()
    for old, new, words in (
        (b"num_tree_per_iteration=1", b"num_tree_per_iteration=0", "another num_tree_per_iteration than 1"),
        (b"max_feature_idx=3", b"max_feature_idx=2", "another max_feature_idx than 3"),
        (b"feature_names=", b"feature_names=x ", "5 feature_names for 4 features"),
        (b"tree_sizes=", b"tree_sizes=1 ", "a length of 1 bytes that is not that of the tree at tree 0"),
        (b"tree_sizes=", b"tree_sizes=x ", "lengths of trees that are no numbers"),
        (b"[boosting: gbdt]", b"[boosting]", "a line that is not [name: value] at the parameters"),
        (b"end of parameters", b"end of parameter", "no end or no beginning at the parameters"),
        (b"pandas_categorical:null", b'pandas_categorical:[["a"]]', "categories of pandas"),
        (b"tree\nversion", b"tree\0version", "does not begin as a model of LightGBM"),
        (b"objective=lambdarank", b"objective=multiclass num_class:9", "an objective that ranks nothing"),
    ):
        assert old in content
        forge(path, content.replace(old, new, 1))
        assert words in refused(path)


def test_xgboost(data, tmp_path):
    model = pytest.importorskip("xgboost") and rw.XGBoostRanker("xendcg", max_cat_to_onehot=2, **TREES).fit(data)
    path, content = model.save(tmp_path / "model"), model.model_.content()
    document = ubjson.decode(content)
    tree = document["learner"]["gradient_booster"]["model"]["trees"][1]

    def replaced(name: str, at: int, number: int) -> bytes:
        values: np.ndarray = tree[name]
        kinds = {"int32": "l", "int64": "L", "uint8": "U"}
        head = f"{name}[${kinds[str(values.dtype)]}#L".encode() + struct.pack(">q", values.size)
        other = values.copy()
        other[at] = number
        before, after = (head + one.astype(one.dtype.newbyteorder(">")).tobytes() for one in (values, other))
        first = content.find(before, content.find(before) + 1) if content.count(before) > 1 else content.find(before)
        assert first > 0
        return bytes(content[:first] + after + content[first + len(before) :])

    for name, at, number, words in (
        ("left_children", 0, 0, "a node with two parents, or one above itself|names another parent"),
        ("left_children", 0, 99, "a child that is not there"),
        ("left_children", 0, -1, "a node with one child"),
        ("parents", 2, 2**31 - 1, "a root inside a tree"),
        ("parents", 2, 77, "a parent that is not there"),
        ("split_indices", 0, 4, "something in split_indices that does not lie between 0 and 3"),
        ("split_type", -1, 1, "sets of categories that are not those of the nodes"),
    ):
        forge(path, replaced(name, at, number))
        message = refused(path)
        assert any(word in message for word in words.split("|")), message
    four = b"num_featureSL" + struct.pack(">q", 1) + b"4"
    for broken, words in (
        (content[:-1], "a length of 1"),
        (content + b"}", "1 bytes after the end of the document"),
        (content.replace(four, four[:-1] + b"5"), "'5' as num_feature, which must lie between 4 and 4"),
        (b"{" * 100, "something else where a length must be"),
        (b"{L" + struct.pack(">q", 1) + b"a" + b"[#L" + struct.pack(">q", 2**62), "a list of"),
    ):
        forge(path, broken)
        assert words in refused(path)


def test_catboost(data, tmp_path):
    pytest.importorskip("catboost")
    model = rw.CatBoostRanker("xendcg", **TREES).fit(data)
    path, content = model.save(tmp_path / "model"), model.model_.content()
    (size,) = struct.unpack_from("<I", content, 4)
    trees = flatbuffer.FlatTable.root(content[8 : 8 + size]).table(1)
    assert trees is not None

    def replaced(field: int, at: int, number: int, kind: str = "<i") -> bytes:
        place = trees._follow(field)
        assert place is not None
        found = bytearray(content)
        struct.pack_into(kind, found, 8 + place + 4 + at * struct.calcsize(kind), number)
        return bytes(found)

    for broken, words in (
        (replaced(1, 0, 10_000), "a split that is not among the"),
        (replaced(2, 0, 9), "sizes of trees that are not those of their splits"),
        (replaced(3, 1, 0), "trees that do not begin where the one before ends"),
        (replaced(8, -1, 3), "which are not those of the trees|weights of"),
        (replaced(17, 0, 500, "<H"), "splits by features that are not there"),
        (content[:-20], "a length of"),
        (content + b"x", "after the end|a length of|tables of statistics"),
        (b"CBM1" + struct.pack("<I", 4) + b"\0" * 4, "a table that is too short"),
        (b"CBM2" + content[4:], "does not begin as a model of CatBoost"),
    ):
        forge(path, broken)
        message = refused(path)
        assert any(word in message for word in words.split("|")), message


def test_factors():
    whole = {
        "users": np.array([1, 2]),
        "items": np.array([[65], [66], [67]], np.uint32),
        "user_vectors": np.ones((2, 4), np.float32),
        "item_vectors": np.ones((3, 4), np.float32),
        "item_bias": np.zeros(0, np.float32),
        "popularity": np.ones(3),
        "seen_offsets": np.array([0, 1, 3]),
        "seen_items": np.array([0, 1, 2], np.int32),
    }
    verify_factors(whole)
    for name, array, words in (
        ("users", np.array([2, 1]), "users that do not rise"),
        ("items", np.array([[65], [66], [2**31]], np.uint32), "something in items that is no letter"),
        ("items", np.ones((3, 0), np.uint32), "items of the shape"),
        ("user_vectors", np.ones((2, 5), np.float32), "item_vectors of the shape"),
        ("item_vectors", np.ones((3, 4)), "item_vectors of the shape .* float64"),
        ("item_bias", np.zeros(2, np.float32), "item_bias of the shape"),
        ("seen_offsets", np.array([0, 5, 3]), "lists of items that do not follow each other"),
        ("seen_items", np.array([0, 1, 3], np.int32), "an item that is not among the 3"),
    ):
        with pytest.raises(ValueError, match=words):
            verify_factors(whole | {name: array})
    with refusal(got="no popularity"):
        verify_factors({name: array for name, array in whole.items() if name != "popularity"})


def test_nets(data, tmp_path):
    pytest.importorskip("torch")
    plain = data.with_(categorical=())
    path = rw.NeuralRanker("softmax_ce", hidden=(3,), epochs=1, threads=1).fit(plain).save(tmp_path / "model")
    settings = json.loads((path / "rankwise.json").read_text())["settings"]
    forge(path, settings=settings | {"hidden": [10**9, 10**9]})
    assert "for body.0.weight, which has (1000000000, 4)" in refused(path)
    forge(path, settings=settings | {"batch_norm": "all"})
    assert "weights without 'body" in refused(path) or "for body" in refused(path)
    forge(path, settings=settings | {"activation": "x"})
    assert "unknown activation" in refused(path)
    forge(path, content=b"\xff" * 40, settings=settings)
    assert "not that of a .safetensors file" in refused(path)


def test_arrays_that_are_compressed_are_refused_before_they_are_unpacked(tmp_path):
    ratings = rw.recommend.synthetic_ratings(n_users=12, n_items=20, n_ratings=8, seed=0)
    path = rw.recommend.EASE().fit(ratings).save(tmp_path / "model")
    (stored,) = path.glob("*.npz")
    with np.load(stored) as file:
        arrays = {name: file[name] for name in file.files}
    packed = io.BytesIO()
    np.savez_compressed(packed, **arrays | {"weights": np.zeros((4_000, 4_000), np.float32)})
    forge(path, packed.getvalue())
    assert "arrays must be stored as they are: got 64," in refused(path)


def test_descriptions(lightgbm, tmp_path):
    path = lightgbm.save(tmp_path / "model")
    whole = json.loads((path / "rankwise.json").read_text())
    for about, words in (
        ({"features": ...}, "is malformed (KeyError: 'features')"),
        ({"features": {"count": -1, "names": None}}, "the number of features of a model must be a whole number"),
        ({"features": {"count": 4, "names": ["a"]}}, "feature names must be as many"),
        ({"features": {"count": 2**40, "names": None}}, "another max_feature_idx than"),
        ({"parameters": [1]}, "is malformed"),
        ({"parameters": {"leafs": 3}}, "has no such parameter: got 'leafs'"),
        ({"history": {"loss": ["x"]}}, "could not convert"),
        ({"history": 3}, "is malformed"),
        ({"data": {"versions": 3}}, "is malformed"),
        ({"trees": 0}, "trees must be a whole number of at least 1"),
        ({"ranker": None}, "unknown ranker: got 'None'"),
        ({"best_round": 1e400}, "is malformed (OverflowError"),
    ):
        forge(path, **{key: value for key, value in whole.items() if key != "files"} | about)
        assert words in refused(path)


def test_no_library_is_asked_for_more_threads_than_can_be(lightgbm, data):
    model = rw.LightGBMRanker(**TREES | {"threads": 100_000})
    refuses(lambda: model.fit(data), what="threads must be at most 1024", got="100000")
    with refusal(what="threads must be at most 1024"), threads.use_threads(1025):
        pass


def test_names_that_would_end_the_process():
    refuses(lambda: check.feature_names(["a", "b\0"], 2), what="feature names must not hold a zero byte")


def test_a_model_of_a_stranger_in_a_process_of_its_own(lightgbm, data, tmp_path):
    """As the documentation has it."""
    rw.data.write_parquet(data, tmp_path / "test.parquet")
    lightgbm.save(tmp_path / "model")
    words = ["predict", "model", "test.parquet", "-o", "scores.npy"]
    subprocess.run([sys.executable, "-m", "rankwise", *words], check=True, cwd=tmp_path, capture_output=True)
    assert np.array_equal(np.load(tmp_path / "scores.npy"), lightgbm.predict(data))


def test_linear_leaves_cannot_be_explained(data):
    plain = data.with_(categorical=())
    model = rw.LightGBMRanker("xendcg", linear_tree=True, **TREES).fit(plain)
    refuses(lambda: model.explain(plain), what="LightGBM cannot explain these trees", hint="train without linear_tree")
